"""``python tests/core/faults.py``: the core makes each of its faults, and a test has to fail.

The core has to be built with ``-DNDGATHER_FAULTS``, as ``make faults`` does; core/fault.h lists the
faults. Exit status 1: the tests pass with one of them.
"""

import os
import subprocess
import sys
import time

# From the quickest to the slowest: the first failure ends a run.
TESTS = (
    "tests/core/test_scatter_threads.py::test_more_updates_than_offsets_are_kept_at_once",
    *(f"tests/core/test_{name}.py" for name in ("error_texts", "modes", "results", "overflow")),
    *(f"tests/core/test_{name}definitions.py" for name in ("", "scatter_")),
    *("tests/core/test_scatter_refusals.py", "tests/core/test_points.py"),
    *("tests/stored/test_definitions.py", "tests/core/test_thread_count.py"),
    "tests/core/test_scatter_threads.py",
)
PYTEST = (
    *("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"),
    *("--tb=line", "--assert=plain"),  # to write the difference of large arrays takes minutes
)
FAILED = 1  # exit status of pytest
LIMIT = 900  # seconds


def run(fault: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NDGATHER_FAULT": fault, "CI": "true"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, timeout=LIMIT, check=False, capture_output=True, text=True
    )


def outcome(fault: str) -> tuple[bool, str]:
    """Say whether the tests notice a fault, and which one does."""
    try:
        ended = run(fault, *PYTEST, *TESTS)
    except subprocess.TimeoutExpired:
        return False, f"the tests were not done after {LIMIT} s, which may be the machine's doing"
    if ended.returncode < 0:  # of a signal
        return True, f"the process ended with signal {-ended.returncode}"
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    said = failed[0] if failed else "\n".join(ended.stdout.splitlines()[-20:])
    return ended.returncode == FAILED, said.partition(" - ")[0]


def main() -> int:
    faults = run("list", "-c", "import ndgather").stdout.split()
    if not faults:
        sys.exit("the core was built without faults (allowed: one built by make faults)")
    passed = run("", *PYTEST, *TESTS)
    if passed.returncode:
        sys.exit(f"the tests fail without a fault:\n{passed.stdout[-2000:]}")
    unnoticed = []
    for fault in sys.argv[1:] or faults:
        start = time.monotonic()
        noticed, how = outcome(fault)
        seconds = time.monotonic() - start
        verdict = "noticed" if noticed else "PASSED"
        print(f"{verdict:8} {seconds:4.0f} s  {fault}: {how}", flush=True)
        unnoticed += [] if noticed else [fault]
    print(f"{len(faults)} faults, not noticed: {unnoticed or 'none'}")
    return int(bool(unnoticed))


if __name__ == "__main__":
    sys.exit(main())
