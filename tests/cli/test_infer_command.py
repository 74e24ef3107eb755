"""``ndgather infer``: types and shapes of the values in a model."""

import json

import onnx
import pytest


def test_inputs_and_outputs_are_printed(ndgather):
    outcome = ndgather("infer model.onnx")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        "input   data     int16  (H, 4)\n"
        "input   indices  int64  (N, 2)\n"
        "output  picked   int16  (N,)\n"
        "output  more     int16  (N,)\n"
    )


@pytest.mark.parametrize("size", ["N", "indices[0]"])
def test_size_fixes_a_dynamic_size(ndgather, size):
    outcome = ndgather(f"infer model.onnx --size {size}=7 --json")
    found = json.loads(outcome.out)
    assert [each["shape"] for each in found["outputs"]] == [[7], [7]]
    assert found["inputs"][0]["shape"] == ["H", 4]


def test_all_prints_every_value_and_output_saves_the_model(ndgather):
    model = onnx.load("model.onnx")
    between = model.graph.output.pop(0)
    model.graph.output[0].ClearField("type")
    onnx.save(model, "less.onnx")

    outcome = ndgather("infer less.onnx --all -o more.onnx")
    assert outcome.out.endswith("\n\nmore.onnx: the model with its types\n")

    assert (outcome.status, outcome.err) == (0, "")
    assert "value   picked   int16  (N,)" in outcome.out.splitlines()
    kept = onnx.load("more.onnx")
    assert [each.name for each in kept.graph.value_info] == [between.name]
    assert kept.graph.output[0].type == between.type


REFUSED = {
    "no such size": (
        "infer model.onnx --size K=3",
        "the model has no size 'K' (allowed: H, N, data[0], indices[0])",
    ),
    "no such file": ("infer none.onnx", "none.onnx: cannot be read: no such file or directory"),
}


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_errors_fit_on_one_line(ndgather, line, text):
    outcome = ndgather(line)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith(f"ndgather infer: error: {text}")
    assert len(outcome.err.splitlines()) == 1


def test_a_node_that_cannot_run_is_named(ndgather):
    model = onnx.load("model.onnx")
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 3
    onnx.save(model, "bad.onnx")
    outcome = ndgather("infer bad.onnx")
    assert outcome.status == 1
    assert outcome.err.startswith("ndgather infer: error: node 'pick' (GatherND): ")
