"""OpenCV: `remap` with the nearest pixel, whose maps are pairs of int16 or of float32."""

from __future__ import annotations

from importlib import import_module
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from . import Call, Idioms, Unsupported

if TYPE_CHECKING:
    from bench.case import Arrays, Case

_cv2: Any = import_module("cv2")
_DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64")
_LONGEST_SIDE = 32766  # pixel coordinates have 16 bits


set_threads = _cv2.setNumThreads


def prepare(case: Case, threads: int) -> Idioms:
    sides = case.data_shape[:2]
    channels = case.data_shape[2:]
    is_image = case.operator == "gather_nd" and case.index_shape[-1] == 2 and not case.batch_dims
    if not is_image or len(channels) > 1 or prod(channels) > 4 or max(sides) > _LONGEST_SIDE:
        raise Unsupported("remap reads pixels of one to four channels from a small image")
    if case.dtype not in _DTYPES or case.layout != "C":
        raise Unsupported(f"no image of {case.dtype} in this layout")
    set_threads(threads)
    return {"remap by int16": _remap_int16, "remap by float32": _remap_float32}


def _map_shape(case: Case) -> tuple[int, int]:
    """Return the shape of an image with a pixel per index tuple, both sizes below the limit."""
    count = prod(case.index_shape[:-1])
    return next((count // side, side) for side in range(isqrt(count), 0, -1) if count % side == 0)


def _remap_int16(case: Case, arrays: Arrays) -> Call:
    maps = arrays.indices.reshape(*_map_shape(case), 2)[..., ::-1]
    return _remap(case, arrays, np.ascontiguousarray(maps, np.int16), None)


def _remap_float32(case: Case, arrays: Arrays) -> Call:
    y, x = np.moveaxis(arrays.indices, -1, 0).reshape(2, *_map_shape(case)).astype(np.float32)
    return _remap(case, arrays, x, y)


def _remap(case: Case, arrays: Arrays, first: Any, second: Any) -> Call:
    out = None
    if arrays.out is not None:
        out = arrays.out.reshape(*_map_shape(case), *case.data_shape[2:])
    nearest = _cv2.INTER_NEAREST
    return Call(
        run=lambda: _cv2.remap(arrays.data, first, second, nearest, dst=out),
        answer=lambda answer: np.asarray(answer).reshape(case.gathered_shape),
    )
