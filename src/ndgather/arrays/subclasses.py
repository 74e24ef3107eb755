"""Subclasses of `numpy.ndarray`. A gather returns an array of data's class, as ``data.take`` does.

A class may have rules for its values, such as a unit, that a scatter could violate. Scatters
therefore support only NumPy's own classes and classes without rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgather import arguments, foreign, messages, slow_path
from ndgather.array_call import Array, Call, replace
from ndgather.errors import DTypeError
from ndgather.messages import shown
from ndgather.vjp import cotangents


def run(call: Call) -> Any:
    caller, data, out = call.caller, call.data, call.out
    plain = _plain(call, indices=call.indices_name, updates=call.updates_name, out="out")
    if foreign.has_mask(data):
        raise messages.masked_array(caller, "data")
    others = call.scatters or out is not None or call.fill_value is not None
    if others and foreign.has_rules(data, foreign.RULES if call.scatters else foreign.MEANINGS):
        raise messages.rules_lost(caller, "data", data)
    if isinstance(data, np.ndarray):
        plain["data"] = np.ndarray.view(data, np.ndarray)
    result = slow_path.run(replace(call, **plain))
    return _wrapped(call, result) if out is None else out


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    plain = _plain(call, data="cotangent", indices=call.indices_name)
    of_each = cotangents(replace(call, **plain), data_shape)
    return tuple(_wrapped(call, cotangent) for cotangent in of_each)


def _plain(call: Call, **names: str) -> dict[str, Any]:
    """Convert the arrays in the fields `names` of a call to plain NumPy arrays."""
    values = ((field, name, getattr(call, field)) for field, name in names.items())
    return {
        field: arguments.plain_array(call.caller, name, value)
        for field, name, value in values
        if isinstance(value, np.ndarray)
    }


def _wrapped(call: Call, result: Array) -> Any:
    data = call.data
    if not isinstance(data, np.ndarray) or type(data) is np.ndarray:
        return result
    error = DTypeError(
        f"{call.caller}: data = {type(data).__name__} object cannot hold a result of shape "
        f"{shown(result.shape)} (allowed: a class that can, or a plain array, such as "
        f"numpy.asarray(data))"
    )
    with messages.converted_errors(lambda _: error):  # methods of the class may raise any error
        wrapped = np.ndarray.__array_wrap__(data, result)  # calls __array_finalize__
        kept = type(wrapped) is type(data) and wrapped.shape == result.shape
    if not kept:
        raise error
    return wrapped
