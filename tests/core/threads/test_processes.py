"""Gathers work in forked and spawned processes, regardless of what was used before."""

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
# Runs CALL in the interpreters named on standard input.
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


def test_second_interpreter_is_refused():
    """NumPy refuses it, or, if NumPy allows it as 2.0 does, the core."""
    assert told("first other other first") == ["worked", "refused", "refused", "worked"]


def test_subinterpreter_without_the_package_in_the_main_interpreter():
    """Python 3.11 lets NumPy into any first interpreter; newer versions only into the main one."""
    lets_any = sys.version_info < (3, 12)
    assert told("other other") == ["worked" if lets_any else "refused", "refused"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the second interpreter has NumPy")
def test_main_interpreter_works_after_a_refusal():
    assert told("other first other") == ["refused", "worked", "refused"]


# Daemon threads are inside calls when the interpreter exits.
DAEMONS = """
import sys, threading, time
import numpy as np
import ndgather

size = int(sys.argv[1])
data, indices = np.zeros(1 << 20), np.zeros((size, 1), np.int64)
updates = np.zeros(size)
calls = (
    lambda: ndgather.gather_nd(data, indices),
    lambda: ndgather.scatter_nd(data, indices, updates, reduction="add"),
    lambda: ndgather.gather_nd([1, 2, 3], [[0]] * 100),
    lambda: ndgather.gather_ranges(data, indices[:, 0], indices[:, 0] + 1),
)

def work(call):
    while True:
        call()

for call in calls:
    threading.Thread(target=work, args=[call], daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("size", [1 << 10, 1 << 18])
def test_daemon_threads_when_the_interpreter_ends(size):
    """Up to Python 3.13, such threads are unwound and must not release objects then."""
    for _ in range(4):
        child = subprocess.run(
            [sys.executable, "-X", "dev", "-c", DAEMONS, str(size)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (child.returncode, child.stderr) == (0, "")


SMALL_STACK = """
import threading
import numpy as np
import ndgather

data, updates = np.zeros((300, 400), np.float32), np.ones((400, 400), np.float32)
indices = np.random.default_rng(0).integers(0, 300, (400, 400))
done = []

def work():
    ndgather.gather_elements(data, indices, 0)
    ndgather.scatter_elements(data, indices, updates, 0, reduction="add")
    ndgather.scatter_nd(data, indices[:, :1], updates, reduction="add", out=data)
    try:
        ndgather.gather_elements(data, indices + 999, 0)
    except IndexError:
        done.append("done")

threading.stack_size(1 << 17)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(*done)
"""


def test_thread_with_a_128_kib_stack():
    child = subprocess.run(
        [sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, timeout=60, check=False
    )
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr
