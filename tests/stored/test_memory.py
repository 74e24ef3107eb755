"""Calls in a process with an RLIMIT_DATA far below the size of the array."""

import subprocess
import sys

import pytest

pytest.importorskip("h5py")  # of programs in other processes
pytest.importorskip("zarr")  # of programs in other processes

# Arrays of 8 GiB with only twelve chunks written, so that creating them is fast.
CHILD = """
import resource
import sys
from pathlib import Path

import h5py
import numpy as np
import zarr

import ndgather

KIND = sys.argv[1]
SHAPE, CHUNK = (2048, 1024, 1024), 64
CORNERS = [(512 * (n % 4), 64 * n, 1024 - 64 * (n + 1)) for n in range(12)]
MEMORY = 32 << 20

def content(corner):
    i, j, k = np.ogrid[tuple(slice(low, low + CHUNK) for low in corner)]
    return (i * 3.0 + j * 5.0 + k).astype(np.float32)

def made():
    chunks = (CHUNK,) * 3
    if KIND == "hdf5":
        array = h5py.File("array.h5", "w").create_dataset(
            "array", SHAPE, "float32", chunks=chunks, compression="gzip", compression_opts=1)
    elif KIND == "memmap":
        array = np.memmap("array.raw", np.float32, "w+", shape=SHAPE)
    else:
        shards = {"shards": (CHUNK * 2,) * 3} if KIND == "sharded" else {}
        array = zarr.create_array(
            "array.zarr", shape=SHAPE, chunks=chunks, dtype="float32", **shards)
    for corner in CORNERS:
        array[tuple(slice(low, low + CHUNK) for low in corner)] = content(corner)
    return array

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) << 10

array = made()
draw = np.random.default_rng(0)
inside = np.repeat(CORNERS, 3000, axis=0) + draw.integers(0, CHUNK, (12 * 3000, 3))
points = np.concatenate([inside, draw.integers(0, SHAPE, (100, 3))])
expected = inside @ [3.0, 5.0, 1.0]

ndgather.gather_nd(array, points[:1], memory=MEMORY)  # threads are started
allowed = status("VmData") + MEMORY + (64 << 20)
assert allowed < 8 << 30
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
try:
    array[...]
except (MemoryError, OSError):
    pass
else:
    assert KIND == "memmap"
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
values = ndgather.gather_nd(array, points, memory=MEMORY)
extra = status("VmHWM") - before
np.testing.assert_array_equal(values[: len(inside)], expected)
windows = ndgather.gather_windows(array, np.array(CORNERS), (64, 64, 64), memory=MEMORY)
for corner, window in zip(CORNERS, windows):
    np.testing.assert_array_equal(window, content(corner))
if KIND != "memmap":  # whose pages count as resident while they are in the cache
    assert extra <= values.nbytes + 8 * len(points) + MEMORY + (16 << 20), extra
"""


@pytest.mark.plain
@pytest.mark.skipif(sys.platform != "linux", reason="the limit and /proc are those of Linux")
@pytest.mark.parametrize("kind", ["zarr", "sharded", "hdf5", "memmap"])
def test_arrays_larger_than_memory_are_read(tmp_path, kind):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kind],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
