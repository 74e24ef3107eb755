"""The cases: a call of ndgather on arrays of a library, and the library's own way to its result.

Both run eagerly in torch, and jitted in JAX, on a CPU. Arrays and indices are made beforehand, for
torch as separate columns too, which it takes fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import ndgather

Function = Callable[[], Any]
Pair = tuple[Function, Function]
"""The call of ndgather and that of the library; both wait until the result is there."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    name: str
    why: str
    functions: Callable[[], Pair]


def to_numpy(array: Any) -> Any:
    return array.detach().numpy() if hasattr(array, "detach") else np.asarray(array)


# torch -----------------------------------------------------------------------------------------


def _torch_arrays(shape: tuple[int, ...], count: int, depth: int) -> tuple[Any, ...]:
    """Return data, index tuples, and their columns."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(0)
    data = torch.from_numpy(rng.random(shape, dtype=np.float32))
    columns = [torch.from_numpy(rng.integers(0, size, count)) for size in shape[:depth]]
    return data, torch.stack(columns, -1), tuple(columns)


def _torch_points(
    shape: tuple[int, ...], count: int, depth: int, *, gradient: bool = False
) -> Pair:
    data, indices, columns = _torch_arrays(shape, count, depth)
    data.requires_grad_(gradient)
    return partial(ndgather.gather_nd, data, indices), lambda: data[columns]


def _torch_gradient(rows: int, width: int) -> Pair:
    torch: Any = import_module("torch")
    data, indices, columns = _torch_arrays((rows, width), rows, 1)
    data.requires_grad_(True)
    weights = torch.rand(rows, width)

    def gradient(gathered: Any) -> Any:
        return torch.autograd.grad(gathered, data, weights)[0]

    return (
        lambda: gradient(ndgather.gather_nd(data, indices)),
        lambda: gradient(data[columns]),
    )


# JAX -------------------------------------------------------------------------------------------


def _jitted(ours: Any, native: Any, *arrays: Any) -> Pair:
    jax: Any = import_module("jax")
    arguments = [jax.numpy.asarray(array) for array in arrays]

    def waiting(function: Any) -> Function:
        jitted = jax.jit(function)
        return lambda: jitted(*arguments).block_until_ready()

    return waiting(ours), waiting(native)


def _jax_points(shape: tuple[int, ...], count: int, depth: int) -> Pair:
    rng = np.random.default_rng(0)
    data = rng.random(shape, dtype=np.float32)
    columns = [rng.integers(0, size, count, dtype=np.int32) for size in shape[:depth]]

    def native(x: Any, i: Any) -> Any:
        return x[tuple(i[:, axis] for axis in range(depth))]

    return _jitted(ndgather.gather_nd, native, data, np.stack(columns, axis=-1))


def _jax_gradient(rows: int, width: int) -> Pair:
    jax: Any = import_module("jax")
    rng = np.random.default_rng(0)
    data = rng.random((rows, width), dtype=np.float32)
    indices = rng.integers(0, rows, (rows, 1), dtype=np.int32)

    def ours(x: Any, i: Any) -> Any:
        return jax.grad(lambda x: (ndgather.gather_nd(x, i) ** 2).sum())(x)

    def native(x: Any, i: Any) -> Any:
        return jax.grad(lambda x: (x[i[:, 0]] ** 2).sum())(x)

    return _jitted(ours, native, data, indices)


def _jax_add(count: int, width: int) -> Pair:
    rng = np.random.default_rng(0)
    data = np.zeros((count, width), np.float32)
    indices = rng.integers(0, count, (count, 1), dtype=np.int32)
    updates = rng.random((count, width), dtype=np.float32)
    ours = partial(ndgather.scatter_nd, reduction="add")
    return _jitted(ours, lambda x, i, u: x.at[i[:, 0]].add(u), data, indices, updates)


# the table -------------------------------------------------------------------------------------

_GRADIENT = ("gradient-1e5-of-16", "the gradient of an embedding, forward and backward")


def _points(points: Callable[..., Pair]) -> tuple[Case, ...]:
    rows = (
        ("tiny", "the cost of a call: 2 points", (8, 4), 2, 2),
        ("points-1e4", "particles on a grid", (1000, 1000), 10_000, 2),
        ("points-1e6", "pixels of an image that is warped", (1000, 1000), 1_000_000, 2),
        ("points-1e6-of-3", "voxels of a volume", (100, 100, 100), 1_000_000, 3),
        ("rows-1e5-of-64", "embeddings of tokens", (100_000, 64), 100_000, 1),
    )
    return tuple(Case(name, why, partial(points, *arguments)) for name, why, *arguments in rows)


CASES = {
    "torch": (
        *_points(_torch_points),
        Case(
            "tiny-gradient",
            "the cost of a call that autograd records, forward alone",
            partial(_torch_points, (8, 4), 2, 2, gradient=True),
        ),
        Case(*_GRADIENT, partial(_torch_gradient, 100_000, 16)),
    ),
    "jax": (
        *_points(_jax_points),
        Case(*_GRADIENT, partial(_jax_gradient, 100_000, 16)),
        Case("add-1e5-of-16", "messages to the nodes of a graph", partial(_jax_add, 100_000, 16)),
    ),
}
