"""What a caller passes to the functions of models, checked where it comes in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ndgather.errors import DTypeError, ModelError, run_errors
from ndgather.errors.texts import reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

T = TypeVar("T")

FilePath: TypeAlias = str | os.PathLike[str]
Content: TypeAlias = bytes | bytearray | memoryview


def instance(caller: str, argument: str, value: object, kind: type[T], what: str) -> T:
    """Return `value`, which has to be an instance of `kind`; a bool is not an integer."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise run_errors.argument_kind(caller, argument, value, what, kind.__name__)
    return value


def file_path(caller: str, argument: str, value: object) -> Path:
    """Return the path that `value` is."""
    try:
        return Path(value)  # type: ignore[arg-type]  # what is none is refused
    except Exception as error:
        raise run_errors.argument_kind(
            caller, argument, value, "a path", "str, os.PathLike"
        ) from error


def named_arrays(caller: str, inputs: object) -> dict[str, Array]:
    """Return inputs of a model by their names, each of them an array."""
    if not isinstance(inputs, Mapping):
        allowed = "arrays by the names of the inputs"
        raise run_errors.argument_kind(caller, "inputs", inputs, "a mapping", allowed)
    return {name: array(f"input {name!r}", value) for name, value in inputs.items()}


def sequence(caller: str, argument: str, value: object) -> Sequence[object]:
    """Return arrays that are given in an order."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise run_errors.argument_kind(
            caller, argument, value, "a sequence", "list or tuple of arrays"
        )
    return value


def names(caller: str, argument: str, value: object) -> tuple[str, ...]:
    """Return names that are given in an order."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise run_errors.argument_kind(caller, argument, value, "names", "list or tuple of str")


def whole_number(caller: str, argument: str, value: object, least: int) -> int:
    """Return a number that is an integer of NumPy or of Python, and not below `least`."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if value < least:
            raise ModelError(
                f"{caller}: {argument} = {value} is out of range (allowed: finite numbers from "
                f"{least})"
            )
        return int(value)
    raise run_errors.argument_kind(caller, argument, value, "a number", f"int from {least}")


def tolerance(caller: str, argument: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= sys.float_info.max:
            raise ModelError(
                f"{caller}: {argument} = {value} is out of range (allowed: finite numbers from {0})"
            )
        return float(value)
    raise run_errors.argument_kind(caller, argument, value, "a tolerance", "a number from 0")


def array(name: str, value: object) -> Array:
    """Return `value` as an array; an array stays what it is."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # other libraries refuse in their own ways
        raise DTypeError(
            f"{name} is a {type(value).__name__} object, which gives no array: {reason(error)} "
            f"(allowed: an array)"
        ) from error
