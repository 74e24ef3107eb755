"""The cases: calls of ndgather, and the library's own functions with the same result.

All run on a CPU, eagerly in NumPy and torch, and jitted in JAX. The NumPy cases are calls that the
core does not make in a single step; `bench.cases` has the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import ndgather

Function = Callable[[], Any]
Pair = tuple[Function, Function]
"""The calls of ndgather and of the library; both wait for their results."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table."""

    name: str
    why: str
    functions: Callable[[], Pair]


def to_numpy(array: Any) -> Any:
    return array.detach().numpy() if hasattr(array, "detach") else np.asarray(array)


# NumPy ------------------------------------------------------------------------------------------


def _windows(count: int, mode: Any, padding: Any) -> Pair:
    """Gather windows of a small image; some extend past its border."""
    rng = np.random.default_rng(0)
    data, starts = rng.random((40, 40), dtype=np.float32), rng.integers(-8, 32, (count, 2))

    def native() -> Any:
        padded = np.pad(data, 15, mode=padding)
        return sliding_window_view(padded, (16, 16))[tuple((starts + 15).T)]

    return lambda: ndgather.gather_windows(data, starts, (16, 16), mode=mode), native


def _mean(shape: tuple[int, ...], count: int) -> Pair:
    rng = np.random.default_rng(0)
    data, updates = rng.random(shape), rng.random((count, *shape[1:]))
    indices = rng.integers(0, shape[0], (count, 1))

    def native() -> Any:
        totals, counts = data.copy(), np.ones(shape[0])
        np.add.at(totals, indices[:, 0], updates)
        np.add.at(counts, indices[:, 0], 1)
        return totals / counts.reshape(-1, *(1,) * (len(shape) - 1))

    return lambda: ndgather.scatter_nd(data, indices, updates, reduction="mean"), native


def _objects(shape: tuple[int, ...], count: int) -> Pair:
    rng = np.random.default_rng(0)
    data = np.arange(np.prod(shape)).astype(object).reshape(shape)
    indices = np.stack([rng.integers(0, size, count) for size in shape], axis=-1)
    columns = tuple(indices.T)
    return lambda: ndgather.gather_nd(data, indices), lambda: data[columns]


# torch -----------------------------------------------------------------------------------------


def _torch_arrays(shape: tuple[int, ...], count: int, depth: int) -> tuple[Any, ...]:
    """Return data, index tuples and their columns."""
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


def _torch_products(count: int, width: int, *, zeros: bool = False) -> Pair:
    """Return the gradients of products with about ten factors each, forward and backward."""
    torch: Any = import_module("torch")
    data, indices, _ = _torch_arrays((count // 10, width), count, 1)
    factors = torch.rand(count, width) + 0.5
    if zeros:
        factors[::7] = 0
    factors.requires_grad_(True)
    weights = torch.rand(data.shape)
    wide = indices.expand(count, width)

    def gradient(result: Any) -> Any:
        return torch.autograd.grad(result, factors, weights)[0]

    return (
        lambda: gradient(ndgather.scatter_nd(data, indices, factors, reduction="mul")),
        lambda: gradient(data.scatter_reduce(0, wide, factors, "prod")),
    )


def _torch_mapped() -> Pair:
    torch: Any = import_module("torch")
    data, indices = torch.rand(64, 100, 8), torch.randint(0, 100, (64, 30))
    ours, native = torch.vmap(ndgather.gather), torch.vmap(lambda data, at: data[at])
    return lambda: ours(data, indices), lambda: native(data, indices)


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


# Table -------------------------------------------------------------------------------------

_GRADIENT = ("gradient-1e5-of-16", "gradient of an embedding, forward and backward")


def _points(points: Callable[..., Pair]) -> tuple[Case, ...]:
    rows = (
        ("tiny", "cost of a call: 2 points", (8, 4), 2, 2),
        ("points-1e4", "particles on a grid", (1000, 1000), 10_000, 2),
        ("points-1e6", "pixels of a warped image", (1000, 1000), 1_000_000, 2),
        ("points-1e6-of-3", "voxels of a volume", (100, 100, 100), 1_000_000, 3),
        ("rows-1e5-of-64", "embeddings of tokens", (100_000, 64), 100_000, 1),
    )
    return tuple(Case(name, why, partial(points, *arguments)) for name, why, *arguments in rows)


_PADDED = {"fill": "constant", "edge": "edge", "wrap": "wrap"}

CASES = {
    "numpy": (
        *(
            Case(
                f"windows-{count}-{mode}",
                "patches of images",
                partial(_windows, count, mode, padding),
            )
            for count in (1, 1000)
            for mode, padding in _PADDED.items()
        ),
        Case("mean-5", "a few numbers in groups", partial(_mean, (8,), 5)),
        Case("mean-1000-of-8", "pooled embeddings", partial(_mean, (100, 8), 1000)),
        Case("objects-4", "a few names", partial(_objects, (4, 4), 4)),
        Case("objects-1000", "a column of names", partial(_objects, (1000,), 1000)),
    ),
    "torch": (
        *_points(_torch_points),
        Case(
            "tiny-gradient",
            "cost of a call that autograd records, forward only",
            partial(_torch_points, (8, 4), 2, 2, gradient=True),
        ),
        Case(*_GRADIENT, partial(_torch_gradient, 100_000, 16)),
        Case("products-4000-of-8", "gradient of products", partial(_torch_products, 4000, 8)),
        Case(
            "products-4000-of-8-with-0",
            "gradient of products, with zeros among the factors",
            partial(_torch_products, 4000, 8, zeros=True),
        ),
        Case("vmap-64", "lookup for a batch of 64, by torch.vmap", _torch_mapped),
    ),
    "jax": (
        *_points(_jax_points),
        Case(*_GRADIENT, partial(_jax_gradient, 100_000, 16)),
        Case(
            "add-1e5-of-16", "messages sent to the nodes of a graph", partial(_jax_add, 100_000, 16)
        ),
    ),
}
