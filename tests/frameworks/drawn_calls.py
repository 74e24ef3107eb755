"""Random NumPy calls of all functions, for tests that repeat them with other libraries."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions import reference
from tests.definitions.environments import draw_environment

GATHERS = ("gather_nd", "gather_elements", "gather", "gather_windows")
SCATTERS = ("scatter_nd", "scatter_elements")
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")


@dataclass(frozen=True)
class Drawn:
    """A call: its arrays, its options, and the result of its definition."""

    name: str
    data: np.ndarray
    indices: np.ndarray
    updates: np.ndarray | None
    options: dict
    environment: str | None = None  # the name in errors, if the core accepts the arrays

    def expected(self):
        """Return the result; the indices must be in bounds."""
        given = (self.data, self.indices) + (() if self.updates is None else (self.updates,))
        return getattr(reference, self.name)(*given, **self.options)

    def error(self):
        """Return the error that the call with NumPy arrays raises for an index, or None."""
        try:
            self.run(np.asarray)
        except IndexOutOfBoundsError as error:
            return error
        return None

    def run(self, convert, **more):
        """Run the call with arrays converted by `convert`."""
        given = [convert(self.data), convert(self.indices)]
        if self.updates is not None:
            given.append(convert(self.updates))
        return getattr(ndgather, self.name)(*given, **self.options, **more)


@st.composite
def index_values(draw, shape, sizes, dtype, stray, from_end=True):
    """Draw index values for axes of `sizes`; if `stray`, some are out of bounds."""
    room = 2 if stray else 0
    ranges = []
    for size in sizes:
        lowest = 0 if dtype.kind == "u" else -room - size * from_end
        ranges.append(st.integers(lowest, max(size - 1 + room, lowest)))
    flat = [draw(ranges[i % len(ranges)]) for i in range(np.prod(shape, dtype=int))]
    return np.array(flat, dtype).reshape(shape)


@st.composite
def drawn_calls(draw, names, dtypes, index_dtypes=("int64", "int32"), reductions=REDUCTIONS):
    """Draw a call of one of `names`; some are empty or out of bounds."""
    name = draw(st.sampled_from(names))
    least = draw(st.sampled_from([1, 1, 1, 0]))
    shape = draw(st.lists(st.integers(least, 4), min_size=1, max_size=3))
    data = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape) % 100
    data = data.astype(draw(st.sampled_from(dtypes)))
    dtype = np.dtype(draw(st.sampled_from(index_dtypes)))
    scatters = name in SCATTERS
    modes = ("raise", "wrap", "clip", "drop" if scatters else "fill")
    if name == "gather_windows":
        modes = ("raise", "clip", "fill", "wrap", "edge", "reflect")
    options = {"mode": draw(st.sampled_from(modes))}
    if options["mode"] == "fill" and draw(st.booleans()):
        # Not among the elements of data, of which there are at most 64; int8 can represent it.
        options["fill_value"] = data.dtype.type(96).item()
    lead = tuple(draw(st.lists(st.integers(least, 3), max_size=2)))
    stray = options["mode"] != "raise" or draw(st.integers(0, 4)) == 0
    given = draw(_places(name, shape, lead, dtype, stray, options))
    if scatters:
        options["reduction"] = draw(st.sampled_from(reductions))
        options["use_init_val"] = draw(st.booleans())
    indices, slices = given
    updates = None
    if scatters:
        numbers = np.arange(np.prod(slices, dtype=int)) * 7 % 90
        updates = numbers.astype(data.dtype).reshape(slices)
    environment = draw_environment(draw(st.randoms(use_true_random=False)))
    return Drawn(name, data, indices, updates, options, environment)


@st.composite
def _places(draw, name, shape, lead, dtype, stray, options):
    """Draw indices and the shape of their slices; add the options that they need."""
    rank = len(shape)
    if name.endswith("_nd"):
        batch = draw(st.integers(0, rank - 1)) if name == "gather_nd" else 0
        depth = draw(st.integers(0, rank - batch))
        if batch:
            options["batch_dims"] = batch
        whole = (*shape[:batch], *lead, depth)
        sizes = shape[batch : batch + depth] or [1]
        return draw(index_values(whole, sizes, dtype, stray)), (*whole[:-1], *shape[depth:])
    if name == "gather_windows":
        depth = draw(st.integers(1, rank))
        window = tuple(draw(st.integers(0, size)) for size in shape[:depth])
        options["window_shape"] = window
        fits = [size - wide + 1 for size, wide in zip(shape, window, strict=False)]
        return draw(index_values((*lead, depth), fits, dtype, stray, from_end=False)), ()
    axis = draw(st.integers(-rank, rank - 1))
    options["axis"] = axis
    if name == "gather":
        batch = draw(st.integers(0, axis % rank))
        # Counted from the last axis of indices, it is at least the negative rank of data.
        from_end = 0 < len(lead) <= rank and draw(st.booleans())
        options["batch_dims"] = -len(lead) if from_end else batch
        return draw(index_values((*shape[:batch], *lead), [shape[axis]], dtype, stray)), ()
    whole = [draw(st.integers(0, size)) for size in shape]
    whole[axis] = draw(st.integers(0, 4))
    return draw(index_values(tuple(whole), [shape[axis]], dtype, stray)), tuple(whole)
