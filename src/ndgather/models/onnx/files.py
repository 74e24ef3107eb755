"""Model files: read without the tensors that stand in files of their own, and written."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from onnx import ModelProto, TensorProto, external_data_helper

from ndgather.errors import FileError, file_errors, onnx_errors, run_errors
from ndgather.models.arguments import Content, FilePath, file_path
from ndgather.models.onnx.nodes import (
    bytes_of,
    check_tensors,
    external_tensors,
    has_whole_bytes,
    held_tensors,
    place,
    set_place,
)
from ndgather.models.tensors.tensor_files import LARGEST_PROTOBUF, check_regular, content

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


Source: TypeAlias = ModelProto | Content | FilePath
"""A model in memory, its bytes, or the path of its file."""

IN_MEMORY = "model"
"""What errors call a model that has no path."""


def opened(model: Source, caller: str) -> tuple[ModelProto, str | None]:
    """Return a model, and the folder of the files that it keeps tensors in, if that is known.

    `caller` is the function that was called, for the error.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    DTypeError
        `model` is of another type.
    """
    if isinstance(model, ModelProto):
        return model, None
    if isinstance(model, Content):
        return _parsed(bytes(model), IN_MEMORY), None
    if not isinstance(model, str | os.PathLike):
        allowed = "ModelProto, its bytes, or the path of its file"
        raise run_errors.argument_kind(caller, "model", model, "a model", allowed)
    path = file_path(caller, "model", model)
    proto = _parsed(content(path, LARGEST_PROTOBUF), path)
    try:
        for tensor in external_tensors(proto):
            place(tensor, path.parent)
    except FileError as error:
        raise file_errors.in_model(path, error) from error
    return proto, str(path.parent)


def _parsed(serialized: bytes, path: object) -> ModelProto:
    try:
        proto: ModelProto = ModelProto.FromString(serialized)
    except MemoryError:
        raise
    except Exception as error:  # protobuf, and texts in it that are not UTF-8
        raise onnx_errors.not_a_model(path, error) from error
    return checked_texts(proto, path)


def checked_texts(proto: ModelProto, path: object) -> ModelProto:
    """Return a model whose names are texts.

    Raises
    ------
    ModelError
        One is not.
    """
    for field, value in _no_texts(proto):
        raise onnx_errors.name_is_no_text(path, field, value)
    return proto


def _no_texts(message: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the names in a message that are no texts: protobuf gives their bytes instead."""
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_STRING and field.type == field.TYPE_STRING:
            for each in (value,) if isinstance(value, str | bytes) else value:
                if isinstance(each, bytes):
                    yield field.name, each
        elif field.cpp_type == field.CPPTYPE_MESSAGE:
            for each in (value,) if hasattr(value, "ListFields") else value:
                yield from _no_texts(each)


def loaded(model: Source, caller: str) -> ModelProto:
    """Return a model, with the tensors that its file keeps in other files.

    Raises
    ------
    FileError, ModelError
        A file cannot be read, or is not an ONNX model.
    """
    proto, folder = opened(model, caller)
    if folder is not None:
        try:
            fetch(proto, folder)
        except FileError as error:
            raise file_errors.in_model(model, error) from error
    return proto


def fetch(model: ModelProto, folder: str) -> None:
    """Put the tensors that stand in files of their own into a model."""
    check_tensors(model, folder)
    try:
        external_data_helper.load_external_data_for_model(model, folder)
    except Exception as error:  # onnx has rules of its own
        raise file_errors.unreadable(folder or ".", error) from error


def places_of_tensors(path: FilePath, caller: str) -> frozenset[Path]:
    """Return the files beside a model file that it keeps tensors in."""
    model, folder = opened(path, caller)
    return frozenset(place(tensor, folder or "") for tensor in external_tensors(model))


MOST = LARGEST_PROTOBUF
"""The bytes that a message of protobuf, and so a file of a model, can have."""

LARGE = 1 << 20
"""Bytes of a tensor whose values no type follows from."""


def held_bytes(tensor: TensorProto) -> int:
    """Return how many bytes a tensor has in the model itself, as far as they are raw."""
    return (bytes_of(tensor) or 0) if tensor.HasField("raw_data") else 0


def inferable(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy without its large tensors where it has too many bytes for onnx."""
    if sum(map(held_bytes, held_tensors(model))) <= MOST:
        return model
    copy = without_initializers(model, LARGE)
    for tensor in copy.graph.initializer:
        if not tensor.HasField("raw_data") and (bytes_of(tensor) or 0) >= LARGE:
            set_place(tensor, "elsewhere", 0, bytes_of(tensor) or 0)
    return copy


def without_initializers(model: ModelProto, least: int) -> ModelProto:
    """Return a copy whose initializers of `least` bytes and more have their types alone."""
    copy = ModelProto()
    _copy(model, copy, {"graph"})
    _copy(model.graph, copy.graph, {"initializer"})
    for tensor in model.graph.initializer:
        without = {"raw_data"} if held_bytes(tensor) >= least else set()
        _copy(tensor, copy.graph.initializer.add(), without)
    return copy


def _copy(source: Any, target: Any, without: Collection[str]) -> None:
    for field in source.DESCRIPTOR.fields:
        absent = field.has_presence and not source.HasField(field.name)
        if absent or field.name in without:
            continue
        value = getattr(source, field.name)
        if hasattr(value, "MergeFrom"):
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)


LARGE_ENOUGH_TO_MAP = 2**16  # bytes of a tensor: below, to read it costs nothing that counts

# Which fields of a message hold messages that a tensor may be in, by their numbers.
_WITHIN = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph"},
}
_RAW_DATA = 9
# The one way of writing a field that is told apart: a length, then so much.
_OF_A_LENGTH = 2
_SIZES = {1: 8, 5: 4}  # of the ways that need no length
_MOST_OF_A_NUMBER = 70  # bits that a number of variable length is read up to


def opened_in_place(path: Path, caller: str) -> tuple[ModelProto, str | None]:
    """Return a model whose large tensors are in a file, and the folder of that.

    Raises
    ------
    FileError, ModelError
        As of `opened`.
    """
    check_regular(path)
    size = path.stat().st_size
    plain = path.stat().st_nlink == 1 and not path.is_symlink()
    if plain and LARGE_ENOUGH_TO_MAP <= size <= LARGEST_PROTOBUF and path.name.isprintable():
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as found:
            try:
                light = _without_large(found, 0, size, "model", path.name)
                proto = ModelProto.FromString(light)
            except MemoryError:
                raise
            except Exception:  # protobuf's or ours: what is wrong is said where it is read whole
                proto = None
        if proto is not None:
            return checked_texts(proto, path), str(path.parent)
    return opened(path, caller)


class _NotWellFormedError(Exception):
    """A message does not hold what its lengths say."""


def _without_large(found: mmap.mmap, begin: int, end: int, kind: str, name: str) -> bytes:
    """Return a message of a `kind` of which large tensors say where in the file `name` they are."""
    if kind == "tensor":
        return _tensor_without_large(found, begin, end, name)
    parts, copied, tensors = [], begin, 0
    for number, start, value, after in _fields(found, begin, end):
        inner = _WITHIN[kind].get(number)
        tensors += (kind, inner) == ("attribute", "tensor")
        if inner is not None and after - value >= LARGE_ENOUGH_TO_MAP:
            light = _without_large(found, value, after, inner, name)
            tag = _written(number << 3 | _OF_A_LENGTH)
            parts += [found[copied:start], tag, _written(len(light)), light]
            copied = after
    if tensors > 1:  # the parts of one, which the reader merges
        return found[begin:end]
    return b"".join([*parts, found[copied:end]])


def _tensor_without_large(found: mmap.mmap, begin: int, end: int, name: str) -> bytes:
    fields = list(_fields(found, begin, end))
    raw = [(value, after - value) for number, _, value, after in fields if number == _RAW_DATA]
    if raw and raw[-1][1] >= LARGE_ENOUGH_TO_MAP:
        rest = (found[start:after] for number, start, _, after in fields if number != _RAW_DATA)
        tensor = TensorProto.FromString(b"".join(rest))
        if has_whole_bytes(tensor):
            _refer(tensor, name, *raw[-1])
            return bytes(tensor.SerializeToString())
    return found[begin:end]


def _refer(tensor: TensorProto, name: str, offset: int, length: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", name), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _fields(found: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each field of a message, and where it, its value and what follows begin.

    Raises
    ------
    _NotWellFormedError
        It reaches beyond `end`, or is written in a way that has gone.
    """
    while start < end:
        tag, value = _number(found, start, end)
        way = tag & 7
        if way == _OF_A_LENGTH:
            length, value = _number(found, value, end)
            after = value + length
        elif way == 0:
            after = _number(found, value, end)[1]
        elif way in _SIZES:
            after = value + _SIZES[way]
        else:
            raise _NotWellFormedError
        if after > end:
            raise _NotWellFormedError
        yield tag >> 3, start, value, after
        start = after


def _written(number: int) -> bytes:
    """Write a number of variable length."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def _number(found: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    """Return a number of variable length, and where the next one begins."""
    result = shift = 0
    while place < end and shift < _MOST_OF_A_NUMBER:
        byte = found[place]
        place += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, place
        shift += 7
    raise _NotWellFormedError
