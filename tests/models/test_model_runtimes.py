"""Models in other runtimes, whose gathers and scatters are compared with the specification.

One runtime is a module of these tests, which wraps the onnx evaluator and can return wrong values.
onnxruntime and OpenVINO are used if they are installed.
"""

import json
import os
import re
import sys
import time
import types
from importlib.metadata import version

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

from ndgather.errors import ExtraMissingError, IndexOutOfBoundsError, ModelError
from ndgather.models import onnx as onnx_models
from tests.definitions import reference
from tools import versions

pytestmark = pytest.mark.runtimes

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
INDICES = np.array([[0, 1], [2, -1]])
MODEL = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
    pick (float[a, b] data, int64[n, 2] indices) => (float[n] y)
    { d = Add(data, data)  picked = GatherND(d, indices)  y = Neg(picked) }""")
TWICE = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
    pick (float[a, b] data, int64[n, 2] indices) => (float[n] y, float[n] z)
    { y = GatherND(data, indices)  z = GatherND(data, indices) }""")
EXPECTED = -reference.gather_nd(DATA + DATA, INDICES)


def in_every(*names):
    return [
        pytest.param(
            name, marks=pytest.mark.skipif(not _there(name), reason=f"{name} is not installed")
        )
        for name in names
    ]


def _there(name):
    from importlib.util import find_spec  # noqa: PLC0415

    return name == "reference" or find_spec(name) is not None


RUNTIMES = in_every("reference", "onnxruntime", "openvino")


@pytest.fixture
def wrong(monkeypatch):
    """A custom runtime: the onnx evaluator with modifiable results."""
    package = types.ModuleType("ours_for_tests")
    package.__path__ = []
    module = types.ModuleType("ours_for_tests.wrong")
    module.change, module.threads = {}, []

    class Session:
        def __init__(self, source):
            self.evaluator = onnx.reference.ReferenceEvaluator(source.content)
            outputs = self.evaluator.output_names
            assert len({*outputs}) == len(outputs)  # onnxruntime requires it

        def run(self, names, inputs):
            values = self.evaluator.run(list(names), dict(inputs))
            return [
                module.change.get(name, lambda value: value)(value)
                for name, value in zip(names, values, strict=True)
            ]

    def session(source, options):
        module.threads.append(options.threads)
        return Session(source)

    module.session = session
    spec = types.SimpleNamespace(name=module.__name__, loader=None, submodule_search_locations=None)
    package.__spec__ = module.__spec__ = spec
    monkeypatch.setitem(sys.modules, "ours_for_tests", package)
    monkeypatch.setitem(sys.modules, "ours_for_tests.wrong", module)
    return module


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_runtime_returns_the_defined_result(runtime):
    feeds = {"data": DATA, "indices": INDICES}
    found = onnx_models.run(MODEL, feeds, runtime=runtime)
    np.testing.assert_array_equal(found["y"], EXPECTED, strict=True)
    result = onnx_models.load(MODEL, runtime=runtime).run(feeds)
    assert (result.runtime, result.gather_nodes, result.remaining_nodes) == (runtime, 1, 2)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_integers_are_printed_like_numpy_integers(runtime, dtype):
    """NumPy prints the dtype of only one of two integer types with the same size."""
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 16]>
        pick ({dtype}[a, b] data, int64[n, 2] indices) => ({dtype}[n] y)
        {{ y = GatherND(data, indices) }}""")
    data = DATA.astype(dtype)
    (result,) = onnx_models.run(model, {"data": data, "indices": INDICES}, runtime=runtime).values()
    assert repr(result) == repr(reference.gather_nd(data, INDICES))


def test_a_different_value_raises_an_error_that_names_the_node(wrong):
    def changed(value):
        value = value.copy()
        value[1] = 99
        return value

    wrong.change["picked"] = changed
    feeds = {"data": DATA, "indices": INDICES}
    text = (
        r"node GatherND of 'picked': ours_for_tests.wrong returns output\[1\] = 99.0, "
        r"and ai.onnx GatherND-13 returns 22.0"
    )
    with pytest.raises(ModelError, match=text):
        onnx_models.run(MODEL, feeds, runtime=wrong.__name__)
    model = onnx_models.load(MODEL, runtime=wrong.__name__, accept_runtime=True)
    result = model.run(feeds)
    assert len(result.differences) == 1
    np.testing.assert_array_equal(result.outputs[0].array, EXPECTED)


def test_results_with_another_shape_or_type_differ(wrong):
    wrong.change["picked"] = lambda value: value[:1]
    with pytest.raises(ModelError, match=r"returns float32 \(1,\), and .* returns float32 \(2,\)"):
        onnx_models.run(MODEL, {"data": DATA, "indices": INDICES}, runtime=wrong.__name__)


@pytest.mark.parametrize("runtime", in_every("reference", "onnxruntime"))
def test_out_of_bounds_indices_raise_the_same_error_in_every_runtime(runtime):
    bad = np.array([[0, 1], [2, 9]])
    text = r"GatherND-13: indices\[1, 1\] = 9 is outside axis 1 of data, which has size 4"
    with pytest.raises(IndexOutOfBoundsError, match=text):
        onnx_models.run(MODEL, {"data": DATA, "indices": bad}, runtime=runtime)


@pytest.mark.parametrize("runtime", in_every("reference", "onnxruntime"))
def test_the_faulty_node_is_identified_among_unnamed_nodes(runtime):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        pick (float[a, b] data, int64[n, 2] one, int64[m, 2] other) => (float[n] y, float[m] z)
        { y = GatherND(data, one)  z = GatherND(data, other) }""")
    feeds = {"data": DATA, "one": INDICES, "other": np.array([[0, 9]])}
    text = r"^node GatherND of 'z': ai.onnx GatherND-13: indices\[0, 1\] = 9 is outside axis 1"
    with pytest.raises(IndexOutOfBoundsError, match=text):
        onnx_models.run(model, feeds, runtime=runtime)


def test_no_node_is_named_if_several_may_have_failed(wrong):
    class Session:
        def run(self, names, inputs):
            raise RuntimeError("Failed while running GatherND node. Name:'' Status Message: no")

    wrong.session = lambda source, options: Session()
    one = onnx_models.load(MODEL, runtime=wrong.__name__)
    text = r"^node GatherND of 'picked': ours_for_tests.wrong raises an error although ai.onnx "
    feeds = {"data": DATA, "indices": INDICES}
    with pytest.raises(ModelError, match=r"^model: .*wrong cannot run it: Failed"):
        onnx_models.load(TWICE, runtime=wrong.__name__).run(feeds)
    with pytest.raises(ModelError, match=text):
        one.run(feeds)


def test_out_of_bounds_indices_raise_an_error_even_if_the_runtime_ignores_them(wrong):
    del wrong
    bad = np.array([[0, 1], [2, 9]])
    with pytest.raises(IndexOutOfBoundsError, match="outside axis 1"):
        onnx_models.run(MODEL, {"data": DATA, "indices": bad}, runtime="reference")


@pytest.mark.parametrize("runtime", in_every("onnxruntime", "openvino"))
@pytest.mark.parametrize("taken", [True, False])
def test_nodes_in_branches_are_compared_if_they_run(runtime, taken):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        branch (bool c, float[3, 4] data, int64[n, 2] indices) => (float[m] y)
        { y = If(c) <
            then_branch = g1 () => (float[m] a)
              { d = Add(data, data)  a = GatherND(d, indices) },
            else_branch = g2 () => (float[m] b)
              { z = Constant<value = int64[1] {-1}>()  r = Gather(data, z)  b = Reshape(r, z) }
        > }""")
    feeds = {"c": np.array(taken), "data": DATA, "indices": INDICES}
    result = onnx_models.load(model, runtime=runtime).run(feeds)
    expected = reference.gather_nd(DATA + DATA, INDICES) if taken else DATA[-1]
    np.testing.assert_array_equal(result.outputs[0].array, expected, strict=True)
    assert result.gather_nodes == 1
    assert result.left == ()


@pytest.mark.parametrize("taken", [True, False])
def test_nested_branches_that_do_not_run_are_not_compared(wrong, taken):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        branches (bool b, float[3, 4] data, int64[n] rows) => (float[m, 4] y)
        { t = Constant<value = bool {1}>()  c = Or(t, b)
          y = If(c) <
            then_branch = g1 () => (float[m, 4] p)
              { one = Constant<value_int = 1>()  next = Add(rows, one)
                p = If(b) <
                  then_branch = g2 () => (float[m, 4] q) { q = Gather(data, next) },
                  else_branch = g3 () => (float[3, 4] r) { r = Identity(data) }> },
            else_branch = g4 () => (float[3, 4] s) { s = Abs(data) }> }""")
    feeds = {"b": np.array(taken), "data": DATA, "rows": np.array([0, 1])}
    result = onnx_models.load(model, runtime=wrong.__name__).run(feeds)
    np.testing.assert_array_equal(result.outputs[0].array, DATA[1:3] if taken else DATA)
    assert (result.gather_nodes, result.left) == (int(taken), ())


def test_nodes_in_functions_of_another_opset_are_reported_as_not_compared(wrong):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[3, 4] data, int64[n] rows) => (float[n, 4] y) { y = local.pick(data, rows) }
        <domain: "local", opset_import: ["" : 15]>
        pick (x, i) => (y) { r = Gather(x, i)  y = Identity(r) }""")
    feeds = {"data": DATA, "rows": np.array([2, 0])}
    result = onnx_models.load(model, runtime=wrong.__name__).run(feeds)
    np.testing.assert_array_equal(result.outputs[0].array, DATA[[2, 0]])
    assert [why for _, why in result.left] == ["it is in a function that imports another opset"]


@pytest.mark.parametrize("runtime", in_every("onnxruntime"))
def test_nodes_in_loops_are_reported_as_not_compared(runtime):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        loop (int64 n, float[3] data) => (float[k] ys)
        { t = Constant<value = bool {1}>()
          ys = Loop(n, t) <body = turn (int64 i, bool c) => (bool go, float y)
            { go = Identity(c)  y = Gather(data, i) }> }""")
    feeds = {"n": np.array(2), "data": DATA[0, :3].copy()}
    result = onnx_models.load(model, runtime=runtime).run(feeds)
    np.testing.assert_array_equal(result.outputs[0].array, DATA[0, :2])
    (why,) = (why for _, why in result.left)
    assert why.startswith(
        "it is in the body of a Loop, which computes a new value in every iteration"
    )


@pytest.mark.parametrize("runtime", in_every("reference", "onnxruntime"))
def test_sequence_outputs_do_not_prevent_other_outputs(runtime, ndgather_in, tmp_path, caplog):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3] data) => (seq(float[3]) many, float[3] out)
        { many = SequenceConstruct(data)  out = Neg(data) }""")

    outputs = onnx_models.run(model, {"data": DATA[0, :3].copy()}, runtime=runtime)

    assert [*outputs] == ["out"]
    np.testing.assert_array_equal(outputs["out"], -DATA[0, :3])
    assert "output 'many' is a sequence and is left out" in caplog.text
    onnx.save(model, tmp_path / "model.onnx")
    line = f"run model.onnx --random --runtime {runtime}"
    assert ndgather_in(tmp_path, f"{line} --output-dir results").status == 0
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["out.npy"]
    refused = ndgather_in(tmp_path, f"{line} --output many=many.npy")
    assert refused.status == 1
    assert refused.err.endswith("output 'many' is a list (allowed: a tensor)\n")


@pytest.mark.parametrize("runtime", in_every("reference", "onnxruntime"))
def test_slices_of_strings(runtime):
    """onnxruntime copies only the first string of a slice, so `run` raises an error."""
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (string[2, 2] data, int64[n] rows) => (string[n, 2] y) { y = Gather(data, rows) }""")
    feeds = {"data": np.array([["a", "b"], ["c", "d"]], object), "rows": np.array([1])}
    if runtime == "onnxruntime":
        text = r"onnxruntime returns output\[0, 1\] = , and ai.onnx Gather-13 returns d"
        with pytest.raises(ModelError, match=text):
            onnx_models.run(model, feeds, runtime=runtime)
        model = onnx_models.convert(model, operator="GatherND")
    found = onnx_models.run(model, feeds, runtime=runtime)["y"]
    np.testing.assert_array_equal(found, [["c", "d"]])


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_nodes_with_external_data_are_compared(runtime, tmp_path):
    table = np.arange(40, dtype=np.float32).reshape(10, 4)
    tensor = onnx.numpy_helper.from_array(table, "table")
    node = helper.make_node("Gather", ["table", "rows"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("rows", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="table.bin", size_threshold=0)
    result = onnx_models.load(path, runtime=runtime).run({"rows": np.array([3, -1])})
    np.testing.assert_array_equal(result.outputs[0].array, table[[3, -1]], strict=True)
    assert result.gather_nodes == 1


def test_unknown_and_missing_runtimes_raise_errors():
    with pytest.raises(ModelError, match="runtime = 'nothing' is unknown"):
        onnx_models.run(MODEL, {}, runtime="nothing")
    if not _there("openvino"):
        with pytest.raises(ExtraMissingError, match="needs the package openvino"):
            onnx_models.run(MODEL, {}, runtime="openvino")


@pytest.mark.parametrize("runtime", in_every("onnxruntime"))
@pytest.mark.parametrize("last", [-1, 9])
def test_files_and_models_in_memory_run_alike(runtime, last, tmp_path):
    """Only tensors that gathers and scatters read are kept besides the runtime's copy."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.node[0].input[1] = "weights"
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    feeds = {"data": DATA, "indices": np.array([[0, 1], [2, last]])}
    outcomes = []
    for source in (path, model):
        try:
            outcomes.append(onnx_models.run(source, feeds, runtime=runtime)["y"].tolist())
        except IndexOutOfBoundsError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    expected = (-(DATA + weights))[[0, 2], [1, last]].tolist() if last < 0 else None
    assert expected is None or outcomes[0] == expected
    assert expected is not None or "outside axis 1" in outcomes[0]


@pytest.mark.parametrize("runtime", [None, "reference", *in_every("onnxruntime", "openvino")])
@pytest.mark.parametrize(("option", "value"), [("providers", "Abacus"), ("libraries", "none.so")])
def test_missing_providers_and_libraries_do_not_cause_a_fallback(runtime, option, value, capfd):
    with pytest.raises(ModelError, match=re.escape(value)):
        onnx_models.load(MODEL, runtime=runtime, **{option: [value]})
    assert "Falling back" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("runtime", in_every("onnxruntime"))
def test_models_that_onnxruntime_cannot_load_fall_back_to_the_evaluator(
    runtime, ndgather_in, tmp_path
):
    text = """<ir_version: 8, opset_import: ["" : 16]>
        add (int16[2] a) => (int16[2] y) { y = Max(a, a) }"""  # onnxruntime does not support int16
    feeds = {"a": np.array([1, 2], np.int16)}
    model = onnx_models.load(parse_model(text), runtime=None)
    np.testing.assert_array_equal(model.run(feeds).outputs[0].array, [1, 2])
    assert f"model: {runtime} cannot load it: " in model.not_loaded
    onnx.save(parse_model(text), tmp_path / "int16.onnx")
    assert f"{runtime} cannot load it: " in ndgather_in(tmp_path, "run int16.onnx --random").out
    told = json.loads(ndgather_in(tmp_path, "run int16.onnx --random --json").out)
    assert f"{runtime} cannot load it: " in told["not_loaded"]
    with pytest.raises(ModelError, match="cannot load it"):
        onnx_models.load(parse_model(text), runtime=runtime)


@pytest.mark.parametrize("runtime", in_every("onnxruntime"))
def test_classifier_maps_become_a_matrix(runtime):
    zipped = helper.make_node(
        "ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["a", "b"]
    )
    out = helper.make_value_info(
        "y",
        helper.make_sequence_type_proto(
            helper.make_map_type_proto(
                TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
            )
        ),
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    graph = helper.make_graph([zipped], "g", [x], [out])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    shares = np.array([[0.25, 0.75], [1, 0], [0.5, 0.5]], np.float32)
    found = onnx_models.run(model, {"x": shares}, runtime=runtime)
    np.testing.assert_array_equal(found["y"], shares, strict=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Status Message: /onnxruntime_src/onnxruntime/core/reshape_helper.h:91 onnxruntime::"
            "ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, bool) a == b was false. "
            "Input shape:{3,4}\n",
            "Status Message: a == b was false. Input shape:{3,4}",
        ),
        (
            "Exception from src/inference/src/cpp/core.cpp:1:\nException from src/plugin.cpp:54:\n"
            "Check '!shape.rank().is_dynamic()' failed at src/plugins/src/node.cpp:108:\n"
            "Unexpected: no dynamic rank. Operation name: y\n\n\n",
            "Unexpected: no dynamic rank. Operation name: y",
        ),
        (
            "Check 'false' failed at src/node.cpp:108:\n",
            "Check 'false' failed",
        ),
        ("Exception from src/a.cpp:1:\n", "Exception"),
        (
            "Name:'' Status Message: matmul_helper.h:59 Compute MatMul dimension mismatch",
            "Name:'' Status Message: MatMul dimension mismatch",
        ),
        (
            "Exception from src/core.cpp:105:\nCheck 'false' failed at src/report.cpp:151:\n"
            "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted. Failed "
            "operations detailed log:\n-- Conv-18 with a message:\nWhile validating ONNX node "
            "'<Node(Conv): y>': Check 'a[1].ok(b[1])' failed at src/core/conv.hpp:307:\nWhile "
            "validating node 'opset1::Convolution C_4 (opset1::Parameter x[0]:f32[1,3])' with "
            "friendly_name 'C_4':\nThe channels 3 and 5 differ.\n\nSummary:\n-- Conversion is "
            "failed for: Conv-18\n",
            "Conv-18 with a message: While validating ONNX node '<Node(Conv): y>': The channels "
            "3 and 5 differ.",
        ),
        (
            "No file models/a.onnx, and no a/b.h either",
            "No file models/a.onnx, and no a/b.h either",
        ),
        ("Name:'\x1b[2J'", "Name:'\\x1b[2J'"),
        (f"{'node ' * 900}the cause", f"{'node ' * 900}the cause"),
        (f"{'x' * 5_000}{'y' * 10**6}{'z' * 5_000}", f"{'x' * 5_000} ... {'z' * 5_000}"),
    ],
)
def test_runtime_errors_are_shown_without_source_locations(wrong, text, said):
    def session(source, options):
        raise RuntimeError(text)

    wrong.session = session

    with pytest.raises(ModelError) as refusal:
        onnx_models.load(MODEL, runtime=wrong.__name__)
    assert str(refusal.value) == f"model: {wrong.__name__} cannot load it: {said}"


CRASHING = """
import os, signal, time

def session(source, options):
    class Session:
        def run(self, names, inputs):
            {what}
    return Session()
"""


@pytest.fixture
def crashing(tmp_path, monkeypatch):
    """Write a runtime module that executes `what` during a run, also in child processes."""
    (tmp_path / "crashing").mkdir()
    (tmp_path / "crashing" / "__init__.py").touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(what):
        (tmp_path / "crashing" / "runtime.py").write_text(CRASHING.replace("{what}", what))
        return "crashing.runtime"

    return write


@pytest.mark.parametrize("runtime", [None, *RUNTIMES])
def test_isolated_runs_return_the_same_results(runtime):
    feeds = {"data": DATA, "indices": INDICES}
    outputs = onnx_models.run(MODEL, feeds, runtime=runtime, isolate=True)
    np.testing.assert_array_equal(outputs["y"], EXPECTED, strict=True)


def test_isolated_runs_raise_the_same_errors():
    feeds = {"data": DATA, "indices": np.array([[0, 1], [3, 0]])}
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[1, 0\] = 3 is outside") as here:
        onnx_models.run(MODEL, feeds)
    with pytest.raises(IndexOutOfBoundsError) as child:
        onnx_models.run(MODEL, feeds, isolate=True)
    assert str(child.value) == str(here.value)
    assert vars(child.value) == vars(here.value)


def test_crashes_of_isolated_runs_raise_errors(crashing):
    runtime = crashing("os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ModelError, match="model: the process that ran it has ended: SIGSEGV"):
        onnx_models.run(MODEL, {"data": DATA, "indices": INDICES}, runtime=runtime, isolate=True)


def test_timeouts_terminate_runs(crashing):
    feeds, runtime = {"data": DATA, "indices": INDICES}, crashing("time.sleep(60)")
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"model: .*: it did not end in 1\.5 s \(the limit of"):
        onnx_models.run(MODEL, feeds, runtime=runtime, timeout=1.5)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_invalid_timeouts_raise_errors(timeout):
    with pytest.raises(
        ModelError, match=r"run: timeout = .* is out of range \(allowed: positive finite numb"
    ):
        onnx_models.run(MODEL, {"data": DATA, "indices": INDICES}, timeout=timeout)
    with pytest.raises(ModelError, match="compare: timeout"):
        onnx_models.compare(MODEL, {}, runtimes=["reference"], timeout=timeout)


def test_run_and_the_command_have_the_same_default_runtime(monkeypatch):
    chosen = []
    load = onnx_models.load

    def watched(model, *, runtime, **options):
        chosen.append(runtime)
        return load(model, runtime=runtime, **options)

    monkeypatch.setattr(onnx_models.runs, "load", watched)
    onnx_models.run(MODEL, {"data": DATA, "indices": INDICES})
    assert chosen == [None]
    assert type(load(MODEL)).__name__ == "Model"


SUMS = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    sums (float[4] data, int64[3, 1] at, float[3] more) => (float[4] y, float[2] z)
    { lost = ScatterND<reduction = "add">(data, at, more)  twice = Add(lost, lost)
      rows = Constant<value = int64[2, 1] {0, 2}>()  picked = GatherND(twice, rows)
      y = Neg(twice)  z = Identity(picked) }""")
SUM_FEEDS = {
    "data": np.zeros(4, np.float32),
    "at": np.array([[2], [0], [2]]),
    "more": np.array([1, 2, 4], np.float32),
}


def without_one(value):
    value = value.copy()
    value[2] -= 4
    return value


def test_lost_updates_are_explained_with_a_remedy(wrong):
    wrong.change["lost"] = without_one
    with pytest.raises(ModelError) as refusal:
        onnx_models.run(SUMS, SUM_FEEDS, runtime=wrong.__name__)
    text = str(refusal.value)
    assert (
        "returns output[2] = 1.0, and ai.onnx ScatterND-18 returns 5.0; every update must" in text
    )
    for what in ("--threads 1", "convert --target onnxruntime", "--own-results, own_results=True"):
        assert what in text


def test_own_results_replace_the_result_of_a_node(wrong):
    wrong.change["lost"] = without_one
    model = onnx_models.load(SUMS, runtime=wrong.__name__, own_results=True, threads=3)
    for _ in range(2):
        result = model.run(SUM_FEEDS)
        y, z = (output.array for output in result.outputs)
        np.testing.assert_array_equal(y, np.array([-4, 0, -10, 0], np.float32))
        np.testing.assert_array_equal(z, np.array([4, 10], np.float32))
        assert len(result.differences) == 1
        assert "ScatterND of 'lost'" in result.differences[0]
    assert wrong.threads == [3] * len(wrong.threads)
    found = onnx_models.run(SUMS, SUM_FEEDS, runtime=wrong.__name__, own_results=True)
    np.testing.assert_array_equal(found["z"], np.array([4, 10], np.float32))


def test_own_results_replace_the_results_of_several_nodes(wrong):
    wrong.change |= {"lost": without_one, "picked": without_first}
    result = onnx_models.load(SUMS, runtime=wrong.__name__, own_results=True).run(SUM_FEEDS)
    np.testing.assert_array_equal(result.outputs[1].array, np.array([4, 10], np.float32))
    assert len(result.differences) == 2


def without_first(value):
    return np.concatenate([value[1:], value[:1]])


def test_own_results_do_not_replace_errors(wrong):
    feeds = {**SUM_FEEDS, "at": np.array([[2], [0], [9]])}
    with pytest.raises(ModelError):
        onnx_models.run(SUMS, feeds, runtime=wrong.__name__, own_results=True)


MANY = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    sums (float[1000, 16] data, int64[200000, 1] at, float[200000, 16] more) => (float[1000, 16] y)
    { y = ScatterND<reduction = "add">(data, at, more) }""")


@pytest.mark.parametrize("runtime", in_every("onnxruntime", "openvino"))
@pytest.mark.parametrize("way", ["one thread", "our results", "target"])
def test_the_remedies_apply_every_update(runtime, way):
    at = np.random.default_rng(1).integers(0, 1000, (200000, 1))
    feeds = {
        "data": np.zeros((1000, 16), np.float32),
        "at": at,
        "more": np.ones((200000, 16), np.float32),
    }
    counts = np.bincount(at[:, 0], minlength=1000)[:, None] * np.ones(16)
    model = onnx_models.convert(MANY, target="onnxruntime") if way == "target" else MANY
    options = {"one thread": {"threads": 1}, "our results": {"own_results": True}, "target": {}}
    if runtime == "openvino" and versions.order(version("openvino")) < [2026, 4]:
        pytest.skip("this version of OpenVINO reads no ScatterND with a reduction")
    for _ in range(3):
        found = onnx_models.run(model, feeds, runtime=runtime, **options[way])["y"]
        np.testing.assert_array_equal(found, counts)


def test_loading_makes_few_calls_per_tensor(wrong, tmp_path, monkeypatch):
    """A shared file is checked once. Nodes are only counted if there are no gathers."""
    monkeypatch.setattr(wrong, "session", lambda source, options: None)
    counts = []
    for size in (10, 110):
        names = [f"t{number}" for number in range(size)]
        tensors = [onnx.numpy_helper.from_array(np.ones(2, np.float32), name) for name in names]
        nodes = [helper.make_node("Identity", [name], [f"{name}_y"]) for name in names]
        y = helper.make_tensor_value_info("t0_y", TensorProto.FLOAT, [2])
        model = helper.make_model(helper.make_graph(nodes, "g", [], [y], tensors))
        path = tmp_path / f"{size}.onnx"
        onnx.save_model(model, path, save_as_external_data=True, size_threshold=0)
        calls = []
        sys.setprofile(lambda _frame, event, _, calls=calls: event == "call" and calls.append(1))
        try:
            onnx_models.load(path, runtime=wrong.__name__)
        finally:
            sys.setprofile(None)
        counts.append(len(calls))
    assert (counts[1] - counts[0]) / 100 < 50
