"""Tensors that a model keeps in other files: each inside the model's folder, and whole.

The model may come from anyone: what it names is held to the folder and to the bytes that are
there before anything is opened.
"""

from __future__ import annotations

import math
import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto, TensorProto, helper

from ndgather.errors import FileError, constant_errors
from ndgather.models.onnx.domains import subgraphs
from ndgather.models.tensors.safe_read import check_regular

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from onnx import FunctionProto, ModelProto

_COUNT = re.compile(r"[0-9]{1,19}")
_BITS = {
    getattr(TensorProto, name): bits
    for name, bits in {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}.items()
    if hasattr(TensorProto, name)  # the narrowest came last
}


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model that are in other files."""
    for tensor in held_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor


def held_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors of a model."""
    for body in (model.graph, *model.functions):
        yield from _tensors(body)


def _tensors(body: GraphProto | FunctionProto) -> Iterator[TensorProto]:
    if isinstance(body, GraphProto):
        yield from body.initializer
        for sparse in body.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in body.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
        for graph in subgraphs(node):
            yield from _tensors(graph)


def place(tensor: TensorProto, folder: str | os.PathLike[str]) -> Path:
    """Return the file that a tensor is in.

    Raises
    ------
    FileError
        It names none, or one that is not inside `folder`, by whatever links.
    """
    location = _entry(tensor, "location", "")
    inside = Path(folder).resolve()
    named = (PurePosixPath(location), PureWindowsPath(location))
    if location.strip() in {"", "."} or "\0" in location or any(each.anchor for each in named):
        raise constant_errors.tensor_place(tensor.name, location)
    found = (inside / location).resolve()
    if not found.is_relative_to(inside):
        raise constant_errors.tensor_place(tensor.name, location)
    return found


def check_tensor(tensor: TensorProto, folder: str | os.PathLike[str]) -> None:
    """Refuse a tensor that its file does not hold.

    Raises
    ------
    FileError
        The file is not there or outside `folder`, or has other bytes than the tensor needs.
    """
    path = place(tensor, folder)
    try:
        check_regular(path)
    except FileError as error:
        raise constant_errors.in_constant(tensor.name, error) from error
    if path.stat().st_nlink > 1:  # the other name may be of a file outside
        raise constant_errors.tensor_of_two_names(tensor.name, path)
    size = path.stat().st_size
    offset = _count(tensor, "offset", 0)
    length = _count(tensor, "length", size - offset)
    if length < 0 or offset + length > size:
        raise constant_errors.tensor_beyond(tensor.name, path, offset, max(length, 0), size)
    needed = bytes_of(tensor)
    if needed is not None and length != needed:
        raise constant_errors.tensor_length(tensor.name, length, needed)


def mapped(tensor: TensorProto, folder: str | os.PathLike[str]) -> NDArray[Any] | None:
    """Return a tensor that `check_tensor` allowed as a map of its file.

    None where its elements are of no whole bytes, or there are none.
    """
    if tensor.data_type == TensorProto.STRING or tensor.data_type in _BITS:
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
    shape, offset = tuple(tensor.dims), _count(tensor, "offset", 0)
    if 0 in shape:
        return None
    return np.asarray(np.memmap(place(tensor, folder), dtype, "r", offset, shape))


def has_whole_bytes(tensor: TensorProto) -> bool:
    """Whether the elements of a tensor are of one size, in whole bytes."""
    kinds = TensorProto.DataType.values()
    none = {TensorProto.UNDEFINED, TensorProto.STRING, *_BITS}
    return tensor.data_type in kinds and tensor.data_type not in none


def span(tensor: TensorProto, folder: str | os.PathLike[str]) -> tuple[int, int]:
    """Return where in its file a tensor that `check_tensor` allowed begins, and its length."""
    offset = _count(tensor, "offset", 0)
    return offset, _count(tensor, "length", place(tensor, folder).stat().st_size - offset)


def set_place(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Have a tensor stand in a file, and not in the model."""
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def check_tensors(model: ModelProto, folder: str | os.PathLike[str]) -> None:
    """Refuse a model with a tensor that `check_tensor` refuses."""
    for tensor in external_tensors(model):
        check_tensor(tensor, folder)


def refuse_tensors(model: ModelProto) -> None:
    """Refuse a model in memory with tensors in files: nobody has said in which folder."""
    for tensor in external_tensors(model):
        raise constant_errors.tensor_elsewhere(tensor.name)


def _entry(tensor: TensorProto, key: str, default: str) -> str:
    return next((each.value for each in tensor.external_data if each.key == key), default)


def _count(tensor: TensorProto, key: str, default: int) -> int:
    text = _entry(tensor, key, "")
    if not text:
        return default
    if not _COUNT.fullmatch(text):
        raise constant_errors.tensor_count(tensor.name, key, text)
    return int(text)


def bytes_of(tensor: TensorProto) -> int | None:
    """Return how many bytes the elements of a tensor take; None where the type has no width."""
    if any(size < 0 for size in tensor.dims):
        raise constant_errors.tensor_dims(tensor.name, tuple(tensor.dims))
    if tensor.data_type in {TensorProto.UNDEFINED, TensorProto.STRING}:
        return None
    try:
        width = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize * 8
    except (KeyError, ValueError):
        return None
    count: int = math.prod(tensor.dims)
    return -(-count * _BITS.get(tensor.data_type, width) // 8)
