"""Arrays as serialized TensorProto messages, which ``.pb`` files hold."""

from __future__ import annotations

import numpy as np

from ndgather import messages
from ndgather.api import own_errors
from ndgather.errors import FileError
from ndgather.models import Array
from ndgather.models import array as as_array

try:
    import onnx
    from onnx import numpy_helper
except ModuleNotFoundError as missing:
    raise messages.extra_missing("onnx", "onnx") from missing

_KIND = "TensorProto (.pb)"


@own_errors("tensor_from_bytes")
def tensor_from_bytes(content: bytes, path: object) -> Array:
    """Return the array of a serialized TensorProto.

    Parameters
    ----------
    content : bytes
        The content of a ``.pb`` file.
    path : object
        Its name in errors.

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
    with messages.foreign_errors(FileError, f"{path}: is not a complete {_KIND} file"):
        tensor = onnx.TensorProto.FromString(content)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise messages.tensor_elsewhere(tensor.name)
        return np.asarray(numpy_helper.to_array(tensor))


@own_errors("tensor_to_bytes")
def tensor_to_bytes(array: Array, path: object) -> bytes:
    """Return an array as a serialized TensorProto.

    Parameters
    ----------
    array : array_like
        An array of a dtype that ONNX has.
    path : object
        The name of the file in errors.

    Returns
    -------
    bytes
        The content of a ``.pb`` file.
    """
    array = as_array("array", array)
    what = f"dtype {array.dtype}"  # which ONNX does not have, or the tensor is above 2 GiB
    with messages.converted_errors(lambda _: messages.not_storable(path, what, _KIND)):
        strings = array.astype(object) if array.dtype.kind in "UT" else array
        return bytes(numpy_helper.from_array(strings).SerializeToString())
