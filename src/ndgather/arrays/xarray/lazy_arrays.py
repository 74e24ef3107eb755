"""Values at points of what stands behind a variable: an array in memory, or one read lazily.

xarray wraps a stored array once for each step of its decoding. The steps work element by element,
and so points are gathered from the innermost array and decoded by the steps of the variable
itself. What is no such step is read in boxes, one at a time, through its own indexing.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.core import indexing

from ndgather import api
from ndgather.array_call import Call
from ndgather.arrays.xarray import keys, readers
from ndgather.stored import calls
from ndgather.stored.plan import Plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ndgather.arrays.xarray.keys import Key

    Array = NDArray[Any]

# Decoding steps that keep the shape, by their name: xarray has moved them between its modules.
_ELEMENT_BY_ELEMENT = ("_ElementwiseFunctionArray", "NativeEndiannessArray", "BoolTypeArray")
_CACHES = (indexing.CopyOnWriteArray, indexing.MemoryCachedArray)


@dataclass(frozen=True, slots=True)
class Options:
    """How a call reads: its name in error texts, and the options of calls on stored arrays."""

    caller: str
    memory: Any = None
    progress: Any = None
    executor: Any = None
    name: str = ""  # of the variable
    chunks: Any = None  # of the stored array, where its variable knows them
    plans: Plans = field(default_factory=Plans)  # that the variables of a data set share


def take(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` that `key` takes, decoded; entries of -1 take nothing.

    They give NaN, in the type that `reindex` of xarray gives.
    """
    arrays = [each for each in key if not isinstance(each, slice)]
    absent = np.broadcast_to(False, keys.points_shape(key))
    for each in arrays:
        if (each < 0).any():
            absent = absent | (each < 0)
    if not absent.any():
        return _take(array, key, options)
    found = tuple(
        each if isinstance(each, slice) else np.broadcast_to(each, absent.shape)[~absent]
        for each in key
    )
    values = _take(array, found, options)
    dtype, missing = with_missing(values.dtype)
    result = np.full(keys.result_shape(key, array.shape), missing, dtype)
    result[~absent] = values
    return result


def with_missing(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], Any]:
    """Return the type that holds elements of `dtype` and a missing one, and the missing one."""
    if dtype.kind in "iu":
        return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64), np.nan
    if dtype.kind == "b":
        return np.dtype(np.float64), np.nan
    if dtype.kind in "mM":
        return dtype, np.array("NaT", dtype)[()]
    return (dtype, np.nan) if dtype.kind in "fc" else (np.dtype(object), np.nan)


def _take(array: Any, key: Key, options: Options) -> Array:
    if isinstance(array, np.ndarray):
        return _from_memory(array, key)
    if isinstance(array, _CACHES):
        return _take(array.array, key, options)
    if isinstance(array, indexing.LazilyIndexedArray):
        return _take(array.array, keys.behind(array.key.tuple, key, array.array.shape), options)
    if isinstance(array, indexing.NumpyIndexingAdapter):
        return _take(array.array, key, options)
    if type(array).__name__ in _ELEMENT_BY_ELEMENT:
        return _decoded(array, _take(array.array, key, options))
    return _from_store(array, key, options)


def _decoded(step: Any, values: Array) -> Array:
    """Return what a step of decoding makes of values."""
    step = copy.copy(step)
    step.array = indexing.NumpyIndexingAdapter(values)  # type: ignore[no-untyped-call]
    return np.asarray(step.get_duck_array())


def innermost(array: Any) -> tuple[Any, Callable[[Array], Array]]:
    """Return the whole array that stands behind a lazy one, and what decodes its values."""
    steps: list[Any] = []
    while True:
        if type(array).__name__ in _ELEMENT_BY_ELEMENT:
            steps.insert(0, array)
        elif isinstance(array, indexing.LazilyIndexedArray):
            if not all(map(keys.is_whole, array.key.tuple, array.array.shape)):
                break
        elif not isinstance(array, (*_CACHES, indexing.NumpyIndexingAdapter)):
            break
        array = array.array
    return array, lambda values: reduce(lambda made, step: _decoded(step, made), steps, values)


def _from_memory(array: Array, key: Key) -> Array:
    sliced = array[tuple(each if isinstance(each, slice) else slice(None) for each in key)]
    axes = [axis for axis, each in enumerate(key) if not isinstance(each, slice)]
    positions = [each for each in key if not isinstance(each, slice)]
    if len(axes) == 1:
        taken = api.gather(sliced, positions[0], axis=axes[0])
        inner = range(axes[0], axes[0] + positions[0].ndim)
        return np.moveaxis(taken, tuple(inner), tuple(range(positions[0].ndim)))
    front = np.moveaxis(sliced, axes, range(len(axes)))
    return api.gather_nd(front, tuples(positions))


def tuples(positions: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return positions on some axes as tuples of indices, along a last axis."""
    shape = np.broadcast_shapes(*(each.shape for each in positions))
    made = np.empty((*shape, len(positions)), np.int64)
    for axis, each in enumerate(positions):
        made[..., axis] = each
    return made


def _from_store(array: Any, key: Key, options: Options) -> Array:
    """Gather what a key takes chunk by chunk: slices that are whole axes are copied as such."""
    key = keys.without_parts(key, array.shape)
    front = [axis for axis, each in enumerate(key) if not isinstance(each, slice)]
    behind = [axis for axis, each in enumerate(key) if isinstance(each, slice)]
    reader = readers.reader(array, options.chunks, options.name)
    moved = readers.MovedReader(reader, (*front, *behind))
    call = Call(
        options.caller,
        "gather_nd",
        None,
        tuples([each for each in key if not isinstance(each, slice)]),
        memory=options.memory,
        progress=options.progress,
        executor=options.executor,
    )
    return calls.gather(call, moved, options.plans)
