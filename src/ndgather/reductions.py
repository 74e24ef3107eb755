"""Reductions of a scatter: which dtypes have them, and those that the core cannot compute alone.

The core computes with the numeric dtypes of NumPy and with bfloat16. For other dtypes of one byte,
such as float8 and int4, it reads the results of all pairs, which `byte_results` computes once.
Means, and reductions that ignore the elements of data, are several scatters (`in_steps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ndgather.array_call import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

NAMES = (*_core.REDUCTIONS, "mean")

# The reductions that are defined, by the kind of number.
_SUPPORTED = {
    "b": ("none", "add", "sub", "mul", "min", "max"),
    "i": NAMES,
    "f": NAMES,
    "c": ("none", "add", "sub", "mul", "mean"),
    "": ("none",),
}
_UFUNCS: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_IDENTITIES = {"add": False, "sub": False, "mul": True, "mean": False}  # of all dtypes: 0 or 1
_KINDS: dict[str, Literal["b", "i", "f", "c"]] = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}
_BFLOAT16 = "bfloat16"
_REGISTERED = 2  # `isbuiltin` of a dtype that another package has registered with NumPy


@lru_cache
def number_kind(dtype: np.dtype[Any]) -> Literal["b", "i", "f", "c", ""]:
    """Return b, i, f or c for booleans, integers, floats and complex numbers; "" for the rest."""
    if dtype.isbuiltin != _REGISTERED:
        return _KINDS.get(dtype.kind, "")
    if dtype.name == _BFLOAT16:
        return "f"
    if dtype.itemsize != 1:
        return ""
    return "i" if dtype.name.startswith(("int", "uint")) else "f"


def supported_reductions(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return the reductions that are defined for elements of `dtype`."""
    return _SUPPORTED[number_kind(dtype)]


def for_core(dtype: np.dtype[Any], reduction: str) -> Array | str | None:
    """Return the argument `arithmetic` of the core: `byte_results`, the name bfloat16, or None."""
    if dtype.name == _BFLOAT16:
        return _BFLOAT16
    if dtype.isbuiltin == _REGISTERED and reduction not in ("none", "mean"):
        return byte_results(dtype, reduction)
    return None


def every(dtype: np.dtype[Any]) -> Array:
    """Return the elements of a dtype of one byte, from byte 0 to byte 255."""
    return np.arange(256, dtype=np.uint8).view(dtype)


@lru_cache(maxsize=64)
def byte_results(dtype: np.dtype[Any], reduction: str) -> NDArray[np.uint8]:
    """Return the byte of the result for the byte of an element (row) and of an update (column)."""
    old, update = every(dtype)[:, np.newaxis], every(dtype)[np.newaxis, :]
    with np.errstate(all="ignore"):
        if reduction in _UFUNCS:
            result = _UFUNCS[reduction](old, update)
        elif reduction in ("min", "max"):  # a NaN wins, and of equal elements the old one stays
            a, b = old.astype(np.float64), update.astype(np.float64)
            wins = b < a if reduction == "min" else b > a
            result = np.where(~np.isnan(a) & (wins | np.isnan(b)), update, old)
        else:
            raise AssertionError(f"reduction {reduction!r} has no results for pairs of bytes")
    results = np.ascontiguousarray(result).view(np.uint8).reshape(-1)
    results.setflags(write=False)
    return results


def extremes(dtype: np.dtype[Any]) -> Array:
    """Return the least and the greatest element of `dtype`, which may be infinite."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return np.array([bounds.min, bounds.max], dtype)
    if dtype.isbuiltin == _REGISTERED and dtype.itemsize == 1:
        values = every(dtype).astype(np.float64)
        return every(dtype)[[np.nanargmin(values), np.nanargmax(values)]]
    return np.array([-np.inf, np.inf]).astype(dtype)


def identity(dtype: np.dtype[Any], reduction: str) -> Array:
    """Return the identity of a reduction: combined with an element, it gives that element."""
    if reduction in ("min", "max"):
        return extremes(dtype)[1 if reduction == "min" else 0, ...]
    if reduction not in _IDENTITIES:
        raise AssertionError(f"reduction {reduction!r} has no identity")
    return np.array(_IDENTITIES[reduction]).astype(dtype)


def quotient(totals: Array, counts: NDArray[np.int64]) -> Array:
    """Return ``totals / counts`` in the dtype of `totals`; integers are rounded down."""
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


class StepLibrary(Protocol):
    """What `in_steps` needs of a library of arrays."""

    def scatter(self, data: Any, updates: Any, reduction: str) -> Any:
        """Return `data` with `updates` at the indices of the call; `data` may be changed."""

    def identity(self, updates: Any, reduction: str) -> Any:
        """Return an array like `updates` that is filled with the identity of a reduction."""

    def counts(self, data: Any, count: int) -> Any:
        """Return integers of the shape of `data`, all equal to `count`, to scatter into."""

    def ones(self, updates: Any) -> Any:
        """Return integers of the shape of `updates`, all 1."""

    def quotient(self, totals: Any, counts: Any, where: Any) -> Any:
        """Return ``totals / counts`` as `quotient` does, where `where` is true, else `totals`."""


def in_steps(
    library: StepLibrary, data: Any, updates: Any, reduction: str, use_init_val: bool
) -> Any:
    """Reduce by several scatters: to a mean, or from the identity of the reduction."""
    if not use_init_val:
        data = library.scatter(data, library.identity(updates, reduction), "none")
    if reduction != "mean":
        return library.scatter(data, updates, reduction)
    totals = library.scatter(data, updates, "add")
    first = int(use_init_val)
    counts = library.scatter(library.counts(data, first), library.ones(updates), "add")
    return library.quotient(totals, counts, counts > first)


@dataclass(frozen=True, slots=True)
class InPlace:
    """Arrays of NumPy, which `apply(data, updates, reduction)` changes by one scatter."""

    apply: Callable[[Array, Array, str], None]

    def scatter(self, data: Array, updates: Array, reduction: str) -> Array:
        self.apply(data, updates, reduction)
        return data

    def identity(self, updates: Array, reduction: str) -> Array:
        return np.broadcast_to(identity(updates.dtype, reduction), updates.shape)

    def counts(self, data: Array, count: int) -> Array:
        return np.full(data.shape, count)

    def ones(self, updates: Array) -> Array:
        return np.broadcast_to(np.int64(1), updates.shape)

    def quotient(self, totals: Array, counts: Array, where: Array) -> Array:
        totals[where] = quotient(totals[where], counts[where])
        return totals
