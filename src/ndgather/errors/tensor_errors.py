"""Errors of tensors of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, ShapeError
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import reason

if TYPE_CHECKING:
    from collections.abc import Sequence


def layout(caller: str, argument: str, tensor: object) -> DTypeError:
    kind = "nested" if getattr(tensor, "is_nested", False) else getattr(tensor, "layout", "")
    if getattr(tensor, "is_quantized", False):
        kind = "quantized"
    return DTypeError(
        f"{caller}: {argument} = {kind} tensor has no strides (allowed: a dense tensor, such as "
        f"{argument}.to_dense() or {argument}.to_padded_tensor(0.0))"
    )


def storage_too_small(caller: str, argument: str, shape: Sequence[object], held: int) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} is more than the {held} bytes of its storage "
        f"hold (allowed: a tensor whose storage was not resized)"
    )


def devices_differ(caller: str, argument: str, device: object, data: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {argument}.device = {device} differs from data.device = {data} (allowed: "
        f"{data}); write {argument}.to(data.device)"
    )


def updates_dtype(caller: str, argument: str, updates: object, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument}.dtype = {updates} differs from data.dtype = {data} (allowed: "
        f"{data}); write {argument}.to(data.dtype)"
    )


def array_for_device(caller: str, argument: str, device: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {argument} = NumPy array lies in the memory of the processor, data on "
        f"{device} (allowed: a tensor there); write torch.as_tensor({argument}, device=data.device)"
    )


def out_with_gradient(caller: str, argument: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: out is given, but {argument} asks for a gradient or is under a transform "
        f"(allowed: out=None, or a call under torch.no_grad())"
    )


def fill_with_gradient(caller: str, value: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: fill_value = {shown_value(value)} asks for a gradient, which there is none of "
        f"(allowed: a number, or fill_value.detach())"
    )


def out_not_a_tensor(caller: str, out: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out = {type(out).__name__} object takes no tensor (allowed: a dense tensor)"
    )


def refused_by_its_type(caller: str, tensor: object, error: Exception) -> DTypeError:
    kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
    return DTypeError(
        f"{caller}: data = {kind} object refuses what gathers and scatters are made of: "
        f"{type(error).__name__}: {reason(error)} (allowed: a tensor that takes index_select and "
        f"its like)"
    )


def not_in_onnx(option: str, value: object, allowed: str) -> AttributeValueError:
    return AttributeValueError(
        f"torch.onnx.export: {option} = {value!r} of a scatter cannot be said in ONNX "
        f"(allowed: {allowed})"
    )
