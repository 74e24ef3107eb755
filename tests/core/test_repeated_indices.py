"""Indices that repeat one entry 2**59 times are looked at once, where nothing is copied."""

import json
import subprocess
import sys

import pytest

CALLS = {
    "gather_nd": "ndgather.gather_nd(np.zeros((3, 0)), repeat({}, (2**59, 1)))",
    "gather_nd, several axes": (
        "ndgather.gather_nd(np.zeros((3, 0)), repeat({}, (2**20, 2**20, 2**19, 1)))"
    ),
    "gather_nd, two columns": "ndgather.gather_nd(np.zeros((3, 3, 0)), repeat({}, (2**58, 2)))",
    "gather_nd, other entries too": (
        "ndgather.gather_nd(np.zeros((3, 0)), repeat([[[0]], [[{}]]], (2, 2**58, 1)))"
    ),
    "gather": "ndgather.gather(np.zeros((0, 3)), repeat({}, (2**59,)), 1)",
    "gather, in int8": "ndgather.gather(np.zeros((0, 3)), repeat({}, (2**59,), np.int8), 1)",
    "scatter_nd": (
        "ndgather.scatter_nd(np.zeros((3, 0)), repeat({}, (2**59, 1)), np.zeros((2**59, 0)))[:1]"
    ),
    "scatter_nd, in place": (
        "ndgather.scatter_nd(e, repeat({}, (2**59, 1)), np.zeros((2**59, 0)), out=e)[:1]"
    ),
    "ONNX GatherND": "ndgather.operator('GatherND')(np.zeros((3, 0)), repeat({}, (2**59, 1)))",
    "ONNX Gather": ("ndgather.operator('Gather')(np.zeros((0, 3)), repeat({}, (2**59,)), axis=1)"),
}
SCRIPT = """
import json, sys
import numpy as np, ndgather
def repeat(value, shape, dtype=np.int64):
    return np.broadcast_to(np.array(value, dtype), shape)
e = np.zeros((3, 0))
for name, call in json.load(sys.stdin).items():
    print(name, flush=True)
    result = eval(call.format(2))
    try:
        eval(call.format(99))
    except IndexError as error:
        print(json.dumps([result.size, error.value, error.count, error.position]), flush=True)
"""


@pytest.fixture(scope="module")
def answers():
    """What a child that has a minute for all calls says; the last call named is the one at work."""
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = child.stdout.splitlines()
    return dict(zip(lines[::2], map(json.loads, lines[1::2]), strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_entries_are_looked_at_and_counted(answers, name):
    size, value, count, position = answers[name]
    assert size == 0
    assert value == 99
    later = name.endswith("other entries too")
    assert count == (2**58 if later else 2**59)
    assert position == ([1, 0, 0] if later else [0] * len(position))
