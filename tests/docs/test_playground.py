"""The playground compared with Python: results, errors, pictures, and written calls."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from ndgather.models.onnx import run
from tests.docs.playground_calls import (
    answer,
    by_the_definition,
    description,
    drawn_calls,
    typed,
)

STATIC = Path(__file__).parents[2] / "docs" / "static"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="it runs the playground by node")

RUN = """
const {{ playground }} = globalThis;
const calls = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(calls.map((fields) => {{ {body} }})));
"""
ANSWER = """
const { result, error } = playground.run(playground.read(fields));
return {
  error: error && [error.name, error.message],
  result: result && [result.dtype, result.shape, result.values.map(playground.repr)],
};
"""
DESCRIPTION = """
const outcome = playground.run(playground.read(fields));
return playground.description(playground.scene(outcome));
"""
PLACES = re.compile(r"\. [a-z]{1,2}: ")


def entries_of(call):
    """Return the number of entries in the indices of a call."""
    shape = np.shape(call.get("indices", call.get("starts")))
    return math.prod(shape[:-1] if call["function"].endswith(("_nd", "_windows")) else shape)


DEFINED = ("ndgather", "NumPy")  # they explain duplicate indices


def has_repeats(call):
    """Return whether several updates without a reduction have the same target."""
    if "updates" not in call or call.get("reduction", "none") != "none":
        return False
    arguments = {name: call[name] for name in ("indices", "axis", "mode") if name in call}
    data, updates = np.zeros(np.shape(call["data"]), int), np.ones(np.shape(call["updates"]), int)
    counted = dict(arguments, data=data, updates=updates, reduction="add")
    return bool((by_the_definition(call["function"], counted) > 1).any())


def prepare(library):
    """Import a library under the name on the page, or skip the test."""
    module = pytest.importorskip(library.lower() if library != "JAX" else "jax")
    if library == "JAX":
        module.config.update("jax_enable_x64", True)


def run_node(node, call):
    """Return the result of a model with a single node."""
    dtypes = (np.array(call["data"]).dtype, np.int64, np.array(call["data"]).dtype)
    names = ("data", "indices", "updates")
    arrays = {
        name: np.array(call[name]).astype(dtype)
        for name, dtype in zip(names, dtypes, strict=True)
        if name in call
    }

    def info(name, array, shape):
        element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return onnx.helper.make_tensor_value_info(name, element, shape)

    inputs = [info(name, array, array.shape) for name, array in arrays.items()]
    output = info("result", arrays["data"], None)
    graph = onnx.helper.make_graph([node], "one", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    return run(model, arrays)["result"]


def by_node(calls, body, *modules):
    """Return JavaScript's answers for the fields of every call."""
    loads = "".join(
        f"require({str(STATIC / name)!r});" for name in ("playground-calls.js", *modules)
    )
    run = subprocess.run(
        [NODE, "-e", loads + RUN.format(body=body)],
        input=json.dumps(list(map(typed, calls))),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@cache
def calls_and_answers(seed=48):
    return [(call, answer(call)) for call in drawn_calls(seed=seed)]


@pytest.mark.parametrize("seed", [48, 50, 92])
def test_random_calls_equal_the_definitions(seed):
    calls, answers = zip(*calls_and_answers(seed), strict=True)

    for call, found, wanted in zip(calls, by_node(calls, ANSWER), answers, strict=True):
        assert found == wanted, call
    assert sum(wanted["error"] is None for wanted in answers) > 1000
    assert len({wanted["error"][1] for wanted in answers if wanted["error"]}) > 300


def test_pictures_describe_the_same_as_in_python():
    drawn = []
    for call, wanted in calls_and_answers()[:800]:
        fits = wanted["error"] is None or wanted["error"][0] == "IndexOutOfBoundsError"
        if fits and len(PLACES.findall(text := description(call))) == entries_of(call):
            drawn.append((call, text))
    body = (
        "return playground.description(playground.scene(playground.run(playground.read(fields))))"
    )

    found = by_node([call for call, _ in drawn], body, "playground-picture.js")

    assert len(found) > 400
    for (call, wanted), text in zip(drawn, found, strict=True):
        assert text == wanted, call


CODE = """
const { call, entries, result } = playground.run(playground.read(fields));
return call && result && playground.code(call, entries);
"""


@pytest.mark.parametrize("library", ["ndgather", "NumPy", "torch", "TensorFlow", "JAX", "ONNX"])
def test_written_calls_have_the_same_results(library):
    prepare(library)
    calls = [call for call, wanted in calls_and_answers() if wanted["error"] is None]
    calls = calls[:: {"JAX": 16, "TensorFlow": 3}.get(library, 1)]  # JAX compiles every call
    ran = 0
    for call, written in zip(calls, by_node(calls, CODE, "playground-code.js"), strict=True):
        code = written[library]
        if code.startswith("# "):
            continue
        assert ("# indices repeat" in code) == (library not in DEFINED and has_repeats(call)), call
        if library not in DEFINED and has_repeats(call):
            continue
        arguments = dict(call)
        wanted = by_the_definition(arguments.pop("function"), arguments)
        names = {}
        with np.errstate(all="ignore"):
            exec(code, names)
        found = np.asarray(names["result"]) if library != "ONNX" else run_node(names["node"], call)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{call}\n{code}")
        ran += 1
    assert ran > len(calls) // 20
