"""FBGEMM's CPU operators for rows: `index_select_dim0` and `batch_index_select_dim0`."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from . import Call, Idioms, Unsupported, is_take, slice_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.case import Arrays, Case

_torch: Any = import_module("torch")
import_module("fbgemm_gpu")
_DTYPES = ("float32", "float64", "float16")

set_threads = _torch.set_num_threads


def prepare(case: Case, threads: int) -> Idioms:
    is_rows = is_take(case) and not case.is_scatter and case.indexed_axes.start == 0
    if not is_rows or case.layout != "C" or case.output != "new" or case.dtype not in _DTYPES:
        raise Unsupported("only whole rows of floating-point numbers, into a new array")
    set_threads(threads)
    return {"index_select_dim0": _select, "batch_index_select_dim0": _select_of_batch}


def _select(case: Case, arrays: Arrays) -> Call:
    rows = _torch.from_numpy(arrays.data)
    return _call(case, partial(_torch.ops.fbgemm.index_select_dim0, rows, _index(arrays)))


def _select_of_batch(case: Case, arrays: Arrays) -> Call:
    flat, index = _torch.from_numpy(arrays.data.reshape(-1)), _index(arrays)
    sizes = ([index.numel()], [case.data_shape[0]], [prod(slice_shape(case))])
    return _call(case, partial(_torch.ops.fbgemm.batch_index_select_dim0, flat, index, *sizes))


def _index(arrays: Arrays) -> Any:
    return _torch.from_numpy(arrays.indices.astype(np.int64, copy=False)).reshape(-1)


def _call(case: Case, run: Callable[[], Any]) -> Call:
    return Call(run=run, answer=lambda answer: answer.numpy().reshape(case.gathered_shape))
