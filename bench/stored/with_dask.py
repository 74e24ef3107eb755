"""dask's vindex: on two threads, or on the processes of a cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request

_dask: Any = import_module("dask")
_array: Any = import_module("dask.array")

_THREADS = 2


def prepare(request: Request, method: str) -> Callable[[], Any]:
    del method
    if request.case.place == "cluster":
        opened.cluster_client()  # which computes from now on
    else:
        _dask.config.set(scheduler="threads", num_workers=_THREADS)
    array = _array.from_zarr(str(request.path))
    columns: tuple[Any, ...] = tuple(request.indices.T)
    if request.case.work == "windows":
        return lambda: _windows(array, request)
    if request.case.work == "rows":
        columns = (*columns, slice(None))

    def select() -> Any:
        """Build the graph and compute it: both are the price of the answer."""
        return array.vindex[columns].compute()

    return select


def _windows(array: Any, request: Request) -> Any:
    boxes = (
        tuple(slice(low, low + width) for low, width in zip(start, request.window, strict=True))
        for start in request.indices.tolist()
    )
    return _array.stack([array[box] for box in boxes]).compute()
