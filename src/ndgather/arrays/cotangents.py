"""Cotangents of calls of `ndgather.vjp` whose arrays have become those of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather import vjp

if TYPE_CHECKING:
    from ndgather.array_call import Call


def cotangents(call: Call, data_shape: tuple[int, ...] | None) -> Any:
    """Return what the function of `ndgather.vjp` returns that made `call`.

    `data` of the call is the cotangent of the result; `data_shape` is None for a scatter.
    """
    given, indices = call.data, call.indices
    if data_shape is None:
        if call.kind == "scatter_nd":
            return vjp.scatter_nd(given, indices, call.reduction)
        return vjp.scatter_elements(given, indices, call.axis, call.reduction)
    if call.kind == "gather_windows":
        return vjp.gather_windows(given, data_shape, indices, call.window_shape)
    option = call.batch_dims if call.kind == "gather_nd" else call.axis
    return getattr(vjp, call.kind)(given, data_shape, indices, option)
