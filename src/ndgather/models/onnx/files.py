"""ONNX model files and their external tensors."""

from __future__ import annotations

import math
import mmap
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeAlias

import numpy as np
import onnx
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ndgather import messages
from ndgather.api import own_errors
from ndgather.errors import FileError, ModelError
from ndgather.messages import foreign_errors, reason, shown
from ndgather.models import Array, Content, FilePath, file_path, instance
from ndgather.models.tensor_files import (
    LARGEST_PROTOBUF,
    check_regular,
    content,
    replace_file,
    resolved,
)

Source: TypeAlias = ModelProto | Content | FilePath
"""A model in memory, its bytes, or the path of its file."""

LARGEST_MODEL = LARGEST_PROTOBUF
"""The largest size of a model file, in bytes."""

IN_MEMORY = "model"
"""The name of a model without a path in error messages."""


def open_model(model: Source, caller: str) -> tuple[ModelProto, str | None]:
    """Return a model and the folder of its external tensors, if known.

    `caller` is the public function that error messages name.
    """
    proto, folder = map_model(model, caller)
    if isinstance(model, str | os.PathLike):
        read_mapped_tensors(proto, Path(model))
    return proto, folder


def read_mapped_tensors(proto: ModelProto, path: Path) -> None:
    """Read the values of the tensors that `map_model` left in the model file."""
    for tensor in external_tensors(proto):
        if _entry(tensor, "location") == path.name:
            _read_tensor(tensor, path.parent)


def map_model(
    model: Source, caller: str, *, checked: bool = False
) -> tuple[ModelProto, str | None]:
    """Open a model like `open_model`, but leave large tensors in its file as external tensors.

    If `checked`, also check that the files of external tensors contain all values. Opening a model
    with 200 MB of tensors needs 14 MB of memory, whereas parsing the whole file needs 400 MB.
    """
    if isinstance(model, ModelProto):
        return with_dense_tensors(model, None, copies=True), None
    if isinstance(model, Content):
        return with_dense_tensors(_parsed(bytes(model), IN_MEMORY), None), None
    if not isinstance(model, str | os.PathLike):
        allowed = "ModelProto, its bytes, or the path of its file"
        raise messages.argument_kind(caller, "model", model, "a model", allowed)
    path = file_path(caller, "model", model)
    proto, may_have_external = _mapped(path)
    if proto is None:
        serialized = content(path, LARGEST_PROTOBUF)
        proto, may_have_external = _parsed(serialized, path), b"location" in serialized
    try:
        external = list(external_tensors(proto)) if may_have_external else []
        folder = str(_folder_of(path, external))
        if checked:
            check_tensors(external, folder)
        return with_dense_tensors(proto, folder), folder
    except FileError as error:
        raise FileError(f"{path}: {error}") from error


def _folder_of(path: Path, tensors: list[TensorProto]) -> Path:
    """Return the folder that contains the external tensors of a model.

    If the model and its data are links to files in another folder, as in download caches, return
    the folder with the files and replace the locations with the names of the files.
    """
    inside, home = path.parent.resolve(), path.resolve().parent
    paths: dict[str, Path] = {}
    for tensor in tensors:
        location = _entry(tensor, "location")
        if location not in paths:
            paths[location] = tensor_path(tensor, inside, home)
    if all(item.is_relative_to(inside) for item in paths.values()):
        return path.parent
    for tensor in tensors:
        item = paths[_entry(tensor, "location")]
        if not item.is_relative_to(home):
            raise _outside(tensor, item)
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = item.relative_to(home).as_posix()
    return home


LARGEST_SPARSE = 2**20
"""The largest number of elements of a sparse tensor that is converted to a dense tensor."""


def with_dense_tensors(
    model: ModelProto, folder: str | None, *, copies: bool = False
) -> ModelProto:
    """Convert small sparse tensors to dense tensors, for which onnx infers correct types.

    Each dense tensor contains the original in its metadata, which `restore_sparse_tensors` reads.
    """
    found = list(sparse_tensors(model))
    if copies and found:
        return with_dense_tensors(deepcopy(model), folder)
    for name, sparse, owner in reversed(found):
        dense = _dense_tensor(sparse, name, folder)
        if dense is None:
            continue
        if not any(part.external_data for part in (sparse.values, sparse.indices)):
            original = b64encode(sparse.SerializeToString()).decode()
            dense.metadata_props.add(key=_SPARSE, value=original)
        if isinstance(owner, onnx.AttributeProto):
            owner.CopyFrom(helper.make_attribute("value", dense))
        else:
            owner.initializer.append(dense)
            position = next(n for n, item in enumerate(owner.sparse_initializer) if item is sparse)
            del owner.sparse_initializer[position]
    return model


_SPARSE = "ndgather.sparse"


def restore_sparse_tensors(model: ModelProto) -> ModelProto:
    """Restore the tensors that were sparse in the file, unless a pass has changed them.

    Tensors stay dense in models before IR version 6 and in Constant nodes before opset 11.
    """
    opset = next((item.version for item in model.opset_import if not item.domain), 0)
    for message in list(messages_in(model, onnx.GraphProto, onnx.NodeProto)):
        if isinstance(message, onnx.GraphProto):
            for tensor in list(message.initializer):
                sparse = _original(tensor)
                if sparse is not None and model.ir_version >= 6:
                    sparse.values.name = tensor.name
                    message.sparse_initializer.append(sparse)
                    message.initializer.remove(tensor)
        elif message.op_type == "Constant":
            for attribute in message.attribute:
                sparse = _original(attribute.t)
                if sparse is not None and model.ir_version >= 6 and opset >= 11:
                    attribute.CopyFrom(helper.make_attribute("sparse_value", sparse))
    return model


def _original(tensor: TensorProto) -> onnx.SparseTensorProto | None:
    """Remove and return the original sparse tensor in the metadata of a dense tensor."""
    found = [item for item in tensor.metadata_props if item.key == _SPARSE]
    for item in found:
        tensor.metadata_props.remove(item)
    return onnx.SparseTensorProto.FromString(b64decode(found[0].value)) if found else None


def sparse_tensors(model: ModelProto) -> Iterator[tuple[str, onnx.SparseTensorProto, Any]]:
    """Yield each sparse tensor, with its name and the graph or attribute that contains it."""
    for body in bodies_in(model):
        if isinstance(body, onnx.GraphProto):
            yield from ((item.values.name, item, body) for item in body.sparse_initializer)
        for node in body.node:
            for attribute in node.attribute if node.op_type == "Constant" else ():
                if attribute.name == "sparse_value":
                    yield next(iter(node.output), ""), attribute.sparse_tensor, attribute


def _dense_tensor(
    sparse: onnx.SparseTensorProto, name: str, folder: str | None
) -> TensorProto | None:
    dims, arrays = tuple(sparse.dims), []
    for tensor in sparse.values, sparse.indices:
        if tensor.data_location == TensorProto.EXTERNAL:
            if folder is None:
                raise messages.tensor_elsewhere(name)
            check_tensor(tensor, folder)
        with foreign_errors(FileError, f"constant {name!r}: cannot be read"):
            arrays.append(numpy_helper.to_array(tensor, folder or ""))
    if min(dims, default=0) >= 0 and math.prod(dims) > LARGEST_SPARSE:
        return None
    values, at = arrays
    try:
        flat = at if at.ndim == 1 else np.ravel_multi_index(tuple(at.T), dims)
        if flat.size and flat.min() < 0:
            raise ValueError("an index is negative")
        dense = np.zeros(math.prod(dims), values.dtype)
        dense[flat] = values
        return numpy_helper.from_array(dense.reshape(dims), name)
    except (IndexError, TypeError, ValueError) as error:
        raise FileError(
            f"constant {name!r}: is not a sparse tensor of shape {shown(dims)}: {reason(error)}"
        ) from error


def _parsed(serialized: bytes, path: object) -> ModelProto:
    if not serialized:
        raise ModelError(f"{path}: is empty (allowed: an ONNX model)")
    if serialized.startswith(b"version https://git-lfs"):
        raise ModelError(
            f"{path}: is a pointer of Git LFS (allowed: the file that git lfs pull downloads)"
        )
    try:
        proto: ModelProto = ModelProto.FromString(serialized)
    except DecodeError as error:
        raise ModelError(
            f"{path}: is not an ONNX model, or is incomplete (allowed: a complete binary file; "
            "onnx.save(onnx.load(path, format=...), new_path) converts text or JSON)"
        ) from error
    if not proto.HasField("graph"):
        raise ModelError(f"{path}: has no graph or is truncated (allowed: a complete file)")
    _check_names(serialized, path)
    return proto


def _check_names(serialized: bytes, path: object) -> None:
    """Raise ModelError if a string is not UTF-8, because protobuf would return it as bytes."""
    try:
        _strict_parser()(serialized)
    except DecodeError as error:
        raise ModelError(
            f"{path}: cannot be read as an ONNX model: a name is not UTF-8 text"
        ) from error


@cache
def _strict_parser() -> Callable[[bytes], object]:
    """Return a parser for models that rejects invalid UTF-8, like proto3."""
    schema = FileDescriptorProto()
    ModelProto.DESCRIPTOR.file.CopyToProto(schema)
    schema.syntax = "proto3"
    pool = DescriptorPool()
    pool.AddSerializedFile(schema.SerializeToString())
    kind = GetMessageClass(pool.FindMessageTypeByName(ModelProto.DESCRIPTOR.full_name))
    parse: Callable[[bytes], object] = kind.FromString
    return parse


def bodies_in(model: ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """Yield the graph, the functions and all subgraphs of a model."""
    waiting: list[Any] = [model.graph, *model.functions]
    for body in waiting:
        yield body
        for node in body.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g)
                waiting += attribute.graphs


def messages_in(message: Any, *wanted: Any) -> Iterator[Any]:
    """Yield a protobuf message and its nested messages, or only messages of types in `wanted`."""
    waiting = [message]
    while waiting:
        message = waiting.pop()
        kind: Any = type(message)
        inner: list[Any] = []
        for name, is_list in _fields_leading_to(kind, wanted):
            if is_list:
                inner += getattr(message, name)
            elif message.HasField(name):
                inner.append(getattr(message, name))
        waiting += reversed(inner)
        if not wanted or kind in wanted:
            yield message


@cache
def _fields_leading_to(kind: Any, wanted: tuple[Any, ...]) -> list[tuple[str, bool]]:
    """Return the name of each field that can contain wanted messages, and whether it is a list."""
    names, empty = {item.DESCRIPTOR.full_name for item in wanted}, kind()
    return [
        (field.name, hasattr(getattr(empty, field.name), "append"))
        for field in kind.DESCRIPTOR.fields
        if field.message_type is not None
        and (not wanted or names & _kinds_in(field.message_type, {field.message_type.full_name}))
    ]


def _kinds_in(kind: Any, names: set[str]) -> set[str]:
    """Extend `names` with the names of all message types that `kind` can contain."""
    for inner in (field.message_type for field in kind.fields):
        if inner is not None and inner.full_name not in names:
            names.add(inner.full_name)
            _kinds_in(inner, names)
    return names


def load_model(model: Source, caller: str) -> ModelProto:
    """Validate a model, and return it with the values of its external tensors."""
    proto, folder = map_model(model, caller)
    where = str(model) if isinstance(model, str | os.PathLike) else IN_MEMORY
    check_valid(proto, where)
    if folder is not None:
        try:
            load_tensors(proto, folder)
        except FileError as error:
            raise FileError(f"{where}: {error}") from error
    return proto


def load_tensors(model: ModelProto, folder: str) -> None:
    for tensor in external_tensors(model):
        _read_tensor(tensor, folder)


def _read_tensor(tensor: TensorProto, folder: FilePath) -> None:
    path, offset, length = check_tensor(tensor, folder)
    with foreign_errors(FileError, f"{path}: cannot be read"), path.open("rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.ClearField("data_location")
    del tensor.external_data[:]


def check_valid(model: ModelProto, path: str = IN_MEMORY) -> None:
    """Raise ModelError if `onnx.checker` rejects a model. External tensors are not checked."""
    try:
        onnx.checker.check_model(without_external_values(model))
    except (onnx.checker.ValidationError, ValueError) as error:
        # onnx raises ValueError for a model of more than 2 GiB and for invalid UTF-8.
        raise ModelError(f"{path}: is not a valid ONNX model: {reason(error)}") from error


def without_external_values(model: ModelProto) -> ModelProto:
    """Return a model whose external tensors are empty, so that onnx does not read their files."""
    if not any(external_tensors(model)):
        return model
    copy = deepcopy(model)
    for tensor in external_tensors(copy):
        del tensor.dims[:], tensor.external_data[:]
        tensor.dims.append(0)
        tensor.ClearField("data_location")
        if tensor.data_type != TensorProto.STRING:
            tensor.raw_data = b""
    return copy


# External tensors. File names and offsets may come from an untrusted model, so they are checked.

_COUNT = re.compile(r"[0-9]{1,19}")
_NARROW = {
    getattr(TensorProto, name): bits
    for name, bits in {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}.items()
}


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    return messages_in(model, TensorProto)


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    return (item for item in all_tensors(model) if item.data_location == TensorProto.EXTERNAL)


def check_self_contained(model: ModelProto) -> None:
    """Raise FileError if a model in memory has external tensors, because no folder is given."""
    for tensor in external_tensors(model):
        raise messages.tensor_elsewhere(tensor.name)


def check_tensors(tensors: Iterable[TensorProto], folder: FilePath) -> None:
    files: dict[str, tuple[Path, int]] = {}  # a cache, because most tensors share the same file
    for tensor in tensors:
        location = _entry(tensor, "location")
        if location not in files:
            files[location] = _external_file(tensor, folder)
        _extent(tensor, *files[location])


def check_tensor(tensor: TensorProto, folder: FilePath) -> tuple[Path, int, int]:
    """Return an external tensor's file, offset and length, or raise if any of them is invalid."""
    path, size = _external_file(tensor, folder)
    return path, *_extent(tensor, path, size)


def _external_file(tensor: TensorProto, folder: FilePath) -> tuple[Path, int]:
    """Return the path and size of an external tensor's file, or raise if the file is unsafe."""
    path, name = tensor_path(tensor, folder), tensor.name
    try:
        check_regular(path)
    except FileError as error:
        raise FileError(f"constant {name!r}: {error}") from error
    status = path.stat()
    if status.st_nlink > 1:  # The file may be a hard link to a private file in another folder.
        raise FileError(
            f"constant {name!r}: {path} has several hard links, which may be outside its folder "
            "(allowed: a file with one link)"
        )
    return path, status.st_size


def _extent(tensor: TensorProto, path: Path, size: int) -> tuple[int, int]:
    name = tensor.name
    offset = _count(tensor, "offset", 0)
    length = _count(tensor, "length", size - offset)
    if length < 0 or offset + length > size:
        end = offset + max(length, 0)
        raise FileError(
            f"constant {name!r}: bytes {offset}..{end} are not in {path}, which has {size}"
        )
    needed = tensor_bytes(tensor)
    if needed is not None and length != needed:
        raise FileError(
            f"constant {name!r}: has {length} bytes in its file (allowed: {needed}, by its type "
            f"and dims)"
        )
    return offset, length


def tensor_path(tensor: TensorProto, *folders: FilePath) -> Path:
    """Return the path of an external tensor's file, resolved relative to the first folder.

    Raise FileError if the file is not in any of the folders after symbolic links are resolved.
    """
    location = _entry(tensor, "location")
    absolute = PurePosixPath(location).anchor or PureWindowsPath(location).anchor
    if not absolute and location.strip() not in {"", "."} and "\0" not in location:
        inside = [Path(folder).resolve() for folder in folders]
        path = (inside[0] / location).resolve()
        if any(map(path.is_relative_to, inside)):
            return path
        if path != Path(os.path.normpath(inside[0] / location)):
            raise _outside(tensor, path)
    raise _outside(tensor, None)


def _outside(tensor: TensorProto, target: Path | None) -> FileError:
    location, link, beside = _entry(tensor, "location"), "", ""
    if target is not None:
        link = f"is a link to {str(target)!r}, which "
        beside = ", or beside the file that the model links to"
    return FileError(
        f"constant {tensor.name!r}: location = {location!r} {link}is not inside the folder of the "
        f"model (allowed: a file in that folder{beside})"
    )


def _entry(tensor: TensorProto, key: str) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == key), "")


def _count(tensor: TensorProto, key: str, default: int) -> int:
    text = _entry(tensor, key)
    if text and not _COUNT.fullmatch(text):
        raise FileError(f"constant {tensor.name!r}: {key} = {text!r} is not a whole number")
    return int(text) if text else default


def tensor_bytes(tensor: TensorProto) -> int | None:
    """Return the size of a tensor in bytes, or None if the element size varies."""
    if any(size < 0 for size in tensor.dims):
        dims = shown(tuple(tensor.dims))
        raise FileError(f"constant {tensor.name!r}: dims = {dims} has a negative size")
    bits = _element_bits(tensor.data_type)
    return None if bits is None else -(-math.prod(tensor.dims) * bits // 8)


@cache
def _element_bits(data_type: int) -> int | None:
    if data_type in {TensorProto.UNDEFINED, TensorProto.STRING}:
        return None
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(data_type))
    except (KeyError, ValueError):
        return None
    return _NARROW.get(data_type, dtype.itemsize * 8)


def map_tensor(tensor: TensorProto, folder: FilePath) -> Array | None:
    """Return an external tensor as a memory map, or None if it cannot be mapped."""
    path, offset, _ = check_tensor(tensor, folder)
    bits, shape = _element_bits(tensor.data_type), tuple(tensor.dims)
    if bits is None or bits % 8 or 0 in shape:
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def make_external(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


# Large models. onnx supports models of at most 2 GiB.

LARGE = 1 << 20  # the minimum size, in bytes, of tensors that are dropped from models over 2 GiB
_VALUES = frozenset(
    {"raw_data", "float_data", "int32_data", "int64_data", "uint64_data", "double_data"}
    | {"string_data"}
)


def raw_bytes(tensor: TensorProto) -> int:
    return (tensor_bytes(tensor) or 0) if tensor.HasField("raw_data") else 0


def inferable(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy without its large tensors if it is too large for onnx."""
    with suppress(EncodeError):  # protobuf raises EncodeError for a model of more than 2 GiB.
        if model.ByteSize() <= LARGEST_MODEL:
            return model
    copy = without_values(model, lambda tensor: raw_bytes(tensor) >= LARGE)
    for tensor in copy.graph.initializer:
        size = tensor_bytes(tensor) or 0
        if not tensor.HasField("raw_data") and size >= LARGE:
            make_external(tensor, "elsewhere", 0, size)
    return copy


def without_values(model: ModelProto, dropped: Callable[[TensorProto], bool]) -> ModelProto:
    """Return a copy of a model without the values of the initializers that satisfy `dropped`."""
    copy = ModelProto()
    copy_fields(model, copy, {"graph"})
    copy_fields(model.graph, copy.graph, {"initializer"})
    for tensor in model.graph.initializer:
        copy_fields(tensor, copy.graph.initializer.add(), _VALUES if dropped(tensor) else ())
    return copy


def copy_fields(source: Any, target: Any, without: Collection[str]) -> None:
    for field, value in source.ListFields():
        if field.name in without:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)


# Mapped models

LARGE_ENOUGH_TO_MAP = 2**16  # in bytes
_SINGULAR = frozenset({"graph", "t", "g", "raw_data"})
_REPEATED = frozenset({"node", "initializer", "attribute"})


def _mapped(path: Path) -> tuple[ModelProto | None, bool]:
    """Return a mapped model or None, and whether the model may have external tensors."""
    check_regular(path)
    status = path.stat()
    ordinary = status.st_nlink == 1 and not path.is_symlink() and path.name.isprintable()
    if not ordinary or not LARGE_ENOUGH_TO_MAP <= status.st_size <= LARGEST_MODEL:
        return None, False
    proto = ModelProto()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        try:
            has_external = _merge(proto, mapped, 0, status.st_size, path.name)
        except MemoryError:
            raise
        except Exception:  # If mapping fails, the caller parses the whole file instead.
            return None, False
    if not proto.HasField("graph"):
        return None, False
    _check_names(proto.SerializeToString(), path)
    return proto, has_external


def _merge(message: Any, mapped: mmap.mmap, start: int, end: int, file_name: str) -> bool:
    """Parse a message, replacing the raw data of large tensors with references to the file.

    The parts between large tensors are parsed separately and merged. Return whether the message may
    already contain external tensors.
    """
    parsed, raw_data, seen, has_external = start, None, set(), False
    kind: Any = type(message)
    large = _SINGULAR | _REPEATED  # the names of fields that may contain large tensors
    names = {item.number: item.name for item in kind.DESCRIPTOR.fields if item.name in large}
    for number, field_start, value, field_end in _fields(mapped, start, end):
        name = names.get(number)
        if name in seen:
            raise ValueError(f"{name} occurs twice and would be merged")
        if field_end > end:
            raise ValueError("a field extends past the end of its message")
        if name in _SINGULAR:
            seen.add(name)
        if field_end - value < LARGE_ENOUGH_TO_MAP or name is None:
            continue
        part, parsed = mapped[parsed:field_start], field_end
        message.MergeFromString(part)
        has_external |= b"location" in part
        if name == "raw_data":
            raw_data = (value, field_end)
        else:
            inner = getattr(message, name)
            inner = inner.add() if name in _REPEATED else inner
            has_external |= _merge(inner, mapped, value, field_end, file_name)
    part = mapped[parsed:end]
    message.MergeFromString(part)
    if raw_data is not None:
        length = raw_data[1] - raw_data[0]
        if tensor_bytes(message) not in {None, length}:
            raise ValueError(f"{length} bytes are not the values of {tuple(message.dims)}")
        if (_element_bits(message.data_type) or 1) % 8:
            message.raw_data = mapped[slice(*raw_data)]
        else:
            make_external(message, file_name, raw_data[0], length)
    return has_external or b"location" in part


_FIXED = {1: 8, 5: 4}  # the size, in bytes, of each wire type that has a fixed size


def _fields(content: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each protobuf field and the offsets of its tag, value and end."""
    while start < end:
        tag, value = content[start], start + 1
        if tag > 127:
            tag, value = _varint(content, start)
        wire_type, after = tag & 7, value
        if wire_type == 2:
            length, value = content[value], value + 1
            if length > 127:
                length, value = _varint(content, value - 1)
            after = value + length
        elif wire_type == 0:
            _, after = _varint(content, value)
        elif wire_type in _FIXED:
            after += _FIXED[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} does not exist")
        yield tag >> 3, start, value, after
        start = after


def _varint(content: mmap.mmap, start: int) -> tuple[int, int]:
    """Return a protobuf varint and the offset of the byte after it."""
    number = 0
    for count in range(10):
        byte = content[start + count]
        number |= (byte & 127) << 7 * count
        if byte < 128:
            return number, start + count + 1
    raise ValueError("a number of more than 64 bits")


# Written files

_ALIGNMENT = 4096  # the alignment of tensors in bytes, so that runtimes can use mapped memory
_SMALL = 1024  # the size, in bytes, below which a tensor stays in the model file
_CHUNK = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInFolder:
    """A model and the folder of its external tensors, if known."""

    model: ModelProto
    folder: str | None = None


@own_errors("save")
def save(model: ModelProto | ModelInFolder, path: FilePath, folder: FilePath | None = None) -> None:
    """Write a model to a file, or leave an existing file unchanged if an error occurs.

    Parameters
    ----------
    model : ModelProto or Conversion
        The model, which is not modified. A conversion contains the folder of the original file.
    path : str or os.PathLike
        The file to write. An existing file is replaced only after the new file is complete.
    folder : str or os.PathLike, optional
        The folder of the model's external tensors, by default the folder of `path`. If `path` is in
        this folder, the tensors stay in their files; otherwise they become part of the model.

    Raises
    ------
    FileError
        The file cannot be written, or an external tensor is not in `folder`.

    Notes
    -----
    If a model has 2 GiB or more, its tensors are written to a separate file in the same folder. For
    example, the tensors of ``model.onnx`` are written to ``model.onnx.data``.

    Examples
    --------
    >>> from onnx import ModelProto
    >>> from ndgather.models import onnx
    >>> onnx.save(ModelProto(), "nowhere/model.onnx")
    Traceback (most recent call last):
    ...
    ndgather.errors.FileError: nowhere/model.onnx: cannot be written: no such file or directory
    """
    if isinstance(model, ModelInFolder):
        folder = model.folder if folder is None else folder
        model = model.model
    instance("save", "model", model, ModelProto, "a model")
    target = file_path("save", "path", path)
    source = target.parent if folder is None else file_path("save", "folder", folder)
    stays = resolved(source) == resolved(target).parent
    try:
        check_tensors(external_tensors(model), source)
    except FileError as error:
        if folder is not None:
            raise
        raise FileError(
            f"{target}: cannot be written: the external tensors of the model are not in the same "
            f"folder: {error} (allowed: folder=, the folder of the external tensors)"
        ) from error
    external = list(external_tensors(model))
    size = sum(map(raw_bytes, all_tensors(model)))
    if stays:
        _check_not_replaced(target, external, source)
    else:
        size += sum(check_tensor(tensor, source)[2] for tensor in external)
    content = None
    if size <= LARGEST_MODEL:
        whole = model
        if external and not stays:
            whole = deepcopy(model)
            load_tensors(whole, str(source))
        content = _serialized(whole)
    if content is None:
        _save_with_data(model, target, source, stays=stays)
    else:
        replace_file((target, lambda part: part.write_bytes(content)))


def _check_not_replaced(path: Path, tensors: list[TensorProto], folder: Path) -> None:
    if any(tensor_path(tensor, folder) == resolved(path) for tensor in tensors):
        raise FileError(f"{path}: cannot be written: it contains external tensors of the model")


def _serialized(model: ModelProto) -> bytes | None:
    try:
        content: bytes = model.SerializeToString()
    except Exception:
        return None
    return content if len(content) <= LARGEST_MODEL else None


def _save_with_data(model: ModelProto, target: Path, folder: Path, *, stays: bool) -> None:
    """Write a model to `target`, and its tensors to a data file in the same folder."""
    data = target.with_name(f"{target.name}.data")
    _check_not_replaced(data, list(external_tensors(model)), folder)
    small = without_values(model, lambda tensor: raw_bytes(tensor) >= _SMALL)
    moved: list[tuple[TensorProto, int]] = []
    end = 0
    for tensor, copy in zip(all_tensors(model), all_tensors(small), strict=True):
        is_external = tensor.data_location == TensorProto.EXTERNAL
        length = raw_bytes(tensor)
        if is_external:
            _, _, length = check_tensor(tensor, folder)
        if stays if is_external else length < _SMALL:
            continue
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        moved.append((tensor, start))
        end = start + length
        make_external(copy, data.name, start, length)
    content = _serialized(small)
    if content is None:
        raise FileError(
            f"{target}: cannot be written: the model is too large even without its tensors "
            f"(allowed: at most {LARGEST_MODEL} bytes)"
        )

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for tensor, start in moved:
                file.seek(start)
                if tensor.data_location != TensorProto.EXTERNAL:
                    file.write(tensor.raw_data)
                    continue
                source, offset, length = check_tensor(tensor, folder)
                with source.open("rb") as values:
                    values.seek(offset)
                    for rest in range(length, 0, -_CHUNK):
                        file.write(values.read(min(rest, _CHUNK)))

    replace_file((data, write), (target, lambda path: path.write_bytes(content)))
