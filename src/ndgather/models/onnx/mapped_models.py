"""A model file that is read without its large tensors: they stay where they are.

What is left of such a tensor says that it stands in a file of its own, which is the file of the
model itself. Who reads it, a runtime too, maps it, as it does tensors that stand elsewhere.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from onnx import ModelProto, TensorProto

from ndgather.models.onnx.external_tensors import has_whole_bytes
from ndgather.models.onnx.model_files import checked_texts, opened
from ndgather.models.tensors.safe_read import check_regular
from ndgather.models.tensors.tensor_files import LARGEST_PROTOBUF

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = 2**16  # bytes of a tensor: below, to read it costs nothing that counts

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
    if plain and LARGE <= size <= LARGEST_PROTOBUF and path.name.isprintable():
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
        if inner is not None and after - value >= LARGE:
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
    if raw and raw[-1][1] >= LARGE:
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
