"""``ndgather run``: inputs from one archive, from a folder of test data, and made up."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

RUN = "run model.onnx --runtime reference"
PICKED = np.array([101, 111, 104], np.int16)


@pytest.fixture
def test_data(folder):
    place = folder / "test_data_set_0"
    place.mkdir()
    for number, name in enumerate(("data", "indices")):
        tensor = numpy_helper.from_array(np.load(f"{name}.npy"))
        (place / f"input_{number}.pb").write_bytes(tensor.SerializeToString())
    return place


def keep_output(place, number, array):
    content = numpy_helper.from_array(array).SerializeToString()
    (place / f"output_{number}.pb").write_bytes(content)


def test_one_archive_holds_every_input(ndgather):
    np.savez("all.npz", data=np.load("data.npy"), indices=np.load("indices.npy"))
    outcome = ndgather(f"{RUN} --inputs all.npz --output picked=kept.npy")
    assert (outcome.status, outcome.err) == (0, "")
    np.testing.assert_array_equal(np.load("kept.npy"), PICKED, strict=True)


def test_outputs_of_a_folder_are_compared(ndgather, test_data):
    keep_output(test_data, 0, PICKED)
    outcome = ndgather(f"{RUN} --inputs test_data_set_0")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.endswith("1 output is that of test_data_set_0.\n")

    keep_output(test_data, 1, PICKED)
    keep_output(test_data, 2, PICKED)
    outcome = ndgather(f"{RUN} --inputs test_data_set_0")
    assert outcome.err.endswith("test_data_set_0: holds 3 outputs, and the model has 2\n")


def test_an_output_that_differs_from_its_file_is_named(ndgather, test_data):
    keep_output(test_data, 0, PICKED + np.array([0, 0, 5], np.int16))
    outcome = ndgather(f"{RUN} --inputs test_data_set_0")
    assert outcome.status == 1
    file = Path("test_data_set_0/output_0.pb")
    assert outcome.err == (
        f"ndgather run: error: output 'picked': picked[2] = 104 differs from 109 in {file}\n"
    )


def test_inputs_are_made_up_and_the_run_is_told_as_json(ndgather):
    outcome = ndgather(f"{RUN} --random 3 --size H=6 --size N=5 --json")
    assert (outcome.status, outcome.err) == (0, "")
    told = json.loads(outcome.out)
    assert told["runtime"] == "reference"
    assert told["outputs"][0]["shape"] == [5]
    assert told["seconds"] > 0


def test_quiet_prints_nothing(ndgather):
    outcome = ndgather(f"{RUN} --random --quiet")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_a_size_that_the_model_does_not_leave_open_is_refused(ndgather):
    outcome = ndgather(f"{RUN} --random --size K=2")
    assert outcome.status == 1
    assert "the model has no size 'K'" in outcome.err


@pytest.mark.parametrize("size", ["-1", "1.5", "two", "9" * 5000])
def test_a_size_is_a_whole_number(ndgather, size):
    outcome = ndgather(f"{RUN} --random --size N={size}")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"argument --size: '{size}' is not a size" in outcome.err
    outcome = ndgather(f"{RUN} --random --size N=0 --size H=3 --json")
    assert [each["shape"] for each in json.loads(outcome.out)["outputs"]] == [[0], [0]]


@pytest.mark.parametrize(
    "runtime",
    [
        "reference",
        pytest.param(
            "onnxruntime",
            marks=pytest.mark.skipif(
                find_spec("onnxruntime") is None, reason="onnxruntime is not installed"
            ),
        ),
    ],
)
def test_verbose_tells_the_time_and_the_bytes_of_each_node(ndgather, runtime):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        pick (float[4, 3] d, int64[N, 2] at) => (float[N] y) { p = GatherND(d, at)  y = Neg(p) }""")
    onnx.save(model, "model.onnx")
    outcome = ndgather(f"run model.onnx --runtime {runtime} --random --size N=5 --verbose")
    assert outcome.status == 0
    assert all(line.startswith("ndgather: model.onnx: ") for line in outcome.err.splitlines())
    rows = [line.split() for line in outcome.out.partition(" in all.\n")[2].splitlines() if line]
    assert [row[4] for row in rows if row[4] == "GatherND"] == ["GatherND"]
    assert all(row[3] in {"B", "kB"} for row in rows)
    told = json.loads(ndgather(f"run model.onnx --runtime {runtime} --random --verbose --json").out)
    assert {"name", "operator", "seconds", "bytes"} == set(told["node_times"][0])
