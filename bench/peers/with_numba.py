"""Numba: a plain loop for every kind of case, as a numba user would write it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bench.loops import parallel, prange, sequential, set_threads

from . import Bind, Call, Idioms, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.case import Array, Arrays, Case, Shape


@parallel
def points(data: Array, indices: Array, out: Array) -> None:
    """``out[n] = data[indices[n, 0], indices[n, 1]]``, for any strides of data."""
    for n in prange(out.shape[0]):
        out[n] = data[indices[n, 0], indices[n, 1]]


@parallel
def rows(data: Array, indices: Array, sizes: Array, out: Array) -> None:
    """``out[n, :] = data[row(indices[n]), :]`` with index tuples of any length."""
    for n in prange(out.shape[0]):
        row = 0
        for j in range(sizes.size):
            row = row * sizes[j] + indices[n, j]
        for s in range(out.shape[1]):
            out[n, s] = data[row, s]


@parallel
def batched_rows(data: Array, indices: Array, sizes: Array, out: Array) -> None:
    """``out[b, n, :] = data[b, row(indices[b, n]), :]``, one thread per batch."""
    for b in prange(out.shape[0]):
        for n in range(out.shape[1]):
            row = 0
            for j in range(sizes.size):
                row = row * sizes[j] + indices[b, n, j]
            for s in range(out.shape[2]):
                out[b, n, s] = data[b, row, s]


@parallel
def shared_rows(data: Array, indices: Array, out: Array) -> None:
    """``out[o, n, :] = data[o, indices[n], :]``, one thread per `o`."""
    for o in prange(out.shape[0]):
        for n in range(out.shape[1]):
            for s in range(out.shape[2]):
                out[o, n, s] = data[o, indices[n], s]


@parallel
def columns(data: Array, indices: Array, out: Array) -> None:
    """``out[i, j] = data[indices[i, j], j]``."""
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = data[indices[i, j], j]


@parallel
def elements(data: Array, indices: Array, out: Array) -> None:
    """``out[o, i, j] = data[o, indices[o, i, j], j]``, one thread per `o`."""
    for o in prange(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                out[o, i, j] = data[o, indices[o, i, j], j]


@sequential
def set_rows(data: Array, indices: Array, sizes: Array, updates: Array) -> None:
    """``data[row(indices[n]), :] = updates[n, :]``, in order."""
    for n in range(updates.shape[0]):
        row = 0
        for j in range(sizes.size):
            row = row * sizes[j] + indices[n, j]
        for s in range(updates.shape[1]):
            data[row, s] = updates[n, s]


@sequential
def add_rows(data: Array, indices: Array, sizes: Array, updates: Array) -> None:
    """``data[row(indices[n]), :] += updates[n, :]``, in order."""
    for n in range(updates.shape[0]):
        row = 0
        for j in range(sizes.size):
            row = row * sizes[j] + indices[n, j]
        for s in range(updates.shape[1]):
            data[row, s] += updates[n, s]


@parallel
def set_elements(data: Array, indices: Array, updates: Array) -> None:
    """``data[o, indices[o, i, j], j] = updates[o, i, j]``, one thread per `o`."""
    for o in prange(updates.shape[0]):
        for i in range(updates.shape[1]):
            for j in range(updates.shape[2]):
                data[o, indices[o, i, j], j] = updates[o, i, j]


@parallel
def add_elements(data: Array, indices: Array, updates: Array) -> None:
    """``data[o, indices[o, i, j], j] += updates[o, i, j]``, one thread per `o`."""
    for o in prange(updates.shape[0]):
        for i in range(updates.shape[1]):
            for j in range(updates.shape[2]):
                data[o, indices[o, i, j], j] += updates[o, i, j]


@parallel
def max_elements(data: Array, indices: Array, updates: Array) -> None:
    """``data[o, indices[o, i, j], j] = max(itself, updates[o, i, j])``, one thread per `o`."""
    for o in prange(updates.shape[0]):
        for i in range(updates.shape[1]):
            for j in range(updates.shape[2]):
                row = indices[o, i, j]
                data[o, row, j] = max(data[o, row, j], updates[o, i, j])


_SCATTERS = {
    ("none", "rows"): set_rows,
    ("add", "rows"): add_rows,
    ("none", "elements"): set_elements,
    ("add", "elements"): add_elements,
    ("max", "elements"): max_elements,
}


def prepare(case: Case, threads: int) -> Idioms:
    set_threads(threads)
    bind: dict[str, Bind] = {
        "gather_nd": _gather_nd,
        "gather_elements": _gather_elements,
        "gather": _gather,
    }
    if not case.is_scatter:
        return {"plain loop": bind[case.operator]}
    loop = _SCATTERS.get((case.reduction, "rows" if case.has_tuples else "elements"))
    if loop is None:
        raise Unsupported(f"no loop written for {case.reduction}")
    scatter: Callable[..., Call] = _scatter_nd if case.has_tuples else _scatter_elements
    return {"plain loop": partial(scatter, loop)}


def _bits(array: Array) -> Array:
    """Return half floats as integers of the same width, which numba can copy."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


def _filled(
    loop: Callable[..., None], inputs: tuple[Array, ...], shape: Shape, case: Case, arrays: Arrays
) -> Call:
    """Return a call of `loop` with an output of `shape`: a new array or the case's output."""
    dtype = inputs[0].dtype
    reused = None if arrays.out is None else _bits(arrays.out).reshape(shape)

    def run() -> Array:
        out = np.empty(shape, dtype) if reused is None else reused
        loop(*inputs, out)
        return out

    return Call(run=run, answer=lambda out: out.view(case.dtype).reshape(case.gathered_shape))


def _gather_nd(case: Case, arrays: Arrays) -> Call:
    data, depth = _bits(arrays.data), len(case.indexed_axes)
    if depth == data.ndim == 2:
        return _filled(points, (data, arrays.indices), case.gathered_shape, case, arrays)
    batches, width = prod(data.shape[: case.batch_dims]), prod(data.shape[case.slice_axes.start :])
    sizes = np.array([data.shape[axis] for axis in case.indexed_axes])
    blocks = data.reshape(batches, -1, width, copy=False)
    indices = arrays.indices.reshape(batches, -1, depth)
    shape = (batches, indices.shape[1], width)
    if batches == 1:
        return _filled(rows, (blocks[0], indices[0], sizes), shape[1:], case, arrays)
    return _filled(batched_rows, (blocks, indices, sizes), shape, case, arrays)


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
    return _filled(shared_rows, (blocks, indices), shape, case, arrays)


def _gather_elements(case: Case, arrays: Arrays) -> Call:
    axis, indices = case.indexed_axes.start, arrays.indices
    leading = [slice(side) for side in indices.shape]
    leading[axis] = slice(None)
    data = _bits(arrays.data)[tuple(leading)]
    if data.ndim == 2 and axis == 0:
        return _filled(columns, (data, indices), indices.shape, case, arrays)
    if data.ndim == 2:  # a view for any strides
        data, indices = data[..., None], indices[..., None]
    else:
        outer, inner = prod(indices.shape[:axis]), prod(indices.shape[axis + 1 :])
        data = data.reshape(outer, -1, inner, copy=False)
        indices = indices.reshape(outer, -1, inner)
    return _filled(elements, (data, indices), indices.shape, case, arrays)


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
    """Return a call of `loop` with data, or a copy, reshaped to `shape`."""

    def run() -> Array:
        data = arrays.data if case.output == "data" else arrays.data.copy()
        loop(data.reshape(shape), *inputs)
        return data

    return Call(run=run)
