"""The range analysis: every computed value lies within the range that it infers."""

import math
import operator
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from ndgather.models.onnx import value_ranges
from ndgather.models.onnx.nodes import graph_scope
from ndgather.models.onnx.value_ranges import Interval, find_value_range

INT64 = np.iinfo(np.int64)
# Nodes that compute y for each case. `DECLARED` declares the inputs.
RULES = {
    "Abs": "y = Abs(a)",
    "Abs of positive": "p = Clip(a, two) y = Abs(p)",
    "Abs of negative": "p = Clip(a, , minus) y = Abs(p)",
    "Add": "p = Clip(a, minus, five) q = Clip(b, minus, two) y = Add(p, q)",
    "Add that may wrap": "y = Add(a, b)",
    "ArgMax": "y = ArgMax(x)",
    "ArgMax of columns": "y = ArgMax<axis=-1>(w)",
    "ArgMin": "y = ArgMin(x)",
    "Cast to more bits": "y = Cast<to = 7>(h)",
    "Cast to fewer bits": "y = Cast<to = 6>(a)",
    "Cast to fewer bits that hold it": "p = Clip(a, minus, five) y = Cast<to = 6>(p)",
    "Cast to unsigned": "y = Cast<to = 12>(h)",
    "Cast of bool": "y = Cast<to = 7>(m)",
    "Cast of unsigned": "y = Cast<to = 7>(u)",
    "Cast of floats": "y = Cast<to = 7>(x)",
    "Clip": "y = Clip(a, minus, five)",
    "Clip below": "y = Clip(a, two)",
    "Clip above": "y = Clip(a, , two)",
    "Clip with bounds that cross": "y = Clip(a, five, minus)",
    "Concat": "p = Clip(a, two, five) y = Concat<axis=0>(p, line)",
    "Div": "p = Clip(a, two, five) q = Clip(b, two) y = Div(p, q)",
    "Div of any": "q = Clip(b, two) y = Div(a, q)",
    "Expand": "p = Clip(a, two) y = Expand(p, form)",
    "Flatten": "p = Clip(a, two) y = Flatten(p)",
    "Gather": "p = Clip(a, two) y = Gather(p, line)",
    "Identity": "y = Identity(u)",
    "Max": "y = Max(a, two)",
    "Max of three": "p = Clip(a, , five) y = Max(p, two, minus)",
    "Min": "y = Min(a, two)",
    "Mod": "q = Clip(b, two, five) y = Mod(a, q)",
    "Mod of positive": "p = Clip(a, two, five) q = Clip(b, two) y = Mod(p, q)",
    "Mod by negative": "q = Clip(b, , minus) y = Mod(a, q)",
    "Mod as in C": "q = Clip(b, two) y = Mod<fmod = 1>(a, q)",
    "Mod as in C of positive": "p = Clip(a, two) q = Clip(b, two) y = Mod<fmod = 1>(p, q)",
    "Mul": "p = Clip(a, minus, five) q = Clip(b, minus, two) y = Mul(p, q)",
    "Mul that may wrap": "p = Clip(a, two) q = Clip(b, two) y = Mul(p, q)",
    "Neg": "p = Clip(a, minus, five) y = Neg(p)",
    "Neg that may wrap": "y = Neg(a)",
    "NonMaxSuppression": (
        "k = Reshape(two, all) q = Constant<value=float[1,4,4] {0,0,1,1,2,2,3,3,4,4,5,5,0,0,2,2}>()"
        " s = Constant<value=float[1,2,4] {1,2,3,4,4,3,2,1}>() h = Constant<value_floats=[0.5]>()"
        " y = NonMaxSuppression(q, s, k, h, h)"
    ),
    "NonZero": "y = NonZero(x)",
    "NonZero of a matrix": "y = NonZero(w)",
    "Range": "y = Range(two, five, one)",
    "Range down": "y = Range(five, minus, minus)",
    "Range of nothing": "y = Range(five, two, one)",
    "Reshape": "p = Clip(a, two) y = Reshape(p, all)",
    "Shape": "y = Shape(a)",
    "Size": "y = Size(a)",
    "Slice": "p = Clip(a, two) y = Slice(p, line, form)",
    "Split": "p = Clip(a, two) y, z = Split(p)",
    "Squeeze": "p = Clip(a, two) y = Squeeze(p)",
    "Sub": "p = Clip(a, minus, five) q = Clip(b, minus, two) y = Sub(p, q)",
    "Sub that may wrap": "p = Clip(a, two) y = Sub(b, p)",
    "Tile": "p = Clip(a, two) y = Tile(p, line2)",
    "TopK": "k = Reshape(two, all) z, y = TopK(x, k)",
    "TopK of columns": "k = Reshape(two, all) z, y = TopK(w, k)",
    "TopK of rows": "k = Reshape(one, all) z, y = TopK<axis=0>(w, k)",
    "TopK, cast to fewer bits": "k = Reshape(two, all) z, p = TopK(x, k) y = Cast<to = 6>(p)",
    "Transpose": "p = Clip(a, two) y = Transpose(p)",
    "Unique": "z, p, q, y = Unique(a)",
    "Unsqueeze": "p = Clip(a, two) y = Unsqueeze(p, line)",
    "Where": "p = Clip(a, two) q = Clip(b, five) y = Where(m, p, q)",
    "Where below": "t = Less(a, two) p = Add(a, five) y = Where(t, two, a)",
    "Where not below": "t = Less(a, two) y = Where(t, a, five)",
    "Where above": "t = Greater(a, two) y = Where(t, a, two)",
    "Where at most": "t = LessOrEqual(a, two) y = Where(t, five, a)",
    "Where at least": "t = GreaterOrEqual(a, two) y = Where(t, a, five)",
    "Where two values": "t = Less(a, b) q = Clip(b, minus, five) y = Where(t, b, a)",
    "Where of a sum": "t = Less(a, zero) p = Add(a, two) y = Where(t, p, a)",
    "Where of a sum that is clipped": (
        "t = Less(a, zero) p = Add(a, two) q = Max(p, zero) y = Where(t, q, a)"
    ),
    "Where of a wrapped index": (
        "c = Clip(a, minus) t = Less(c, zero) p = Add(c, five) y = Where(t, p, c)"
    ),
    "Where of an element elsewhere": "t = Less(a, zero) p = Gather(a, back) y = Where(t, p, a)",
    "Where always": "y = Where(yes, two, a)",
    "no rule": "y = CumSum(a, zero)",
}  # fmt: skip
PROVEN = {  # the tightest range that can be proven
    "Abs of positive": (2, INT64.max),
    "Add": (-4, 7),
    "Cast of bool": (0, 1),
    "Cast of unsigned": (0, 255),
    "Cast to fewer bits that hold it": (-2, 5),
    "Clip": (-2, 5),
    "Clip with bounds that cross": (-2, -2),
    "Concat": (0, 5),
    "Div": (0, 2),
    "Max": (2, INT64.max),
    "Min": (INT64.min, 2),
    "Mod": (0, 4),
    "Mod of positive": (0, 5),
    "Mul": (-10, 10),
    "Neg": (-5, 2),
    "ArgMax": (0, 2),
    "ArgMax of columns": (0, 4),
    "ArgMin": (0, 2),
    "NonMaxSuppression": (0, 3),
    "NonZero": (0, 2),
    "NonZero of a matrix": (0, 4),
    "Shape": (0, 3),
    "Size": (0, 3),
    "Range": (2, 4),
    "Range down": (-1, 5),
    "Sub": (-4, 7),
    "TopK": (0, 2),
    "TopK of columns": (0, 4),
    "TopK of rows": (0, 1),
    "TopK, cast to fewer bits": (0, 2),
    "Unique": (0, 3),
    "Where": (2, INT64.max),
    "Where below": (2, INT64.max),
    "Where not below": (INT64.min, 5),
    "Where of a wrapped index": (0, INT64.max),
    "Where always": (2, 2),
}
WHOLE = {"Abs", "Add that may wrap", "Cast of floats", "Mul that may wrap", "Neg that may wrap"}
WHOLE |= {"Div of any", "Mod by negative", "Mod as in C", "Sub that may wrap", "no rule"}

DECLARED = """<ir_version: 8, opset_import: ["" : 18]>
    g (int64[3] a, int64[3] b, int32[3] h, uint8[3] u, bool[3] m, float[3] x, float[2,5] w)
    => (int64 y)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 five = {5}, int64 minus = {-2},
     int64[1] line = {0}, int64[1] line2 = {2}, int64[1] form = {3}, int64[1] all = {-1},
     int64[3] back = {2, 0, 1}, bool[1] yes = {1}>"""


def model_of(nodes):
    model = parse_model(f"{DECLARED} {{ {nodes} }}")
    model.graph.output[0].ClearField("type")
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


@cache
def evaluator_and_range(name):
    model = model_of(RULES[name])
    return ReferenceEvaluator(model), find_value_range(graph_scope(model, None), "y")


def three(each, dtype):
    return st.lists(each, min_size=3, max_size=3).map(lambda values: np.array(values, dtype))


def integers(dtype):
    limits = np.iinfo(dtype)
    some = st.sampled_from([limits.min, limits.min + 1, limits.max, 0, 1, 2, 3, 5, 6])
    signed = st.integers(-8, 8) if limits.min else st.integers(0, 8)
    return three(st.one_of(some, signed, st.integers(int(limits.min), int(limits.max))), dtype)


VALUES = {
    "a": integers(np.int64),
    "b": integers(np.int64),
    "h": integers(np.int32),
    "u": integers(np.uint8),
    "m": three(st.booleans(), bool),
    "x": three(st.integers(-9, 9), np.float32),
    "w": st.lists(st.integers(-2, 2), min_size=10, max_size=10).map(
        lambda values: np.array(values, np.float32).reshape(2, 5)
    ),
}


# The operators of two inputs, by the plain functions of Python.
BINARY = {
    "Add": operator.add,
    "Div": lambda a, b: int(a / b),
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "Mod fmod": lambda a, b: int(math.fmod(a, b)),
    "Mul": operator.mul,
    "Sub": operator.sub,
}


@pytest.mark.parametrize("name", RULES)
@given(data=st.data())
def test_every_value_lies_in_its_range(name, data):
    evaluator, (lowest, highest) = evaluator_and_range(name)
    read = {word for node in evaluator.proto_.graph.node for word in node.input}
    inputs = {each: data.draw(VALUES[each]) for each in sorted(read & VALUES.keys())}
    with np.errstate(all="ignore"):
        outputs = evaluator.run(None, inputs)

    assert all(lowest <= int(value) <= highest for value in np.ravel(outputs[0]))


@pytest.mark.parametrize("name", BINARY)
def test_results_of_all_short_ranges_lie_in_their_range(name):
    op_type, _, attribute = name.partition(" ")
    node = helper.make_node(op_type, ["a", "b"], ["y"], **({attribute: 1} if attribute else {}))
    ranges = [Interval(*ends) for ends in combinations_with_replacement(range(-3, 5), 2)]
    for first, second in product(ranges, repeat=2):
        found = value_ranges.RULES[op_type](node, [first, second])
        for a, b in product(range(first[0], first[1] + 1), range(second[0], second[1] + 1)):
            if b or op_type not in ("Div", "Mod"):
                value = BINARY[name](a, b)
                assert found.lowest <= value <= found.highest, (first, second, a, b)


@pytest.mark.parametrize("name", PROVEN)
def test_inferred_ranges_are_tight(name):
    assert find_value_range(graph_scope(model_of(RULES[name]), None), "y") == PROVEN[name]


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_values_without_a_rule_may_be_negative(name):
    assert find_value_range(graph_scope(model_of(RULES[name]), None), "y").lowest < 0


def test_search_is_bounded_for_nodes_that_read_their_input_twice():
    doubled = "  ".join(f"v{number + 1} = Add(v{number}, v{number})" for number in range(40))
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (int64[2] v0) => (int64[2] v40) {{ {doubled} }}""")
    assert find_value_range(graph_scope(model, None), "v40") == (INT64.min, INT64.max)


def test_strings_have_an_unknown_range():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (string[2] words) => (int64[2] y) { y = Cast<to = 7>(words) }""")
    scope = graph_scope(model, None)
    assert find_value_range(scope, "y") == (INT64.min, INT64.max)
    assert find_value_range(scope, "words").lowest < INT64.min
