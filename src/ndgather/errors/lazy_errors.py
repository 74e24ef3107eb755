"""Errors of lazy arrays: what cannot be planned before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, NdgatherError, ShapeError
from ndgather.errors.shape_errors import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def unknown_sizes(caller: str, argument: str, shape: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} is not known before {argument} is computed "
        f"(allowed: known sizes; write {argument}.compute_chunk_sizes())"
    )


def sizes_not_known(caller: str, argument: str, shape: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} is not known before {argument} is computed "
        f"(allowed: known sizes)"
    )


def other_blocks(caller: str, argument: str, meta: object) -> DTypeError:
    kind = f"{type(meta).__module__}.{type(meta).__qualname__}"
    return DTypeError(
        f"{caller}: {argument} = dask array has blocks of {kind} (allowed: blocks of "
        f"numpy.ndarray, such as {argument}.map_blocks(numpy.asarray))"
    )


def not_for_lazy(caller: str, option: str, instead: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {option} is given, but dask arrays are computed later (allowed: None; "
        f"{instead})"
    )


def too_many_in_a_block(caller: str, shape: Sequence[object], most: int) -> ShapeError:
    return ShapeError(
        f"{caller}: a block of indices has shape {shown(shape)} (allowed: {most} entries; cut "
        f"indices into smaller chunks)"
    )


def data_not_lazy(caller: str, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: data = {type(data).__name__} object cannot be updated by dask arrays "
        f"(allowed: a dask or NumPy array; write indices.compute() and updates.compute() to "
        f"update a stored array in place)"
    )


def block_shape(
    caller: str, argument: str, shape: Sequence[object], chunk: Sequence[object]
) -> NdgatherError:
    return NdgatherError(
        f"{caller}: a block of {argument} has shape {shown(shape)}, its chunk {shown(chunk)} "
        f"(allowed: the shape that the chunks say)"
    )
