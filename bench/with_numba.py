"""Numba: the plain parallel loop that someone would write for the case."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from . import loops
from .peer import Bind, Call, Idioms, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from .case import Array, Arrays, Case, Shape

_NAMES = {"none": "set", "add": "add", "max": "max"}


def prepare(case: Case, threads: int) -> Idioms:
    loops.set_threads(threads)
    bind: dict[str, Bind] = {
        "gather_nd": _gather_nd,
        "gather_elements": _gather_elements,
        "gather": _gather,
    }
    if not case.is_scatter:
        return {"plain loop": bind[case.operator]}
    name = (
        f"{_NAMES.get(case.reduction, case.reduction)}_{'rows' if case.has_tuples else 'elements'}"
    )
    if not hasattr(loops, name):
        raise Unsupported(f"no loop written for {case.reduction}")
    scatter = _scatter_nd if case.has_tuples else _scatter_elements
    return {"plain loop": partial(scatter, getattr(loops, name))}


def _bits(array: Array) -> Array:
    """Return half floats as integers of the same width, which numba can copy."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


def _filled(
    loop: Callable[..., None], inputs: tuple[Array, ...], shape: Shape, case: Case, arrays: Arrays
) -> Call:
    """Return the call that makes or takes an output of `shape` and runs `loop` on it."""
    dtype = inputs[0].dtype
    given = None if arrays.out is None else _bits(arrays.out).reshape(shape)

    def run() -> Array:
        out = np.empty(shape, dtype) if given is None else given
        loop(*inputs, out)
        return out

    return Call(run=run, answer=lambda out: out.view(case.dtype).reshape(case.gathered_shape))


def _gather_nd(case: Case, arrays: Arrays) -> Call:
    data, depth = _bits(arrays.data), len(case.indexed_axes)
    if depth == data.ndim == 2:
        return _filled(loops.points, (data, arrays.indices), case.gathered_shape, case, arrays)
    batches, width = prod(data.shape[: case.batch_dims]), prod(data.shape[case.slice_axes.start :])
    sizes = np.array([data.shape[axis] for axis in case.indexed_axes])
    blocks = data.reshape(batches, -1, width, copy=False)
    indices = arrays.indices.reshape(batches, -1, depth)
    shape = (batches, indices.shape[1], width)
    if batches == 1:
        return _filled(loops.rows, (blocks[0], indices[0], sizes), shape[1:], case, arrays)
    return _filled(loops.batched_rows, (blocks, indices, sizes), shape, case, arrays)


def _gather(case: Case, arrays: Arrays) -> Call:
    if case.indexed_axes.start == case.batch_dims:
        tuples = replace(case, operator="gather_nd", index_shape=(*case.index_shape, 1))
        return _gather_nd(tuples, replace(arrays, indices=arrays.indices[..., None]))
    if case.batch_dims:
        raise Unsupported("no loop written for axes between the batch and the indexed one")
    data, axis = _bits(arrays.data), case.indexed_axes.start
    outer, width = prod(data.shape[:axis]), prod(data.shape[axis + 1 :])
    blocks, indices = data.reshape(outer, -1, width, copy=False), arrays.indices.reshape(-1)
    shape = (outer, indices.size, width)
    return _filled(loops.shared_rows, (blocks, indices), shape, case, arrays)


def _gather_elements(case: Case, arrays: Arrays) -> Call:
    axis, indices = case.indexed_axes.start, arrays.indices
    leading = [slice(side) for side in indices.shape]
    leading[axis] = slice(None)
    data = _bits(arrays.data)[tuple(leading)]
    if data.ndim == 2 and axis == 0:
        return _filled(loops.columns, (data, indices), indices.shape, case, arrays)
    if data.ndim == 2:  # a view whatever the strides
        data, indices = data[..., None], indices[..., None]
    else:
        outer, inner = prod(indices.shape[:axis]), prod(indices.shape[axis + 1 :])
        data = data.reshape(outer, -1, inner, copy=False)
        indices = indices.reshape(outer, -1, inner)
    return _filled(loops.elements, (data, indices), indices.shape, case, arrays)


def _scatter_nd(loop: Callable[..., None], case: Case, arrays: Arrays) -> Call:
    assert arrays.updates is not None
    depth, width = len(case.indexed_axes), prod(case.data_shape[case.slice_axes.start :])
    indices = arrays.indices.reshape(-1, depth)
    sizes = np.array(case.data_shape[:depth])
    inputs = (indices, sizes, arrays.updates.reshape(-1, width))
    return _updated(loop, inputs, (-1, width), case, arrays)


def _scatter_elements(loop: Callable[..., None], case: Case, arrays: Arrays) -> Call:
    assert arrays.updates is not None
    axis, sides = case.indexed_axes.start, case.index_shape
    shape = (prod(sides[:axis]), -1, prod(sides[axis + 1 :]))
    inputs = (arrays.indices.reshape(shape), arrays.updates.reshape(shape))
    return _updated(loop, inputs, shape, case, arrays)


def _updated(
    loop: Callable[..., None], inputs: tuple[Array, ...], shape: Shape, case: Case, arrays: Arrays
) -> Call:
    """Return the call that runs `loop` on data, or on a copy, seen with `shape`."""

    def run() -> Array:
        data = arrays.data if case.output == "data" else arrays.data.copy()
        loop(data.reshape(shape), *inputs)
        return data

    return Call(run=run)
