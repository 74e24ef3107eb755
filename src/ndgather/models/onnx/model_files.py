"""Model files: read without the tensors that stand in files of their own, and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from onnx import ModelProto, external_data_helper

from ndgather.models import errors
from ndgather.models.onnx.external_tensors import check_tensors, external_tensors, place
from ndgather.models.tensors.atomic_write import replace
from ndgather.models.tensors.safe_read import content
from ndgather.models.tensors.tensor_files import LARGEST_PROTOBUF

if TYPE_CHECKING:
    from collections.abc import Iterator

Source: TypeAlias = ModelProto | str | os.PathLike[str]
"""A model in memory, or the path of its file."""


def opened(model: Source) -> tuple[ModelProto, str | None]:
    """Return a model, and the folder of the files that it keeps tensors in, if that is known.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is no ONNX model.
    """
    if isinstance(model, ModelProto):
        return model, None
    path = Path(model)
    try:
        proto = ModelProto.FromString(content(path, LARGEST_PROTOBUF))
    except (errors.FileError, MemoryError):
        raise
    except Exception as error:  # protobuf, and texts in it that are none
        raise errors.not_a_model(model, error) from error
    for field, value in _no_texts(proto):
        raise errors.name_is_no_text(path, field, value)
    try:
        for tensor in external_tensors(proto):
            place(tensor, path.parent)
    except errors.FileError as error:
        raise errors.in_model(path, error) from error
    return proto, str(path.parent)


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


def loaded(path: str | os.PathLike[str]) -> ModelProto:
    """Return the model of a file, with the tensors that stand in files of their own.

    Raises
    ------
    FileError, ModelError
        A file cannot be read, or is no ONNX model.
    """
    model, folder = opened(path)
    try:
        _fetch(model, folder or "")
    except errors.FileError as error:
        raise errors.in_model(path, error) from error
    return model


def _fetch(model: ModelProto, folder: str) -> None:
    """Put the tensors that stand in files of their own into a model."""
    check_tensors(model, folder)
    try:
        external_data_helper.load_external_data_for_model(model, folder)
    except Exception as error:  # onnx has rules of its own
        raise errors.unreadable(folder or ".", error) from error


def places_of_tensors(path: str | os.PathLike[str]) -> frozenset[Path]:
    """Return the files beside a model file that it keeps tensors in."""
    model, folder = opened(path)
    return frozenset(place(tensor, folder or "") for tensor in external_tensors(model))


def save(model: ModelProto, path: str | os.PathLike[str], folder: str | None = None) -> None:
    """Write a model to a file, whole or not at all.

    Tensors in files of their own, in `folder`, stay there where that is the folder of `path`,
    and are put into the model elsewhere.

    Raises
    ------
    FileError
        The file cannot be written, or the model is too large for one file.
    """
    whole, target = model, Path(path)
    if folder is not None and Path(folder).resolve() != target.resolve().parent:
        whole = ModelProto()
        whole.CopyFrom(model)
        _fetch(whole, folder)
    for tensor in external_tensors(whole):
        if place(tensor, target.parent) == target.resolve():
            raise errors.keeps_tensors(target, "the model")
    try:
        serialized = whole.SerializeToString()
    except Exception as error:  # more than protobuf can hold
        raise errors.unwritable(path, error) from error
    replace((target, lambda part: part.write_bytes(serialized)))
