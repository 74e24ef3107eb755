"""IR files give the same bytes in ndgather and in the `openvino` package."""

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

pytest.importorskip("defusedxml")
pytest.importorskip("openvino", reason="compares with the openvino package")

import openvino as ov

from ndgather.errors import ModelError
from ndgather.models import openvino as ours
from ndgather.models.graph.diagnostics import has_errors
from ndgather.published import operator
from ndgather.published.schema import TensorType, dtype_name
from tests.definitions.calls import assert_same_elements
from tests.models.ir_writer import CastNode, Graph, GraphInput, GraphOutput, OperatorNode, write_ir


def data(*shape, dtype="float32"):
    numbers = np.arange(np.prod(shape)).reshape(shape) - 3
    return (numbers % 3 == 0) if dtype == "bool" else numbers.astype(dtype)


def indices(array, dtype="int64"):
    return np.array(array, dtype)


GRID = [[[0, 2], [1, -1]], [[2, 0], [-3, 3]]]
CASES = (
    ("GatherND", 8, {"batch_dims": 0}, (data(3, 4, 2), indices(GRID))),
    ("GatherND", 8, {"batch_dims": 1}, (data(2, 3, 4), indices([[[1], [0]], [[2], [2]]]))),
    ("GatherND", 8, {"batch_dims": 2}, (data(2, 3, 4), indices([[[1]] * 3, [[0], [3], [2]]]))),
    ("GatherND", 5, {"batch_dims": 2}, (data(2, 3, 4), indices([[[1]] * 3, [[0], [3], [2]]]))),
    ("GatherElements", 6, {"axis": 1}, (data(3, 4), indices([[0, -1], [3, 2], [1, 1]]))),
    ("GatherElements", 6, {"axis": -2}, (data(3, 4), indices([[0, 1, 2, -1]], "int32"))),
    ("Gather", 1, {}, (data(3, 4), indices([[2, 0]]), indices(0))),
    ("Gather", 7, {"batch_dims": 1}, (data(2, 3), indices([[2, 0], [1, 1]]), indices(1))),
    ("Gather", 8, {"batch_dims": -1}, (data(2, 3), indices([[2, 0], [1, 1]]), indices([1]))),
    ("Gather", 8, {"batch_dims": 0}, (data(3, 4), indices([1, 5, -4, -2]), indices(-1))),
    ("ScatterNDUpdate", 3, {}, (data(4), indices([[2], [0]]), data(2))),
    ("ScatterNDUpdate", 15, {"reduction": "sum"}, (data(4), indices([[2], [2], [-1]]), data(3))),
    ("ScatterNDUpdate", 15, {"reduction": "sub"}, (data(3, 2), indices([[2], [0]]), data(2, 2))),
    (
        "ScatterElementsUpdate",
        3,
        {},
        (data(3, 4), indices([[0, 2, 1, 0]]), data(1, 4), indices(0)),
    ),
    (
        "ScatterElementsUpdate",
        12,
        {"reduction": "prod", "use_init_val": True},
        (data(3, 4), indices([[0, -1], [1, 1], [2, 3]]), data(3, 2), indices(1)),
    ),
    (
        "ScatterElementsUpdate",
        12,
        {"reduction": "mean", "use_init_val": False},
        (data(3, 4), indices([[0, -1], [1, 1], [2, 3]]), data(3, 2), indices(1)),
    ),
)


def one_node(name, version, attributes, arrays, *, constant=(), sizes=True):
    row = operator(name, domain="openvino", version=version).row
    values = dict(zip((each.name for each in row.inputs), arrays, strict=True))
    known = {each: array for each, array in values.items() if each in constant}
    graph = Graph(
        name="one",
        inputs=tuple(
            GraphInput(
                name=each,
                # OpenVINO does not support index tuples of unknown length.
                type=TensorType(
                    dtype_name(array),
                    array.shape if sizes else (*[None] * (array.ndim - 1), *array.shape[-1:]),
                ),
            )
            for each, array in values.items()
            if each not in known
        ),
        constants=known,
        nodes=(
            OperatorNode(
                name="node", row=row, inputs=tuple(values), output="out", attributes=attributes
            ),
        ),
        outputs=(GraphOutput(name="result", value="out"),),
    )
    return graph, {each: array for each, array in values.items() if each not in known}


def peer(path, inputs):
    compiled = ov.Core().compile_model(path, "CPU")
    results = compiled(inputs)
    return {name: results[each] for each in compiled.outputs for name in each.names}


@pytest.mark.parametrize("constant", [("axis",), ("axis", "indices")])
@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize(("name", "version", "attributes", "arrays"), CASES)
def test_operators_agree_with_openvino(
    tmp_path, name, version, attributes, arrays, constant, sizes
):
    graph, inputs = one_node(name, version, attributes, arrays, constant=constant, sizes=sizes)
    path = tmp_path / "model.xml"
    write_ir(graph, path)
    assert not has_errors(ours.check(path))
    here = ours.run(path, inputs)
    assert list(here) == ["result"]
    assert_same_elements(np.array(peer(path, inputs)["result"]), here["result"])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "uint8", "bool", "float16"])
def test_constants_of_every_type_are_read(tmp_path, dtype):
    arrays = (data(3, 4, dtype=dtype), indices([[2], [0]], "int32"))
    graph, inputs = one_node("GatherND", 8, {"batch_dims": 0}, arrays, constant=("data", "indices"))
    path = tmp_path / "model.xml"
    write_ir(graph, path)
    assert inputs == {}
    assert_same_elements(np.array(peer(path, {})["result"]), arrays[0][[2, 0]])
    assert_same_elements(ours.run(path, {})["result"], arrays[0][[2, 0]])


@pytest.mark.parametrize(
    ("element", "values"),
    [("u2", [3, 0, 1, 2, 1]), ("u4", [15, 0, 7]), ("i4", [-8, 7, -1]), ("bf16", [1, -2, 0.5])],
)
def test_constants_written_by_openvino_are_read(tmp_path, element, values):
    pytest.importorskip("ml_dtypes")
    constant = ov.op.Constant(getattr(ov.Type, element), ov.Shape([len(values)]), values)
    path = tmp_path / "model.xml"
    ov.serialize(ov.Model([constant.output(0)], [], "constant"), path, tmp_path / "model.bin")
    (result,) = ours.run(path, {}).values()
    np.testing.assert_array_equal(
        result.astype(np.float32), np.array(values, np.float32), strict=True
    )


def test_files_written_by_openvino_keep_names_and_ranges(tmp_path):
    made = ov.opset15.parameter(
        ov.PartialShape([ov.Dimension(1, 5), ov.Dimension.dynamic()]), np.float32, name="x"
    )
    made.output(0).get_tensor().set_names({"first,name", "second"})
    picked = ov.opset15.gather(made, np.array([0, 0]), np.array(0))
    path = tmp_path / "model.xml"
    model = ov.Model([picked.output(0), made.output(0)], [made], "model")
    ov.serialize(model, path, tmp_path / "model.bin")
    loaded = ours.Model.load(path)
    assert loaded.check() == ()
    assert [port.name for port in loaded.inputs] == ["first,name"]
    array = data(2, 3)
    for name in ("first,name", "second", "x"):
        picked_here, same = loaded.run({name: array}).outputs
        assert_same_elements(picked_here.array, array[[0, 0]])
        assert_same_elements(same.array, array)
    text = r"shape = \(6, 3\) does not match .* \(allowed: \(1\.\.5, \?\)\)"
    with pytest.raises(ValueError, match=text):
        loaded.run({"x": data(6, 3)})


@pytest.mark.parametrize(
    ("source", "target", "values"),
    [
        ("float32", "int32", [1.9, -1.9, 0.0, 2.0**30]),
        ("int32", "uint8", [0, 255, 7, 128]),
        ("int32", "float32", [2**24 + 1, -5, 0, 7]),
        ("float32", "bool", [0.0, -0.0, 0.5, -3.0]),
        ("bool", "float32", [True, False, True, True]),
        ("int64", "int32", [5, -7, 2**31 - 1, -(2**31)]),
        ("float32", "float16", [1.0009765, 65504.0, 1e-8, -2.5]),
    ],
)
def test_conversions_of_representable_values_agree(tmp_path, source, target, values):
    array = np.array(values, source)
    graph = Graph(
        name="convert",
        inputs=(GraphInput(name="x", type=TensorType(source, array.shape)),),
        constants={},
        nodes=(CastNode(name="convert", input="x", output="y", dtype=target),),
        outputs=(GraphOutput(name="result", value="y"),),
    )
    path = tmp_path / "model.xml"
    write_ir(graph, path)
    here = ours.run(path, {"x": array})["result"]
    assert_same_elements(np.array(peer(path, {"x": array})["result"]), here)


def test_empty_constants_are_read(tmp_path):
    arrays = (data(3, 4), indices(np.zeros((0, 1))))
    graph, inputs = one_node("GatherND", 8, {"batch_dims": 0}, arrays, constant=("indices",))
    path = tmp_path / "model.xml"
    write_ir(graph, path)
    assert ours.run(path, inputs)["result"].shape == (0, 4)
    assert peer(path, inputs)["result"].shape == (0, 4)


def test_values_with_several_names_can_be_read_by_each(tmp_path):
    graph, inputs = one_node(*CASES[0])
    several = Graph(
        name="several",
        inputs=graph.inputs,
        constants=graph.constants,
        nodes=graph.nodes,
        outputs=(
            *graph.outputs,
            GraphOutput(name="again, a", value="out"),
            GraphOutput(name="same", value="data"),
        ),
    )
    path = tmp_path / "model.xml"
    write_ir(several, path)
    here, there = ours.run(path, inputs), peer(path, inputs)
    assert list(here) == ["result", "again, a", "same"]
    for name, value in here.items():
        assert_same_elements(np.array(there[name]), value)


def test_openvino_runs_files_with_other_layers(tmp_path):
    ops = ov.opset8
    x = ops.parameter([-1, 4], np.float32, name="x")
    path = tmp_path / "soft.xml"
    ov.save_model(ov.Model([ops.result(ops.softmax(x, 1), name="y")], [x]), str(path))
    with pytest.raises(ModelError, match="'SoftMax' of 'opset8' is not supported") as refusal:
        ours.run(path, {"x": data(1, 4)})
    assert "openvino.Core().compile_model" in str(refusal.value)
    (result,) = ov.Core().compile_model(path)({"x": data(1, 4)}).values()
    assert result.shape == (1, 4)


def test_inputs_accept_all_names_of_their_tensor(tmp_path):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3,4] x, int64[2] i) => (float[2,4] z)
        { a = Identity(x)  z = Gather(a, i) }""")
    onnx.save(model, tmp_path / "m.onnx")
    converted = ov.convert_model(tmp_path / "m.onnx")
    ov.save_model(converted, tmp_path / "m.xml", compress_to_fp16=False)
    assert ov.Core().read_model(tmp_path / "m.xml").inputs[0].get_names() == {"a", "x"}
    loaded = ours.Model.load(tmp_path / "m.xml")

    for name in "x", "a":
        (output,) = loaded.run({name: data(3, 4), "i": indices([0, 2])}).outputs
        assert_same_elements(output.array, data(3, 4)[[0, 2]])
    with pytest.raises(ModelError, match="is given twice"):
        loaded.run({"i": indices([0, 2]), "a": data(3, 4), "x": data(3, 4)})
