"""Findings of `check` about 64-bit integers and about nodes other than gathers and scatters."""

import pytest
from onnx.parser import parse_model

from ndgather.models import onnx as onnx_models


def found_in(text, opset=18):
    model = parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    return [(each.severity.value, each.rule, each.where) for each in onnx_models.check(model)]


GATHER = "at = Constant<value = int64[1] {0}>()  z = Gather(v, at)  y = Flatten(z)"
WIDE = [("differs", "64-bit integers", "Gather of z")]


@pytest.mark.parametrize(
    "body",
    [
        "v = Shape(x)",
        "v = ArgMax(x)",
        "v = NonZero(x)",
        "v = Constant<value = int64[2] {5, -6}>()",
        "k = Constant<value = int64[1] {2}>()  s = Shape(x)  v = Concat<axis = 0>(s, k)",
        "k = Constant<value = int64[1] {0}>()  s = Shape(x)  g = Gather(s, k)  v = Identity(g)",
    ],
)
def test_values_that_fit_in_32_bits_have_no_finding(body):
    assert found_in(f"g (float[n, 3] x) => (int64[m, k] y) {{ {body}  {GATHER} }}") == []


@pytest.mark.parametrize(
    "body",
    [
        "v = Identity(i)",
        "v = Cast<to = 7>(x)",
        "s = Shape(x)  v = Add(s, i)",
        "v = Constant<value = int64[2] {5, 2147483648}>()",
        "s = Shape(x)  v = Concat<axis = 0>(s, i)",
        "s = Shape(x)  v = Mul(s, s)",
    ],
)
def test_values_that_may_need_64_bits_have_a_finding(body):
    inputs = "float[n, 3] x, int64[2] i"
    assert found_in(f"g ({inputs}) => (int64[m, k] y) {{ {body}  {GATHER} }}") == WIDE


@pytest.mark.parametrize("wide", ["data", "updates"])
def test_data_and_updates_may_need_64_bits(wide):
    data, updates = ("v", "u") if wide == "updates" else ("u", "v")
    body = f"""v = Shape(x)  u = Identity(i)  at = Constant<value = int64[1,1] {{0}}>()
        y = ScatterND({data}, at, {updates})"""
    text = f"g (float[n] x, int64[1] i) => (int64[1] y) {{ {body} }}"
    assert found_in(text) == [("differs", "64-bit integers", "ScatterND of y")]
    assert found_in(text.replace("Identity(i)", "Shape(x)")) == []


def test_types_unsupported_by_the_opset_are_found():
    text = "g (int64[2] x) => (int64[2] y) { y = Clip(x) }"
    assert found_in(text, 11) == [("error", "onnx.checker", "Clip of y")]
    assert found_in(text, 12) == []


def test_scatter_is_reported_before_and_after_its_replacement():
    text = """g (float[3] x, int64[1] i, float[1] u) => (float[3] y) { y = Scatter(x, i, u) }"""
    assert found_in(text, 10) == [("portable", "opset", "Scatter of y")]
    assert found_in(text, 11) == [("error", "opset", "Scatter of y")]
