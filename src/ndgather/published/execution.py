"""From a row and the arrays of a call to the call of the core that does what the row says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ndgather import reductions
from ndgather.api import Call
from ndgather.errors import argument_errors
from ndgather.published.inference import infer
from ndgather.published.schema import Kind, OperatorVersion, Reduction, Role
from ndgather.published.tensor_types import TensorType, dtype_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ndgather.published.arguments import AttributeValue

    Array = NDArray[Any]


def result_shape(
    row: OperatorVersion, arrays: Mapping[Role, Array], attributes: Mapping[str, AttributeValue]
) -> tuple[int, ...]:
    """Check all of a call but its index values, and return the shape of its result."""
    types = [TensorType(dtype_name(each), each.shape) for each in arrays.values()]
    values = {Role.AXIS: arrays[Role.AXIS]} if Role.AXIS in arrays else None
    inferred = infer(row, types, attributes, values=values, check_empty_axes=False)
    return inferred.outputs[0].shape  # type: ignore[return-value]  # every size is known


def native_call(
    row: OperatorVersion, arrays: Mapping[Role, Array], attributes: Mapping[str, AttributeValue]
) -> Call:
    """Return the native call that does what the row says."""
    data, indices = arrays[Role.DATA], arrays[Role.INDICES]
    batch_dims = int(attributes.get("batch_dims", 0))
    batch_dims += indices.ndim if batch_dims < 0 else 0
    fills = not row.index_rule.raises
    call = Call(
        str(row),
        row.kind.value,
        data,
        indices,
        axis=int(attributes.get("axis", 0)) % max(data.ndim, 1),
        batch_dims=batch_dims,
        negative=row.index_rule.negative,
    )
    if row.kind.scatters:
        return replace(
            call,
            updates=_updates(row, data, indices, arrays[Role.UPDATES]),
            reduction=_reduction(row, attributes, data.dtype).value,
            use_init_val=bool(attributes.get("use_init_val", True)),
        )
    return replace(
        call,
        mode="fill" if fills else "raise",
        fill_value="" if fills and getattr(data.dtype, "kind", "") == "O" else None,
    )


def _updates(row: OperatorVersion, data: Array, indices: Array, updates: Array) -> Array:
    """Return `updates` in the shape of the rule; for one element of data any rank is allowed."""
    names_one_element = row.kind is Kind.SCATTER_ND and indices.shape == (data.ndim,)
    return updates.reshape(()) if names_one_element else updates


def _reduction(
    row: OperatorVersion, attributes: Mapping[str, AttributeValue], dtype: np.dtype[Any]
) -> Reduction:
    attribute = row.attribute("reduction")
    if attribute is None:
        return Reduction.NONE
    word = attributes["reduction"]
    is_known = hasattr(dtype, "kind")  # else it is of torch, whose adapter knows
    meaningful = reductions.meaningful(dtype) if is_known else reductions.NAMES
    allowed = {
        each.word: each.reduction
        for each in attribute.choices
        if each.reduction.value in meaningful
    }
    if word not in allowed:
        raise argument_errors.reduction_type(str(row), str(word), dtype, tuple(allowed))
    return allowed[str(word)]
