"""ONNX models become IR and come back: what ran before runs after, to the same bytes."""

import tracemalloc
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("defusedxml")
pytest.importorskip("onnx")

import onnx

from ndgather.errors import (
    FileError,
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
    ShapeError,
)
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from ndgather.models.graph import (
    CastNode,
    Graph,
    GraphInput,
    GraphOutput,
    OperatorNode,
    value_types,
)
from ndgather.models.graph.conversion import translate
from ndgather.models.graph.diagnostics import has_errors
from ndgather.models.interchange import graph_of, is_graph, model_of
from ndgather.models.openvino import Model
from ndgather.published import operator
from ndgather.published.schema import TensorType
from tests.definitions.calls import assert_same_elements, bad_entries, expected
from tests.definitions.strategies import calls

pytestmark = pytest.mark.runtimes

DTYPES = tuple(map(np.dtype, "?bhiqBHIQefd"))
INDEX_DTYPES = tuple(map(np.dtype, "iq"))
OPERATORS = {
    "gather_nd": ("GatherND", ""),
    "gather_elements": ("GatherElements", ""),
    "gather": ("Gather", ""),
}


def outcome(work, *reasons):
    """Return what `work` gives, or None where it is refused for one of the reasons."""
    try:
        return work()
    except NdgatherError as refused:
        if any(reason in str(refused) for reason in reasons):
            return None
        raise


@st.composite
def models(draw):
    """Draw an ONNX model of one gather, its inputs, and the call that it is."""
    function = draw(st.sampled_from(tuple(OPERATORS)))
    call = draw(
        calls(
            function,
            dtypes=DTYPES,
            index_dtypes=INDEX_DTYPES,
            modes=("raise",),
            flavours=("value", "value", "value", "empty"),
        )
    )
    options = {name: value for name, value in call.options.items() if name != "mode"}
    op_type, domain = OPERATORS[function]
    data, indices = (np.array(each, order="C") for each in (call.data, call.indices))
    if function == "gather_nd" and not options["batch_dims"] and draw(st.booleans()):
        domain, options = "com.microsoft", {}
    elif function == "gather_nd":
        indices = indices.astype(np.int64)
    assume(not bad_entries(call))
    rank = expected(call).ndim
    if function == "gather" and options.pop("batch_dims"):
        indices = indices.reshape(-1)[:1]
        rank, call = data.ndim, None
    known = draw(st.sampled_from(("sizes", "names", "ranks")))
    opset = draw(st.sampled_from((12, 13, 18)))
    inputs = {"data": data, "indices": indices}
    constants = draw(st.sets(st.sampled_from(("data", "indices"))))
    return (
        _model(op_type, domain, opset, inputs, constants, options, rank, known),
        {name: array for name, array in inputs.items() if name not in constants},
        call,
    )


def _model(op_type, domain, opset, inputs, constants, options, rank, known="sizes"):
    """Write a model of one node; `known` is what its inputs declare of their shapes."""

    def shape(name, array):
        names = [f"{name}{axis}" for axis in range(array.ndim)]
        return {"sizes": array.shape, "names": names, "ranks": [None] * array.ndim}[known]

    node = onnx.helper.make_node(
        op_type, list(inputs), ["output"], name="pick", domain=domain, **options
    )
    kind = onnx.helper.np_dtype_to_tensor_dtype

    def info(name, array, dims):
        return onnx.helper.make_tensor_value_info(name, kind(array.dtype), dims)

    graph = onnx.helper.make_graph(
        [node],
        "pick",
        [info(name, a, shape(name, a)) for name, a in inputs.items() if name not in constants],
        [info("output", inputs["data"], [None] * rank)],
        [onnx.numpy_helper.from_array(inputs[name], name) for name in constants],
    )
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


@given(models())
def test_a_model_gives_the_same_bytes_as_ir_and_as_onnx_again(tmp_path_factory, drawn):
    model, inputs, call = drawn
    path = tmp_path_factory.getbasetemp() / "same.xml"
    no_tuple = "is too short for an index tuple"  # which ai.onnx forbids
    smaller = "may differ only on axis"  # indices off the axis, which OpenVINO forbids
    before = outcome(
        lambda: onnx_models.run(model, inputs), no_tuple, "has rank 0", "batch_dims = "
    )
    written = before and outcome(lambda: (openvino.write(graph_of(model), path),), smaller)
    if not written:
        return
    if call is not None:
        assert_same_elements(before["output"], expected(call))
    assert not has_errors(openvino.check(path))
    ir = Model.load(path)
    after = outcome(lambda: openvino.run(ir, inputs), smaller)
    if after is not None:
        assert list(after) == ["output"]
        assert_same_elements(after["output"], before["output"])
    again = outcome(lambda: model_of(ir.graph).model, no_tuple, "has no known rank")
    last = again and outcome(lambda: onnx_models.run(again, inputs), no_tuple)
    if last:
        assert_same_elements(last["output"], before["output"])


SCATTERS = (
    ("ScatterND", (4, 5), np.array([[1], [-1]]), (2, 5), {"reduction": "add"}),
    ("ScatterND", (4, 5), np.array([[1, 2], [3, -4]]), (2,), {}),
    ("ScatterND", (4,), np.array([0]), (), {}),
    ("ScatterElements", (4, 5), np.array([[0, 1], [3, 3]]), (2, 2), {"axis": 1}),
    (
        "ScatterElements",
        (3, 3),
        np.array([[0, -1, 2]], np.int32),
        (1, 3),
        {"axis": 0, "reduction": "max"},
    ),
    (
        "ScatterElements",
        (6,),
        np.array([5, 5, 5]),
        (3,),
        {"axis": -1, "reduction": "mul"},
    ),
)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
@pytest.mark.parametrize(("op_type", "shape", "indices", "updates", "options"), SCATTERS)
def test_scatters_give_the_same_bytes(tmp_path, op_type, shape, indices, updates, options, dtype):
    inputs = {
        "data": np.arange(np.prod(shape)).reshape(shape).astype(dtype),
        "indices": indices,
        "updates": (np.arange(np.prod(updates)).reshape(updates) + 2).astype(dtype),
    }
    model = _model(op_type, "", 18, inputs, (), options, len(shape))
    before = onnx_models.run(model, inputs)
    openvino.write(graph_of(model), tmp_path / "model.xml")
    assert not has_errors(openvino.check(tmp_path / "model.xml"))
    after = openvino.run(tmp_path / "model.xml", inputs)
    assert_same_elements(after["output"], before["output"])
    again = model_of(Model.load(tmp_path / "model.xml").graph).model
    assert_same_elements(onnx_models.run(again, inputs)["output"], before["output"])


def graph(name, domain, version, types, constants=None, **attributes):
    """Return a graph of one node; `types` are those of the inputs that are no constants."""
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


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            graph("GatherND", "openvino", 5, [(F, (2, 3, 4)), (L, (2, 3, 1))], batch_dims=2),
            "one of them fuses several batch axes in the result",
        ),
        (
            graph("Gather", "openvino", 8, [(F, (2, 3)), (L, (2, 1))], AXIS, batch_dims=1),
            "it has no batch_dims, which is 1",
        ),
        (
            graph("Gather", "openvino", 8, [(F, (2, 3)), (L, (2,)), (L, ())]),
            "its axis is not a constant",
        ),
        (
            graph("GatherND", "openvino", 8, [(F, (2, 3)), ("uint64", (2, 1))]),
            "indices of uint64 would have to become int64, which may change them",
        ),
        (
            graph("GatherND", "openvino", 8, [("float8_e5m2", (2, 3)), (L, (2, 1))]),
            "data.dtype = float8_e5m2 is not taken",
        ),
        (
            graph("GatherND", "openvino", 8, [(F, (2, 3)), (L, (2, 0))]),
            "indices.shape[-1] = 0 is too short for an index tuple",
        ),
        (
            graph(
                "ScatterNDUpdate",
                "openvino",
                15,
                [(F, (2, 3)), (L, (2, 1)), (F, (2, 3))],
                reduction="sub",
            ),
            "it has no reduction sub",
        ),
        (
            graph(
                "ScatterNDUpdate",
                "openvino",
                15,
                [("bool", (2, 3)), (L, (2, 1)), ("bool", (2, 3))],
                reduction="sum",
            ),
            "they do not define reductions of booleans alike",
        ),
        (
            graph(
                "ScatterElementsUpdate",
                "openvino",
                12,
                [(F, (2, 3)), (L, (2, 3)), (F, (2, 3))],
                AXIS,
                reduction="sum",
                use_init_val=False,
            ),
            "it has no use_init_val, which is False",
        ),
        (
            graph("Gather", "openvino", 8, [(F, (2, 3))], {**AXIS, "indices": np.array([0, 3])}),
            "indices[1] = 3 is outside axis 1 of data",
        ),
    ],
)
def test_what_onnx_cannot_say_is_refused_with_the_reason(made, why):
    with pytest.raises(NdgatherError) as refused:
        model_of(made)
    assert str(refused.value).startswith(f"node 'n' ({made.nodes[0].row}): ")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            graph("GatherElements", "ai.onnx", 13, [(F, (4, 5)), (L, (2, 5))], axis=1),
            "indices.shape[0] = 2 differs from data.shape[0] = 4",
        ),
        (
            graph("GatherND", "ai.onnx", 13, [("complex64", (4, 5)), (L, (2, 1))]),
            "data.dtype = complex64 is not taken",
        ),
        (
            graph("GatherND", "ai.onnx", 13, [("string", (4, 5)), (L, (2, 1))]),
            "dtype = string cannot be written to an IR",
        ),
        (
            graph(
                "Gather",
                "ai.onnx",
                13,
                [(L, (2,))],
                {"data": np.array(["a", "b"], object)},
            ),
            "data: dtype = string cannot be written to an IR",
        ),
        (
            graph("GatherND", "ai.onnx", 13, [(None, (4, 5)), (L, (2, 1))]),
            "the type of data is not known",
        ),
    ],
)
def test_what_ir_cannot_say_is_refused_with_the_reason(tmp_path, made, why):
    with pytest.raises(NdgatherError) as refused:
        openvino.write(made, tmp_path / "model.xml")
    assert why in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_constants_keep_types_that_numpy_does_not_name():
    ids = ("bfloat16", (3, 1, 2))
    tokens = {"max_seq_len": np.array([2]), "end_token": np.array(0)}
    tokens = {name: array.astype(ml_dtypes.bfloat16) for name, array in tokens.items()}
    types = value_types(graph("GatherTree", "openvino", 1, [ids, ids], tokens))
    assert types["out"] == TensorType(*ids)


@pytest.mark.parametrize("dims", [None, (), (None,), ("N", 0, 3), (2, None), (1,) * 6])
def test_what_is_known_of_a_shape_is_read_as_it_was_written(tmp_path, dims):
    made = graph("Gather", "openvino", 8, [(F, dims), (I, dims)], FRONT)
    if dims == ():
        made = graph("Gather", "openvino", 8, [(F, (3,)), (I, dims)], FRONT)
    openvino.write(made, tmp_path / "model.xml")
    inputs = Model.load(tmp_path / "model.xml").graph.inputs
    for read, written in zip(inputs, made.inputs, strict=True):
        known = written.type.dims
        assert read.type.dtype == written.type.dtype
        assert read.type.dims == (
            None if known is None else tuple(n if isinstance(n, int) else None for n in known)
        )


def test_constants_lie_in_a_file_so_that_they_are_used_in_place(tmp_path):
    constants = {"data": np.arange(7, dtype=np.uint8), "indices": np.array([6, 0]), **FRONT}
    openvino.write(graph("Gather", "openvino", 8, [], constants), tmp_path / "model.xml")
    read = Model.load(tmp_path / "model.xml").graph.constants
    assert [array.ctypes.data % 64 for array in read.values()] == [0, 0, 0]
    assert sorted(array.tolist() for array in read.values() if array.ndim) == [
        [0, 1, 2, 3, 4, 5, 6],
        [6, 0],
    ]


def test_a_check_copies_no_large_constant(tmp_path):
    constants = {"data": np.ones(2**24, np.uint8), "axis": np.array(0)}
    openvino.write(graph("Gather", "openvino", 8, [(I, (3,))], constants), tmp_path / "m.xml")
    tracemalloc.start()
    try:
        assert openvino.check(tmp_path / "m.xml") == ()
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


OUT_OF_RANGE = "an index out of range is an error, and in openvino "


@pytest.mark.parametrize(
    ("made", "rule", "what"),
    [
        (
            graph("GatherND", "ai.onnx", 13, [(F, (4, 5)), (L, (2, 1))]),
            "index range",
            OUT_OF_RANGE + "GatherND-8 it is undefined",
        ),
        (
            graph("Gather", "ai.onnx", 13, [(F, (4, 5)), (L, (2, 1))]),
            "index range",
            OUT_OF_RANGE + "Gather-8 it gives zeros",
        ),
        (
            graph("GatherElements", "ai.onnx", 13, [(F, ("N", 5)), (L, ("M", 5))], axis=1),
            "off-axis sizes",
            "indices may be smaller than data off the axis, and in openvino GatherElements-6 that "
            "is an error",
        ),
        (
            graph("GatherElements", "ai.onnx", 13, [(F, (None, 5)), (L, (None, 5))], axis=1),
            "off-axis sizes",
            "indices may be smaller than data off the axis, and in openvino GatherElements-6 that "
            "is an error",
        ),
        (
            graph("GatherND", "ai.onnx", 13, [(F, (4, "N"))], {"indices": np.array([[3, 0]])}),
            "index range",
            OUT_OF_RANGE + "GatherND-8 it is undefined",
        ),
    ],
)
def test_where_the_two_may_part_is_a_finding(tmp_path, made, rule, what):
    (finding,) = openvino.write(made, tmp_path / "model.xml")
    assert (finding.where, finding.rule, finding.what) == ("n", rule, what)


@pytest.mark.parametrize(
    "made",
    [
        graph("GatherND", "ai.onnx", 13, [(F, (4, 5))], {"indices": np.array([[3], [-4]])}),
        graph("Gather", "ai.onnx", 13, [(F, ("N", 5))], {"indices": np.array([4, -5])}, axis=1),
        graph("GatherElements", "ai.onnx", 13, [(F, ("N", 5)), (L, ("N", 3))], axis=1),
        graph("ScatterND", "ai.onnx", 18, [(F, (4, 5)), (L, (2, 1)), (F, (2, 5))]),
    ],
)
def test_what_is_known_to_agree_is_no_finding(tmp_path, made):
    assert openvino.write(made, tmp_path / "model.xml") == ()


def test_zeros_of_gather_8_and_duplicates_are_findings_on_the_way_back():
    zeros = model_of(graph("Gather", "openvino", 8, [(F, (2, 3)), (I, (2,))], AXIS))
    assert [each.what for each in zeros.findings] == [
        "an index out of range gives zeros, and in ai.onnx Gather-13 it is an error"
    ]
    types = [(F, (2, 3)), (L, (2, 1)), (F, (2, 3))]
    twice = model_of(graph("ScatterNDUpdate", "openvino", 15, types))
    assert [each.rule for each in twice.findings] == ["index range", "duplicates"]
    made = graph("GatherND", "openvino", 8, [(F, (2, 3)), (L, (2, None))])
    _, findings = translate(made, domain="ai.onnx")
    assert [each.rule for each in findings] == ["depth"]


def test_indices_of_other_integers_are_converted_where_no_value_changes():
    made = graph("GatherND", "openvino", 8, [(F, (4,)), ("uint8", (2, 1))])
    model = model_of(made).model
    assert [node.op_type for node in model.graph.node] == ["Cast", "GatherND"]
    result = onnx_models.run(
        model, {"data": np.arange(4, dtype=F), "indices": np.array([[3], [0]], np.uint8)}
    )
    np.testing.assert_array_equal(result["y"], np.array([3, 0], F), strict=True)
    for dtype in ("int8", "int16", "uint8", "uint16", "uint32"):
        types = [(F, (2, 3)), (dtype, (2, 3)), (F, (2, 3))]
        scatter = model_of(graph("ScatterElementsUpdate", "openvino", 12, types, AXIS)).model
        assert [node.op_type for node in scatter.graph.node] == ["Cast", "ScatterElements"]
    indices = {"indices": np.array([[3], [0]], np.uint64)}
    constant = model_of(graph("GatherND", "openvino", 8, [(F, (4,))], indices)).model
    assert [node.op_type for node in constant.graph.node] == ["GatherND"]
    assert [each.data_type for each in constant.graph.initializer] == [onnx.TensorProto.INT64]


def test_negative_indices_on_the_way_to_a_version_without_are_counted_or_found():
    made = graph("Gather", "ai.onnx", 13, [(F, (4,))], {"indices": np.array([-1])})
    (counted,) = model_of(made, opset=10).model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(counted), np.array([3]), strict=True)
    unknown = graph("Gather", "ai.onnx", 13, [(F, ("N",))], {"indices": np.array([-1])})
    with pytest.raises(ModelError, match="the size of the axis is not known"):
        model_of(unknown, opset=10)
    free = model_of(graph("Gather", "ai.onnx", 13, [(F, (4,)), (L, (2,))]), opset=10)
    assert [each.what for each in free.findings] == [
        "a negative index counts from the end, and in ai.onnx Gather-1 it is out of range"
    ]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("size", [5, 2**31, 2**31 + 5, 2**63 - 1])
def test_indices_that_are_counted_from_the_front_have_room_for_their_values(size, dtype):
    made = graph("Gather", "ai.onnx", 13, [(F, (size,))], {"indices": np.array([-1, 3], dtype)})
    (counted,) = model_of(made, opset=10).model.graph.initializer
    assert onnx.numpy_helper.to_array(counted).tolist() == [size - 1, 3]


@pytest.mark.parametrize("size", [5, 127, 128, 200])
def test_bytes_that_are_counted_from_the_front_have_room_for_their_values(size):
    constants = {"indices": np.array([-1, 3], np.int8), **AXIS}
    made = graph("Gather", "openvino", 8, [(F, (2, size))], constants)
    translated, _ = translate(made, domain="openvino", opset=7)
    assert [each.tolist() for each in translated.constants.values() if each.size == 2] == [
        [size - 1, 3]
    ]


def test_values_under_several_names_are_all_results():
    made = Graph(
        name="names",
        inputs=(GraphInput(name="x", type=TensorType(F, (2,))),),
        constants={"y": np.array([7, 8])},
        nodes=(CastNode(name="wider", input="x", output="w", dtype="float64"),),
        outputs=(
            GraphOutput(name="x", value="x"),
            GraphOutput(name="a", value="w"),
            GraphOutput(name="b", value="w"),
            GraphOutput(name="c", value="x"),
            GraphOutput(name="d", value="y"),
        ),
    )
    x = np.array([1, 2], F)
    result = onnx_models.run(model_of(made).model, {"x": x})
    wide = x.astype(np.float64)
    for name, value in {"x": x, "a": wide, "b": wide, "c": x, "d": np.array([7, 8])}.items():
        np.testing.assert_array_equal(result[name], value, strict=True)


def test_a_result_may_not_take_the_name_of_another_input():
    made = graph("GatherND", "openvino", 8, [(F, (4,)), (L, (2, 1))])
    clash = Graph(
        name="clash",
        inputs=made.inputs,
        constants={},
        nodes=made.nodes,
        outputs=(GraphOutput(name="data", value="out"),),
    )
    with pytest.raises(ModelError, match="name = 'data' names an input and another result"):
        model_of(clash)


def test_two_results_of_one_name_are_told_apart_by_their_layers(tmp_path):
    made = graph("GatherND", "openvino", 8, [(F, (4,)), (L, (2, 1))])
    twice = (GraphOutput(name="y", value="out"), GraphOutput(name="z", value="out"))
    path = tmp_path / "model.xml"
    openvino.write(replace(made, outputs=twice), path)
    path.write_text(path.read_text().replace('output_names="z,y"', 'output_names="y,z"'))
    assert [each.name for each in Model.load(path).outputs] == ["y", "z/result"]


def test_files_appear_whole_or_not_at_all(tmp_path):
    made = graph("GatherND", "ai.onnx", 13, [(F, (4, 5)), (L, (2, 1))])
    with pytest.raises(FileError, match="cannot be written"):
        openvino.write(made, tmp_path / "absent" / "model.xml")
    openvino.write(made, tmp_path / "model.xml", tmp_path / "weights.bin")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.xml", "weights.bin"]


def test_layers_of_one_name_are_other_values(tmp_path):
    """The names of layers are unique in files of OpenVINO; nothing makes others so."""
    made = graph("Gather", "openvino", 8, [(F, (3,))], {"indices": np.array([2, 0]), **FRONT})
    path = tmp_path / "model.xml"
    openvino.write(made, path)
    path.write_text(path.read_text().replace('name="axis"', 'name="indices"'))
    result = openvino.run(path, {"data": np.array([5, 6, 7], F)})
    np.testing.assert_array_equal(result["y"], np.array([7, 5], F), strict=True)


RANGES = {  # a declared shape, sizes that it takes, and those that it does not
    "2..4": ([2, 3, 4], [0, 1, 5]),
    "..3": ([0, 1, 3], [4]),
    "2..": ([2, 9], [0, 1]),
    "3": ([3], [2, 4]),
    "?": ([0, 1, 9], []),
    "0..0": ([0], [1]),
}


@pytest.mark.parametrize("declared", RANGES)
def test_only_sizes_in_the_range_of_an_input_are_taken(tmp_path, declared):
    made = graph("Gather", "openvino", 8, [(F, (None,)), (L, (None,))], FRONT)
    path = tmp_path / "model.xml"
    openvino.write(made, path)
    path.write_text(path.read_text().replace('shape="?"', f'shape="{declared}"', 1))
    inside, outside = RANGES[declared]
    for size in inside:
        found = openvino.run(path, {"data": np.arange(size, dtype=F), "indices": np.arange(size)})
        np.testing.assert_array_equal(found["y"], np.arange(size, dtype=F), strict=True)
    for size in outside:
        with pytest.raises(ShapeError, match=rf"^input 'data'.*shape = \({size},\) is not"):
            openvino.run(path, {"data": np.arange(size, dtype=F), "indices": np.arange(0)})


# As openvino.Core().read_model reads them.
FLAGS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


@pytest.mark.parametrize("text", [*FLAGS, "yes", "TRUE", "2", ""])
def test_texts_of_flags(tmp_path, text):
    element = (F, (2,)), (L, (1,)), (F, (1,))
    options = {"reduction": "sum", "use_init_val": False}
    made = graph("ScatterElementsUpdate", "openvino", 12, [*element], FRONT, **options)
    path = tmp_path / "model.xml"
    openvino.write(made, path)
    path.write_text(path.read_text().replace('="false"', f'="{text}"'))
    inputs = {"data": np.array([5, 6], F), "indices": np.array([1]), "updates": np.array([10], F)}
    if text not in FLAGS:
        with pytest.raises(NdgatherError, match=f"use_init_val = '{text}'"):
            openvino.run(path, inputs)
        return
    expected = np.array([5, 16 if FLAGS[text] else 10], F)
    np.testing.assert_array_equal(openvino.run(path, inputs)["y"], expected, strict=True)


def test_the_time_of_a_result_is_that_of_the_nodes_that_lead_to_it(tmp_path):
    made = graph("Gather", "openvino", 8, [(F, (3,))], {"indices": np.array([2, 0]), **FRONT})
    second = replace(made.nodes[0], name="m", inputs=("out", "axis", "axis"), output="last")
    outputs = [GraphOutput(name=name, value=name) for name in ("data", "out", "last")]
    chain = replace(made, nodes=(*made.nodes, second), outputs=tuple(outputs))
    openvino.write(chain, tmp_path / "model.xml")
    run = Model.load(tmp_path / "model.xml").run({"data": np.array([5, 6, 7], F)})
    given, middle, last = (each.seconds for each in run.outputs)
    assert given == 0
    assert 0 < middle < last
    assert last == pytest.approx(run.seconds)
    assert (run.gather_nodes, run.remaining_nodes) == (2, 0)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("y = Relu(x)", "op_type = 'Relu' of ai.onnx is not a gather or scatter"),
        ("y = GatherND<batch_dims=1.5>(x, i)", "is not a valid ONNX model"),
        ("y = com.microsoft.GatherND<a=1.5>(x, i)", "attribute 'a' is of type FLOAT"),
        ("y = com.microsoft.Gelu(x)", "op_type = 'Gelu' of com.microsoft"),
        ("y = GatherND(x, x)", "indices.dtype = float32 is not taken"),
    ],
)
def test_other_models_are_refused_by_name(tmp_path, text, what):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>'
        f"g (float[2] x, int64[1,1] i) => (float[M] y) {{ {text} }}"
    )
    with pytest.raises(NdgatherError) as refused:
        openvino.write(graph_of(model), tmp_path / "model.xml")
    assert what in str(refused.value)


PICK = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[4] x) => (float[M] y) """
NO_GRAPH = {
    "a sparse initializer": (
        PICK + "{ y = Gather(x, at) }",
        "initializer is a sparse tensor, which cannot be converted (allowed: dense tensors)",
    ),
    "a sparse constant": (
        PICK + "{ at = Constant() y = Gather(x, at) }",
        "initializer is a sparse tensor, which cannot be converted (allowed: dense tensors)",
    ),
    "a sequence": (
        PICK.replace("float[4] x", "float[4] x, seq(float) s")
        + "{ i = Constant<value_ints = [1]>()"
        " y = Gather(x, i) }",
        "input 's' is a sequence_type, which cannot be converted (allowed: tensors)",
    ),
    "an optional": (
        PICK.replace("float[4] x", "float[4] x, optional(float) s") + "{ i = Constant<value_ints = "
        "[1]>() y = Gather(x, i) }",
        "input 's' is a optional_type, which cannot be converted (allowed: tensors)",
    ),
    "texts": (
        PICK + '{ i = Constant<value_string = "1">() y = Gather(x, i) }',
        "attribute 'value_string' is not a dense tensor of numbers, which cannot be converted "
        "(allowed: value)",
    ),
}


@pytest.mark.parametrize(
    ("nodes", "without_package"),
    [
        ("a = Identity(x) b = Identity(a) p = Gather(b, i) y = Identity(p)", True),
        ("j = Constant<value_ints = [2, 0]>() y = Gather(x, j)", True),
        ("z = Cast<to = 1>(x) y = Gather(z, i)", True),
        ("y = Identity(x)", True),
        ("p = Gather(x, i) y = Neg(p)", False),
        ("p = Gather(x, i) y = my.Identity(p)", False),
    ],
)
def test_models_that_need_no_package(tmp_path, nodes, without_package):
    """Of gathers, scatters, constants, casts, and values under other names."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18, "my" : 1]>
        g (float[3] x, int64[2] i) => (float[M] y) {{ {nodes} }}"""
    )
    assert is_graph(model) == without_package
    if without_package:
        x, i = np.array([5, 6, 7], F), np.array([2, 0])
        openvino.write(graph_of(model), tmp_path / "m.xml")
        found = openvino.run(
            tmp_path / "m.xml",
            {
                each.name: {"x": x, "i": i}[each.name]
                for each in Model.load(tmp_path / "m.xml").inputs
            },
        )
        np.testing.assert_array_equal(found["y"], x if "Gather" not in nodes else x[i], strict=True)


@pytest.mark.parametrize(("text", "what"), NO_GRAPH.values(), ids=NO_GRAPH)
def test_what_no_graph_has_is_refused(text, what):
    model = onnx.parser.parse_model(text)
    values, places = (onnx.helper.make_tensor("at", 7, [1], [each]) for each in (3, 0))
    sparse = onnx.helper.make_sparse_tensor(values, places, [2])
    if "Constant()" in text:
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("sparse_value", sparse))
    elif "sparse" in what:
        model.graph.sparse_initializer.append(sparse)
    with pytest.raises(ModelError) as refused:
        graph_of(model)
    assert str(refused.value).endswith(what)


def test_an_input_with_a_default_is_refused():
    inputs = {"data": np.arange(4, dtype=F), "indices": np.array([[0]])}
    model = _model("GatherND", "", 13, inputs, (), {}, 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(inputs["indices"], "indices"))
    with pytest.raises(ModelError, match="input 'indices' is optional: it has a default"):
        graph_of(model)
    model.ir_version = 3
    assert [each.name for each in graph_of(model).inputs] == ["data"]


def test_a_bad_index_names_its_node_before_and_after(tmp_path):
    inputs = {"data": np.arange(4, dtype=F), "indices": np.array([[4]])}
    openvino.write(graph_of(_model("GatherND", "", 13, inputs, (), {}, 1)), tmp_path / "model.xml")
    with pytest.raises(IndexOutOfBoundsError, match=r"node 'pick' .*indices\[0, 0\] = 4"):
        openvino.run(tmp_path / "model.xml", inputs)
