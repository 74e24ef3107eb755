"""The arguments of one call of an operator: inputs told from attributes, and both checked."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather import slow_path
from ndgather.errors import AttributeValueError, DTypeError, operator_errors, option_errors
from ndgather.errors.shown_values import shown_value
from ndgather.errors.similar_names import did_you_mean
from ndgather.published.schema import (
    Attribute,
    AttributeType,
    OperatorVersion,
    RankAtLeast,
    Role,
    TensorType,
    keeps_its_kind,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

AttributeValue: TypeAlias = int | str | bool


def input_names(row: OperatorVersion) -> tuple[str, ...]:
    """Return the names of the inputs, in the order of the specification."""
    return tuple(each.name for each in row.inputs)


def bind(
    row: OperatorVersion, inputs: Sequence[object], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, AttributeValue]]:
    """Tell inputs from attributes; check the attributes and fill in their defaults."""
    caller, names = str(row), input_names(row)
    if len(inputs) > len(names):
        raise operator_errors.wrong_inputs(caller, len(inputs), names)
    given = dict(zip(names, inputs, strict=False))
    known = {each.name for each in row.attributes}
    for name, value in named.items():
        if name in given:
            raise AttributeValueError(
                f"{caller}: {name} is given by position and by name (allowed: one of them)"
            )
        if name in names:
            given[name] = value
        elif name not in known:
            raise AttributeValueError(
                f"{caller}: {name if name.isidentifier() else repr(name)} is not an attribute of "
                "this version (allowed: "
                f"{', '.join(sorted(known)) or 'no attributes'}){did_you_mean(name, sorted(known))}"
            )
    attributes = {each.name: _attribute(row, each, named.get(each.name)) for each in row.attributes}
    return given, attributes


def bind_arrays(
    row: OperatorVersion, inputs: Sequence[object], named: Mapping[str, Any]
) -> tuple[dict[Role, Array], dict[str, AttributeValue]]:
    """Return an array for each input, of the library that it is of, and the attributes."""
    given, attributes = bind(row, inputs, named)
    arrays = {}
    for each in row.inputs:
        if each.name in given:
            value = given[each.name]
            kept = each.role is not Role.AXIS and keeps_its_kind(value)
            arrays[each.role] = value if kept else plain_input(row, each.name, value)
    if len(arrays) < len(row.inputs):
        raise operator_errors.wrong_inputs(str(row), len(arrays), input_names(row))
    return arrays, attributes


def bind_types(
    row: OperatorVersion,
    types: Sequence[object],
    constants: dict[str, Any],
    named: Mapping[str, Any],
) -> tuple[list[TensorType], dict[str, AttributeValue], dict[Role, Array]]:
    """Return a type for each input, the attributes, and the inputs whose values are known."""
    caller, names = str(row), input_names(row)
    given, attributes = bind(row, types, named)
    declared: list[TensorType] = []
    values: dict[Role, Array] = {}
    for each in row.inputs:
        tensor = given.get(each.name)
        if each.name in constants:
            values[each.role] = plain_input(row, each.name, constants.pop(each.name))
        elif tensor is not None and not isinstance(tensor, TensorType):
            values[each.role] = plain_input(row, each.name, tensor)
        if isinstance(tensor, TensorType):
            declared.append(checked_type(caller, each.name, tensor))
        elif each.role in values:
            declared.append(type_of(values[each.role]))
        elif each.role is Role.AXIS:
            declared.append(TensorType())
        else:
            raise operator_errors.wrong_inputs(caller, len(given), names)
    for name in constants:
        raise AttributeValueError(
            f"{caller}: {name if name.isidentifier() else repr(name)} is not an attribute of this "
            f"version (allowed: {', '.join(names) or 'no attributes'}){did_you_mean(name, names)}"
        )
    return declared, attributes, values


def _attribute(row: OperatorVersion, attribute: Attribute, value: object) -> AttributeValue:
    caller, name = str(row), attribute.name
    if value is None:
        if attribute.default is None:
            raise AttributeValueError(
                f"{caller}: {name} is missing (allowed: a value, it is required)"
            )
        return attribute.default
    if attribute.type is AttributeType.BOOL and isinstance(value, (bool, np.bool_)):
        return bool(value)
    if attribute.type is AttributeType.STRING and isinstance(value, str):
        words = [choice.word for choice in attribute.choices]
        word = str.__str__(value)  # one of a subclass may compare as it likes
        if word not in words:
            raise option_errors.unknown_choice(caller, name, value, words)
        return word
    integral = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if attribute.type is AttributeType.INT and integral:
        return int(value)  # type: ignore[call-overload, no-any-return]  # it is integral
    raise DTypeError(
        f"{caller}: {name} = {shown_value(value)} is of another type (allowed: "
        f"{attribute.type.value})"
    )


def plain_input(row: OperatorVersion, name: str, value: object) -> Array:
    """Return an input as a NumPy array."""
    if name == Role.INDICES:
        return slow_path.plain_indices(str(row), value)
    return slow_path.plain_array(str(row), name, value)


def checked_type(caller: str, name: str, given: TensorType) -> TensorType:
    """Return `given` with its sizes as plain integers, names and None in a tuple."""
    if given.shape is None:
        return given
    partial = isinstance(given.shape, RankAtLeast)
    dims: object = given.shape.first if isinstance(given.shape, RankAtLeast) else given.shape
    if not isinstance(dims, (tuple, list)) or not all(_is_dim(dim) for dim in dims):
        raise DTypeError(
            f"{caller}: {name}.shape = {shown_value(given.shape)} is not a shape (allowed: a "
            "tuple of sizes, names and None; RankAtLeast; None)"
        )
    plain = tuple(int(dim) if isinstance(dim, numbers.Integral) else dim for dim in dims)
    return TensorType(given.dtype, RankAtLeast(plain) if partial else plain)


def _is_dim(dim: object) -> bool:
    if isinstance(dim, numbers.Integral) and not isinstance(dim, bool):
        return int(dim) >= 0
    return dim is None or (isinstance(dim, str) and dim != "")
