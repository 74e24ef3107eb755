"""The cases of JAX: jitted functions on a CPU, arrays made before."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ndgather

from .case import Case, Function


def _pair(ours: Any, native: Any, *arrays: Any) -> tuple[Function, Function]:
    given = [jnp.asarray(each) for each in arrays]

    def waiting(function: Any) -> Function:
        jitted = jax.jit(function)
        return lambda: jitted(*given).block_until_ready()

    return waiting(ours), waiting(native)


def _points(shape: tuple[int, ...], count: int, depth: int) -> tuple[Function, Function]:
    rng = np.random.default_rng(0)
    data = rng.random(shape, dtype=np.float32)
    columns = [rng.integers(0, size, count, dtype=np.int32) for size in shape[:depth]]
    indices = np.stack(columns, axis=-1)

    def native(x: Any, i: Any) -> Any:
        return x[tuple(i[:, d] for d in range(depth))]

    return _pair(ndgather.gather_nd, native, data, indices)


def _gradient(rows: int, width: int) -> tuple[Function, Function]:
    rng = np.random.default_rng(0)
    data = rng.random((rows, width), dtype=np.float32)
    indices = rng.integers(0, rows, (rows, 1), dtype=np.int32)

    def ours(x: Any, i: Any) -> Any:
        return jax.grad(lambda x: (ndgather.gather_nd(x, i) ** 2).sum())(x)

    def native(x: Any, i: Any) -> Any:
        return jax.grad(lambda x: (x[i[:, 0]] ** 2).sum())(x)

    return _pair(ours, native, data, indices)


def _added(count: int, width: int) -> tuple[Function, Function]:
    rng = np.random.default_rng(0)
    data = np.zeros((count, width), np.float32)
    indices = rng.integers(0, count, (count, 1), dtype=np.int32)
    updates = rng.random((count, width), dtype=np.float32)
    ours = partial(ndgather.scatter_nd, reduction="add")
    return _pair(ours, lambda x, i, u: x.at[i[:, 0]].add(u), data, indices, updates)


CASES = (
    Case(
        name="tiny",
        why="the cost of a call: 2 points",
        limit=1.5,
        functions=partial(_points, (8, 4), 2, 2),
    ),
    Case(
        name="points-1e4",
        why="particles on a grid",
        limit=0.5,
        functions=partial(_points, (1000, 1000), 10_000, 2),
    ),
    Case(
        name="points-1e6",
        why="pixels of an image that is warped",
        limit=1.3,
        functions=partial(_points, (1000, 1000), 1_000_000, 2),
    ),
    Case(
        name="points-1e6-of-3",
        why="voxels of a volume",
        limit=1.3,
        functions=partial(_points, (100, 100, 100), 1_000_000, 3),
    ),
    Case(
        name="rows-1e5-of-64",
        why="embeddings of tokens",
        limit=0.5,
        functions=partial(_points, (100_000, 64), 100_000, 1),
    ),
    Case(
        name="gradient-1e5-of-16",
        why="the gradient of an embedding, forward and backward",
        limit=1.0,
        functions=partial(_gradient, 100_000, 16),
    ),
    Case(
        name="add-1e5-of-16",
        why="messages to the nodes of a graph",
        limit=1.0,
        functions=partial(_added, 100_000, 16),
    ),
)
