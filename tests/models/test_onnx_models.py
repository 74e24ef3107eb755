"""ONNX models: gather nodes run in ndgather everywhere, and errors name the node."""

from functools import partial

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    FileError,
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
    ShapeError,
)
from ndgather.models import onnx as onnx_models
from ndgather.models.onnx import evaluator, nodes
from tests.definitions import reference

pytestmark = pytest.mark.runtimes

run = partial(onnx_models.run, runtime="reference")  # ndgather runs the gather nodes

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
INDICES = np.array([[0, 1], [2, -1]])
BAD = np.array([[0, 1], [2, 9]])
BAD_TEXT = "ai.onnx GatherND-13: indices[1, 1] = 9 is outside axis 1 of data, which has size 4"


DECLARED = "float[a,b] data, int64[n,2] indices"


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, *, initial=(), opset=13, domains=(), functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def gather_model(op_type="GatherND", *, kind=FLOAT, index=INT64, domain="", opset=13, **attributes):
    node = helper.make_node(
        op_type, ["data", "indices"], ["out"], name="pick", domain=domain, **attributes
    )
    return model_of(
        [node],
        [info("data", kind, ["a", "b"]), info("indices", index, ["n", "k"])],
        [info("out", kind, None)],
        opset=opset,
        domains=[domain] if domain else (),
    )


@pytest.fixture
def ours(monkeypatch):
    """Record the calls of ndgather operators; the evaluator has the same names."""
    calls = []

    def counted(op_type, domain, opset):
        calls.append(op_type)
        return nodes.implementation(op_type, domain, opset)

    monkeypatch.setattr(evaluator, "implementation", counted)
    return calls


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (gather_model(), reference.gather_nd(DATA, INDICES)),
        (gather_model(opset=11), reference.gather_nd(DATA, INDICES)),
        (gather_model("GatherElements"), reference.gather_elements(DATA, INDICES)),
        (
            gather_model("GatherElements", axis=1),
            reference.gather_elements(DATA, INDICES, axis=1),
        ),
        (gather_model("Gather"), reference.gather(DATA, INDICES)),
        (gather_model("Gather", axis=-1), reference.gather(DATA, INDICES, axis=-1)),
        (
            gather_model(domain="com.microsoft"),
            reference.gather_nd(DATA, INDICES),
        ),
    ],
    ids=["ND", "ND-11", "Elements", "Elements axis", "Gather", "Gather axis", "contributed"],
)
def test_gather_nodes_run_in_ndgather(ours, model, expected):
    out = run(model, {"data": DATA, "indices": INDICES})["out"]

    np.testing.assert_array_equal(out, expected, strict=True)
    assert ours == [model.graph.node[0].op_type]


def test_unknown_attributes_are_refused():
    model = gather_model(domain="com.microsoft", batch_dims=1)

    with pytest.raises(AttributeValueError) as refusal:
        run(model, {"data": DATA, "indices": INDICES})
    assert str(refusal.value) == (
        "node 'pick' (GatherND): com.microsoft GatherND-1: batch_dims is not an attribute of this "
        "version (allowed: no attributes)"
    )


def test_operators_that_the_opset_lacks_are_refused():
    with pytest.raises(AttributeValueError) as refusal:
        run(gather_model(opset=10), {"data": DATA, "indices": INDICES})
    assert str(refusal.value) == (
        "node 'pick' (GatherND): operator: opset = 10 has no ai.onnx GatherND "
        "(allowed: at least 11) "
        "(to repair it: convert --opset 11, which has ai.onnx GatherND-11)"
    )


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            gather_model(opset=11, batch_dims=0),
            "ai.onnx GatherND-11: batch_dims is not an attribute of this version "
            "(allowed: no attributes) "
            "(to repair it: convert --opset 12, which has ai.onnx GatherND-12)",
        ),
        (  # no later version accepts index tuples longer than the axes after the batch
            gather_model(opset=11, batch_dims=1),
            "ai.onnx GatherND-11: batch_dims is not an attribute of this version "
            "(allowed: no attributes)",
        ),
        (
            gather_model(kind=TensorProto.FLOAT8E4M3FN),
            "ai.onnx GatherND-13: data.dtype = float8_e4m3fn is not supported (allowed: int8, "
            "int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bool, "
            "string, complex64, complex128, bfloat16)",
        ),
    ],
    ids=["attribute", "attribute that no version allows", "type"],
)
def test_violations_of_the_version_are_refused(model, text):
    dtypes = [helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
              for port in model.graph.input]  # fmt: skip

    with pytest.raises(NdgatherError) as refusal:
        run(model, {"data": DATA.astype(dtypes[0]), "indices": INDICES.astype(dtypes[1])})
    assert str(refusal.value) == f"node 'pick' (GatherND): {text}"


def test_other_nodes_run_in_the_evaluator(ours):
    model = text_model(
        """turned = Transpose<perm = [1, 0]>(data)  picked = GatherND(turned, fixed)
           out = Add(picked, picked)""",
        "<int64[2,2] fixed = {1, 0, -1, 2}>",
        inputs="float[3,4] data",
        output="float[2] out",
    )

    result = onnx_models.Model(model).run({"data": DATA})

    np.testing.assert_array_equal(
        result.outputs[0].array, np.array([2, 22], np.float32), strict=True
    )
    assert ours == ["GatherND"]
    assert (result.gather_nodes, result.remaining_nodes) == (1, 2)


def text_model(nodes, head="", opset=13, functions="", inputs=DECLARED, output="float[n] out"):
    """Return a model parsed from nodes as text, with initializers in `head`."""
    used = [name for name in ("my.functions", "com.microsoft") if f"{name}." in nodes + functions]
    imports = ", ".join([f'"" : {opset}', *(f'"{name}" : 1' for name in used)])
    graph = f"g ({inputs}) => ({output}) {head} {{ {nodes} }}"
    return parse_model(f"<ir_version: 8, opset_import: [{imports}]> {graph} {functions}")


def function_model():
    return text_model(
        "[call] out = my.functions.Pick(data, indices)",
        functions="""<domain: "my.functions", opset_import: ["" : 13]>
            Pick (d, i) => (o) { [inner] o = GatherND(d, i) }""",
    )


def branch_model():
    return text_model(
        """[call] out = If(yes) <
            then_branch = t () => (float[n] t) { [inner] t = GatherND(data, indices) },
            else_branch = e () => (float[n] e) { [inner] e = GatherND(data, indices) }>""",
        "<bool yes = {1}>",
    )


@pytest.mark.parametrize(
    ("model", "op_type"),
    [(function_model(), "Pick"), (branch_model(), "If")],
    ids=["function", "branch"],
)
def test_nodes_in_subgraphs_and_functions_run_in_ndgather(ours, model, op_type):
    result = onnx_models.Model(model).run({"data": DATA, "indices": INDICES})

    np.testing.assert_array_equal(
        result.outputs[0].array, np.array([1, 11], np.float32), strict=True
    )
    assert ours == ["GatherND"]
    assert (result.gather_nodes, result.remaining_nodes) == (1, 0)
    with pytest.raises(IndexOutOfBoundsError) as refusal:
        run(model, {"data": DATA, "indices": BAD})
    assert str(refusal.value).startswith(
        f"node 'call' ({op_type}): node 'inner' (GatherND): {BAD_TEXT}"
    )


def loop_model():
    """A Loop with three iterations that gather from data and add to a carried value."""
    return text_model(
        """[call] out = Loop(rounds, yes, zeros) <
            body = b (int64 round, bool on, float[n] sum) => (bool still, float[n] next)
            { [inner] picked = GatherND(data, indices)  next = Add(sum, picked)
              still = Identity(on) }>""",
        "<int64 rounds = {3}, bool yes = {1}, float[2] zeros = {0, 0}>",
    )


def scan_model():
    """A Scan that gathers for each row of indices."""
    return text_model(
        """[call] out = Scan(indices) <num_scan_inputs = 1,
            body = b (int64[2] row) => (float picked) { [inner] picked = GatherND(data, row) }>"""
    )


@pytest.mark.parametrize(
    ("model", "rounds", "factor"),
    [(loop_model(), 3, 3), (scan_model(), 2, 1)],
    ids=["loop", "scan"],
)
def test_nodes_in_loops_run_in_ndgather(ours, model, rounds, factor):
    result = onnx_models.Model(model).run({"data": DATA, "indices": INDICES})

    expected = np.array([1, 11], np.float32) * np.float32(factor)
    np.testing.assert_array_equal(result.outputs[0].array, expected, strict=True)
    assert ours == ["GatherND"] * rounds
    assert result.gather_nodes == rounds


@pytest.mark.parametrize("version", [12, 11])
def test_functions_have_their_own_opset_and_pass_attributes(version):
    model = text_model(
        "out = my.functions.Pick<shared = 1>(data, indices)",
        functions=f"""<domain: "my.functions", opset_import: ["" : {version}]>
            Pick <shared> (d, i) => (o)
            {{ [inner] o = GatherND<batch_dims: int = @shared>(d, i) }}""",
        inputs="float[a,b] data, int64[a,1] indices",
        output="float[a] out",
    )
    inputs = {"data": DATA, "indices": np.array([[3], [0], [1]])}
    if version == 12:
        out = run(model, inputs)["out"]
        np.testing.assert_array_equal(out, np.array([3, 4, 9], np.float32), strict=True)
    else:
        with pytest.raises(AttributeValueError, match="GatherND-11: batch_dims is not an attr"):
            run(model, inputs)


@pytest.mark.parametrize("imported", ["", "ai.onnx"])
@pytest.mark.parametrize("written", ["", "ai.onnx"])
def test_both_names_of_the_onnx_domain_are_equivalent(ours, imported, written):
    model = branch_model()
    model.opset_import[0].domain = imported
    for node in model.graph.node:
        node.domain = written
        for attribute in node.attribute:
            attribute.g.node[0].domain = written

    out = run(model, {"data": DATA, "indices": INDICES})["out"]

    np.testing.assert_array_equal(out, np.array([1, 11], np.float32), strict=True)
    assert ours == ["GatherND"]


def test_two_versions_of_a_domain_are_refused():
    model = gather_model()
    model.opset_import.add(domain="ai.onnx", version=11)

    with pytest.raises(ModelError) as refusal:
        run(model, {"data": DATA, "indices": INDICES})
    assert str(refusal.value) == (
        "the model imports versions 13 and 11 of ai.onnx (allowed: one version)"
    )


def test_package_errors_keep_their_class_and_attributes():
    with pytest.raises(IndexOutOfBoundsError) as refusal:
        run(gather_model(), {"data": DATA, "indices": BAD})
    error = refusal.value
    assert str(error) == f"node 'pick' (GatherND): {BAD_TEXT} (allowed: -4..3)"
    assert (error.position, error.value, error.axis, error.size, error.count) == (
        (1, 1), 9, 1, 4, 1,
    )  # fmt: skip


def test_type_errors_are_not_hidden_by_the_evaluator():
    model = text_model(
        "out = GatherND(data, indices)", inputs="float[a,b] data, float[n,2] indices"
    )

    with pytest.raises(DTypeError) as refusal:
        run(model, {"data": DATA, "indices": INDICES.astype(np.float32)})
    assert str(refusal.value) == (
        "node GatherND of 'out': ai.onnx GatherND-13: indices.dtype = float32 is not supported "
        "(allowed: int64)"
    )


def test_errors_of_other_nodes_are_one_line_with_the_name():
    model = text_model(
        "[sum] out = Add(data, other)",
        inputs="float[a,b] data, float[c,d] other",
        output="float[a,b] out",
    )

    with pytest.raises(ModelError) as refusal:
        run(model, {"data": DATA, "other": np.zeros((5, 7), np.float32)})
    assert str(refusal.value) == (
        "node 'sum' (Add): operands could not be broadcast together with shapes (3,4) (5,7)"
    )


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (TensorProto.BFLOAT16, DATA.astype(ml_dtypes.bfloat16)),
        (TensorProto.STRING, DATA.astype(str).astype(object)),
        (TensorProto.COMPLEX128, DATA.astype(np.complex128)),
        (TensorProto.BOOL, DATA % 2 == 0),
    ],
    ids=["bfloat16", "string", "complex", "bool"],
)
def test_every_element_type_runs(kind, array):
    out = run(gather_model(kind=kind), {"data": array, "indices": INDICES})["out"]

    np.testing.assert_array_equal(out, array[[0, 2], [1, -1]], strict=True)


def test_float8_tensors_pass_through_other_nodes():
    eighths = DATA.astype(ml_dtypes.float8_e4m3fn)
    model = text_model(
        """wide = Cast<to = 1>(data)  picked = GatherND(wide, indices)
           out = Cast<to = 17>(picked)""",
        opset=19,
        inputs="int64[n,2] indices",
        output="float8e4m3fn[n] out",
    )
    model.graph.initializer.append(numpy_helper.from_array(eighths, "data"))

    out = run(model, {"indices": INDICES})["out"]

    np.testing.assert_array_equal(out, eighths[[0, 2], [1, -1]], strict=True)


@pytest.mark.parametrize(
    ("kind", "given", "taken"),
    [
        (FLOAT, DATA.astype(">f4"), DATA),
        (
            TensorProto.BFLOAT16,
            DATA.astype(ml_dtypes.bfloat16).view("V2"),
            DATA.astype(ml_dtypes.bfloat16),
        ),
        (TensorProto.STRING, DATA.astype(str), DATA.astype(str).astype(object)),
    ],
    ids=["byte order", "unnamed bytes", "fixed-width strings"],
)
def test_file_contents_are_converted_to_the_input_type(kind, given, taken):
    out = run(gather_model(kind=kind), {"data": given, "indices": INDICES})["out"]

    np.testing.assert_array_equal(out, taken[[0, 2], [1, -1]], strict=True)


def two_input_model():
    model = text_model(
        "out = Add(x, y)", inputs="float[N,?] x, float[N,4] y", output="float[N,4] out"
    )
    model.graph.initializer.append(numpy_helper.from_array(DATA, "y"))
    return model


def test_inputs_with_a_default_may_be_omitted():
    out = run(two_input_model(), {"x": DATA})["out"]
    np.testing.assert_array_equal(out, DATA + DATA, strict=True)

    out = run(two_input_model(), {"x": DATA, "y": DATA * 2})["out"]
    np.testing.assert_array_equal(out, DATA + DATA * 2, strict=True)


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        (
            {},
            ModelError,
            "input 'x' is missing (the model takes: x float32 (N, ?), y float32 (N, 4))",
        ),
        (
            {"x": DATA, "z": DATA},
            ModelError,
            "the model has no input 'z' (the model takes: x float32 (N, ?), y float32 (N, 4))",
        ),
        (
            {"x": DATA.astype(np.float64)},
            DTypeError,
            "input 'x': dtype = float64 does not match the model (allowed: float32)",
        ),
        (
            {"x": DATA[0]},
            ShapeError,
            "input 'x': shape = (4,) does not match the model (allowed: (N, ?))",
        ),
        (
            {"x": DATA, "y": DATA[:, :3]},
            ShapeError,
            "input 'y': shape = (3, 3) does not match the model (allowed: (N, 4))",
        ),
        (
            {"x": DATA, "y": DATA[:2]},
            ShapeError,
            "input 'y': shape[0] = 2 differs from N = 3, the size in input 'x' (allowed: 3)",
        ),
    ],
    ids=["missing", "unknown", "dtype", "rank", "size", "named size"],
)
def test_mismatched_inputs_are_refused(inputs, error, text):
    with pytest.raises(error) as refusal:
        run(two_input_model(), inputs)
    assert str(refusal.value) == text


def test_inputs_that_are_not_tensors_are_refused():
    model = text_model(
        "out = SequenceLength(many)", inputs="seq(float[3]) many", output="int64 out"
    )

    with pytest.raises(ModelError, match=r"^input 'many' is a sequence \(allowed: a tensor\)$"):
        onnx_models.Model(model)


def test_outputs_that_are_not_tensors_are_refused():
    model = text_model(
        "out = SequenceConstruct(data)", inputs="float[3,4] data", output="seq(float[3,4]) out"
    )

    with pytest.raises(ModelError, match=r"^output 'out' is a list \(allowed: a tensor\)$"):
        run(model, {"data": DATA})


class TestFiles:
    def test_external_data_is_found_next_to_the_model(self, tmp_path):
        model = model_of(
            [helper.make_node("GatherND", ["data", "indices"], ["out"])],
            [info("data", FLOAT, [3, 4])],
            [info("out", FLOAT, [2])],
            initial=[numpy_helper.from_array(INDICES, "indices")],
        )
        path = tmp_path / "model.onnx"
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert (tmp_path / "weights.bin").exists()

        out = run(path, {"data": DATA})["out"]
        np.testing.assert_array_equal(out, np.array([1, 11], np.float32), strict=True)

        (tmp_path / "weights.bin").unlink()
        text = r"model\.onnx: constant 'indices': .*weights\.bin: cannot be read: no such file"
        with pytest.raises(FileError, match=text):
            run(path, {"data": DATA})

    def test_invalid_models_are_refused(self, tmp_path):
        path = tmp_path / "model.onnx"
        model = gather_model()
        model.graph.output[0].CopyFrom(info("out", FLOAT, ["n"]))
        model.graph.node[0].input[1] = "index"
        onnx.save(model, path)

        with pytest.raises(ModelError, match=r"model\.onnx: is not a valid ONNX model: .*index"):
            onnx_models.load(path)

    def test_missing_files_are_refused(self, tmp_path):
        with pytest.raises(FileError, match=r"none\.onnx: cannot be read: no such file"):
            onnx_models.load(tmp_path / "none.onnx")


def test_reference_ops_work_in_any_reference_evaluator(ours):
    evaluator = ReferenceEvaluator(gather_model(), new_ops=onnx_models.reference_ops())

    (out,) = evaluator.run(None, {"data": DATA, "indices": INDICES})

    np.testing.assert_array_equal(out, np.array([1, 11], np.float32), strict=True)
    assert ours == ["GatherND"]


def test_implementation_depends_on_the_opset():
    for opset, version in [(11, 11), (12, 12), (13, 13), (25, 13)]:
        assert onnx_models.implementation("GatherND", "", opset).version == version
    assert onnx_models.implementation("Gather", "ai.onnx", 12).version == 11
    assert onnx_models.implementation("GatherND", "com.microsoft", 1).domain == "com.microsoft"


@pytest.mark.parametrize(
    ("kind", "values"), [("int64", [True, 2]), ("string", ["a", 1]), ("string", ["a\0", "b"])]
)
def test_lists_that_numpy_would_convert_lossily_are_refused(kind, values):
    head = '<ir_version: 8, opset_import: ["" : 16]>'
    text = f"{head} same ({kind}[N] x) => ({kind}[N] y) {{ y = Identity(x) }}"
    model = onnx.parser.parse_model(text)
    with pytest.raises(DTypeError, match="input 'x': array = list object would become"):
        onnx_models.run(model, {"x": values}, runtime="reference")
