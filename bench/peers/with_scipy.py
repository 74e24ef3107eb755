"""SciPy: `ndimage.map_coordinates` of order 0, with float64 coordinates, on one thread."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from . import Call, Idioms, Unsupported, is_pointwise

if TYPE_CHECKING:
    from bench.case import Arrays, Case

_ndimage: Any = import_module("scipy.ndimage")


def prepare(case: Case, threads: int) -> Idioms:
    del threads
    if not is_pointwise(case) or np.dtype(case.dtype).kind not in "iufc":
        raise Unsupported("map_coordinates reads single numbers at whole tuples")
    return {"map_coordinates": _map}


def _map(case: Case, arrays: Arrays) -> Call:
    coordinates = np.moveaxis(arrays.indices, -1, 0).astype(np.float64)
    sample = partial(_ndimage.map_coordinates, arrays.data, coordinates, order=0, prefilter=False)
    return Call(run=sample if arrays.out is None else partial(sample, output=arrays.out))
