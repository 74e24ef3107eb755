"""Model files written: in one file, or with their tensors in another where one is too small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from onnx import ModelProto, TensorProto

from ndgather.errors import FileError, file_errors
from ndgather.models.entry_checks import FilePath, file_path, instance
from ndgather.models.onnx.external_tensors import (
    check_tensors,
    external_tensors,
    held_tensors,
    place,
    set_place,
    span,
)
from ndgather.models.onnx.large_models import MOST, held_bytes, without_initializers
from ndgather.models.onnx.model_files import fetch
from ndgather.models.onnx.onnx_conversion import Conversion
from ndgather.models.tensors.atomic_write import replace, resolved

if TYPE_CHECKING:
    from pathlib import Path

ALIGNMENT = 4096  # of tensors in their file, so that what maps it can use them in place
_SMALL = 1024  # bytes of a tensor that stays in the model
_CHUNK = 1 << 24


def save(model: ModelProto | Conversion, path: FilePath, folder: FilePath | None = None) -> None:
    """Write a model to a file, whole or not at all.

    Parameters
    ----------
    model : ModelProto or Conversion
        It is not changed. A conversion knows the folder of the file that it came from.
    path : str or os.PathLike
        The file. One that exists is replaced when the new one is complete.
    folder : str or os.PathLike, optional
        Where the model keeps tensors in other files; without it, the folder of `path`. They
        stay there if it is that folder; otherwise they become part of the model.

    Raises
    ------
    FileError
        The file cannot be written, or the tensors that the model keeps in other files are not in
        that folder.

    Notes
    -----
    A file of a model holds less than 2 GiB. The tensors of one that is larger are written to a
    file beside it: ``model.onnx.data`` for ``model.onnx``.

    Examples
    --------
    >>> from onnx import ModelProto
    >>> from ndgather.models import onnx
    >>> onnx.save(ModelProto(), "nowhere/model.onnx")
    Traceback (most recent call last):
    ...
    ndgather.errors.FileError: nowhere/model.onnx: cannot be written: no such file or directory
    """
    if isinstance(model, Conversion):
        folder = model.folder if folder is None else folder
        model = model.model
    instance("save", "model", model, ModelProto, "a model")
    target = file_path("save", "path", path)
    given = target.parent if folder is None else file_path("save", "folder", folder)
    stays = resolved(given) == resolved(target).parent
    try:
        check_tensors(model, given)
    except FileError as error:
        if folder is not None:
            raise
        raise file_errors.tensors_elsewhere(target, error) from error
    for tensor in external_tensors(model):
        if stays and place(tensor, target.parent) == resolved(target):
            raise file_errors.keeps_tensors(target, "the model")
    elsewhere = 0 if stays else sum(span(each, given)[1] for each in external_tensors(model))
    held = sum(map(held_bytes, held_tensors(model)))
    content = None
    if held + elsewhere <= MOST:
        content = _serialized(model if stays else _with_tensors(model, given))
    if content is None:
        _save_apart(model, target, given, stays=stays)
    else:
        replace((target, lambda part: part.write_bytes(content)))


def _with_tensors(model: ModelProto, folder: Path) -> ModelProto:
    whole = ModelProto()
    whole.CopyFrom(model)
    fetch(whole, str(folder))
    return whole


def _serialized(model: ModelProto) -> bytes | None:
    """Return the bytes of a model; None where they are too many."""
    try:
        content: bytes = model.SerializeToString()
    except Exception:
        return None
    return content if len(content) <= MOST else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A tensor on its way to the file of tensors: its bytes are in memory, or in another file."""

    tensor: TensorProto
    start: int
    path: Path | None = None
    offset: int = 0
    length: int = 0

    def write(self, file: BinaryIO) -> None:
        file.seek(self.start)
        if self.path is None:
            file.write(self.tensor.raw_data)
            return
        with self.path.open("rb") as source:
            source.seek(self.offset)
            for left in range(self.length, 0, -_CHUNK):
                file.write(source.read(min(left, _CHUNK)))


def _save_apart(model: ModelProto, target: Path, folder: Path, *, stays: bool) -> None:
    """Write a model, and its tensors to a file beside it."""
    apart = target.with_name(f"{target.name}.data")
    if any(place(each, folder) == resolved(apart) for each in external_tensors(model)):
        raise file_errors.keeps_tensors(apart, "the model")
    small = without_initializers(model, _SMALL)
    parts: list[_Part] = []
    end = 0
    for tensor, copy in zip(held_tensors(model), held_tensors(small), strict=True):
        start = -(-end // ALIGNMENT) * ALIGNMENT
        if tensor.data_location == TensorProto.EXTERNAL:
            if stays:
                continue
            offset, length = span(tensor, folder)
            path = place(tensor, folder)
            part = _Part(tensor=tensor, start=start, path=path, offset=offset, length=length)
        elif held_bytes(tensor) >= _SMALL:
            part = _Part(tensor=tensor, start=start, length=held_bytes(tensor))
        else:
            continue
        parts.append(part)
        end = start + part.length
        set_place(copy, apart.name, start, part.length)
    content = _serialized(small)
    if content is None:
        raise file_errors.too_large_without_tensors(target, MOST)

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for part in parts:
                part.write(file)

    replace((apart, write), (target, lambda path: path.write_bytes(content)))
