"""Arrays as serialized TensorProto messages, which `.pb` files hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import FileError, constant_errors, file_errors, run_errors
from ndgather.models.arguments import array as as_array

try:
    import onnx
    from onnx import numpy_helper
except ModuleNotFoundError as missing:
    raise run_errors.extra_missing("onnx", "onnx") from missing

Array = NDArray[Any]


def tensor_from_bytes(content: bytes, path: object) -> Array:
    """Return the array that a serialized TensorProto holds.

    Parameters
    ----------
    content : bytes
        What a ``.pb`` file holds.
    path : object
        What errors call it.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather.models import onnx
    >>> onnx.tensor_from_bytes(onnx.tensor_to_bytes(np.array([1, 2]), "array"), "array")
    array([1, 2])
    """
    try:
        tensor = onnx.TensorProto.FromString(content)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise constant_errors.tensor_elsewhere(tensor.name)
        return np.asarray(numpy_helper.to_array(tensor))
    except FileError:
        raise
    except Exception as error:  # protobuf, NumPy and onnx each refuse in their own way
        raise file_errors.not_of_its_kind(path, "TensorProto (.pb)", error) from error


def tensor_to_bytes(array: Array, path: object) -> bytes:
    """Return an array as a serialized TensorProto.

    Parameters
    ----------
    array : array_like
        Of a dtype that ONNX has.
    path : object
        What errors call it.

    Returns
    -------
    bytes
        What a ``.pb`` file holds.
    """
    array = as_array("array", array)
    try:
        strings = array.astype(object) if array.dtype.kind in "UT" else array
        return bytes(numpy_helper.from_array(strings).SerializeToString())
    except Exception as error:  # ONNX has no such type, or the tensor is above 2 GiB
        kind = "TensorProto (.pb)"
        raise file_errors.not_storable(path, f"dtype {array.dtype}", kind) from error
