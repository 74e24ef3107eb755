"""Two threads compared with one, while other programs and libraries use the processors.

Other processes only compute, and so take processors away. The threads of other libraries spin in
the same process after a call. Calls on one thread and on all threads take turns, with pauses like
those between the requests to a service.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from statistics import median, quantiles
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import ndgather

from .case import Case
from .cases import CASES
from .peers import OWN, PEERS

if TYPE_CHECKING:
    from collections.abc import Callable

_ADD = {"group": "scatter", "operator": "scatter_nd", "reduction": "add", "output": "data"}
_MORE: tuple[Case, ...] = (
    Case("add-rows-of-16", "", (20000, 16), (500000, 1), **_ADD),  # type: ignore[arg-type]
    Case("add-rows-of-64", "", (100, 64), (100000, 1), **_ADD),  # type: ignore[arg-type]
)
_NAMES = (
    *("points-64MB", "points-batch3", "rows-64B", "rows-1KB", "bootstrap-draws", "elements-last"),
    *("elements-first", "scatter-add-points", "scatter-add-rows", "scatter-set-rows"),
)
_SPINNING = ("torch", "onnxruntime", "openvino")
_CALLS = 50
_PAUSE_SECONDS = 2e-3
_MOST = (1.1, 1.25)


def measure(processes: int, threads: int) -> int:
    """Print each call's ratios with up to `processes` busy processes, and with other libraries.

    Return 1 if two threads take more than 1.1 times as long as one thread in the median of 50
    calls, or 1.25 times at the 90th percentile of either; otherwise return 0.
    """
    cases = [case for case in CASES if case.name in _NAMES] + list(_MORE)
    beside: list[tuple[str, int, Callable[[], Any]]] = [
        (f"{count} busy", count, lambda: None) for count in range(processes + 1)
    ]
    beside += [(peer, 0, run) for peer in _SPINNING if (run := _call_of(peer, threads))]
    print(f"{'case':20}" + "".join(f"{name:>14}" for name, _, _ in beside))
    too_long = 0
    for case in cases:
        print(f"{case.name:20}", end="", flush=True)
        arrays = case.arrays()
        (bind,) = OWN.prepare(case, threads).values()
        call = bind(case, arrays).run
        for _, busy, before in beside:
            with ExitStack() as stack:
                for _ in range(busy):
                    stack.callback(_start().kill)
                ratios = _ratios(call, before, threads)
            too_long += any(ratio > most for ratio, most in zip(ratios, _MOST, strict=True))
            print(f"{ratios[0]:8.2f} {ratios[1]:5.2f}", end="", flush=True)
        print()
    print(f"{too_long} of {len(cases) * len(beside)} take longer than {_MOST}")
    return 1 if too_long else 0


def _ratios(
    call: Callable[[], Any], before: Callable[[], Any], threads: int
) -> tuple[float, float]:
    """Return the time of all threads divided by the time of one: medians and 90th percentiles."""
    times: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(_CALLS):
        for count, spent in times.items():
            ndgather.set_num_threads(count)
            sleep(_PAUSE_SECONDS)
            before()
            started = perf_counter()
            call()
            spent.append(perf_counter() - started)
    one, all_ = times[1], times[threads]
    return median(all_) / median(one), quantiles(all_, n=10)[-1] / quantiles(one, n=10)[-1]


def _call_of(name: str, threads: int) -> Callable[[], Any] | None:
    """Return a call of another library that uses threads, or None if it is not installed."""
    peer = next(peer for peer in PEERS if peer.name == name)
    if not peer.installed:
        return None
    case = next(case for case in CASES if case.name == "elements-cached")
    bind = next(iter(peer.prepare(case, threads).values()))
    arrays = case.arrays()
    call = bind(case, arrays)

    def run() -> object:
        call.run()
        return arrays  # OpenVINO tensors do not keep them alive

    return run


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])
