"""The methods that are compared; each imports the libraries that it needs.

A method is a function that returns the prepared call for a request.
"""

from __future__ import annotations

import atexit
import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.peers import Unsupported

from .cases import THREADS, labeled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .cases import Request

    Run = Callable[[], Any]

_ENTRY_BYTES = 16  # an entry in the index of a shard: offset and size of an inner chunk
_CHECKSUM_BYTES = 4
_WORKERS = 2
_DIMS = ("i", "j", "k")


def zarr_array(request: Request, mode: str = "r") -> Any:
    """Open the array of the request in a folder or over HTTP."""
    zarr: Any = import_module("zarr")
    if not request.url:
        return zarr.open_array(str(request.path), mode=mode)
    stores: Any = import_module("obstore.store")
    store = stores.HTTPStore.from_url(request.url, client_options={"allow_http": True})
    return zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), mode=mode)


def labeled_array(request: Request) -> tuple[Any, dict[str, Any]]:
    """Return a DataArray in memory and labels of points."""
    xarray: Any = import_module("xarray")
    array = xarray.DataArray(*labeled(), dims=("lat", "lon"))
    latitudes, longitudes = request.labels
    return array, {
        "lat": xarray.DataArray(latitudes, dims="point"),
        "lon": xarray.DataArray(longitudes, dims="point"),
    }


@cache
def cluster_client() -> Any:
    """Return the client of a cluster of two processes; it is closed at exit."""
    distributed: Any = import_module("distributed")
    cluster = distributed.LocalCluster(
        n_workers=_WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    )
    client = distributed.Client(cluster)
    atexit.register(cluster.close)
    atexit.register(client.close)
    return client


def ndgather(request: Request, _: str) -> Run:
    package: Any = import_module("ndgather")
    package.set_num_threads(THREADS)
    work = request.case.work
    if work == "labels":
        import_module("ndgather.arrays.xarray")
        array, points = labeled_array(request)
        return lambda: array.ndgather.sel(points, method="nearest").values
    indices = request.indices
    if work == "scatter":
        target, updates = zarr_array(request, "r+"), request.updates
        return lambda: package.scatter_nd(target, indices, updates, reduction="add", out=target)
    array = zarr_array(request)
    if work == "windows":
        return lambda: package.gather_windows(array, indices, request.window)
    if request.case.place == "cluster":
        pool = cluster_client().get_executor()
        return lambda: package.gather_nd(array, indices, executor=pool)
    return lambda: package.gather_nd(array, indices)


def floor(request: Request, _: str) -> Run:
    """Return a function that reads and decodes the chunks that the call touches."""
    parts = _chunk_files(request)
    codec = import_module("numcodecs").Zstd()

    def read(first: int) -> None:
        decoded = np.empty(request.chunk_bytes, np.uint8)
        for path, offset, count in parts[first::THREADS]:
            with path.open("rb", buffering=0) as file:
                codec.decode(os.pread(file.fileno(), count, offset), decoded)

    def run() -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(read, range(THREADS)))

    return run


def _chunk_files(request: Request) -> list[tuple[Path, int, int]]:
    """Return the file, the offset and the size of every chunk that the call touches."""
    root = request.path / "c"
    if request.case.store != "sharded":
        paths = [root.joinpath(*map(str, chunk)) for chunk in request.touched()]
        return [(path, 0, path.stat().st_size) for path in paths]
    per_shard = request.size.shard // request.size.inner
    shape = (per_shard,) * 3
    index_bytes = math.prod(shape) * _ENTRY_BYTES
    indexes: dict[Path, Any] = {}
    parts = []
    for chunk in request.touched():
        path = root.joinpath(*(str(number // per_shard) for number in chunk))
        if path not in indexes:
            with path.open("rb") as file:
                file.seek(-index_bytes - _CHECKSUM_BYTES, os.SEEK_END)
                entries = np.frombuffer(file.read(index_bytes), "<u8")
            indexes[path] = entries.reshape(*shape, 2)
        offset, count = indexes[path][tuple(number % per_shard for number in chunk)]
        parts.append((path, int(offset), int(count)))
    return parts


def zarr(request: Request, method: str) -> Run:
    """Return zarr's selection of points, with the default or the fused pipeline of zarr 3.4."""
    package: Any = import_module("zarr")
    if method == "zarr-fused":
        fused = "FusedCodecPipeline"
        if not hasattr(import_module("zarr.core.codec_pipeline"), fused):
            raise Unsupported(f"zarr {package.__version__} has no fused pipeline")
        package.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{fused}"})
    array = zarr_array(request)
    columns = tuple(request.indices.T)

    def windows() -> Any:
        answer = np.empty((len(request.indices), *request.window), array.dtype)
        for position, box in enumerate(request.boxes()):
            answer[position] = array[box]
        return answer

    if request.case.work == "windows":
        return windows
    if request.case.work == "rows":
        along = np.arange(request.side)
        return lambda: array.vindex[(*(column[:, None] for column in columns), along)]
    return lambda: array.vindex[columns]


def tensorstore(request: Request, _: str) -> Run:
    package: Any = import_module("tensorstore")
    kvstore: dict[str, Any] = {"driver": "file", "path": f"{request.path}/"}
    if request.url:
        kvstore = {"driver": "http", "base_url": f"{request.url}/"}
    context = package.Context({"data_copy_concurrency": {"limit": THREADS}})
    spec = {"driver": "zarr3", "kvstore": kvstore}
    array = package.open(spec, read=True, context=context).result()
    columns = tuple(request.indices.T)

    def windows() -> Any:
        """Read all windows at once, so that tensorstore can order and merge the reads."""
        answer = np.empty((len(request.indices), *request.window), np.float32)
        with package.Batch() as batch:
            reads = [array[box].read(batch=batch) for box in request.boxes()]
        for position, read in enumerate(reads):
            answer[position] = read.result()
        return answer

    if request.case.work == "windows":
        return windows
    if request.case.work == "rows":
        return lambda: array[(*columns, slice(None))].read().result()
    return lambda: array.vindex[columns].read().result()


def dask(request: Request, _: str) -> Run:
    """Return dask's vindex, graph and computation, on two threads or on the cluster."""
    package: Any = import_module("dask.array")
    if request.case.place == "cluster":
        cluster_client()  # dask uses the latest client
    else:
        import_module("dask").config.set(scheduler="threads", num_workers=THREADS)
    array = package.from_zarr(str(request.path))
    columns: tuple[Any, ...] = tuple(request.indices.T)
    if request.case.work == "windows":
        return lambda: package.stack([array[box] for box in request.boxes()]).compute()
    if request.case.work == "rows":
        columns = (*columns, slice(None))

    def select() -> Any:
        """Create the graph and compute it, because both are part of the call."""
        return array.vindex[columns].compute()

    return select


def xarray(request: Request, _: str) -> Run:
    """Return a selection from a lazy array, or a selection by labels from an array in memory."""
    package: Any = import_module("xarray")
    if request.case.work == "labels":
        array, points = labeled_array(request)
        return lambda: array.sel(points, method="nearest").values
    wrapper: Any = import_module("xarray.backends.zarr").ZarrArrayWrapper
    lazy = import_module("xarray.core.indexing").LazilyIndexedArray(wrapper(zarr_array(request)))
    array = package.Variable(_DIMS, lazy)
    columns = (package.Variable("point", column) for column in request.indices.T)
    points = dict(zip(_DIMS, columns, strict=True))
    return lambda: array.isel(points).values


def loop(request: Request, _: str) -> Run:
    """Return a plain loop over chunks with ``np.add.at`` for the sorted points of each chunk."""
    array = zarr_array(request, "r+")
    side = request.grid
    per_axis = request.side // side

    def run() -> None:
        chunk = np.ravel_multi_index(tuple((request.indices // side).T), (per_axis,) * 3)
        order = np.argsort(chunk, kind="stable")
        points, updates, chunk = request.indices[order], request.updates[order], chunk[order]
        cuts = np.flatnonzero(np.diff(chunk, prepend=-1, append=per_axis**3))
        for first, end in pairwise(cuts.tolist()):
            corner = points[first] // side * side
            where = tuple(slice(low, low + side) for low in corner.tolist())
            block = array[where]
            np.add.at(block, tuple((points[first:end] - corner).T), updates[first:end])
            array[where] = block

    return run


_METHODS = {
    function.__name__: function
    for function in (floor, ndgather, zarr, tensorstore, dask, xarray, loop)
}


def prepared(request: Request, method: str) -> Run:
    """Return the call of a method; "zarr-fused" is `zarr` with another pipeline."""
    return _METHODS[method.partition("-")[0]](request, method)
