"""``.ndgather`` of DataArrays and Datasets: selection by many labels at once, and its reverse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import xarray

from ndgather import call_options
from ndgather.array_call import Call
from ndgather.arrays.xarray import linear, pointwise, selection
from ndgather.arrays.xarray.label_lookup import METHODS
from ndgather.arrays.xarray.lazy_arrays import Options
from ndgather.errors import label_errors, option_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

T = TypeVar("T", xarray.DataArray, xarray.Dataset)
Method = Literal["nearest", "pad", "backfill", "linear"] | None

_ARRAY = "<the array>"  # the name of a DataArray in a Dataset made of it


class Accessor(Generic[T]):
    """Gathers by labels and positions; the methods of ``.ndgather``."""

    def __init__(self, data: T) -> None:
        self._data: T = data

    def sel(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        method: Method = None,
        tolerance: Any = None,
        missing: Literal["raise", "nan"] = "raise",
        period: Mapping[Hashable, Any] | None = None,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **labels: Any,
    ) -> T:
        caller = "sel"
        wanted = _one_dict(caller, indexers, labels)
        if method is not None:
            _choice(caller, "method", method, METHODS)
        _choice(caller, "missing", missing, ("raise", "nan"))
        if method == "linear" and tolerance is not None:
            raise label_errors.tolerance_unused(caller)
        request = selection.Request(
            caller=caller, method=method, tolerance=tolerance, missing=missing, period=period
        )
        options = _options(caller, memory, progress, executor)
        if method == "linear":
            return self._like(linear.interpolate(self._numeric(caller), wanted, request, options))
        data, positions = selection.positions(_dataset(self._data), wanted, request)
        return self._like(pointwise.select(data, positions, options))

    def isel(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **positions: Any,
    ) -> T:
        caller = "isel"
        wanted = _one_dict(caller, indexers, positions)
        data = _dataset(self._data)
        for name in wanted:
            if name not in data.sizes:
                raise label_errors.unknown_name(caller, name, data.sizes)
        checked = {
            name: selection.checked_positions(caller, name, each, data.sizes[name])
            for name, each in wanted.items()
        }
        options = _options(caller, memory, progress, executor)
        return self._like(pointwise.select(data, checked, options))

    def _numeric(self, caller: str) -> xarray.Dataset:
        own: Any = self._data
        if isinstance(own, xarray.DataArray) and own.dtype.kind not in "uifc":
            raise label_errors.values_not_interpolated(caller, own.dtype)
        return _dataset(own)

    def _like(self, data: xarray.Dataset) -> T:
        own: Any = self._data
        made: Any = data if isinstance(own, xarray.Dataset) else data[_ARRAY].rename(own.name)
        return made  # type: ignore[no-any-return]  # of the type of self._data


def _dataset(data: xarray.DataArray | xarray.Dataset) -> xarray.Dataset:
    if isinstance(data, xarray.Dataset):
        return data
    return xarray.Dataset({_ARRAY: data.variable}, coords=data.coords)


def _one_dict(
    caller: str, first: Mapping[Hashable, Any] | None, second: dict[str, Any]
) -> dict[Hashable, Any]:
    if first is not None and not hasattr(first, "items"):
        raise label_errors.not_a_dict(caller, first)
    both = next((name for name in first or () if name in second), None)
    if both is not None:
        raise label_errors.given_twice(caller, both)
    wanted: dict[Hashable, Any] = dict(first or {})
    wanted.update(second)
    return wanted


def _options(caller: str, memory: Any, progress: Any, executor: Any) -> Options:
    call = Call(caller, "gather_nd", None, None)
    call = call_options.checked(replace(call, memory=memory, progress=progress, executor=executor))
    return Options(caller, call.memory, call.progress, call.executor)


def _choice(caller: str, option: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise option_errors.unknown_choice(caller, option, value, choices)
