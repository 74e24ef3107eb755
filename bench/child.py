"""Child process of `against.py`: runs the calls of a build, one turn at a time.

A process that waits for a request uses no processor, so the builds do not disturb each other.
"""

from __future__ import annotations

import gc
import random
import sys
from hashlib import blake2b
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.child_process import serve

from .case import copied
from .measure import sample, seconds_waited, together, trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case

SAMPLE_SECONDS = 2e-3
_TURN_SECONDS = 8e-3
_TRIAL_SECONDS = 10e-3
_PATIENCE_SECONDS = 60e-3
_MOST_WAITED = 0.01  # of a sample
_BYTES_PER_MOVE = 64 << 20


class _Only(MetaPathFinder):
    """Finder of ndgather and its modules in a single folder, whatever is installed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "ndgather":
            return None
        spec = PathFinder.find_spec(fullname, [self.folder] if path is None else path, target)
        if spec is None:
            raise ModuleNotFoundError(f"no {fullname} in {self.folder}", name=fullname)
        return spec


def only_from(folder: str) -> None:
    """Restrict the import of ndgather to a folder; "" does not restrict it."""
    if folder:
        sys.meta_path.insert(0, _Only(folder))


class _Prepared:
    """The calls of a case with their arrays."""

    def __init__(self, case: Case, threads: int) -> None:
        adapter = import_module("bench.peers.with_ndgather")
        (self.bind,) = adapter.prepare(case, threads).values()
        self.calls = [(variant, variant.arrays()) for variant in case.variants()]
        held = sum(arrays.nbytes for _, arrays in self.calls)
        self.turns_per_move = 1 + held // _BYTES_PER_MOVE
        self.turns = 0
        answers, runs = blake2b(), []
        for variant, arrays in self.calls:
            call = self.bind(variant, arrays)
            answer = call.answer(call.run())
            answers.update(f"{answer.dtype} {answer.shape}".encode())
            answers.update(answer.tobytes())
            runs.append(call.run)
        self.digest, self.run = answers.hexdigest(), together(runs)

    def turn(self, number: int) -> float:
        """Return the shortest time per call in several samples of `number` rounds of calls.

        A sample counts if no thread of this process waited for a processor. If there is no such
        sample after a while, every sample counts.
        """
        if self.turns % self.turns_per_move == 0:
            self._move()
        self.turns += 1
        best = undisturbed = inf
        started = perf_counter()
        first = sample(self.run, 1)
        while True:
            if first < _TURN_SECONDS:  # a longer call was warmed up by the previous call
                sample(self.run, 1)
            waited, begun = seconds_waited(), perf_counter()
            seconds = sample(self.run, number)
            ended = perf_counter()
            best = min(best, seconds)
            if seconds_waited() - waited < _MOST_WAITED * (ended - begun):
                undisturbed = min(undisturbed, seconds)
            spent = ended - started
            if spent > _TURN_SECONDS and (undisturbed < inf or spent > _PATIENCE_SECONDS):
                return (undisturbed if undisturbed < inf else best) / len(self.calls)

    def _move(self) -> None:
        """Copy the arrays to other addresses, which can change a time by 10 %."""
        self.space = np.empty(random.randrange(1 << 18), np.uint8)
        self.calls = [(variant, copied(variant, arrays)) for variant, arrays in self.calls]
        self.run = together([self.bind(variant, arrays).run for variant, arrays in self.calls])


class _Server:
    """A server for the requests "where", "prepare", "turn" and "forget"."""

    prepared: _Prepared | None = None

    def answer(self, request: str, *arguments: Any) -> Any:
        if request == "where":
            return import_module("ndgather").__file__
        if request == "prepare":
            self.prepared = None  # frees its arrays
            self.prepared = _Prepared(*arguments)
            seconds = trial(self.prepared.run, _TRIAL_SECONDS) / len(self.prepared.calls)
            return self.prepared.digest, seconds
        if request == "forget":
            self.prepared = None
            return None
        assert self.prepared is not None
        return self.prepared.turn(*arguments)


if __name__ == "__main__":
    only_from(sys.argv[1])
    gc.disable()
    serve(_Server().answer)
