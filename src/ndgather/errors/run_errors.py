"""Errors of running a model: its arguments, its inputs and outputs, and its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import DTypeError, ExtraMissingError, ModelError, NdgatherError, ShapeError
from ndgather.errors.shape_errors import shown
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed, node_place, one_line, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def extra_missing(package: str, extra: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"this needs the package {package}, which is not installed "
        f"(install it with: pip install 'ndgather[{extra}]')"
    )


def dtype_needs_package(dtype: str, package: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"dtype = {dtype} needs the package {package}, which is not installed "
        f"(install it with: pip install {package})"
    )


def no_dtype(dtype: str) -> DTypeError:
    return DTypeError(
        f"dtype = {dtype!r} is not a type of arrays (allowed: types of NumPy and ml_dtypes)"
    )


def argument_kind(caller: str, argument: str, value: object, what: str, allowed: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is not {what} (allowed: {allowed})"
    )


def too_small(caller: str, argument: str, value: object, least: int) -> ModelError:
    return ModelError(
        f"{caller}: {argument} = {value} is out of range (allowed: finite numbers from {least})"
    )


def input_not_an_array(name: str, value: object, error: BaseException) -> DTypeError:
    return DTypeError(
        f"{name} is a {type(value).__name__} object, which gives no array: {reason(error)} "
        f"(allowed: an array)"
    )


def missing_inputs(names: Sequence[str], signature: Iterable[object]) -> ModelError:
    verb = "input {} is missing" if len(names) == 1 else "inputs {} are missing"
    return ModelError(
        f"{verb.format(listed(map(repr, names)))} (the model takes: {listed(map(str, signature))})"
    )


def unknown_input(name: str, signature: Mapping[str, object]) -> ModelError:
    takes = listed(map(str, signature.values()))
    return ModelError(
        f"the model has no input {name!r} (the model takes: {takes}){did_you_mean(name, signature)}"
    )


def unknown_output(name: str, names: Sequence[str]) -> ModelError:
    return ModelError(
        f"the model has no output {name!r} (the model gives: {listed(names)})"
        f"{did_you_mean(name, names)}"
    )


def not_a_tensor(role: str, name: str, what: str) -> ModelError:
    return ModelError(f"{role} {name!r} is a {what} (allowed: a tensor)")


def input_dtype(name: str, dtype: object, declared: object) -> DTypeError:
    return DTypeError(
        f"input {name!r}: dtype = {dtype} is not what the model takes (allowed: {declared})"
    )


def input_shape(name: str, shape: Sequence[object], declared: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"input {name!r}: shape = {shown(shape)} is not what the model takes "
        f"(allowed: {shown(declared)})"
    )


def input_size_differs(
    name: str, axis: int, size: int, symbol: str, known: int, other: str
) -> ShapeError:
    return ShapeError(
        f"input {name!r}: shape[{axis}] = {size} differs from {one_line(symbol)} = {known}"
        f", the size in input {other!r} (allowed: {known})"
    )


def too_many_inputs(count: int, signature: Iterable[object]) -> ModelError:
    return ModelError(f"{count} inputs are given (the model takes: {listed(map(str, signature))})")


def cannot_run(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: cannot be run: {reason(error)}")


def trains(op_type: str, opset: int) -> ModelError:
    return ModelError(
        f"{op_type} of opset {opset} is in training mode (allowed: mean and variance as given)"
    )


def in_node(error: Exception, name: str, op_type: str, gives: str = "") -> Exception:
    """Say in which node an exception arose; one of ours, and MemoryError, stays what it is."""
    place = node_place(name, op_type, gives)
    if isinstance(error, NdgatherError | MemoryError):
        error.args = (f"{place}: {error}",)
        return error
    return ModelError(f"{place}: {reason(error)}")


def unknown_device(device: object, known: str) -> ModelError:
    shown_device = repr(device) if isinstance(device, str) else type(device).__name__
    return ModelError(f"device {shown_device} is not available (allowed: {known})")
