"""A gather or scatter as one `take` of rows, in the functions of any library of arrays.

Index tuples become numbers of rows (`row_views`). All that depends on values is done by the
library, where the array is: but for one flag in ``mode="raise"`` nothing leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ndgather import array_call, slow_path, vjp
from ndgather.slow_path import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call


Shape: TypeAlias = "Sequence[Any]"  # integers, or scalars of a library for sizes not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How data is seen as rows, and which number a row has: of shapes alone."""

    outer: Any
    count: Any
    width: Any
    axes: Sequence[int]  # of data, that the entries of an index tuple address
    steps: Shape  # rows between neighbours on these axes
    offsets: Sequence[tuple[int, Any, Any]]  # axes of places with the size and the step of each
    shape: Shape  # of the tuples, to be broadcast to places
    places: Shape  # the positions that have a row
    result: Shape  # of the slices that these rows make


def check_shapes(call: Call, data: Shape, indices: Shape) -> None:
    """Raise the error of shapes that do not fit.

    Where some sizes are not known the ranks are checked, and the library meets the rest later.
    """
    if not all(isinstance(size, int) for size in (*data, *indices)):
        last = indices[-1:] if call.kind.endswith(("_nd", "_windows")) else ()
        indices = (*(1 for _ in indices[: len(indices) - len(last)]), *last)
        data = (max((1, *call.window_shape)),) * len(data)
    shapes = [SimpleNamespace(shape=tuple(each)) for each in (data, indices)]
    call = replace(call, data=shapes[0], indices=shapes[1])
    if call.kind == "gather_windows":
        slow_path.check_shapes(call)
    else:
        slow_path.result_shape(call)


def result_of(call: Call, data: Shape, indices: Shape) -> Shape:
    """Return the shape of the slices that a call names, whose shapes are checked."""
    if call.kind == "gather_windows":
        return (*indices[:-1], *call.window_shape, *data[len(call.window_shape) :])
    return view_of(call, data, indices).result


def view_of(call: Call, data: Shape, indices: Shape) -> View:
    if call.kind.endswith("_nd"):
        return _view_of_tuples(int(call.batch_dims), data, indices)
    axis = int(call.axis) % len(data)
    if call.kind.endswith("_elements"):
        return _view_of_elements(axis, data, indices)
    batch = int(call.batch_dims)
    return _view_of_slices(axis, batch + len(indices) * (batch < 0), data, indices)


def _view_of_tuples(batch: int, data: Shape, indices: Shape) -> View:
    end = batch + indices[-1]
    steps = [prod(data[axis + 1 : end]) for axis in range(end)]
    return View(
        outer=1,
        count=prod(data[:end]),
        width=prod(data[end:]),
        axes=range(batch, end),
        steps=steps[batch:],
        offsets=[(axis, data[axis], steps[axis]) for axis in range(batch)],
        shape=indices[:-1],
        places=indices[:-1],
        result=(*indices[:-1], *data[end:]),
    )


def _view_of_elements(axis: int, data: Shape, indices: Shape) -> View:
    steps = [prod(data[each + 1 :]) for each in range(len(data))]
    others = [each for each in range(len(data)) if each != axis]
    return View(
        outer=1,
        count=prod(data),
        width=1,
        axes=(axis,),
        steps=(steps[axis],),
        offsets=[(each, indices[each], steps[each]) for each in others],
        shape=indices,
        places=indices,
        result=indices,
    )


def _view_of_slices(axis: int, batch: int, data: Shape, indices: Shape) -> View:
    before, after = data[:axis], data[axis + 1 :]
    view = View(
        outer=prod(before),
        count=data[axis],
        width=prod(after),
        axes=(axis,),
        steps=(1,),
        offsets=(),
        shape=indices,
        places=indices,
        result=(*before, *indices[batch:], *after),
    )
    if not batch:
        return view
    return replace(
        view,
        outer=1,
        count=prod(data[: axis + 1]),
        offsets=[(each, data[each], prod(data[each + 1 : axis + 1])) for each in range(axis)],
        shape=(*indices[:batch], *(1,) * (axis - batch), *indices[batch:]),
        places=(*before, *indices[batch:]),
    )


class Library(Protocol):
    """What is used of a library of arrays; new arrays lie where data does."""

    def array(self, values: Any) -> Any:
        """Return an array of int64."""

    def steps(self, size: Any, step: Any) -> Any:
        """Return ``0, step, 2 * step, ...``, as many as `size` says, as int64."""

    def int64(self, integers: Any, modulus: Any) -> Any:
        """Return integers as int64, by a modulus if it is given; too large ones as the largest."""

    def checked(self, outside: Any, refusal: Callable[[Any, Any], Exception]) -> bool:
        """Return whether it is known that no flag is set; if not, what computes them refuses one.

        Raises
        ------
        IndexOutOfBoundsError
            One is set: what `refusal` makes of the position of the first and of how many there are.
        """

    def beyond(self, sizes: Any) -> Any:
        """Return what stands for index values that are refused later, on axes of these sizes."""

    def reshape(self, array: Any, shape: Shape) -> Any: ...
    def broadcast(self, array: Any, shape: Shape) -> Any: ...
    def where(self, condition: Any, true: Any, false: Any) -> Any: ...
    def full(self, shape: Shape, element: Any) -> Any:
        """Return a new array of the type of data, filled with a number."""

    def any(self, array: Any) -> Any:
        """Return along the last axis whether a flag is set."""

    def sum(self, array: Any) -> Any:
        """Return the sums along the last axis, as int64."""

    def take(self, data: Any, numbers: Any) -> Any:
        """Return slices along axis 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of data that a call names."""

    view: View
    numbers: Any  # one axis, of int64
    outside: Any  # flags of those that are no row, where the number is 0; None: all are rows


def gather(call: Call, library: Library, data: Shape, indices: Shape, fill: Any) -> Any:
    """Return the result of a gather; `data` and `indices` are shapes, `fill` is a number."""
    rows = rows_of(call, library, data, indices)
    view = rows.view
    if any(map(_is_zero, (view.count, *view.result))):
        return library.full(view.result, fill)
    blocks = library.reshape(call.data, (view.outer, view.count, view.width))
    taken = library.take(blocks, rows.numbers)
    if rows.outside is not None:
        outside = library.reshape(rows.outside, (1, prod(view.places), 1))
        taken = library.where(outside, library.full((), fill), taken)
    return library.reshape(taken, view.result)


def rows_of(call: Call, library: Library, data: Shape, indices: Shape) -> Rows:
    """Return the rows that a call names.

    Raises
    ------
    NdgatherError
        The shapes do not fit, or an index is out of bounds.
    """
    check_shapes(call, data, indices)
    if call.kind == "gather_windows":
        call, indices = _elements_of_windows(call, library, data, indices)
    view = view_of(call, data, indices)
    tuples = call.kind.endswith("_nd")
    sizes = [data[axis] for axis in view.axes]
    bounds = library.array(sizes if tuples else sizes[0])
    values, outside, known = _resolved(call, library, indices, view.axes, sizes, bounds)
    numbers = values * library.array(view.steps if tuples else view.steps[0])
    if tuples:
        numbers = library.sum(numbers)
        outside = None if outside is None else library.any(outside)
    numbers = library.reshape(numbers, view.shape)
    for axis, size, step in view.offsets:
        along = [1] * len(view.places)
        along[axis] = size
        numbers = numbers + library.reshape(library.steps(size, step), along)
    numbers = library.broadcast(numbers, view.places)
    if outside is not None:
        outside = library.broadcast(library.reshape(outside, view.shape), view.places)
        nothing = library.array(0) if known else library.beyond(library.array(view.count))
        numbers = library.where(outside, nothing, numbers)
        outside = library.reshape(outside, (prod(view.places),)) if known else None
    numbers = library.reshape(numbers, (prod(view.places),))
    return Rows(view=view, numbers=numbers, outside=outside)


def _is_zero(size: Any) -> bool:
    return isinstance(size, int) and size == 0


def _resolved(
    call: Call, library: Library, shape: Shape, axes: Sequence[int], sizes: Shape, bounds: Any
) -> tuple[Any, Any, bool]:
    """Return index values from 0 on; flags of those that are outside; whether these are all known.

    Of those that are outside the values mean nothing. Without flags all are inside.
    """
    indices, mode = call.indices, call.mode
    if mode in ("wrap", "clip") and not any(map(_is_zero, sizes)):
        if mode == "wrap":
            return library.int64(indices, bounds), None, True
        values = library.int64(indices, None)
        values = library.where(values < 0, library.array(0), values)
        return library.where(values < bounds, values, bounds - 1), None, True
    values = library.int64(indices, None)
    counted = values + bounds if call.negative else values
    if mode in ("wrap", "clip"):
        outside = values * 0 == bounds  # on axes that are empty
    else:
        outside = (counted < 0) | (values >= bounds)
    values = library.where(values < 0, counted, values)
    if mode in ("fill", "drop"):
        return values, outside, True

    def refusal(position: Any, count: Any) -> Exception:
        where = tuple(int(each) for each in np.unravel_index(int(position), tuple(shape)))
        entry = where[-1] if len(axes) != 1 or call.kind.endswith(("_nd", "_windows")) else 0
        size = int(sizes[entry])
        lowest = -size if call.negative and mode == "raise" else 0
        if call.window_shape:
            size += call.window_shape[entry] - 1  # of the axis, not of where windows may begin
        facts = (where, int(indices[where]), axes[entry], size, lowest, int(count), prod(shape))
        return explain(call, array_call.refusal("out_of_bounds", facts))

    return (values, None, True) if library.checked(outside, refusal) else (values, outside, False)


def _elements_of_windows(
    call: Call, library: Library, data: Shape, starts: Shape
) -> tuple[Call, Shape]:
    """Return a call of `gather_nd` that names every element of the windows."""
    window = call.window_shape
    depth = len(window)
    begins = [size - wide + 1 for size, wide in zip(data, window, strict=False)]
    bare = replace(call, negative=False)
    known = True
    if call.mode == "fill":  # what is far outside stays so, whatever is added to it
        values = library.int64(call.indices, None)
        lowest, highest = library.array([-each for each in window]), library.array(data[:depth])
        values = library.where(values < lowest, lowest, values)
        values = library.where(values > highest, highest, values)
    else:
        bounds = library.array(begins)
        values, outside, known = _resolved(bare, library, starts, range(depth), begins, bounds)
        if not known:
            beyond = library.beyond(library.array(data[:depth]))
            values = library.where(outside, beyond, values)
    within = np.moveaxis(np.indices(window, np.int64), 0, -1)
    values = library.reshape(values, (*starts[:-1], *(1,) * depth, depth)) + library.array(within)
    mode = "fill" if call.mode == "fill" else "clip" if known else "raise"
    elements = replace(bare, kind="gather_nd", indices=values, batch_dims=0, mode=mode)
    return elements, (*starts[:-1], *window, depth)


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
