"""Support for model files, including argument validation for all model formats."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ndgather import dtypes, foreign
from ndgather.errors import DTypeError, ModelError
from ndgather.messages import argument_kind, converted_errors, elements_change, reason

T = TypeVar("T")

Array: TypeAlias = NDArray[Any]
FilePath: TypeAlias = str | os.PathLike[str]
Content: TypeAlias = bytes | bytearray | memoryview


def instance(caller: str, argument: str, value: object, kind: type[T], what: str) -> T:
    """Return `value`, or raise if its type is not `kind`. Booleans are not accepted as integers."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise argument_kind(caller, argument, value, what, kind.__name__)
    return value


def file_path(caller: str, argument: str, value: object) -> Path:
    allowed = "str, os.PathLike"
    with converted_errors(lambda _: argument_kind(caller, argument, value, "a path", allowed)):
        return Path(value)  # type: ignore[arg-type]


def named_arrays(caller: str, inputs: object) -> dict[str, Array]:
    if not isinstance(inputs, Mapping):
        allowed = "arrays by the names of the inputs"
        raise argument_kind(caller, "inputs", inputs, "a mapping", allowed)
    return {name: array(f"input {name!r}", value) for name, value in inputs.items()}


def names(caller: str, argument: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise argument_kind(caller, argument, value, "names", "list or tuple of str")


def whole_number(caller: str, argument: str, value: object, least: int) -> int:
    """Return `value` as an int, or raise if it is not an integer or is less than `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise argument_kind(caller, argument, value, "a number", f"int from {least}")
    return int(_in_range(caller, argument, int(value), least, float("inf")))


def tolerance(caller: str, argument: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise argument_kind(caller, argument, value, "a tolerance", "a number from 0")
    return float(_in_range(caller, argument, value, 0, sys.float_info.max))


def seconds(caller: str, argument: str, value: object) -> float:
    """Return a time limit, or raise if it is not a positive finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise argument_kind(caller, argument, value, "a time", "a positive number of seconds")
    if not 0 < value <= sys.float_info.max:
        raise ModelError(
            f"{caller}: {argument} = {value} is out of range (allowed: positive finite numbers)"
        )
    return float(value)


def _in_range(caller: str, argument: str, value: float, least: float, most: float) -> float:
    if not least <= value <= most:
        raise ModelError(
            f"{caller}: {argument} = {value} is out of range (allowed: finite numbers from {least})"
        )
    return value


def array(name: str, value: object) -> Array:
    """Return `value` as a plain NumPy array, or raise if it has a mask, a unit or nulls."""
    if type(value) is np.ndarray:
        return value
    foreign.check(name, "array", value)
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    text = f"{name} is a {type(value).__name__} object, which cannot be converted to an array"
    with converted_errors(lambda error: DTypeError(f"{text}: {reason(error)} (allowed: an array)")):
        plain = np.asarray(value)
    if dtypes.as_objects(value, plain)[1]:
        raise elements_change(name, "array", value, plain.dtype)
    return plain
