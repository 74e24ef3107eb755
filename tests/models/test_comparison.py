"""Comparison of runtimes node by node, including crashes.

The runtimes are modules of this test that wrap the onnx evaluator, each in its own process.
"""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.parser import parse_model

from ndgather.errors import AttributeValueError, ModelError, NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.graph.evaluation import index_places
from ndgather.models.onnx.comparison.counterexamples import _draw_changes
from ndgather.models.onnx.comparison.explanation import explain
from ndgather.models.onnx.nodes import op_nodes
from ndgather.models.onnx.tracing import check_node, trace
from ndgather.published import operator

MODEL = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    pick (float[N, 2] data, int64[M, 1] rows, int64[M, 2] columns) => (float[M, 2] y)
    { d = Add(data, data)  p = GatherND(d, rows)  q = GatherElements<axis = 1>(p, columns)
      y = Neg(q) }""")
FEEDS = {
    "data": np.array([[10, 11], [20, 21], [30, 31]], np.float32),
    "rows": np.array([[0], [-1]]),
    "columns": np.array([[1, 0], [0, 0]]),
}
ODD = """
import os
import numpy as np
from onnx import load_from_string
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

class GatherND(OpRun):
    op_domain = ""
    def _run(self, data, indices, **_):
        at = indices[..., 0]
        {what}
        return (data[at],)

def version():
    return "1.0"

def session(source, options):
    class Session:
        def run(self, names, inputs):
            model = load_from_string(source.content)
            return ReferenceEvaluator(model, new_ops=[GatherND]).run(names, inputs)
    return Session()
"""

TOLD = """
def version():
    return "1.0"

def session(source, options):
    raise ValueError(f"{options.providers} {options.libraries} {options.threads}")
"""


@pytest.fixture
def odd_runtimes(tmp_path, monkeypatch):
    package = tmp_path / "odd_runtimes"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, what in {
        "clamps": "at = np.maximum(at, 0)",
        "dies": "os.abort()",
        "refuses": "raise ValueError('not supported')",
    }.items():
        (package / f"{name}.py").write_text(ODD.replace("{what}", what))
    soft = ODD.replace("class GatherND(OpRun)", "class Softmax(OpRun)").replace(
        "[GatherND]", "[Softmax]"
    )
    soft = soft.replace("data, indices, **_", "data, **_").replace("at = indices[..., 0]", "")
    soft = soft.replace("data[at]", "data + 1").replace("{what}", "")
    (package / "soft.py").write_text(soft)
    for name in ("one", "two"):
        (package / f"{name}.py").write_text(TOLD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    return package


def test_report_contains_runtime_node_and_rule_of_each_difference(odd_runtimes):
    del odd_runtimes
    found = onnx_models.compare(
        MODEL, FEEDS, runtimes=["reference", "odd_runtimes.clamps", "odd_runtimes.dies"]
    )
    assert not found.same
    assert [run.status for run in found.runs] == ["ran", "ran", "crashed"]
    assert found.runs[2].text == "SIGABRT"
    pick, columns = found.nodes
    right, clamps, dies = pick.runs
    assert (right.status, right.obeys) == ("same", True)
    assert (clamps.status, clamps.obeys, clamps.inputs_differ) == ("differs", False, False)
    assert (clamps.place, clamps.theirs, clamps.ours) == ((1, 0), "20.0", "60.0")
    assert clamps.explanation.rule == "negative index"
    assert clamps.explanation.indices == "indices[1] = -1"
    assert "Where(indices < 0, indices + size, indices)" in clamps.explanation.advice
    assert (dies.status, dies.obeys, dies.text) == ("crashed", False, "SIGABRT")
    right, clamps, dies = columns.runs
    assert (clamps.status, clamps.obeys, clamps.inputs_differ) == ("same", True, True)
    assert dies.status == "not run"
    name, how = found.outputs[0]
    assert (name, how) == ("y", "odd_runtimes.clamps returns [1, 0] = -20.0, not -60.0")
    assert found.origins == ()  # the gather itself is the origin


def test_report_names_the_correct_runtimes_among_those_that_ran_the_node(
    odd_runtimes, ndgather_in, tmp_path
):
    del odd_runtimes
    onnx.save(MODEL, tmp_path / "model.onnx")
    rows = np.array([[0], [7]])
    columns = np.array([[1, 0], [0, 5]])
    np.savez(tmp_path / "all.npz", **{**FEEDS, "rows": rows, "columns": columns})
    line = "compare model.onnx --inputs all.npz --runtime"
    outcome = ndgather_in(tmp_path, f"{line} reference,odd_runtimes.dies")
    assert (outcome.status, outcome.err) == (1, "")
    first, *rest = outcome.out.split("GatherElements of q")
    assert "GatherND of p (ai.onnx GatherND-13, https://" in first
    assert "  followed by: reference\n" in first
    assert not rest


def test_search_draws_compatible_sizes():
    (found,) = onnx_models.search(
        MODEL, 8, most=1, runtimes=["reference"]
    )  # rows and columns share a size
    assert found.tries > 1
    assert len(found.inputs["rows"]) == len(found.inputs["columns"])


def test_search_draws_values_that_the_types_represent():
    """With this seed, 2**31 is drawn for indices of int64."""
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (uint8[3] data, int32[4] rows) => (uint8[4] y) { y = Gather(data, rows) }""")
    assert onnx_models.search(model, 1, seed=9, runtimes=["reference"]) == ()


def test_invalid_comparisons_raise_errors():
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    del model.opset_import[:]
    with pytest.raises(ModelError, match="imports no version"):
        onnx_models.compare(model, FEEDS, runtimes=["reference"])
    model.CopyFrom(MODEL)
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ModelError, match=r"reference cannot load it: .*NoSuchOperator"):
        onnx_models.search(model, 2, runtimes=["reference"])


def test_compare_command_prints_the_report(ndgather_in, tmp_path):
    """Names in the model are escaped."""
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.node[1].name = "\x1b[2J<script>\nall</script>"
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "all.npz", **{**FEEDS, "rows": np.array([[0], [7]])})
    line = "compare model.onnx --inputs all.npz --runtime reference"
    outcome = ndgather_in(tmp_path, f"{line} --json")
    assert outcome.status == 1
    told = json.loads(outcome.out)
    run = told["nodes"][0]["runs"][0]
    assert (run["status"], run["obeys"], run["explanation"]["rule"]) == (
        "refused",
        True,
        "index range",
    )
    page = ndgather_in(tmp_path, line).out
    assert "\\x1b[2J<script>\\nall</script> (ai.onnx GatherND-13" in page
    assert "\x1b" not in page
    assert "an out-of-bounds index is an error" in page
    assert "No other gather or scatter node ran in every runtime." in page
    assert "indices[1, 0] = 7 is outside axis 0 of data" in page


RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("name", "data", "indices", "attributes"),
    [
        ("GatherND", (3, 4, 2), (2, 3, 2), {}),
        ("GatherND", (2, 4, 3), (2, 5, 1), {"batch_dims": 1}),
        ("GatherElements", (3, 4, 2), (2, 3, 2), {"axis": 1}),
        ("Gather", (3, 4, 2), (2, 5), {"axis": 1}),
        ("Gather", (3, 4), (), {"axis": -1}),
        ("ScatterND", (3, 4, 2), (5, 2), {}),
        ("ScatterElements", (3, 4), (2, 3), {"axis": 1}),
    ],
    ids=str,
)
def test_reported_indices_are_those_that_affect_the_element(name, data, indices, attributes):
    """Changing one index tuple changes only the elements that report this tuple."""
    op = operator(name, opset=18)
    values = np.arange(np.prod(data)).reshape(data)
    given = RNG.integers(0, 2, indices)
    inputs = [values, given]
    if name.startswith("Scatter"):
        shape = given.shape if name == "ScatterElements" else (5, *data[2:])
        inputs.append(100 + np.arange(np.prod(shape)).reshape(shape))
    result = op(*inputs, **attributes)
    for place in np.ndindex(result.shape):
        found = index_places(op.row, attributes, inputs, place)
        for at, tuple_ in found:
            np.testing.assert_array_equal(np.ravel(given[at]), tuple_)
        if name.startswith("Scatter"):
            changed = result[place] >= 100
            assert bool(found) == changed
            if changed:
                last = found[-1][0]
                rest = place[given.shape[-1] :] if name == "ScatterND" else ()
                assert result[place] == inputs[2][(*last, *rest)]
        else:
            other = given.copy()
            other[found[0][0]] = 1 - other[found[0][0]]
            assert op(values, other, **attributes)[place] != result[place]


def test_search_finds_and_reduces_counterexamples(odd_runtimes):
    del odd_runtimes
    runtimes = ["odd_runtimes.clamps"]
    (found,) = onnx_models.search(MODEL, 40, most=1, sizes={"N": 9}, runtimes=runtimes)
    assert found.count == 1
    assert found.inputs["rows"].size < 16
    (clamps,) = found.report.nodes[0].runs
    assert (clamps.status, clamps.obeys) == ("differs", False)


def test_providers_and_libraries_can_be_set_per_runtime(odd_runtimes):
    """A mapping applies to named runtimes and a list to all except the reference evaluator."""
    del odd_runtimes
    found = onnx_models.compare(
        MODEL,
        FEEDS,
        runtimes=["odd_runtimes.one", "odd_runtimes.two", "reference"],
        providers={"odd_runtimes.one": ["A", "B"]},
        libraries=["l.so"],
        threads=2,
    )
    texts = [run.text for run in found.runs[:2]]
    assert texts == ["ValueError: ('A', 'B') ('l.so',) 2", "ValueError: () ('l.so',) 2"]
    assert found.runs[2].status == "ran"


def test_compare_command_sets_providers_and_libraries_per_runtime(
    odd_runtimes, ndgather_in, tmp_path, monkeypatch
):
    del odd_runtimes
    monkeypatch.setattr("ndgather.cli.set_num_threads", lambda _: None)  # not in this process
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "all.npz", **FEEDS)
    outcome = ndgather_in(
        tmp_path,
        "compare model.onnx --inputs all.npz --runtime odd_runtimes.one,odd_runtimes.two "
        "--provider odd_runtimes.two=A --library l=1.so --provider B --threads 2",
    )
    assert "one : refused: ValueError: ('B',) ('l=1.so',) 2" in outcome.out
    assert "two : refused: ValueError: ('A', 'B') ('l=1.so',) 2" in outcome.out


def test_run_command_passes_options_to_the_runtime(odd_runtimes, ndgather_in, tmp_path):
    del odd_runtimes
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "all.npz", **FEEDS)
    # With --debug, the runtime needs no process of its own.
    line = "run model.onnx --debug --inputs all.npz --output y=y.npy --runtime odd_runtimes."
    refused = ndgather_in(tmp_path, f"{line}clamps")
    assert refused.status == 1
    assert "GatherND of 'p'" in refused.err
    for option, value in ("--accept-runtime", -20), ("--own-results", -60):
        outcome = ndgather_in(tmp_path, f"{line}clamps {option}")
        assert (outcome.status, outcome.err) == (0, "")
        assert "differs: " in outcome.out
        assert np.load(tmp_path / "y.npy")[1, 0] == value
    told = ndgather_in(tmp_path, f"{line}one --provider B --library l=1.so")
    assert "('B',) ('l=1.so',) None" in told.err


@pytest.mark.parametrize("draws", ["--random", "--search 1"])
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--rtol -1", "rtol = -1.0 is out of range"),
        ("--atol -1", "atol = -1.0 is out of range"),
        ("--size Q=3", "the model has no size 'Q'"),
    ],
)
def test_compare_command_passes_options_on(ndgather_in, tmp_path, draws, option, text):
    onnx.save(MODEL, tmp_path / "model.onnx")
    outcome = ndgather_in(tmp_path, f"compare model.onnx --runtime reference {draws} {option}")
    assert outcome.status == 1
    assert text in outcome.err


def test_compare_command_omits_providers_for_the_reference_evaluator(
    odd_runtimes, ndgather_in, tmp_path
):
    del odd_runtimes
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "all.npz", **FEEDS)
    command = "compare model.onnx --inputs all.npz --provider B --runtime"

    outcome = ndgather_in(tmp_path, f"{command} odd_runtimes.one,reference")
    assert "one : refused: ValueError: ('B',) () None" in outcome.out
    assert any(line.split(":")[-1].strip() == "ran" for line in outcome.out.splitlines())

    for runtimes in ("reference", "odd_runtimes.one,reference --provider reference=C"):
        outcome = ndgather_in(tmp_path, f"{command} {runtimes}")
        assert outcome.status == 1
        assert "'reference' does not support providers" in outcome.err


def test_providers_for_the_reference_evaluator_are_refused():
    for providers in (["CPU"], {"reference": ["CPU"]}):
        with pytest.raises(ModelError, match="'reference' does not support providers"):
            onnx_models.compare(MODEL, FEEDS, runtimes=["reference"], providers=providers)
    with pytest.raises(
        ModelError, match="libraries names the runtime 'openvino', which does not run"
    ):
        onnx_models.compare(MODEL, FEEDS, runtimes=["reference"], libraries={"openvino": ["x"]})


WRONG = {
    "runtimes": (5, "reference", []),
    "rtol": (-1, None),
    "atol": (-1, None),
    "timeout": (0,),
    "threads": (0, 1.5),
    "providers": (5,),
    "libraries": (5,),
}


@pytest.mark.parametrize("option", WRONG)
@pytest.mark.parametrize("function", ["compare", "search"])
def test_errors_name_the_function_and_the_option(function, option):
    for value in WRONG[option]:
        options = {"runtimes": ["reference"], option: value}
        with pytest.raises(NdgatherError, match=f"^{function}: {option}(:| is| =)"):
            getattr(onnx_models, function)(MODEL, FEEDS if function == "compare" else 2, **options)


def test_search_reports_with_and_without_counterexamples(odd_runtimes, ndgather_in, tmp_path):
    del odd_runtimes
    onnx.save(MODEL, tmp_path / "model.onnx")
    onnx.save(
        parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[N] x) => (float[N] y) { y = Identity(x) }"""),
        tmp_path / "plain.onnx",
    )
    line = "compare plain.onnx --search 2 --runtime reference"
    nothing, text = ndgather_in(tmp_path, f"{line} --json"), ndgather_in(tmp_path, line)
    assert (nothing.status, nothing.err, text.status, text.err) == (0, "", 0, "")
    searched = {"tries": 2, "what": None, "kept": None}
    assert json.loads(nothing.out) == {"same": True, "search": searched}
    assert text.out == "The runtimes agree on all 2 inputs.\n"
    line = "compare model.onnx --json --search 40 --runtime odd_runtimes.clamps --keep kept"
    found = ndgather_in(tmp_path, f"{line} --size N=9")
    report = json.loads(found.out)
    assert (found.status, report["same"], report["search"]["kept"]) == (1, False, "kept")
    assert (tmp_path / "kept" / "input_0.pb").exists()


@pytest.mark.parametrize(
    ("data", "theirs", "rule", "decided"),
    [
        (np.array([1 / 3, 2 / 3]), np.float32([1 / 3]).astype(np.float64), "wide floats", True),
        (np.array([2**40, 1]), np.array([0]), "wide integers", True),
        (np.array([1.0, 2.0], np.float32), np.array([7], np.float32), "definition", True),
        (np.array([["a", "b"]], object), np.array([["a", ""]], object), "string slices", True),
        (np.array([1.0, 2.0], np.float32), np.array([1.0]), "result", True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_explanations_name_the_rule(data, theirs, rule, decided):
    node = helper.make_node("Gather", ["d", "i"], ["y"])
    (op_node,) = op_nodes(
        helper.make_model(
            helper.make_graph([node], "g", [], []), opset_imports=[helper.make_opsetid("", 18)]
        )
    )
    made = check_node(op_node, [data, np.array([0])], theirs)
    found = explain(made)
    assert (found.rule, found.decided) == (rule, decided)


def test_order_of_duplicate_updates_is_undefined():
    node = helper.make_node("ScatterND", ["d", "i", "u"], ["y"])
    (op_node,) = op_nodes(
        helper.make_model(
            helper.make_graph([node], "g", [], []), opset_imports=[helper.make_opsetid("", 18)]
        )
    )
    inputs = [np.zeros(3), np.array([[1], [1]]), np.array([5.0, 6.0])]
    made = check_node(op_node, inputs, np.array([0, 5.0, 0]))
    found = explain(made)
    assert (found.rule, found.decided) == ("duplicates", False)
    assert found.indices == "indices[0] = 1; indices[1] = 1"


@pytest.mark.parametrize(
    ("kind", "reduction", "first", "at", "rule", "decided"),
    [
        ("ScatterND", "add", 0.0, [[1], [1]], "lost updates", True),
        ("ScatterND", "max", 0.0, [[1], [1]], "lost updates", True),
        ("ScatterND", "max", np.nan, [[1], [1]], "NaN", False),
        ("ScatterND", "min", np.nan, [[1], [1]], "NaN", False),
        ("ScatterND", "add", np.nan, [[1], [1]], "definition", True),
        ("ScatterND", "add", 0.0, [[1], [0]], "definition", True),
        ("ScatterND", "add", 0.0, [[-2], [2]], "negative index", True),
        ("ScatterElements", "add", 0.0, [1, 1], "definition", True),
        ("ScatterElements", "none", 0.0, [1, 1], "duplicates", False),
        ("ScatterElements", "max", np.nan, [1, 1], "NaN", False),
    ],
)
def test_explanations_of_scatters_name_the_rule(kind, reduction, first, at, rule, decided):
    node = helper.make_node(kind, ["d", "i", "u"], ["y"], reduction=reduction)
    graph = helper.make_graph([node], "g", [], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (op_node,) = op_nodes(model)
    inputs = [np.array([first, 2, 0], np.float32), np.array(at), np.array([5, 6], np.float32)]
    made = check_node(op_node, inputs, np.array([first, 77, 0], np.float32))
    found = explain(made)
    assert (found.rule, found.decided) == (rule, decided)


@pytest.mark.parametrize(
    ("reduction", "same"), [("none", False), ("min", False), ("max", False), ("add", True)]
)
def test_only_sums_and_products_may_differ_in_the_last_place(reduction, same):
    node = helper.make_node("ScatterND", ["d", "i", "u"], ["y"], reduction=reduction)
    graph = helper.make_graph([node], "g", [], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (op_node,) = op_nodes(model)
    update = 1 if reduction == "min" else 3
    inputs = [np.array([2, 5], np.float32), np.array([[0]]), np.array([update], np.float32)]
    right = np.array([5 if reduction == "add" else update, 5], np.float32)
    assert check_node(op_node, inputs, right).same
    assert check_node(op_node, inputs, np.nextafter(right, np.float32(9))).same == same


SOFT = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    g (float[2, 3] x, int64[1] at) => (float[1, 3] y)
    { a = Abs(x)  b = Neg(a)  s = Softmax(b)  t = Add(s, x)  u = Relu(t)  y = Gather(u, at) }""")
SOFT_FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "at": np.array([0])}


def test_differences_caused_by_other_operators_are_located(odd_runtimes):
    del odd_runtimes
    found = onnx_models.compare(SOFT, SOFT_FEEDS, runtimes=["reference", "odd_runtimes.soft"])
    assert not found.same
    assert [run.status for node in found.nodes for run in node.runs] == ["same", "same"]
    ((where, how),) = found.origins
    assert where == "Softmax of s"
    start = "odd_runtimes.soft returns s[0, 0] = 1.0, not"
    assert how.startswith(start)
    assert f"the first node that differs: Softmax of s: {start}" in repr(found)
    assert repr(found).splitlines()[-1] == (
        "No gather or scatter node differs; 1 only received other inputs."
    )


HIDDEN = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    g (float[2, 3] x, int64[1] at) => (float[1, 3] y, float[1, 3] w)
    { s = Softmax(x)  u = Gather(s, at)  z = Sub(u, u)  y = Relu(z)  w = Gather(x, at) }""")


def test_differences_that_do_not_affect_outputs_are_reported(odd_runtimes):
    del odd_runtimes
    found = onnx_models.compare(HIDDEN, SOFT_FEEDS, runtimes=["reference", "odd_runtimes.soft"])
    assert (found.same, found.outputs) == (False, ())
    assert [where for where, _ in found.origins] == ["Softmax of s"]
    assert repr(found).splitlines()[-1] == (
        "1 gather or scatter node is the same in every runtime; 1 only received other inputs."
    )


def test_counterexamples_of_each_kind_have_a_rule(odd_runtimes):
    del odd_runtimes
    few = {"N": 2, "M": 1}  # each try starts a process, because the runtime crashes
    for model, other, sizes in ((SOFT, "soft", {}), (MODEL, "dies", few), (MODEL, "refuses", few)):
        (parting,) = onnx_models.search(
            model,
            2,
            most=1,
            sizes=sizes,
            runtimes=["reference", f"odd_runtimes.{other}"],
            valid_indices=True,
        )
        node, rule, _ = parting.kind
        assert rule == {"soft": "another operator", "dies": "crash", "refuses": "support"}[other]
        assert node == ("Softmax of s" if other == "soft" else node)


def test_advice_for_an_attribute_of_a_later_opset_is_to_convert(ndgather_in, tmp_path):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3] x, int64[2] i, float[2] u) => (float[3] y)
        { y = ScatterElements<reduction = "max">(x, i, u) }""")
    onnx.save(model, tmp_path / "model.onnx")
    advice = "convert --opset 18, which has ai.onnx ScatterElements-18"
    outcome = ndgather_in(tmp_path, "run model.onnx --random --runtime reference")
    assert outcome.status == 1
    assert f"(to repair it: {advice})" in outcome.err
    outcome = ndgather_in(tmp_path, "compare model.onnx --random --runtime reference")
    assert f"  instead: {advice}\n" in outcome.out
    inputs = {"x": np.zeros(3, np.float32), "i": [0, 1], "u": np.ones(2, np.float32)}
    with pytest.raises(AttributeValueError, match="to repair it: convert --opset 18"):
        onnx_models.run(model, inputs, runtime="reference")


TWICE = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    pick (float[N, 2] data, int64[M, 1] rows, int64[K, 1] at) => (float[M, 2] p, float[K, 2] q)
    { p = GatherND(data, rows)  q = GatherND(data, at) }""")


def test_all_kinds_of_differences_are_printed_as_a_table(odd_runtimes, ndgather_in, tmp_path):
    del odd_runtimes
    onnx.save(TWICE, tmp_path / "model.onnx")
    kinds = onnx_models.search(TWICE, 16, runtimes=["reference", "odd_runtimes.clamps"])
    assert any("refused" in runtimes for _, _, runtimes in (example.kind for example in kinds))
    assert len({example.kind for example in kinds}) == len(kinds) > 1
    counts = [example.count for example in kinds]
    assert counts == sorted(counts, reverse=True)
    assert max(counts) > 1
    line = "compare model.onnx --search 12 --all --valid-indices --runtime odd_runtimes.clamps"
    outcome = ndgather_in(tmp_path, f"{line} --keep kinds")
    assert (outcome.status, outcome.err) == (1, "")
    title, row, *_, last = outcome.out.splitlines()
    assert title.split() == ["inputs", "node", "rule", "runtimes", "edge", "case", "saved", "to"]
    assert row.split()[1:4] in (["GatherND", "of", "p"], ["GatherND", "of", "q"])
    assert "negative index" in row
    assert "index range" not in outcome.out
    assert "odd_runtimes.clamps differs" in row
    assert last.endswith(" of 12 inputs.")
    again = ndgather_in(
        tmp_path, "compare model.onnx --inputs kinds/0 --runtime odd_runtimes.clamps"
    )
    assert again.status == 1
    objects = json.loads(ndgather_in(tmp_path, f"{line} --json").out)
    assert objects["kinds"][0]["count"] == int(row.split()[0])
    for options, text in {
        "--random --all": "--all does not apply (allowed: --search)",
        "--valid-indices": "--valid-indices does not apply (allowed: --search)",
    }.items():
        outcome = ndgather_in(tmp_path, f"compare model.onnx {options}")
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err.endswith(f"ndgather compare: error: {text}\n")


def test_scalars_from_branches_may_have_shape_1():
    """OpenVINO returns a scalar from a branch as an array of shape (1,)."""
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (bool c, float[3, 2] x, int64[] i) => (float[2] y)
        { y = If(c) <then_branch = t () => (float[2] a) { j = Neg(i) a = Gather(x, j) },
                     else_branch = e () => (float[2] b)
                       { k = Identity(i) s = Constant<value_float = 1.0>()
                         z = Gather(x, k) q = Gather(z, k) b = Expand(q, w) w2 = Shape(x) }> }""")
    del model.graph.node[0].attribute[1].g.node[4:]
    model.graph.node[0].attribute[1].g.node[3].output[0] = "b"
    model.graph.node[0].attribute[1].g.output[0].type.tensor_type.shape.ClearField("dim")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    traced = trace(model, None)
    (node,) = (item for item in traced.nodes if item.op_node.node.output[0] == "b")
    x, lifted = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1])
    data, index = node.reads
    values = {data: x[1], index: lifted, node.gives: x[1, 1].reshape(1)}
    checked = node.check(values)
    assert checked.same
    wrong = node.check({**values, node.gives: np.array([99], np.float32)})
    assert not wrong.same


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_edge_cases_of_indices_depend_on_the_axis_size(dtype, valid):
    """For an axis of size 7: both ends as non-negative and negative indices, and out of bounds."""
    drawn = set()
    for seed in range(300):
        base = {"rows": np.full((2, 3), 3, dtype)}
        rng = np.random.default_rng(seed)
        _, name, changes = _draw_changes(base, {"rows": 6}, rng, valid=valid)
        assert name == "rows"
        drawn |= {value for _, value in changes}
    signed = dtype != "uint8"
    assert drawn >= {0, 6} | ({-1, -7} if signed else set())
    if valid:
        assert drawn <= {0, 6, -1, -7}
    else:
        assert drawn >= {7} | ({-8} if signed else set())
