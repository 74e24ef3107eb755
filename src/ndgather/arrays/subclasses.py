"""Subclasses of NumPy's array, such as quantities with units, by the protocols of NumPy.

The core moves the values. `__array_finalize__` copies what else a class has, such as a unit, to the
result, as in ``data.take``; an assignment converts values of another unit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import arguments, messages, slow_path
from ndgather.arguments import choice
from ndgather.array_call import _core
from ndgather.errors import DTypeError
from ndgather.messages import shown, shown_value
from ndgather.vjp import cotangents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Array = NDArray[Any]

_UFUNCS = {
    "none": None,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "mean": np.add,
}


def run(call: Call) -> Any:
    """Return the result of a call, in the class of data."""
    data, out = call.data, call.out
    if call.scatters:
        reduction = choice(call.caller, "reduction", call.reduction, arguments.REDUCTIONS)
        call = replace(call, reduction=reduction)
    if getattr(type(data), "mask", None) is not None:
        raise messages.masked_array(call.caller, "data")
    if _overrides_ufuncs(call.indices):
        _like(call.caller, call.indices_name, call.indices, np.zeros(1))
    plain = replace(call, data=_plain(data), indices=_plain(call.indices))
    if call.scatters:
        plain = replace(plain, updates=_plain_updates(call))
    elif _overrides_ufuncs(data) and call.fill_value is not None:
        fill = _like(call.caller, "fill_value", call.fill_value, data)
        plain = replace(plain, fill_value=fill)
    if out is None or not (_overrides_ufuncs(data) or _overrides_ufuncs(out)) or out is data:
        result = slow_path.run(replace(plain, out=_plain(out)))
        return _wrapped(call, result) if out is None else out
    result = _wrapped(call, slow_path.run(replace(plain, out=None)))
    if not isinstance(result, np.ndarray):
        raise messages.out_of_another_kind(call.caller, out, result)
    refusal = _core.check_out(_plain(out), _plain(result))
    if refusal.rule != "none":
        arguments.raise_error(call, refusal)
    if _plain(result).size:
        _plain(out)[...] = _like(call.caller, "out", result, out)
    return out


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """Return the cotangents of a call, of the class and in the unit of `data`, its cotangent."""
    if getattr(type(call.data), "mask", None) is not None:
        raise messages.masked_array(call.caller, "cotangent")
    plain = replace(call, data=_plain(call.data), indices=_plain(call.indices))
    return tuple(_wrapped(call, cotangent) for cotangent in cotangents(plain, data_shape))


def _plain(value: Any) -> Any:
    """Return an array of a subclass as a plain array that shares its memory."""
    return np.ndarray.view(value, np.ndarray) if isinstance(value, np.ndarray) else value


def _overrides_ufuncs(value: Any) -> bool:
    """Whether `value` is an array of a class with its own arithmetic."""
    plain = np.ndarray.__array_ufunc__
    return isinstance(value, np.ndarray) and type(value).__array_ufunc__ is not plain


def _wrapped(call: Call, result: Array) -> Any:
    """Return a plain result as an array of the class of data."""
    data = call.data
    if not isinstance(data, np.ndarray) or type(data) is np.ndarray:
        return result
    try:
        wrapped = np.ndarray.__array_wrap__(data, result)  # which asks __array_finalize__
        kept = type(wrapped) is type(data) and wrapped.shape == result.shape
    except MemoryError:
        raise
    except Exception:  # methods of the class may raise anything
        kept = False
    if not kept:
        raise DTypeError(
            f"{call.caller}: data = {_with_unit(data)} object cannot hold a result of shape "
            f"{shown(result.shape)} (allowed: a class that can, or a plain array, such as "
            f"numpy.asarray(data))"
        )
    return wrapped


def _plain_updates(call: Call) -> Any:
    """Return the numbers of updates in the unit of data, if the reduction keeps that unit."""
    data, updates, name = call.data, call.updates, call.updates_name
    if not (_overrides_ufuncs(data) or _overrides_ufuncs(updates)):
        return _plain(updates)
    like = data if isinstance(data, np.ndarray) else np.zeros(1)
    plain = _plain(updates) if call.reduction == "mul" else _like(call.caller, name, updates, like)
    ufunc = _UFUNCS[call.reduction]
    if ufunc is not None and not _keeps(ufunc, like, updates if call.reduction == "mul" else like):
        raise reduction_changes_unit(call)
    return plain


def _keeps(ufunc: np.ufunc, like: Array, other: Any) -> bool:
    """Whether arrays like `like` hold the result of `ufunc` of them and arrays like `other`."""
    try:
        room = _one(like)
        plain = np.asarray(ufunc(_plain(room), _plain(_one(other))))
        room[...] = ufunc(room, _one(other))
    except MemoryError:
        raise
    except Exception:  # methods of the class may raise anything
        return False
    return np.array_equal(_plain(room), plain)


def _one(like: Any) -> Array:
    """Return the number 1 in the class, the unit and the type of an array."""
    if not _overrides_ufuncs(like):
        return np.ones(1, np.asarray(like).dtype)
    room: Array = np.empty_like(like, shape=(1,))
    _plain(room)[...] = 1
    return room


def _like(caller: str, argument: str, value: Any, like: Array) -> Array:
    """Return the numbers of `value` in the unit of `like`, if it has one; their type stays."""
    try:
        dtype = np.asarray(value).dtype
        room = np.empty_like(like, dtype=dtype, shape=np.shape(value))
        room[...] = value
        # An assignment to an array without a unit drops one silently; a sum does not.
        kept = _overrides_ufuncs(like) or _keeps(np.add, np.ones(1, dtype), value)
    except MemoryError:
        raise
    except Exception:  # methods of the class may raise anything
        kept = False
    if not kept:
        raise DTypeError(
            f"{caller}: {argument} = {shown_value(value)} cannot be held by {_with_unit(like)}, or "
            f"would lose its unit (allowed: values that can be assigned to such an array)"
        )
    return np.ndarray.view(room, np.ndarray)


def reduction_changes_unit(call: Call) -> DTypeError:
    return DTypeError(
        f"{call.caller}: reduction = {call.reduction!r} of {_with_unit(call.data)} and "
        f"{_with_unit(call.updates)} gives what data cannot hold (allowed: updates that leave the "
        f"unit of data as it is)"
    )


def _with_unit(value: object) -> str:
    """Return the name of a class, and the unit of an array that has one."""
    unit = getattr(value, "unit", getattr(value, "units", None))
    return type(value).__name__ + (f" in {shown_value(unit, str)}" if unit is not None else "")
