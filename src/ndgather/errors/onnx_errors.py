"""Errors of what an ONNX model says: its parts, its versions, and the types that it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, ModelError, ShapeError
from ndgather.errors.shape_errors import shown
from ndgather.errors.texts import listed, one_line, reason

if TYPE_CHECKING:
    from collections.abc import Sequence


def not_a_model(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: cannot be read as an ONNX model: {reason(error)}")


def name_is_no_text(path: object, field: str, value: bytes) -> ModelError:
    return ModelError(
        f"{path}: cannot be read as an ONNX model: {field} = {value[:40]!r} is not UTF-8 text"
    )


def invalid_model(path: object, error: BaseException) -> ModelError:
    return ModelError(f"{path}: is not a valid ONNX model: {reason(error)}")


def invalid_node(op_type: str, error: BaseException) -> ModelError:
    return ModelError(f"node {one_line(op_type)} is not valid: {reason(error)}")


def node_inputs(count: int, names: Sequence[str]) -> ModelError:
    return ModelError(f"{count} inputs are given (the node takes: {listed(names)})")


def no_onnx_type(name: str, dtype: object) -> DTypeError:
    return DTypeError(f"input {name!r}: dtype = {dtype} is not a type of ONNX")


def unknown_element_type(name: str, number: int) -> DTypeError:
    return DTypeError(f"value {name!r}: elem_type = {number} is not a type of ONNX")


def functions_call_themselves(name: str, deepest: int) -> ModelError:
    return ModelError(
        f"function {one_line(name)} calls itself, or functions are nested too deeply "
        f"(allowed: {deepest} levels)"
    )


def too_many_nodes(count: int, most: int) -> ModelError:
    return ModelError(
        f"the model has {count} nodes once its functions are inlined (allowed: at most {most})"
    )


def two_versions(domain: str, first: int, second: int) -> ModelError:
    return ModelError(
        f"the model imports versions {first} and {second} of {one_line(domain)} "
        f"(allowed: one version)"
    )


def domain_not_imported(domain: str) -> ModelError:
    return ModelError(f"the model imports no version of {one_line(domain)}, the domain of the node")


def unreadable_attribute(name: str, why: str) -> AttributeValueError:
    return AttributeValueError(f"attribute {name!r} has no value: {why}")


def cannot_infer(error: BaseException) -> ModelError:
    return ModelError(f"the types of the model cannot be inferred: {reason(error)}")


def declared_dtype(name: str, dtype: object, declared: object) -> DTypeError:
    return DTypeError(
        f"value {name!r}: dtype = {dtype} is not what the model declares (allowed: {declared})"
    )


def declared_shape(name: str, shape: Sequence[object], declared: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"value {name!r}: shape = {shown(shape)} is not what the model declares "
        f"(allowed: {shown(declared)})"
    )


def unknown_dtype(dtype: str) -> DTypeError:
    return DTypeError(f"dtype = {dtype} is not a type of ONNX")
