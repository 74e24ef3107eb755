"""The arguments of selections, checked and brought into one form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray

from ndgather import call_options
from ndgather.array_call import Call
from ndgather.arrays.xarray.lazy_arrays import Options
from ndgather.errors import option_errors, selection_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

METHODS = ("nearest", "pad", "backfill", "linear")
_OTHER_NAMES = {"ffill": "pad", "bfill": "backfill"}  # that xarray and pandas have too


def one_dict(
    caller: str, first: Mapping[Hashable, Any] | None, second: dict[str, Any]
) -> dict[Hashable, Any]:
    """Return what is selected by, whether given by one dict or by name."""
    if first is not None and not hasattr(first, "items"):
        raise selection_errors.not_a_dict(caller, "indexers", first)
    both = next((name for name in first or () if name in second), None)
    if both is not None:
        raise selection_errors.given_twice(caller, both)
    return {name: _named(each) for name, each in (dict(first or {}) | second).items()}


def _named(given: Any) -> Any:
    """Return dimensions and data in a tuple as the variable that xarray makes of them."""
    if not isinstance(given, tuple) or len(given) < 2:
        return given
    try:
        return xarray.Variable(*given)
    except (TypeError, ValueError):
        return given  # a label of several levels


def as_array(caller: str, name: Hashable, given: Any) -> NDArray[Any]:
    """Return labels or positions as an array; one of several axes has to name them."""
    try:
        array = given.to_numpy() if isinstance(given, pd.Index) else np.asarray(given)
    except (TypeError, ValueError) as error:
        raise selection_errors.no_array_of_labels(caller, name, given) from error
    if array.ndim > 1 and not isinstance(given, xarray.DataArray | xarray.Variable):
        raise selection_errors.unnamed_axes(caller, name, array.shape)
    return array


def method(caller: str, given: Any, allowed: tuple[str, ...] = METHODS) -> str | None:
    """Return the name of a method of looking up labels; None for labels as they are."""
    if given is None:
        return None
    name = _OTHER_NAMES.get(given, given) if isinstance(given, str) else given
    return choice(caller, "method", name, allowed)


def choice(caller: str, option: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise option_errors.unknown_choice(caller, option, value, allowed)
    return value


def periods(caller: str, given: Any) -> Mapping[Hashable, Any]:
    """Return the periods of axes by name."""
    if given is not None and not hasattr(given, "items"):
        raise selection_errors.not_a_dict(caller, "period", given)
    return given or {}


def options(caller: str, memory: Any, progress: Any, executor: Any) -> Options:
    """Return the options of calls on stored arrays."""
    call = Call(caller, "gather_nd", None, None)
    call = call_options.checked(replace(call, memory=memory, progress=progress, executor=executor))
    return Options(caller, call.memory, call.progress, call.executor)
