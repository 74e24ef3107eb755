"""Conversion of the elements of an array to another type, where the value says how.

Integers become unsigned ones modulo their range, numbers become booleans by being zero or
not, fractions are cut off. What the other type cannot hold has no defined result: it is
refused, never replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import conversion_errors
from ndgather.models.graph.dtypes import dtype_of
from ndgather.published.array_types import dtype_name

Array = NDArray[Any]


def converted(array: Array, name: str) -> Array:
    """Return `array` with elements of the type `name`.

    Raises
    ------
    DTypeError
        There is no such conversion, or the type cannot hold a value.
    """
    source = dtype_name(array)
    if source == name:
        return array
    if "string" in {source, name} or array.dtype.kind in "cO":
        raise conversion_errors.no_conversion(source, name)
    dtype = dtype_of(name)
    if name == "bool":
        return np.not_equal(array, np.zeros((), array.dtype))
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        lost = _lost(array, result)
    if lost.any():
        place = tuple(int(at) for at in np.unravel_index(np.argmax(lost), lost.shape))
        raise conversion_errors.value_lost(place, array[place], name)
    return result


def _lost(array: Array, result: Array) -> NDArray[np.bool_]:
    """Return where `result` is not the element of `array` as its type would have it."""
    if not _integral(result.dtype):
        return np.asarray(_finite(array) & ~_finite(result))
    unsigned, bits = result.dtype.name.startswith("u"), _bits(result.dtype)
    if not _integral(array.dtype):
        # The bounds are powers of two: no floating type rounds a value across one.
        lowest, beyond = (0.0, 2.0**bits) if unsigned else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
        whole = np.trunc(array.astype(np.float64))
        return np.asarray(~((whole >= lowest) & (whole < beyond)))
    if unsigned:
        return np.zeros(array.shape, bool)
    return np.asarray((result.astype(array.dtype) != array) | ((result < 0) != (array < 0)))


def _integral(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith(("int", "uint"))


def _finite(array: Array) -> NDArray[np.bool_]:
    return np.isfinite(array.astype(np.float64))


def _bits(dtype: np.dtype[Any]) -> int:
    return int(dtype.name.lstrip("uint"))
