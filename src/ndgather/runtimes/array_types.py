"""Element types by name, and arrays as every runtime takes them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

STRING = "string"


def dtype_named(name: str) -> np.dtype[Any]:
    """Return the NumPy type of a name; strings are objects."""
    if name == STRING:
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        dtype: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
        return dtype


def in_native_order(array: Array) -> Array:
    """Return `array` in C order and in the byte order of this machine."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
