"""``ndgather scatter-nd`` and ``scatter-elements``: files in, one file out, or changed in place."""

import h5py
import numpy as np
import pytest
import zarr

from ndgather import api
from ndgather.testing import reference

GRID = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)


def save(indices, updates):
    np.save("i.npy", np.array(indices))
    np.save("u.npy", np.array(updates))


CALLS = (
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


@pytest.mark.parametrize(("command", "function", "indices", "updates", "options"), CALLS)
@pytest.mark.parametrize("place", ["-o out.npy", "--in-place"])
def test_equals_the_plain_loops(ndgather, command, function, indices, updates, options, place):
    data = np.load("data.npy")
    save(indices, np.array(updates, np.int16))

    outcome = ndgather(f"{command} data.npy i.npy u.npy {place}{words(options)}")

    assert (outcome.status, outcome.err) == (0, "")
    expected = function(data, np.array(indices), np.array(updates, np.int16), **options)
    changed = "data.npy" if place == "--in-place" else "out.npy"
    np.testing.assert_array_equal(np.load(changed), expected, strict=True)
    if changed == "out.npy":
        np.testing.assert_array_equal(np.load("data.npy"), data, strict=True)


def test_prints_what_it_wrote(ndgather):
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
        ("data.npy indices.npy u.npy --in-place", "estimate: data = "),
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


REFUSED = {
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
        "scatter_nd: updates.dtype = int64 differs from data.dtype = int16 (allowed: int16); "
        "write updates.astype(data.dtype)",
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


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line_and_changes_nothing(ndgather, stores, line, text):
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


def test_files_are_memory_mapped(ndgather, monkeypatch):
    mapped = {}

    def scatter_nd(data, indices, updates, *, out, **options):
        for name, array in {"data": data, "indices": indices, "out": out}.items():
            mapped[name] = isinstance(array.base, np.memmap)
        out[...] = 7

    monkeypatch.setattr(api, "scatter_nd", scatter_nd)
    assert ndgather("scatter-nd data.npy indices.npy indices.npy -o out.npy").status == 0
    assert mapped == {"data": True, "indices": True, "out": True}
