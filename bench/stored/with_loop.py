"""A plain loop over chunks: the points of each by one sort, added with ``np.add.at``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from . import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Request


def prepare(request: Request, method: str) -> Callable[[], Any]:
    del method
    array = opened.zarr_array(request, "r+")
    return lambda: _add(array, request)


def _add(array: Any, request: Request) -> None:
    side = request.grid
    per_axis = request.side // side
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
