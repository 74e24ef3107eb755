"""Data as rows of elements: which row an index tuple names, of shapes alone.

Data is seen as ``(outer, count, width)``: slices that are copied whole are rows of `width` elements
of blocks of `count` rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgather import fallback, windows

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        windows.check_shapes(call)
    else:
        fallback.result_shape(call)


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
