"""Model files: read without the tensors that stand in files of their own, and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx import ModelProto, external_data_helper

from ndgather.models import errors, tensor_files

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
    try:
        return onnx.load(model, load_external_data=False), str(Path(model).parent)
    except OSError as error:
        raise errors.unreadable(model, error) from error
    except Exception as error:  # each serializer has its own
        raise errors.not_a_model(model, error) from error


def loaded(path: str | os.PathLike[str]) -> ModelProto:
    """Return the model of a file, with the tensors that stand in files of their own.

    Raises
    ------
    FileError, ModelError
        A file cannot be read, or is no ONNX model.
    """
    model, folder = opened(path)
    try:
        external_data_helper.load_external_data_for_model(model, folder or "")
    except Exception as error:  # a file that is not there, or not as long as it should be
        raise errors.unreadable(path, error) from error
    return model


def places_of_tensors(path: str | os.PathLike[str]) -> frozenset[Path]:
    """Return the files beside a model file that it keeps tensors in."""
    model, folder = opened(path)
    return frozenset(
        (Path(folder or "") / entry.value).resolve()
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    )


def save(model: ModelProto, path: str | os.PathLike[str], folder: str | None = None) -> None:
    """Write a model to a file, whole or not at all.

    Tensors in files of their own, in `folder`, stay there where that is the folder of `path`,
    and are put into the model elsewhere.

    Raises
    ------
    FileError
        The file cannot be written, or the model is too large for one file.
    """
    place = Path(path)
    whole = model
    if folder is not None and Path(folder).resolve() != place.resolve().parent:
        whole = ModelProto()
        whole.CopyFrom(model)
        try:
            external_data_helper.load_external_data_for_model(whole, folder)
        except Exception as error:  # a file that is not there, or not as long as it should be
            raise errors.unwritable(path, error) from error
    try:
        content = whole.SerializeToString()
    except Exception as error:  # more than protobuf can hold
        raise errors.unwritable(path, error) from error
    with tensor_files.replacing(place) as part:
        part.write_bytes(content)
