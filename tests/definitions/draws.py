"""Draw calls: small ones for the plain loops, large ones that threads share, and wild numbers.

`draw_call` makes every choice with a `random.Random`. ``Random(seed)`` draws the same call again;
`tests.definitions.strategies` passes one whose choices Hypothesis makes and shrinks on failure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.definitions.calls import LAYOUTS, PublicCall, moves_as_bytes, strided
from tests.definitions.environments import draw_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

Array = NDArray[Any]


class Size(StrEnum):
    """The size of the arrays of a call, and the kind of numbers in them."""

    SMALL = "small"  # at most five axes of at most five elements
    BORDER = "border"  # sizes, rows and widths of `draw_size`: at thresholds of the code
    LARGE = "large"  # 20,000 to 300,000 index tuples; fewer if each selects a long row
    WILD = "wild"  # small; numbers that overflow, underflow, divide by zero or are NaN


# Modes, reductions and kinds of numbers are listed here, so that a missing one is noticed.
MODES = {
    "gather_nd": ("raise", "wrap", "clip", "fill"),
    "gather_elements": ("raise", "wrap", "clip", "fill"),
    "gather": ("raise", "wrap", "clip", "fill"),
    "gather_ranges": ("raise", "wrap", "clip", "fill"),
    "gather_windows": ("raise", "clip", "fill", "wrap", "edge", "reflect"),
    "scatter_nd": ("raise", "wrap", "clip", "drop"),
    "scatter_elements": ("raise", "wrap", "clip", "drop"),
}
SCATTERS = ("scatter_nd", "scatter_elements")
GRADIENTS = tuple(
    f"vjp.{name}" for name in ("gather_nd", "gather_elements", "gather_windows", "gather_ranges")
)
FUNCTIONS = (*MODES, *GRADIENTS)
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")
_NOT_OF = {"b": ("mean",), "i": (), "f": (), "c": ("min", "max"), "": REDUCTIONS[1:]}

#: Most calls copy something; some have empty axes or out-of-bounds entries.
FLAVOURS = ("value",) * 6 + ("empty",) * 4 + ("stray",) * 2

#: The dtypes of indices, in both byte orders.
INDEX_DTYPES = tuple(
    np.dtype(order + kind + width)
    for order in "=>"
    for kind in "iu"
    for width in "1248"
    if order == "=" or width != "1"
)

#: Dtypes of elements of every width and kind, some structured or in the other byte order.
DATA_DTYPES: tuple[np.dtype[Any], ...] = (
    *(np.dtype(char) for char in "?bhiqBHIQefdgFD"),
    *map(np.dtype, ("M8[s]", "m8[ns]", "S1", "S5", "U3", "V1", "V3", "V7", "V13", "O")),
    *map(np.dtype, (">i2", ">i4", ">f8", ">c16", ">M8[D]", ">U2")),
    np.dtype([("number", "u1"), ("value", "f8")]),
    np.dtype([("number", "u1"), ("value", ">i4")], align=True),
    np.dtype([("corners", "i2", (3,)), ("name", "S3")]),
    np.dtypes.StringDType(),
)

#: Dtypes that some reductions accept, some in the other byte order.
NUMBER_DTYPES: tuple[np.dtype[Any], ...] = (
    *(np.dtype(char) for char in "?bhiqBHIQefdgFDG"),
    *map(np.dtype, (">i2", ">u4", ">i8", ">f2", ">f4", ">f8", ">c8")),
)

_OF_BYTES = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn"))
_LARGE_DATA = (*filter(moves_as_bytes, DATA_DTYPES), np.dtype("G"), np.dtype("V40"), *_OF_BYTES)
#: Dtypes of large calls that reduce.
LARGE_NUMBERS = (*(dtype for dtype in NUMBER_DTYPES if dtype.char != "G"), *_OF_BYTES)

_KINDS = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}
_KINDS_OF_ML = {"bfloat16": "f", "int2": "i", "int4": "i", "uint2": "i", "uint4": "i"}

_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
_WILD = (1e38, -1e38, 3e38, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 60000.0, -60000.0)

_SIDES = (7, 300, 5_000, 60_000, 400_000)
_MOST = 2**18  # elements of an array in calls of `Size.BORDER`

#: Sizes at thresholds of the code: of buffers, tiles and tables, which are powers of two or
#: three times as long, and of chunks whose reciprocal, times their length, is less than 1.
_POWERS = tuple(factor * 2**bits for bits in range(1, 21) for factor in (1, 3))
_ROUNDED = tuple(size for size in range(1, 1000) if size * (1 / size) < 1)

ANY_LAYOUT = (*LAYOUTS, "C", "mixed")
#: Layouts in which no two elements share memory, for arrays with interdependent entries.
UNSHARED = tuple(name for name in ANY_LAYOUT if not name.startswith("stride 0"))
_BORDER_LAYOUTS = (
    *ANY_LAYOUT,
    "C",
    "C",
    "F",
    "F",
    "F",
    "mixed",
    "mixed",
    "rows apart",
    "rows apart",
)
_LARGE_LAYOUTS = ("C", "C", "F", "negative strides", "every second", "unaligned")

#: How n index tuples are distributed over a number of targets.
SKEWS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "uniform": lambda rng, n, places: rng.integers(0, places, n),
    "most on the last line": lambda rng, n, places: np.where(
        rng.random(n) < 0.9,
        places - 1 - rng.integers(0, min(places, 16), n),
        rng.integers(0, places, n),
    ),
    "most at the first": lambda rng, n, places: np.where(
        rng.random(n) < 0.9, 0, rng.integers(0, places, n)
    ),
    "one place": lambda rng, n, places: np.full(n, rng.integers(0, places)),
    "in order": lambda rng, n, places: np.sort(rng.integers(0, places, n)),
    "backwards": lambda rng, n, places: np.sort(rng.integers(0, places, n))[::-1],
    "neighbours in turn": lambda rng, n, places: (  # several threads share a cache line
        (rng.integers(0, places) + np.arange(n) % min(places, 40)) % places
    ),
    "far apart in turn": lambda _, n, places: np.arange(n) % 8 * (places // 8),
}


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return "b", "i", "f" or "c" for bool, integer, float and complex dtypes; "" otherwise."""
    if dtype.isbuiltin == 2:  # of ml_dtypes
        return _KINDS_OF_ML.get(dtype.name, "f")
    return _KINDS.get(dtype.kind, "")


def distinct(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array in C order whose elements differ as much as their width allows.

    The dtype is one of `DATA_DTYPES`, or another one without Python objects in records. Equal
    arguments give equal arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.definitions.draws import distinct
    >>> np.unique(distinct((4, 5), np.dtype("f4")).view("u4")).size
    20
    """
    size, width = int(np.prod(shape, dtype=int)), dtype.itemsize
    if dtype.char == "?":
        bits = (np.arange(size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(63)
        return bits.astype(np.bool_).reshape(shape)
    if dtype.char in "OTU":
        values: list[object] = [f"{k:x}" + "é" * (20 * k % 49) for k in range(size)]
        if dtype.char == "O":
            values = [[value, (value,), k, None][k % 4] for k, value in enumerate(values)]
        array = np.empty(size, dtype)
        for k, value in enumerate(values):
            array[k] = value
        return array.reshape(shape)
    # An odd factor makes k -> k * factor a bijection for every number of bytes.
    numbers = (np.arange(size, dtype="<u8") + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    stored = np.resize(numbers.view(np.uint8).reshape(size, 8).T, (max(width, 1), size)).T
    return np.ndarray(shape, dtype, bytearray(stored[:, :width].tobytes() or b"\0"))


def numbers(
    shape: tuple[int, ...], dtype: np.dtype[Any], seed: int, inexact: bool = False
) -> Array:
    """Return random elements of a dtype: small ones, all of its range, zeros, infinities, NaN.

    The dtype is one of numbers or booleans, including those of the package `ml_dtypes`. If
    `inexact`, no float is a small integer, and half of them are subnormal.
    """
    rng = np.random.default_rng(seed)
    kind = kind_of(dtype)
    if dtype.isbuiltin == 2 and dtype.itemsize == 1:
        # By value: several bytes may represent the same number of less than 8 bits.
        values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64).astype(dtype)
        return values[rng.integers(0, 256, (*shape, 1))][..., 0]
    if kind == "c":
        result = np.empty(shape, dtype)
        result.real = numbers(shape, result.real.dtype, seed, inexact)
        result.imag = numbers(shape, result.imag.dtype, seed + 1, inexact)
        return result
    small = np.asarray(rng.integers(0, 2, shape) == 0)
    if kind == "b":
        return small.astype(dtype)
    if kind == "i":
        bounds = np.iinfo(dtype)
        native = dtype.newbyteorder("=")
        wide = rng.integers(bounds.min, bounds.max, shape, native, endpoint=True)
        return np.where(small, rng.integers(0, 4, shape).astype(native), wide).astype(dtype)
    exponents = rng.integers(-30, 16, shape)
    if inexact:
        small = np.zeros(shape, bool)
        least = max(int(ml_dtypes.finfo(dtype).minexp), -1022)  # doubles for long doubles
        exponents = np.where(rng.random(shape) < 0.5, least, exponents)
    wide = np.where(small, rng.integers(-4, 5, shape), rng.standard_normal(shape))
    wide = wide * np.exp2(np.where(small, 0, exponents))
    special = rng.choice(_SPECIAL, shape)
    with np.errstate(all="ignore"):
        return np.where(rng.integers(0, 4, shape) == 0, special, wide).astype(dtype)


def floats(rng: np.random.Generator, shape: int | tuple[int, ...], char: Any = "f") -> Array:
    """Return numbers whose sums depend on the order of addition in every bit."""
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 8, shape))).astype(char)


def _ordered(rng: np.random.Generator, shape: Any, dtype: np.dtype[Any], factor: bool) -> Array:
    """Return elements whose sum or product reveals the order in which they were combined."""
    kind = kind_of(dtype)
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "i":
        bounds = np.iinfo(dtype)
        native = dtype.newbyteorder("=")
        whole = rng.integers(bounds.min, bounds.max, shape, native, endpoint=True)
        return (whole | 1 if factor else whole).astype(dtype)  # a product of odd numbers is never 0
    if kind == "c":
        turns = np.array([1, -1, 1j, -1j])  # products of these numbers are exact
        if factor:
            return turns[rng.integers(0, 4, shape)].astype(dtype)
        return (floats(rng, shape, "d") + 1j * floats(rng, shape, "d")).astype(dtype)
    made = 1 + floats(rng, shape, "d") / 2**12 if factor else floats(rng, shape, "d")
    if made.size and dtype not in _OF_BYTES and not factor and rng.random() < 0.3:
        flat = made.reshape(-1)
        flat[rng.integers(0, flat.size, 20)] = rng.choice([np.inf, -np.inf, np.nan], 20)
    if rng.random() < 0.3:
        made = np.where(rng.random(shape) < 0.5, np.copysign(0.0, made), made)
    with np.errstate(all="ignore"):
        return made.astype(dtype)


def _wild(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if kind_of(dtype) == "i":
        bounds = np.iinfo(dtype)
        extremes = np.array([bounds.min, bounds.max, bounds.max - 27, 0], dtype)
        return extremes[rng.integers(0, 4, shape)]
    with np.errstate(all="ignore"):
        return rng.choice(_WILD, shape).astype(dtype)


def arranged(random: Random, values: Array, layouts: Sequence[str] = ANY_LAYOUT) -> Array:
    """Return an array equal to `values` in another layout: one of `LAYOUTS`, or "mixed".

    If an axis gets stride 0, its elements are those of the first position on that axis.
    """
    layout = random.choice(layouts)
    if layout != "mixed":
        return LAYOUTS[layout](values)
    axes = list(range(values.ndim))
    random.shuffle(axes)
    steps = [random.choice((1, 2, -1, -3)) for _ in axes]
    return strided(values, axes, steps, offset=random.randint(0, 3), end=random.randint(0, 1))


def arranged_in(
    random: Random, memory: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array | None:
    """Return a view at the beginning of `memory`, so that several overlap, or None if too large."""
    axes = list(range(len(shape)))
    random.shuffle(axes)
    steps = [random.choice((1, 1, 2, -1)) for _ in axes]
    strides = strided(np.zeros(shape, dtype), axes, steps).strides
    pairs = list(zip(shape, strides, strict=True))
    lowest = sum(min(0, (size - 1) * stride) for size, stride in pairs if size)
    highest = sum(max(0, (size - 1) * stride) for size, stride in pairs if size)
    room = memory.size - (highest - lowest + dtype.itemsize)
    if room < 0:
        return None
    near = random.randint(0, min(room, 64))
    return np.ndarray(shape, dtype, memory.data, near - lowest, strides)


def stray_values(size: int, dtype: np.dtype[Any]) -> list[int]:
    """Return values of `dtype` that are out of bounds for an axis of `size`."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    far = [*range(size, size + 10), 2 * size, 3 * size + 1, -size - 1, -2 * size, -3 * size - 2]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):  # values that are in bounds after losing a bit
        far += [sign * 2**bits + near for sign in (1, -1) for near in (-1, 0, size - 1)]
    return [value for value in far if low <= value <= high and not -size <= value < size]


def integers(random: Random, low: int, high: int, shape: int | tuple[int, ...]) -> Array:
    """Return integers from `low` to `high`; a few are drawn individually, so that each shrinks."""
    if (count := int(np.prod(shape))) > 300:
        return random_generator(random).integers(low, high, shape, endpoint=True)
    values = [random.randint(low, high) for _ in range(count)]
    return np.array(values, np.int64).reshape(shape)


def draw_size(random: Random, most: int, least: int = 0) -> int:
    """Return a size within bounds: mostly a small one, or one at which code takes another way.

    Examples
    --------
    >>> from random import Random
    >>> from tests.definitions.draws import draw_size
    >>> random = Random(0)
    >>> [draw_size(random, 1000) for _ in range(8)]
    [3, 33, 2, 2, 512, 389, 32, 249]
    """
    near = [size for size in _POWERS if size <= most]
    rounded = [size for size in _ROUNDED if size <= most]
    way = random.randrange(8)
    if way < 4 and near:
        size = random.choice(near) + random.choice((-1, 0, 0, 1))
    elif way == 4 and rounded:
        size = random.choice(rounded)
    elif way == 5:
        size = round(max(most, 1) ** random.random())
    else:
        size = random.randint(0, 3)
    return max(min(size, most), least)


def draw_chunk_shape(random: Random, shape: Sequence[int], most: int = 100) -> tuple[int, ...]:
    """Return a chunk shape for at most so many chunks; chunks may be longer than the array."""
    chunk: list[int] = []
    for size in shape:
        longest = max(size, 1) * random.choice((1, 1, 1, 2))
        chunk.append(draw_size(random, longest, max(-(-size // most), 1)))
        most = max(most * chunk[-1] // max(size, 1), 1)
    return tuple(chunk)


def draw_chunks(
    random: Random, shape: Sequence[int], most: int = 100
) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of chunks along each axis, up to so many chunks: equal or any lengths.

    Examples
    --------
    >>> from random import Random
    >>> from tests.definitions.draws import draw_chunks
    >>> draw_chunks(Random(1), (10, 7))
    ((2, 6, 2), (3, 3, 1))
    """
    chunks = []
    for size, length in zip(shape, draw_chunk_shape(random, shape, most), strict=True):
        ends = [*range(0, size, length), size]
        if random.randrange(2) and size > 1:
            some = random.sample(range(1, size), random.randint(1, min(len(ends) + 1, size - 1)))
            ends = [0, *sorted(some), size]
        chunks.append(tuple(stop - start for start, stop in pairwise(ends)) or (0,))
    return tuple(chunks)


def random_generator(random: Random) -> np.random.Generator:
    return np.random.default_rng(random.getrandbits(64))


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """The properties of a call that are chosen before its shapes."""

    random: Random
    kind: str
    large: bool
    border: bool
    flavour: str
    mode: str
    dtype: np.dtype[Any]  # of indices
    skew: str | None  # the distribution of index tuples of a large call
    count: int  # for large calls: of index tuples
    size: int  # for large calls: of the indexed axes
    rest: tuple[int, ...]  # for large calls: the shape of a slice

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def often(self) -> bool:
        return self.random.randrange(2) == 0

    def side(self) -> int:
        return self.random.randint(0 if self.flavour == "empty" else 1, 4)

    def points(self, outer: Sequence[int], least: Sequence[int] = (0,)) -> tuple[int, ...]:
        """Return a shape of index tuples after the batch axes."""
        if self.large:
            return (max(self.count // max(prod(outer), 1), 1),)
        return tuple(self.side() for _ in range(self.random.randint(self.one_of(*least), 2)))

    def axes(
        self, depths: Sequence[int], *outers: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the sizes of the axes before, among and after the indexed axes."""
        if self.large:
            outer = self.one_of(*outers)
            if self.border and outer:
                outer = (draw_size(self.random, 40, 1), *outer[1:])
            return outer, self.sides(self.size // prod(outer), self.one_of(*depths)), self.rest
        if self.kind.endswith("_nd"):
            rank = self.one_of(
                *((2, 3, 1, 4, 3, 2, 5, 0) if len(outers) > 1 else (2, 1, 3, 4, 2, 0))
            )
            before = self.random.randint(0, min(2, rank)) if len(outers) > 1 else 0
            deepest = rank - before
            depth = self.random.randint(min(self.one_of(1, 1, 1, 1, 1, 0), deepest), deepest)
        else:
            rank = self.random.randint(1, 4)
            before = self.random.randrange(rank)
            depth = 1
        sizes = tuple(self.side() for _ in range(rank))
        return sizes[:before], sizes[before : before + depth], sizes[before + depth :]

    def sides(self, size: int, rank: int) -> tuple[int, ...]:
        """Return sizes whose product is about `size`, none longer than the dtype can index."""
        sides: list[int] = []
        most = int(np.iinfo(self.dtype).max) + 1
        if self.border:
            for _ in range(rank):
                sides.append(draw_size(self.random, min(size // prod(sides), most), 1))
            return tuple(sides)
        for left in range(rank, 0, -1):
            wanted = round((size / prod(sides)) ** (1 / left))
            sides.append(max(min(wanted, most), 1))
        return tuple(sides)

    def places(self, shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[Array]:
        """Return positions on axes of these sizes, as an array of `shape` for each axis."""
        if self.skew is None:
            return [integers(self.random, 0, max(size - 1, 0), shape) for size in sizes]
        flat = SKEWS[self.skew](random_generator(self.random), prod(shape), prod(sizes))
        return [*np.unravel_index(flat.reshape(shape), sizes)] if sizes else []

    def values(self, places: Array, size: int) -> Array:
        """Return indices, some of which are negative or out of bounds."""
        values = np.where(integers(self.random, 0, 1, places.shape), places - size, places)
        if self.mode == "wrap":
            values = values + size * integers(self.random, -2, 2, places.shape)
        return self.with_strays(self.held(values, places), size, 10 if self.large else 2)

    def with_strays(self, values: Array, size: int, one_in: int) -> Array:
        strays = np.array(stray_values(size, self.dtype), self.dtype)
        if self.mode != "raise" and strays.size:
            chosen = integers(self.random, 0, one_in * strays.size - 1, values.shape)
            outside = chosen < strays.size
            values[outside] = strays[chosen[outside]]
        return values

    def held(self, values: Array, instead: Array) -> Array:
        """Return `values` in the dtype of indices, or `instead` where it cannot represent them."""
        bounds = np.iinfo(self.dtype)
        fits = (values >= int(bounds.min)) & (values <= min(int(bounds.max), 2**63 - 1))
        return np.where(fits, values, instead).astype(self.dtype)

    def stacked(self, columns: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """Return index tuples from columns; NumPy's `stack` would change the byte order."""
        tuples = np.zeros((*shape, len(columns)), self.dtype)
        for c, column in enumerate(columns):
            tuples[..., c] = column
        return tuples

    def axis(self, outer: tuple[int, ...], rank: int) -> int:
        return len(outer) - rank * self.often()


#: The shape of data, the arrays of indices, and the shape of the result or of updates.
Geometry = tuple[tuple[int, ...], tuple[Array, ...], tuple[int, ...]]


def _tuples(draw: _Draw, options: dict[str, Any]) -> Geometry:
    gathers = draw.kind == "gather_nd"
    batches: tuple[tuple[int, ...], ...] = ((), (), (), (2,), (5,)) if gathers else ((),)
    outer, indexed, inner = draw.axes((1, 1, 2, 3), *batches)
    if gathers:
        options["batch_dims"] = len(outer)
    shape = (*outer, *draw.points(outer, (0,) if gathers else (1, 1, 0)))
    columns = draw.places(shape, indexed)
    if (
        draw.skew is None and prod(shape) and draw.often()
    ):  # otherwise few small tuples would coincide
        begin = draw.random.randrange(prod(shape))
        for column in columns:
            column.reshape(-1)[begin:] = column.flat[0]
    values = [draw.values(column, size) for column, size in zip(columns, indexed, strict=True)]
    return outer + indexed + inner, (draw.stacked(values, shape),), shape + inner


def _elements(draw: _Draw, options: dict[str, Any]) -> Geometry:
    if draw.large:
        others = draw.one_of((), (7,), (500,), (40, 3), (2, 300))
        if draw.border:
            others = tuple(draw_size(draw.random, 300 // len(others), 1) for _ in others)
            if draw.random.randrange(6) == 0:  # columns that compete for the same cache sets
                others, draw = (1024,), replace(draw, count=2**18, size=2**19)
        before = draw.random.randint(0, len(others) - (others == (1024,)))
        outer, inner = others[:before], others[before:]
        (size,) = draw.sides(draw.size // prod(others), 1)
        if others == (1024,):
            size = min(512, np.iinfo(draw.dtype).max)
    else:
        outer, (size,), inner = draw.axes((1,))
    fewer = [
        each if draw.often() else draw.random.randint(max(min(each, 1), each - 3), each)
        for each in (*outer, *inner)
    ]
    along = max(draw.count // prod(fewer), 1) if draw.large else draw.side()
    taken = (*fewer[: len(outer)], along, *fewer[len(outer) :])
    options["axis"] = draw.axis(outer, len(taken))
    (places,) = draw.places(taken, (size,))
    return (*outer, size, *inner), (draw.values(places, size),), taken


def _slices(draw: _Draw, options: dict[str, Any]) -> Geometry:
    outer, (size,), inner = draw.axes((1,), (), (), (3,), (2, 5))
    batch = draw.random.randint(0, len(outer))
    options |= {"axis": draw.axis(outer, len(outer) + 1 + len(inner)), "batch_dims": batch}
    points = draw.points(outer)
    if draw.large and draw.often():
        points = (2, max(points[0] // 2, 1))
    (places,) = draw.places(outer[:batch] + points, (size,))
    return (*outer, size, *inner), (draw.values(places, size),), outer + points + inner


def _windows(draw: _Draw, options: dict[str, Any]) -> Geometry:
    if draw.large:
        depth, inner = draw.one_of(1, 2), draw.rest
        sizes = tuple(size + 4 for size in draw.sides(draw.size, depth))
    else:
        rank = draw.random.randint(1, 4)
        longest = 5 if rank < 3 else 3  # the loops are slow for large windows with many axes
        depth = draw.random.randint(0, rank)
        sizes = tuple(draw.random.randint(1, longest) for _ in range(rank))
        sizes, inner = sizes[:depth], sizes[depth:]
    modes = [draw.mode] * depth
    if (draw.border or not draw.large) and draw.often():
        modes = [draw.one_of(*MODES["gather_windows"]) for _ in range(depth)]
        options["mode"] = modes
    window = tuple(
        draw_size(draw.random, min(size, 40) if mode in ("raise", "clip") else 40, 1)
        if draw.border
        else draw.random.randint(1, 4)
        if draw.large
        else draw.random.randint(0, size + 2 * (mode not in ("raise", "clip")))
        for size, mode in zip(sizes, modes, strict=True)
    )
    options["window_shape"] = window
    inside = tuple(max(size - wide, 0) + 1 for size, wide in zip(sizes, window, strict=True))
    points = (max(draw.count // prod(window), 1),) if draw.large else draw.points(())
    starts = []
    for places, size, mode in zip(draw.places(points, inside), sizes, modes, strict=True):
        moved = places
        if mode != "raise":
            near = integers(draw.random, -9, 9, points)
            moved = places + near * (integers(draw.random, 0, 2, points) == 0)
        values = draw.held(moved, places % 100)
        if mode != "raise" and not draw.large:
            values = draw.with_strays(values, size, 3)
        starts.append(values)
    return sizes + inner, (draw.stacked(starts, points),), points + window + inner


def _ranges(draw: _Draw, options: dict[str, Any]) -> Geometry:
    outer, (size,), inner = draw.axes((1,), (), (3,))
    options["axis"] = draw.axis(outer, len(outer) + 1 + len(inner))
    total = draw.count // prod(outer) if draw.large else 0
    count = total // 5 if draw.large else draw.random.randint(0, 5)
    longest = size if draw.mode == "raise" else size + 9
    usual = draw_size(draw.random, 70) if draw.border else 9
    lengths = integers(draw.random, 0, min(usual, longest), count)
    if count and draw.large and draw.random.randrange(3) == 0:  # one of them does most of the work
        lengths[draw.random.randrange(count)] = min(total, size)
    (starts,) = draw.places((count,), (size,))
    if draw.mode == "raise":
        starts = np.minimum(starts, size - lengths)
    elif draw.dtype.kind == "i":
        starts = starts - integers(draw.random, 0, 9, count)
    first = draw.held(starts, starts * 0)
    last = draw.held(first.astype(np.int64) + lengths, first)
    taken = int((last.astype(np.int64) - first.astype(np.int64)).sum())
    return (*outer, size, *inner), (first, last), (*outer, taken, *inner)


_GEOMETRIES: dict[str, Callable[[_Draw, dict[str, Any]], Geometry]] = {
    "gather_nd": _tuples,
    "scatter_nd": _tuples,
    "gather_elements": _elements,
    "scatter_elements": _elements,
    "gather": _slices,
    "gather_windows": _windows,
    "gather_ranges": _ranges,
}


def draw_call(
    random: Random,
    function: str,
    size: Size = Size.SMALL,
    *,
    dtypes: Sequence[np.dtype[Any]] = (),
    index_dtypes: Sequence[np.dtype[Any]] = INDEX_DTYPES,
    modes: Sequence[str] = (),
    reductions: Sequence[str] = REDUCTIONS,
    flavours: Sequence[str] = FLAVOURS,
    skew: str = "uniform",
) -> PublicCall:
    """Draw a call whose shapes fit: usually a copy, sometimes empty or out of bounds.

    Parameters
    ----------
    random : random.Random
        Makes every choice.
    function : str
        One of `FUNCTIONS`, which may be a gradient such as "vjp.gather_nd".
    size : Size
        How large the arrays are.
    dtypes, index_dtypes, modes, reductions : sequence
        What to draw from. By default these are all dtypes and modes of the function; reductions
        that a dtype does not have are left out.
    flavours : sequence of str
        What to draw from, unless the call is large: "value" has no empty axes, "empty" may have
        some, and "stray" has one to three entries out of bounds with mode "raise".
    skew : str
        The key of `SKEWS` that spreads the index tuples of a large call.

    Returns
    -------
    PublicCall
        Arrays of any layout. The elements that are copied all differ, also data from updates.

    Examples
    --------
    >>> from random import Random
    >>> from tests.definitions.calls import expected
    >>> from tests.definitions.draws import draw_call
    >>> call = draw_call(Random(0), "gather", flavours=["value"])
    >>> expected(call).size > 0
    True
    """
    kind, border = function.removeprefix("vjp."), size is Size.BORDER
    large = border or size is Size.LARGE
    of_gradient, scatters = kind != function, kind in SCATTERS
    fitted = of_gradient or kind in ("gather_windows", "gather_ranges")
    flavour = "value" if large or fitted else random.choice(flavours)
    strays = flavour == "stray"
    fixed = strays or (of_gradient and kind != "gather_windows")
    mode = "raise" if fixed else random.choice(modes or MODES[kind])
    moves = not of_gradient and not scatters
    if not dtypes:
        moves |= (
            scatters
            and large
            and random.randrange(10) < (5 if border else 3)
            and "none" in reductions
        )
        of_numbers = LARGE_NUMBERS[of_gradient:] if large else NUMBER_DTYPES[of_gradient:]
        dtypes = (_LARGE_DATA if large else DATA_DTYPES) if moves else of_numbers
    dtype = random.choice(dtypes)
    allowed = [name for name in reductions if name not in _NOT_OF[kind_of(dtype)]]
    reduction = "none" if moves else "add" if of_gradient else random.choice(allowed)
    rest = random.choice(((), (), (), (3,), (17,), (2, 3), (300,))) if large else ()
    count, sides = (int(20_000 * 15 ** random.random()), random.choice(_SIDES)) if large else (0, 0)
    if border:
        is_shared = random.randrange(2) == 0  # enough work for several threads
        row = max(draw_size(random, 4096, 64 * is_shared) // dtype.itemsize, 1)  # in elements
        rest = random.choice(((), (row,), (row,), (random.randint(2, 5), row)))
        count, sides = (draw_size(random, _MOST // prod(rest), 1) for _ in range(2))
        if is_shared:
            count = (_MOST // prod(rest) >> random.randrange(3)) + random.randrange(2)
    draw = _Draw(
        random=random,
        kind=kind,
        large=large,
        border=border,
        flavour=flavour,
        mode=mode,
        dtype=random.choice(index_dtypes),
        skew=skew if large else None,
        count=min(count, 600_000 // prod(rest)),
        size=min(sides, 1_000_000 // prod(rest)),
        rest=rest,
    )
    options: dict[str, Any] = {} if of_gradient and mode == "raise" else {"mode": mode}
    shape, named, other_shape = _GEOMETRIES[kind](draw, options)
    if strays and named[0].size:
        sizes = shape[options.get("batch_dims", 0) :] if kind.endswith("_nd") else ()
        for _ in range(random.randint(1, 3)):
            at = random.randrange(named[0].size)
            addressed = sizes[at % named[0].shape[-1]] if sizes else shape[options["axis"]]
            named[0].flat[at] = random.choice(stray_values(addressed, draw.dtype))
    layouts = _BORDER_LAYOUTS if border else _LARGE_LAYOUTS if large else ANY_LAYOUT
    of_indices = UNSHARED if border or (fitted and not large) else layouts
    indices, *stops = (arranged(random, each, of_indices) for each in named)
    if "fill" in options.get("mode", ()) and not of_gradient and draw.often():
        element = np.zeros((), dtype)
        element[()] = distinct((5,), dtype)[4]
        options["fill_value"] = element if moves_as_bytes(dtype) else element[()]
    if scatters:
        options["reduction"] = reduction
        if reduction != "none" and draw.often():
            options["use_init_val"] = False

    environment = draw_environment(random, 2 if large else 6)
    shapes = [other_shape] if of_gradient else [shape, other_shape] if scatters else [shape]
    if reduction == "none" and not of_gradient:
        elements = distinct((sum(map(prod, shapes)),), dtype)
        parts = (elements[: prod(shape)], elements[prod(shape) :])
        split = [part.reshape(each) for part, each in zip(parts, shapes, strict=False)]
    else:
        rng = random_generator(random)
        factor, inexact = reduction == "mul", environment is not None
        split = [_values(rng, each, dtype, size, factor, inexact) for each in shapes]
    data, *updates = (arranged(random, each, layouts) for each in split)
    return PublicCall(
        function=function,
        data=data,
        indices=indices,
        stops=stops[0] if stops else None,
        updates=updates[0] if updates else None,
        options=options,
        data_shape=shape if of_gradient else None,
        environment=environment,
        omits_defaults=random.random() < 0.5,
    )


def _values(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    size: Size,
    factor: bool,
    inexact: bool,
) -> Array:
    if size in (Size.BORDER, Size.LARGE):
        return _ordered(rng, shape, dtype, factor)
    if size is Size.WILD:
        return _wild(rng, shape, dtype)
    return numbers(shape, dtype, int(rng.integers(2**32)), inexact)
