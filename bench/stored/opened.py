"""The arrays of the cases as the libraries open them, and the cluster that works on them."""

from __future__ import annotations

import atexit
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .request import coordinates, labelled

if TYPE_CHECKING:
    from .request import Request

_WORKERS = 2


def zarr_array(request: Request, mode: str = "r") -> Any:
    """Return the array of the request, from a folder or over HTTP."""
    zarr: Any = import_module("zarr")
    if not request.url:
        return zarr.open_array(str(request.path), mode=mode)
    stores: Any = import_module("obstore.store")
    store = stores.HTTPStore.from_url(request.url, client_options={"allow_http": True})
    return zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), mode=mode)


def labelled_array(request: Request) -> tuple[Any, dict[str, Any]]:
    """Return a DataArray in memory and the labels of points in it."""
    xarray: Any = import_module("xarray")
    array = xarray.DataArray(labelled(), coordinates(), dims=("lat", "lon"))
    latitudes, longitudes = request.labels
    return array, {
        "lat": xarray.DataArray(latitudes, dims="point"),
        "lon": xarray.DataArray(longitudes, dims="point"),
    }


@cache
def cluster_client() -> Any:
    """Return the client of a cluster of two processes on this machine, which ends with us."""
    distributed: Any = import_module("distributed")
    cluster = distributed.LocalCluster(
        n_workers=_WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    )
    client = distributed.Client(cluster)
    atexit.register(cluster.close)
    atexit.register(client.close)
    return client
