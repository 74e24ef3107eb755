"""Models run in child processes, so that a crash of a runtime ends the child alone.

The parent sends the source and the options of a model first, then names and inputs for every run,
all pickled. The child answers ``("version", text)``, ``("values", list)`` or ``("refused", text)``.
What the runtime prints goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from threading import Timer
from typing import TYPE_CHECKING, Any, Self

from ndgather.messages import bearable
from ndgather.runtimes.runtime import model_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource

LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a run: values, the text of an error, or how the process ended."""

    values: list[Any] | None = None
    refused: str | None = None
    crashed: str | None = None

    @property
    def status(self) -> str:
        if self.values is not None:
            return "ran"
        return "refused" if self.crashed is None else "crashed"

    @property
    def text(self) -> str:
        """The error on one line; empty for a run."""
        return bearable(self.crashed or self.refused or "")


class RuntimeProcess:
    """One model in one runtime, in a separate process.

    `version` is that of the runtime, or empty if it did not load the model; `failed` is why it did
    not load it, or how it crashed.
    """

    def __init__(
        self, runtime: str, source: ModelSource, options: LoadOptions, *, limit_s: float = LIMIT_S
    ) -> None:
        self._limit_s = limit_s
        self._printed = TemporaryFile()  # noqa: SIM115 - closed with the process
        self._child = subprocess.Popen(
            [sys.executable, "-m", "ndgather.runtimes.children", runtime],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
        )
        self.version, self.failed = "", None
        kind, what = self._ask((source, options))
        if kind == "version":
            self.version = what
        else:
            self.failed = Answer(**{kind: what})

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> Answer:
        """Run the model once; after a crash every run is a crash."""
        if self.failed is not None:
            return self.failed
        kind, what = self._ask((list(names), dict(inputs)))
        answer = Answer(**{kind: what})
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
            return "crashed", self._end()
        finally:
            timer.cancel()
        return answer

    def _end(self) -> str:
        """Return the signal or the exit status that the child ended with."""
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
                with suppress(OSError):  # a request that was not sent
                    stream.close()
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._printed.close()


def _serve(name: str) -> None:
    """Load a model in the runtime `name` and run it, until the parent closes the pipe."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")

    def send(kind: str, what: Any) -> None:
        pickle.dump((kind, what), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    source, options = pickle.load(sys.stdin.buffer)
    try:
        adapter = model_runtime(name).load()
        session = adapter.session(source, options)
    except Exception as error:  # a runtime may fail in any way
        send("refused", f"{type(error).__name__}: {error}")
        return
    send("version", getattr(adapter, "version", lambda: "")())
    while True:
        try:
            names, inputs = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        try:
            send("values", session.run(names, inputs))
        except Exception as error:
            send("refused", f"{type(error).__name__}: {error}")
    os._exit(0)  # after undefined behaviour a runtime may crash while it is torn down


if __name__ == "__main__":
    _serve(sys.argv[1])
