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


CALL = """
import warnings
warnings.simplefilter("ignore")
try:
    import ndgather
except ImportError as error:
    known = "interpreter", "numpy", "more than once per process"  # the last is NumPy's
    assert any(text in str(error) for text in known), error
    print("refused", flush=True)
else:
    import numpy as np
    long = np.arange(1 << 18)
    assert (ndgather.gather(long, long[::-1]) == long[::-1]).all()
    assert (ndgather.scatter_elements(long, long, long) == long).all()
    assert ndgather.gather_nd(np.array([None, "x"]), [[1], [1]]).tolist() == ["x", "x"]
    try:
        ndgather.gather_nd([1, 2, 3], [[7]])
    except ndgather.errors.IndexOutOfBoundsError as error:
        assert "which has size 3" in str(error)
    else:
        raise AssertionError("no error")
    print("worked", flush=True)
"""
# Runs CALL in the interpreters that standard input names.
CHILD = f"""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
CALL = {CALL!r}
for where in input().split():
    if where == "first":
        exec(CALL)
        continue
    other = interpreters.create()
    failed = interpreters.run_string(other, CALL)
    assert not failed, failed
    interpreters.destroy(other)
"""


def told(where):
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", CHILD],
        input=where,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")
    return child.stdout.split()


def test_beside_an_interpreter_that_has_the_package():
    """It is refused: by NumPy, or where NumPy lets itself be loaded, as 2.0 does, by the core."""
    assert told("first other other first") == ["worked", "refused", "refused", "worked"]


def test_where_no_other_interpreter_has_the_package():
    """Python 3.11 lets NumPy into whichever asks first; newer ones only into the main one."""
    lets_any = sys.version_info < (3, 12)
    assert told("other other") == ["worked" if lets_any else "refused", "refused"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the second interpreter has NumPy")
def test_the_main_interpreter_after_a_refusal():
    assert told("other first other") == ["refused", "worked", "refused"]
