"""Differences between versions, as the pages show them."""

import json

import pytest

from ndgather import pages
from ndgather.errors import AttributeValueError
from ndgather.published import operators

PAIRS = [
    pytest.param(
        here,
        there,
        f"{there.domain}:{there.version}",
        id=f"{here.row} and {there.row}",
    )
    for here in operators()
    for there in operators()
    if here.row.is_like(there.row)
]


def differences(name, diff, **options):
    """Return the section of differences: its rules, {rule: (here, there)}, and its examples."""
    page = json.loads(pages.operator_page(name, diff=diff, format="json", **options))
    *_, (title, (rules, *examples)) = page["sections"].items()
    assert title.startswith("Differences from ")
    if isinstance(rules, str):
        return rules, examples
    return {row.pop("rule"): tuple(row.values()) for row in rules}, examples


@pytest.mark.parametrize(("here", "there", "diff"), PAIRS)
def test_every_difference_has_its_line(here, there, diff):
    rules, examples = differences(here.name, diff, domain=here.domain, version=here.version)

    if here is there:
        assert rules == "The rules are the same; only the wording differs."
    else:
        assert len(rules) == len(here.diff(there))
        assert all(mine != other for mine, other in rules.values())
    for example in examples:
        mine, other = example["runs"]
        assert (mine["operator"], other["operator"]) == (str(here.row), str(there.row))
        assert mine["tensors"] == other["tensors"]
        assert (mine["result"], mine["error"]) != (other["result"], other["error"])


def test_13_and_12_of_gather_nd_differ_in_bfloat16_only():
    assert differences("GatherND", "12") == (
        {"types of data": ("also bfloat16", "none of these")},
        [],
    )


def test_12_and_11_of_gather_nd_differ_in_batch_dims():
    rules, examples = differences("GatherND", "11", version=12)

    assert rules == {
        "attribute batch_dims": ("int, default 0, allowed: 0..min(q, r)-1", "none"),
        "batch axes": (
            "the first batch_dims sizes of indices and data must be equal; nothing is broadcast",
            "none",
        ),
    }
    assert [example["title"] for example in examples] == [
        "One batch axis, in both",
        "Two batch axes, in both",
        "Batch axes of different sizes, in both",
    ]
    for example in examples:
        assert example["runs"][1]["error"]["type"] == "AttributeValueError"


def test_dialects_differ_where_users_trip():
    rules, examples = differences("Gather", "openvino:8")

    assert rules["indices out of bounds"] == ("an error", "zeros in the result")
    (outside,) = (each for each in examples if each["title"].startswith("An index out of"))
    assert outside["runs"][0]["error"]["type"] == "IndexOutOfBoundsError"
    assert outside["runs"][1]["result"]["values"] == [[0, 1, 2], [0, 0, 0]]


def test_the_counterpart_may_have_another_name_and_other_words():
    rules, _ = differences("ScatterND", "openvino:15")

    assert rules["choices of reduction"] == ("also add, mul", "also sum (add), sub, prod (mul)")


def test_the_empty_domain_is_that_of_onnx():
    assert differences("GatherND", ":12") == differences("GatherND", "12")
    assert differences("GatherND", ":12", domain="openvino") == differences(
        "GatherND", "ai.onnx:12", domain="openvino"
    )


@pytest.mark.parametrize("place", ["14", "openvino:9", "openvino", "tensorflow:1", "x", ""])
def test_an_unknown_version_is_answered_with_those_there_are(place):
    # A version that there is not is no other version misspelled.
    hint = "; did you mean 'openvino:8'?" if place == "openvino" else ""
    with pytest.raises(AttributeValueError) as caught:
        pages.operator_page("GatherND", diff=place)

    assert str(caught.value) == (
        f"doc: diff = {place!r} is unknown (allowed: '11', '12', '13', 'com.microsoft:1', "
        f"'openvino:5', 'openvino:8'){hint}"
    )


def test_versions_say_what_each_has_changed():
    page = json.loads(pages.operator_page("Gather", "openvino", format="json"))

    (table,) = page["sections"]["Versions"]
    assert table[:2] == [
        {"version": "8", "change": "index values: -s..s-1 (before: 0..s-1)"},
        {
            "version": "",
            "change": "indices out of bounds: zeros in the result (before: undefined in the "
            "text; this package raises an error)",
        },
    ]
    assert table[-1] == {"version": "1", "change": "the first version here"}
