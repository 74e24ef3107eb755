"""NumPy: take, take_along_axis, advanced indexing, ufunc.at. Its results are the reference."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import Bind, Call, Idioms, advanced_index, has_advanced_index, is_take, slice_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.case import Array, Arrays, Case

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def prepare(case: Case, threads: int) -> Idioms:
    del threads
    idioms: dict[str, Bind] = {}
    if case.is_scatter:
        if case.operator == "scatter_elements" and case.reduction == "none":
            idioms["put_along_axis"] = _put_along_axis
        idioms["fancy index"] = _scatter
        if case.layout == "C":
            idioms["linear positions"] = _scatter_linear
        return idioms
    if case.operator == "gather_elements":
        idioms["take_along_axis"] = _take_along_axis
    elif is_take(case):
        idioms["take"] = _take
    if has_advanced_index(case):
        if case.mode == "raise":
            idioms["fancy index"] = _fancy
        if case.layout == "C":
            idioms["take of linear positions"] = _take_linear
    return idioms


def _stored(arrays: Arrays, make: Callable[[], Array]) -> Call:
    """Return the call of `make`, whose result is copied to the output if there is an output."""
    if arrays.out is None:
        return Call(run=make)
    out = arrays.out

    def run() -> Array:
        out[...] = make()
        return out

    return Call(run=run)


def _fancy(case: Case, arrays: Arrays) -> Call:
    index: Any = advanced_index(case, arrays.indices)
    return _stored(arrays, partial(arrays.data.__getitem__, index))


def _take(case: Case, arrays: Arrays) -> Call:
    indices = arrays.indices[..., 0] if case.has_tuples else arrays.indices
    axis = case.indexed_axes.start
    if arrays.out is None:
        return Call(run=lambda: arrays.data.take(indices, axis, mode=case.mode))
    # With modes other than "raise", take() needs no second buffer.
    return Call(run=partial(arrays.data.take, indices, axis, arrays.out, "clip"))


def _take_linear(case: Case, arrays: Arrays) -> Call:
    key = advanced_index(case, arrays.indices)
    sides = case.data_shape[: len(key)]
    flat = arrays.data.reshape(-1, *slice_shape(case))
    if arrays.out is None:
        return Call(run=lambda: flat.take(np.ravel_multi_index(key, sides, case.mode), 0))
    out = arrays.out
    return Call(run=lambda: flat.take(np.ravel_multi_index(key, sides, case.mode), 0, out, "clip"))


def _take_along_axis(case: Case, arrays: Arrays) -> Call:
    axis = case.indexed_axes.start
    leading = [slice(side) for side in arrays.indices.shape]
    leading[axis] = slice(None)
    data = arrays.data[tuple(leading)]
    return _stored(arrays, partial(np.take_along_axis, data, arrays.indices, axis))


def _target(case: Case, arrays: Arrays) -> Array:
    return arrays.data if case.output == "data" else arrays.data.copy()


def _scatter(case: Case, arrays: Arrays) -> Call:
    key = advanced_index(case, arrays.indices)

    def run() -> Array:
        result = _target(case, arrays)
        if case.reduction == "none":
            result[key] = arrays.updates
        else:
            _UFUNCS[case.reduction].at(result, key, arrays.updates)
        return result

    return Call(run=run)


def _scatter_linear(case: Case, arrays: Arrays) -> Call:
    assert arrays.updates is not None
    key, tail = advanced_index(case, arrays.indices), slice_shape(case)
    sides = case.data_shape[: len(key)]
    updates = arrays.updates.reshape(-1, *tail)

    def run() -> Array:
        result = _target(case, arrays)
        flat = result.reshape(-1, *tail)
        positions = np.ravel_multi_index(key, sides).reshape(-1)
        if case.reduction == "none":
            flat[positions] = updates
        else:
            _UFUNCS[case.reduction].at(flat, positions, updates)
        return result

    return Call(run=run)


def _put_along_axis(case: Case, arrays: Arrays) -> Call:
    assert arrays.updates is not None
    updates = arrays.updates

    def run() -> Array:
        result = _target(case, arrays)
        np.put_along_axis(result, arrays.indices, updates, case.axis)
        return result

    return Call(run=run)
