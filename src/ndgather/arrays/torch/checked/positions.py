"""Positions in the arguments of a call, their bounds, and the rules that find them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch

MASKS = (torch.bool, torch.uint8)  # if they are subscripts
_LISTED = 4096  # as a list, so many are checked faster than by several operators
Get: TypeAlias = Callable[[str], Any]  # returns an argument of a call by its name


class Entries(NamedTuple):
    """Positions or values that one argument of one call holds, and what they may be."""

    argument: str
    values: torch.Tensor
    axis: int
    of: str
    size: int | None  # None: there is no highest position
    lowest: int = 0
    end: int = 0  # the highest is size - 1 + end
    passed: int | torch.Tensor | None = None  # a value, or where values are, that are never read
    before: tuple[int, ...] = ()  # leads to `values` in the argument
    subscripts: tuple[bool, ...] = ()  # which axes of a subscripted tensor have an index
    problem: str = ""  # of values that are no positions
    limit: float | None = None  # the highest of values that are no positions
    wrong: torch.Tensor | None = None  # which values are wrong, if that is no matter of bounds
    allowed: str = ""  # a text instead of the bounds

    @property
    def highest(self) -> float:
        if self.limit is not None:
            return self.limit
        return sys.maxsize if self.size is None else self.size - 1 + self.end

    @property
    def kind(self) -> torch.dtype:
        """The dtype in which all values and bounds can be compared."""
        return torch.float64 if self.values.is_floating_point() else torch.int64

    def outside(self) -> torch.Tensor:
        if self.wrong is not None:
            return self.wrong
        values, passed = self.values.to(self.kind), self.passed
        bad = ~((values >= self.lowest) & (values <= self.highest))  # NaN is bad
        if passed is None:
            return bad
        return bad & ~(passed if isinstance(passed, torch.Tensor) else values == passed)

    def fit(self) -> bool:
        """Return whether all are in bounds: one wait for the device."""
        values = self.values
        if self.wrong is not None:
            return not self.wrong.any().item()
        low: Any = None
        if values.numel() == 1:
            low = high = values.item()
        elif values.is_cpu:
            low, high = (each.item() for each in torch.aminmax(values))
        else:
            low, high = torch.stack(torch.aminmax(values)).tolist()
        if self.lowest <= low and high <= self.highest:
            return True
        return self.passed is not None and not self.outside().any().item()

    def first(self) -> torch.Tensor:
        """Return how many are outside, the flat number of the first, and its value."""
        bad = self.outside().flatten()
        first = bad.byte().argmax().reshape(1)
        return torch.cat([bad.sum().reshape(1), first, self.values.to(self.kind).take(first)])


Found: TypeAlias = Iterator[Entries]


@dataclass(frozen=True)
class IndexRule:
    """Which argument of an operator holds positions, and on which axis of which tensor."""

    argument: str
    axis: int | str | None  # a number, or the parameter that has it; None: the flattened tensor
    of: str
    lowest: int = 0
    end: int = 0  # added to the highest
    from_end: bool = False  # negative positions count from the end
    size: str = ""  # the parameter that has the size of the axis; -1: no position is too high
    unlimited: bool = False  # no position is too high
    passed: str = ""  # the parameter that has a value that is never read

    def __call__(self, get: Get) -> Found:
        name, of = (each.replace("self", "input") for each in (self.argument, self.of))
        values, size, passed = get(self.argument), None, get(self.passed)
        if values is None or isinstance(values, int):
            return
        values = torch.as_tensor(values)  # lengths may be a list
        axis = get(self.axis) if isinstance(self.axis, str) else self.axis
        if self.size:
            size = get(self.size)
            size = math.prod(size) if isinstance(size, (list, tuple)) else size
        elif axis is None:
            size, of = get(self.of).numel(), f"{of}.flatten()"
        elif not self.unlimited:
            shape = get(self.of).shape or (1,)
            axis = range(len(shape))[axis]
            size = shape[axis]
        # A parameter that is None flattens, and then positions count from 0.
        from_end = self.from_end and not (axis is None and self.axis is not None)
        size = None if size == -1 else size
        lowest = -size if from_end and size is not None else self.lowest
        yield Entries(name, values, axis or 0, of, size, lowest, self.end, passed)


@dataclass(frozen=True)
class ValueRule:
    """Bounds of the values of an argument."""

    argument: str
    problem: str
    limit: float
    allowed: str

    def __call__(self, get: Get) -> Found:
        values = get(self.argument)
        if isinstance(values, torch.Tensor) and values.is_floating_point():
            name = self.argument.replace("self", "input")
            yield Entries(
                name,
                values,
                0,
                "",
                None,
                problem=self.problem,
                limit=self.limit,
                allowed=self.allowed,
            )


@dataclass(frozen=True)
class OrderRule:
    """Starts of the parts of another argument: in ascending order, and the first is 0."""

    bounds: IndexRule
    is_whole: bool = False  # the last is the length of the other argument

    def __call__(self, get: Get) -> Found:
        for entries in self.bounds(get):
            starts, size = entries.values, entries.size
            if starts.is_cpu and starts.dim() == 1 and len(starts) < _LISTED:
                listed = starts.tolist()
                ascends = listed[:1] == [0] and listed == sorted(listed)
                if ascends and (listed[-1] == size or (not self.is_whole and listed[-1] <= size)):
                    return
            yield entries
            before, after = starts[..., :-1], starts[..., 1:]
            named = entries._replace(size=None, problem="is out of order")
            wrong = torch.cat([starts[..., :1] != 0, after < before], -1)
            yield named._replace(wrong=wrong, allowed="0 first, then ascending")
            if self.is_whole:
                wrong = torch.cat([before < 0, starts[..., -1:] != size], -1)
                yield named._replace(wrong=wrong, problem="is not the last end", allowed=f"{size}")


@dataclass(frozen=True)
class SumRule:
    """Lengths of parts, which make up an axis of another argument."""

    argument: str
    axis: int | str
    of: str
    size: str = ""  # the parameter that has the sum, if it is given

    def __call__(self, get: Get) -> Found:
        lengths, total = get(self.argument), get(self.size)
        if lengths is None or (self.size and total is None):
            return
        lengths, what = torch.as_tensor(lengths), self.size
        axis = get(self.axis) if isinstance(self.axis, str) else self.axis
        if not what:
            total, what = get(self.of).shape[axis], f"the size of axis {axis} of {self.of}"
        sums = lengths.sum(-1)
        yield Entries(
            f"{self.argument}.sum(-1)",
            sums,
            axis,
            self.of,
            total,
            wrong=sums != total,
            problem=f"is not {what}",
            allowed=f"{total}",
        )
