"""The walk over chunks: errors, limits, progress, interrupts; no thread keeps running."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
import zarr

import ndgather
from ndgather.array_call import Call, Kind
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    ExtraMissingError,
    IndexOutOfBoundsError,
    NdgatherError,
    StoredArrayError,
)
from ndgather.stored import calls
from ndgather.stored.chunks import Grid
from tests.stored.cut_array import CutArray

DATA = np.arange(40 * 50, dtype=np.int32).reshape(40, 50)
GRID = Grid.regular(DATA.shape, (10, 10))
EVERY = np.argwhere(DATA >= 0)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield  # zarr and tqdm keep their own threads
    assert not [each for each in threading.enumerate() if each.name.startswith("ndgather")]


def gather(reader, indices=EVERY, **options):
    return calls.gather(Call("gather_nd", Kind.GATHER_ND, None, indices, **options), reader)


@pytest.mark.parametrize("in_flight", [1, 16])
def test_failed_reads_name_the_chunk_and_the_cause(in_flight):
    reader = CutArray(DATA, GRID, in_flight=in_flight, fails_at=(2, 3))
    with pytest.raises(StoredArrayError) as caught:
        gather(reader)
    error = caught.value
    assert str(error) == (
        "gather_nd: chunk (2, 3) of cut, which holds [20:30, 30:40], cannot be read: "
        "ValueError: a damaged chunk"
    )
    assert (error.name, error.chunk) == ("cut", (2, 3))
    assert error.box == (slice(20, 30), slice(30, 40))
    assert isinstance(error.__cause__, ValueError)
    assert isinstance(error, NdgatherError)
    assert isinstance(error, OSError)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda values: values[:-1], "has int32 values of shape (9, 10)"),
        (lambda values: values.view("u4"), "has uint32 values of shape (10, 10)"),
        (lambda values: values.astype(">i4"), "has >i4 values of shape (10, 10)"),
    ],
    ids=["shape", "dtype", "byte order"],
)
def test_chunks_of_wrong_shape_or_dtype_raise(change, what):
    class Changed(CutArray):
        def read(self, chunk, buffers):
            return change(super().read(chunk, buffers))

    with pytest.raises(StoredArrayError) as caught:
        gather(Changed(DATA, GRID))
    assert str(caught.value).endswith(f"{what} (allowed: int32 values of shape (10, 10))")


def test_memory_errors_propagate():
    class Full(CutArray):
        def read(self, chunk, buffers):
            raise MemoryError

    with pytest.raises(MemoryError):
        gather(Full(DATA, GRID))


def test_indices_are_checked_before_reads():
    reader = CutArray(DATA, GRID)
    indices = EVERY.copy()
    indices[1999] = 50
    out = np.full(2000, -7, np.int32)
    with pytest.raises(IndexOutOfBoundsError) as caught:
        gather(reader, indices, out=out)
    assert caught.value.position == (1999, 0)
    assert caught.value.count == 2
    assert reader.reads == []
    assert (out == -7).all()


def test_invalid_out_is_refused_before_reads():
    reader = CutArray(DATA, GRID)
    for out in (np.empty(3, np.int32), np.empty(2000, np.int64), [0]):
        with pytest.raises(NdgatherError, match="gather_nd: out"):
            gather(reader, out=out)
    assert reader.reads == []


def test_progress_counts_chunks_in_the_calling_thread():
    told = []
    here = threading.get_ident()

    def tell(done, total):
        assert threading.get_ident() == here
        told.append((done, total))

    gather(CutArray(DATA, GRID), progress=tell)
    assert told == [(done, 20) for done in range(21)]


def test_errors_of_progress_propagate():
    def tell(done, total):
        if done == 3:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gather(CutArray(DATA, GRID), progress=tell)


def test_progress_true_shows_a_bar(capsys):
    z = zarr.create_array(store={}, data=DATA, chunks=(10, 10))
    np.testing.assert_array_equal(ndgather.gather_nd(z, EVERY, progress=True), DATA.reshape(-1))
    assert "20/20" in capsys.readouterr().err


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("in_flight", [1, 8])
def test_reads_overlap_up_to_the_limit(threads, in_flight):
    class Slow(CutArray):
        def read(self, chunk, buffers):
            values = super().read(chunk, buffers)
            time.sleep(0.002)
            return values

    before = ndgather.get_num_threads()
    ndgather.set_num_threads(threads)
    try:
        reader = Slow(DATA, GRID, in_flight=in_flight)
        np.testing.assert_array_equal(gather(reader), DATA.reshape(-1))
    finally:
        ndgather.set_num_threads(before)
    assert reader.most_at_once <= max(threads, in_flight)
    assert sorted(reader.reads) == sorted(set(reader.reads))


@pytest.mark.parametrize("lengths", [p for n in range(1, 5) for p in product((1, 2, 3), repeat=n)])
def test_irregular_chunks_hold_their_part_of_the_axis(lengths):
    """The last chunk may also be the longest."""
    size = sum(lengths)
    grid = Grid.of_sizes([lengths])
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    assert grid.shape == (size,)
    assert grid.counts == (len(lengths),)
    assert grid.largest == (max(lengths),)
    for number, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        assert grid.box((number,)) == (slice(end - length, end),)
        assert grid.extent((number,)) == (length,)
    values = np.arange(size) + 7
    reader = CutArray(values, grid)
    call = Call("gather_nd", Kind.GATHER_ND, reader, np.arange(size)[:, np.newaxis])
    np.testing.assert_array_equal(calls.gather(call, reader), values)
    assert sorted(reader.reads) == [(number,) for number in range(len(lengths))]


def test_memory_limits_buffers():
    held = []

    class Counted(CutArray):
        def read(self, chunk, buffers):
            values = super().read(chunk, buffers)
            held.append(id(buffers))
            return values

    reader = Counted(DATA, GRID, in_flight=8)
    gather(reader, memory=3 * 400)
    assert len(set(held)) == 1
    with pytest.raises(AttributeValueError) as caught:
        gather(CutArray(DATA, GRID), memory=1199)
    assert str(caught.value) == (
        "gather_nd: memory = 1199 bytes is too small for a chunk of cut, 400 bytes decoded and 400 "
        "stored (allowed: at least 1200)"
    )


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"memory": "5 apples"},
            AttributeValueError,
            "memory = '5 apples' is not a number",
        ),
        ({"memory": -1}, AttributeValueError, "memory = -1 is not"),
        ({"memory": 1.5}, AttributeValueError, "memory = 1.5 is not"),
        ({"memory": True}, AttributeValueError, "memory = True is not"),
        ({"progress": 3}, DTypeError, "progress = 3 is not callable"),
        ({"executor": 3}, DTypeError, "executor = 3 has no method submit"),
    ],
)
def test_options_are_validated_for_arrays_in_memory(options, error, text):
    for data in (DATA, zarr.create_array(store={}, data=DATA, chunks=(10, 10))):
        with pytest.raises(error, match=f"gather_nd: {text}"):
            ndgather.gather_nd(data, EVERY, **options)


@pytest.mark.parametrize("memory", ["9" * 400, f"{'9' * 5000} TiB", 10**30])
def test_memory_beyond_physical_memory_is_accepted(memory):
    assert ndgather.gather_nd([1, 2], [[1]], memory=memory) == [2]
    z = zarr.create_array(store={}, data=DATA, chunks=(10, 10))
    assert ndgather.gather_nd(z, [[1, 2]], memory=memory) == [DATA[1, 2]]


def test_options_have_no_effect_on_arrays_in_memory():
    options = {"memory": "1.5 kB", "progress": lambda *_: pytest.fail("called")}
    np.testing.assert_array_equal(ndgather.gather_nd(DATA, EVERY, **options), DATA.reshape(-1))


def test_second_ctrl_c_waits_for_the_workers():
    class Slow(CutArray):
        def read(self, chunk, buffers):
            for _ in range(3 if chunk == (0, 0) else 0):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
            return super().read(chunk, buffers)

    with pytest.raises(KeyboardInterrupt):
        gather(Slow(np.tile(DATA, (25, 20)), Grid.regular((1000, 1000), (10, 10))), [[0, 0]] * 9)


@pytest.mark.parametrize("number", range(1, 6))
def test_ctrl_c_loses_no_message_of_a_worker(number):
    """Interrupt the caller right after it has taken an entry from a queue."""
    taken = 0

    def interrupt(frame, event, called):
        nonlocal taken
        if event == "c_return" and isinstance(getattr(called, "__self__", 0), queue.SimpleQueue):
            taken += 1
            if taken == number:
                raise KeyboardInterrupt

    def run():
        chunks = CutArray(np.tile(DATA, (25, 20)), Grid.regular((1000, 1000), (10, 10)))
        sys.setprofile(interrupt)
        with suppress(KeyboardInterrupt):
            gather(chunks, np.arange(1000)[:, None].repeat(2, axis=1))

    caller = threading.Thread(target=run, daemon=True)
    caller.start()
    caller.join(20)
    assert not caller.is_alive()


NO_THREADS = """
import resource, threading
import numpy as np, zarr, ndgather
data = np.arange(40 * 50).reshape(40, 50)
z = zarr.create_array("a.zarr", data=data, chunks=(10, 10))
points = np.random.default_rng(0).integers(0, 40, (300_000, 2))
expected = ndgather.gather_nd(z, points[:9])
threading.stack_size(2**36)  # more than may be had
resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))
try:
    threading.Thread(target=int).start()
except RuntimeError:
    pass
else:
    raise SystemExit("a thread was started")
assert (ndgather.gather_nd(z, points) == data[tuple(points.T)]).all()
ndgather.scatter_nd(z, [[0, 0]], np.array([-1]), out=z)
assert z[0, 0] == -1
try:
    ndgather.gather_nd(z, [[40, 0]])
except ndgather.errors.IndexOutOfBoundsError:
    pass
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="it ends the process")
def test_calls_work_without_threads(tmp_path):
    subprocess.run([sys.executable, "-c", NO_THREADS], check=True, timeout=60, cwd=tmp_path)


def test_ctrl_c_ends_the_walk():
    class Interrupted(CutArray):
        def read(self, chunk, buffers):
            if chunk == (1, 1):
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.001)
            return super().read(chunk, buffers)

    reader = Interrupted(np.tile(DATA, (25, 20)), Grid.regular((1000, 1000), (10, 10)))
    with pytest.raises(KeyboardInterrupt):
        gather(reader, np.argwhere(reader.values >= 0))
    assert len(reader.reads) < 10_000


@pytest.mark.parametrize("workers", [None, 2])
def test_ctrl_c_before_a_wait_ends_the_walk(workers):
    """Another thread receives the signal, so the caller does not wake up."""
    ended = threading.Event()

    class Endless(CutArray):
        def read(self, chunk, buffers):
            while not (buffers.stopped() or ended.wait(0.01)):
                pass
            return super().read(chunk, buffers)

    executor = workers and ThreadPoolExecutor(workers)
    threading.Timer(30, ended.set).start()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with pytest.raises(KeyboardInterrupt):
            gather(Endless(DATA, GRID), executor=executor)
        assert not ended.is_set()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        ended.set()


LIMITED = """
import resource, sys
import numpy as np, zarr, ndgather
z = zarr.open_array(sys.argv[1], mode="r")
resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))
try:
    z[...]
except MemoryError:
    pass
else:
    raise SystemExit("the limit does not bound")
indices = np.random.default_rng(0).integers(0, z.shape[0], (200_000, 3), np.int32)
found = ndgather.gather_nd(z, indices, memory="32 MiB")
i, j, k = indices.T.astype(np.int64)
assert (found == (i * 7 + j * 5 + k) % 65_521).all()
rows = ndgather.gather_nd(z, indices[:20, :2])
assert (rows == (i[:20, None] * 7 + j[:20, None] * 5 + np.arange(z.shape[2])) % 65_521).all()
"""


@pytest.mark.plain
def test_arrays_larger_than_memory(tmp_path):
    side = 640
    path = str(tmp_path / "large.zarr")
    z = zarr.create_array(path, shape=(side,) * 3, chunks=(128,) * 3, dtype=np.uint16)
    j, k = np.ogrid[:side, :side]
    for start in range(0, side, 128):
        i = np.arange(start, start + 128)[:, None, None]
        z[start : start + 128] = ((i * 7 + j * 5 + k) % 65_521).astype(np.uint16)
    assert z.nbytes > 400 << 20
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["raise OSError('no library')", "import nowhere_at_all"])
def test_missing_packages_are_named(text, tmp_path, monkeypatch):
    (tmp_path / "tqdm.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    array = zarr.create_array({}, data=np.arange(8), chunks=(2,))
    with pytest.raises(ExtraMissingError, match=r"the package tqdm cannot be imported: .*no"):
        ndgather.gather_nd(array, [[1]], progress=True)
