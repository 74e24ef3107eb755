"""Models with tensors in files of their own, for runtimes that look for none beside bytes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndgather.runtimes.whole_model import ModelSource


@cache
def _onnx() -> Any:
    return import_module("onnx")


def model_with_data(source: ModelSource) -> Any:
    """Return a model with every tensor in it."""
    if isinstance(source.content, str):
        return _onnx().load(source.content)
    model = _onnx().load_from_string(source.content)
    if source.folder is not None:
        helper = import_module("onnx.external_data_helper")
        helper.load_external_data_for_model(model, source.folder)
    return model
