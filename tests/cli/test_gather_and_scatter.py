"""The commands of gathers and scatters: files in, one file out, or changed in place."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from ndgather import api
from ndgather.models.tensors import tensor_files
from tests.definitions import reference


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
        ("bool", "True", True),
        ("bool", "false", False),
        ("bool", "1", True),
        ("bool", "0", False),
        ("S3", "é", "é".encode()),
        ("m8[s]", "90", np.timedelta64(90, "s")),
        ("M8[ns]", "2020-02-29T06:30", np.datetime64("2020-02-29T06:30", "ns")),
        ("int8", "-128", -128),
        ("float32", "1e3", 1000),
        ("float64", "nan", np.nan),
        ("complex64", "1+2j", 1 + 2j),
        ("uint64", str(2**64 - 1), 2**64 - 1),
        ("longdouble", "0.1", np.longdouble("0.1")),
        ("clongdouble", "0.1", np.longdouble("0.1")),
        ("longdouble", "inf", np.inf),
    ],
)
def test_fill_value_is_read_for_the_dtype(ndgather, dtype, value, filled):
    np.save("d.npy", np.zeros(3, dtype))
    np.save("i.npy", np.array([[9]]))

    assert ndgather(f"gather-nd d.npy i.npy -o out.npy --mode fill --fill-value {value}").err == ""
    np.testing.assert_array_equal(np.load("out.npy"), np.array([filled], dtype), strict=True)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("float64", "1e400"), ("float64", "-1e400"), ("float32", "1e39"), ("complex64", "1e39j")),
        *(("complex128", "1e400j"), ("int8", "128"), ("int64", "1e19"), ("int64", "0.5")),
        ("int64", "1e99999999"),
        *(("int64", "nan"), ("bool", "2"), ("float32", "1j"), ("int8", "1+0j")),
        *(("datetime64[D]", "2020-02-29T06:30"), ("datetime64[ns]", "3000-01-01")),
        *(("datetime64[s]", "now"), ("datetime64[D]", "Today"), ("datetime64[D]", "")),
        *(("timedelta64[s]", "1.5"), ("<U2", "abc"), ("|S2", "abc")),
    ],
)
def test_a_fill_value_that_the_dtype_does_not_hold_is_refused(ndgather, dtype, value):
    np.save("d.npy", np.zeros(3, dtype))
    np.save("i.npy", np.array([[9]]))

    outcome = ndgather(f"gather-nd d.npy i.npy -o out.npy --mode fill --fill-value={value}")
    assert f"fill_value = '{value}' cannot be held by data.dtype = {dtype}" in outcome.err
    assert outcome.status != 0
    assert not Path("out.npy").exists()


def test_no_digit_of_a_fill_value_is_lost(ndgather):
    np.save("d.npy", np.zeros(3, "i8"))
    np.save("i.npy", np.array([[9]]))

    value = 2**53 + 1
    assert ndgather(f"gather-nd d.npy i.npy -o o.npy --mode fill --fill-value {value}.0").err == ""
    assert np.load("o.npy").tolist() == [value]


REFUSED = {
    "an index out of bounds": (
        "gather-nd data.npy bad.npy -o out.npy",
        "gather_nd: indices[1, 1] = 9 is outside axis 1 of data, which has size 4 "
        "(allowed: -4..3); 2 of 6 entries of indices are out of bounds",
    ),
    "indices that are too deep": (
        "gather-nd data.npy triples.npy -o out.npy",
        "gather_nd: indices.shape[-1] = 3 is more than the 2 axes that data (3, 4) has; "
        "indices.shape = (1, 3) (allowed: 0..2); index tuples are on the last axis, as argwhere "
        "returns them",
    ),
    "indices of rank 0": (
        "gather-nd data.npy zero.npy -o out.npy",
        "gather_nd: indices.shape = () has rank 0 (allowed: rank 1 or more); index tuples are "
        "on the last axis, as argwhere returns them",
    ),
    "indices that are no integers": (
        "gather-nd data.npy float.npy -o out.npy",
        "gather_nd: indices.dtype = float64 is not an integer type (allowed: int8..int64, "
        "uint8..uint64)",
    ),
    "too many batch axes": (
        "gather-nd data.npy indices.npy -o out.npy --batch-dims 3",
        "gather_nd: batch_dims = 3 is out of range for data of shape (3, 4) and indices of "
        "shape (3, 2) (allowed: 0..1)",
    ),
    "other ranks": (
        "gather-elements data.npy flat.npy -o out.npy",
        "gather_elements: indices.shape = (2,) has rank 1, but data.shape = (3, 4) has rank 2 "
        "(allowed: the same rank); gather and scatter_nd take one index for a whole slice",
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


GRID = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)


def save(indices, updates):
    np.save("i.npy", np.array(indices))
    np.save("u.npy", np.array(updates))


SCATTERS = (
    ("scatter-nd", reference.scatter_nd, [[0, 1], [2, -1]], [7, 8], {}),
    ("scatter-nd", reference.scatter_nd, [[1], [1]], [[1] * 4, [2] * 4], {"reduction": "add"}),
    ("scatter-nd", reference.scatter_nd, [[0, 5], [9, 0]], [7, 8], {"mode": "wrap"}),
    ("scatter-nd", reference.scatter_nd, [[0, 5], [1, 0]], [7, 8], {"mode": "drop"}),
    (
        "scatter-elements",
        reference.scatter_elements,
        [[3, 0], [-1, -1]],
        [[9, 200], [50, 60]],
        {"axis": 1, "reduction": "max"},
    ),
    (
        "scatter-elements",
        reference.scatter_elements,
        [[2, 2, 0, 1]],
        [[4, 5, 6, 7]],
        {"reduction": "mul", "use_init_val": False},
    ),
)


def words(options):
    text = "".join(f" --{name} {value}" for name, value in options.items() if value is not False)
    return text + " --no-init-val" * (options.get("use_init_val") is False)


@pytest.mark.parametrize(("command", "function", "indices", "updates", "options"), SCATTERS)
@pytest.mark.parametrize("place", ["-o out.npy", "--in-place"])
def test_a_scatter_equals_the_plain_loops(
    ndgather, command, function, indices, updates, options, place
):
    data = np.load("data.npy")
    save(indices, np.array(updates, np.int16))

    outcome = ndgather(f"{command} data.npy i.npy u.npy {place}{words(options)}")

    assert (outcome.status, outcome.err) == (0, "")
    expected = function(data, np.array(indices), np.array(updates, np.int16), **options)
    changed = "data.npy" if place == "--in-place" else "out.npy"
    np.testing.assert_array_equal(np.load(changed), expected, strict=True)
    if changed == "out.npy":
        np.testing.assert_array_equal(np.load("data.npy"), data, strict=True)


def test_a_scatter_prints_what_it_wrote(ndgather):
    save([[0, 1]], np.array([7], np.int16))
    head, row = ndgather("scatter-nd data.npy i.npy u.npy -o out.npy").out.splitlines()
    assert head.split() == ["output", "shape", "dtype", "time", "rate", "file"]
    assert row.startswith("out     (3, 4)  int16")
    assert row.endswith("out.npy")


@pytest.fixture
def stores(folder):
    zarr.create_group("era.zarr").create_array("t2m", data=GRID, chunks=(8, 8))
    with h5py.File("era.h5", "w") as file:
        file.create_dataset("grid/t2m", data=GRID, chunks=(8, 8), compression="gzip")
    return folder


def read(place):
    if ".zarr" in place:
        return zarr.open(place, mode="r")[...]
    with h5py.File("era.h5") as file:
        return file["grid/t2m"][...]


@pytest.mark.parametrize("place", ["era.zarr/t2m", "file://{}/era.zarr/t2m", "era.h5/grid/t2m"])
def test_stored_arrays_are_changed_in_place(ndgather, stores, place):
    place = place.format(stores)
    indices, updates = np.array([[0, 1], [19, -1], [7, 16], [0, 1]]), np.array([5, 6, 7, 8], "i4")
    save(indices, updates)

    outcome = ndgather(f"scatter-nd {place} i.npy u.npy --in-place --reduction add --memory 1MiB")

    assert (outcome.status, outcome.err) == (0, "")
    expected = reference.scatter_nd(GRID, indices, updates, reduction="add")
    np.testing.assert_array_equal(read(place), expected, strict=True)


def test_with_a_journal_an_addition_counts_once(ndgather, stores):
    indices, updates = np.array([[0, 1], [19, -1], [0, 1]]), np.array([5, 6, 7], "i4")
    save(indices, updates)
    for _ in range(2):
        line = "scatter-nd era.zarr/t2m i.npy u.npy --in-place --reduction add --journal log"
        assert ndgather(line).err == ""
    expected = reference.scatter_nd(GRID, indices, updates, reduction="add")
    np.testing.assert_array_equal(read("era.zarr/t2m"), expected, strict=True)
    outcome = ndgather("scatter-nd era.h5/grid/t2m i.npy u.npy --in-place --journal other")
    assert (outcome.status, outcome.out) == (1, "")
    assert "cannot be used in a journal (allowed: zarr and tensorstore" in outcome.err
    outcome = ndgather("scatter-nd era.zarr/t2m i.npy u.npy -o out.npy --journal log")
    assert outcome.status == 1
    np.save("data.npy", GRID)
    outcome = ndgather("scatter-nd data.npy i.npy u.npy --in-place --journal log")
    assert outcome.status == 1
    assert "a journal is of a stored array" in outcome.err


def test_elements_of_a_stored_array(ndgather, stores):
    indices, updates = np.array([[0, 29, -1]] * 2), np.array([[1, 2, 3], [4, 5, 6]], "i4")
    save(indices, updates)
    assert ndgather("scatter-elements era.h5/grid/t2m i.npy u.npy --in-place --axis 1").err == ""
    expected = reference.scatter_elements(GRID, indices, updates, axis=1)
    np.testing.assert_array_equal(read("era.h5"), expected, strict=True)


@pytest.mark.parametrize("place", ["era.zarr/t2m", "era.h5/grid/t2m"])
def test_a_dry_run_changes_nothing_and_says_what_would_be_read_and_written(ndgather, stores, place):
    save([[0, 1], [19, -1], [7, 16], [0, 1]], np.array([5, 6, 7, 8], "i4"))
    files = {path: path.stat().st_mtime_ns for path in stores.rglob("*") if path.is_file()}

    outcome = ndgather(f"scatter-nd {place} i.npy u.npy --in-place --dry-run")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("4 points in 3 chunks: 768 B to decode, ")
    assert "; the updates have 16.0 B; memory at most " in outcome.out
    assert files == {path: path.stat().st_mtime_ns for path in files}
    np.testing.assert_array_equal(read(place), GRID, strict=True)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("data.npy indices.npy u.npy --in-place", "data.npy: is not stored in chunks, of which"),
        ("era.zarr/t2m far.npy u.npy --in-place", "estimate: indices[0, 1] = 30 is outside axis 1"),
        ("era.zarr/t2m indices.npy u.npy -o out.npy", "a stored array is changed where it is"),
    ],
)
def test_a_dry_run_refuses_what_the_scatter_refuses(ndgather, stores, line, text):
    np.save("far.npy", np.array([[0, 30]]))
    np.save("u.npy", np.array([1, 2, 3], "i4"))
    outcome = ndgather(f"scatter-nd {line} --dry-run")
    assert outcome.status == 1
    assert text in outcome.err
    np.testing.assert_array_equal(read("era.zarr/t2m"), GRID, strict=True)


REFUSED_SCATTERS = {
    "an index out of bounds": (
        "data.npy bad.npy u.npy -o out.npy",
        "scatter_nd: indices[1, 1] = 9 is outside axis 1 of data, which has size 4 "
        "(allowed: -4..3); 2 of 6 entries of indices are out of bounds",
    ),
    "an index out of bounds in place": (
        "data.npy bad.npy u.npy --in-place",
        "scatter_nd: indices[1, 1] = 9 is outside axis 1 of data, which has size 4 "
        "(allowed: -4..3); 2 of 6 entries of indices are out of bounds",
    ),
    "updates of another type": (
        "data.npy indices.npy indices.npy --in-place",
        "scatter_nd: updates.dtype = int64 differs from data.dtype = int16 (allowed: int16)",
    ),
    "a stored array that is to be kept": (
        "era.zarr/t2m indices.npy u.npy -o out.npy",
        "era.zarr/t2m: a stored array is changed where it is (allowed: --in-place)",
    ),
    "an archive in place": (
        "data.npz indices.npy u.npy --in-place",
        "data.npz: cannot be changed in place (allowed: .npy and stored arrays)",
    ),
    "no file in place": (
        "none.npy indices.npy u.npy --in-place",
        "none.npy: cannot be read: no such file or directory",
    ),
}


@pytest.mark.parametrize(("line", "text"), REFUSED_SCATTERS.values(), ids=REFUSED_SCATTERS)
def test_a_scatter_is_refused_in_one_line_and_changes_nothing(ndgather, stores, line, text):
    np.save("u.npy", np.array([1, 2, 3], np.int16))
    np.savez("data.npz", data=np.load("data.npy"))
    before = np.load("data.npy")

    outcome = ndgather(f"scatter-nd {line}")

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"ndgather scatter-nd: error: {text}\n"
    np.testing.assert_array_equal(np.load("data.npy"), before, strict=True)
    np.testing.assert_array_equal(read("era.zarr/t2m"), GRID, strict=True)


def test_a_read_only_store_says_so(ndgather, stores, served):
    save([[0, 1]], np.array([7], "i4"))
    outcome = ndgather(f"scatter-nd {served}/era.zarr/t2m i.npy u.npy --in-place")
    assert outcome.status == 1
    assert len(outcome.err.splitlines()) == 1
    np.testing.assert_array_equal(read("era.zarr/t2m"), GRID, strict=True)


def test_one_of_the_two_places_is_needed(ndgather):
    assert ndgather("scatter-nd data.npy indices.npy indices.npy").status == 2
    assert ndgather("scatter-nd data.npy indices.npy i.npy -o o.npy --in-place").status == 2


def test_files_of_a_scatter_are_memory_mapped(ndgather, monkeypatch):
    mapped = {}

    def scatter_nd(data, indices, updates, *, out, **options):
        for name, array in {"data": data, "indices": indices, "out": out}.items():
            mapped[name] = isinstance(array.base, np.memmap)
        out[...] = 7

    monkeypatch.setattr(api, "scatter_nd", scatter_nd)
    assert ndgather("scatter-nd data.npy indices.npy indices.npy -o out.npy").status == 0
    assert mapped == {"data": True, "indices": True, "out": True}
