"""``python tests/core/borders.py FOLDER SECONDS``: test the core with tiny limits.

Runs random calls of the core, and the property tests of gathers, scatters, windows, ranges and
stored points, with AddressSanitizer and UBSan, for every instruction set, at least once each and
until the time is up. The folder contains the build of ``make build/borders/built``. Prints how many
calls took each code path. The exit status is 1 if there was a finding or a path was never taken.
"""

import itertools
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETS = ("baseline", "avx2", "avx512")
CALLS = "2000"  # for each of two threads
FILES = (
    *("tests/core/test_definitions.py", "tests/core/test_scatter_definitions.py"),
    *(f"tests/core/results/test_{name}.py" for name in ("windows", "ranges", "points")),
    *(f"tests/stored/test_{name}.py" for name in ("definitions", "stored_windows")),
)
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.core.tiny", "-m", "not slow")
COUNTED = re.compile(r"^ *(\d+)  (\S.*)$", re.MULTILINE)


def run(command, **environment):
    """Run a command with the sanitizer runtime, and print its output if it fails."""
    ended = subprocess.run(
        ["tests/core/run.sh", "address", *command],
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        print(ended.stdout[-20_000:], ended.stderr[-5_000:], sep="\n")
        raise SystemExit(
            f"found by: {' '.join(f'{k}={v}' for k, v in environment.items())} {command}"
        )
    return ended.stdout


def turn(folder, number, first):
    """Run the calls and tests for an instruction set, and return their output."""
    chosen, seed = SETS[number % len(SETS)], str(first + number)
    said = run([folder / "core_calls", "2", CALLS, seed], NDGATHER_INSTRUCTION_SET=chosen)
    if "not for this processor" in said:
        return ""
    return said + run(
        [folder / "venv/bin/python", *PYTEST, f"--hypothesis-seed={seed}", *FILES],
        NDGATHER_INSTRUCTION_SET=chosen,
        PYTHONPATH=str(folder / "package"),
        HYPOTHESIS_PROFILE="short",
    )


def main(folder, seconds):
    end = time.monotonic() + float(seconds)
    folder = Path(folder).resolve()
    first = int(os.environ.get("SEED") or time.time() // 86_400)  # the same random draws all day
    said, numbers = [], itertools.count()

    def work():
        while (number := next(numbers)) < len(SETS) or time.monotonic() < end:
            said.append(turn(folder, number, first))

    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(work) for _ in range(os.cpu_count() or 1)]:
            done.result()
    crossed = Counter()
    for times, border in COUNTED.findall("\n".join(said)):
        crossed[border] += int(times)
    print(f"seed {first}: calls that went by each way of the core")
    for border, times in crossed.items():
        print(f"{times:8}  {border}")
    never = [border for border, times in crossed.items() if not times]
    if never:
        sys.exit(f"never crossed: {', '.join(never)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
