"""Errors of models in other runtimes: not there, refused, and another value than specified."""

from __future__ import annotations

from ndgather.errors import ModelError
from ndgather.messages import reason, shown


class NotLoadedError(ModelError):
    """A runtime does not load a model."""


def not_loaded(path: object, runtime: str, error: BaseException) -> NotLoadedError:
    return NotLoadedError(f"{path}: {runtime} does not load it: {reason(error)}")


def form(dtype: object, shape: tuple[int, ...]) -> str:
    return f"{dtype} {shown(shape)}"


def only_onnx(option: str) -> ModelError:
    return ModelError(f"{option} is not taken for an IR (allowed: an ONNX model)")
