"""Stored arrays in processes that are forked and spawned, whatever was read before.

Each test is a process of its own, which is killed if it hangs.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("read_in_a_child.py")
EVERY = (
    "zarr", "shards", "zarr in memory", "hdf5", "hdf5 in one piece", "map", "cached zarr",
    "cached hdf5",
)  # fmt: skip


def run(way, kind, folder):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", str(SCRIPT), way, kind, folder],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("way", ["fork", "fork_amid"])
def test_forked_children_read_and_write(way, kind, tmp_path):
    child = run(way, kind, tmp_path)
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr


@pytest.mark.parametrize(
    "kind",
    ["zarr", "shards", "zarr in memory", "tensorstore", "zarr by obstore", "map", "cached zarr"],
)
def test_spawned_children_are_sent_arrays(kind, tmp_path):
    child = run("spawn", kind, tmp_path)
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr


@pytest.mark.parametrize("kind", ["hdf5", "hdf5 in one piece", "tensorstore", "zarr by obstore"])
def test_executors_that_spawn(kind, tmp_path):
    child = run("executor", kind, tmp_path)
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr
