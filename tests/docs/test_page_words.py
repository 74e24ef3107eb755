"""Every value that a row can have has its words."""

import pytest

from ndgather.pages import rule_texts
from ndgather.pages.examples import CALLS
from ndgather.published.schema import (
    AttributeRange,
    BatchRule,
    Duplicates,
    Kind,
    OffAxisRule,
    Outside,
    Reduction,
    Role,
)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (BatchRule, rule_texts.BATCH),
        (OffAxisRule, rule_texts.OFF_AXIS),
        (Outside, rule_texts.OUTSIDE),
        (Outside, rule_texts.OUTSIDE_IN_SHORT),
        (Duplicates, rule_texts.DUPLICATES),
        (Reduction, rule_texts.REDUCTIONS),
        (Kind, rule_texts.OUTPUTS),
        (Kind, rule_texts.SYMBOLS),
        (Kind, CALLS),
    ],
)
def test_every_value_has_a_text(values, texts):
    assert list(texts) == list(values)


def test_every_range_but_that_of_choices_has_a_text():
    assert [*rule_texts.RANGES, AttributeRange.CHOICE] == [
        *(each for each in AttributeRange if each is not AttributeRange.CHOICE),
        AttributeRange.CHOICE,
    ]


@pytest.mark.parametrize("kind", Kind)
def test_every_tensor_has_a_text(kind):
    roles = {Role.DATA, Role.INDICES} | ({Role.UPDATES} if kind.scatters else set())
    assert {role for each, role in rule_texts.INPUTS if each is kind} == roles
