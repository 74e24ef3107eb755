"""NumPy dtypes by the names that the operator table has for them.

`ml_dtypes` is imported here alone, and only for the types that NumPy lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgather.errors import run_errors


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype with this name; strings are Python objects.

    Raises
    ------
    DTypeError
        There is no such dtype.
    ExtraMissingError
        The package that defines it is not installed.
    """
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes  # noqa: PLC0415 - only some types need it
    except ModuleNotFoundError as missing:
        raise run_errors.dtype_needs_package(name, "ml_dtypes") from missing
    if not hasattr(ml_dtypes, name):
        raise run_errors.no_dtype(name)
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype
