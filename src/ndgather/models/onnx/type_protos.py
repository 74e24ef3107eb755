"""Types of values as ONNX declares them, to and from the types that inference works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, TypeProto, helper

from ndgather.errors import onnx_errors
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from onnx import TensorShapeProto

    from ndgather.published.tensor_types import Dim


def _dtype_names() -> dict[int, str]:
    dtypes = {
        each: np.dtype(helper.tensor_dtype_to_np_dtype(each))
        for each in TensorProto.DataType.values()
        if each != TensorProto.UNDEFINED
    }
    return {each: "string" if dtype.kind == "O" else dtype.name for each, dtype in dtypes.items()}


_NAMES = _dtype_names()
_ELEMENT_TYPES = {name: each for each, name in _NAMES.items()}


def tensor_type(declared: TypeProto) -> TensorType:
    """Return what a declaration says; nothing is known of what is not a tensor."""
    tensor = declared.tensor_type
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return TensorType(_NAMES.get(tensor.elem_type), shape)


def type_of_array(tensor: TensorProto) -> TensorType:
    """Return the type of a tensor whose values need not be there."""
    return TensorType(_NAMES.get(tensor.data_type), tuple(tensor.dims))


def dtype_of_number(elem_type: int, name: str) -> np.dtype[Any]:
    """Return the dtype itself; see `dtype_name`."""
    dtype_name(elem_type, name)
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))


def dtype_name(elem_type: int, name: str) -> str:
    """Return the name of the dtype that a file gives the value `name` by a number.

    Raises
    ------
    DTypeError
        ONNX has no type of that number.
    """
    if elem_type not in _NAMES:
        raise onnx_errors.unknown_element_type(name, elem_type)
    return _NAMES[elem_type]


def element_type(dtype: str) -> int:
    """Return the number that ONNX has for a dtype.

    Raises
    ------
    DTypeError
        It has none.
    """
    if dtype not in _ELEMENT_TYPES:
        raise onnx_errors.unknown_dtype(dtype)
    return _ELEMENT_TYPES[dtype]


def schema_type(dtype: str) -> str:
    """Return the name that the schemas of `onnx` have for a tensor of a type."""
    return f"tensor({TensorProto.DataType.Name(_ELEMENT_TYPES[dtype]).lower()})"


def declaration(known: TensorType) -> TypeProto:
    """Return a declaration that says what is known; of a shape it can only say every size."""
    declared = TypeProto()
    tensor = declared.tensor_type
    if known.dtype is not None:
        tensor.elem_type = element_type(known.dtype)
    if isinstance(known.shape, tuple):
        tensor.shape.SetInParent()
        for dim in known.shape:
            size = tensor.shape.dim.add()
            if isinstance(dim, int):
                size.dim_value = dim
            elif dim is not None:
                size.dim_param = dim
    return declared


def forget_negative_sizes(declared: TypeProto) -> None:
    """Have sizes below 0 say that nothing is known, which is how they are read."""
    within = {"sequence_type": "elem_type", "optional_type": "elem_type", "map_type": "value_type"}
    kind = declared.WhichOneof("value")
    while kind in within:
        declared = getattr(getattr(declared, kind), within[kind])
        kind = declared.WhichOneof("value")
    if kind in {"tensor_type", "sparse_tensor_type"}:
        for dim in getattr(declared, kind).shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None
