"""Models run in child processes, so that a crash of a runtime is an answer and not the end."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from threading import Timer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource

LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a run: values, or the text of a refusal, or the manner of a crash."""

    values: list[Any] | None = None
    refused: str | None = None
    crashed: str | None = None


class RuntimeProcess:
    """One model in one runtime, in a process of its own.

    Attributes
    ----------
    version : str
        Of the runtime; empty where it did not load the model.
    failed : Answer or None
        How it did not load the model.
    """

    def __init__(
        self, runtime: str, source: ModelSource, options: LoadOptions, *, limit_s: float = LIMIT_S
    ) -> None:
        self._limit_s = limit_s
        self._printed = TemporaryFile()  # noqa: SIM115 - closed with the process
        self._child = subprocess.Popen(
            [sys.executable, "-m", "ndgather.runtimes.model_child", runtime],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
        )
        self.version, self.failed = "", None
        kind, what = self._ask((source, options))
        if kind == "version":
            self.version = what
        else:
            self.failed = _answer(kind, what)

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> Answer:
        """Run the model once; after a crash every run is a crash."""
        if self.failed is not None:
            return self.failed
        answer = _answer(*self._ask((list(names), dict(inputs))))
        if answer.crashed is not None:
            self.failed = answer
        return answer

    def _ask(self, request: object) -> tuple[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        timer = Timer(self._limit_s, self._child.kill)
        timer.start()
        try:
            pickle.dump(request, self._child.stdin, pickle.HIGHEST_PROTOCOL)
            self._child.stdin.flush()
            answer: tuple[str, Any] = pickle.load(self._child.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            return "crashed", self._how()
        finally:
            timer.cancel()
        return answer

    def _how(self) -> str:
        """Say how the child ended."""
        status = self._child.wait()
        if status < 0:
            return signal.Signals(-status).name
        self._printed.seek(0)
        last = self._printed.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"exit status {status}{': ' if last else ''}{''.join(last)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                with suppress(OSError):  # what it was still to be sent
                    stream.close()
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._printed.close()


def _answer(kind: str, what: Any) -> Answer:
    return Answer(**{kind: what})
