"""Who is told how far a walk has come: a function of the caller's, or a bar of tqdm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ndgather.errors import run_errors

if TYPE_CHECKING:
    from collections.abc import Callable


class Report(Protocol):
    """Is called with the numbers of chunks done and in all, and closed at the end."""

    def __call__(self, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class _Calls:
    """Calls a function of the caller's, or nobody."""

    def __init__(self, function: Callable[[int, int], object] | None) -> None:
        self._function = function

    def __call__(self, done: int, total: int) -> None:
        if self._function is not None:
            self._function(done, total)

    def close(self) -> None:
        pass


class _Bar:
    """A bar of tqdm."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm  # noqa: PLC0415 - an optional package
        except ImportError:
            raise run_errors.extra_missing("tqdm", "stores") from None
        self._make = tqdm
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, unit="chunk")
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def reporter(progress: Any) -> Report:
    """Return whom to tell: a bar for True, nobody for None."""
    return _Bar() if progress is True else _Calls(progress)
