"""``python -m mutants.core``: the core built with one fault at a time, and which test notices it.

Only the loops for any processor are built: those for newer ones come from the same headers.
Exit status 1: a fault passes every test.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from mutants.core_faults import FAULTS, Fault
from mutants.running import ROOT, with_core

WORK = ROOT / "build" / "mutants"
CORE = ROOT / "core"
SOURCES = ("plan", "choose", "run", "threads", "memory", "engine_baseline", "module")
FLAGS = (
    *("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off"),
    *("-pthread", "-DPy_LIMITED_API=0x030b0000"),
)
# Above the limits that make loops for large arrays and several threads worth while come last.
TESTS = (
    *("tests/unit", "tests/scatter", "tests/property", "tests/memory/test_red_zones.py"),
    *("tests/threads/test_thread_count.py", "tests/dialects"),
)
LIMIT = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants.core", description=__doc__)
    parser.add_argument("--compiler", default="g++", help="of C++20 (default: g++)")
    parser.add_argument("--part", default="1/1", help="only the N-th of M parts, as 2/4")
    options = parser.parse_args()
    first, last = map(int, options.part.split("/"))
    (WORK / "objects").mkdir(parents=True, exist_ok=True)
    for fault in FAULTS:
        _faulty(fault)  # before any time is spent: each text has to be there
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: _compiled(options.compiler, CORE, each), SOURCES))
    sound = _linked(options.compiler, {}, WORK / "sound")
    run = with_core(sound, TESTS, LIMIT, WORK / "failed.txt")
    print(f"without a fault: status {run.status}, {run.seconds:.0f} s")
    if run.status:
        sys.exit(f"the tests do not pass without a fault: {run.failed}")
    survived = 0
    chosen = FAULTS[first - 1 :: last]
    for number, fault in enumerate(chosen):
        start = time.monotonic()
        core = _built(options.compiler, fault, WORK / f"fault{number}")
        building = time.monotonic() - start
        run = with_core(core, TESTS, LIMIT, WORK / "failed.txt")
        survived += not run.status
        how = run.failed or {-14: "ran for ever"}.get(run.status, f"ended with {run.status}")
        print(
            f"{'caught' if run.status else 'SURVIVED':8} {building:4.0f} + {run.seconds:3.0f} s  "
            f"{fault.file}: {fault.name}  [{how if run.status else ''}]"
        )
        sys.stdout.flush()
    print(f"{len(chosen)} faults: {len(chosen) - survived} caught")
    return int(survived > 0)


def _faulty(fault: Fault) -> str:
    text = (CORE / fault.file).read_text("utf-8")
    if text.count(fault.old) != 1:
        sys.exit(f"{fault.file} has {text.count(fault.old)} times (allowed: once): {fault.old}")
    return text.replace(fault.old, fault.new)


def _built(compiler: str, fault: Fault, folder: Path) -> Path:
    """Build the core with a fault: what includes the changed file anew, the rest as it is."""
    shutil.rmtree(folder, ignore_errors=True)
    core = folder / "core"
    shutil.copytree(CORE, core)
    (core / fault.file).write_text(_faulty(fault), "utf-8")
    changed = [each for each in SOURCES if fault.file in _read_by(compiler, core, each)]
    with ThreadPoolExecutor(2) as pool:
        objects = pool.map(lambda each: _compiled(compiler, core, each, folder), changed)
        return _linked(compiler, dict(zip(changed, objects, strict=True)), folder)


def _read_by(compiler: str, core: Path, source: str) -> set[str]:
    command = [compiler, *FLAGS, *_includes(), "-MM", str(core / f"{source}.cpp")]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {Path(each).name for each in listed.replace("\\\n", " ").split()[1:]}


def _includes() -> list[str]:
    return [f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]


def _compiled(compiler: str, core: Path, source: str, folder: Path = WORK / "objects") -> Path:
    made = folder / f"{source}.o"
    command = [compiler, *FLAGS, *_includes(), "-c", str(core / f"{source}.cpp"), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


def _linked(compiler: str, objects: dict[str, Path], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    made = folder / "_core.abi3.so"
    every = [objects.get(each, WORK / "objects" / f"{each}.o") for each in SOURCES]
    command = [compiler, "-shared", "-pthread", *map(str, every), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


if __name__ == "__main__":
    sys.exit(main())
