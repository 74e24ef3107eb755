"""The cases of torch: eager calls on a CPU, tensors made before; columns of indices as well."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

import ndgather

from .case import Case, Function


def _made(shape: tuple[int, ...], count: int, depth: int) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return data, index tuples, and what torch takes in their stead."""
    rng = np.random.default_rng(0)
    data = torch.from_numpy(rng.random(shape, dtype=np.float32))
    columns = [torch.from_numpy(rng.integers(0, size, count)) for size in shape[:depth]]
    return data, torch.stack(columns, -1), tuple(columns)


def _forward(
    shape: tuple[int, ...], count: int, depth: int, *, gradient: bool = False
) -> tuple[Function, Function]:
    data, indices, columns = _made(shape, count, depth)
    data.requires_grad_(gradient)
    return partial(ndgather.gather_nd, data, indices), lambda: data[columns]


def _backward(rows: int, width: int) -> tuple[Function, Function]:
    data, indices, columns = _made((rows, width), rows, 1)
    data.requires_grad_(True)
    weights = torch.rand(rows, width)

    def ours() -> Any:
        return torch.autograd.grad(ndgather.gather_nd(data, indices), data, weights)[0]

    def native() -> Any:
        return torch.autograd.grad(data[columns], data, weights)[0]

    return ours, native


def _array(tensor: Any) -> Any:
    return tensor.detach().numpy()


CASES = (
    Case(
        name="tiny",
        why="the cost of a call: 2 points",
        limit=0.5,
        microseconds=1.3,
        functions=partial(_forward, (8, 4), 2, 2),
        array=_array,
    ),
    Case(
        name="tiny-gradient",
        why="the cost of a call that autograd records, forward alone",
        microseconds=8,
        functions=partial(_forward, (8, 4), 2, 2, gradient=True),
        array=_array,
    ),
    Case(
        name="points-1e4",
        why="particles on a grid",
        limit=0.4,
        functions=partial(_forward, (1000, 1000), 10_000, 2),
        array=_array,
    ),
    Case(
        name="points-1e6",
        why="pixels of an image that is warped",
        limit=0.4,
        functions=partial(_forward, (1000, 1000), 1_000_000, 2),
        array=_array,
    ),
    Case(
        name="rows-1e5-of-64",
        why="embeddings of tokens",
        limit=0.3,
        functions=partial(_forward, (100_000, 64), 100_000, 1),
        array=_array,
    ),
    Case(
        name="gradient-1e5-of-16",
        why="the gradient of an embedding, forward and backward",
        limit=0.3,
        functions=partial(_backward, 100_000, 16),
        array=_array,
    ),
)
