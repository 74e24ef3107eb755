"""Positions in the arguments of a call, their bounds, and rules that find them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch

MASKS = (torch.bool, torch.uint8)  # a subscript of these dtypes is a mask
_LISTED = 4096  # shorter arrays are checked faster as lists
Get: TypeAlias = Callable[[str], Any]  # returns the argument with a given name


class Entries(NamedTuple):
    """Positions or other values in an argument of a call, and their bounds."""

    argument: str
    values: torch.Tensor
    axis: int
    of: str
    size: int | None  # None if positions have no upper bound
    lowest: int = 0
    end: int = 0  # the highest allowed position is size - 1 + end
    passed: int | torch.Tensor | None = None  # an ignored value, or flags of ignored values
    before: tuple[int, ...] = ()  # where `values` is in the argument: its leading coordinates
    subscripts: tuple[bool, ...] = ()  # which axes of a subscripted tensor have an index
    problem: str = ""  # the error text, if the values are not positions
    limit: float | None = None  # the highest allowed value, if the values are not positions
    wrong: torch.Tensor | None = None  # flags of invalid values, used instead of bounds
    allowed: str = ""  # the text that replaces the bounds in an error

    @property
    def highest(self) -> float:
        if self.limit is not None:
            return self.limit
        return sys.maxsize if self.size is None else self.size - 1 + self.end

    @property
    def kind(self) -> torch.dtype:
        """The dtype in which values are compared with their bounds."""
        return torch.float64 if self.values.is_floating_point() else torch.int64

    def outside(self) -> torch.Tensor:
        if self.wrong is not None:
            return self.wrong
        values, passed = self.values.to(self.kind), self.passed
        bad = ~((values >= self.lowest) & (values <= self.highest))  # NaN is out of bounds
        if passed is None:
            return bad
        return bad & ~(passed if isinstance(passed, torch.Tensor) else values == passed)

    def fit(self) -> bool:
        """Return whether all values are in bounds, waiting for the device at most twice."""
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
        """Return the number of out-of-bounds values, the flat index of the first, and its value."""
        bad = self.outside().flatten()
        first = bad.byte().argmax().reshape(1)
        return torch.cat([bad.sum().reshape(1), first, self.values.to(self.kind).take(first)])


Found: TypeAlias = Iterator[Entries]


@dataclass(frozen=True)
class IndexRule:
    """A rule for an argument with positions on an axis of the tensor that `of` names."""

    argument: str
    axis: int | str | None  # a number, the name of a parameter, or None for the flattened tensor
    of: str
    lowest: int = 0
    end: int = 0  # added to the highest allowed position
    from_end: bool = False  # whether negative positions count from the end
    size: str = ""  # the parameter that specifies the axis size, or -1 for unlimited
    unlimited: bool = False  # whether positions have no upper bound
    passed: str = ""  # the parameter that specifies an ignored value

    def __call__(self, get: Get) -> Found:
        name, of = (each.replace("self", "input") for each in (self.argument, self.of))
        values, size, passed = get(self.argument), None, get(self.passed)
        if values is None or isinstance(values, int):
            return
        values = torch.as_tensor(values)  # `lengths` may be a list
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
        # If the axis parameter is None, the tensor is flattened and negative positions are invalid.
        from_end = self.from_end and not (axis is None and self.axis is not None)
        size = None if size == -1 else size
        lowest = -size if from_end and size is not None else self.lowest
        yield Entries(name, values, axis or 0, of, size, lowest, self.end, passed)


@dataclass(frozen=True)
class ValueRule:
    """A rule for an argument with floats between 0 and `limit`."""

    argument: str
    problem: str
    limit: float
    allowed: str

    def __call__(self, get: Get) -> Found:
        values = get(self.argument)
        if isinstance(values, torch.Tensor) and values.is_floating_point():
            name = self.argument.replace("self", "input")
            entries = Entries(name, values, 0, "", None, problem=self.problem)
            yield entries._replace(limit=self.limit, allowed=self.allowed)


@dataclass(frozen=True)
class OrderRule:
    """A rule for offsets into another argument, which must be ascending and start at 0."""

    bounds: IndexRule
    is_whole: bool = False  # whether the last offset must be the length of the other argument

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
    """A rule for lengths whose sum must equal the size of an axis of another argument."""

    argument: str
    axis: int | str
    of: str
    size: str = ""  # the parameter that specifies the expected sum, if any

    def __call__(self, get: Get) -> Found:
        lengths, total = get(self.argument), get(self.size)
        if lengths is None or (self.size and total is None):
            return
        lengths, what = torch.as_tensor(lengths), self.size
        axis = get(self.axis) if isinstance(self.axis, str) else self.axis
        if not what:
            total, what = get(self.of).shape[axis], f"the size of axis {axis} of {self.of}"
        sums, name = lengths.sum(-1), f"{self.argument}.sum(-1)"
        entries = Entries(name, sums, axis, self.of, total, wrong=sums != total)
        yield entries._replace(problem=f"is not {what}", allowed=f"{total}")
