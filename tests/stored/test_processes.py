"""Stored arrays in forked and spawned processes, after earlier reads.

Each test runs in its own process, which is killed if it hangs.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("read_in_a_child.py")
HDF5 = ("hdf5", "hdf5 in one piece")
ZARR = ("zarr", "shards", "zarr in memory")


def check(way, folder, *kinds):
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", SCRIPT, way, folder, *kinds],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr


needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")


@needs_fork
def test_forked_children_read_and_write(tmp_path):
    check("fork", tmp_path, *ZARR, *HDF5, "map", "cached zarr", "cached hdf5")


@pytest.mark.plain
@needs_fork
def test_children_forked_during_reads(tmp_path):
    check("fork_amid", tmp_path, "zarr", "hdf5", "cached zarr")


def test_spawned_children_receive_arrays(tmp_path):
    check("spawn", tmp_path, *ZARR, "tensorstore", "zarr by obstore", "map", "cached zarr")


def test_spawning_executors(tmp_path):
    check("executor", tmp_path, *HDF5, "tensorstore", "zarr by obstore")


@needs_fork
def test_tensorstore_is_refused_in_forked_children(tmp_path):
    """It would crash a process that was forked after its threads were started."""
    check("fork_refused", tmp_path, "tensorstore")
