"""Findings are sorted by severity, and library errors become package errors with a cause."""

import json
import re

import numpy as np
import pytest
from onnx.parser import parse_model

from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.graph.diagnostics import (
    Finding,
    Severity,
    as_text,
    has_errors,
    summary,
    to_json,
)

PORTABLE = Finding(
    where="layer 3",
    operator="openvino Gather-8",
    rule="types",
    what="int64 data is not what every device takes",
    severity=Severity.PORTABLE,
    runtimes=("one", "two"),
)
ERROR = Finding(
    where="pick",
    operator="ai.onnx GatherND-13",
    rule="index range",
    what="indices[0, 0] = 7 is outside axis 1",
    severity=Severity.ERROR,
)


def test_table_is_sorted_by_severity_and_ends_with_counts():
    assert as_text([PORTABLE, ERROR], width=0).splitlines() == [
        "severity  where    operator             rule         what is wrong",
        "error     pick     ai.onnx GatherND-13  index range  indices[0, 0] = 7 is outside axis 1",
        "portable  layer 3  openvino Gather-8    types        "
        "int64 data is not what every device takes [one, two]",
        "",
        "1 error (the specification does not allow it); "
        "1 portable (it runs, but some runtimes or versions do not support it)",
    ]


def test_last_column_is_wrapped():
    lines = as_text([PORTABLE, ERROR], width=80).splitlines()[:-2]
    assert max(map(len, lines)) <= 80
    assert len(lines) > 3
    assert " ".join(" ".join(lines).split()).count("device takes [one, two]") == 1


def test_empty_findings_are_printed_as_a_message():
    assert as_text([]) == summary([]) == "nothing found"


def test_has_errors_ignores_other_severities():
    assert has_errors([PORTABLE, ERROR])
    assert not has_errors([PORTABLE])


def test_findings_survive_a_json_round_trip():
    assert json.loads(json.dumps(to_json([PORTABLE]))) == [
        {
            "where": "layer 3",
            "operator": "openvino Gather-8",
            "rule": "types",
            "what": "int64 data is not what every device takes",
            "severity": "portable",
            "runtimes": ["one", "two"],
        }
    ]


HEAD = """<ir_version: 8, opset_import: ["" : 18]>"""
BROKEN = {
    "no such operator": (f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Nope(x) }}", {"x": 3}),
    "mismatched sizes": (
        f"{HEAD} g (float[A,B] x, float[C,D] w) => (float[A,D] y) {{ y = MatMul(x, w) }}",
        {"x": (2, 3), "w": (4, 5)},
    ),
    "a concatenation of others": (
        f"{HEAD} g (float[A,B] x, float[C,D] w) => (float[E,F] y) {{ y = Concat<axis=0>(x, w) }}",
        {"x": (3, 2), "w": (4, 3)},
    ),
    "different channels": (
        f"{HEAD} g (float[1,3,4,4] x, float[2,5,3,3] w) => (float[1,2,2,2] y) {{ y = Conv(x, w) }}",
        {"x": (1, 3, 4, 4), "w": (2, 5, 3, 3)},
    ),
}
IN_CODE = re.compile(r"\.(cc|cpp|cu|h|hpp|py)\b:?\d*|0x[0-9a-f]{6,}|/project/|_src/")


@pytest.mark.parametrize(("text", "shapes"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("runtime", ["reference", "onnxruntime", "openvino"])
def test_library_errors_become_package_errors_with_cause(runtime, text, shapes):
    if runtime != "reference":
        pytest.importorskip(runtime)
    feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}

    with pytest.raises(NdgatherError) as refused:
        onnx_models.run(parse_model(text), feeds, runtime=runtime)

    cause, said = refused.value.__cause__, str(refused.value)
    assert cause is not None
    assert not type(cause).__module__.startswith("ndgather")
    assert len(said.splitlines()) == 1
    assert not IN_CODE.search(said), said


@pytest.mark.parametrize("function", [onnx_models.infer, onnx_models.load])
def test_invalid_bytes_raise_an_error(function):
    with pytest.raises(NdgatherError) as refused:
        function(b"no model")
    assert refused.value.__cause__ is not None
    assert len(str(refused.value).splitlines()) == 1
