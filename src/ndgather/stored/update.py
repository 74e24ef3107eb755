"""What a scatter does to one chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ndgather import fallback, reductions
from ndgather.stored.grouping import ChunkedPoints, move, places_of

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array
    from ndgather.stored.plan import Axes


@dataclass(frozen=True, slots=True)
class Update:
    """The updates that meet one chunk; executors are sent those that are `compact`."""

    call: Call  # its options count
    axes: Axes
    points: ChunkedPoints
    runs: tuple[Array, Array]
    updates: Array  # the axes of the positions come first

    def apply(self, values: Array) -> Array:
        """Apply the updates, in C order, to the values of the chunk; return the new values.

        The old ones are changed where they can be.
        """
        call = self.call
        if not values.flags.writeable:
            values = values.copy()
        if fallback.is_one_step(call):
            updates = self.updates.astype(values.dtype, copy=False)  # pickles may be native
            self._step(values, updates, call.reduction, call.arithmetic)
            return values
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        reductions.in_steps(native, self.updates, call.reduction, call.use_init_val, self._step)
        return native.astype(values.dtype, copy=False)

    def _step(self, data: Array, updates: Array, reduction: str, arithmetic: object) -> None:
        move(self.points, self.runs, self.axes.data_view(data), updates, reduction, arithmetic)

    def compact(self) -> Update:
        """Return the same without what other chunks are met by."""
        points, runs = self.points, list(zip(*(each.tolist() for each in self.runs), strict=True))
        local = np.concatenate([points.local[start:stop] for start, stop in runs])
        rank = len(self.axes.dense_positions)
        updates = self.updates if rank else self.updates[np.newaxis]
        lead = self.updates.shape[:rank]
        own_updates = [updates[places_of(points, start, stop, lead)] for start, stop in runs]
        numbers = np.arange(len(local), dtype=np.uint32)
        alone = ChunkedPoints.one_group(points.bits, local, numbers)
        call = replace(self.call, indices=None, updates=None, executor=None, progress=None)
        return replace(
            self, call=call, points=alone, runs=alone.runs(0), updates=np.concatenate(own_updates)
        )
