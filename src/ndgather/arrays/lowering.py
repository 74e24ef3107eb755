"""Gathers and scatters built from the functions of an array library, on the device of its arrays.

An adapter implements about a dozen primitives in a `Library`, and this module implements the
algorithm. The function `coordinates_of` converts index values to coordinates, `rows_of` converts
coordinates to row numbers, and `Library.take` selects rows. In ``mode="raise"``, only a single flag
is copied from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import add, or_
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from ndgather import arguments, reductions, slow_path, windows
from ndgather.array_call import Call, Kind, _core
from ndgather.axes import Axes
from ndgather.errors import AttributeValueError

Shape: TypeAlias = Sequence[Any]  # sizes are ints or, in a traced graph, scalars of the library


class Library:
    """The primitives of gathers and scatters, implemented with the array API standard.

    `xp` is the array API namespace, and `options` are keyword arguments of functions that create
    arrays, for example ``device``.
    """

    def __init__(self, xp: Any, data: Any, **options: Any) -> None:
        self.xp, self.data, self.options = xp, data, options
        self.numbers: Any = None  # the row number of each update, for `scatter`
        self.drops = False  # whether the row number `count` marks updates that are dropped
        self.fills = False  # whether entries that fail a deferred check are filled or dropped

    def arange(self, size: Any) -> Any:
        return self.xp.arange(size, dtype=self.xp.int64, **self.options)

    def integers(self, indices: Any, modulus: Any) -> Any:
        """Return indices as int64, reduced modulo `modulus` or, if `modulus` is None, clipped."""
        xp = self.xp
        if indices.dtype == getattr(xp, "uint64", None):
            if modulus is not None:
                size = xp.asarray(modulus, dtype=xp.uint64, **self.options)
                return xp.astype(indices % size, xp.int64)
            largest = xp.asarray(windows.LARGEST, dtype=xp.uint64, **self.options)
            indices = self.where(indices > largest, largest, indices)
        values = xp.astype(indices, xp.int64)
        return values if modulus is None else values % modulus

    def raise_if_any(self, outside: Any, error: Callable[[Any], Exception]) -> bool:
        """Raise ``error(flat_index)`` if a flag is true, or return False if the flags are lazy."""
        xp = self.xp
        try:
            is_any = bool(xp.any(outside))
        except MemoryError:
            raise
        except Exception:  # lazy arrays have no values yet
            return False
        if is_any:
            raise error(xp.argmax(xp.astype(xp.reshape(outside, (-1,)), xp.int64)))
        return True

    def count(self, flags: Any) -> Any:
        return self.xp.sum(self.xp.astype(flags, self.xp.int64))

    def beyond(self, size: Any) -> Any:
        """Return an out-of-bounds row number, which raises an error when the graph runs."""
        return size

    def clip(self, values: Any, lowest: Any, highest: Any) -> Any:
        return self.where(values < lowest, lowest, self.where(values > highest, highest, values))

    def reshape(self, array: Any, shape: Shape) -> Any:
        return self.xp.reshape(array, tuple(shape))

    def broadcast(self, array: Any, shape: Shape) -> Any:
        return self.xp.broadcast_to(array, tuple(shape))

    def where(self, condition: Any, true: Any, false: Any) -> Any:
        if not hasattr(true, "dtype"):
            true = self.xp.asarray(true, dtype=false.dtype, **self.options)
        return self.xp.where(condition, true, false)

    def full(self, shape: Shape, element: Any) -> Any:
        return self.xp.full(tuple(shape), element, dtype=self.data.dtype, **self.options)

    def take(self, data: Any, numbers: Any) -> Any:
        return self.xp.take(data, numbers, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Data flattened to blocks of rows, where indices select the same rows from each block.

    The axes ``:first`` of data are flattened to blocks, the axes ``first:end`` to the rows of a
    block, and the axes ``end:`` to the elements of a row.

    For ``gather(data, indices, axis=2, batch_dims=1)`` with data of shape (B, C, D, E) and indices
    of shape (B, I), data is one block of B * C * D rows with E elements each. The fields are
    ``first=0``, ``end=3`` and ``positions=(B, C, I)``. Without `batch_dims`, data is B * C blocks
    of D rows, and the fields are ``first=2``, ``end=3`` and ``positions=(B, I)``.
    """

    roles: Axes
    first: int
    end: int
    data: Shape
    shape: Shape  # the shape of the coordinates, which is broadcast to `positions`
    positions: Shape  # the shape of the result's positions
    result: Shape

    @property
    def axes(self) -> Sequence[int]:
        """The axes of data whose coordinates come from indices."""
        return self.roles.indexed

    @property
    def outer(self) -> Any:
        return prod(self.data[: self.first])

    @property
    def count(self) -> Any:
        return prod(self.data[self.first : self.end])

    @property
    def width(self) -> Any:
        return prod(self.data[self.end :])

    def others(self) -> list[tuple[int, Any, Shape]]:
        """Return each row axis that is not indexed, with its number of coordinates and their shape.

        The shape lets the coordinates broadcast to the positions.
        """
        axes: list[tuple[int, Any, Shape]] = []
        for axis in (a for a in range(self.first, self.end) if a not in self.axes):
            # `gather_elements` may use only part of an axis. Axes of size 1 are broadcast.
            size = 1 if _equals(self.data[axis], 1) else self.positions[axis]
            shape: list[Any] = [1] * len(self.positions)
            shape[axis] = size
            axes.append((axis, size, shape))
        return axes


def layout_of(call: Call, data: Shape, indices: Shape) -> Layout:
    """Return the layout of a call with valid shapes, without using the arrays in `call`."""
    roles = Axes.of(call, len(data), indices)
    slices, ones = [data[axis] for axis in roles.slices], (1,) * len(data)
    sizes, window = indices[: len(roles.positions)], call.window_shape
    result = roles.in_dense(sizes, window, slices)
    first, end = min(roles.points, default=0), max(roles.points, default=-1) + 1
    rows = slice(first, len(result) - (len(data) - end))
    return Layout(
        roles=roles,
        first=first,
        end=end,
        data=tuple(data),
        shape=roles.in_dense(sizes, ones[: len(window)], ones[: len(slices)])[rows],
        positions=result[rows],
        result=result,
    )


def check_shapes(call: Call, data: Shape, indices: Shape) -> None:
    """Raise an error if shapes do not match, checking only ranks if a size is unknown."""
    if all(isinstance(size, int) for size in (*data, *indices)):
        shapes = [SimpleNamespace(shape=tuple(sizes)) for sizes in (data, indices)]
        slow_path.result_shape(replace(call, data=shapes[0], indices=shapes[1]))
        return
    axis, batch_dims = arguments.integer(call, "axis"), arguments.integer(call, "batch_dims")
    # Sizes of 1 always match, so the core checks only the ranks.
    # Keep the length of index tuples, which is the number of indexed axes.
    data_of_ones, indices_of_ones = (1,) * len(data), (1,) * len(indices)
    if call.kind.tuples:
        indices_of_ones = (*indices_of_ones[:-1], *indices[-1:])
    refusal = _core.slices_shape(
        call.kind, data_of_ones, indices_of_ones, axis, batch_dims, call.window_shape
    )
    if refusal.rule != "none":
        known = tuple(call.data.shape), tuple(call.indices.shape)
        arguments.raise_error(call, _core.Refusal((*refusal[:2], *known, (), ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """The coordinates of all positions, with a column for each indexed axis."""

    columns: list[Any]
    outside: Any = None  # flags of out-of-bounds positions, or None if all are in bounds
    known: bool = True  # False if the index values are checked when a graph runs


def coordinates_of(call: Call, library: Library, layout: Layout) -> Coordinates:
    """Convert index values to coordinates, in shapes that broadcast to the positions.

    In ``mode="raise"``, raise IndexOutOfBoundsError if a known value is out of bounds. A window of
    size 3 that starts at 4 has the coordinates 4, 5 and 6. On an axis of size 6, mode ``fill``
    flags the coordinate 6, and mode ``edge`` replaces the coordinate with 5.
    """
    window, sizes = call.window_shape, [layout.data[axis] for axis in layout.axes]
    modes = call.modes
    if window and call.mode not in ("raise", "clip"):
        coordinates = _starts(call, library, layout, modes, sizes)
    else:  # a window of size 3 on an axis of size 6 has 6 - 3 + 1 valid starts
        begins = [size - wide + 1 for size, wide in zip(sizes, window, strict=False)]
        coordinates = _resolved(call, library, layout, begins if window else sizes)
    columns, outside = coordinates.columns, coordinates.outside
    if window or call.kind is Kind.GATHER:
        columns = [library.reshape(column, layout.shape) for column in columns]
        outside = None if outside is None else library.reshape(outside, layout.shape)
    for entry, wide in enumerate(window):
        along = (wide, *(1,) * (len(window) - entry - 1))
        columns[entry] = columns[entry] + library.reshape(library.arange(wide), along)
        columns[entry] = windows.positions(modes[entry], columns[entry], sizes[entry], library)
    if window and call.fills:
        if not coordinates.known:
            raise AttributeValueError(
                f"{call.caller}: mode = {call.mode!r} mixes raise and fill, which needs starts "
                f"with known values (allowed: raise or fill)"
            )
        pairs = zip(columns, sizes, modes, strict=True)
        flags = [(at < 0) | (at >= size) for at, size, mode in pairs if mode == "fill"]
        outside = reduce(or_, flags if outside is None else [outside, *flags])
    return replace(coordinates, columns=columns, outside=outside)


def _starts(
    call: Call, library: Library, layout: Layout, modes: Sequence[str], sizes: Shape
) -> Coordinates:
    """Check starts along axes with mode raise. Return equivalent starts (see `windows.near`)."""
    window = call.window_shape
    raising = [mode == "raise" for mode in modes]
    resolved = Coordinates(columns=[])
    if any(raising):
        begins = [size - wide + 1 for size, wide in zip(sizes, window, strict=True)]
        resolved = _resolved(replace(call, mode="raise"), library, layout, begins, raising)
    # Move distant starts near the axis, so that adding positions within a window cannot overflow.
    near = [
        windows.near(mode, call.indices[..., entry], size, wide, library)
        for entry, (mode, size, wide) in enumerate(zip(modes, sizes, window, strict=True))
    ]
    return replace(resolved, columns=near)


def _resolved(
    call: Call,
    library: Library,
    layout: Layout,
    sizes: Shape,
    raising: Sequence[bool] = (),
) -> Coordinates:
    """Convert index values to coordinates on axes of the given sizes.

    Coordinates of flagged positions are meaningless. If `raising` is given, only axes with a true
    entry in `raising` are checked.
    """
    mode, indices, tuples = call.mode, call.indices, call.kind.tuples
    given = [indices[..., entry] for entry in range(len(sizes))] if tuples else [indices]
    pairs = list(zip(given, sizes, strict=True))
    columns: list[Any] = []
    flags: list[Any] = []
    if mode in ("wrap", "clip") and not any(_equals(size, 0) for size in sizes):
        if mode == "wrap":
            columns = [library.integers(values, size) for values, size in pairs]
        else:
            columns = [library.clip(library.integers(v, None), 0, size - 1) for v, size in pairs]
        return Coordinates(columns=columns)
    negative = call.negative and not call.window_shape
    for values, size in pairs:
        column = library.integers(values, None)
        if raising and not raising[len(flags)]:
            flags.append(column != column)  # noqa: PLR0124 - false for every integer
        elif mode in ("wrap", "clip"):
            flags.append(column * 0 == size)  # every index is out of bounds on an empty axis
        else:
            flags.append((column < (-size if negative else 0)) | (column >= size))
        columns.append(library.where(column < 0, column + size, column) if negative else column)
    outside = reduce(or_, flags) if flags else None
    if outside is None or mode in ("fill", "drop"):
        return Coordinates(columns=columns, outside=outside)

    def error(position: Any) -> Exception:
        shape = tuple(indices.shape[:-1] if tuples else indices.shape)
        where = tuple(int(at) for at in np.unravel_index(int(position), shape))
        entry = next(entry for entry, flag in enumerate(flags) if bool(flag[where]))
        size = int(sizes[entry])
        lowest = -size if negative and mode == "raise" else 0
        count = sum(int(library.count(flag)) for flag in flags)
        at = (*where, entry) if tuples else where
        if call.window_shape:
            size += call.window_shape[entry] - 1  # restore the size of the axis
        facts = (at, int(given[entry][where]), layout.axes[entry], size, lowest)
        total = prod(shape) * len(flags)
        return arguments.out_of_bounds(call, (*facts, count, total))

    known = library.raise_if_any(outside, error)
    return Coordinates(columns=columns, outside=None if known else outside, known=known)


def rows_of(call: Call, library: Library, data: Shape, indices: Shape) -> tuple[Layout, Any, Any]:
    """Return the layout, row numbers and out-of-bounds flags of a call with valid shapes.

    The flags are None if all positions are in bounds. Flagged positions have row number 0. For
    example, in data of shape (3, 4), the coordinates of the index tuples [2, 1] and [0, -1] have
    the columns [2, 0] and [1, 3]. With strides 4 and 1, the row numbers are 2 * 4 + 1 = 9 and 0 * 4
    + 3 = 3.
    """
    layout = layout_of(call, data, indices)
    coordinates = coordinates_of(call, library, layout)
    positions = layout.positions
    strides = {axis: prod(data[axis + 1 : layout.end]) for axis in range(layout.first, layout.end)}
    pairs = zip(coordinates.columns, layout.axes, strict=True)
    terms = [column * strides[axis] for column, axis in pairs]
    for axis, size, shape in layout.others():
        terms.append(library.reshape(library.arange(size) * strides[axis], shape))
    if not terms:  # without indexed axes, data is a single row with number 0
        terms.append(library.reshape(library.arange(1), (1,) * len(positions)))
    numbers = library.broadcast(reduce(add, terms), positions)
    outside = coordinates.outside
    if outside is not None:
        outside = library.broadcast(outside, positions)
        # If a graph does not check indices, `beyond` makes `take` fail when the graph runs.
        flags = coordinates.known or library.fills
        numbers = library.where(outside, 0 if flags else library.beyond(layout.count), numbers)
        outside = library.reshape(outside, (prod(positions),)) if flags else None
    return layout, library.reshape(numbers, (prod(positions),)), outside


def gather(call: Call, library: Library, data: Shape, indices: Shape, fill: Any) -> Any:
    """Return the result of a gather, given valid shapes of data and indices."""
    layout, numbers, outside = rows_of(call, library, data, indices)
    if any(_equals(size, 0) for size in (layout.count, *layout.result)):
        return library.full(layout.result, fill)  # `take` cannot select rows of an empty array
    blocks = library.reshape(call.data, (layout.outer, layout.count, layout.width))
    taken = library.take(blocks, numbers)
    if outside is not None:
        outside = library.reshape(outside, (1, prod(layout.positions), 1))
        taken = library.where(outside, library.full((), fill), taken)
    return library.reshape(taken, layout.result)


def scatter(call: Call, library: Any, data: Shape, indices: Shape) -> Any:
    """Return the result of a scatter, given valid shapes of data and indices.

    The library must also be a `reductions.Steps` with a method `scatter` that updates rows.
    """
    layout, numbers, outside = rows_of(call, library, data, indices)
    if outside is not None:  # the library drops updates of row `count`, which does not exist
        numbers = library.where(outside, layout.count, numbers)
    old = library.reshape(call.data, (layout.count, layout.width))
    updates = library.reshape(call.updates, (prod(layout.positions), layout.width))
    library.numbers, library.drops = numbers, outside is not None
    new = reductions.in_steps(library, old, updates, call.reduction, call.use_init_val)
    return library.reshape(new, data)


def _equals(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number  # an unknown size is never equal to a number


def equal(values: Any, others: Any) -> Any:
    """Compare elements, treating NaN as equal to NaN because min and max propagate NaN."""
    return (values == others) | ((values != values) & (others != others))  # noqa: PLR0124


def products_of_others(xp: Any, factors: Any, rows: Any) -> Any:
    """For each factor, return the product of the other factors with the same row number.

    For the factors 2, 3, 5 and 7 in rows 0, 1, 0 and 0, return 5 * 7, 1, 2 * 7 and 2 * 5. Factors
    are sorted by row, so each result is the product of the preceding factors times the product of
    the following factors. Because no division is needed, factors may be 0 and the result is
    differentiable. The module `xp` is torch or `jax.numpy`.
    """
    order = xp.argsort(rows, stable=True)
    factors, rows = factors[order], rows[order]

    def shifted(values: Any, rows: Any, by: int) -> Any:
        """Shift values by `by` positions, replacing values that come from another row with 1."""
        moved = xp.concatenate([xp.ones_like(values[:by]), values[:-by]])
        same = xp.concatenate([rows[:by] != rows[:by], rows[by:] == rows[:-by]])
        return xp.where(same[:, None], moved, 1)

    def before(factors: Any, rows: Any) -> Any:
        """For each factor, return the product of the preceding factors in the same row."""
        product, reach = shifted(factors, rows, 1), 1
        # In each iteration, the number of preceding factors in products doubles from 1 to 2, 4, ...
        while reach < len(rows):
            product = product * shifted(product, rows, reach)
            reach *= 2
        return product

    after = xp.flip(before(xp.flip(factors, (0,)), xp.flip(rows, (0,))), (0,))
    return (before(factors, rows) * after)[xp.argsort(order)]
