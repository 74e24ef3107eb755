"""Run models in child processes, so that a crashing runtime ends only the child.

The parent sends pickled requests: first the source and load options of a model, and then the output
names and the inputs of each run. The child replies with ``("version", text)``, ``("values", list)``
or ``("refused", text)``. All output of the runtime is redirected to standard error.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from tempfile import TemporaryFile
from threading import TIMEOUT_MAX, Timer
from typing import Any, Self

from ndgather.messages import shortened
from ndgather.runtimes import model_runtime
from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource

LIMIT_S = 600.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def _die_with_parent() -> None:
    """On Linux, let the kernel kill this process when its parent exits."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a run: values, an error text, or a description of the crash."""

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
        """The error message on a single line, or an empty string if the run succeeded."""
        return shortened(self.crashed or self.refused or "")


class _Child:
    """A process that runs this module with the given arguments and answers requests.

    The process has the same import path as its parent, so it does not import modules from the
    working folder by accident. If `shows_errors` is true, the process inherits standard error.
    """

    def __init__(
        self, arguments: Sequence[str], limit_s: float, *, shows_errors: bool = False
    ) -> None:
        self._limit_s, self._timed_out = limit_s, False
        self._printed = TemporaryFile()  # noqa: SIM115 - closed with the process
        path = os.pathsep.join(folder or os.curdir for folder in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ndgather.runtimes.children", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if shows_errors and sys.stderr else self._printed,
            env={**os.environ, "PYTHONPATH": path},
        )

    def ask(self, request: object) -> tuple[str, Any]:
        """Return the answer to a request, or "crashed" and the exit reason."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = Timer(min(self._limit_s, TIMEOUT_MAX), self._end_late)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump(request, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
            answer: tuple[str, Any] = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            return "crashed", self._end()
        finally:
            timer.cancel()
        return answer

    def _end_late(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _end(self) -> str:
        """Wait until the process has ended, and return the reason why it ended."""
        status = self._process.wait()
        if self._timed_out:
            return f"it did not end in {self._limit_s:g} s (the limit of --timeout, timeout=)"
        if status < 0:
            return signal.Signals(-status).name
        self._printed.seek(0)
        last = self._printed.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"exit status {status}{': ' if last else ''}{''.join(last)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:  # a signal does not interrupt a running model
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # raised if a request cannot be flushed
                    stream.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._printed.close()


class RuntimeProcess(_Child):
    """A model loaded by a runtime in a separate process.

    If the runtime could not load the model, `version` is empty, and `failed` contains the error or
    the description of the crash.
    """

    def __init__(
        self, runtime: str, source: ModelSource, options: LoadOptions, *, limit_s: float = LIMIT_S
    ) -> None:
        super().__init__([runtime], limit_s)
        self.version, self.failed = "", None
        try:
            kind, what = self.ask((source, options))
        except BaseException as error:  # signal handlers may raise errors
            self.__exit__(error)
            raise
        if kind == "version":
            self.version = what
        else:
            self.failed = Answer(**{kind: what})

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> Answer:
        """Run the model, or repeat the earlier error if loading failed or the process crashed."""
        if self.failed is not None:
            return self.failed
        kind, what = self.ask((list(names), dict(inputs)))
        answer = Answer(**{kind: what})
        if answer.crashed is not None:
            self.failed = answer
        return answer


def call_isolated(
    module: str,
    function: str,
    arguments: Sequence[object],
    limit_s: float,
    *,
    shows_errors: bool = False,
) -> tuple[str, Any]:
    """Call a function in a separate process.

    Return "returned" and the result, "raised" and the exception, or "crashed" and the exit reason.
    If `shows_errors` is true, the process inherits standard error.
    """
    with _Child([module, function], limit_s, shows_errors=shows_errors) as child:
        return child.ask(arguments)


def _answer_pipe() -> Callable[[str, Any], None]:
    """Redirect standard output to standard error, and return a function to send answers."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, the parent ends this process
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(kind: str, what: Any) -> None:
        pickle.dump((kind, what), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    return send


def _call(module: str, function: str) -> None:
    """Call a function with the arguments that the parent sends."""
    send = _answer_pipe()
    try:
        called = getattr(import_module(module), function)
        answer = "returned", called(*pickle.load(sys.stdin.buffer))
    except Exception as error:
        answer = "raised", error
    send(*answer)
    os._exit(0)


def _serve(name: str) -> None:
    """Load a model in the runtime `name` and run it until the parent closes the pipe."""
    send = _answer_pipe()
    warnings.simplefilter("ignore")
    source, options = pickle.load(sys.stdin.buffer)
    try:
        adapter = model_runtime(name).load()
        session = adapter.session(source, options)
    except Exception as error:  # runtimes raise arbitrary exceptions
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
    os._exit(0)  # skip the teardown of the runtime, which may crash


if __name__ == "__main__":
    _serve(*sys.argv[1:]) if len(sys.argv) == 2 else _call(*sys.argv[1:])
