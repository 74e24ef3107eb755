"""tensorstore's vectorized indexing, on as many threads as the others."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request

_tensorstore: Any = import_module("tensorstore")

_LIMITS = {"data_copy_concurrency": {"limit": 2}}


def prepare(request: Request, method: str) -> Callable[[], Any]:
    del method
    kvstore: dict[str, Any] = {"driver": "file", "path": f"{request.path}/"}
    if request.url:
        kvstore = {"driver": "http", "base_url": f"{request.url}/"}
    spec = {"driver": "zarr3", "kvstore": kvstore}
    array = _tensorstore.open(spec, read=True, context=_tensorstore.Context(_LIMITS)).result()
    columns = tuple(request.indices.T)
    if request.case.work == "windows":
        return lambda: _windows(array, request)
    if request.case.work == "rows":
        return lambda: array[(*columns, slice(None))].read().result()
    return lambda: array.vindex[columns].read().result()


def _windows(array: Any, request: Request) -> Any:
    """Read all windows at once, so that tensorstore may order and merge the reads."""
    answer = np.empty((len(request.indices), *request.window), np.float32)
    with _tensorstore.Batch() as batch:
        reads = [
            array[
                tuple(
                    slice(low, low + width)
                    for low, width in zip(start, request.window, strict=True)
                )
            ].read(batch=batch)
            for start in request.indices.tolist()
        ]
    for position, read in enumerate(reads):
        answer[position] = read.result()
    return answer
