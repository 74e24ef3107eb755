"""From what a caller gives to the plain NumPy arrays that the core takes, with no value lost."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import reductions
from ndgather.errors import argument_errors, shape_errors
from ndgather.errors.shown_values import shown_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def plain_array(caller: str, argument: str, value: object) -> Array:
    """Return `value` as an exact NumPy array, without a copy where it is one in disguise."""
    # NumPy imports its masked arrays once they are asked for.
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise argument_errors.masked_array(caller, argument)
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    array = _as_array(caller, argument, value)
    if array.dtype == object and array.ndim == 0:
        raise argument_errors.not_an_array(caller, argument, value, "is not an array")
    return array


def _as_array(
    caller: str, argument: str, value: object, dtype: np.dtype[Any] | None = None
) -> Array:
    """Return ``np.asarray(value, dtype)``; containers of other libraries may raise anything."""
    costly = _costly_conversion(value)
    if costly is not None:
        raise argument_errors.costly_conversion(caller, argument, value, *costly)
    try:
        return np.ndarray.view(np.asarray(value, dtype), np.ndarray)
    except MemoryError:
        raise
    except Exception as error:
        why = f"is not an array: {shown_value(error, str)}"
        raise argument_errors.not_an_array(caller, argument, value, why) from error


# Methods of arrays that are something else than elements in memory, and what they are.
_COSTLY = {
    "todense": "sparse",
    "toarray": "sparse",
    "to_dense": "sparse",
    "compute": "lazy",
}
_ON_HOST = (1, 3, 11)  # of DLPack: the memory of the CPU, pinned for CUDA, pinned for ROCm


def _costly_conversion(value: object) -> tuple[str, str] | None:
    """Say what `value` is and how to convert it, if that costs more than a look at its memory."""
    for method, what in _COSTLY.items():
        # Every tensor of torch has to_dense.
        if hasattr(type(value), method) and getattr(value, "is_sparse", True):
            return what, f"{method}()"
    if not hasattr(type(value), "__dlpack_device__"):
        return None
    try:
        device = value.__dlpack_device__()[0]  # type: ignore[attr-defined]  # it has it
    except MemoryError:
        raise
    except Exception:
        return None  # whatever it raises; np.asarray finds words
    return None if device in _ON_HOST else ("on another device", "copy to the CPU")


def plain_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return `value` as indices in native byte order; their type is for the core to check."""
    indices = plain_array(caller, name, value)
    if indices.size == 0 and not isinstance(value, np.ndarray):
        return indices.astype(np.int64)  # an empty list has no type of its own
    if indices.dtype.kind in "iu" and not indices.dtype.isnative:
        return indices.astype(indices.dtype.newbyteorder("="))
    return indices


def native_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return `plain_indices`, where an empty array of floats counts as empty.

    ``np.empty((0, 2))`` is how an empty list of index tuples is often written.
    """
    indices = plain_indices(caller, value, name)
    return indices.astype(np.int64) if indices.size == 0 and indices.dtype.kind == "f" else indices


def sizes(caller: str, argument: str, value: object) -> tuple[int, ...]:
    """Return a shape that a caller gives as a sequence of sizes."""
    try:
        shape = tuple(map(operator.index, value))  # type: ignore[call-overload]  # or it raises
    except MemoryError:
        raise
    except Exception as error:
        raise shape_errors.not_sizes(caller, argument, value) from error
    if min(shape, default=0) < 0:
        raise shape_errors.not_sizes(caller, argument, value)
    return shape


def fill_element(caller: str, value: object, dtype: np.dtype[Any]) -> Array:
    """Return `value` as one element of `dtype`; rounding is allowed, losing it is not."""
    element = np.zeros((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            # A 0-d array gives its element; anything else is one, a list among objects too. Of a
            # subclass the element is what it says, if its unit or mask lets it say one.
            element[... if type(value) is np.ndarray and value.ndim == 0 else ()] = value
        kept = _holds(element, value)
    except MemoryError:
        raise
    except Exception:  # whatever the methods of `value` raise
        kept = False
    if not kept:
        raise argument_errors.fill_value_lost(caller, value, dtype)
    return element


def _holds(element: Array, value: Any) -> bool:
    """Whether an element that `value` was assigned to holds it, rounded at most."""
    dtype = element.dtype
    kind = reductions.number_kind(dtype)
    if kind in ("b", "i") or dtype.kind in "SUmM":
        unlike = value != value  # noqa: PLR0124 - NaT is unlike itself
        return bool(element[()] == value) or bool(unlike)
    if kind == "f" and dtype.isbuiltin == 2:  # the casts of other packages overflow silently
        with np.errstate(all="ignore"):
            return _converted(np.asarray(value, np.float64), dtype) is not None
    return not isinstance(value, bytes) or dtype.kind != "V" or len(value) <= dtype.itemsize


def plain_updates(caller: str, value: object, dtype: np.dtype[Any], name: str) -> Array:
    """Return `value` as updates of `dtype`.

    Arrays have that type already, in any byte order. Numbers and lists are converted where the
    type holds every value of them; floating values may be rounded.
    """
    if isinstance(value, np.ndarray):
        updates = plain_array(caller, name, value)
        if not np.can_cast(updates.dtype, dtype, "equiv"):
            raise argument_errors.updates_dtype(caller, updates.dtype, dtype, name)
        return updates.astype(dtype, copy=False)
    if dtype.kind in "OT":
        return _as_array(caller, name, value, dtype)
    updates = plain_array(caller, name, value)
    if updates.size == 0:
        return updates.astype(dtype)  # an empty list has no type of its own
    try:
        with np.errstate(all="ignore"):
            converted = _converted(updates, dtype)
    except (TypeError, ValueError, OverflowError):
        converted = None
    if converted is None:
        raise argument_errors.updates_lost(caller, value, dtype, name)
    return converted


def _converted(given: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the values of `given` in `dtype`, rounded at most; None where one would be lost."""
    source, target = reductions.number_kind(given.dtype), reductions.number_kind(dtype)
    if source == "" or target == "" or "b" in (source, target):
        if given.dtype.kind != dtype.kind:
            return None
        converted = given.astype(dtype)
        kept = (given == converted) | (given != given)  # noqa: PLR0124 - NaT is unlike itself
    elif "ifc".index(source) > "ifc".index(target):
        return None
    else:
        converted = given.astype(dtype)
        if target == "i":
            kept = given == (converted if dtype.kind in "iu" else converted.astype(np.int64))
        elif target == "c":
            kept = np.isfinite(given) == np.isfinite(converted)
        else:
            wide = converted.astype(np.result_type(given.dtype, np.float64))
            kept = (np.isnan(given) == np.isnan(wide)) & (np.isinf(given) == np.isinf(wide))
            if dtype.itemsize == 1:  # some of these types hold their largest for all beyond it
                lowest, highest = reductions.extremes(dtype).astype(np.float64)
                kept &= ~((given < lowest) | (given > highest))
    return converted if kept.all() else None
