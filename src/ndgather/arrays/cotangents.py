"""Cotangents of calls of `ndgather.vjp` whose arrays have become those of NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ndgather import vjp

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call


def wrapped(
    call: Call,
    data_shape: tuple[int, ...] | None,
    plain: Callable[[str, str, Any], Any],
    like: Callable[[Any], Any],
) -> Any:
    """Return the cotangents of a call of containers.

    `plain` makes NumPy arrays of them, given the caller and the name of the argument; `like` makes
    what the cotangent of the call is of a NumPy array.
    """
    given = plain(call.caller, "cotangent", call.data)
    indices = plain(call.caller, call.indices_name, call.indices)
    results = cotangents(replace(call, data=given, indices=indices), data_shape)
    return tuple(map(like, results)) if isinstance(results, tuple) else like(results)


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
