"""``ndgather run``: printed text, files and errors."""

import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.runtimes

GOOD = "run model.onnx --input data=data.npy --input indices=indices.npy"
PICKED = np.array([101, 111, 104], np.int16)
SIGNATURE = "(the model takes: data int16 (H, 4), indices int64 (N, 2))"


def save_model(path, nodes, inputs, outputs, *, domain="", functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 13)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def test_each_output_has_a_row(ndgather):
    outcome = ndgather(GOOD)

    assert (outcome.status, outcome.err) == (0, "")
    head, picked, more, empty, total, *_ = outcome.out.splitlines()
    assert head.split() == ["output", "shape", "dtype"]
    assert [picked.split(), more.split()] == [
        [name, "(3,)", "int16"] for name in ("picked", "more")
    ]
    assert empty == ""
    assert re.fullmatch(
        r"1 node ran in ndgather, 1 node in the reference evaluator of onnx; "
        r"[\d.]+ (us|ms|s) in total\.",
        total,
    )


def test_only_the_named_output_is_saved(ndgather, folder):
    outcome = ndgather(f"{GOOD} --output picked=kept.npy")

    assert outcome.status == 0
    np.testing.assert_array_equal(np.load("kept.npy"), PICKED, strict=True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "bad.npy", "data.npy", "indices.npy", "kept.npy", "model.onnx",
    ]  # fmt: skip
    head, picked, more = outcome.out.splitlines()[:3]
    assert head.endswith("  file")
    assert picked.endswith("  kept.npy")
    assert more.endswith("int16")


def test_all_outputs_are_saved_in_a_new_folder(ndgather, folder):
    outcome = ndgather(f"{GOOD} --output-dir deep/results")

    assert outcome.status == 0
    assert sorted(path.name for path in (folder / "deep/results").iterdir()) == [
        "more.npy",
        "picked.npy",
    ]
    np.testing.assert_array_equal(np.load("deep/results/picked.npy"), PICKED, strict=True)
    np.testing.assert_array_equal(np.load("deep/results/more.npy"), PICKED + np.int16(1))


def test_output_names_cannot_escape_the_folder(ndgather, folder):
    save_model(
        "model.onnx",
        [helper.make_node("GatherND", ["data", "indices"], ["../../up:0"])],
        [info("data", TensorProto.INT16, [3, 4]), info("indices", TensorProto.INT64, [3, 2])],
        [info("../../up:0", TensorProto.INT16, [3])],
    )

    assert ndgather(f"{GOOD} --output-dir results").status == 0
    assert [path.name for path in (folder / "results").iterdir()] == [".._.._up_0.npy"]


def test_colliding_output_files_are_an_error(ndgather, folder):
    save_model(
        "model.onnx",
        [
            helper.make_node("GatherND", ["data", "indices"], ["a/b"]),
            helper.make_node("GatherND", ["data", "indices"], ["a:b"]),
        ],
        [info("data", TensorProto.INT16, [3, 4]), info("indices", TensorProto.INT64, [3, 2])],
        [info("a/b", TensorProto.INT16, [3]), info("a:b", TensorProto.INT16, [3])],
    )

    outcome = ndgather(f"{GOOD} --output-dir results")

    assert outcome.status == 1
    assert outcome.err == (
        "ndgather run: error: results/a_b.npy: cannot be written: output 'a:b' and another "
        "output would both be written there (allowed: --output NAME=FILE for each)\n"
    )
    assert not (folder / "results").exists()


def test_onnx_tensors_are_read(ndgather, folder):
    tensor = numpy_helper.from_array(np.load("indices.npy"))
    (folder / "indices.pb").write_bytes(tensor.SerializeToString())

    line = "run model.onnx --input data=data.npy --input indices=indices.pb"
    assert ndgather(f"{line} --output picked=kept.npy").status == 0
    np.testing.assert_array_equal(np.load("kept.npy"), PICKED, strict=True)


def test_an_onnx_tensor_is_written(ndgather, folder):
    assert ndgather(f"{GOOD} --output picked=kept.pb").status == 0

    tensor = TensorProto.FromString((folder / "kept.pb").read_bytes())
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), PICKED, strict=True)


WAYS = "write --input NAME=FILE, --inputs PLACE, --random"
REFUSED = {
    "no model": (
        "run none.onnx",
        "none.onnx: cannot be read: no such file or directory",
    ),
    "a model that is a folder": ("run .", ".: cannot be read: is a directory"),
    "a model that is an array": (
        "run data.npy",
        "data.npy: is not an ONNX model, or is incomplete (allowed: a complete binary file; "
        "onnx.save(onnx.load(path, format=...), new_path) converts text or JSON)",
    ),
    "a model that is empty": (
        "run empty.onnx",
        "empty.onnx: is empty (allowed: an ONNX model)",
    ),
    "an input that is missing": (
        "run model.onnx --input data=data.npy",
        f"input 'indices' is missing {SIGNATURE}; {WAYS}",
    ),
    "inputs that are missing": (
        "run model.onnx",
        f"inputs 'data', 'indices' are missing {SIGNATURE}; {WAYS}",
    ),
    "an input that the model has not": (
        f"{GOOD} --input index=indices.npy",
        f"the model has no input 'index' {SIGNATURE}; did you mean 'indices'?",
    ),
    "an input of another dtype": (
        "run model.onnx --input data=indices.npy --input indices=indices.npy",
        "input 'data': dtype = int64 does not match the model (allowed: int16)",
    ),
    "an input of another rank": (
        "run model.onnx --input data=data.npy --input indices=flat.npy",
        "input 'indices': shape = (2,) does not match the model (allowed: (N, 2))",
    ),
    "an input of another size": (
        "run model.onnx --input data=data.npy --input indices=triples.npy",
        "input 'indices': shape = (1, 3) does not match the model (allowed: (N, 2))",
    ),
    "an index out of bounds": (
        "run model.onnx --input data=data.npy --input indices=bad.npy",
        "node 'pick' (GatherND): ai.onnx GatherND-13: indices[1, 1] = 9 is outside axis 1 of "
        "data, which has size 4 (allowed: -4..3); 2 of 6 entries of indices are out of bounds",
    ),
    "an input file that is not there": (
        "run model.onnx --input data=none.npy --input indices=indices.npy",
        "none.npy: cannot be read: no such file or directory",
    ),
    "an output that the model has not": (
        f"{GOOD} --output heights=kept.npy",
        "the model has no output 'heights' (the model has: picked, more)",
    ),
    "an output in no folder": (
        f"{GOOD} --output picked=none/kept.npy",
        "none/kept.npy: cannot be written: there is no folder none",
    ),
    "an output folder that is a file": (
        f"{GOOD} --output-dir data.npy",
        "data.npy: cannot be written: file exists",
    ),
    "an output of an unknown kind": (
        f"{GOOD} --output picked=kept.txt",
        "kept.txt: unknown file type (allowed: .npy, .pb)",
    ),
}


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_errors_fit_on_one_line(ndgather, folder, line, text):
    (folder / "empty.onnx").touch()
    np.save("flat.npy", np.array([0, 1]))
    np.save("triples.npy", np.array([[0, 1, 2]]))
    before = {path.name for path in folder.iterdir()}

    outcome = ndgather(line)

    assert outcome.err == f"ndgather run: error: {text}\n"
    assert (outcome.status, outcome.out) == (1, "")
    assert {path.name for path in folder.iterdir()} == before


def test_an_unknown_operator_is_an_error(ndgather):
    save_model(
        "model.onnx",
        [helper.make_node("NoSuch", ["data"], ["out"], domain="my.operators")],
        [info("data", TensorProto.INT16, [3, 4])],
        [info("out", TensorProto.INT16, [3])],
        domain="my.operators",
    )

    outcome = ndgather("run model.onnx --input data=data.npy")

    assert outcome.status == 1
    assert outcome.err == (
        "ndgather run: error: node NoSuch of 'out': the reference evaluator does not support "
        "NoSuch of my.operators (allowed: another runtime=, such as 'onnxruntime')\n"
    )


def test_output_paths_are_checked_before_the_run(ndgather, monkeypatch):
    def run(*_):
        pytest.fail("the model ran")

    monkeypatch.setattr("ndgather.models.onnx.Model.run", run)

    outcome = ndgather(f"{GOOD} --output picked=none/kept.npy")

    assert outcome.err.endswith("none/kept.npy: cannot be written: there is no folder none\n")


def test_debug_prints_the_traceback_first(ndgather):
    line = "run model.onnx --input data=data.npy --input indices=bad.npy"

    outcome = ndgather(f"{line} --debug")

    assert outcome.status == 1
    lines = outcome.err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith("ndgather run: error: node 'pick' (GatherND): ai.onnx GatherND")
    assert [text for text in lines if text.startswith("ndgather.errors.IndexOutOfBoundsError")]


def test_missing_onnx_is_reported_with_the_extra(folder):
    code = (
        "import sys; sys.modules['onnx'] = None; from ndgather.cli import main; "
        "sys.exit(main(['run', 'model.onnx', '--runtime', 'reference']))"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ndgather run: error: this needs the package onnx, which is not installed "
        "(install it with: pip install 'ndgather[onnx]')\n"
    )
