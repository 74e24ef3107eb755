"""Model files: read without the tensors that stand in files of their own, and written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from onnx import ModelProto, external_data_helper

from ndgather.errors import FileError, file_errors, onnx_errors, run_errors
from ndgather.models.entry_checks import Content, FilePath, file_path
from ndgather.models.onnx.external_tensors import check_tensors, external_tensors, place
from ndgather.models.tensors.safe_read import content
from ndgather.models.tensors.tensor_files import LARGEST_PROTOBUF

if TYPE_CHECKING:
    from collections.abc import Iterator
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
