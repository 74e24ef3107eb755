"""Calls by seed that are large enough for threads to share, and what NumPy makes of them in one.

`places` is the definition of a function as arrays: the flat position in data, in rows, of each row
of the result or of updates. `expected` copies or applies these one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.definitions import reference
from tests.definitions.calls import LAYOUTS
from tests.definitions.strategies import distinct, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = NDArray[Any]

#: Which of so many places n index tuples name: how the work is spread over data.
SKEWS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "uniform": lambda rng, n, places: rng.integers(0, places, n),
    "most on the last line": lambda rng, n, places: np.where(
        rng.random(n) < 0.9,
        places - 1 - rng.integers(0, min(places, 16), n),
        rng.integers(0, places, n),
    ),
    "most at the first": lambda rng, n, places: np.where(
        rng.random(n) < 0.9, 0, rng.integers(0, places, n)
    ),
    "one place": lambda rng, n, places: np.full(n, rng.integers(0, places)),
    "in order": lambda rng, n, places: np.sort(rng.integers(0, places, n)),
    "backwards": lambda rng, n, places: np.sort(rng.integers(0, places, n))[::-1],
    "neighbours in turn": lambda rng, n, places: (  # rows of several threads share their lines
        (rng.integers(0, places) + np.arange(n) % min(places, 40)) % places
    ),
    "far apart in turn": lambda _, n, places: np.arange(n) % 8 * (places // 8),
}

GATHERS = ("gather_nd", "gather_elements", "gather", "gather_windows", "gather_ranges")
SCATTERS = ("scatter_nd", "scatter_elements")
GRADIENTS = tuple(
    f"vjp.{name}" for name in ("gather_nd", "gather_elements", "gather_windows", "gather_ranges")
)
FUNCTIONS = (*GATHERS, *SCATTERS, *GRADIENTS)

INDEX_DTYPES = (*map(np.dtype, "bBhHiIqQ"), np.dtype(">i4"), np.dtype(">i8"))
OF_BYTES = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn"))
MOVED = (
    *map(np.dtype, "?bhiqefdgDG"),
    *map(np.dtype, (">f4", "M8[s]", "S5", "V3", "V13", "V40")),
    np.dtype([("number", "u1"), ("value", "f8")]),
    *OF_BYTES,
)
NUMBERS = (*map(np.dtype, "?bBhHiIqQefdgFD"), np.dtype(">i4"), np.dtype(">f8"), *OF_BYTES)
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")
_NOT_OF = {"b": ("mean",), "i": (), "f": (), "c": ("min", "max")}

UFUNCS = {
    "add": np.add,
    "mean": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@dataclass(frozen=True, kw_only=True)
class LargeCall:
    """The arguments of one call of `ndgather.<function>`; data is the cotangent of a gradient."""

    function: str
    data: Array
    named: tuple[Array, ...]  # indices; starts; starts and stops
    updates: Array | None = None
    options: dict[str, Any] = field(default_factory=dict)
    data_shape: tuple[int, ...] = ()  # of a gradient

    def arguments(self) -> tuple[Any, ...]:
        if self.data_shape:
            return (self.data, self.data_shape, *self.named)
        updates = () if self.updates is None else (self.updates,)
        return (self.data, *self.named, *updates)

    def __str__(self) -> str:
        arrays = [f"<{a.dtype} {a.shape} strides {a.strides}>" for a in (self.data, *self.named)]
        return f"{self.function}({', '.join(arrays)}, {self.data_shape}, {self.options})"


def floats(rng: np.random.Generator, shape: int | tuple[int, ...], char: Any = "f") -> Array:
    """Return numbers whose sums depend on the order, in every bit."""
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 8, shape))).astype(char)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, factor: bool) -> Array:
    """Return elements whose sum, or product, says in which order they came."""
    kind = kind_of(dtype)
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "i":
        bounds = np.iinfo(dtype)
        native = dtype.newbyteorder("=")
        whole = rng.integers(bounds.min, bounds.max, shape, native, endpoint=True)
        return (whole | 1 if factor else whole).astype(dtype)  # a product of odd ones is no 0
    if kind == "c":
        turns = np.array([1, -1, 1j, -1j])  # any rounding of a product gives these
        if factor:
            return turns[rng.integers(0, 4, shape)].astype(dtype)
        return (floats(rng, shape, "d") + 1j * floats(rng, shape, "d")).astype(dtype)
    made = 1 + floats(rng, shape, "d") / 2**12 if factor else floats(rng, shape, "d")
    if dtype not in OF_BYTES and not factor and rng.random() < 0.3:
        flat = made.reshape(-1)
        flat[rng.integers(0, flat.size, 20)] = rng.choice([np.inf, -np.inf, np.nan], 20)
    if rng.random() < 0.3:
        made = np.where(rng.random(shape) < 0.5, np.copysign(0.0, made), made)
    with np.errstate(all="ignore"):
        return made.astype(dtype)


def resolved(values: Array, size: int, mode: str) -> Array:
    """Return the position on an axis that each index names, or -1 for one that names none."""
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
    if mode == "wrap":
        return np.mod(wide, size).astype(np.int64)
    if mode == "clip":
        return np.clip(wide, 0, size - 1).astype(np.int64)
    inside = (wide >= -size) & (wide < size)
    kept = np.where(inside, wide, 0).astype(np.int64)
    return np.where(inside, np.where(kept < 0, kept + size, kept), -1)


def _padded(position: Array, size: int, mode: str) -> Array:
    if mode == "wrap":
        return position % size
    if mode in ("edge", "clip"):
        return np.clip(position, 0, size - 1)
    if mode == "reflect":
        position = position % max(2 * (size - 1), 1)
        return np.minimum(position, max(2 * (size - 1), 1) - position) if size > 1 else position * 0
    return np.where((position >= 0) & (position < size), position, -1)


def _flat(coordinates: Sequence[Array], sizes: Sequence[int]) -> Array:
    flat, inside = np.int64(0), np.bool_(True)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        flat, inside = flat * size + coordinate, inside & (coordinate >= 0)
    return np.where(inside, flat, -1)


def _along(values: Array, axis: int, rank: int) -> Array:
    """Return the last axis of `values` as this one of so many behind the others."""
    return values.reshape(
        *values.shape[:-1], *[1] * axis, values.shape[-1], *[1] * (rank - axis - 1)
    )


def places(call: LargeCall) -> tuple[Array, tuple[int, ...]]:
    """Return where in data each row of the result or of updates is, -1: nowhere; and its shape."""
    shape, mode = call.data_shape or call.data.shape, call.options.get("mode", "raise")
    kind = call.function.removeprefix("vjp.")
    axis, batch = call.options.get("axis", 0) % len(shape), call.options.get("batch_dims", 0)
    if kind == "gather_ranges":
        starts, stops = (each.astype(np.int64) for each in call.named)
        offsets = np.cumsum(stops - starts) - (stops - starts)
        taken = np.repeat(starts - offsets, stops - starts) + np.arange(int((stops - starts).sum()))
        if mode in ("wrap", "clip"):
            taken = resolved(taken, shape[axis], mode)
        taken = np.where((taken >= 0) & (taken < shape[axis]), taken, -1)
        lead = np.indices(shape[:axis], sparse=True)
        coordinates = [*(each[..., np.newaxis] for each in lead), taken]
        return _flat(coordinates, shape[: axis + 1]), shape[axis + 1 :]
    (indices,) = call.named
    if kind == "gather_windows":
        window, depth = call.options["window_shape"], indices.shape[-1]
        modes = [mode] * depth if isinstance(mode, str) else mode
        coordinates = []
        for c in range(depth):
            start = indices[..., c].astype(np.int64)
            if modes[c] == "clip":
                start = np.clip(start, 0, shape[c] - window[c])
            steps = _along(start[..., np.newaxis] + np.arange(window[c]), c, depth)
            coordinates.append(_padded(steps, shape[c], modes[c]))
        return _flat(coordinates, shape[:depth]), shape[depth:]
    if kind.endswith("_nd"):
        depth = indices.shape[-1]
        named = [resolved(indices[..., c], shape[batch + c], mode) for c in range(depth)]
        lead = np.indices(indices.shape[:-1], sparse=True)[:batch]
        return _flat([*lead, *named], shape[: batch + depth]), shape[batch + depth :]
    if kind == "gather":
        outer = np.indices(shape[:axis], sparse=True)
        lead = indices.reshape(
            indices.shape[:batch] + (1,) * (axis - batch) + indices.shape[batch:]
        )
        more = (1,) * (indices.ndim - batch)
        coordinates = [*(each.reshape(each.shape + more) for each in outer)]
        coordinates.append(resolved(lead, shape[axis], mode))
        return _flat(coordinates, shape[: axis + 1]), shape[axis + 1 :]
    named = list(np.indices(indices.shape, sparse=True))
    named[axis] = resolved(indices, shape[axis], mode)
    return _flat(named, shape), ()


def in_order(
    data: Array, places: Array, updates: Array, reduction: str, *, use_init_val: bool = True
) -> Array:
    """Return rows of data after one update after the other, by NumPy's own loops in one thread."""
    result = data.copy()
    if reduction == "none":
        last, first_from_behind = np.unique(places[::-1], return_index=True)
        result[last] = updates[::-1][first_from_behind]
        return result
    if not use_init_val:
        result[places] = reference.identity(reduction, data.dtype)  # type: ignore[arg-type]
    ufunc = UFUNCS[reduction]
    if data.dtype == bool and reduction == "sub":
        ufunc = np.logical_xor
    with np.errstate(all="ignore"):
        ufunc.at(result, places, updates)
        if reduction == "mean":
            touched, counts = np.unique(places, return_counts=True)
            counts = (counts + use_init_val).reshape(-1, *[1] * (data.ndim - 1))
            result[touched] = _divided(result[touched], counts)
    if reduction in ("min", "max") and kind_of(data.dtype) == "f":
        _first_zeros(result, data, places, updates, use_init_val)
    return result


def _first_zeros(
    result: Array, data: Array, places: Array, updates: Array, use_init_val: bool
) -> None:
    """Give each 0 the sign of the first one that came: another 0 is not less or greater."""
    rows, columns = np.nonzero(updates.reshape(len(places), -1) == 0)
    rows, columns = rows[::-1], columns[::-1]  # the first of a place is assigned last
    negative = np.signbit(data).reshape(len(data), -1)
    first = negative.copy()
    first[places[rows], columns] = np.signbit(updates.reshape(len(places), -1)[rows, columns])
    if use_init_val:
        first = np.where(data.reshape(first.shape) == 0, negative, first)
    zeros = result == 0
    result[zeros] = np.where(first.reshape(result.shape)[zeros], -0.0, 0.0).astype(result.dtype)


def _divided(total: Array, counts: Array) -> Array:
    if kind_of(total.dtype) == "c":
        parts = np.empty_like(total)
        parts.real, parts.imag = _divided(total.real, counts), _divided(total.imag, counts)
        return parts
    if kind_of(total.dtype) == "i":
        wide = total.astype(np.uint64 if total.dtype.kind == "u" else np.int64)
        return (wide // counts.astype(wide.dtype)).astype(total.dtype)
    wide = total.astype(np.longdouble if total.dtype.char == "g" else np.float64)
    return (wide / counts.astype(wide.dtype)).astype(total.dtype)


def expected(call: LargeCall) -> Array:
    """Return the result as a new array in C order; of ranges, their values."""
    where, rest = places(call)
    flat, row = where.reshape(-1), (prod(rest),)
    rows, kept = np.ascontiguousarray(call.data).reshape(-1, *row), flat >= 0
    if call.data_shape:
        zeros = np.zeros((prod(call.data_shape) // prod(rest), *row), call.data.dtype)
        return in_order(zeros, flat[kept], rows[kept], "add").reshape(call.data_shape)
    dtype, as_bytes = rows.dtype, f"V{rows.dtype.itemsize}"
    if call.updates is None:
        made = rows.view(as_bytes)[flat]
        made[~kept] = call.options.get("fill_value", np.zeros((), dtype)).view(as_bytes)
        return made.view(dtype).reshape(where.shape + rest)
    updates = np.ascontiguousarray(call.updates).reshape(-1, *row)
    if (reduction := call.options["reduction"]) == "none":
        rows, updates = rows.view(as_bytes), updates.view(as_bytes)
    init = call.options.get("use_init_val", True)
    made = in_order(rows, flat[kept], updates[kept], reduction, use_init_val=init)
    return made.view(dtype).reshape(call.data.shape)


_LAYOUTS = ("C", "C", "F", "negative strides", "every second", "unaligned")
_MODES = {
    "gather_windows": ("raise", "clip", "fill", "wrap", "edge", "reflect"),
    "scatter_nd": ("raise", "wrap", "clip", "drop"),
    "scatter_elements": ("raise", "wrap", "clip", "drop"),
}


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What a call is drawn from: so many tuples, of about so many places of rows of a shape."""

    rng: np.random.Generator
    skew: Callable[[np.random.Generator, int, int], Array]
    count: int
    size: int
    rest: tuple[int, ...]
    dtype: np.dtype[Any]  # of indices
    mode: str

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def values(self, places: Array, size: int) -> Array:
        """Return index values: some from the end of an axis, some outside where they may be."""
        values = np.where(self.rng.random(places.shape) < 0.5, places - size, places)
        if self.mode == "wrap":
            values = values + size * self.rng.integers(-2, 3, places.shape)
        elif self.mode != "raise":
            outside = self.rng.choice([size, -size - 1, 2**15, -(2**31), 2**62], places.shape)
            values = np.where(self.rng.random(places.shape) < 0.1, outside, values)
        return self.held(values, places)

    def held(self, values: Array, instead: Array) -> Array:
        bounds = np.iinfo(self.dtype)
        fit = (values >= int(bounds.min)) & (values <= min(int(bounds.max), 2**63 - 1))
        return np.where(fit, values, instead).astype(self.dtype)

    def sides(self, size: int, rank: int) -> tuple[int, ...]:
        """Return sizes that make about one of `size`, none longer than the dtype can name."""
        sides: list[int] = []
        for left in range(rank, 0, -1):
            wanted = round((size / prod(sides)) ** (1 / left))
            sides.append(max(min(wanted, int(np.iinfo(self.dtype).max) + 1), 1))
        return tuple(sides)


def _tuples(work: _Work, options: dict[str, Any], batched: bool) -> tuple[Any, ...]:
    batch = (work.one_of(2, 5),) if batched and work.rng.random() < 0.4 else ()
    sides = work.sides(work.size // prod(batch), work.one_of(1, 1, 2, 3))
    lead = (*batch, work.count // prod(batch))
    flat = work.skew(work.rng, prod(lead), prod(sides)).reshape(lead)
    columns = zip(np.unravel_index(flat, sides), sides, strict=True)
    if batch:
        options["batch_dims"] = 1
    indices = np.stack([work.values(column, size) for column, size in columns], -1)
    return (*batch, *sides, *work.rest), indices


def _elements(work: _Work, options: dict[str, Any]) -> tuple[Any, ...]:
    others = work.one_of((), (7,), (500,), (40, 3), (2, 300))
    axis = options["axis"] = int(work.rng.integers(-len(others) - 1, len(others) + 1))
    axis %= len(others) + 1
    (size,) = work.sides(work.size // prod(others), 1)
    taken = [each - (work.rng.random() < 0.3) for each in others]
    taken.insert(axis, max(work.count // prod(taken), 1))
    named = work.skew(work.rng, prod(taken), size).reshape(taken)
    return (*others[:axis], size, *others[axis:]), work.values(named, size)


def _slices(work: _Work, options: dict[str, Any]) -> tuple[Any, ...]:
    outer = work.one_of((), (), (3,), (2, 5))
    options |= {"axis": len(outer), "batch_dims": int(work.rng.integers(0, len(outer) + 1))}
    (size,) = work.sides(work.size // prod(outer), 1)
    middle = (*outer[: options["batch_dims"]], *work.one_of((-1,), (2, -1)))
    named = work.skew(work.rng, work.count // prod(outer) // 2 * 2 * prod(middle[:-1]), size)
    return (*outer, size, *work.rest), work.values(named.reshape(middle), size)


def _windows(work: _Work, options: dict[str, Any]) -> tuple[Any, ...]:
    depth = work.one_of(1, 2)
    window = tuple(map(int, work.rng.integers(1, 5, depth)))
    sides = tuple(size + 4 for size in work.sides(work.size, depth))
    inside = [size - wide + 1 for size, wide in zip(sides, window, strict=True)]
    flat = work.skew(work.rng, work.count // prod(window), prod(inside))
    options["window_shape"] = window
    columns = []
    for named in np.unravel_index(flat, inside):
        start = named if np.iinfo(work.dtype).max > 2**31 else named % 100
        moved = start + work.rng.integers(-9, 9, start.shape) * (work.rng.random(start.shape) < 0.3)
        columns.append(start if work.mode == "raise" else moved)
    starts = np.stack(columns, -1)
    return (*sides, *work.rest), work.held(starts, np.zeros_like(starts))


def _ranges(work: _Work, options: dict[str, Any]) -> tuple[Any, ...]:
    lead = work.one_of((), (3,))
    options["axis"] = len(lead)
    (size,) = work.sides(work.size // prod(lead), 1)
    total = work.count // prod(lead)
    lengths = work.rng.integers(0, min(9, size + 1), total // 5)
    if work.rng.random() < 0.3:  # one of them has most of the work
        lengths[work.rng.integers(len(lengths))] = min(total, size)
    starts = work.skew(work.rng, len(lengths), size)
    if work.mode == "raise":
        starts = np.minimum(starts, size - lengths)
    elif work.dtype.kind == "i":
        starts = starts - 4
    first = work.held(starts, starts * 0)
    last = work.held(first.astype(np.int64) + lengths, first)
    return (*lead, size, *work.rest), first, last


_GEOMETRIES: dict[str, Callable[[_Work, dict[str, Any]], tuple[Any, ...]]] = {
    "gather_nd": lambda work, options: _tuples(work, options, True),
    "scatter_nd": lambda work, options: _tuples(work, options, False),
    "gather_elements": _elements,
    "scatter_elements": _elements,
    "gather": _slices,
    "gather_windows": _windows,
    "gather_ranges": _ranges,
}


def large_call(function: str, skew: str, seed: int, **chosen: Any) -> LargeCall:
    """Draw a call of 20,000 to 300,000 index tuples, of fewer where each names a row.

    `chosen` has the `dtype`, `index_dtype`, `mode` and `reduction`, or some of them.
    """
    rng = np.random.default_rng(seed)

    def one_of(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    kind, of_gradient = function.removeprefix("vjp."), function in GRADIENTS
    moves = function in GATHERS or (function in SCATTERS and rng.random() < 0.3)
    moves = chosen["reduction"] == "none" if "reduction" in chosen else moves
    dtype = chosen.get("dtype") or one_of(
        *(MOVED if moves else NUMBERS[1:] if of_gradient else NUMBERS)
    )
    mode = chosen.get("mode") or one_of(*_MODES.get(kind, ("raise", "wrap", "clip", "fill")))
    mode = "raise" if of_gradient and kind != "gather_windows" else mode
    rest = one_of((), (), (), (3,), (17,), (2, 3), (300,))
    work = _Work(
        rng=rng,
        skew=SKEWS[skew],
        count=min(int(20_000 * 15 ** rng.random()), 600_000 // prod(rest)),
        size=min(one_of(7, 300, 5_000, 60_000, 400_000), 1_000_000 // prod(rest)),
        rest=rest,
        dtype=chosen.get("index_dtype") or one_of(*INDEX_DTYPES),
        mode=mode,
    )
    options: dict[str, Any] = {} if of_gradient and mode == "raise" else {"mode": mode}
    shape, *named = _GEOMETRIES[kind](work, options)
    named = [LAYOUTS[one_of(*_LAYOUTS)](each) for each in named]
    call = LargeCall(
        function=function,
        data=np.zeros(shape, "V1"),
        named=tuple(named),
        options=options,
        data_shape=shape if of_gradient else (),
    )
    where, rest = places(call)
    if mode == "fill" and not of_gradient and rng.random() < 0.5:
        options["fill_value"] = distinct((5,), dtype)[4:].reshape(())
    allowed = [name for name in REDUCTIONS if name not in _NOT_OF.get(kind_of(dtype), ())]
    reduction = "none" if moves else chosen.get("reduction") or one_of(*allowed)

    def made(shape: tuple[int, ...]) -> Array:
        drawn = distinct(shape, dtype) if moves else _numbers(rng, shape, dtype, reduction == "mul")
        return LAYOUTS[one_of(*_LAYOUTS)](drawn)

    if function not in SCATTERS:
        return replace(call, data=made(where.shape + rest if of_gradient else shape))
    options["reduction"] = reduction
    if reduction != "none" and rng.random() < 0.3:
        options["use_init_val"] = False
    return replace(call, data=made(shape), updates=made(where.shape + rest))
