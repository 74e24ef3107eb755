"""How many instructions one small call on NumPy arrays takes, here and in another build.

Counted by valgrind's callgrind: the difference between a process with many calls and one with
few, so that what Python does at its start cancels out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.build import build

if TYPE_CHECKING:
    from .cases import Case

_FEW = 100
_CODE = """
import sys, numpy, ndgather
data, indices = numpy.arange(100.0), numpy.array([[1], [2], [3]])
for _ in range(int(sys.argv[1])):
    ndgather.gather_nd(data, indices)
"""
_COUNT = re.compile(r"Collected : (\d+)")


def count(case: Case, before: str | None) -> list[dict[str, Any]]:
    """Return the instructions of a call in this build and in that of the revision `before`."""
    own = Path(import_module("ndgather").__file__ or "").parents[1]
    methods = [_counted("ndgather", own, case.count)]
    if before is None:
        return [*methods, {"method": "before", "refusal": "name a revision: --before REV"}]
    return [*methods, _counted("before", build(before), case.count)]


def _counted(method: str, folder: Path, calls: int) -> dict[str, Any]:
    if shutil.which("valgrind") is None:
        return {"method": method, "refusal": "valgrind is not installed"}
    few, many = (_instructions(folder, number) for number in (_FEW, _FEW + calls))
    return {"method": method, "instructions": (many - few) / calls}


def _instructions(folder: Path, calls: int) -> int:
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
    command += [sys.executable, "-c", _CODE, str(calls)]
    setting = os.environ | {"PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=setting, capture_output=True, text=True, check=True)
    found = _COUNT.search(done.stderr)
    assert found is not None, done.stderr
    return int(found[1])
