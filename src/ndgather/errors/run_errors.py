"""Errors of running a model: its arguments, its inputs and outputs, and its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import DTypeError, ExtraMissingError, ModelError, NdgatherError, ShapeError
from ndgather.messages import node_place, reason, shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def extra_missing(package: str, extra: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"this needs the package {package}, which is not installed "
        f"(install it with: pip install 'ndgather[{extra}]')"
    )


def argument_kind(caller: str, argument: str, value: object, what: str, allowed: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is not {what} (allowed: {allowed})"
    )


def not_a_tensor(role: str, name: str, what: str) -> ModelError:
    return ModelError(f"{role} {name!r} is a {what} (allowed: a tensor)")


def input_shape(name: str, shape: Sequence[object], declared: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"input {name!r}: shape = {shown(shape)} is not what the model takes "
        f"(allowed: {shown(declared)})"
    )


def in_node(error: Exception, name: str, op_type: str, gives: str = "") -> Exception:
    """Say in which node an exception arose; one of ours, and MemoryError, stays what it is."""
    place = node_place(name, op_type, gives)
    if isinstance(error, NdgatherError | MemoryError):
        error.args = (f"{place}: {error}",)
        return error
    return ModelError(f"{place}: {reason(error)}")
