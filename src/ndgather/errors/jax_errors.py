"""Errors of arrays of JAX: what they cannot be or do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, ShapeError
from ndgather.messages import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def not_numbered(caller: str, data: Sequence[object], indices: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: the derivative of reduction = 'mul' cannot number the elements of data.shape = "
        f"{shown(data)}, indices.shape = {shown(indices)} (allowed: numbers for all sizes, and up "
        f"to 2147483647 elements, or more with jax.config.update('jax_enable_x64', True))"
    )


def immutable_out(caller: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: out is given, but arrays of JAX cannot be written (allowed: None)"
    )


def dtype_not_kept(caller: str, argument: str, given: object, kept: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument}.dtype = {given} would become {kept} in JAX (allowed: a type that "
        f"JAX has; jax.config.update('jax_enable_x64', True) gives it those of 64 bits)"
    )


def unknown_dtype(caller: str, argument: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument}.dtype = {dtype} is not of numbers or booleans (allowed: integers, "
        f"floats, complex numbers, booleans)"
    )


def narrow_reduction(caller: str, reduction: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: data.dtype = {dtype} has no reduction {reduction!r} in JAX (allowed: none)"
    )
