"""The role of each axis of data and of the result in a call.

For ``gather(data, indices, axis=2, batch_dims=1)`` with 4-d data and 3-d indices::

    data                 axis 0   axis 1   axis 2   axis 3
                         batch    slice    indexed  slice
                           |        |        |         |
                           |        |       ---        |
    result               axis 0   axis 1   2   3     axis 4
                         position slice    positions slice
                           |               |   |
    indices              axis 0            1   2

In this module, the *dense* array is the result of a gather or the updates of a scatter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ndgather.array_call import Array, Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The axes of data and of the dense array, grouped by role.

    A position in the dense array determines a coordinate of data on each axis in `points`. The
    coordinate comes from the indices on `indexed` axes and from the position itself on other axes.

    >>> from ndgather.array_call import Call, Kind
    >>> axes = Axes.of(Call("gather", Kind.GATHER, None, None, axis=2, batch_dims=1), 4, (5, 6, 7))
    >>> axes.points, axes.indexed, axes.slices
    ((0, 2), (2,), (1, 3))
    >>> axes.positions, axes.dense_slices
    ((0, 2, 3), (1, 4))
    """

    points: tuple[int, ...]
    indexed: tuple[int, ...]
    slices: tuple[int, ...]  # axes that are copied whole
    positions: tuple[int, ...]  # the fields from here on are axes of the dense array
    window: tuple[int, ...] = ()  # axes within a window
    dense_slices: tuple[int, ...] = ()

    @classmethod
    def of(cls, call: Call, data_rank: int, indices: Sequence[Any]) -> Axes:
        """Return the axes of a valid call whose indices have the shape `indices`."""
        kind, batch = call.kind, int(call.batch_dims)
        axes, rank = tuple(range(data_rank)), len(indices) - kind.tuples
        if kind.elements:
            return cls(points=axes, indexed=(axes[int(call.axis)],), slices=(), positions=axes)
        if kind.tuples:
            end, window = batch + int(indices[-1]), rank + len(call.window_shape)
            return cls(
                points=axes[:end],
                indexed=axes[batch:end],
                slices=axes[end:],
                positions=tuple(range(rank)),
                window=tuple(range(rank, window)),
                dense_slices=tuple(range(window, window + data_rank - end)),
            )
        axis, batch = int(call.axis) % data_rank, batch + rank * (batch < 0)
        end = axis + rank - batch  # axes `axis` to `end - 1` of the result come from indices
        return cls(
            points=(*axes[:batch], axis),
            indexed=(axis,),
            slices=(*axes[batch:axis], *axes[axis + 1 :]),
            positions=(*range(batch), *range(axis, end)),
            dense_slices=(*range(batch, axis), *range(end, end + data_rank - axis - 1)),
        )

    @property
    def aligned(self) -> tuple[int, ...]:
        """The axes in `points` whose coordinates do not come from indices, such as batch axes."""
        return tuple(axis for axis in self.points if axis not in self.indexed)

    def data_view(self, data: Array) -> Array:
        """Return a view of data or of a chunk, with the axes in `points` moved to the front."""
        return data.transpose(self.points + self.slices)

    def dense_view(self, dense: Array) -> Array:
        """Return a view of the dense array, with the axes in `positions` moved to the front."""
        return dense.transpose(self.positions + self.window + self.dense_slices)

    def point(self, position: Sequence[Any], indexed: Iterable[Any]) -> tuple[Any, ...]:
        """Return the coordinates on the axes in `points`, given a position and its index values."""
        values = iter(indexed)
        return tuple(next(values) if a in self.indexed else position[a] for a in self.points)

    def in_data(self, points: Sequence[Any], slices: Sequence[Any]) -> tuple[Any, ...]:
        """Return a value for each axis of data, in axis order."""
        return _ordered(self.points + self.slices, (*points, *slices))

    def in_dense(
        self, positions: Sequence[Any], window: Sequence[Any], slices: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return a value for each axis of the dense array, in axis order."""
        order = self.positions + self.window + self.dense_slices
        return _ordered(order, (*positions, *window, *slices))


def _ordered(axes: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    by_axis = dict(zip(axes, values, strict=True))
    return tuple(by_axis[axis] for axis in range(len(axes)))
