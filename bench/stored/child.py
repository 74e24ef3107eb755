"""The process of one method: ``python -m bench.stored.child``, started by `measure.py`.

It reads its job pickled from standard input, makes the call once for its memory and its answer,
and then once for each further byte that it reads. Every reply is one pickled object.
"""

from __future__ import annotations

import gc
import pickle
import sys
from importlib import import_module
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import field, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request


def prepared(request: Request, method: str) -> Callable[[], Any]:
    """Return the call of a method, by its module: that of "zarr-fused" is `with_zarr`."""
    adapter = import_module(f"{__package__}.with_{method.partition('-')[0]}")
    run: Callable[[], Any] = adapter.prepare(request, method)
    return run


def check(request: Request, method: str, answer: Any) -> None:
    """Compare an answer, or what was written, with what it should be.

    Raises
    ------
    AssertionError
        It is wrong.
    """
    if request.case.work == "scatter":
        _check_target(request)
    elif method != "floor":
        request.check(answer)


def _check_target(request: Request) -> None:
    side, grid = request.side, request.grid
    array: Any = opened.zarr_array(request)
    cells = np.ravel_multi_index(tuple(request.indices.T), (side,) * 3)
    sums = np.bincount(cells, request.updates, side**3).astype(np.float32).reshape((side,) * 3)
    for first in range(0, side, grid):
        slab = slice(first, first + grid)
        expected = field.values(*np.ix_(np.arange(side)[slab], *(np.arange(side),) * 2))
        np.testing.assert_array_equal(array[slab], expected + sums[slab])


def forget_peak() -> int:
    """Let the peak of this process be what it holds now, and return that in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) << 10


def _timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a call returns, its seconds, and those of all processors of this process."""
    gc.collect()
    used, started = getrusage(RUSAGE_SELF), perf_counter()
    answer = run()
    ended, end = perf_counter(), getrusage(RUSAGE_SELF)
    cpu = end.ru_utime + end.ru_stime - used.ru_utime - used.ru_stime
    return answer, ended - started, cpu


def _first(request: Request, method: str, small: Request) -> tuple[Callable[[], Any], Any]:
    """Make the call; what is imported and started at a first call is there before."""
    if request.case.work != "scatter":
        prepared(small, method)()
    run = prepared(request, method)
    on_cluster = request.case.place == "cluster"
    workers_before: dict[str, int] = {}
    if on_cluster:
        workers_before = opened.cluster_client().run(forget_peak)
    gc.collect()
    before = forget_peak()
    answer, wall, cpu = _timed(run)
    reply = {"memory": peak() - before, "wall": wall, "cpu": cpu}
    if on_cluster:
        peaks = opened.cluster_client().run(peak)
        reply["worker_memory"] = max(peaks[key] - workers_before[key] for key in peaks)
    check(request, method, answer)
    return run, reply


def main() -> None:
    request, small, method = pickle.load(sys.stdin.buffer)
    replies, sys.stdout = sys.stdout.buffer, sys.stderr  # what libraries print is no reply

    def reply(what: Any) -> None:
        pickle.dump(what, replies)
        replies.flush()

    try:
        run, first = _first(request, method, small)
    except Exception as error:  # whatever a library cannot do, the parent reports
        text = "wrong answer" if isinstance(error, AssertionError) else str(error)
        reply(f"{type(error).__name__}: {' '.join(text.split())[:200]}")
        return
    reply(first)
    while sys.stdin.buffer.read(1):
        _, wall, cpu = _timed(run)
        reply({"wall": wall, "cpu": cpu})


if __name__ == "__main__":
    main()
