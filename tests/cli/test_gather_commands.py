"""``ndgather gather-nd``, ``gather-elements`` and ``gather``: files in, one file out."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ndgather import api
from ndgather.models.tensors import tensor_files
from ndgather.testing import reference


@pytest.fixture
def cube(folder):
    data = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    np.save("cube.npy", data)
    return data


def loops(function, data, line):
    """Carry out the options of `line` by the plain loops."""
    words = iter(line.split())
    options = {word.removeprefix("--").replace("-", "_"): next(words) for word in words}
    integers = {name: int(options.pop(name)) for name in ("axis", "batch_dims") if name in options}
    fill = {"fill_value": float(options.pop("fill_value"))} if "fill_value" in options else {}
    return function(data, np.load("i.npy"), **integers, **options, **fill)


CALLS = (
    ("gather-nd", reference.gather_nd, [[0, 1], [1, -1]], ""),
    ("gather-nd", reference.gather_nd, [[[2], [0]], [[1], [1]]], "--batch-dims 1"),
    ("gather-nd", reference.gather_nd, [[0, 5, 0]], "--mode wrap"),
    ("gather-nd", reference.gather_nd, [[0, 5, -9]], "--mode clip"),
    ("gather-nd", reference.gather_nd, [[0, 5], [1, 1]], "--mode fill"),
    ("gather-nd", reference.gather_nd, [[0, 5], [1, 1]], "--mode fill --fill-value -2.5"),
    ("gather-nd", reference.gather_nd, [[0, 5], [1, 1]], "--mode fill --fill-value nan"),
    ("gather-elements", reference.gather_elements, [[[1, 0, 1, -1]]], ""),
    ("gather-elements", reference.gather_elements, [[[3], [0], [1]]], "--axis 2"),
    ("gather-elements", reference.gather_elements, [[[9], [0], [1]]], "--axis -1 --mode clip"),
    ("gather", reference.gather, [[1, 0], [0, 0]], ""),
    ("gather", reference.gather, 2, "--axis -1"),
    ("gather", reference.gather, [[2, 0], [1, 1]], "--axis 1 --batch-dims 1"),
    ("gather", reference.gather, [7, 1], "--axis 1 --mode wrap"),
)


@pytest.mark.parametrize(("command", "function", "indices", "line"), CALLS)
def test_equals_the_plain_loops(ndgather, cube, command, function, indices, line):
    np.save("i.npy", np.array(indices))

    outcome = ndgather(f"{command} cube.npy i.npy -o out.npy {line}")

    assert (outcome.status, outcome.err) == (0, "")
    np.testing.assert_array_equal(np.load("out.npy"), loops(function, cube, line), strict=True)


@pytest.mark.parametrize(
    ("indices", "shape", "rated"),
    [([[0, 1, 2]], (1,), True), (np.zeros((0, 2), np.int64), (0, 4), False)],
    ids=["an element", "nothing"],
)
def test_prints_what_it_wrote(ndgather, cube, indices, shape, rated):
    np.save("i.npy", indices)

    outcome = ndgather("gather-nd cube.npy i.npy -o out.npy --threads 1")

    assert outcome.status == 0
    assert np.load("out.npy").shape == shape
    head, row = outcome.out.splitlines()
    titles = ["output", "shape", "dtype", "time", "rate", "file"]
    assert head.split() == (titles if rated else [title for title in titles if title != "rate"])
    rate = r"  +[\d.]+ (B|kB|MB|GB)/s" if rated else ""
    assert re.fullmatch(
        rf"out +{re.escape(str(shape))} +float32 +[\d.]+ (us|ms|s){rate}  out\.npy", row
    )


def test_files_are_memory_mapped(ndgather, monkeypatch):
    mapped = {}

    def gather_nd(data, indices, *, out, **options):
        for name, array in {"data": data, "indices": indices, "out": out}.items():
            mapped[name] = isinstance(array.base, np.memmap)
        out[...] = 7

    monkeypatch.setattr(api, "gather_nd", gather_nd)

    assert ndgather("gather-nd data.npy indices.npy -o out.npy").status == 0
    assert mapped == {"data": True, "indices": True, "out": True}
    np.testing.assert_array_equal(np.load("out.npy"), np.full(3, 7, np.int16), strict=True)


@pytest.mark.parametrize(
    ("dtype", "value", "filled"),
    [
        ("U3", "abc", "abc"),
        ("S3", "abc", b"abc"),
        ("M8[D]", "2020-02-29", np.datetime64("2020-02-29")),
        ("bool", "true", True),
        ("complex64", "1+2j", 1 + 2j),
        ("uint64", str(2**64 - 1), 2**64 - 1),
    ],
)
def test_fill_value_is_read_for_the_dtype(ndgather, dtype, value, filled):
    np.save("d.npy", np.zeros(3, dtype))
    np.save("i.npy", np.array([[9]]))

    assert ndgather(f"gather-nd d.npy i.npy -o out.npy --mode fill --fill-value {value}").err == ""
    np.testing.assert_array_equal(np.load("out.npy"), np.array([filled], dtype), strict=True)


REFUSED = {
    "an index out of bounds": (
        "gather-nd data.npy bad.npy -o out.npy",
        "gather_nd: indices[1, 1] = 9 is outside axis 1 of data, which has size 4 "
        "(allowed: -4..3); 2 of 6 entries of indices are out of bounds",
    ),
    "indices that are too deep": (
        "gather-nd data.npy triples.npy -o out.npy",
        "gather_nd: indices.shape[-1] = 3 is more than the 2 axes that data (3, 4) has; "
        "indices.shape = (1, 3) (allowed: 0..2)",
    ),
    "indices of rank 0": (
        "gather-nd data.npy zero.npy -o out.npy",
        "gather_nd: indices.shape = () has rank 0 (allowed: rank 1 or more)",
    ),
    "indices that are no integers": (
        "gather-nd data.npy float.npy -o out.npy",
        "gather_nd: indices.dtype = float64 is floating (allowed: int8..int64, uint8..uint64)",
    ),
    "too many batch axes": (
        "gather-nd data.npy indices.npy -o out.npy --batch-dims 3",
        "gather_nd: batch_dims = 3 is out of range for data of shape (3, 4) and indices of "
        "shape (3, 2) (allowed: 0..1)",
    ),
    "other ranks": (
        "gather-elements data.npy flat.npy -o out.npy",
        "gather_elements: indices.shape = (2,) has rank 1, but data.shape = (3, 4) has rank 2 "
        "(allowed: the same rank)",
    ),
    "an axis that is not there": (
        "gather data.npy indices.npy -o out.npy --axis 2",
        "gather: axis = 2 is out of range for data of shape (3, 4) (allowed: -2..1)",
    ),
    "a fill value without fill": (
        "gather-nd data.npy indices.npy -o out.npy --fill-value 1",
        "gather_nd: fill_value is given, but mode = 'raise' fills nothing (allowed: mode='fill')",
    ),
    "a fill value that is no number": (
        "gather-nd data.npy indices.npy -o out.npy --mode fill --fill-value x",
        "gather_nd: fill_value = 'x' cannot be held by data.dtype = int16 "
        "(allowed: one value of that type)",
    ),
    "a file that is not there": (
        "gather-nd none.npy indices.npy -o out.npy",
        "none.npy: cannot be read: no such file or directory",
    ),
    "a file of an unknown kind": (
        "gather-nd model.onnx indices.npy -o out.npy",
        "model.onnx: unknown kind of file (allowed: .npy, .npz, .pb)",
    ),
    "an output in no folder": (
        "gather-nd data.npy indices.npy -o none/out.npy",
        "none/out.npy: cannot be written: there is no folder none",
    ),
}


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line_and_keeps_the_old_file(ndgather, folder, line, text):
    np.save("triples.npy", np.array([[0, 1, 2]]))
    np.save("flat.npy", np.array([0, 1]))
    np.save("zero.npy", np.array(1))
    np.save("float.npy", np.array([[0.0, 1.0]]))
    (folder / "out.npy").write_text("what was there")
    before = {path.name for path in folder.iterdir()}

    outcome = ndgather(line)

    assert outcome.err == f"ndgather {line.split()[0]}: error: {text}\n"
    assert (outcome.status, outcome.out) == (1, "")
    assert (folder / "out.npy").read_text() == "what was there"
    assert {path.name for path in folder.iterdir()} == before


def test_the_output_may_replace_an_input(ndgather):
    assert ndgather("gather data.npy indices.npy -o data.npy --mode wrap").status == 0
    data = np.arange(100, 112, dtype=np.int16).reshape(3, 4)
    expected = reference.gather(data, np.load("indices.npy"), mode="wrap")
    np.testing.assert_array_equal(np.load("data.npy"), expected, strict=True)


def test_an_interrupted_command_says_so_and_leaves_nothing(ndgather, folder, monkeypatch):
    def gather_nd(*arrays, out, **options):
        out[0] = 1
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "gather_nd", gather_nd)
    before = {path.name for path in folder.iterdir()}

    outcome = ndgather("gather-nd data.npy indices.npy -o out.npy")

    assert (outcome.status, outcome.err) == (130, "ndgather gather-nd: interrupted\n")
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without asking it")
def test_a_terminated_command_leaves_nothing(folder):
    code = (
        "import sys, time; from ndgather import api, cli; "
        "api.gather_nd = lambda *arrays, **options: time.sleep(60); "
        "sys.exit(cli.main(['gather-nd', 'data.npy', 'indices.npy', '-o', 'out.npy']))"
    )
    before = {path.name for path in folder.iterdir()}
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 60
        while not list(folder.glob(".ndgather-*.part")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)  # from the making of the file to the call
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert {path.name for path in folder.iterdir()} == before


def test_the_handler_of_the_caller_is_back_afterwards(ndgather):
    before = signal.getsignal(signal.SIGTERM)
    assert ndgather("gather-nd data.npy indices.npy -o out.npy").status == 0
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no way to reserve space")
def test_a_full_disk_is_an_error_before_the_work(ndgather, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_files.os, "posix_fallocate", full)
    before = {path.name for path in folder.iterdir()}

    outcome = ndgather("gather-nd data.npy indices.npy -o out.npy")

    assert outcome.status == 1
    assert outcome.err == (
        "ndgather gather-nd: error: out.npy: cannot be written: no space left on device\n"
    )
    assert {path.name for path in folder.iterdir()} == before
