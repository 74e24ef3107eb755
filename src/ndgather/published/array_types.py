"""Types and shapes of arrays of any library, as the rows of specifications have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import dispatch
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What libraries call types of the specifications, where it is not what NumPy calls them.
_NAMES = {
    "boolean": "bool",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "str": "string",
    "large_string": "string",
    "string_view": "string",
}


def dtype_name(array: NDArray[Any]) -> str:
    """Return the name that the specifications' rows have for the type of a NumPy array."""
    kind = array.dtype.kind
    if kind in "UST" or (
        kind == "O" and all(isinstance(each, (str, bytes)) for each in array.flat)
    ):
        return "string"
    return array.dtype.name


def type_of(array: Any) -> TensorType:
    """Return the type of an array of any library; a table of one type counts as an array of it."""
    if isinstance(array, np.ndarray):
        return TensorType(dtype_name(array), array.shape)
    shape = tuple(array.shape) if hasattr(array, "shape") else (len(array),)
    if hasattr(array, "dtype"):
        return TensorType(_name(array.dtype), shape)
    dtypes = getattr(array, "dtypes", None)
    if dtypes is None:
        dtypes = array.schema.types if hasattr(array, "schema") else (array.type,)
    return TensorType(" and ".join(dict.fromkeys(map(_name, dtypes))), shape)


def _name(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        return dtype_name(np.empty(0, dtype)) if dtype.kind != "O" else "object"
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2].lower()
    return _NAMES.get(name, name)


def keeps_its_kind(value: Any) -> bool:
    """Whether an operator takes `value` as it is: it has an adapter, a type and a shape."""
    if not dispatch.adapter_of(value) or getattr(value, "is_nested", False):
        return False
    try:
        return type_of(value).dtype != "object"  # what such elements are, NumPy tells
    except MemoryError:
        raise
    except Exception:  # whatever a container raises that has no type or no shape
        return False


def reshaped(array: Any, shape: tuple[Any, ...]) -> Any:
    """Return an array in a shape of as many elements, as an array of its library."""
    if hasattr(array, "reshape"):
        return array.reshape(shape)
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().reshape(array, shape)
    reshape = getattr(dispatch.adapter_of(array), "reshape", np.reshape)
    return reshape(array, shape)
