"""Child processes that answer requests. A crash ends only the child, and its memory is separate.

A child runs a module of this repository that calls `serve`. Requests and answers are pickled in
turn. This module needs only the standard library, because a child may run in another environment.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread, Timer
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parents[1]


class ChildError(Exception):
    """The child raised an error or ended; `ended` distinguishes the two."""

    def __init__(self, text: str, *, ended: bool = False) -> None:
        super().__init__(text)
        self.ended = ended


class ChildProcess:
    """A process that runs `module`; `limit_s` limits the time of a request.

    `timed_out` is true if a request took longer, which ended the process.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        limit_s: float | None = None,
    ) -> None:
        self.limit_s, self.timed_out = limit_s, False
        self._log = TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [python, "-m", module, *arguments],
            cwd=ROOT,
            env=os.environ | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        Thread(target=self._end_others, daemon=True).start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:  # Ctrl-C does not reach the child
            self._process.kill()
        with suppress(OSError):  # the child ended with a request in the pipe
            self._requests.close()
        self._process.wait()
        self._answers.close()
        self._log.close()

    def ask(self, *request: Any) -> Any:
        """Return the answer to a request.

        Raises
        ------
        ChildError
            The child raised an error, ended, or took longer than its limit.
        """
        self.send(*request)
        return self.receive()

    def send(self, *request: Any) -> None:
        with suppress(BrokenPipeError):  # `receive` reports that the child ended
            pickle.dump(request, self._requests, pickle.HIGHEST_PROTOCOL)
            self._requests.flush()

    def receive(self) -> Any:
        timer = Timer(self.limit_s or 0, self._kill)
        if self.limit_s:
            timer.start()
        try:
            answer, error = pickle.load(self._answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise ChildError(self._end(), ended=True) from None
        finally:
            timer.cancel()
        if error is not None:
            raise ChildError(error)
        return answer

    def _kill(self) -> None:
        self.timed_out = True
        self._process.kill()

    def _end_others(self) -> None:
        """End processes that the child forked: they may outlive it and keep the pipe open."""
        self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> str:
        """Return the signal or the exit status with which the child ended."""
        status = self._process.wait()
        if status < 0:
            return f"ended by {signal.Signals(-status).name}"
        self._log.seek(0)
        last = self._log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"ended with exit status {status}{': ' if last else ''}{''.join(last)}"


def serve(answer: Callable[..., Any]) -> None:
    """Answer requests with ``answer(*request)`` until the parent closes the pipe.

    Output of libraries goes to standard error.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        reply: tuple[Any, str | None]
        try:
            reply = answer(*request), None
        except Exception as error:  # a library may fail in any way; the parent reports it
            reply = None, f"{type(error).__name__}: {error}"
        pickle.dump(reply, answers)
        answers.flush()
