"""Every value that a row can have has its words."""

import pytest

from ndgather.pages import document
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
        (BatchRule, document.BATCH),
        (OffAxisRule, document.OFF_AXIS),
        (Outside, document.OUTSIDE),
        (Outside, document.OUTSIDE_IN_SHORT),
        (Duplicates, document.DUPLICATES),
        (Reduction, document.REDUCTIONS),
        (Kind, document.OUTPUTS),
        (Kind, document.SYMBOLS),
        (Kind, CALLS),
    ],
)
def test_every_value_has_a_text(values, texts):
    assert list(texts) == list(values)


def test_every_range_but_that_of_choices_has_a_text():
    assert [*document.RANGES, AttributeRange.CHOICE] == [
        *(each for each in AttributeRange if each is not AttributeRange.CHOICE),
        AttributeRange.CHOICE,
    ]


@pytest.mark.parametrize("kind", Kind)
def test_every_tensor_has_a_text(kind):
    roles = {Role.DATA, Role.INDICES} | ({Role.UPDATES} if kind.scatters else set())
    assert {role for each, role in document.INPUTS if each is kind} == roles
