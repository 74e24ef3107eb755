"""The keys with which ``data[key]`` is a gather, for libraries that index like NumPy.

This is the work in those libraries' own words, as their users write it: open grids of positions on
the axes that are not indexed, broadcast against the indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.schema import Kind
from ndgather.runtimes.operator_call import CannotExpressError

if TYPE_CHECKING:
    from ndgather.runtimes.operator_call import Asked

Array = NDArray[Any]


def check(asked: Asked) -> None:
    """Raise `CannotExpressError` where no key asks for this."""
    if asked.mode == "fill":
        raise CannotExpressError("has no value for an index out of bounds")
    if asked.other:
        raise CannotExpressError(f"has no {', '.join(sorted(asked.other))}")
    if asked.kind is Kind.GATHER_ND and not asked.indices.ndim:
        raise CannotExpressError("a number is not a tuple of indices")
    if asked.kind is Kind.GATHER_ND and not asked.indices.shape[-1]:
        raise CannotExpressError("a key of no indices has no positions")
    if asked.batch_dims < 0 or asked.batch_dims > min(asked.data.ndim, asked.indices.ndim):
        raise CannotExpressError("a key has no such batch axes")


def tuple_key(asked: Asked) -> tuple[Array, ...]:
    """Return the key of a gather or scatter by index tuples."""
    grid = _grid(asked.data.shape[: asked.batch_dims], asked.indices.ndim - 1)
    depth = asked.indices.shape[-1]
    return (*grid, *(asked.indices[..., column] for column in range(depth)))


def element_key(asked: Asked) -> tuple[Array, ...]:
    """Return the key of a gather or scatter of single elements along an axis."""
    grid = _grid(asked.indices.shape, asked.indices.ndim)
    axis = range(asked.indices.ndim)[asked.axis]
    return (*grid[:axis], asked.indices, *grid[axis + 1 :])


def batch_key(asked: Asked) -> tuple[Array, ...]:
    """Return the key of a gather along the first axis after the batch axes."""
    return (*_grid(asked.data.shape[: asked.batch_dims], asked.indices.ndim), asked.indices)


def _grid(sides: tuple[int, ...], rank: int) -> list[Array]:
    return [
        np.arange(side).reshape((1,) * axis + (side,) + (1,) * (rank - axis - 1))
        for axis, side in enumerate(sides)
    ]
