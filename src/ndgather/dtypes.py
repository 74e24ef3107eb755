"""Properties of dtypes: number kinds, extreme values and representable values.

`hold` applies the same rules to the fill values and updates of every library. Numbers may be
rounded to float and complex dtypes, but finite numbers must not become infinite, and infinite
numbers must not become finite. All other values must be exactly representable. Strings, dates and
numbers are never converted to each other.

>>> import numpy as np
>>> from ndgather.dtypes import hold
>>> hold(np.array([0, 255, 300, -1]), np.dtype("uint8"))  # 300, at index 2, does not fit
(None, 2)
>>> hold(np.array([0.1, np.inf]), np.dtype("float32"))
(array([0.1, inf], dtype=float32), None)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
NumberKind: TypeAlias = Literal["b", "i", "f", "c", ""]

BFLOAT16 = "bfloat16"
REGISTERED = 2  # the value of `isbuiltin` for dtypes that another package registered with NumPy
_KINDS_OF_TYPES = {bool: "b", int: "i", float: "f", complex: "c", str: "U", bytes: "S"}
_KINDS: dict[str, NumberKind] = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The range of a dtype that NumPy lacks. For complex dtypes, the range applies to each part."""

    name: str
    kind: Literal["b", "i", "f", "c"]
    lowest: float  # the lowest finite value, an int for integer dtypes
    highest: float
    rounded: Callable[[NDArray[np.float64]], NDArray[np.float64]]  # rounds values to the dtype

    def __str__(self) -> str:
        return self.name


@lru_cache
def number_kind(dtype: np.dtype[Any]) -> NumberKind:
    """Return "b", "i", "f" or "c" for a bool, integer, float or complex dtype, otherwise ""."""
    if dtype.isbuiltin != REGISTERED:
        return _KINDS.get(dtype.kind, "")
    if dtype.name == BFLOAT16:
        return "f"
    if dtype.itemsize != 1:
        return ""
    return "i" if dtype.name.startswith(("int", "uint")) else "f"


def every_element(dtype: np.dtype[Any]) -> Array:
    """Return all elements of a one-byte dtype, from byte 0 to byte 255."""
    return np.arange(256, dtype=np.uint8).view(dtype)


@lru_cache(maxsize=64)
def has_gaps(dtype: np.dtype[Any]) -> bool:
    """Return whether a record dtype has bytes outside its fields, such as padding."""
    return not _bytes_of_fields(dtype).all()


def _bytes_of_fields(dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Return, for each byte of an element, whether the byte belongs to a field."""
    base, shape = dtype.subdtype or (dtype, ())
    used = np.full(base.itemsize, base.names is None)
    for name in base.names or ():
        field, offset = cast("dict[str, Any]", base.fields)[name][:2]
        used[offset : offset + field.itemsize] |= _bytes_of_fields(field)
    return np.tile(used, prod(shape))


def extremes(dtype: np.dtype[Any] | Numbers) -> Array:
    """Return the lowest and highest values of `dtype`, which may be infinite."""
    if isinstance(dtype, Numbers):
        ends = dtype.rounded(np.array([-np.inf, np.inf]))
        return np.where(np.isinf(ends), ends, [dtype.lowest, dtype.highest])
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return np.array([bounds.min, bounds.max], dtype)
    if dtype.isbuiltin == REGISTERED and dtype.itemsize == 1:
        values = every_element(dtype).astype(np.float64)
        return every_element(dtype)[[np.nanargmin(values), np.nanargmax(values)]]
    return np.array([-np.inf, np.inf]).astype(dtype)


def hold(
    values: Array, dtype: np.dtype[Any] | Numbers, *, same_kind: bool = False
) -> tuple[Array | None, int | None]:
    """Return `values` converted to `dtype`, or the flat index of the first value that does not fit.

    Objects are converted individually, according to their own types. Values of a dtype described by
    `Numbers` are stored as float64 or complex128. If `same_kind` is true, booleans do not fit
    number dtypes and floats do not fit integer dtypes, regardless of their values.
    """
    if isinstance(dtype, np.dtype) and (
        dtype.kind == "O" or np.can_cast(values.dtype, dtype, "equiv")
    ):
        return values.astype(dtype, copy=False), None
    if values.dtype.kind in "OTV" and not number_kind(values.dtype):
        held = np.empty(values.size, _held_in(dtype))
        for position, value in enumerate(values.reshape(-1)):
            element = hold_one(value, dtype, same_kind=same_kind)
            if element is None:
                return None, position
            held[position] = element[()]
        return held.reshape(values.shape), None
    with np.errstate(all="ignore"):
        try:
            converted, lost = _converted(values, dtype, same_kind)
        except (TypeError, ValueError, OverflowError):  # NumPy does not support this conversion
            converted, lost = values, np.ones(values.shape, np.bool_)
    return (None, int(np.argmax(lost))) if lost.any() else (converted, None)


def holds_all(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether `dtype` can represent every value of the dtype `other`.

    ``np.can_cast`` is too permissive because it allows casts from int64 to float64, from numbers to
    strings, and from years to nanoseconds, which may overflow.
    """
    if {dtype.kind, other.kind} & {*"mM"}:
        return np.can_cast(other, dtype, "equiv")
    numbers = number_kind(dtype) and number_kind(other)
    alike = numbers or dtype.kind in (other.kind, "O") or (other.kind, dtype.kind) == ("U", "T")
    rounds = dtype.char in "dD" and other.kind in "iu" and other.itemsize == dtype.alignment
    return bool(alike) and np.can_cast(other, dtype) and not rounds


def hold_one(
    value: Any, dtype: np.dtype[Any] | Numbers, *, same_kind: bool = False
) -> Array | None:
    """Return `value` as a 0-d array of `dtype`, or None if the dtype cannot represent it."""
    try:
        if isinstance(value, np.ndarray | np.void) and value.ndim == 0:
            if value.dtype == dtype and value.dtype.kind not in "OT":
                return np.asarray(value)  # an exact copy, including padding
            value = np.asarray(value)[()]
        if isinstance(dtype, np.dtype) and dtype.kind in "OSTUV" and not number_kind(dtype):
            return _object_of(value, dtype)
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim == 0:
            array = _number_of(array[()], dtype)
        return None if array.ndim else hold(array, dtype, same_kind=same_kind)[0]
    except MemoryError:
        raise
    except Exception:  # methods of `value` may raise any exception
        return None


def array_of(value: Any) -> Array:
    """Return ``np.asarray(value)``, or an object array if NumPy would change an element.

    For example, NumPy changes elements of the lists ``[True, 2]``, ``["a", 1]`` and
    ``[2**63, -1]``, and of lists of dates with different units.
    """
    array = np.asarray(value)
    objects, _ = as_objects(value, array)
    return array if objects is None else objects


def as_objects(value: Any, array: Array) -> tuple[Array | None, bool]:
    """Return `value` as an object array if converting it to `array` changed elements, else None.

    The second result is true if elements certainly changed. This is uncertain if `value` contains
    objects of other libraries.
    """
    kind = array.dtype.kind
    if not isinstance(value, list | tuple) or array.size == 0 or kind == "O":
        return None, False
    kinds = _kinds_of(value)
    highest = kinds <= {"i", "f", "c"} and kind.replace("u", "i") in kinds
    if kind not in "US" and (highest or kinds in ({kind}, {array.dtype.str}, set())):
        return None, False
    objects = np.empty(array.shape, object)
    objects[...] = value
    if kinds == {kind} and np.array_equal(array.astype(object), objects):  # no NUL was lost
        return None, False
    return objects, "O" not in kinds


def _kinds_of(value: Any) -> set[str]:
    """Return the dtype kinds of elements of nested lists; for dates, return the full dtypes.

    NaT without a unit is ignored because it is valid in any unit.
    """
    while isinstance(value, list | tuple):
        types = {*map(type, value)}
        if types <= _KINDS_OF_TYPES.keys():
            return {_KINDS_OF_TYPES[each] for each in types}
        if not types <= {list, tuple}:
            return set().union(*map(_kinds_of, value))
        value = [*chain.from_iterable(value)]
    if hasattr(value, "dtype"):  # other libraries use NumPy's dtype names
        name = str(value.dtype).rpartition(".")[2]
        dtype: Any = value.dtype if isinstance(value.dtype, np.dtype) else _of_name(name)
        if dtype is None:
            return {"O"}
        if dtype.kind not in "Mm":
            return {dtype.kind.replace("u", "i")}
        any_unit = np.datetime_data(dtype)[0] == "generic" and np.isnat(value).all()
        return set() if any_unit else {dtype.str}
    return {_KINDS_OF_TYPES.get(type(value), "O")}


def _of_name(name: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(name)
    except TypeError:
        return None


def _object_of(value: Any, dtype: np.dtype[Any]) -> Array | None:
    """Return a string, record or object as a 0-d array."""
    element = np.zeros((), dtype)
    if dtype.kind == "O":
        element[()] = value
        return element
    if dtype.names is not None:
        if getattr(value, "dtype", dtype).names != dtype.names or isinstance(value, list | str):
            return None
        for part, name in zip(value, dtype.names, strict=True):
            base, shape = dtype[name].subdtype or (dtype[name], ())
            field = hold(array_of(part), base)[0] if shape else hold_one(part, base)
            if field is None or field.shape != shape:
                return None
            element[name] = field
        return element
    missing = getattr(dtype, "na_object", "")
    is_missing = value is missing or (value != value and missing != missing)  # noqa: PLR0124
    kind: type = {"S": bytes, "V": bytes}.get(dtype.kind, str)
    if isinstance(value, np.void) or not (isinstance(value, kind) or is_missing):
        return None  # a record with a different dtype
    element[()] = value
    if dtype.kind in "SU" and element.item() != kind(value):
        return None
    return None if dtype.kind == "V" and len(value) > dtype.itemsize else element


def _number_of(value: Any, dtype: np.dtype[Any] | Numbers) -> Array:
    """Return an array for an object that NumPy does not convert, such as 2**70 or a Decimal."""
    if isinstance(value, date | timedelta):
        if getattr(value, "tzinfo", None) is not None:
            raise ValueError("NumPy has no time zones")
        if hasattr(value, "to_numpy"):  # pandas, with nanoseconds
            return np.asarray(value.to_numpy())
        return np.asarray(value, "m8" if isinstance(value, timedelta) else "M8")
    kind = number_kind(dtype) if isinstance(dtype, np.dtype) else dtype.kind
    is_nan = value != value  # noqa: PLR0124
    if kind in "bi" and not is_nan and abs(value) >= 2**64:
        raise ValueError("it has more than 64 bits")  # int(Decimal("1e99999999")) takes minutes
    number: Any = {"f": float, "c": complex}.get(kind, int)(value)
    array = np.asarray(number)
    differs = number != value and not is_nan
    if differs and kind in "fc" and isinstance(dtype, np.dtype) and dtype.itemsize > array.itemsize:
        with np.errstate(over="ignore"):
            array = np.asarray(np.longdouble(str(value)))  # more precise than a float
    lost = differs and (kind in "bi" or not np.isfinite(array))
    if lost or array.dtype.kind == "O":
        raise ValueError("a digit is lost, or it has more than 64 bits")
    return array


def _converted(
    values: Array, dtype: np.dtype[Any] | Numbers, same_kind: bool
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the converted values and a mask of the values that the dtype cannot represent."""
    source, everything = number_kind(values.dtype), np.ones(values.shape, np.bool_)
    target = number_kind(dtype) if isinstance(dtype, np.dtype) else dtype.kind
    if not source or not target:
        if not isinstance(dtype, np.dtype) or not _is_alike(values.dtype, dtype):
            return values, everything
        converted = values.astype(dtype)
        if converted.dtype != dtype:  # a dtype without a unit adopts the unit of the values
            return values, everything
        back = converted.astype(values.dtype)
        return converted, (back != values) & (values == values)  # noqa: PLR0124 - NaT is not itself
    order = "bifc".index
    if order(source) > order(target) and (same_kind or source == "c"):
        return values, everything
    if same_kind and (source == "b") != (target == "b"):
        return values, everything
    if values.dtype.isbuiltin == REGISTERED or source == "b":
        values = values.astype(np.int64 if source in "bi" else np.float64)
    if target == "c":
        parts: Array = np.empty(values.shape, _held_in(dtype))
        lost = np.zeros(values.shape, np.bool_)
        for part in ("real", "imag"):
            of_each = dtype if isinstance(dtype, Numbers) else getattr(parts, part).dtype
            of_part, lost_part = _rounded(getattr(values, part), of_each)
            setattr(parts, part, of_part)
            lost |= lost_part
        return parts, lost
    if target == "f":
        return _rounded(values, dtype)
    lowest, highest = (int(bound) for bound in _bounds(dtype))
    lost = (values < lowest) | (values >= highest + 1)
    if source == "f":
        lost |= (values != np.trunc(values)) | np.isinf(values)  # including NaN
    return values.astype(_held_in(dtype)), lost


def _held_in(dtype: np.dtype[Any] | Numbers) -> np.dtype[Any]:
    """Return a NumPy dtype that can store elements of `dtype`, even if NumPy lacks `dtype`."""
    if isinstance(dtype, np.dtype):
        return dtype
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _is_alike(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether both dtypes are strings, dates or time spans that NumPy can convert."""
    kinds = {source.kind, target.kind}
    same = (len(kinds) == 1 and source.kind in "SUMm") or (source.kind, target.kind) == ("U", "T")
    return same and np.can_cast(source, target, "same_kind")  # not months to days


def _bounds(dtype: np.dtype[Any] | Numbers) -> tuple[Any, Any]:
    if isinstance(dtype, Numbers):
        return dtype.lowest, dtype.highest
    lowest, highest = extremes(dtype)
    return lowest, highest


def _rounded(values: Array, dtype: np.dtype[Any] | Numbers) -> tuple[Array, NDArray[np.bool_]]:
    """Return real numbers rounded to a float dtype and a mask of the numbers that overflow."""
    if isinstance(dtype, np.dtype):
        converted = values.astype(dtype)
        wide = converted.astype(np.result_type(values.dtype, np.float64))
        saturates = dtype.itemsize == 1
    else:
        converted = wide = dtype.rounded(values.astype(np.float64))
        saturates = True
    lost = (np.isnan(values) != np.isnan(wide)) | (np.isinf(values) != np.isinf(wide))
    if saturates:  # 8-bit floats, for example, may saturate instead of overflowing
        lowest, highest = (float(bound) for bound in _bounds(dtype))
        values = values.astype(np.result_type(values, np.float64))  # bounds may not fit in float16
        lost |= np.isfinite(values) & ((values < lowest) | (values > highest))
    return converted, lost
