"""A case of the benchmark, and its arrays, which contain reproducible random numbers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from math import ceil, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]
Operator = Literal["gather_nd", "gather_elements", "gather", "scatter_nd", "scatter_elements"]
Pattern = Literal["random", "sorted", "reversed", "repeated", "unique", "warped"]
Layout = Literal["C", "transposed", "every second row", "every second column"]
IndexLayout = Literal["C", "transposed"]
Reduction = Literal["none", "add", "mul", "min", "max"]
Mode = Literal["raise", "clip", "wrap"]
Output = Literal["new", "out", "data"]

LINE_BYTES = 64
HOT_POSITIONS = 100
VARIED_SIDES = 8
_SIZE_CLASSES = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20, "memory": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """The arguments of a call."""

    data: Array
    indices: Array
    updates: Array | None
    out: Array | None

    @property
    def nbytes(self) -> int:
        arrays = (self.data, self.indices, self.updates, self.out)
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, slots=True)
class Case:
    """A row of ``cases.csv``: a call, its arrays, and an example of its use.

    `index_shape` includes the tuple length. The `output` is a new array, ``out`` of the right
    shape, or ``data`` itself (scatter only). With `varied_shapes`, a run makes 64 calls of
    different shapes.
    """

    name: str
    why: str
    data_shape: Shape
    index_shape: Shape
    _: KW_ONLY
    group: str
    operator: Operator
    dtype: str = "float32"
    index_dtype: str = "int64"
    pattern: Pattern = "random"
    layout: Layout = "C"
    index_layout: IndexLayout = "C"
    axis: int = 0
    batch_dims: int = 0
    reduction: Reduction = "none"
    mode: Mode = "raise"
    output: Output = "new"
    varied_shapes: bool = False
    seed: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def is_scatter(self) -> bool:
        return self.operator in ("scatter_nd", "scatter_elements")

    @property
    def has_tuples(self) -> bool:
        """True if the last axis of ``indices`` contains index tuples."""
        return self.operator in ("gather_nd", "scatter_nd")

    @property
    def is_packed(self) -> bool:
        """True if data and indices are C-contiguous."""
        return self.layout == "C" and self.index_layout == "C"

    @property
    def indexed_axes(self) -> range:
        """The axes of ``data`` that indices select from."""
        if self.has_tuples:
            return range(self.batch_dims, self.batch_dims + self.index_shape[-1])
        axis = self.axis % len(self.data_shape)
        return range(axis, axis + 1)

    @property
    def slice_axes(self) -> range:
        """The axes of ``data`` that are copied whole for every position."""
        first = len(self.data_shape) if self._per_element else self.indexed_axes.stop
        return range(first, len(self.data_shape))

    @property
    def _per_element(self) -> bool:
        return self.operator in ("gather_elements", "scatter_elements")

    @property
    def gathered_shape(self) -> Shape:
        """Shape of the result of a gather, and of the updates of a scatter."""
        tail = tuple(self.data_shape[axis] for axis in self.slice_axes)
        if self.has_tuples:
            return self.index_shape[:-1] + tail
        if self._per_element:
            return self.index_shape
        return (
            self.data_shape[: self.indexed_axes.start] + self.index_shape[self.batch_dims :] + tail
        )

    @property
    def output_shape(self) -> Shape:
        return self.data_shape if self.is_scatter else self.gathered_shape

    @property
    def item_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def slice_bytes(self) -> int:
        return self.item_bytes * prod(self.data_shape[axis] for axis in self.slice_axes)

    @property
    def data_bytes(self) -> int:
        return self.item_bytes * prod(self.data_shape)

    @property
    def output_bytes(self) -> int:
        return self.item_bytes * prod(self.output_shape)

    @property
    def reach_bytes(self) -> int:
        """Smallest number of bytes of data that an index can select from."""
        return self.slice_bytes * prod(self.data_shape[axis] for axis in self.indexed_axes)

    @property
    def lookups(self) -> int:
        """Number of slices copied by a call."""
        return prod(self.gathered_shape) * self.item_bytes // max(self.slice_bytes, 1)

    @property
    def size_class(self) -> str:
        """Smallest cache of a common processor that can hold data."""
        sizes = _SIZE_CLASSES.items()
        return next((name for name, most in sizes if self.data_bytes < most), "1 GB+")

    @property
    def bytes_moved(self) -> int:
        """Bytes that every implementation must move in a run.

        Indices are read once, every touched cache line of data is read once, and the output is
        written once. A scatter reads updates once, and either copies data or writes its touched
        lines. It also reads these lines if it reduces or if a slice covers only part of a line.
        """
        return sum(_bytes_moved(variant) for variant in self.variants())

    def variants(self) -> tuple[Case, ...]:
        """Return the calls of a run: this call, or 64 calls of different shapes."""
        if not self.varied_shapes:
            return (self,)
        rows, columns = self.data_shape
        count, last = self.index_shape
        return tuple(
            replace(
                self,
                data_shape=(rows + i, columns + j),
                index_shape=(count + i, last if self.has_tuples else last + j),
                varied_shapes=False,
            )
            for i, j in product(range(VARIED_SIDES), repeat=2)
        )

    def reduced(self, elements: int) -> Case:
        """Return the case with smaller axes, so that no array has more than `elements`."""
        cap = max(*self.data_shape, *self.index_shape)
        case = self
        while cap > 8 and max(prod(case.data_shape), prod(case.gathered_shape)) > elements:
            cap = cap * 7 // 8
            case = replace(
                self,
                data_shape=tuple(min(side, cap) for side in self.data_shape),
                index_shape=tuple(min(side, cap) for side in self.index_shape),
            )
        return case

    def arrays(self) -> Arrays:
        """Return the arrays of a call; the same seed gives the same arrays."""
        rng = np.random.default_rng(self.seed)
        indices = draw_indices(self, rng)
        updates = None
        if self.is_scatter:
            # Sums of small integers, and products of signs, are exact in every order.
            updates = rng.integers(0, 8, self.gathered_shape, np.int8).astype(self.dtype)
            if self.reduction == "mul":
                updates = np.where(updates < 4, -1, 1).astype(self.dtype)
        out = np.zeros(self.output_shape, self.dtype) if self.output == "out" else None
        return Arrays(data=draw_data(self), indices=indices, updates=updates, out=out)


def empty_data(case: Case) -> Array:
    """Return uninitialized memory with the shape and the layout of the case."""
    if case.layout == "transposed":
        return np.empty(case.data_shape[::-1], case.dtype).T
    if case.layout == "every second row":
        rows, *rest = case.data_shape
        return np.empty((2 * rows, *rest), case.dtype)[::2]
    if case.layout == "every second column":
        *outer, columns = case.data_shape
        return np.empty((*outer, 2 * columns), case.dtype)[..., ::2]
    return np.empty(case.data_shape, case.dtype)


def copied(case: Case, arrays: Arrays) -> Arrays:
    """Return copies of the arrays with the same layout."""
    data = empty_data(case)
    data[...] = arrays.data
    return Arrays(
        data=data,
        indices=arrays.indices.copy("K"),
        updates=None if arrays.updates is None else arrays.updates.copy(),
        out=None if arrays.out is None else np.empty_like(arrays.out),
    )


def draw_data(case: Case) -> Array:
    """Return data with different neighbors: small integers that are exact in every dtype."""
    period = 2039 if case.item_bytes > 1 else 127
    data = empty_data(case)
    values = np.arange(period) % 3 == 0 if case.dtype == "bool" else np.arange(period)
    values = values.astype(case.dtype)
    if case.layout != "C":
        data[...] = np.resize(values, data.size).reshape(data.shape)
        return data
    whole = data.size // period * period
    flat = data.reshape(-1)
    flat[:whole].reshape(-1, period)[...] = values
    flat[whole:] = values[: data.size - whole]
    return data


def draw_indices(case: Case, rng: np.random.Generator) -> Array:
    """Return non-negative indices, because some libraries do not support negative ones.

    With a mode other than "raise", some indices are up to an eighth past the end.
    """
    values = _index_values(case, rng)
    if case.mode != "raise":
        past = [case.data_shape[axis] // 8 for axis in case.indexed_axes]
        values += np.asarray(past if case.has_tuples else past[0], values.dtype)
    return np.asfortranarray(values) if case.index_layout == "transposed" else values


def _index_values(case: Case, rng: np.random.Generator) -> Array:
    sizes = tuple(case.data_shape[axis] for axis in case.indexed_axes)
    lead = case.index_shape[:-1] if case.has_tuples else case.index_shape
    if case.pattern == "warped":
        return np.stack(_warped(lead, sizes), axis=-1).astype(case.index_dtype)
    if case._per_element:
        axis = case.indexed_axes.start
        others = lead[:axis] + lead[axis + 1 :]
        positions = _positions(case, rng, prod(others), lead[axis], sizes[0])
        moved = np.moveaxis(positions.reshape(*others, lead[axis]), -1, axis)
        return np.ascontiguousarray(moved, case.index_dtype)
    groups, count = prod(lead[: case.batch_dims]), prod(lead[case.batch_dims :])
    positions = _positions(case, rng, groups, count, prod(sizes)).reshape(lead)
    if case.has_tuples:
        positions = np.stack(np.unravel_index(positions, sizes), axis=-1)
    return positions.astype(case.index_dtype)


def _positions(case: Case, rng: np.random.Generator, groups: int, count: int, size: int) -> Array:
    """Return `count` positions below `size` for every group, in the order of the pattern."""
    if case.pattern == "reversed":
        descending = np.arange(count - 1, -1, -1) * size // count
        return np.broadcast_to(descending, (groups, count))
    if case.pattern == "repeated":
        hot = rng.integers(size, size=HOT_POSITIONS)
        return hot[rng.integers(HOT_POSITIONS, size=(groups, count))]
    if case.pattern == "unique" and groups == 1:
        return np.resize(rng.permutation(size), count)[None]
    if case.pattern == "unique":
        return rng.permuted(np.tile(np.arange(size), (groups, 1)), axis=1)[:, :count]
    positions = rng.integers(size, size=(groups, count))
    return np.sort(positions, axis=-1) if case.pattern == "sorted" else positions


def _warped(lead: Shape, sizes: Shape) -> tuple[Array, ...]:
    """Return the four pixels around every position of an image rotated by ten degrees."""
    _, height, width = lead
    y, x = np.indices((height, width), dtype=np.float64)
    cos, sin = np.cos(np.pi / 18), np.sin(np.pi / 18)
    y0, x0 = sizes[0] / 2, sizes[1] / 2
    source_y = np.floor(y0 + (y - height / 2) * cos - (x - width / 2) * sin).astype(np.int64)
    source_x = np.floor(x0 + (y - height / 2) * sin + (x - width / 2) * cos).astype(np.int64)
    corners = ((0, 0), (0, 1), (1, 0), (1, 1))
    return (
        np.stack([np.clip(source_y + dy, 0, sizes[0] - 1) for dy, _ in corners]),
        np.stack([np.clip(source_x + dx, 0, sizes[1] - 1) for _, dx in corners]),
    )


def _bytes_moved(case: Case) -> int:
    gathered = case.item_bytes * prod(case.gathered_shape)
    fixed = np.dtype(case.index_dtype).itemsize * prod(case.index_shape) + gathered
    if case.is_scatter and case.output != "data":
        return fixed + 2 * case.data_bytes
    replaces_lines = case.reduction == "none" and case.slice_bytes % LINE_BYTES == 0
    touches = 2 if case.is_scatter and not replaces_lines else 1
    return fixed + LINE_BYTES * _lines_touched(case) * touches


def _lines_touched(case: Case) -> int:
    """Return the number of cache lines of data that contain a slice of the case."""
    strides = empty_data(case).strides
    within = replace(case, mode="raise")
    indices = draw_indices(within, np.random.default_rng(case.seed)).astype(np.int64)
    starts = _slice_starts(case, indices, strides)
    if case.slice_axes:
        starts = np.unique(starts)
    for axis in case.slice_axes:
        starts = np.add.outer(starts, np.arange(case.data_shape[axis]) * strides[axis]).reshape(-1)
    touched = np.zeros(ceil(case.data_bytes * 2 / LINE_BYTES) + 2, np.bool_)
    for byte in (0, case.item_bytes - 1):
        touched[(starts + byte) // LINE_BYTES] = True
    return int(np.count_nonzero(touched))


def _slice_starts(case: Case, indices: Array, strides: Shape) -> Array:
    """Return the byte offset in data of the slice of every position."""
    axes = case.indexed_axes
    if case.has_tuples:
        chosen = sum(indices[..., j] * strides[axis] for j, axis in enumerate(axes))
        lead = case.index_shape[: case.batch_dims]
    elif case._per_element:
        chosen = indices * strides[axes.start]
        lead = case.index_shape
    else:
        lead = case.data_shape[: axes.start]
        gap = (1,) * (axes.start - case.batch_dims)
        shape = indices.shape[: case.batch_dims] + gap + indices.shape[case.batch_dims :]
        chosen = indices.reshape(shape) * strides[axes.start]
    base = np.zeros((1,) * np.ndim(chosen), np.int64)
    for axis, side in enumerate(lead):
        if not (case._per_element and axis == axes.start):
            base = base + (np.arange(side) * strides[axis]).reshape(
                (-1,) + (1,) * (np.ndim(chosen) - axis - 1)
            )
    return np.asarray(base + chosen).reshape(-1)
