"""One call of the core: its arguments, as data."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from ndgather import _core
from ndgather.errors import AttributeValueError, DTypeError
from ndgather.messages import shown_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]


__all__ = ["Call", "_core"]


def refusal(
    rule: str,
    facts: tuple[Any, ...] = (0, 0),
    data: tuple[int, ...] = (),
    indices: tuple[int, ...] = (),
    slices: tuple[int, ...] = (),
    updates: tuple[int, ...] = (),
) -> _core.Refusal:
    """Return a refusal as the core makes it; the last four are shapes."""
    return _core.Refusal((rule, facts, data, indices, slices, updates))


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one gather or scatter; a kind ignores those that it does not have."""

    caller: str  # the name that error texts begin with
    kind: str  # one of _core.KINDS
    data: Any
    indices: Any
    updates: Any = None
    axis: Any = 0
    batch_dims: Any = 0
    reduction: Any = "none"
    mode: Any = "raise"
    fill_value: Any = None
    use_init_val: Any = True
    out: Any = None
    negative: bool = True  # whether negative index values count from the end
    arithmetic: Any = None  # what the core has to be told about the type of data
    window_shape: tuple[int, ...] = ()  # of a gather of windows
    memory: Any = None  # bytes that buffers may take; this and the rest are for stored arrays
    progress: Any = None  # called with the numbers of chunks done and in all
    executor: Any = None  # where chunks are read, if not on threads of this process
    updates_name: str = "updates"  # what the caller calls them

    @property
    def scatters(self) -> bool:
        return self.kind.startswith("scatter")

    def repeatable(self) -> Callable[..., Array | _core.Refusal]:
        """Return a function that makes this call with other plain arrays, without conversion."""
        kind, rest = self.kind, self._options()

        def repeat(data: Array, indices: Array, updates: Array | None = None) -> Any:
            return _core.run(kind, data, indices, updates, *rest)

        return repeat

    @property
    def indices_name(self) -> str:
        return "starts" if self.kind == "gather_windows" else "indices"

    def named(self) -> tuple[tuple[str, Any], ...]:
        """Return the arrays of this call, each after the name that error texts have for it."""
        return (
            ("data", self.data),
            (self.indices_name, self.indices),
            (self.updates_name, self.updates),
            ("out", self.out),
        )

    def run(self) -> Array | _core.Refusal:
        """Make the call; return the result, or why the core refuses it."""
        return _core.run(*self.arguments())

    def arguments(self) -> tuple[Any, ...]:
        """Return the kind and the arguments as the core takes them."""
        return (self.kind, self.data, self.indices, self.updates, *self._options())

    def _options(self) -> tuple[Any, ...]:
        return (
            self.axis,
            self.batch_dims,
            self.reduction,
            self.mode,
            self.fill_value,
            self.use_init_val,
            self.out,
            self.negative,
            self.arithmetic,
            self.window_shape,
            self.memory,
            self.progress,
            self.executor,
        )


_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}iB"] = 1024**_power
_UNITS["kB"] = 1000  # as the SI writes it
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


class Executor(Protocol):
    """Anything that takes functions to call elsewhere, as `concurrent.futures` has them."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...


def checked(call: Call) -> Call:
    """Return `call` with its options checked: memory in bytes, and None for no progress."""
    caller, progress, executor = call.caller, call.progress, call.executor
    if progress is False:
        progress = None
    elif progress is not None and progress is not True and not callable(progress):
        raise DTypeError(
            f"{caller}: progress = {shown_value(progress)} cannot be called (allowed: True, or a "
            f"function of the numbers of chunks done and in all)"
        )
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise DTypeError(
            f"{caller}: executor = {shown_value(executor)} has no method submit (allowed: an "
            f"executor as in concurrent.futures)"
        )
    if call.memory is None and progress is call.progress:
        return call
    return replace(call, memory=_bytes(caller, call.memory), progress=progress)


def _bytes(caller: str, memory: object) -> int | None:
    if memory is None:
        return None
    if isinstance(memory, str):
        match = _SIZE.fullmatch(memory)
        unit = _UNITS.get(match[2]) if match else None
        if match is not None and unit is not None:
            return int(min(float(match[1]) * unit, sys.maxsize))  # more is no bound
    elif isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return int(memory)
    raise AttributeValueError(
        f"{caller}: memory = {shown_value(memory)} is not a number of bytes (allowed: an integer "
        f"from 0 on, or a number with a unit, such as '512 MiB'; units are "
        f"{', '.join(filter(None, _UNITS))})"
    )
