"""Calls on every code path of a reduction, computed in a floating-point environment.

``python -m tests.core.package.environments ENVIRONMENT`` prints a hash of each result, computed by
worker threads that were created in that environment.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ndgather
import ndgather.vjp
from tests.definitions.environments import environment

SIZE, COUNT = 8000, 200_000  # enough work for two threads
_RNG = np.random.default_rng(20261128)
INDICES = _RNG.integers(SIZE, size=COUNT)
# Sums that round, and subnormal numbers, so that each path meets both.
UPDATES = np.where(INDICES % 2, _RNG.random(COUNT), 1e-40).astype(np.float32)


Made = Callable[[], Any]  # a call with arguments from the default environment


def scatter(reduction: str, count: int = COUNT, **options: Any) -> Made:
    data = np.full(SIZE, 1 if reduction == "mul" else 3e-41, np.float32)
    updates = UPDATES[:count] + np.float32(reduction == "mul")
    indices = INDICES[:count, np.newaxis]
    return lambda: ndgather.scatter_nd(data, indices, updates, reduction=reduction, **options)


def in_place(reduction: str) -> Made:
    data = np.full(SIZE, 3e-41, np.float32)
    options = {"reduction": reduction, "out": data}
    return lambda: ndgather.scatter_elements(data, INDICES, UPDATES, **options)


def stored(reduction: str) -> Made:
    zarr = __import__("zarr")
    store = zarr.storage.MemoryStore()
    data = zarr.create_array(store, shape=(SIZE,), chunks=(70,), dtype="float32")
    data[:] = np.full(SIZE, 3e-41, np.float32)
    indices, updates = INDICES[:20_000, np.newaxis], UPDATES[:20_000]
    return lambda: ndgather.scatter_nd(data, indices, updates, reduction=reduction, out=data)


def of_dtype(dtype: Any) -> Made:
    indices, updates, data = INDICES[:1000], UPDATES[:1000].astype(dtype), np.zeros(SIZE, dtype)
    return lambda: ndgather.scatter_elements(data, indices, updates, reduction="add")


def windows() -> Made:
    starts = INDICES[:50_000, np.newaxis] % (SIZE - 3)
    cotangent = np.repeat(UPDATES[:50_000, np.newaxis], 4, axis=1)
    return lambda: ndgather.vjp.gather_windows(cotangent, (SIZE,), starts, (4,))


def fill_value() -> Made:
    data = np.ones(3, np.float32)
    return lambda: ndgather.gather(data, [9], mode="fill", fill_value=1e-40)


ROADS: dict[str, Callable[[], Made]] = {
    **{name: partial(scatter, name) for name in ("add", "sub", "mul", "min", "max", "mean")},
    **{f"few {name}": partial(scatter, name, 100) for name in ("add", "min", "mean")},
    "without initial values": partial(scatter, "mean", use_init_val=False),
    **{f"in place {name}": partial(in_place, name) for name in ("add", "max", "mean")},
    **{f"stored {name}": partial(stored, name) for name in ("add", "min", "mean")},
    **{f"of {name}": partial(of_dtype, name) for name in ("f2", "f8", "c8", "longdouble")},
    "windows": windows,
    "fill value": fill_value,
}


def bytes_of(result: Any) -> bytes:
    """Return the bytes of a result except the unused bytes of long doubles."""
    array = np.asarray(result[...])
    whole = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1)
    return whole[:, :10].tobytes() if array.dtype.char == "g" else whole.tobytes()


def hashes(name: str | None) -> dict[str, str]:
    """Return a hash of the result of each code path in the caller's environment."""
    made = {}
    for road, prepare in ROADS.items():
        call = prepare()
        with environment(name):
            result = call()
        made[road] = hashlib.sha256(bytes_of(result)).hexdigest()
    return made


def main(name: str) -> None:
    ndgather.set_num_threads(2)
    with environment(name):  # of the thread that creates the workers
        scatter("add")()
    for road, value in hashes(None).items():
        print(road, value, sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
