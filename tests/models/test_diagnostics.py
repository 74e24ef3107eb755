"""Findings come out worst first, as a table that fits its width and as plain data."""

import json

from ndgather.models.graph.diagnostics import Finding, Severity, has_errors, summary, table, to_json

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


def test_the_table_starts_with_the_worst_and_ends_with_the_counts():
    assert table([PORTABLE, ERROR], width=0).splitlines() == [
        "severity  where    operator             rule         what is wrong",
        "error     pick     ai.onnx GatherND-13  index range  indices[0, 0] = 7 is outside axis 1",
        "portable  layer 3  openvino Gather-8    types        "
        "int64 data is not what every device takes [one, two]",
        "",
        "1 error (the specification does not allow it); "
        "1 portable (it runs, and some runtimes or versions do not support it)",
    ]


def test_the_last_column_is_broken_to_fit():
    lines = table([PORTABLE, ERROR], width=80).splitlines()[:-2]
    assert max(map(len, lines)) <= 80
    assert len(lines) > 3
    assert " ".join(" ".join(lines).split()).count("device takes [one, two]") == 1


def test_no_findings_say_so():
    assert table([]) == summary([]) == "nothing found"


def test_only_errors_are_errors():
    assert has_errors([PORTABLE, ERROR])
    assert not has_errors([PORTABLE])


def test_as_data_they_survive_json():
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
