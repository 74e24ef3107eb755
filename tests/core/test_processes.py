"""Gathering works in forked and spawned processes, whatever was used before."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("gather_in_a_child.py")


def needs_fork(way):
    return pytest.param(
        way, marks=pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
    )


@pytest.mark.parametrize(
    "way",
    [
        "exit_asleep",
        "pool_spawn",
        *map(needs_fork, ("fork", "fork_amid", "pool_fork", "pool_forkserver")),
    ],
)
def test_processes(way):
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SCRIPT), way],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout == "done\n", child.stderr
