"""Count the instructions of calls on one thread, which do not depend on the load of the machine.

Valgrind's callgrind counts them. It supports AVX2 but not AVX-512, so the AVX2 loops run and the
counts are nearly the same on every processor. They change by 1 % with library versions. A case
makes a few calls and then many more calls; the difference is divided by the number of calls.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.child_process import ROOT

from .cases import CASES
from .child import only_from
from .measure import sample

# One case per kind of loop, by its name, reduced to so many elements.
COUNTED = {
    "call-nd-4x4": 16,
    "call-elements-4x4": 16,
    "call-scatter-4x4": 16,
    "call-nd-1000": 1 << 14,
    "points-L2": 1 << 18,
    "points-depth3": 1 << 16,
    "points-batch3": 1 << 16,
    "rows-64B": 1 << 17,
    "real-parts": 1 << 18,
    "elements-first": 1 << 18,
    "topk-scores": 1 << 18,
    "scatter-add-points": 1 << 18,
}
_FEW, _MANY = 2, 4
_OF_TINY_CALLS = 50  # times as many
_TINY = 3000  # lookups
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def count(folder: str) -> dict[str, float]:
    """Return the instructions per position of each case, or per call for tiny calls.

    The build is in `folder`, or is the current build. Raise ValueError if valgrind is missing.
    """
    if shutil.which("valgrind") is None:
        raise ValueError("--instructions needs valgrind (allowed: install it, as with apt-get)")
    with TemporaryDirectory() as dumps:
        command = ["valgrind", "--tool=callgrind", "--dump-before=getppid"]
        command += [f"--callgrind-out-file={dumps}/dump", sys.executable, "-m", __name__, folder]
        chosen = {"NDGATHER_INSTRUCTION_SET": "avx2", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | chosen, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(f"the calls that are counted ended:\n{done.stderr.strip()[-2000:]}")
        counts = {}
        for number, line in enumerate(done.stdout.splitlines()):
            name, calls, positions = line.split()
            few, many = (
                int(_TOTAL.findall(Path(dumps, f"dump.{3 * number + part}").read_text())[0])
                for part in (2, 3)
            )
            counts[name] = (many - few) / int(calls) / int(positions)
    return counts


def _call(folder: str) -> None:
    """Make the calls. At getppid, callgrind writes its counts and starts again."""
    only_from(folder)
    adapter = import_module("bench.peers.with_ndgather")
    cases = {case.name: case for case in CASES}
    gc.disable()
    for name, elements in COUNTED.items():
        case = cases[name].reduced(elements)
        (bind,) = adapter.prepare(case, 1).values()
        run = bind(case, case.arrays()).run
        is_tiny = case.lookups < _TINY
        few, many = (n * (_OF_TINY_CALLS if is_tiny else 1) for n in (_FEW, _MANY))
        sample(run, few)
        for calls in (few, many):
            os.getppid()
            sample(run, calls)
        os.getppid()
        print(name, many - few, 1 if name.startswith("call-") and is_tiny else case.lookups)


if __name__ == "__main__":
    _call(sys.argv[1])
