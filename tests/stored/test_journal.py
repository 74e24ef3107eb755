"""Journals: a killed scatter is resumed, and every update counts once."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import tensorstore
import zarr

import ndgather
from ndgather.errors import AttributeValueError, FileError, StoredArrayError
from ndgather.stored import cached, journal

SHAPE, CHUNKS = (40, 30), (10, 10)
COUNT = 500

# Each forked process makes two scatters within a journal and is killed at one of its events: the
# writes of the journal, and before and after each object that the store replaces.
KILLED = """
import json, os, signal, sys
import numpy as np, zarr
import ndgather
from ndgather.stored import journal
from tests.stored.test_journal import SHAPE, CHUNKS, calls, make

folder, shards = sys.argv[1], json.loads(sys.argv[2])

def child(path, log, place):
    left = place
    def event():
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
    write, put = os.write, zarr.storage._local._put
    def noted_write(file, content):
        event()
        return write(file, content)
    def noted_put(*arguments, **options):
        event()
        result = put(*arguments, **options)
        event()
        return result
    os.write, zarr.storage._local._put = noted_write, noted_put
    ndgather.set_num_threads(2)
    with journal(log):
        calls(zarr.open_array(path, mode="r+"))

outcomes = []
for place in range(int(sys.argv[3])):
    path, log = f"{folder}/{place}.zarr", f"{folder}/{place}.journal"
    pid = os.fork()
    if pid == 0:
        make(path, shards)
        os._exit(0)
    os.waitpid(pid, 0)
    deaths = 0
    while True:
        pid = os.fork()
        if pid == 0:
            # The second run is killed too, somewhat later; then one ends.
            child(path, log, (place, place + 7)[deaths] if deaths < 2 else -1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        deaths += 1
    outcomes.append(deaths)
print(json.dumps(outcomes))
"""


def make(path, shards=None):
    rng = np.random.default_rng(0)
    data = rng.integers(0, 100, SHAPE).astype("i8")
    return zarr.create_array(path, data=data, chunks=(5, 5) if shards else CHUNKS, shards=shards)


def calls(array):
    """Two additions that reveal if they were made twice or omitted."""
    rng = np.random.default_rng(1)
    for _ in range(2):
        indices = np.stack([rng.integers(0, size, COUNT) for size in SHAPE], -1)
        updates = rng.integers(1, 1000, COUNT)
        ndgather.scatter_nd(array, indices, updates, reduction="add", out=array)


def expected(array):
    result = array[...]
    rng = np.random.default_rng(1)
    for _ in range(2):
        indices = np.stack([rng.integers(0, size, COUNT) for size in SHAPE], -1)
        np.add.at(result, tuple(indices.T), rng.integers(1, 1000, COUNT))
    return result


@pytest.mark.parametrize(("shards", "places"), [(None, 20), ((20, 10), 6)])
def test_additions_killed_twice_count_once(shards, places, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path), json.dumps(shards), str(places)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    deaths = json.loads(done.stdout)
    assert len(deaths) == places
    assert all(deaths), deaths
    wanted = expected(make(tmp_path / "whole.zarr", shards))
    for place in range(places):
        array = zarr.open_array(tmp_path / f"{place}.zarr", mode="r")
        np.testing.assert_array_equal(array[...], wanted)


class Full(zarr.storage.LocalStore):
    """A store whose writes fail after a while."""

    left = 0

    async def set(self, key, value, *rest, **options):
        if Full.left == 0:
            raise OSError("the disk is full")
        Full.left -= 1
        await super().set(key, value, *rest, **options)


def test_failed_calls_can_be_repeated_in_the_same_block(tmp_path):
    array = make(tmp_path / "a.zarr")
    wanted = array[...]
    indices, ones = np.argwhere(wanted >= 0), np.ones(wanted.size, int)
    failing = zarr.open_array(Full(tmp_path / "a.zarr"), mode="r+")
    Full.left = 5
    with journal(tmp_path / "log"):
        with pytest.raises(StoredArrayError, match="the disk is full"):
            ndgather.scatter_nd(failing, indices, ones, reduction="add", out=failing)
        assert 0 < (array[...] != wanted).sum() < wanted.size
        Full.left = 100
        ndgather.scatter_nd(failing, indices, ones, reduction="add", out=failing)
    assert Full.left == 100 - (12 - 5)
    np.testing.assert_array_equal(array[...], wanted + 1)


@pytest.mark.parametrize("reduction", ["none", "mul", "mean", "max"])
def test_finished_chunks_are_skipped(reduction, tmp_path):
    array = make(tmp_path / "a.zarr")
    rng = np.random.default_rng(2)
    indices, updates = rng.integers(0, 30, (300, 2)), rng.integers(0, 9, 300)
    options = {"reduction": reduction, "mode": "clip"}
    wanted = ndgather.scatter_nd(array[...], indices, updates, **options)
    for _ in range(3):
        with journal(tmp_path / "log"):
            ndgather.scatter_nd(array, indices, updates, out=array, **options)
        np.testing.assert_array_equal(array[...], wanted)


def test_rows_elements_and_whole_chunks(tmp_path):
    array = make(tmp_path / "a.zarr")
    wanted = array[...]
    for _ in range(2):
        with journal(tmp_path / "log"):
            ndgather.scatter_nd(
                array, [[3], [3]], np.ones((2, 30), int), reduction="add", out=array
            )
            ndgather.scatter_elements(array, [[1] * 30], np.ones((1, 30), int), out=array)
            ndgather.scatter_nd(array, np.arange(10)[:, None], np.ones((10, 30), int), out=array)
    wanted[:10] = 1
    np.testing.assert_array_equal(array[...], wanted)


def test_cached_arrays(tmp_path):
    array = make(tmp_path / "a.zarr")
    before = int(array[3, 4])
    for _ in range(2):
        with journal(tmp_path / "log"), cached(array) as data:
            ndgather.scatter_nd(data, [[3, 4]], [5], reduction="add", out=data)
    assert array[3, 4] == before + 5


def test_tensorstore(tmp_path):
    tensorstore = pytest.importorskip("tensorstore")
    make(tmp_path / "a.zarr")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "a.zarr")}}
    array = tensorstore.open(spec).result()
    wanted = np.asarray(array)
    for _ in range(2):
        with journal(tmp_path / "log"):
            ndgather.scatter_nd(array, [[3, 4]], [5], reduction="add", out=array)
    wanted[3, 4] += 5
    np.testing.assert_array_equal(np.asarray(array), wanted)


def interrupted(array, log):
    """Add 1 to two chunks and forget that the second is finished."""
    with journal(log):
        ndgather.scatter_nd(array, [[3, 4], [33, 4]], [1, 1], reduction="add", out=array)
    lines = log.read_text().splitlines()
    log.write_text("\n".join(line for line in lines if line != "done 3,0") + "\nrepl")


def test_interrupted_chunks_are_recognized_by_their_values(tmp_path):
    array, log = make(tmp_path / "a.zarr"), tmp_path / "log"
    before = array[...]
    interrupted(array, log)
    after = array[...]
    with journal(log):
        ndgather.scatter_nd(array, [[3, 4], [33, 4]], [1, 1], reduction="add", out=array)
    np.testing.assert_array_equal(array[...], after)
    log.unlink()
    array[...] = before
    interrupted(array, log)
    array[30:40] = before[30:40]  # as if the process had been killed before writing it
    with journal(log):
        ndgather.scatter_nd(array, [[3, 4], [33, 4]], [1, 1], reduction="add", out=array)
    np.testing.assert_array_equal(array[...], after)
    log.unlink()
    array[...] = before
    interrupted(array, log)
    array[35, 5] = 7777
    error = pytest.raises(
        StoredArrayError, match=r"chunk \(3, 0\).*neither the old nor the new values"
    )
    with error, journal(log):
        ndgather.scatter_nd(array, [[3, 4], [33, 4]], [1, 1], reduction="add", out=array)


def test_journals_may_end_within_any_line(tmp_path):
    """As after a kill: the chunk was replaced if the previous line is complete."""
    array, log = make(tmp_path / "a.zarr"), tmp_path / "log"
    before = array[...]

    def add():
        with journal(log):
            ndgather.scatter_nd(array, [[3, 4]], [1], reduction="add", out=array)

    add()
    after, whole = array[...], log.read_bytes()
    assert [line.split()[0] for line in whole.splitlines()] == [
        *(b"ndgather", b"call", b"replace", b"done"),
    ]
    noted = whole.index(b"done")
    for size in range(len(whole) + 1):
        log.write_bytes(whole[:size])
        array[...] = after if size >= noted else before
        for _ in range(2):
            add()
            np.testing.assert_array_equal(array[...], after)


def refused(text):
    return pytest.raises(AttributeValueError, match=text)


def test_refusals(tmp_path):
    array, log = make(tmp_path / "a.zarr"), tmp_path / "log"
    with journal(log):
        ndgather.scatter_nd(array, [[3, 4]], [5], reduction="add", out=array)
    for other in ({"indices": [[3, 5]]}, {"updates": [6]}, {"reduction": "sub"}, {"data": 1}):
        target = make(tmp_path / "b.zarr") if "data" in other else array
        call = {"indices": [[3, 4]], "updates": [5], "reduction": "add"} | other
        call |= {"data": target, "out": target}
        with refused("was written by other calls: call 1 of the block differs"), journal(log):
            ndgather.scatter_nd(**call)
    with journal(log), refused("is in use by another process"), journal(log):
        pass
    text = tmp_path / "notes.txt"
    for content, what in (
        ("notes", "is not a journal"),
        ("notes\n", "is not a journal"),
        ("ndgather journal 1\nnotes\n", "has an invalid line"),
        ("ndgather journal 1\ndone 1\n", "has an invalid line"),
    ):
        text.write_text(content)
        with refused(what), journal(text):
            pass
        assert text.read_text() == content
    new = tmp_path / "new"
    with (
        journal(new),
        ThreadPoolExecutor(1) as pool,
        refused("executor = .* cannot be used with a journal"),
    ):
        ndgather.scatter_nd(array, [[3, 4]], [5], out=array, executor=pool)
    with h5py.File(tmp_path / "a.h5", "w") as file, journal(new):
        data = file.create_dataset("a", data=np.zeros(5), chunks=(2,))
        with refused("out = .* does not replace chunks atomically, so it cannot be used"):
            ndgather.scatter_nd(data, [[3]], [5.0], out=data)


CALL = {"indices": [[3, 4]], "updates": [5], "reduction": "add"}
OF_ELEMENTS = {"indices": [[3]], "updates": [[5]], "axis": 1, "reduction": "add"}
COLUMN = {"indices": [[3], [4]], "updates": [[5], [6]]}  # the same bytes as one row


@pytest.mark.parametrize(
    ("call", "other"),
    [
        (CALL, {"use_init_val": False}),
        (CALL, {"mode": "drop"}),
        (CALL, {"reduction": "max"}),
        (CALL, {"indices": [[3, -1]]}),
        (CALL, {"indices": np.array([[3, 4]], "i4")}),
        (CALL, {"updates": [4]}),
        (CALL, {"indices": [[3, 4], [3, 4]], "updates": [5, 5]}),
        (OF_ELEMENTS, {"axis": 0}),
        (OF_ELEMENTS, {"use_init_val": False}),
        (OF_ELEMENTS | {"indices": [[3, 4]], "updates": [[5, 6]]}, OF_ELEMENTS | COLUMN),
        (CALL, OF_ELEMENTS),
    ],
)
def test_other_options_are_another_call(call, other, tmp_path):
    """Otherwise chunks that the first call replaced would be skipped."""
    array, log = make(tmp_path / "a.zarr"), tmp_path / "log"

    def scatter(call):
        function = ndgather.scatter_elements if "axis" in call else ndgather.scatter_nd
        with journal(log):
            function(array, **call, out=array)

    scatter(call)
    before = array[...]
    with refused("was written by other calls: call 1 of the block differs"):
        scatter(other if "axis" in other and "axis" not in call else call | other)
    np.testing.assert_array_equal(array[...], before)


def test_stores_without_atomic_writes_are_refused(tmp_path):
    make(tmp_path / "a.zarr")
    local = zarr.storage.FsspecStore.from_url((tmp_path / "a.zarr").as_uri())
    kvstore = {"driver": "file", "path": str(tmp_path / "a.zarr")}
    with tensorstore.Transaction() as transaction:
        array = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
        for target in (zarr.open_array(local), array.with_transaction(transaction)):
            with journal(tmp_path / "log"), pytest.raises(AttributeValueError):
                ndgather.scatter_nd(target, [[3, 4]], [5], reduction="add", out=target)
    with journal(tmp_path / "log"):
        ndgather.scatter_nd(array, [[3, 4]], [5], reduction="add", out=array)


@pytest.mark.parametrize("other", [{"shape": (30,)}, {"chunks": (7,)}, {"dtype": "f8"}], ids=str)
def test_another_array_at_the_same_path_is_another_call(tmp_path, other):
    options = {"store": tmp_path / "a.zarr", "shape": (20,), "chunks": (5,), "dtype": "i8"}
    for made in (options, options | other):
        array = zarr.create_array(**made, overwrite=True)
        call = array, [[3]], np.array([5], array.dtype)
        if made is options:
            with journal(tmp_path / "log"):
                ndgather.scatter_nd(*call, reduction="add", out=array)
            continue
        with refused("was written by other calls"), journal(tmp_path / "log"):
            ndgather.scatter_nd(*call, reduction="add", out=array)
        assert array[3] == 0


def test_variable_size_elements_are_refused(tmp_path):
    """Their bytes in memory are addresses, which differ between processes."""
    names = np.array(["a", "b", "c"], np.dtypes.StringDType())
    array = zarr.create_array(tmp_path / "a.zarr", data=names, chunks=(2,))
    with refused(r"data\.dtype = StringDType.* cannot be used"), journal(tmp_path / "log"):
        ndgather.scatter_nd(array, [[1]], ["z"], out=array)
    assert array[1] == "b"


def test_short_writes_are_continued(tmp_path, monkeypatch):
    array, log = make(tmp_path / "a.zarr"), tmp_path / "log"
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:3]))
    for _ in range(2):
        with journal(log):
            ndgather.scatter_nd(array, [[3, 4]], [5], reduction="add", out=array)
    names = [line.split()[0] for line in log.read_text().splitlines()]
    assert names == ["ndgather", "call", "replace", "done"]


def test_arrays_in_memory_are_not_recorded(tmp_path):
    memory = np.zeros(5)
    with journal(tmp_path / "log"):
        ndgather.scatter_nd(memory, [[3]], [5.0], out=memory)
    assert memory[3] == 5


@pytest.mark.parametrize("path", ["", "no folder/log", "folder", "a\0b"])
def test_unwritable_paths_are_named(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError) as raised, journal(path):
        pass
    text = str(raised.value)
    assert text.startswith(f"journal: path = {path!r}: cannot be written: ")
    assert text.isprintable()


ON_A_FULL_DISK = """
import resource, sys
import numpy as np, zarr
import ndgather
from ndgather.errors import FileError
from ndgather.stored import journal

path, log = sys.argv[1:]
counts = zarr.create_array(path, shape=(64,), chunks=(1,), dtype="i1")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

def add():
    with journal(log):
        ndgather.scatter_nd(
            counts, np.arange(64)[:, None], np.ones(64, "i1"), reduction="add", out=counts
        )

for size in range(5, 2000, 333):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        add()
        raise AssertionError("there was space")
    except FileError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
add()
assert (counts[:] == 1).all()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_full_disks_raise_and_name_the_journal(tmp_path):
    """A limit on file sizes simulates a full disk; chunks are smaller."""
    log = str(tmp_path / "log")
    words = [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path / "counts.zarr"), log]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    texts = done.stdout.splitlines()
    assert texts == [f"journal: path = {log!r}: cannot be written: file too large"] * len(texts)
    assert len(texts) == 6
