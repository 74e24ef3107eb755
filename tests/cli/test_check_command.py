"""``ndgather check``: the table, the JSON data, and the exit status."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ndgather.models.onnx.passes.target import target_names


def save(indices, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        [helper.make_node("GatherND", ["data", "indices"], ["out"], name="pick")],
        "g",
        [helper.make_tensor_value_info("data", kind, [5, 4])],
        [helper.make_tensor_value_info("out", kind, [1, 4])],
        [helper.make_tensor("indices", TensorProto.INT64, [1, 1], [indices])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "checked.onnx")


def test_a_clean_model_has_no_findings(ndgather):
    save(3)
    outcome = ndgather("check checked.onnx")
    assert (outcome.status, outcome.out, outcome.err) == (0, "nothing found\n", "")
    assert json.loads(ndgather("check checked.onnx --json").out) == []


def test_an_error_sets_the_exit_status(ndgather):
    save(7)
    outcome = ndgather("check checked.onnx")

    assert (outcome.status, outcome.err) == (1, "")
    head, row, empty, total = outcome.out.splitlines()
    assert head.split()[:4] == ["severity", "where", "operator", "rule"]
    assert row.startswith(
        "error     pick   ai.onnx GatherND-13  index range  ai.onnx GatherND-13: indices[0, 0] = 7 "
        "is outside axis 0 of data, which has size 5 (allowed: -5..4); "
    )
    assert (empty, total) == ("", "1 error (the specification does not allow it)")

    (found,) = json.loads(ndgather("check checked.onnx --json").out)
    assert (found["severity"], found["where"]) == ("error", "pick")
    assert found["runtimes"] == ["TensorFlow", "TensorRT", "XLA", "OpenVINO"]


def test_portability_findings_do_not_fail(ndgather):
    save(-1, TensorProto.INT64)
    outcome = ndgather("check checked.onnx")

    assert outcome.status == 0
    lines = outcome.out.splitlines()[1:-2]
    severities = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert severities == ["differs", "differs"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("check none.onnx", "none.onnx: cannot be read: no such file or directory"),
        ("check none.xml", "none.xml: cannot be read: no such file or directory"),
    ],
)
def test_an_unreadable_file_is_an_error(ndgather, line, text):
    outcome = ndgather(line)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"ndgather check: error: {text}\n"


def test_findings_for_other_runtimes_are_omitted(ndgather):
    save(-1, TensorProto.INT64)
    outcome = ndgather("check checked.onnx --runtime xla --json")
    assert {tuple(each["runtimes"]) for each in json.loads(outcome.out)} == {("XLA",)}


@pytest.mark.parametrize(
    ("runtime", "affected"), [("onnxruntime", False), ("ONNX", False), ("xla", True)]
)
def test_a_finding_for_all_other_runtimes_spares_the_runtime_that_it_names(
    ndgather, runtime, affected
):
    node = helper.make_node("GatherND", ["data", "at"], ["out"], domain="com.microsoft")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.INT64, [5])],
        [helper.make_tensor_value_info("out", TensorProto.INT64, [1])],
        [helper.make_tensor("at", TensorProto.INT64, [1, 1], [0])],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "checked.onnx")
    found = json.loads(ndgather(f"check checked.onnx --runtime {runtime} --json").out)
    assert any("only onnxruntime supports it" in each["what"] for each in found) == affected


@pytest.mark.parametrize(("least", "status"), [("error", 0), ("differs", 1), ("portable", 1)])
def test_fail_on_sets_the_lowest_failing_severity(ndgather, least, status):
    save(-1)
    assert ndgather(f"check checked.onnx --fail-on {least}").status == status


def test_several_models_are_reported_separately(ndgather, folder):
    save(3)
    (folder / "checked.onnx").rename("good.onnx")
    save(7)
    outcome = ndgather("check good.onnx checked.onnx")
    assert outcome.status == 1
    assert outcome.out.startswith("good.onnx\nnothing found\n\nchecked.onnx\nseverity")
    (each,) = json.loads(ndgather("check good.onnx checked.onnx --json").out)
    assert each["model"] == "checked.onnx"


def test_equal_findings_share_a_row(ndgather):
    nodes = [
        helper.make_node("Gather", ["data", "at"], [f"out{k}"], name=f"pick{k}") for k in range(3)
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("data", TensorProto.INT64, [5])],
        [helper.make_tensor_value_info(f"out{k}", TensorProto.INT64, [1]) for k in range(3)],
        [helper.make_tensor("at", TensorProto.INT64, [1], [0])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "checked.onnx")
    _, row, _, total = ndgather("check checked.onnx").out.splitlines()
    assert row.startswith("differs   pick0 and 2 more  ai.onnx Gather-13")
    assert total.startswith("3 differs")


def test_an_unknown_runtime_is_an_error(ndgather):
    save(3)
    outcome = ndgather("check checked.onnx --runtime onnxruntim,opnvino")
    assert outcome.status == 1
    assert "runtime = 'opnvino' is not known (allowed: substrings of LiteRT" in outcome.err
    outcome = ndgather("check checked.onnx --runtime onnxruntime,")
    assert (outcome.status, outcome.out) == (2, "")
    assert "argument --runtime: 'onnxruntime,' has an empty name" in outcome.err


def test_runtime_may_be_repeated_or_comma_separated(ndgather):
    save(-1, TensorProto.INT64)
    both = ndgather("check checked.onnx --runtime xla,tensorflow --json").out
    assert ndgather("check checked.onnx --runtime xla --runtime tensorflow --json").out == both
    assert "TensorFlow" in both
    assert "XLA" in both


def test_an_unreadable_model_does_not_stop_the_others(ndgather):
    save(3)
    (Path.cwd() / "cut.onnx").write_bytes(Path("checked.onnx").read_bytes()[:40])

    outcome = ndgather("check gone.onnx cut.onnx checked.onnx")

    assert outcome.status == 1
    assert outcome.out == "checked.onnx\nnothing found\n"
    gone, cut = outcome.err.splitlines()
    assert gone.startswith("ndgather check: error: gone.onnx: cannot be read")
    assert cut.startswith("ndgather check: error: cut.onnx: is not an ONNX model, or is incomplete")
    found = ndgather("check gone.onnx checked.onnx --json")
    assert (found.status, json.loads(found.out)) == (1, [])


TARGETS = """<ir_version: 8, opset_import: ["" : 18]>
heads (float[4, 5] x, int64[2, 2] at, float[N, 5] new, int64[N, 1] rows)
    => (float[2] y, float[4, 5] z, float[4, 5] s) {
    y = GatherND(x, at)
    z = ScatterND(x, at, y)
    s = ScatterND<reduction = "add">(x, rows, new)
}"""


def test_target_lists_unsupported_nodes(ndgather):
    onnx.save(onnx.parser.parse_model(TARGETS), "heads.onnx")

    outcome = ndgather("check heads.onnx --target coreml --json")

    assert (outcome.status, outcome.err) == (0, "")
    found = [(item["rule"], item["where"], item["severity"]) for item in json.loads(outcome.out)]
    assert ("target", "ScatterND of z", "portable") in found
    assert ("target", "ScatterND of s", "portable") in found
    assert not any(where == "GatherND of y" for _, where, _ in found)  # coreml has GatherND
    texts = {item["where"]: item["what"] for item in json.loads(outcome.out)}
    assert "; convert --target coreml writes " in texts["ScatterND of z"]
    assert "convert --target" not in texts["ScatterND of s"]  # no rule replaces it
    assert ndgather("check heads.onnx --target coreml --fail-on portable").status == 1


@pytest.mark.parametrize("name", target_names())
def test_indices_converted_for_a_target_are_not_negative(ndgather, name):
    model = """<ir_version: 8, opset_import: ["" : 18]>
    heads (float[4, 5] x, int64[3, 2] at, float[3] new) => (float[3] y, float[4, 5] z) {
        y = GatherND(x, at)
        z = ScatterND(x, at, new)
    }"""
    onnx.save(onnx.parser.parse_model(model), "heads.onnx")
    ndgather(f"convert heads.onnx --target {name} --partial -o new.onnx")

    outcome = ndgather(f"check new.onnx --target {name}")

    assert outcome.err == ""
    assert "negative" not in outcome.out


def test_a_target_given_as_a_runtime_is_an_error(ndgather):
    save(3)
    outcome = ndgather("check checked.onnx --runtime coreml")
    assert outcome.status == 1
    assert outcome.err.endswith("; write --target coreml, a target of convert\n")
    outcome = ndgather("check checked.onnx --target tensorrt")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.endswith("; the newest is 'tensorrt-10'\n")
