"""Our own package, through its public functions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request

_ndgather: Any = import_module("ndgather")

_THREADS = 2


def prepare(request: Request, method: str) -> Callable[[], Any]:
    del method
    _ndgather.set_num_threads(_THREADS)
    work = request.case.work
    if work == "labels":
        import_module("ndgather.arrays.xarray")
        array, points = opened.labelled_array(request)
        return lambda: array.ndgather.sel(points, method="nearest").values
    indices = request.indices
    if work == "scatter":
        target, updates = opened.zarr_array(request, "r+"), request.updates
        return lambda: _ndgather.scatter_nd(target, indices, updates, reduction="add", out=target)
    array = opened.zarr_array(request)
    if work == "windows":
        return lambda: _ndgather.gather_windows(array, indices, request.window)
    if request.case.place == "cluster":
        pool = opened.cluster_client().get_executor()
        return lambda: _ndgather.gather_nd(array, indices, executor=pool)
    return lambda: _ndgather.gather_nd(array, indices)
