"""IR files with one operator follow its specification."""

import tracemalloc
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("defusedxml")

from ndgather.errors import IndexOutOfBoundsError, NdgatherError, ShapeError
from ndgather.models import openvino
from ndgather.models.graph.diagnostics import has_errors
from ndgather.models.openvino import Model
from ndgather.published import operator
from ndgather.published.schema import TensorType, dtype_name
from tests.definitions.calls import assert_same_elements, bad_entries, expected
from tests.definitions.strategies import calls
from tests.models.ir_writer import Graph, GraphInput, GraphOutput, OperatorNode, write_ir

DTYPES = tuple(map(np.dtype, "?bhiqBHIQefd"))
# Not supported by OpenVINO: scalars, only batch axes, and indices that are smaller off the axis.
FORBIDDEN = ("has rank 0", "batch_dims = ", "may differ only on axis", "differs from")
OPERATORS = {"gather_nd": ("GatherND", 8), "gather_elements": ("GatherElements", 6)}


def graph(name, domain, version, types, constants=None, **attributes):
    """Return a graph with one node; `types` are the types of non-constant inputs."""
    row = operator(name, domain=domain, version=version).row
    given = [each.name for each in row.inputs]
    constants = constants or {}
    free = [each for each in given if each not in constants]
    return Graph(
        name="one",
        inputs=tuple(
            GraphInput(name=each, type=TensorType(*kind))
            for each, kind in zip(free, types, strict=True)
        ),
        constants=constants,
        nodes=(
            OperatorNode(
                name="n", row=row, inputs=tuple(given), output="out", attributes=attributes
            ),
        ),
        outputs=(GraphOutput(name="y", value="out"),),
    )


F, I, L = "float32", "int32", "int64"  # noqa: E741 - types in tables
AXIS = {"axis": np.array(1)}
FRONT = {"axis": np.array(0)}


@given(
    st.sampled_from(tuple(OPERATORS)).flatmap(
        lambda function: calls(
            function,
            dtypes=DTYPES,
            index_dtypes=tuple(map(np.dtype, "iq")),
            modes=("raise",),
            flavours=("value", "value", "value", "empty"),
        )
    ),
    st.sets(st.sampled_from(("data", "indices"))),
    st.booleans(),
)
def test_gathers_follow_the_definition(tmp_path_factory, call, constant, sizes):
    assume(not bad_entries(call))
    name, version = OPERATORS[call.function]
    options = {key: value for key, value in call.options.items() if key != "mode"}
    arrays = {key: np.array(getattr(call, key), order="C") for key in ("data", "indices")}
    inputs = {key: array for key, array in arrays.items() if key not in constant}
    constants = {key: arrays[key] for key in constant}
    types = [
        (dtype_name(array), array.shape if sizes else (None,) * array.ndim)
        for array in inputs.values()
    ]
    path = tmp_path_factory.getbasetemp() / "drawn.xml"
    try:
        write_ir(graph(name, "openvino", version, types, constants, **options), path)
        result = openvino.run(path, inputs)["y"]
    except NdgatherError as refused:
        if any(reason in str(refused) for reason in FORBIDDEN):
            return
        raise
    assert not has_errors(openvino.check(path))
    assert_same_elements(result, expected(call))


def test_constants_keep_types_unknown_to_numpy(tmp_path):
    ids = ("bfloat16", (3, 1, 2))
    tokens = {"max_seq_len": np.array([2]), "end_token": np.array(0)}
    tokens = {name: array.astype(ml_dtypes.bfloat16) for name, array in tokens.items()}
    write_ir(graph("GatherTree", "openvino", 1, [ids, ids], tokens), tmp_path / "model.xml")
    (out,) = Model.load(tmp_path / "model.xml").outputs
    assert (out.dtype, out.shape) == (ml_dtypes.bfloat16, (3, 1, 2))


@pytest.mark.parametrize("dims", [None, (), (None,), ("N", 0, 3), (2, None), (1,) * 6])
def test_partial_shapes_are_read(tmp_path, dims):
    made = graph("Gather", "openvino", 8, [(F, dims), (I, dims)], FRONT)
    if dims == ():
        made = graph("Gather", "openvino", 8, [(F, (3,)), (I, dims)], FRONT)
    write_ir(made, tmp_path / "model.xml")
    inputs = Model.load(tmp_path / "model.xml").inputs
    for read, written in zip(inputs, made.inputs, strict=True):
        known = written.type.dims
        assert read.dtype == written.type.dtype
        assert read.shape == (
            None if known is None else tuple(n if isinstance(n, int) else "?" for n in known)
        )


def test_check_does_not_copy_large_constants(tmp_path):
    constants = {"data": np.ones(2**24, np.uint8), "axis": np.array(0)}
    write_ir(graph("Gather", "openvino", 8, [(I, (3,))], constants), tmp_path / "m.xml")
    tracemalloc.start()
    try:
        assert openvino.check(tmp_path / "m.xml") == ()
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_results_with_the_same_name_are_distinguished_by_layer(tmp_path):
    made = graph("GatherND", "openvino", 8, [(F, (4,)), (L, (2, 1))])
    twice = (GraphOutput(name="y", value="out"), GraphOutput(name="z", value="out"))
    path = tmp_path / "model.xml"
    write_ir(replace(made, outputs=twice), path)
    path.write_text(path.read_text().replace('output_names="z,y"', 'output_names="y,z"'))
    assert [each.name for each in Model.load(path).outputs] == ["y", "z/result"]


def test_layers_with_the_same_name_are_distinct_values(tmp_path):
    """Layer names are unique in files from OpenVINO, but the format does not require it."""
    made = graph("Gather", "openvino", 8, [(F, (3,))], {"indices": np.array([2, 0]), **FRONT})
    path = tmp_path / "model.xml"
    write_ir(made, path)
    path.write_text(path.read_text().replace('name="axis"', 'name="indices"'))
    result = openvino.run(path, {"data": np.array([5, 6, 7], F)})
    np.testing.assert_array_equal(result["y"], np.array([7, 5], F), strict=True)


RANGES = {  # a declared shape, accepted sizes, rejected sizes
    "2..4": ([2, 3, 4], [0, 1, 5]),
    "..3": ([0, 1, 3], [4]),
    "2..": ([2, 9], [0, 1]),
    "3": ([3], [2, 4]),
    "?": ([0, 1, 9], []),
    "0..0": ([0], [1]),
}


@pytest.mark.parametrize("declared", RANGES)
def test_input_sizes_must_be_in_the_declared_range(tmp_path, declared):
    made = graph("Gather", "openvino", 8, [(F, (None,)), (L, (None,))], FRONT)
    path = tmp_path / "model.xml"
    write_ir(made, path)
    path.write_text(path.read_text().replace('shape="?"', f'shape="{declared}"', 1))
    inside, outside = RANGES[declared]
    for size in inside:
        found = openvino.run(path, {"data": np.arange(size, dtype=F), "indices": np.arange(size)})
        np.testing.assert_array_equal(found["y"], np.arange(size, dtype=F), strict=True)
    for size in outside:
        with pytest.raises(ShapeError, match=rf"^input 'data'.*shape = \({size},\) does not"):
            openvino.run(path, {"data": np.arange(size, dtype=F), "indices": np.arange(0)})


# The same as in openvino.Core().read_model.
FLAGS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


@pytest.mark.parametrize("text", [*FLAGS, "yes", "TRUE", "2", ""])
def test_boolean_attributes_are_parsed(tmp_path, text):
    element = (F, (2,)), (L, (1,)), (F, (1,))
    options = {"reduction": "sum", "use_init_val": False}
    made = graph("ScatterElementsUpdate", "openvino", 12, [*element], FRONT, **options)
    path = tmp_path / "model.xml"
    write_ir(made, path)
    path.write_text(path.read_text().replace('="false"', f'="{text}"'))
    inputs = {"data": np.array([5, 6], F), "indices": np.array([1]), "updates": np.array([10], F)}
    if text not in FLAGS:
        with pytest.raises(NdgatherError, match=f"use_init_val = '{text}'"):
            openvino.run(path, inputs)
        return
    expected = np.array([5, 16 if FLAGS[text] else 10], F)
    np.testing.assert_array_equal(openvino.run(path, inputs)["y"], expected, strict=True)


def test_inputs_and_intermediate_results_can_be_outputs(tmp_path):
    made = graph("Gather", "openvino", 8, [(F, (3,))], {"indices": np.array([2, 0]), **FRONT})
    second = replace(made.nodes[0], name="m", inputs=("out", "axis", "axis"), output="last")
    outputs = [GraphOutput(name=name, value=name) for name in ("data", "out", "last")]
    chain = replace(made, nodes=(*made.nodes, second), outputs=tuple(outputs))
    write_ir(chain, tmp_path / "model.xml")
    run = Model.load(tmp_path / "model.xml").run({"data": np.array([5, 6, 7], F)})
    assert [each.array.tolist() for each in run.outputs] == [[5, 6, 7], [7, 5], 7]
    assert run.seconds > 0
    assert (run.gather_nodes, run.remaining_nodes) == (2, 0)


def test_out_of_bounds_index_errors_name_the_node(tmp_path):
    write_ir(graph("GatherND", "openvino", 8, [(F, (4,)), (L, (1, 1))]), tmp_path / "model.xml")
    inputs = {"data": np.arange(4, dtype=F), "indices": np.array([[4]])}
    with pytest.raises(IndexOutOfBoundsError, match=r"node 'n' .*indices\[0, 0\] = 4"):
        openvino.run(tmp_path / "model.xml", inputs)
