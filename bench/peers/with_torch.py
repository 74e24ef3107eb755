"""PyTorch: gather, index_select, advanced indexing, and scatters in place or on a clone."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from math import prod
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from . import (
    Bind,
    Call,
    Idioms,
    Unsupported,
    advanced_index,
    has_advanced_index,
    is_take,
    slice_shape,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.case import Array, Arrays, Case

_REDUCE = {"mul": "prod", "min": "amin", "max": "amax"}

_torch: Any = import_module("torch")
_torch.inference_mode().__enter__()  # no call pays for gradients


set_threads = _torch.set_num_threads


def prepare(case: Case, threads: int) -> Idioms:
    set_threads(threads)
    if case.operator == "gather_elements":
        return {"gather": _gather}
    if case.operator == "scatter_elements":
        return {"scatter": _scatter_elements}
    if case.operator == "scatter_nd" and case.reduction not in ("none", "add"):
        raise Unsupported(f"index_put_ has no {case.reduction}")
    if case.operator == "scatter_nd":
        return {"index_put_": _index_put, "linear positions": _scatter_linear}
    idioms: dict[str, Bind] = {}
    if is_take(case):
        idioms["index_select"] = _index_select
    if has_advanced_index(case):
        idioms["index"] = _fancy
        if case.layout == "C":
            idioms["index_select of linear positions"] = _select_linear
    return idioms


def _index(indices: Array) -> Any:
    """Return `indices` as int64, which most of these functions require."""
    return _torch.from_numpy(indices.astype(np.int64, copy=False))


def _key(case: Case, indices: Array) -> tuple[Any, ...]:
    return tuple(_index(column) for column in advanced_index(case, indices))


def _gather(case: Case, arrays: Arrays) -> Call:
    data, index = _torch.from_numpy(arrays.data), _index(arrays.indices)
    if arrays.out is None:
        return Call(run=partial(_torch.gather, data, case.axis, index))
    out = _torch.from_numpy(arrays.out)
    return Call(run=partial(_torch.gather, data, case.axis, index, out=out))


def _fancy(case: Case, arrays: Arrays) -> Call:
    data, key = _torch.from_numpy(arrays.data), _key(case, arrays.indices)
    if arrays.out is None:
        return Call(run=partial(getitem, data, key))
    out = _torch.from_numpy(arrays.out)
    return Call(run=lambda: out.copy_(data[key]))


def _selected(case: Case, arrays: Arrays, data: Any, axis: int, index: Callable[[], Any]) -> Call:
    shape = case.gathered_shape
    if arrays.out is None:
        return Call(run=lambda: _torch.index_select(data, axis, index()).view(shape))
    out = _torch.from_numpy(arrays.out).view(*data.shape[:axis], -1, *data.shape[axis + 1 :])
    return Call(
        run=lambda: _torch.index_select(data, axis, index(), out=out),
        answer=lambda answer: np.asarray(answer).reshape(shape),
    )


def _index_select(case: Case, arrays: Arrays) -> Call:
    data, axis = _torch.from_numpy(arrays.data), case.indexed_axes.start
    index = _index(arrays.indices).reshape(-1)
    if arrays.out is None and (*data.shape[:axis], *index.shape) == case.gathered_shape[: axis + 1]:
        return Call(run=partial(_torch.index_select, data, axis, index))
    return _selected(case, arrays, data, axis, lambda: index)


def _select_linear(case: Case, arrays: Arrays) -> Call:
    data = _torch.from_numpy(arrays.data.reshape(-1, *slice_shape(case)))
    return _selected(case, arrays, data, 0, _linear_positions(case, arrays))


def _linear_positions(case: Case, arrays: Arrays) -> Callable[[], Any]:
    """Return a function that computes flat indices along the axes of the key."""
    key = _key(case, arrays.indices)
    steps = [prod(case.data_shape[axis + 1 : len(key)]) for axis in range(len(key))]

    def positions() -> Any:
        total = key[-1]
        for column, step in zip(key[:-1], steps[:-1], strict=True):
            total = _torch.add(total, column, alpha=step)
        return total.reshape(-1)

    return positions


def _target(case: Case, arrays: Arrays) -> Callable[[], Any]:
    data = _torch.from_numpy(arrays.data)
    return (lambda: data) if case.output == "data" else data.clone


def _scatter_elements(case: Case, arrays: Arrays) -> Call:
    index, updates = _index(arrays.indices), _torch.from_numpy(arrays.updates)
    target, axis = _target(case, arrays), case.axis
    if case.reduction == "none":
        return Call(run=lambda: target().scatter_(axis, index, updates))
    if case.reduction == "add":
        return Call(run=lambda: target().scatter_add_(axis, index, updates))
    reduce = _REDUCE[case.reduction]
    return Call(run=lambda: target().scatter_reduce_(axis, index, updates, reduce))


def _index_put(case: Case, arrays: Arrays) -> Call:
    key, updates = _key(case, arrays.indices), _torch.from_numpy(arrays.updates)
    target, add = _target(case, arrays), case.reduction == "add"
    return Call(run=lambda: target().index_put_(key, updates, accumulate=add))


def _scatter_linear(case: Case, arrays: Arrays) -> Call:
    assert arrays.updates is not None
    positions, target = _linear_positions(case, arrays), _target(case, arrays)
    tail = slice_shape(case)
    updates = _torch.from_numpy(arrays.updates.reshape(-1, *tail))

    def run() -> Any:
        result = target()
        flat = result.view(-1, *tail)
        if case.reduction == "none":
            flat.index_copy_(0, positions(), updates)
        elif tail:
            flat.index_add_(0, positions(), updates)
        else:
            flat.scatter_add_(0, positions(), updates)
        return result

    return Call(run=run)
