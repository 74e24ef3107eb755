"""zarr's own point selection, by its default pipeline and by the fused one of zarr 3.4."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.peer import Unsupported

from . import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request

_zarr: Any = import_module("zarr")

_FUSED = "FusedCodecPipeline"


def prepare(request: Request, method: str) -> Callable[[], Any]:
    if method == "zarr-fused":
        if not hasattr(import_module("zarr.core.codec_pipeline"), _FUSED):
            raise Unsupported(f"zarr {_zarr.__version__} has no fused pipeline")
        _zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{_FUSED}"})
    array = opened.zarr_array(request)
    columns = tuple(request.indices.T)
    if request.case.work == "windows":
        return lambda: _windows(array, request)
    if request.case.work == "rows":
        along = np.arange(request.side)
        return lambda: array.vindex[(*(column[:, None] for column in columns), along)]
    return lambda: array.vindex[columns]


def _windows(array: Any, request: Request) -> Any:
    answer = np.empty((len(request.indices), *request.window), array.dtype)
    for position, start in enumerate(request.indices.tolist()):
        answer[position] = array[
            tuple(slice(low, low + width) for low, width in zip(start, request.window, strict=True))
        ]
    return answer
