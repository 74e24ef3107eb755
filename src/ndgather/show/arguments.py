"""The arrays of a call as they can be drawn: as NumPy arrays, or by shape, dtype and chunks alone.

Of an array that is stored elsewhere nothing is read, unless all of it is drawn; of one that is
lazy, nothing is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import dispatch, plain_arrays
from ndgather.api import gather_nd
from ndgather.errors import DTypeError
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.dry_run import reader_of
from ndgather.stored.plan import with_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Array = NDArray[Any]

_MOST_READ = 200  # elements of a stored array: all of them are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Drawable:
    """An array; where it is not readable it stands in for one with its shape and dtype."""

    array: Array
    readable: bool = True
    grid: Grid | None = None  # of the chunks of a stored or lazy array


def data_of(call: Call) -> Drawable:
    """Return the data of a call.

    Raises
    ------
    NdgatherError
        It is not an array.
    """
    module = dispatch.adapter_name(call.data) or ""
    if module.startswith("ndgather.stored.") and not isinstance(call.data, np.memmap):
        return _stored(call)
    data = without_names(call.data)
    try:
        return Drawable(plain_or_masked(call.caller, "data", data))
    except DTypeError:
        dtype, shape = getattr(data, "dtype", None), getattr(data, "shape", None)
        if not isinstance(dtype, np.dtype) or not _is_shape(shape):
            raise
        return Drawable(stand_in(shape, dtype), False, _grid(data))  # type: ignore[arg-type]  # it is


def without_names(value: object) -> object:
    """Return the array of what names its axes, without reading one that is lazy."""
    module = "ndgather.arrays.xarray"
    if dispatch.adapter_name(value) != module:
        return value
    array: object = import_module(f"{module}.functions").array_behind(value)
    return array


def plain_or_masked(caller: str, name: str, value: object) -> Array:
    """Return an argument as an array of NumPy, with its mask if it has one.

    Raises
    ------
    NdgatherError
        It is not an array.
    """
    if isinstance(value, np.ma.MaskedArray):
        return value
    return plain_arrays.plain_array(caller, name, value)


def _stored(call: Call) -> Drawable:
    reader = reader_of(call)
    if math.prod(reader.grid.shape) > _MOST_READ:
        array = with_data(call, reader.grid, reader.dtype).data
        return Drawable(array, False, reader.grid)
    whole = gather_nd(call.data, np.zeros((1, 0), np.int64))[0]
    return Drawable(whole, True, reader.grid)


def _is_shape(shape: object) -> bool:
    return isinstance(shape, tuple) and all(isinstance(size, int) for size in shape)


def _grid(data: object) -> Grid | None:
    """Return the grid of a lazy array whose chunks are listed for each axis, as dask has them."""
    chunks = getattr(data, "chunks", None)
    if isinstance(chunks, tuple) and all(isinstance(each, tuple) for each in chunks):
        return Grid.of_sizes(chunks)
    return None
