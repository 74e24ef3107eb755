"""Nodes inside of loops, compared in every iteration; the values are those of plain loops."""

import json
import os
import re
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from ndgather.errors import DTypeError, ModelError
from ndgather.models import onnx as onnx_models
from ndgather.models.onnx.comparison.comparer import Comparer, TracedRun
from ndgather.models.onnx.runs import RunSettings
from tools import versions

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
PLAIN = parse_model(f"""{HEAD}
    g (int64 n, float[3] data) => (float[k] ys)
    {{ t = Constant<value = bool {{1}}>()
       ys = Loop(n, t) <body = turn (int64 i, bool c) => (bool go, float y)
         {{ go = Identity(c)  one = Constant<value = int64 {{1}}>()  at = Sub(i, one)
            y = Gather(data, at) }}> }}""")
GROWS = parse_model(f"""{HEAD}
    g (int64 n, float[k] data) => (float[K] out)
    {{ t = Constant<value = bool {{1}}>()
       out = Loop(n, t, data) <body = turn (int64 i, bool c, float[q] x) => (bool go, float[p] z)
         {{ go = Identity(c)  y = Gather(x, i)  flat = Constant<value_ints = [-1]>()
            w = Reshape(y, flat)  z = Concat<axis = 0>(x, w) }}> }}""")
NESTED = parse_model(f"""{HEAD}
    g (int64 n, float[k] data) => (float[q] ys)
    {{ t = Constant<value = bool {{1}}>()
       ys = Loop(n, t) <body = outer (int64 i, bool c) => (bool go, float y)
         {{ go = Identity(c)  true = Constant<value = bool {{1}}>()
            zs = Loop(i, true) <body = inner (int64 j, bool d) => (bool more, float z)
              {{ more = Identity(d)  k = Add(i, j)  two = Constant<value = int64 {{2}}>()
                 odd = Mod(k, two)  yes = Cast<to = 9>(odd)
                 z = If(yes) <then_branch = a () => (float p) {{ p = Gather(data, k) }},
                              else_branch = b () => (float q)
                                {{ q = Constant<value = float {{0}}>() }}> }}>
            y = ReduceSum<keepdims = 0>(zs) }}> }}""")
SCAN = parse_model(f"""{HEAD}
    g (float[2] start, int64[T, 1] at, float[3, 2] table) => (float[2] end, float[T, 2] ys)
    {{ end, ys = Scan(start, at) <num_scan_inputs = 1,
         body = step (float[2] s, int64[1] i) => (float[2] s2, float[2] y)
         {{ row = GatherND(table, i)  s2 = Add(s, row)  y = Identity(row) }}> }}""")
BACKWARDS = onnx.ModelProto()
BACKWARDS.CopyFrom(SCAN)
for name in ("scan_output_axes", "scan_output_directions"):
    BACKWARDS.graph.node[0].attribute.append(onnx.helper.make_attribute(name, [1]))
del BACKWARDS.graph.output[1].type.tensor_type.shape.dim[:]
BACKWARDS.graph.output[1].type.tensor_type.ClearField("shape")
LEFT_OUT = parse_model(f"""{HEAD}
    g (int64 n, float[3] data) => (float end)
    {{ t = Constant<value = bool {{1}}>()  zero = Constant<value = float {{0}}>()
       end = Loop(n, t, zero) <
         body = turn (int64 i, bool c, float s) => (bool go, float s2, float y)
         {{ go = Identity(c)  y = Gather(data, i)  s2 = Add(s, y) }}> }}""")
BRANCH = parse_model(f"""{HEAD}
    g (bool c, int64 n, string[3] data) => (string[k] ys)
    {{ t = Constant<value = bool {{1}}>()
       ys = If(c) <then_branch = a () => (string[p] zs)
         {{ zs = Loop(n, t) <body = turn (int64 i, bool d) => (bool go, string z)
              {{ go = Identity(d)  z = Gather(data, i) }}> }},
         else_branch = b () => (string[q] ws) {{ ws = Identity(data) }}> }}""")
DATA = np.arange(10, 17, dtype=np.float32)
TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)
WORDS = np.array(["a", "bc", ""], object)


def grown(count):
    x = list(DATA)
    for i in range(count):
        yield (i,), [np.array(x, np.float32), np.array(i), np.float32(x[i])]
        x.append(x[i])


CASES = {
    "plain": (
        PLAIN,
        {"n": np.array(3), "data": DATA[:3]},
        [((i,), [DATA[:3], np.array(i - 1), DATA[:3][i - 1]]) for i in range(3)],
    ),
    "no iteration": (PLAIN, {"n": np.array(0), "data": DATA[:3]}, []),
    "shapes differ": (GROWS, {"n": np.array(4), "data": DATA}, list(grown(4))),
    "nested, with branches": (
        NESTED,
        {"n": np.array(4), "data": DATA},
        [
            ((i, j), [DATA, np.array(i + j), DATA[i + j]])
            for i in range(4)
            for j in range(i)
            if (i + j) % 2
        ],
    ),
    "scan": (
        SCAN,
        {"start": np.zeros(2, np.float32), "at": np.array([[0], [-1], [2]]), "table": TABLE},
        [((t,), [TABLE, np.array([i]), TABLE[i]]) for t, i in enumerate([0, -1, 2])],
    ),
    "scan, whose output is of other axes": (
        BACKWARDS,
        {"start": np.zeros(2, np.float32), "at": np.array([[1], [-1]]), "table": TABLE},
        [((t,), [TABLE, np.array([i]), TABLE[i]]) for t, i in enumerate([1, -1])],
    ),
    "an output left out": (
        LEFT_OUT,
        {"n": np.array(2), "data": DATA[:3]},
        [((i,), [DATA[:3], np.array(i), DATA[i]]) for i in range(2)],
    ),
    "strings in a branch": (
        BRANCH,
        {"c": np.array(True), "n": np.array(2), "data": WORDS},
        [((i,), [WORDS, np.array(i), np.array(WORDS[i], object)]) for i in range(2)],
    ),
    "a branch that does not run": (
        BRANCH,
        {"c": np.array(False), "n": np.array(2), "data": WORDS},
        [],
    ),
}
# What a runtime does not run at all.
NOT_RUN = {("openvino", name) for name in CASES if "branch" in name or name.startswith("scan")}
if find_spec("onnxruntime") is not None and versions.order(version("onnxruntime")) < [1, 28]:
    NOT_RUN.add(("onnxruntime", "strings in a branch"))


def in_every(*names):
    return [
        pytest.param(name, marks=pytest.mark.skipif(not there, reason=f"{name} is not installed"))
        for name in names
        for there in [find_spec(name) is not None]
    ]


with_onnxruntime = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="onnxruntime is not installed"
)


@pytest.mark.parametrize("runtime", in_every("onnxruntime", "openvino"))
@pytest.mark.parametrize("case", CASES)
def test_every_iteration_has_the_values_of_a_plain_loop(runtime, case):
    if (runtime, case) in NOT_RUN:
        pytest.skip("the runtime does not run the model")
    model, feeds, expected = CASES[case]
    comparer = Comparer("compare", model, RunSettings(runtimes=[runtime]))
    comparer.trace_loops(feeds, 2**20)
    (node,) = comparer.traced.nodes
    values, found = TracedRun(comparer, runtime, feeds).values, []
    for iteration, checked in node.checks(values):
        assert checked.same
        found.append((iteration, [*checked.inputs, checked.actual]))
    assert [iteration for iteration, _ in found] == [iteration for iteration, _ in expected]
    for (_, arrays), (_, others) in zip(found, expected, strict=True):
        for array, other in zip(arrays, others, strict=True):
            np.testing.assert_array_equal(array, other)
            assert array.shape == np.shape(other)


WRONG = """
import numpy as np
import onnx

def version():
    return "1.0"

def session(source, options):
    model = onnx.load_from_string(source.content)
    for body in bodies(model.graph):
        for node in body.node:
            if node.op_type in {"Gather", "GatherND"}:
                absolute = onnx.helper.make_node("Abs", [node.input[1]], ["absolute"])
                node.input[1] = "absolute"
                body.node.insert(list(body.node).index(node), absolute)
                break
    return adapter.session(onnx_source(model), options)

def bodies(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from bodies(attribute.g)

def onnx_source(model):
    from ndgather.runtimes.runtime import ModelSource
    return ModelSource(content=model.SerializeToString())
"""


@pytest.fixture
def wrong(tmp_path, monkeypatch):
    """A runtime that ignores the sign of an index, around a real one."""
    package = tmp_path / "wrong_runtimes"
    package.mkdir()
    (package / "__init__.py").touch()
    text = f"from ndgather.runtimes import onnxruntime as adapter\n{WRONG}"
    (package / "onnxruntime.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    return "wrong_runtimes"


@pytest.mark.parametrize("runtime", in_every("onnxruntime"))
def test_a_difference_names_the_node_the_loop_and_the_iteration(runtime, wrong):
    feeds = {"n": np.array(3), "data": DATA[:3]}
    report = onnx_models.compare(
        PLAIN, feeds, runtimes=[runtime, f"{wrong}.{runtime}"], inside_loops=True
    )
    (node,) = report.nodes
    right, other = node.runs
    assert (node.where, right.status, report.left) == ("Loop of ys/Gather of y", "same", ())
    assert (other.status, other.iteration) == ("differs", (("Loop of ys", 0),))
    assert (other.theirs, other.ours, other.explanation.rule) == ("11.0", "12.0", "negative index")
    assert other.explanation.indices == "indices = -1"
    text = "differs in iteration 0 of Loop of ys; output = 11.0, and the specification requires 12"
    assert text in repr(report)


@pytest.mark.parametrize("runtime", in_every("onnxruntime"))
def test_later_iterations_get_other_inputs(runtime, wrong):
    """The index of an iteration is the value of the one before."""
    model = parse_model(f"""{HEAD}
        g (int64 n, int64[4] next, int64 start) => (int64 end)
        {{ t = Constant<value = bool {{1}}>()
           end = Loop(n, t, start) <body = turn (int64 i, bool c, int64 at) => (bool go, int64 to)
             {{ go = Identity(c)  to = Gather(next, at) }}> }}""")
    feeds = {"n": np.array(3), "next": np.array([1, -1, 3, 0]), "start": np.array(0)}
    report = onnx_models.compare(
        model, feeds, runtimes=[runtime, f"{wrong}.{runtime}"], inside_loops=True
    )
    (node,) = report.nodes
    assert node.runs[1].iteration == (("Loop of end", 2),)  # of the index -1
    assert not node.runs[1].inputs_differ


@with_onnxruntime
def test_more_memory_than_the_limit_is_refused_with_the_need():
    feeds = {"n": np.array(40), "data": np.zeros(50, np.float32)}
    text = r"compare: memory = 5000 is less than the (\d+) bytes of the values in loops \(allowed"
    with pytest.raises(ModelError, match=text) as refused:
        onnx_models.compare(GROWS, feeds, runtimes=["onnxruntime"], inside_loops=True, memory=5000)
    elements = 40 * 89  # of the largest value in every iteration
    assert 4 * elements < int(re.findall(r"(\d+) bytes", str(refused.value))[0]) < 8 * elements
    report = onnx_models.compare(GROWS, feeds, runtimes=["onnxruntime"], memory=5000)
    assert [where for where, _ in report.left] == ["Loop of out/Gather of y"]
    with pytest.raises(DTypeError, match="compare: inside_loops = int object is not a choice"):
        onnx_models.compare(GROWS, feeds, inside_loops=1)


@with_onnxruntime
def test_what_is_left_out_is_named():
    feeds = {"n": np.array(9), "data": DATA[:3]}  # the fifth is outside of data
    report = onnx_models.compare(PLAIN, feeds, runtimes=["onnxruntime"], inside_loops=True)
    assert not report.same
    why = "no runtime returns the sizes of the values in its loop"
    assert report.left == (("Loop of ys/Gather of y", why),)
    old = onnx.ModelProto()
    old.CopyFrom(PLAIN)
    old.opset_import[0].version = 8
    report = onnx_models.compare(old, feeds, runtimes=["onnxruntime"], inside_loops=True)
    assert report.left == (("Loop of ys/Gather of y", "its loop is of opset 8, which is below 9"),)


@with_onnxruntime
def test_the_command(wrong, ndgather_in, tmp_path):
    onnx.save(PLAIN, tmp_path / "model.onnx")
    np.savez(tmp_path / "all.npz", n=np.array(3), data=DATA[:3])
    line = f"compare model.onnx --inputs all.npz --runtime onnxruntime,{wrong}.onnxruntime"
    outcome = ndgather_in(tmp_path, f"{line} --inside-loops --html page.html")
    assert outcome.status == 1
    assert "\nLoop of ys/Gather of y (ai.onnx Gather-13" in outcome.out
    assert ": differs in iteration 0 of Loop of ys; output = 11.0" in outcome.out
    assert "iteration 0 of Loop of ys" in (tmp_path / "page.html").read_text()
    outcome = ndgather_in(tmp_path, f"{line} --inside-loops --json")
    run = json.loads(outcome.out)["nodes"][0]["runs"][1]
    assert run["iteration"] == [["Loop of ys", 0]]
    outcome = ndgather_in(tmp_path, line)
    assert "not compared: Loop of ys/Gather of y, because it is in the body of" in outcome.out
    assert "compare --inside-loops" in outcome.out
    outcome = ndgather_in(tmp_path, f"{line} --inside-loops --memory 100")
    assert outcome.status == 1
    assert "memory = 100 is less than the" in outcome.err
    outcome = ndgather_in(tmp_path, f"{line} --inside-loops --search 3")
    assert outcome.status == 2
    assert "--inside-loops does not apply to --search" in outcome.err
