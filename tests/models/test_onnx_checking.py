"""Findings of `check`: errors, differences between runtimes, and unsupported nodes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from ndgather.errors import FileError, ModelError, NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.graph import diagnostics
from ndgather.models.graph.diagnostics import CONDITIONS, RUNTIME_NOTES, Severity, has_errors
from tests.models.test_onnx_models import text_model

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
ERROR, DIFFERS, PORTABLE = Severity.ERROR, Severity.DIFFERS, Severity.PORTABLE


def info(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, *, initial=None, opset=13, functions=()):
    tensors = [numpy_helper.from_array(array, name) for name, array in (initial or {}).items()]
    domains = {"": opset, "com.microsoft": 1, "my.functions": 1}
    outputs = [info("out", inputs[0].type.tensor_type.elem_type)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors),
        opset_imports=[helper.make_opsetid(*item) for item in domains.items()],
        functions=list(functions),
        ir_version=8,
    )
    try:
        return onnx_models.infer(model)  # a valid model declares the rank of its outputs
    except NdgatherError:
        return model


def one_node(
    op_type="GatherND",
    data=(5, 4),
    indices=(2, 1),
    *,
    kind=FLOAT,
    index=INT64,
    domain="",
    opset=13,
    updates=None,
    **attributes,
):
    """Return a model with one node. `indices` is a shape or a constant array."""
    names = ["data", "indices"] + (["updates"] if updates is not None else [])
    inputs = [info("data", kind, data)]
    initial = {}
    if isinstance(indices, np.ndarray):
        initial["indices"] = indices
    else:
        inputs.append(info("indices", index, indices))
    if updates is not None:
        inputs.append(info("updates", kind, updates))
    node = helper.make_node(op_type, names, ["out"], name="pick", domain=domain, **attributes)
    return model_of([node], inputs, initial=initial, opset=opset)


def found(model):
    return {
        (each.severity, each.rule): (each.what, each.runtimes) for each in onnx_models.check(model)
    }


def test_valid_models_have_no_findings():
    assert onnx_models.check(one_node()) == ()


ERRORS = {
    "constant index": (
        one_node(data=(2, 5), indices=np.array([[0, 1], [1, 7]])),
        "index range",
        "ai.onnx GatherND-13: indices[1, 1] = 7 is outside axis 1 of data, which has size 5 "
        "(allowed: -5..4); TensorFlow and TensorRT return zeros on a GPU; XLA clamps it to "
        "the nearest valid index; OpenVINO reads out-of-bounds memory",
        ("TensorFlow", "TensorRT", "XLA", "OpenVINO"),
    ),
    "batch sizes": (
        one_node(data=(1, 4), indices=(6, 1), batch_dims=1),
        "shapes",
        "ai.onnx GatherND-13: indices.shape[0] = 6 differs from data.shape[0] = 1: batch axes must "
        "be equal in data (1, 4) and indices (6, 1) (allowed: 1); onnxruntime runs it "
        "if one slice count divides the other, and the OpenVINO ONNX frontend if one size is 1, so "
        "the model may appear to work",
        ("onnxruntime", "ONNX frontend of OpenVINO"),
    ),
    "tuples of none": (
        one_node(indices=(6, 0)),
        "shapes",
        "ai.onnx GatherND-13: indices.shape[-1] = 0 is too short for an index tuple; data (5, 4), "
        "indices (6, 0) (allowed: 1..2); onnxruntime copies all of data for each tuple",
        ("onnxruntime",),
    ),
    "attribute of a later version": (
        one_node(batch_dims=0, opset=11),
        "attributes",
        "ai.onnx GatherND-11: batch_dims is not an attribute of this version (allowed: no "
        "attributes); ai.onnx GatherND-12 or ai.onnx GatherND-13 accepts it",
        (),
    ),
    "negative index before it was allowed": (
        one_node("Gather", indices=np.array([-1]), opset=10),
        "index range",
        "ai.onnx Gather-1: indices[0] = -1 is outside axis 0 of data, which has size 5 (allowed: "
        "0..4); TensorFlow and TensorRT return zeros on a GPU; XLA clamps it to the nearest "
        "valid index; ai.onnx Gather-11 or ai.onnx Gather-13 accepts it",
        ("TensorFlow", "TensorRT", "XLA"),
    ),
    "type": (
        one_node(index=INT32, kind=TensorProto.BFLOAT16, opset=12),
        "types",
        "ai.onnx GatherND-12: data.dtype = bfloat16 is not supported (allowed: int8, int16, int32, "
        "int64, uint8, uint16, uint32, uint64, float16, float32, float64, bool, string, "
        "complex64, complex128)",
        (),
    ),
    "version": (
        one_node(opset=10),
        "opset",
        "operator: opset = 10 has no ai.onnx GatherND (allowed: at least 11)",
        (),
    ),
}


@pytest.mark.parametrize(("model", "rule", "what", "runtimes"), ERRORS.values(), ids=ERRORS)
def test_violations_of_the_version_are_errors(model, rule, what, runtimes):
    (finding,) = onnx_models.check(model)

    assert (finding.severity, finding.rule) == (ERROR, rule)
    assert finding.what == what
    assert finding.runtimes == runtimes
    assert finding.where == "pick"


@pytest.mark.parametrize(
    ("opset", "severity", "what", "runtimes"),
    [
        (9, PORTABLE, "ScatterElements-11 replaced it; onnxruntime runs it", ("onnx.reference",)),
        (11, ERROR, "opset 11 has no Scatter (ScatterElements-11 replaced it)", ()),
    ],
)
def test_scatter_is_reported_before_and_after_its_replacement(opset, severity, what, runtimes):
    (finding,) = onnx_models.check(one_node("Scatter", updates=(2, 1), opset=opset))
    assert (finding.severity, finding.rule, finding.runtimes) == (severity, "opset", runtimes)
    assert finding.what.startswith(what)


FLOAT16, BFLOAT16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
SCATTER = {"op_type": "ScatterND", "opset": 18, "updates": (2, 4)}
SCATTER_ELEMENTS = {
    "op_type": "ScatterElements", "opset": 18, "indices": (2, 4), "updates": (2, 4)
}  # fmt: skip
OTHERS = {
    "negative index": [
        (
            one_node(indices=np.array([[0], [-2]])),
            "indices[1, 0] = -2 counts from the end",
            {"TensorFlow", "XLA", "LiteRT", "OpenVINO before June 2025"},
        ),
        (
            one_node("GatherElements", indices=np.array([[-1, 0, 0, 0]])),
            "indices[0, 0] = -1 counts from the end",
            {"XLA", "torch.gather", "OpenVINO before June 2025"},
        ),
    ],
    "index width": [
        (
            one_node(data=(3, 2**32), indices=np.array([[0, 2**31]])),
            "indices[0, 1] = 2147483648 needs more than 32 bits",
            {"TensorRT"},
        ),
        (
            one_node("Gather", data=(3, 2**31 + 1), axis=-1),
            "axis 1 of data has size 2147483649",
            {"TensorRT"},
        ),
    ],
    "64-bit integers": [(one_node(kind=INT64), "data is int64", {"OpenVINO CPU"})],
    "64-bit floats": [(one_node(kind=TensorProto.DOUBLE), "data is float64", {"OpenVINO CPU"})],
    "complex data": [(one_node(kind=TensorProto.COMPLEX64), "data is complex64", {"onnxruntime"})],
    "string data": [(one_node(kind=TensorProto.STRING), "data is string", {"TensorRT"})],
    "string slices": [
        (
            one_node("Gather", data=(3, "n"), kind=TensorProto.STRING),
            "data is string, and an index addresses a slice of shape (n,)",
            {"onnxruntime CPU"},
        ),
    ],
    "batch sizes unproved": [
        (
            one_node(data=("N", 4), indices=("M", 1), batch_dims=1),
            "sizes N and M of batch axis 0 are not known to be equal",
            {"onnxruntime", "ONNX frontend of OpenVINO"},
        ),
    ],
    "batch dims": [
        (
            one_node(data=("N", 4), indices=("N", 1), batch_dims=1),
            "batch_dims is 1",
            {"onnxruntime symbolic_shape_infer"},
        ),
    ],
    "tuple length": [
        (
            one_node(indices=(2, "K")),
            "the length of the index tuples is not known",
            {"TensorRT"},
        ),
    ],
    "contributed operator": [
        (
            one_node(domain="com.microsoft", index=INT32),
            "the operator is from com.microsoft",
            {"all but onnxruntime"},
        ),
    ],
    "operator": [
        (
            model_of(
                [helper.make_node("TensorScatter", ["cache", "update"], ["out"], name="pick")],
                [info("cache", FLOAT, [2, 8, 4]), info("update", FLOAT, [2, 1, 4])],
                opset=24,
            ),
            "the operator is TensorScatter",
            {"OpenVINO"},
        ),
    ],
    "contributed tuple length": [
        (
            one_node(domain="com.microsoft", indices=(2, None)),
            "the length of the index tuples is not known",
            {"onnxruntime"},
        ),
    ],
    "off-axis sizes": [
        (
            one_node("GatherElements", indices=(9, 3)),
            "indices.shape[1] = 3 is less than data.shape[1] = 4",
            {"OpenVINO", "numpy.take_along_axis", "onnx.reference"},
        ),
    ],
    "duplicates": [
        (
            one_node(**SCATTER, indices=np.array([[1], [-4]])),
            "position (1,) of data has duplicate indices",
            set(),
        ),
        (
            one_node(**{**SCATTER_ELEMENTS, "indices": np.array([[0, 1, 2, 3], [4, 1, 0, 0]])}),
            "position (1, 1) of data has duplicate indices",
            set(),
        ),
    ],
    "reduction": [(one_node(**SCATTER, reduction="add"), "reduction is 'add'", {"TensorRT"})],
    "repeated updates": [
        (
            one_node("ScatterND", (5, 4), (5000, 1), updates=(5000, 4), opset=18, reduction="add"),
            "reduction is 'add', and indices may repeat",
            {"onnxruntime CPU"},
        ),
        (
            one_node(
                "ScatterND",
                (5, 4),
                np.zeros((5000, 1), np.int64),
                updates=(5000, 4),
                opset=18,
                reduction="add",
            ),
            "reduction is 'add', and position (0,) of data has duplicate indices",
            {"onnxruntime CPU"},
        ),
    ],
    "reduction of halves": [
        (
            one_node(**SCATTER, kind=FLOAT16, reduction="max"),
            "reduction is 'max' and data is float16",
            {"onnxruntime CPU"},
        ),
        (
            one_node(**SCATTER_ELEMENTS, kind=BFLOAT16, reduction="max"),
            "reduction is 'max' and data is bfloat16",
            {"onnxruntime CPU"},
        ),
        (
            one_node(**SCATTER_ELEMENTS, kind=FLOAT16, reduction="mul"),
            "reduction is 'mul' and data is float16",
            {"onnxruntime CPU"},
        ),
    ],
}


@pytest.mark.parametrize(
    ("condition", "model", "detail", "runtimes"),
    [(condition, *case) for condition, cases in OTHERS.items() for case in cases],
)
def test_differences_between_runtimes_are_findings(condition, model, detail, runtimes):
    findings = [each for each in onnx_models.check(model) if each.rule == condition]

    assert findings
    assert {runtime for each in findings for runtime in each.runtimes} == runtimes
    for each in findings:
        assert each.severity is not ERROR
        assert each.what.startswith(f"{detail}: ")
        assert (each.where, "-" in each.operator) == ("pick", True)


NOT_MET = {
    "non-negative indices": one_node(indices=np.array([[0], [4]])),
    "off-axis sizes on the axis only": one_node("GatherElements", indices=(2, 4)),
    "an axis whose last index needs 31 bits": one_node("Gather", data=(3, 2**31), axis=-1),
    "unknown sizes": one_node("GatherElements", data=("A", 4), indices=("B", 4)),
    "distinct updates": one_node(**SCATTER, indices=np.array([[1], [-1]])),
    "duplicates with a reduction": one_node(
        **{**SCATTER_ELEMENTS, "indices": np.array([[0, 1, 2, 3], [4, 1, 0, 0]])}, reduction="add"
    ),
    "a maximum of halves": one_node(**SCATTER_ELEMENTS, kind=FLOAT16, reduction="max"),
}


@pytest.mark.parametrize("model", NOT_MET.values(), ids=NOT_MET)
def test_findings_require_their_condition(model):
    assert onnx_models.check(model) == ()


def test_every_runtime_note_has_a_test_case():
    assert {note.rule for note in RUNTIME_NOTES} == set(CONDITIONS)
    errors = {note.rule for note in RUNTIME_NOTES if note.severity is ERROR}
    assert set(OTHERS) | errors == set(CONDITIONS)
    for note in RUNTIME_NOTES:
        assert note.source.startswith("https://")


def test_inferred_types_are_used_in_checks():
    """The type and size of data are only known by inference through the previous node."""
    model = text_model(
        "wide = Cast<to = 7>(data) [pick] picked = GatherND(wide, at) out = Cast<to = 1>(picked)",
        "<int64[1,2] at = {3, -4}>",
        inputs="float[5,4] data",
        output="float[1] out",
    )

    rules = {each.rule for each in onnx_models.check(model)}
    assert rules == {"64-bit integers", "negative index"}


def test_nodes_in_functions_are_checked_for_each_call():
    model = text_model(
        "out = my.functions.Pick(data, indices) other = my.functions.Pick(small, indices)",
        "<int64[1,1] indices = {4}>",
        functions="""<domain: "my.functions", opset_import: ["" : 13]>
            Pick (d, i) => (o) { [inner] o = GatherND(d, i) }""",
        inputs="float[5,4] data, float[2,4] small",
        output="float[1,4] out",
    )

    (finding,) = onnx_models.check(model)
    assert finding.severity is ERROR
    assert finding.where.startswith("inner")
    assert "indices[0, 0] = 4 is outside axis 0 of data, which has size 2" in finding.what


def test_functions_are_checked_in_their_own_opset():
    model = text_model(
        "out = my.functions.Pick(data, indices)",
        functions="""<domain: "my.functions", opset_import: ["" : 11]>
            Pick (d, i) => (o) { [inner] o = GatherND<batch_dims = 1>(d, i) }""",
        inputs="float[5,4] data, int64[5,1] indices",
        output="float[5] out",
    )

    (finding,) = onnx_models.check(model)
    assert (finding.operator, finding.rule) == ("ai.onnx GatherND-11", "attributes")


def test_unnamed_nodes_are_identified_by_output_and_path():
    branch = "() => (float[1,4] t) { t = GatherND(data, indices) }"
    model = text_model(
        f"[f] out = If(yes) <then_branch = b {branch}, else_branch = b {branch}>",
        "<int64[1,1] indices = {9}>",
        inputs="float[5,4] data, bool yes",
        output="float[1,4] out",
    )

    wheres = [each.where for each in onnx_models.check(model)]
    assert wheres == ["f/GatherND of t", "f/GatherND of t"]


def test_wrong_declarations_are_errors():
    model = one_node()
    model.graph.output[0].CopyFrom(info("out", FLOAT, [2, 9]))

    (finding,) = onnx_models.check(model)
    assert (finding.severity, finding.rule) == (ERROR, "shapes")
    assert finding.what == (
        "value 'out': shape = (2, 4) contradicts the model's declaration (allowed: (2, 9))"
    )


def test_onnx_checker_errors_are_findings():
    model = one_node()
    model.graph.node.add(op_type="Neg", input=["nothing"], output=["more"])

    (finding,) = onnx_models.check(model)
    assert (finding.where, finding.rule, finding.severity) == ("Neg of more", "onnx.checker", ERROR)
    assert "nothing" in finding.what


def test_models_in_files_are_checked(tmp_path):
    path = tmp_path / "model.onnx"
    model = one_node(indices=np.array([[9]]))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)

    (finding,) = onnx_models.check(path)
    assert finding.rule == "index range"
    with pytest.raises(FileError):
        onnx_models.check(tmp_path / "none.onnx")


def test_one_finding_covers_all_runtimes():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        last (float[N, 2] x) => (float[1, 2] y)
        <int64[1] end = {-1}> { y = Gather(x, end) }""")
    (finding,) = onnx_models.check(model)
    assert finding.what.startswith("indices[0] = -1 counts from the end: TensorFlow raises an")
    assert {"TensorFlow", "XLA", "LiteRT"} <= set(finding.runtimes)
    assert finding.severity is Severity.DIFFERS
    (about,) = diagnostics.about([finding], ["litert"])
    assert (about.severity, about.runtimes) == (Severity.PORTABLE, ("LiteRT",))
    assert about.what == "indices[0] = -1 counts from the end: LiteRT (TFLite) raises an error"
    assert diagnostics.about([finding], ["onnxruntime"]) == []
    assert "notes" not in diagnostics.to_json([finding])[0]


def test_nodes_with_different_index_values_have_separate_findings():
    values = [[0, 2], [0, -1], [1, 2], [-3, -2], [0, 5]]
    nodes = [
        f"a{n} = Constant <value_ints = {value}> ()\ny{n} = Gather (data, a{n})"
        for n, value in enumerate(values)
    ]
    text = "\n".join(nodes)
    model = parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[3, 4] data) => (float[2, 4] y0) {{ {text} }}""")
    indexed = [finding for finding in onnx_models.check(model) if "indices[" in finding.what]
    texts = [
        (item.where, item.what.split("indices")[1].split(" is ")[0].split(":")[0])
        for item in indexed
    ]
    assert texts == [
        ("Gather of y1", "[1] = -1 counts from the end"),
        ("Gather of y3", "[0] = -3 counts from the end"),
        ("Gather of y4", "[1] = 5"),
    ]


def test_short_external_files_are_errors(tmp_path):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        add (float[3] x) => (float[3] y) { y = Add(x, table) }""")
    tensor = model.graph.initializer.add(name="table", data_type=1, dims=[750_000_000])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in ("location", "table.bin"), ("length", "3000000000"):
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "table.bin").write_bytes(bytes(1000))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (finding,) = onnx_models.check(tmp_path / "m.onnx")
    assert finding.severity is Severity.ERROR
    assert "'table'" in finding.what
    assert "1000" in finding.what


def with_sparse(place, values, positions, dims):
    """Return a model with a sparse initializer or Constant, optionally in a branch."""
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        pick (float[4] x) => (float[3] y) { y = Gather(x, at) }""")
    if place == "branch":
        model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
            pick (float[4] x) => (float[3] y)
            { c = Constant<value = bool {1}>()
              y = If(c) <then_branch = a () => (float[3] z) { z = Gather(x, at) },
                         else_branch = b () => (float[3] w)
                           { w = Constant<value_floats = [1.0, 2.0, 3.0]>() }> }""")
    values = helper.make_tensor("at", 7, [len(values)], values)
    positions = np.array(positions)
    indices = helper.make_tensor("", 7, positions.shape, positions.ravel())
    sparse = helper.make_sparse_tensor(values, indices, dims)
    if place == "initializer":
        model.graph.sparse_initializer.append(sparse)
        return model
    sparse.values.name = ""
    constant = helper.make_node("Constant", [], ["at"], sparse_value=sparse)
    graph = model.graph if place == "constant" else model.graph.node[1].attribute[0].g
    graph.node.insert(0, constant)
    return model


SPARSE = pytest.mark.parametrize("place", ["initializer", "constant", "branch"])


def test_multiple_sparse_tensors_are_read():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        sum (float[4] x) => (float[4] y)
        { p = Sum(x, a, b)
          y = Sum(p, c) }""")
    for n, name in enumerate("abc"):
        values = helper.make_tensor(name, 1, [1], [10.0**n])
        indices = helper.make_tensor("", 7, [1], [n])
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    assert onnx_models.check(model) == ()
    result = onnx_models.run(model, {"x": np.zeros(4, np.float32)}, runtime="reference")
    assert result["y"].tolist() == [1, 10, 100, 0]


@SPARSE
def test_sparse_tensors_are_read(place):
    x = np.array([10, 11, 12, 13], np.float32)
    for positions in [1, 2], [[1], [2]]:
        model = with_sparse(place, [3, 2], positions, [3])
        before = model.SerializeToString()
        assert onnx_models.check(model) == ()
        result = onnx_models.run(model, {"x": x}, runtime="reference")
        np.testing.assert_array_equal(result["y"], [10, 13, 12])
        assert model.SerializeToString() == before
    square = with_sparse(place, [3, 2], [[0, 1], [1, 0]], [2, 2])
    square.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [2, 2]))
    if place != "branch":
        result = onnx_models.run(square, {"x": x}, runtime="reference")
        np.testing.assert_array_equal(result["y"], [[10, 13], [12, 10]])
        wrong = with_sparse(place, [3, 9], [[0, 1], [1, 0]], [2, 2])
        wrong.graph.output[0].CopyFrom(square.graph.output[0])
        (finding,) = onnx_models.check(wrong)
        assert "indices[1, 0] = 9 is outside axis 0 of data" in finding.what
    (finding,) = onnx_models.check(with_sparse(place, [3, 9], [1, 2], [3]))
    assert finding.severity is Severity.ERROR
    assert "indices[2] = 9 is outside axis 0 of data" in finding.what


@SPARSE
@pytest.mark.parametrize(
    ("options", "stays"),
    [
        (None, True),  # infer
        ({"opset": 7}, False),
        ({"opset": 10}, False),
        ({"opset": 11}, True),
        ({"opset": 21}, True),
        ({"operator": "GatherND"}, False),  # the indices themselves are reshaped
        ({"target": "onnxruntime"}, True),
        ({"target": "ncnn"}, False),
    ],
    ids=str,
)
def test_sparse_tensors_stay_sparse_unless_rewritten(place, options, stays):
    model = with_sparse(place, [3, 2], [1, 2], [3])

    infers = options is None
    changed = onnx_models.infer(model) if infers else onnx_models.convert(model, **options)

    is_sparse = changed.graph.sparse_initializer or b"sparse_value" in changed.SerializeToString()
    assert bool(is_sparse) is stays
    assert b"ndgather" not in changed.SerializeToString()
    assert not has_errors(onnx_models.check(changed))
    x = np.array([10, 11, 12, 13], np.float32)
    result = onnx_models.run(changed, {"x": x}, runtime="reference")
    np.testing.assert_array_equal(result["y"], [10, 13, 12])


@SPARSE
@pytest.mark.parametrize(
    ("positions", "dims"), [([1, 7], [3]), ([-1, 1], [3]), ([[0], [1]], [3, 3]), ([1, 2], [-3])]
)
def test_invalid_sparse_tensors_are_errors(place, positions, dims):
    with pytest.raises(FileError, match=r"^constant 'at': is not a sparse tensor of shape "):
        onnx_models.check(with_sparse(place, [3, 2], positions, dims))


@SPARSE
def test_large_sparse_tensors_are_reported(place):
    finding = onnx_models.check(with_sparse(place, [3, 2], [1, 2], [10**12]))[0]
    assert finding.severity is Severity.PORTABLE
    assert finding.what.startswith("'at' is a sparse tensor of more than 1048576 elements, whose")


@pytest.mark.parametrize("call", [onnx_models.check, onnx_models.convert])
def test_empty_files_and_cycles_are_refused(call, tmp_path):
    (tmp_path / "m.onnx").touch()
    with pytest.raises(ModelError, match=r"m\.onnx: is empty \(allowed: an ONNX model\)"):
        call(tmp_path / "m.onnx")
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        add (float[3] x) => (float[3] y) { a = Add(x, b)  b = Neg(a)  y = Neg(b) }""")
    text = "node Add of 'a': it reads its own result (allowed: graphs without cycles)"
    if call is onnx_models.check:
        assert [finding.what for finding in call(model)] == [text]
    else:
        with pytest.raises(ModelError) as refused:
            call(model)
        assert str(refused.value) == text


def test_the_domain_name_ai_onnx_is_accepted():
    model = one_node("Gather", indices=(2,))
    before = onnx_models.check(model)
    model.opset_import[0].domain = model.graph.node[0].domain = "ai.onnx"
    assert onnx_models.check(model) == before


WITHOUT_AN_IMPORT = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[2,4] x, int64[2] i) => (float[2,4] z)
    { [act] h = com.microsoft.Gelu(x)  [more] k = com.microsoft.Gelu(h)
      [pick] z = Gather(k, i) }"""


def test_missing_imports_are_reported_once():
    model = parse_model(WITHOUT_AN_IMPORT)
    del model.opset_import[1:]

    (found,) = onnx_models.check(model)

    assert (found.where, found.rule, found.severity) == ("act", "opset", ERROR)
    assert (
        found.what == "the model imports no version of com.microsoft; onnxruntime assumes version 1"
    )


def test_models_with_missing_imports_are_converted_and_inferred():
    model = parse_model(WITHOUT_AN_IMPORT)
    del model.opset_import[1:]
    converted = onnx_models.convert(model, opset=18)
    assert {item.domain: item.version for item in converted.opset_import} == {
        "": 18,
        "com.microsoft": 1,
    }
    assert not [x for x in onnx_models.check(converted) if x.severity is ERROR]
    assert len(onnx_models.infer(model).graph.node) == 3


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[ok] a = Relu(x)  [bad] y = Relu<alpha = 1.0>(a)", "bad"),
        ("[ok] a = Relu(x)  y = Sum()", "Sum of y"),
        ("[ok] a = Relu(x)  [bad] y = MatMul(a, x)", "bad"),
    ],
)
def test_onnx_errors_name_the_node(text, where):
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[n, m] y) {{ {text} }}""")
    (found,) = onnx_models.check(model)
    assert found.where == where


def scatter_of(count, reduction="add", kind="ScatterND"):
    indices = np.zeros((count, 1), np.int64) if isinstance(count, int) else count
    shape = indices.shape if isinstance(indices, np.ndarray) else indices
    updates = (shape[0], 4) if kind == "ScatterND" else shape
    options = {} if kind == "ScatterND" else {"axis": 0}
    return one_node(
        kind, (5, 4), indices, updates=updates, opset=18, reduction=reduction, **options
    )


REPEATED = "repeated updates"


@pytest.mark.parametrize(
    ("indices", "reduction", "kind", "found"),
    [
        (5000, "add", "ScatterND", True),
        (5000, "max", "ScatterND", True),
        (("M", 1), "mul", "ScatterND", True),
        (("M", 1), "min", "ScatterND", True),
        (5000, "none", "ScatterND", False),
        (8, "add", "ScatterND", False),  # too few updates for several threads
        (1024, "add", "ScatterND", False),  # 4096 elements
        (1025, "add", "ScatterND", True),
        (("M", 4), "add", "ScatterElements", False),
    ],
    ids=str,
)
def test_lost_updates_in_onnxruntime_are_a_finding(indices, reduction, kind, found):
    findings = onnx_models.check(scatter_of(indices, reduction, kind))
    lost = [each for each in findings if each.rule == REPEATED]
    assert bool(lost) is found
    if found:
        assert lost[0].severity is DIFFERS
        assert lost[0].runtimes == ("onnxruntime CPU",)
        assert lost[0].what.endswith("(--threads 1, convert --target onnxruntime)")


def test_unique_indices_have_no_lost_update_finding():
    data = np.arange(5000).reshape(-1, 1)
    model = one_node("ScatterND", (5000, 4), data, updates=(5000, 4), opset=18, reduction="add")
    assert REPEATED not in {each.rule for each in onnx_models.check(model)}
    data[7] = 6
    model = one_node("ScatterND", (5000, 4), data, updates=(5000, 4), opset=18, reduction="add")
    assert REPEATED in {each.rule for each in onnx_models.check(model)}


def test_unsupported_types_of_other_operators_are_errors():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 12]>
        g (bfloat16[2] x) => (bfloat16[2] y) { y = Add(x, x) }""")
    (finding,) = onnx_models.check(model)
    assert (finding.where, finding.rule) == ("Add of y", "onnx.checker")
    assert "unsupported type: tensor(bfloat16)" in finding.what
