"""A gather or scatter by the functions of any array library, on the device of its arrays.

A library provides a `Library` of a dozen primitives; the algorithm stands here. Index values become
positions on the axes that they address (`positions_of`), positions become row numbers (`rows_of`),
and a gather is one `take` of rows. In ``mode="raise"`` one flag leaves the device, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import add, or_
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ndgather import arguments, reductions, refusals, slow_path, vjp
from ndgather.array_call import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call


Shape: TypeAlias = "Sequence[Any]"  # sizes are integers, or scalars of a library if not known yet


class Arithmetic(Protocol):
    """What positions are computed with; new arrays lie on the device of data."""

    def arange(self, size: Any) -> Any:
        """Return ``0, 1, ...`` as integers that hold all positions."""

    def integers(self, indices: Any, modulus: Any) -> Any:
        """Return indices as such integers, modulo a size if one is given; clip larger values."""

    def passes(self, outside: Any, error: Callable[[Any], Exception]) -> bool:
        """Return whether it is known now that no flag is set.

        Raises ``error(position)`` with the flat position of the first flag that is set. If flags
        are only known later, returns False.
        """

    def count(self, flags: Any) -> Any:
        """Return how many flags are set."""

    def clip(self, values: Any, lowest: Any, highest: Any) -> Any: ...
    def reshape(self, array: Any, shape: Shape) -> Any: ...
    def where(self, condition: Any, true: Any, false: Any) -> Any: ...


class Library(Arithmetic, Protocol):
    """What a gather needs as well."""

    def broadcast(self, array: Any, shape: Shape) -> Any: ...
    def beyond(self, size: Any) -> Any:
        """Return a row number that raises later, if `passes` returned False."""

    def full(self, shape: Shape, element: Any) -> Any:
        """Return an array of the dtype of data."""

    def take(self, data: Any, numbers: Any) -> Any:
        """Return slices along axis 1."""


class ScatterLibrary(Library, reductions.StepLibrary, Protocol):
    """What a scatter needs as well; `scatter` is one step on rows, with these numbers."""

    numbers: Any  # of the row of every update
    drops: bool  # whether some may be the number of rows itself: their updates are dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a call sees data: axes ``first:end`` are the rows; `axes` of them are addressed."""

    first: int
    end: int
    axes: Sequence[int]
    data: Shape
    shape: Shape  # of the index tuples, to be broadcast to `places`
    places: Shape  # every position has one row
    along: Shape  # the sizes of row axes that are not addressed

    @property
    def outer(self) -> Any:
        return prod(self.data[: self.first])

    @property
    def count(self) -> Any:
        return prod(self.data[self.first : self.end])

    @property
    def width(self) -> Any:
        return prod(self.data[self.end :])

    @property
    def result(self) -> Shape:
        return (*self.data[: self.first], *self.places, *self.data[self.end :])

    def others(self) -> list[tuple[int, Any, Shape]]:
        """Return the row axes that are not addressed, with the size and shape of positions there.

        An axis of data of size 1 is repeated; along others `gather_elements` may need a part.
        """
        found: list[tuple[int, Any, Shape]] = []
        for axis in (a for a in range(self.first, self.end) if a not in self.axes):
            size = 1 if _is(self.data[axis], 1) else self.along[axis]
            shape: list[Any] = [1] * len(self.places)
            shape[axis] = size
            found.append((axis, size, shape))
        return found


def layout_of(call: Any, data: Shape, indices: Shape) -> Layout:
    """Return the layout for shapes that fit; `call` is a `Call`, or has its options."""
    batch, shape = int(call.batch_dims), tuple(indices)
    first, places, along = 0, shape, tuple(data)
    if call.kind.endswith("_elements"):
        axes, end = range(int(call.axis) % len(data), int(call.axis) % len(data) + 1), len(data)
        along = shape
    elif call.kind == "gather":
        axis = int(call.axis) % len(data)
        batch += len(shape) * (batch < 0)
        axes, end = range(axis, axis + 1), axis + 1
        if batch:
            places = (*shape[:batch], *data[batch:axis], *shape[batch:])
            shape = (*shape[:batch], *(1,) * (axis - batch), *shape[batch:])
        else:
            first = axis
    else:
        end = batch + indices[-1]
        axes, places = range(batch, end), (*shape[:-1], *call.window_shape)
        shape = (*shape[:-1], *(1,) * len(call.window_shape))
    return Layout(
        first=first,
        end=end,
        axes=axes,
        data=tuple(data),
        shape=shape,
        places=places,
        along=along,
    )


def check_shapes(call: Call, data: Shape, indices: Shape) -> None:
    """Raise an error if shapes do not fit; of unknown sizes only the ranks are checked."""
    if all(isinstance(size, int) for size in (*data, *indices)):
        shapes = [SimpleNamespace(shape=tuple(sizes)) for sizes in (data, indices)]
        slow_path.result_shape(replace(call, data=shapes[0], indices=shapes[1]))
        return
    last = indices[-1:] if call.kind.endswith(("_nd", "_windows")) else ()
    likely = (1,) * len(data), (*(1,) * (len(indices) - len(last)), *last)
    axis, batch_dims = (arguments.integer(call, option) for option in ("axis", "batch_dims"))
    refusal = _core.slices_shape(call.kind, *likely, axis, batch_dims, call.window_shape)
    if refusal.rule != "none":
        known = tuple(call.data.shape), tuple(call.indices.shape)
        refusals.raise_error(call, _core.Refusal((*refusal[:2], *known, (), ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Positions on the addressed axes; `outside` flags those that do not count, None: all do."""

    columns: list[Any]
    outside: Any
    known: bool = True  # if not, flags are of index values that raise later


def positions_of(call: Call, library: Arithmetic, layout: Layout) -> Positions:
    """Return the positions that index values name, in shapes to be broadcast to the places.

    Raises IndexOutOfBoundsError in ``mode="raise"`` if the library knows the values.
    """
    window, sizes = call.window_shape, [layout.data[axis] for axis in layout.axes]
    if window:
        return _positions_in_windows(call, library, layout, sizes)
    found = _resolved(call, library, layout, sizes)
    if call.kind != "gather":
        return found
    columns = [library.reshape(column, layout.shape) for column in found.columns]
    outside = None if found.outside is None else library.reshape(found.outside, layout.shape)
    return replace(found, columns=columns, outside=outside)


def _resolved(call: Call, library: Arithmetic, layout: Layout, sizes: Shape) -> Positions:
    """Return positions on axes of these sizes; those of values outside mean nothing."""
    mode, indices, tuples = call.mode, call.indices, call.kind.endswith(("_nd", "_windows"))
    given = [indices[..., entry] for entry in range(len(sizes))] if tuples else [indices]
    pairs = list(zip(given, sizes, strict=True))
    if mode in ("wrap", "clip") and not any(_is(size, 0) for size in sizes):
        if mode == "wrap":
            columns = [library.integers(values, size) for values, size in pairs]
        else:
            columns = [library.clip(library.integers(v, None), 0, size - 1) for v, size in pairs]
        return Positions(columns=columns, outside=None)
    negative = call.negative and not call.window_shape
    columns, flags = [], []
    for values, size in pairs:
        column = library.integers(values, None)
        if mode in ("wrap", "clip"):
            flags.append(column * 0 == size)  # all values on an empty axis
        else:
            flags.append((column < (-size if negative else 0)) | (column >= size))
        columns.append(library.where(column < 0, column + size, column) if negative else column)
    outside = reduce(or_, flags) if flags else None
    if outside is None or mode in ("fill", "drop"):
        return Positions(columns=columns, outside=outside)

    def error(position: Any) -> Exception:
        shape = tuple(indices.shape[:-1] if tuples else indices.shape)
        where = tuple(int(at) for at in np.unravel_index(int(position), shape))
        entry = next(entry for entry, flag in enumerate(flags) if bool(flag[where]))
        size = int(sizes[entry])
        lowest = -size if negative and mode == "raise" else 0
        count = sum(int(library.count(flag)) for flag in flags)
        at = (*where, entry) if tuples else where
        if call.window_shape:
            size += call.window_shape[entry] - 1  # of the axis, not of where windows may begin
        facts = (at, int(given[entry][where]), layout.axes[entry], size, lowest)
        total = prod(shape) * len(flags)
        return refusals.out_of_bounds(call, (*facts, count, total))

    known = library.passes(outside, error)
    return Positions(columns=columns, outside=None if known else outside, known=known)


def _positions_in_windows(
    call: Call, library: Arithmetic, layout: Layout, sizes: Shape
) -> Positions:
    """Return the positions of every element of every window."""
    window, ahead = call.window_shape, [*layout.shape]
    if call.mode == "fill":  # a start far outside stays outside, whatever is added to it
        depth = len(window)
        given = [library.integers(call.indices[..., entry], None) for entry in range(depth)]
        limits = zip(given, window, sizes, strict=True)
        starts = [library.clip(values, -wide, size) for values, wide, size in limits]
        found = Positions(columns=[], outside=None)
    else:
        begins = [size - wide + 1 for size, wide in zip(sizes, window, strict=True)]
        found = _resolved(call, library, layout, begins)
        starts = found.columns
    columns = []
    for entry, (start, wide) in enumerate(zip(starts, window, strict=True)):
        along = (wide, *(1,) * (len(window) - entry - 1))
        within = library.reshape(library.arange(wide), along)
        columns.append(library.reshape(start, ahead) + within)
    if call.mode == "fill":
        flags = [(at < 0) | (at >= size) for at, size in zip(columns, sizes, strict=True)]
        return Positions(columns=columns, outside=reduce(or_, flags))
    outside = None if found.outside is None else library.reshape(found.outside, ahead)
    return replace(found, columns=columns, outside=outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of data that a call names."""

    layout: Layout
    numbers: Any  # one axis
    outside: Any  # flags of those that are no row, where the number is 0; None: all are rows


def rows_of(call: Call, library: Library, data: Shape, indices: Shape) -> Rows:
    """Return the rows that a call names, for shapes that fit."""
    layout = layout_of(call, data, indices)
    found = positions_of(call, library, layout)
    places = layout.places
    steps = {axis: prod(data[axis + 1 : layout.end]) for axis in range(layout.first, layout.end)}
    terms = [column * steps[axis] for column, axis in zip(found.columns, layout.axes, strict=True)]
    for axis, size, shape in layout.others():
        terms.append(library.reshape(library.arange(size) * steps[axis], shape))
    if not terms:  # one row, number 0
        terms.append(library.reshape(library.arange(1), (1,) * len(places)))
    numbers = library.broadcast(reduce(add, terms), places)
    outside = found.outside
    if outside is not None:
        outside = library.broadcast(outside, places)
        nothing = 0 if found.known else library.beyond(layout.count)
        numbers = library.where(outside, nothing, numbers)
        outside = library.reshape(outside, (prod(places),)) if found.known else None
    return Rows(layout=layout, numbers=library.reshape(numbers, (prod(places),)), outside=outside)


def gather(call: Call, library: Library, data: Shape, indices: Shape, fill: Any) -> Any:
    """Return the result of a gather; `data` and `indices` are shapes that fit."""
    rows = rows_of(call, library, data, indices)
    layout = rows.layout
    if any(_is(size, 0) for size in (layout.count, *layout.result)):
        return library.full(layout.result, fill)
    blocks = library.reshape(call.data, (layout.outer, layout.count, layout.width))
    taken = library.take(blocks, rows.numbers)
    if rows.outside is not None:
        outside = library.reshape(rows.outside, (1, prod(layout.places), 1))
        taken = library.where(outside, library.full((), fill), taken)
    return library.reshape(taken, layout.result)


def scatter(call: Call, library: ScatterLibrary, data: Shape, indices: Shape) -> Any:
    """Return the result of a scatter; `data` and `indices` are shapes that fit."""
    rows = rows_of(call, library, data, indices)
    layout, numbers = rows.layout, rows.numbers
    if rows.outside is not None:
        numbers = library.where(rows.outside, layout.count, numbers)
    old = library.reshape(call.data, (layout.count, layout.width))
    updates = library.reshape(call.updates, (prod(layout.places), layout.width))
    library.numbers, library.drops = numbers, rows.outside is not None
    use_init_val = call.use_init_val or call.reduction == "none"
    new = reductions.in_steps(library, old, updates, call.reduction, use_init_val)
    return library.reshape(new, data)


# Booleans as numbers of one bit: add is or, sub is exclusive or, mul is and. The result counts
# modulo 2.
OF_BITS = {"none": "none", "add": "max", "sub": "add", "mul": "min", "min": "min", "max": "max"}


def _is(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number


def cotangents(call: Call, data_shape: tuple[int, ...] | None) -> Any:
    """Return what the function of `ndgather.vjp` returns that made `call`.

    `data` of the call is the cotangent of the result; `data_shape` is None for a scatter.
    """
    given, indices = call.data, call.indices
    if data_shape is None:
        if call.kind == "scatter_nd":
            return vjp.scatter_nd(given, indices, call.reduction)
        return vjp.scatter_elements(given, indices, call.axis, call.reduction)
    if call.kind == "gather_windows":
        return vjp.gather_windows(given, data_shape, indices, call.window_shape)
    option = call.batch_dims if call.kind == "gather_nd" else call.axis
    return getattr(vjp, call.kind)(given, data_shape, indices, option)
