"""Bind and check the inputs and attributes of operator calls."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ndgather import arguments, messages
from ndgather.array_call import Array, Call
from ndgather.dtypes import hold
from ndgather.errors import AttributeValueError, DTypeError
from ndgather.messages import did_you_mean, shown_value
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

AttributeValue: TypeAlias = int | str | bool


def bind(
    row: OperatorVersion, inputs: Sequence[object], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, AttributeValue]]:
    """Separate inputs from attributes, check the attributes, and add default values."""
    names = [item.name for item in row.inputs]
    if len(inputs) > len(names):
        raise _wrong_inputs(row, len(inputs))
    bound = dict(zip(names, inputs, strict=False))
    known = sorted(item.name for item in row.attributes)
    for name, value in named.items():
        if name in bound:
            raise AttributeValueError(
                f"{row}: {name} is given by position and by name (allowed: one of them)"
            )
        if name in names:
            bound[name] = value
        elif name not in known:
            raise _unknown_name(row, name, known)
    for item in row.inputs:
        if item.optional and bound.get(item.name, row) is None:
            del bound[item.name]
    return bound, {
        item.name: _attribute(row, item, named.get(item.name)) for item in row.attributes
    }


def bind_arrays(
    row: OperatorVersion, inputs: Sequence[object], named: Mapping[str, Any]
) -> tuple[dict[Role, Array], dict[str, AttributeValue]]:
    """Return the attributes and the inputs, which may be arrays of any library."""
    bound, attributes = bind(row, inputs, named)
    arrays = {}
    for item in row.inputs:
        if item.name in bound:
            value = bound[item.name]
            kept = row.definition is None and item.role is not Role.AXIS and keeps_its_kind(value)
            arrays[item.role] = value if kept else _numpy_array(row, item.name, value)
        elif not item.optional:
            raise _wrong_inputs(row, sum(x is not None for x in bound.values()))
    if isinstance(arrays.get(Role.UPDATES), np.ndarray):
        arrays[Role.DATA], arrays[Role.UPDATES] = _with_common_strings(
            arrays[Role.DATA], arrays[Role.UPDATES]
        )
    return arrays, attributes


def _with_common_strings(data: Any, updates: Array) -> tuple[Any, Array]:
    """Return data and updates, converting strings of different widths to a common dtype."""
    if not isinstance(data, np.ndarray) or data.dtype == updates.dtype:
        return data, updates
    if {type_of(array).dtype for array in (data, updates)} != {"string"}:
        return data, updates
    common: np.dtype[Any] = data.dtype
    if common.kind in "US":
        widest = max((len(text) for text in updates.astype(object).flat), default=0)
        common = np.promote_types(common, f"{common.kind}{widest}")
    held, _ = hold(updates, common)
    return (data, updates) if held is None else (data.astype(common), held)  # None: bytes and str


def bind_types(
    row: OperatorVersion,
    types: Sequence[object],
    constants: Mapping[str, Any],
    named: Mapping[str, Any],
) -> tuple[list[TensorType | None], dict[str, AttributeValue], dict[Role, Array]]:
    """Return the types of all inputs, the attributes, and the known values of inputs.

    If an optional input is omitted, its type is None.
    """
    bound, attributes = bind(row, types, named)
    declared: list[TensorType | None] = []
    values: dict[Role, Array] = {}
    for item in row.inputs:
        tensor = bound.get(item.name)
        if item.name in constants:
            values[item.role] = _numpy_array(row, item.name, constants[item.name])
        elif tensor is not None and not isinstance(tensor, TensorType):
            values[item.role] = _numpy_array(row, item.name, tensor)
        if isinstance(tensor, TensorType):
            declared.append(_checked_type(row, item.name, tensor))
        elif item.role in values:
            declared.append(type_of(values[item.role]))
        elif item.role is Role.AXIS:
            declared.append(TensorType())
        elif item.optional:
            declared.append(None)
        else:
            raise _wrong_inputs(row, sum(x is not None for x in bound.values()))
    names = [item.name for item in row.inputs]
    for name in constants:
        if name not in names:
            raise _unknown_name(row, name, names)
    return declared, attributes, values


def _wrong_inputs(row: OperatorVersion, count: int) -> AttributeValueError:
    names = [item.name for item in row.inputs]
    least = sum(not item.optional for item in row.inputs)
    counts = f"{least}..{len(names)}" if least < len(names) else str(least)
    return AttributeValueError(
        f"{row}: {messages.plural(count, 'input')} given (allowed: {counts}, {', '.join(names)})"
    )


def _unknown_name(row: OperatorVersion, name: str, known: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"{row}: {name if name.isidentifier() else repr(name)} is not an attribute of this version "
        f"(allowed: {', '.join(known) or 'no attributes'}){did_you_mean(name, known)}"
    )


def _attribute(row: OperatorVersion, attribute: Attribute, value: object) -> AttributeValue:
    name = attribute.name
    if value is None:
        if attribute.default is None:
            raise AttributeValueError(
                f"{row}: {name} is missing (allowed: a value, it is required)"
            )
        return attribute.default
    if attribute.type is AttributeType.BOOL and isinstance(value, (bool, np.bool_)):
        return bool(value)
    if attribute.type is AttributeType.STRING and isinstance(value, str):
        words = attribute.words or [choice.word for choice in attribute.choices]
        word = str.__str__(value)  # subclasses of str may override comparisons
        if word not in words:
            raise messages.unknown_choice(str(row), name, value, words)
        return word
    if attribute.type is AttributeType.INT and _is_integer(value):
        return int(value)  # type: ignore[call-overload, no-any-return]  # it is integral
    raise DTypeError(
        f"{row}: {name} = {shown_value(value)} has the wrong type (allowed: {attribute.type.value})"
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _numpy_array(row: OperatorVersion, name: str, value: object) -> Array:
    if name == Role.INDICES:
        arguments.check_listed(Call(str(row), row.kind, None, value))
        return arguments.plain_indices(str(row), value)
    return arguments.plain_array(str(row), name, value)


def _checked_type(row: OperatorVersion, name: str, known: TensorType) -> TensorType:
    """Check a type, and convert the sizes in its shape to Python integers."""
    if known.shape is None:
        return known
    partial = isinstance(known.shape, RankAtLeast)
    dims: object = known.shape.first if isinstance(known.shape, RankAtLeast) else known.shape
    if not isinstance(dims, (tuple, list)) or not all(
        dim is None or (isinstance(dim, str) and dim != "") or (_is_integer(dim) and int(dim) >= 0)
        for dim in dims
    ):
        raise DTypeError(
            f"{row}: {name}.shape = {shown_value(known.shape)} is not a shape (allowed: a "
            "tuple of sizes, names and None; RankAtLeast; None)"
        )
    sizes = tuple(int(dim) if _is_integer(dim) else dim for dim in dims)
    return TensorType(known.dtype, RankAtLeast(sizes) if partial else sizes)
