"""Without memory, a call raises MemoryError or returns the correct result, and leaks nothing."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARY = Path(__file__).with_name("failing_allocations.c")

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="memory in use is read as glibc tells it"
)


CLOSURE = """
import _testcapi
class Owner:
    def closure(self):
        return (getattr(self, name) for name in ())
owner = Owner()
for until in (lambda n: 0, lambda n: n + 1):
    for n in range(12):
        stop = until(n)
        _testcapi.set_nomemory(n, stop)
        try:
            owner.closure()
        except MemoryError:
            pass
        finally:
            _testcapi.remove_mem_hooks()
"""


@pytest.fixture(autouse=True, scope="module")
def python_survives_itself():
    """Skip on Python 3.12.1 and 3.13.0, which crash without memory for a closure."""
    command = [sys.executable, "-c", CLOSURE]
    child = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if child.returncode < 0:
        pytest.skip("this Python crashes where there is no memory for a closure")


def run_script(way, **environment):
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.core.memory.fail_each_allocation", way],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-300:] + child.stderr[-3000:]
    lines = child.stdout.splitlines()
    assert lines.pop() == "done"
    return {name: numbers.split(", ") for name, numbers in (line.split(": ") for line in lines)}


def test_each_allocation_of_python_objects():
    pytest.importorskip("_testcapi", reason="this Python came without its test modules")
    failed = run_script("interpreter")
    assert int(failed["a bad index"][0]) >= 1  # the core allocates one array and one refusal


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="malloc is taken already")
@pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="malloc is taken already")
def test_each_allocation_of_the_process(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "failing_allocations.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", str(LIBRARY), "-o", str(library), "-ldl"],
        check=True,
        timeout=60,
    )
    failed = run_script("process", LD_PRELOAD=str(library), PYTHONMALLOC="malloc")
    # Each new array can fail, and each large array several times: no failure was missed.
    for name in ("gather_nd", "gather_elements", "gather", "scatter_nd", "large", "bands"):
        assert int(failed[name][0]) >= 2, name
    for name in ("a bad index", "large, bad", "bands, bad", "large scatter, bad"):
        assert int(failed[name][0]) >= 3, name
