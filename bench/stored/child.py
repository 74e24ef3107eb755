"""The child process of `measure.py`, which runs a method once for its memory and then in turns."""

from __future__ import annotations

import gc
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tools.child_process import serve

from . import methods

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cases import Request


def check(request: Request, method: str, answer: Any) -> None:
    """Raise AssertionError if a result or the target of a scatter is wrong."""
    if request.case.work == "scatter":
        request.check_target(methods.zarr_array(request))
    elif method != "floor":
        request.check(answer)


def reset_peak() -> int:
    """Reset the peak memory of this process to its current memory and return it in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) << 10


class _Server:
    """Answers the requests "first" and "turn"."""

    run: Callable[[], Any]

    def answer(self, name: str, *arguments: Any) -> dict[str, float]:
        return self.first(*arguments) if name == "first" else self.turn()[1]

    def first(self, request: Request, small: Request, method: str) -> dict[str, float]:
        """Import packages, make a small call, then check the call and measure its memory."""
        if request.case.work != "scatter":
            methods.prepared(small, method)()
        self.run = methods.prepared(request, method)
        client = methods.cluster_client() if request.case.place == "cluster" else None
        workers_before: dict[str, int] = client.run(reset_peak) if client else {}
        gc.collect()
        before = reset_peak()
        answer, times = self.turn()
        measured = times | {"memory": peak() - before}
        if client:
            peaks = client.run(peak)
            measured["worker_memory"] = max(peaks[key] - workers_before[key] for key in peaks)
        check(request, method, answer)
        return measured

    def turn(self) -> tuple[Any, dict[str, float]]:
        """Make the call; return its result, its wall time and its processor time."""
        gc.collect()
        used, started = getrusage(RUSAGE_SELF), perf_counter()
        answer = self.run()
        ended, end = perf_counter(), getrusage(RUSAGE_SELF)
        cpu = end.ru_utime + end.ru_stime - used.ru_utime - used.ru_stime
        return answer, {"wall": ended - started, "cpu": cpu}


if __name__ == "__main__":
    serve(_Server().answer)
