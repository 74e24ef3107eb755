"""Model files: read without the tensors that stand in files of their own, and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx import ModelProto

from ndgather.models import errors

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
