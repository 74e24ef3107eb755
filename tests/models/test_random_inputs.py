"""Random inputs have the declared types and sizes and valid indices."""

import re
from copy import deepcopy
from itertools import permutations

import numpy as np
import pytest
from onnx import helper
from onnx.parser import parse_model

from ndgather.errors import DTypeError, ModelError, ShapeError
from ndgather.models import onnx as onnx_models


def model(text, *, opset=18):
    return parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


TOKENS = model("""g (int32[batch, length] tokens, int64[batch, length] mask) => (float[k] y)
    <float[7, 2] table = {0,1,2,3,4,5,6,7,8,9,10,11,12,13}>
    { wide = Cast<to = 7>(tokens)  flat = Flatten(wide)  rows = Gather(table, flat)
      m = Cast<to = 1>(mask)  s = ReduceSum<keepdims = 0>(rows)  y = Add(m, s) }""")


@pytest.mark.parametrize("seed", range(3))
def test_random_tokens_cover_the_whole_table(seed):
    made = onnx_models.random_inputs(TOKENS, seed, sizes={"length": 200})
    assert made["tokens"].dtype == np.int32
    assert made["tokens"].shape == made["mask"].shape == (1, 200)
    assert (made["tokens"].min(), made["tokens"].max()) == (0, 6)
    assert set(np.unique(made["mask"])) == {0, 1}
    onnx_models.run(TOKENS, made, runtime="reference")


def test_random_index_tuples_are_valid_on_every_axis():
    pick = model("pick (float[9, 2, 5] d, int64[M, 3] at) => (float[M] y) { y = GatherND(d, at) }")
    made = onnx_models.random_inputs(pick, 1, sizes={"M": 60})
    assert made["at"].max() == 1
    onnx_models.run(pick, made, runtime="reference")


@pytest.mark.parametrize("op_type", ["Gather", "GatherElements", "GatherND"])
def test_gathered_indices_are_valid(op_type):
    at = "of" if op_type == "GatherND" else "at"
    twice = model(f"""g (int64[50] table) => (float[n] y)
        <float[3] data = {{1, 2, 3}}, int64[4, 1] of = {{4, 3, 2, 1}}, int64[4] at = {{4, 3, 2, 1}}>
        {{ rows = {op_type} (table, {at})  y = Gather (data, rows) }}""")
    table = onnx_models.random_inputs(twice)["table"]
    assert (table.min(), table.max()) == (0, 2)


@pytest.mark.parametrize("size", [1, 7])
def test_joined_indices_are_valid(size):
    joined = model(f"""g (float[{size}] data, int64[200] first, int32[200] last) => (float[400] y)
        {{ wide = Cast<to = 7>(last)  at = Concat<axis = 0>(first, wide)
          y = Gather(data, at) }}""")
    made = onnx_models.random_inputs(joined)
    assert set(made["first"]) == set(made["last"]) == set(range(size))


@pytest.mark.parametrize("sizes", [*permutations((2, 5, 9))], ids=str)
def test_indices_of_several_nodes_fit_the_shortest_axis(sizes):
    ends = ", ".join(f"float[50] y{number}" for number in range(3))
    tables = ", ".join(f"float[{size}] d{number}" for number, size in enumerate(sizes))
    nodes = "  ".join(f"y{number} = Gather(d{number}, at)" for number in range(3))
    shared = model(f"g ({tables}, int64[50] at) => ({ends}) {{ {nodes} }}")
    assert set(onnx_models.random_inputs(shared)["at"]) == {0, 1}


def test_every_type_is_random():
    types = {"string": set("abcdefgh"), "bool": {False, True}, "uint8": {0, 1}}
    ports = ", ".join(f"{name}[40, 50] {name}_in" for name in (*types, "float16"))
    unread = model(f"g ({ports}) => (bool[40, 50] y) {{ y = Not(bool_in) }}")
    made = onnx_models.random_inputs(unread)
    assert {array.shape for array in made.values()} == {(40, 50)}
    assert made["float16_in"].dtype == np.float16
    assert made["float16_in"].min() < 0.1
    assert made["float16_in"].max() > 0.9
    for name, values in types.items():
        found, counts = np.unique(made[f"{name}_in"], return_counts=True)
        assert set(found) == values
        assert counts.min() > 0.8 * counts.mean()  # all values are equally likely


def test_the_same_seed_gives_the_same_inputs():
    first, again = (onnx_models.random_inputs(TOKENS, 5) for _ in range(2))
    np.testing.assert_array_equal(first["tokens"], again["tokens"], strict=True)


def test_open_sizes_can_be_set_by_name_or_axis():
    relu = model("g (float[?, 3, h, ?] x) => (float[a, b, c, d] y) { y = Relu(x) }")
    assert onnx_models.random_inputs(relu)["x"].shape == (1, 3, 64, 64)
    made = onnx_models.random_inputs(relu, sizes={"h": 5, "x[3]": 6, "x[0]": 2})
    assert made["x"].shape == (2, 3, 5, 6)
    assert onnx_models.random_inputs(relu, sizes={"x[2]": 5})["x"].shape == (1, 3, 5, 64)
    with pytest.raises(ModelError, match=r"no size 'w' \(allowed: .*h"):
        onnx_models.random_inputs(relu, sizes={"w": 5})


def test_inputs_of_unknown_rank_are_refused():
    relu = model("g (float[] x) => (float[] y) { y = Relu(x) }")
    relu.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError) as caught:
        onnx_models.random_inputs(relu)
    assert str(caught.value) == (
        "input 'x': the model does not declare its rank, so its values cannot be random; pass this "
        "input"
    )
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(onnx_models.random_inputs(relu, inputs={"x": x})["x"], x)


PASSED = model("""g (float[N, M] data, int64[K, 1] rows, float[K, M] more) => (float[K, M] y)
    { z = GatherND(data, rows)  y = Add(z, more) }""")


@pytest.mark.parametrize("data", [np.ones((2, 3), np.float32), np.ones((30, 1), np.float32)])
@pytest.mark.parametrize("declared", [True, False])
def test_random_inputs_fit_the_inputs_that_are_passed(data, declared):
    pick = deepcopy(PASSED)
    if not declared:
        pick.graph.input[0].type.tensor_type.ClearField("shape")
    sizes = {"K": 200} if declared else {"K": 200, "M": data.shape[1]}
    made = onnx_models.random_inputs(pick, sizes=sizes, inputs={"data": data})
    assert made["more"].shape == (200, data.shape[1])
    assert set(made["rows"].ravel()) == set(range(len(data)))
    onnx_models.run(pick, made, runtime="reference")


def test_passed_inputs_and_sizes_must_agree():
    data = np.ones((2, 3), np.float32)
    with pytest.raises(ShapeError, match=re.escape("differs from M = 3, the size in input 'data'")):
        onnx_models.random_inputs(PASSED, sizes={"M": 5}, inputs={"data": data})
    with pytest.raises(ModelError, match=r"no input 'date'.*did you mean 'data'"):
        onnx_models.random_inputs(PASSED, inputs={"date": data})
    with pytest.raises(DTypeError, match=r"inputs = .*mapping"):
        onnx_models.random_inputs(PASSED, inputs=[data])


def test_excessive_sizes_are_refused():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        pick (float[N, M] data, int64[K, 1] rows) => (float[K, M] y)
        { y = GatherND(data, rows) }""")
    for sizes in {"N": 10**30}, {"N": 2**62, "M": 0}, {"N": 2**32, "M": 2**32}:
        with pytest.raises(ModelError, match=r"^input 'data': shape = .* is too large"):
            onnx_models.random_inputs(model, sizes=sizes)
    made = onnx_models.random_inputs(model, sizes={"N": 0, "M": np.int64(3)})
    assert made["data"].shape == (0, 3)


@pytest.mark.parametrize("axis", [helper.make_graph([], "b", [], []), "a", [0], 1.0])
def test_attributes_of_the_wrong_type_raise_the_error_that_check_finds(axis):
    indexed = model("""g (float[3, 4] x, int64[2] i) => (float[2, 4] y)
        { y = Gather(x, i) }""")
    indexed.graph.node[0].attribute.append(helper.make_attribute("axis", axis))
    (finding,) = onnx_models.check(indexed)
    for command in onnx_models.random_inputs, onnx_models.search:
        with pytest.raises(DTypeError, match=re.escape(finding.what)):
            command(indexed)
