"""Errors of published operators: what one version of one operator allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, ShapeError
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value
from ndgather.errors.similar_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


def unknown_operator(name: str, domain: str, known: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"operator: name = {name!r} is unknown in domain {domain!r} (allowed: {', '.join(known)})"
        f"{did_you_mean(name, known)}"
    )


def unknown_version(
    name: str, domain: str, option: str, value: object, known: Sequence[int]
) -> AttributeValueError:
    return AttributeValueError(
        f"operator: {option} = {shown_value(value, str)} has no {domain} {name} (allowed: "
        f"{'' if option == 'version' else 'at least '}{', '.join(map(str, known))})"
    )


def version_and_opset(version: object, opset: object) -> AttributeValueError:
    return AttributeValueError(
        f"operator: version = {shown_value(version)} and opset = {shown_value(opset)} "
        f"are both given (allowed: one of them)"
    )


def unknown_attribute(caller: str, name: str, known: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name if name.isidentifier() else repr(name)} is not an attribute of this "
        f"version (allowed: {', '.join(known) or 'no attributes'}){did_you_mean(name, known)}"
    )


def missing_attribute(caller: str, name: str) -> AttributeValueError:
    return AttributeValueError(f"{caller}: {name} is missing (allowed: a value, it is required)")


def attribute_type(caller: str, name: str, value: object, wanted: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {shown_value(value)} is of another type (allowed: {wanted})"
    )


def wrong_inputs(caller: str, count: int, names: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {count} inputs are given (allowed: {len(names)}, {', '.join(names)})"
    )


def input_given_twice(caller: str, name: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name} is given by position and by name (allowed: one of them)"
    )


def input_type(caller: str, name: str, dtype: str, types: Sequence[str]) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {dtype} is not taken (allowed: {', '.join(types)})"
    )


def types_differ(caller: str, name: str, dtype: str, other: str, wanted: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {dtype} differs from {other}.dtype = {wanted} "
        f"(allowed: {wanted})"
    )


def no_tensor_type(caller: str, name: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {shown_value(value)} is not the type of a tensor "
        f"(allowed: TensorType(dtype, shape))"
    )


def not_a_shape(caller: str, name: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.shape = {shown_value(value)} is not a shape (allowed: a tuple of sizes, "
        f"names and None; RankAtLeast; None)"
    )


def value_does_not_fit(
    caller: str, name: str, shape: Sequence[object], declared: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: the value of {name} has shape {shown(shape)}, which is not the declared one "
        f"(allowed: {shown(declared)})"
    )


def axis_not_single(caller: str, shape: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: axis.shape = {shown(shape)} is not a single value (allowed: () or (1,))"
    )
