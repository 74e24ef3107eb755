"""Differences between versions, as the pages show them."""

import pytest
from operator_pages import are_compared
from operator_pages.document import Paragraph, string
from operator_pages.version_page import changes, comparison

from ndgather.published import operator, operators

GATHER_ND = {op.version: op for op in operators("GatherND", "ai.onnx")}
PAIRS = [
    pytest.param(here, there, id=f"{here.row} and {there.row}")
    for here in operators()
    for there in operators()
    if are_compared(here, there)
]


def differences(here, there):
    """Return the section of differences: its rules, {rule: (here, there)}, and its examples."""
    section = comparison(here, there)
    rules, *examples = section.blocks
    assert section.title == f"Differences from {there.row}"
    if isinstance(rules, Paragraph):
        return rules.text, examples
    return {
        string(rule): (string(mine), string(other)) for rule, mine, other in rules.rows
    }, examples


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_every_difference_has_a_line(here, there):
    rules, examples = differences(here, there)

    if here is there:
        assert rules == "The rules are the same; only the wording differs."
    else:
        assert len(rules) == len(here.diff(there))
        assert all(mine != other for mine, other in rules.values())
    for example in examples:
        mine, other = example.runs
        assert (mine.operator, other.operator) == (str(here.row), str(there.row))
        assert repr(mine.tensors) == repr(other.tensors)
        assert (repr(mine.result), mine.error) != (repr(other.result), other.error)


def test_gather_nd_13_and_12_differ_only_in_bfloat16():
    assert differences(GATHER_ND[13], GATHER_ND[12]) == (
        {"types of data": ("also bfloat16", "none of these")},
        [],
    )


def test_gather_nd_12_and_11_differ_in_batch_dims():
    rules, examples = differences(GATHER_ND[12], GATHER_ND[11])

    assert rules == {
        "attribute batch_dims": ("int, default 0, allowed: 0..min(q, r)-1", "none"),
        "batch axes": (
            "the first batch_dims sizes of indices and data must be equal; nothing is broadcast",
            "none",
        ),
    }
    assert [example.title for example in examples] == [
        "One batch axis",
        "Two batch axes",
        "Batch axes of different sizes",
    ]
    for example in examples:
        assert example.runs[1].error[0] == "AttributeValueError"


def test_dialects_differ_in_common_mistakes():
    rules, examples = differences(operator("Gather"), operator("Gather", domain="openvino"))

    assert rules["out-of-bounds indices"] == ("an error", "zeros in the result")
    (outside,) = (each for each in examples if each.title.startswith("An out-of-bounds"))
    assert outside.runs[0].error[0] == "IndexOutOfBoundsError"
    assert outside.runs[1].result.tolist() == [[0, 1, 2], [0, 0, 0]]


def test_counterpart_may_have_another_name_and_wording():
    rules, _ = differences(operator("ScatterND"), operator("ScatterNDUpdate", domain="openvino"))

    assert rules["choices of reduction"] == ("also add, mul", "also sum (add), sub, prod (mul)")


def test_changes_of_a_version_are_listed():
    newest, older = (operator("Gather", domain="openvino", version=number) for number in (8, 7))

    assert [string(text) for text in changes(newest, older)] == [
        "index values: -s..s-1 (before: 0..s-1)",
        "out-of-bounds indices: zeros in the result (before: undefined by the specification; this "
        "package raises an error)",
    ]
