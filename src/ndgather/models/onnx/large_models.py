"""Models in memory with more bytes than one message can have: copied without their large tensors.

Nothing here reads the bytes of a tensor: to ask for them is to copy them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import ModelProto, TensorProto

from ndgather.models.onnx.external_tensors import bytes_of, held_tensors, set_place
from ndgather.models.tensors.tensor_files import LARGEST_PROTOBUF

if TYPE_CHECKING:
    from collections.abc import Collection

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
