"""The rows of the table, compared with the schemas of onnx and checked for consistency."""

from __future__ import annotations

import re

import pytest

from ndgather.array_call import Kind
from ndgather.published.rows import ROWS
from ndgather.published.schema import (
    AttributeRange,
    AttributeType,
    BatchRule,
    Duplicates,
    OffAxisRule,
    Reduction,
    Role,
)

ONNX = tuple(row for row in ROWS if row.domain == "ai.onnx")
EVERY = pytest.mark.parametrize("row", ROWS, ids=str)
EVERY_ONNX = pytest.mark.parametrize("row", ONNX, ids=str)

VERSIONS = {
    ("ai.onnx", "GatherND"): (11, 12, 13),
    ("ai.onnx", "GatherElements"): (11, 13),
    ("ai.onnx", "Gather"): (1, 11, 13),
    ("ai.onnx", "ScatterND"): (11, 13, 16, 18),
    ("ai.onnx", "ScatterElements"): (11, 13, 16, 18),
    ("com.microsoft", "GatherND"): (1,),
    ("openvino", "GatherND"): (5, 8),
    ("openvino", "GatherElements"): (6,),
    ("openvino", "Gather"): (1, 7, 8),
    ("openvino", "ScatterNDUpdate"): (3, 15),
    ("openvino", "ScatterElementsUpdate"): (3, 12),
    ("ai.onnx", "TensorScatter"): (24,),
    ("com.microsoft", "GatherBlockQuantized"): (1,),
    ("openvino", "ScatterUpdate"): (3,),
    ("openvino", "SliceScatter"): (15,),
    ("openvino", "GatherTree"): (1,),
}


def test_every_version_has_one_row():
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for row in ROWS:
        found[row.domain, row.name] = (*found.get((row.domain, row.name), ()), row.since)
    assert found == VERSIONS


@EVERY
def test_row_is_consistent(row):
    for each in row.inputs:
        assert len(set(each.types)) == len(each.types)
    for attribute in row.attributes:
        assert attribute.required is (attribute.default is None)
        chosen = attribute.range is AttributeRange.CHOICE
        words = attribute.words or [each.word for each in attribute.choices]
        assert chosen is (attribute.default in words)
    variables = {each.type_variable for each in row.inputs}
    assert {each.type_variable for each in row.outputs} <= variables


@EVERY
def test_roles_of_inputs_are_those_of_the_kind(row):
    if row.definition is not None:
        optional = [each.optional for each in row.inputs]
        assert optional == sorted(optional)
        assert len({each.role for each in row.inputs}) == len(row.inputs)
        return
    roles = [each.role for each in row.inputs]
    assert roles[:2] == [Role.DATA, Role.INDICES]
    assert (Role.UPDATES in roles) is row.kind.scatters
    by_axis = row.kind not in {Kind.GATHER_ND, Kind.SCATTER_ND}
    assert ((Role.AXIS in roles) + (row.attribute("axis") is not None)) == by_axis
    assert (row.batch_rule is not BatchRule.NONE) is (row.attribute("batch_dims") is not None)
    by_element = row.kind in {Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS}
    assert (row.off_axis_rule is not OffAxisRule.FREE) is by_element
    assert (row.duplicates is not Duplicates.NOT_APPLICABLE) is row.kind.scatters
    same_variable = [each.types for each in row.inputs if each.type_variable == "T"]
    assert len(set(same_variable)) == 1
    assert {each.type_variable for each in row.outputs} == {"T"}


@EVERY
def test_row_has_a_source_and_a_summary(row):
    assert row.source.startswith("https://")
    assert str(row.since) in row.source or row.domain == "com.microsoft"
    for text in (row.summary, row.formula, *row.notes):
        assert text
        assert "  " not in text
    for erratum in row.errata:
        assert erratum.place
        assert erratum.quote
        assert erratum.correction


def test_each_choice_has_a_native_name():
    words = {
        choice.word: choice.reduction
        for row in ROWS
        for attribute in row.attributes
        for choice in attribute.choices
    }
    assert words == {
        "none": Reduction.NONE,
        "add": Reduction.ADD,
        "mul": Reduction.MUL,
        "sum": Reduction.ADD,
        "sub": Reduction.SUB,
        "prod": Reduction.MUL,
        "min": Reduction.MIN,
        "max": Reduction.MAX,
        "mean": Reduction.MEAN,
    }


# against onnx

NAMES_OF_TYPES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}


def schema(row):
    onnx = pytest.importorskip("onnx")
    return onnx.defs.get_schema(row.name, row.since, "")


def types_of(strings):
    plain = (re.fullmatch(r"tensor\((.*)\)", each)[1] for each in strings)
    return sorted(NAMES_OF_TYPES.get(each, each) for each in plain)


@EVERY_ONNX
def test_since_version_equals_that_of_the_schema(row):
    assert schema(row).since_version == row.since


@EVERY_ONNX
def test_inputs_and_outputs_equal_those_of_the_schema(row):
    published = schema(row)
    constraints = {
        each.type_param_str: each.allowed_type_strs for each in published.type_constraints
    }
    for mine, theirs in zip(row.inputs, published.inputs, strict=True):
        assert (mine.name, mine.type_variable) == (theirs.name, theirs.type_str)
        assert sorted(mine.types) == types_of(constraints.get(theirs.type_str, [theirs.type_str]))
    for mine, theirs in zip(row.outputs, published.outputs, strict=True):
        assert (mine.name, mine.type_variable) == (theirs.name, theirs.type_str)


@EVERY_ONNX
def test_attributes_equal_those_of_the_schema(row):
    onnx = pytest.importorskip("onnx")
    published = schema(row).attributes
    assert sorted(each.name for each in row.attributes) == sorted(published)
    for mine in row.attributes:
        theirs = published[mine.name]
        default = onnx.helper.get_attribute_value(theirs.default_value)
        if mine.type is AttributeType.STRING:
            default = default.decode()
        assert mine.type.value == theirs.type.name.lower()
        assert (mine.default, mine.required) == (default, theirs.required)


@EVERY_ONNX
def test_choices_match_the_schema(row):
    attribute = row.attribute("reduction")
    if attribute is None:
        return
    text = schema(row).attributes["reduction"].description
    assert {each.word for each in attribute.choices} == set(re.findall(r"'(\w+)':", text))


@EVERY_ONNX
def test_no_version_between_rows_is_missing(row):
    onnx = pytest.importorskip("onnx")
    newest = onnx.defs.get_schema(row.name, onnx.defs.onnx_opset_version(), "").since_version
    assert newest == max(VERSIONS[row.domain, row.name])


@EVERY_ONNX
def test_errata_quote_the_schema(row):
    published = schema(row)
    text = " ".join(
        [
            published.doc,
            *(each.description for each in (*published.inputs, *published.outputs)),
            *(each.description for each in published.attributes.values()),
            *(each.description for each in published.type_constraints),
        ]
    )
    plain = re.sub(r"[\s,]+", "", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for erratum in row.errata:
        assert re.sub(r"[\s,]+", "", erratum.quote) in plain, erratum.quote
