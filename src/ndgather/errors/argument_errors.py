"""Errors of arrays and values other than `indices`, apart from their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence


def not_an_array(caller: str, argument: str, value: object, why: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object {why} (allowed: an array, a number "
        f"or nested lists of numbers)"
    )


def costly_conversion(
    caller: str, argument: str, value: object, what: str, conversion: str
) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is {what} and is not converted "
        f"unasked (allowed: an array in the memory of the CPU, such as by {conversion})"
    )


def masked_array(caller: str, argument: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = masked array would lose its mask (allowed: a plain array, such "
        f"as {argument}.data)"
    )


def out_of_another_kind(caller: str, out: object, result: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out = {type(out).__name__} object cannot take the result, which is of "
        f"{type(result).__module__} (allowed: a {type(result).__name__})"
    )


def fill_value_lost(caller: str, value: object, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: fill_value = {shown_value(value)} cannot be held by data.dtype = {dtype} "
        f"(allowed: one value of that type)"
    )


def fill_value_unused(caller: str, mode: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: fill_value is given, but mode = {shown_value(mode)} fills nothing "
        f"(allowed: mode='fill')"
    )


def updates_dtype(caller: str, updates: object, data: object, name: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {updates} differs from data.dtype = {data} (allowed: {data}); "
        f"write {name}.astype(data.dtype)"
    )


def updates_lost(caller: str, updates: object, dtype: object, name: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {type(updates).__name__} object cannot be held by data.dtype = "
        f"{dtype} (allowed: values of that type, floating ones may be rounded)"
    )


def reduction_type(
    caller: str, reduction: str, dtype: object, meaningful: Sequence[str]
) -> DTypeError:
    return DTypeError(
        f"{caller}: reduction = {reduction!r} has no meaning for data.dtype = {dtype} "
        f"(allowed: {', '.join(map(repr, meaningful))})"
    )


def cotangent_dtype(caller: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: cotangent.dtype = {dtype} cannot be summed (allowed: integers, floats "
        f"and complex numbers)"
    )


def out_not_an_array(caller: str, out: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out = {type(out).__name__} object is not an array (allowed: a NumPy array)"
    )


def out_dtype(caller: str, out: object, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out.dtype = {out} differs from data.dtype = {data} (allowed: {data})"
    )


def out_read_only(caller: str) -> AttributeValueError:
    return AttributeValueError(f"{caller}: out is read-only (allowed: a writeable array)")


def out_overlaps_itself(caller: str, out: object) -> AttributeValueError:
    strides = getattr(out, "strides", None)  # other libraries have no such attribute
    what = f"{type(out).__name__} object lets" if strides is None else f"{shown(strides)} let"
    return AttributeValueError(
        f"{caller}: out{'' if strides is None else '.strides'} = {what} elements of out share "
        f"memory (allowed: strides that keep them apart)"
    )


def result_too_large(caller: str, shape: Sequence[object]) -> MemoryError:
    return MemoryError(f"{caller}: the result of shape {shown(shape)} does not fit in memory")
