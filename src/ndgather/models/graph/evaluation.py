"""Checked casts, and a lookup of the indices that produced an element of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgather.array_call import Kind
from ndgather.errors import DTypeError
from ndgather.models import Array
from ndgather.published.schema import OperatorVersion, dtype_name
from ndgather.runtimes.runtime import dtype_named

Position = tuple[int, ...]

_MOST_POSITIONS = 8


def converted(array: Array, name: str) -> Array:
    """Return `array` cast to the type `name`, or raise if a value is out of range.

    Integers wrap around in unsigned types.
    """
    source = dtype_name(array)
    if source == name:
        return array
    if "string" in {source, name} or array.dtype.kind in "cO":
        raise DTypeError(
            f"dtype = {source} cannot be converted to {name} (allowed: booleans, integers, floats)"
        )
    dtype = dtype_named(name)
    if name == "bool":
        return np.not_equal(array, np.zeros((), array.dtype))
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        lost = _lost(array, result)
    if lost.any():
        place = tuple(int(at) for at in np.unravel_index(np.argmax(lost), lost.shape))
        raise DTypeError(
            f"input[{', '.join(map(str, place))}] = {array[place]} cannot be represented in {name} "
            f"(allowed: values of that type)"
        )
    return result


def _lost(array: Array, result: Array) -> NDArray[np.bool_]:
    """Return a mask of the elements of `array` that the type of `result` cannot represent."""
    if not _integral(result.dtype):
        finite = [np.isfinite(values.astype(np.float64)) for values in (array, result)]
        return np.asarray(finite[0] & ~finite[1])
    unsigned, bits = result.dtype.name.startswith("u"), int(result.dtype.name.lstrip("uint"))
    if not _integral(array.dtype):
        # The bounds are powers of two, which float64 represents exactly.
        lowest, beyond = (0.0, 2.0**bits) if unsigned else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
        truncated = np.trunc(array.astype(np.float64))
        return np.asarray(~((truncated >= lowest) & (truncated < beyond)))
    if unsigned:
        return np.zeros(array.shape, bool)
    return np.asarray((result.astype(array.dtype) != array) | ((result < 0) != (array < 0)))


def _integral(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith(("int", "uint"))


def index_places(
    row: OperatorVersion, attributes: Mapping[str, Any], inputs: Sequence[Array], at: Position
) -> list[tuple[Position, tuple[int, ...]]]:
    """Return the positions and values of the indices that determine ``result[at]``.

    For a gather, the list contains a single position. For a scatter, the list contains a position
    for each update of the element, up to eight. The list is empty if `row` has a definition.
    `row` is from ONNX, where `axis` is an attribute and Gather has no batch dims.
    """
    if row.definition is not None:
        return []
    data, indices = inputs[0], inputs[1]
    axis = int(attributes.get("axis", 0)) % max(data.ndim, 1)
    if row.kind is Kind.GATHER_ND:
        positions = [at[: indices.ndim - 1]]
    elif row.kind is Kind.GATHER_ELEMENTS:
        positions = [at]
    elif row.kind is Kind.GATHER:
        positions = [at[axis : axis + indices.ndim]]
    elif row.kind is Kind.SCATTER_ND:
        depth = indices.shape[-1]
        wrapped = np.where(indices < 0, indices + np.array(data.shape[:depth]), indices)
        hits = np.argwhere((wrapped == at[:depth]).all(axis=-1))[:_MOST_POSITIONS]
        positions = [tuple(hit) for hit in hits.tolist()]
    else:
        line = tuple(
            slice(None) if other == axis else slice(at[other], at[other] + 1)
            for other in range(data.ndim)
        )
        wrapped = np.where(indices < 0, indices + data.shape[axis], indices)
        hits = np.argwhere(wrapped[line] == at[axis])[:_MOST_POSITIONS]
        positions = [(*at[:axis], hit[axis], *at[axis + 1 :]) for hit in hits.tolist()]
    return [(position, tuple(np.ravel(indices[position]).tolist())) for position in positions]
