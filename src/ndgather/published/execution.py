"""From a row and the arrays of a call to the call of the core that does what the row says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import reductions
from ndgather.api import Call
from ndgather.errors import argument_errors
from ndgather.published.array_types import reshaped, type_of
from ndgather.published.inference import infer
from ndgather.published.schema import Kind, OperatorVersion, Reduction, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.published.arguments import AttributeValue
    from ndgather.published.tensor_types import TensorType


def planned(
    row: OperatorVersion, arrays: Mapping[Role, Any], attributes: Mapping[str, AttributeValue]
) -> tuple[Call, tuple[Any, ...]]:
    """Check all of a call but its index values; return the native call and the result's shape."""
    types = {role: type_of(each) for role, each in arrays.items()}
    values = {}
    if Role.AXIS in arrays:
        values[Role.AXIS] = arrays[Role.AXIS]
    inferred = infer(row, [*types.values()], attributes, values=values, check_empty_axes=False)
    if values:
        attributes = {**attributes, "axis": int(values[Role.AXIS].item())}
    call = _native_call(row, types, arrays, attributes)
    return call, inferred.outputs[0].shape  # type: ignore[return-value]  # every rank is known


def _native_call(
    row: OperatorVersion,
    types: Mapping[Role, TensorType],
    arrays: Mapping[Role, Any],
    attributes: Mapping[str, AttributeValue],
) -> Call:
    """Return the native call that does what the row says."""
    data, indices = arrays[Role.DATA], arrays[Role.INDICES]
    data_shape, indices_shape = _shape(types[Role.DATA]), _shape(types[Role.INDICES])
    batch_dims = int(attributes.get("batch_dims", 0))
    batch_dims += len(indices_shape) if batch_dims < 0 else 0
    call = Call(
        str(row),
        row.kind.value,
        data,
        indices,
        axis=int(attributes.get("axis", 0)) % max(len(data_shape), 1),
        batch_dims=batch_dims,
        negative=row.index_rule.negative,
    )
    if row.kind.scatters:
        updates = arrays[Role.UPDATES]
        # For one element of data they may have any rank.
        names_one = row.kind is Kind.SCATTER_ND and indices_shape == (len(data_shape),)
        return replace(
            call,
            updates=reshaped(updates, ()) if names_one else updates,
            reduction=_reduction(row, attributes, data, types[Role.DATA]).value,
            use_init_val=bool(attributes.get("use_init_val", True)),
        )
    fills = not row.index_rule.raises
    # Where text is elements that are references, the core has no zero for it.
    objects = getattr(getattr(data, "dtype", None), "kind", "O") == "O"
    texts = objects and types[Role.DATA].dtype == "string"
    return replace(
        call, mode="fill" if fills else "raise", fill_value="" if fills and texts else None
    )


def _shape(given: TensorType) -> tuple[Any, ...]:
    return given.shape  # type: ignore[return-value]  # of an array it is known


def _reduction(
    row: OperatorVersion, attributes: Mapping[str, AttributeValue], data: Any, given: TensorType
) -> Reduction:
    attribute = row.attribute("reduction")
    if attribute is None:
        return Reduction.NONE
    word = attributes["reduction"]
    dtype: Any = getattr(data, "dtype", given.dtype)
    meaningful = reductions.NAMES  # what the adapter of another library refuses, it knows
    if isinstance(dtype, np.dtype):
        meaningful = reductions.meaningful(dtype)
    allowed = {
        each.word: each.reduction
        for each in attribute.choices
        if each.reduction.value in meaningful
    }
    if word not in allowed:
        raise argument_errors.reduction_type(str(row), str(word), dtype, tuple(allowed))
    return allowed[str(word)]
