"""Every value that a row can have has its words."""

import pytest

from ndgather.pages import rule_texts
from ndgather.pages.examples import CALLS
from ndgather.published.schema import (
    OPERATOR_KINDS,
    AttributeRange,
    BatchRule,
    Duplicates,
    OffAxisRule,
    Outside,
    Reduction,
    Role,
)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (Outside, rule_texts.OUTSIDE),
        (Outside, rule_texts.OUTSIDE_IN_SHORT),
        (Reduction, rule_texts.REDUCTIONS),
        (OPERATOR_KINDS, rule_texts.OUTPUTS),
        (OPERATOR_KINDS, rule_texts.SYMBOLS),
        (OPERATOR_KINDS, CALLS),
    ],
)
def test_every_value_has_a_text(values, texts):
    assert list(texts) == list(values)


@pytest.mark.parametrize("rules", [BatchRule, OffAxisRule, Duplicates, AttributeRange])
def test_the_values_of_rules_are_texts_of_their_own(rules):
    assert len({rule_texts.described(rule) for rule in rules}) == len(rules)


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_every_tensor_has_a_text(kind):
    roles = {Role.DATA, Role.INDICES} | ({Role.UPDATES} if kind.scatters else set())
    assert {role for each, role in rule_texts.INPUTS if each is kind} == roles
