"""xarray: lazy arrays from zarr, and labels of arrays in memory."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request

_xarray: Any = import_module("xarray")

_DIMS = ("i", "j", "k")


def prepare(request: Request, method: str) -> Callable[[], Any]:
    del method
    if request.case.work == "labels":
        array, points = opened.labelled_array(request)
        return lambda: array.sel(points, method="nearest").values
    indexing: Any = import_module("xarray.core.indexing")
    wrapper: Any = import_module("xarray.backends.zarr").ZarrArrayWrapper
    lazy = indexing.LazilyIndexedArray(wrapper(opened.zarr_array(request)))
    array = _xarray.Variable(_DIMS, lazy)
    points = {
        dim: _xarray.Variable("point", column)
        for dim, column in zip(_DIMS, request.indices.T, strict=True)
    }
    return lambda: array.isel(points).values
