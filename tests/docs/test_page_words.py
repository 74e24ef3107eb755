"""Every value that a row can have has its words."""

import pytest

from ndgather.pages import words
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
        (BatchRule, words.BATCH),
        (OffAxisRule, words.OFF_AXIS),
        (Outside, words.OUTSIDE),
        (Outside, words.OUTSIDE_IN_SHORT),
        (Duplicates, words.DUPLICATES),
        (Reduction, words.REDUCTIONS),
        (Kind, words.OUTPUTS),
        (Kind, words.SYMBOLS),
        (Kind, CALLS),
    ],
)
def test_every_value_has_a_text(values, texts):
    assert list(texts) == list(values)


def test_every_range_but_that_of_choices_has_a_text():
    assert [*words.RANGES, AttributeRange.CHOICE] == [
        *(each for each in AttributeRange if each is not AttributeRange.CHOICE),
        AttributeRange.CHOICE,
    ]


@pytest.mark.parametrize("kind", Kind)
def test_every_tensor_has_a_text(kind):
    roles = {Role.DATA, Role.INDICES} | ({Role.UPDATES} if kind.scatters else set())
    assert {role for each, role in words.INPUTS if each is kind} == roles
