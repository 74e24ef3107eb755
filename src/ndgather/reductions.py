"""The arithmetic of scatter that the core cannot know by itself.

The core computes with NumPy's own types and with bfloat16. For the other types of one byte, such
as float8 and int4, it looks results up in a table of all pairs, built here once by the arithmetic
that the type brings along. Nothing here imports the packages that such types come from.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ndgather.array_call import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

NAMES = (*_core.REDUCTIONS, "mean")

# The reductions that have a meaning, by the kind of number.
_MEANINGFUL = {
    "b": ("none", "add", "sub", "mul", "min", "max"),
    "i": NAMES,
    "f": NAMES,
    "c": ("none", "add", "sub", "mul", "mean"),
    "": ("none",),
}

_UFUNCS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
}

_KINDS: dict[str, Literal["b", "i", "f", "c"]] = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}

_BFLOAT16 = "bfloat16"


@lru_cache
def number_kind(dtype: np.dtype[Any]) -> Literal["b", "i", "f", "c", ""]:
    """Return b, i, f or c for booleans, integers, floats and complex numbers; "" for the rest."""
    if not _registered(dtype):
        return _KINDS.get(dtype.kind, "")
    if dtype.name == _BFLOAT16:
        return "f"
    if dtype.itemsize != 1:
        return ""
    return "i" if dtype.name.startswith(("int", "uint")) else "f"


def _registered(dtype: np.dtype[Any]) -> bool:
    """Whether a package has registered the type with NumPy."""
    return dtype.isbuiltin == 2


def meaningful(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return the reductions that have a meaning for elements of `dtype`."""
    return _MEANINGFUL[number_kind(dtype)]


def for_core(dtype: np.dtype[Any], reduction: str) -> Array | str | None:
    """Return what the core has to be told to compute with `dtype`."""
    if dtype.name == _BFLOAT16:
        return _BFLOAT16
    if _registered(dtype) and reduction in ("add", "sub", "mul", "min", "max"):
        return table(dtype, reduction)
    return None


def every(dtype: np.dtype[Any]) -> Array:
    """Return the elements of a type of one byte, from byte 0 to byte 255."""
    return np.arange(256, dtype=np.uint8).view(dtype)


@lru_cache(maxsize=64)
def table(dtype: np.dtype[Any], reduction: str) -> NDArray[np.uint8]:
    """Return the byte of the result for the byte of an old value (row) and of an update (column).

    In min and max a NaN wins and the old value is kept where both are equal.
    """
    old, update = every(dtype)[:, np.newaxis], every(dtype)[np.newaxis, :]
    if reduction in _UFUNCS:
        with np.errstate(all="ignore"):
            result = _UFUNCS[reduction](old, update)
    else:
        a, b = old.astype(np.float64), update.astype(np.float64)
        wins = b < a if reduction == "min" else b > a
        result = np.where(~np.isnan(a) & (wins | np.isnan(b)), update, old)
    results = np.ascontiguousarray(result).view(np.uint8).reshape(-1)
    results.setflags(write=False)
    return results


def extremes(dtype: np.dtype[Any]) -> Array:
    """Return the least and the greatest element of `dtype`, infinities included."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return np.array([bounds.min, bounds.max], dtype)
    if _registered(dtype) and dtype.itemsize == 1:
        values = every(dtype).astype(np.float64)
        return every(dtype)[[np.nanargmin(values), np.nanargmax(values)]]
    return np.array([-np.inf, np.inf]).astype(dtype)


def identity(dtype: np.dtype[Any], reduction: str) -> Array:
    """Return the element that a reduction starts from where no element takes part."""
    if reduction in ("min", "max"):
        return extremes(dtype)[1 if reduction == "min" else 0, ...]
    return np.array(reduction == "mul").astype(dtype)


def quotient(totals: Array, counts: NDArray[np.int64]) -> Array:
    """Return ``totals / counts`` in the type of `totals`: rounded once, integers down."""
    dtype = totals.dtype
    kind = number_kind(dtype)
    if kind == "c":
        result = np.empty_like(totals)
        result.real = quotient(totals.real, counts)
        result.imag = quotient(totals.imag, counts)
        return result
    with np.errstate(all="ignore"):
        if kind == "i":
            wide = np.dtype("u8" if dtype.kind == "u" else "i8")
            result = totals.astype(wide) // counts.astype(wide)
        else:
            result = totals.astype("g" if dtype.char == "g" else "d") / counts.astype("d")
        return result.astype(dtype)


def in_steps(
    data: Array,
    updates: Array,
    reduction: str,
    use_init_val: bool,
    apply: Callable[[Array, Array, str, object], None],
) -> None:
    """Reduce where the core has no one step: from the identity, or to the mean.

    ``apply(data, updates, reduction, arithmetic)`` does one step of the core, in place, with the
    indices of the call. Both arrays are in native byte order.
    """
    dtype = data.dtype
    if not use_init_val:
        apply(data, np.broadcast_to(identity(dtype, reduction), updates.shape), "none", None)
    if reduction != "mean":
        apply(data, updates, reduction, for_core(dtype, reduction))
        return
    apply(data, updates, "add", for_core(dtype, "add"))
    first = int(use_init_val)
    counts = np.full(data.shape, first)
    apply(counts, np.broadcast_to(np.int64(1), updates.shape), "add", None)
    touched = counts > first
    data[touched] = quotient(data[touched], counts[touched])
