"""Hypothesis strategies that draw calls of the gather functions.

Most calls drawn really copy something; some are empty, some hold an index out of bounds. Draw
with ``@given(gather_nd_calls())`` and compare with `tests.definitions.calls.expected`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.definitions.calls import LAYOUTS, Call, moves_as_bytes, strided

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "DATA_DTYPES",
    "INDEX_DTYPES",
    "MODES",
    "arranged",
    "arranged_in",
    "calls",
    "distinct",
    "gather_calls",
    "gather_elements_calls",
    "gather_nd_calls",
    "kind_of",
]

Array = NDArray[Any]
AnyCall = TypeVar("AnyCall", bound=Call)

#: The names of the modes of gathers.
MODES = ("raise", "wrap", "clip", "fill")  # written out: a mode that is dropped is missed

# Most calls copy something.
FLAVOURS = ("value",) * 7 + ("empty",) * 2 + ("stray",) * 2

#: The types of indices, in both byte orders.
INDEX_DTYPES = tuple(
    np.dtype(order + kind + width)
    for order in "=>"
    for kind in "iu"
    for width in "1248"
    if order == "=" or width != "1"
)

#: Types of elements of every width and kind, some of them structured or in the other byte order.
DATA_DTYPES: tuple[np.dtype[Any], ...] = (
    *(np.dtype(char) for char in "?bhiqBHIQefdgFD"),
    *map(np.dtype, ("M8[s]", "m8[ns]", "S1", "S5", "U3", "V1", "V3", "V7", "V13", "O")),
    *map(np.dtype, (">i2", ">i4", ">f8", ">c16", ">M8[D]", ">U2")),
    np.dtype([("number", "u1"), ("value", "f8")]),
    np.dtype([("number", "u1"), ("value", ">i4")], align=True),
    np.dtype([("corners", "i2", (3,)), ("name", "S3")]),
    np.dtypes.StringDType(),
)


# Written out, so that a kind of numbers that the package drops is missed.
_KINDS = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}
_KINDS_OF_ML = {"bfloat16": "f", "int2": "i", "int4": "i", "uint2": "i", "uint4": "i"}


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return b, i, f or c for booleans, integers, floats and complex numbers; "" for the rest."""
    if dtype.isbuiltin == 2:  # of ml_dtypes
        return _KINDS_OF_ML.get(dtype.name, "f")
    return _KINDS.get(dtype.kind, "")


def distinct(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array whose elements differ as much as their width lets them.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : numpy.dtype
        One of `DATA_DTYPES`, or another type without Python objects in records.

    Returns
    -------
    array
        In C order; the same for equal arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.definitions.strategies import distinct
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
    # An odd factor makes k -> k * factor one-to-one in every number of bytes.
    numbers = (np.arange(size, dtype="<u8") + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    stored = np.resize(numbers.view(np.uint8).reshape(size, 8).T, (max(width, 1), size)).T
    return np.ndarray(shape, dtype, bytearray(stored[:, :width].tobytes() or b"\0"))


@st.composite
def arranged(
    draw: st.DrawFn, values: Array, layouts: Sequence[str] = (*LAYOUTS, "C", "mixed")
) -> Array:
    """Draw an array equal to `values` in another layout.

    Parameters
    ----------
    values : array
        Its elements.
    layouts : sequence of str
        Names of `LAYOUTS`, and ``"mixed"``, to draw from.

    Returns
    -------
    array
        Where an axis has stride 0, its elements are those of the first position on that axis.
    """
    layout = draw(st.sampled_from(layouts))
    if layout != "mixed":
        return LAYOUTS[layout](values)
    axes = draw(st.permutations(range(values.ndim)))
    steps = draw(st.tuples(*[st.sampled_from((1, 2, -1, -3))] * values.ndim))
    return strided(values, axes, steps, offset=draw(st.integers(0, 3)))


@st.composite
def arranged_in(
    draw: st.DrawFn, memory: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Draw an array that lies near the beginning of `memory`, as others drawn from it do.

    Parameters
    ----------
    memory : array of uint8, one axis
        What it is a view of; a case in which it does not fit there is not tried.
    shape : tuple of int
        Its shape.
    dtype : numpy.dtype
        Its type. The elements are the bytes of `memory`.
    """
    axes = draw(st.permutations(range(len(shape))))
    steps = draw(st.tuples(*[st.sampled_from((1, 1, 2, -1))] * len(shape)))
    strides = strided(np.zeros(shape, dtype), axes, steps).strides
    pairs = list(zip(shape, strides, strict=True))
    lowest = sum(min(0, (size - 1) * stride) for size, stride in pairs if size)
    highest = sum(max(0, (size - 1) * stride) for size, stride in pairs if size)
    room = memory.size - (highest - lowest + dtype.itemsize)
    assume(room >= 0)
    near = draw(st.integers(0, min(room, 64)))
    return np.ndarray(shape, dtype, memory.data, near - lowest, strides)


Geometry = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def sides(flavour: str) -> st.SearchStrategy[int]:
    return st.integers(0 if flavour == "empty" else 1, 4)


@st.composite
def gather_nd_geometry(draw: st.DrawFn, flavour: str) -> Geometry:
    side = sides(flavour)
    rank = draw(st.sampled_from((2, 3, 1, 4, 3, 2, 5, 0)))
    shape = tuple(draw(st.lists(side, min_size=rank, max_size=rank)))
    batch_dims = draw(st.integers(0, min(2, len(shape))))
    deepest = len(shape) - batch_dims
    shallowest = draw(st.sampled_from((1, 1, 1, 1, 1, 0)))
    depth = draw(st.integers(min(shallowest, deepest), deepest))
    middle = draw(st.lists(side, max_size=2))
    return shape, (*shape[:batch_dims], *middle, depth), {"batch_dims": batch_dims}


@st.composite
def gather_elements_geometry(draw: st.DrawFn, flavour: str) -> Geometry:
    side = sides(flavour)
    shape = tuple(draw(st.lists(side, min_size=1, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    taken = [
        draw(side if d == axis % len(shape) else st.just(size) | st.integers(min(size, 1), size))
        for d, size in enumerate(shape)
    ]
    return shape, tuple(taken), {"axis": axis}


@st.composite
def gather_geometry(draw: st.DrawFn, flavour: str) -> Geometry:
    side = sides(flavour)
    shape = tuple(draw(st.lists(side, min_size=1, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    batch_dims = draw(st.integers(0, axis % len(shape)))
    middle = draw(st.lists(side, max_size=2))
    return shape, (*shape[:batch_dims], *middle), {"axis": axis, "batch_dims": batch_dims}


@st.composite
def scatter_nd_geometry(draw: st.DrawFn, flavour: str) -> Geometry:
    side = sides(flavour)
    rank = draw(st.sampled_from((2, 1, 3, 4, 2, 0)))
    shape = tuple(draw(st.lists(side, min_size=rank, max_size=rank)))
    shallowest = draw(st.sampled_from((1, 1, 1, 1, 0)))
    depth = draw(st.integers(min(shallowest, rank), rank))
    middle = draw(st.lists(side, min_size=draw(st.sampled_from((1, 1, 0))), max_size=2))
    return shape, (*middle, depth), {}


GEOMETRIES: dict[str, Callable[[str], st.SearchStrategy[Geometry]]] = {
    "gather_nd": gather_nd_geometry,
    "gather_elements": gather_elements_geometry,
    "gather": gather_geometry,
    "scatter_nd": scatter_nd_geometry,
    "scatter_elements": gather_elements_geometry,
}


def index_values(size: int, dtype: np.dtype[Any], *, outside: bool) -> st.SearchStrategy[int]:
    """Draw values for an axis of `size`: inside it, or anything that `dtype` holds."""
    bounds = np.iinfo(dtype)
    inside = st.integers(max(-size, int(bounds.min)), min(max(size, 1) - 1, int(bounds.max)))
    return inside | stray_values(size, dtype) if outside else inside


def stray_values(size: int, dtype: np.dtype[Any]) -> st.SearchStrategy[int]:
    """Draw values that `dtype` holds and an axis of `size`, which is small, does not."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    far = [size, -size - 1]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):  # values inside once a bit of them is lost
        far += [sign * 2**bits + near for sign in (1, -1) for near in (-1, 0, size - 1)]
    far = [value for value in far if low <= value <= high and not -size <= value < size]
    return st.sampled_from(far) | st.integers(size, min(3 * size + 1, high))


class DrawnCase(NamedTuple):
    """What is drawn first of a call; `indices` are zeros."""

    flavour: str
    data_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    indices: Array
    options: dict[str, Any]


def draw_case(
    draw: st.DrawFn,
    function: str,
    dtypes: Sequence[np.dtype[Any]],
    index_dtypes: Sequence[np.dtype[Any]],
    modes: Sequence[str],
    flavours: Sequence[str],
) -> DrawnCase:
    flavour = draw(st.sampled_from(flavours))
    mode = "raise" if flavour == "stray" else draw(st.sampled_from(modes))
    data_shape, shape, options = draw(GEOMETRIES[function](flavour))
    dtype, index_dtype = draw(st.sampled_from(dtypes)), draw(st.sampled_from(index_dtypes))
    indices = np.zeros(shape, index_dtype)
    return DrawnCase(flavour, data_shape, dtype, indices, {**options, "mode": mode})


def with_indices(draw: st.DrawFn, call: AnyCall, flavour: str) -> AnyCall:
    """Draw the entries and the layout of the indices of `call`."""
    indices = call.indices

    def size_at(position: tuple[int, ...]) -> int:
        return int(call.data.shape[call.axis_of(position)])

    for position in np.ndindex(indices.shape):
        values = index_values(size_at(position), indices.dtype, outside=call.mode != "raise")
        indices[position] = draw(values)
    if call.function == "scatter_nd" and indices.size and draw(st.booleans()):
        tuples = indices.reshape(-1, indices.shape[-1])
        tuples[draw(st.integers(0, len(tuples) - 1)) :] = tuples[0]  # or few would meet
    if flavour == "stray" and indices.size:
        strays = draw(st.lists(st.integers(0, indices.size - 1), min_size=1, max_size=3))
        for stray in strays:
            position = tuple(map(int, np.unravel_index(stray, indices.shape)))
            indices[position] = draw(stray_values(size_at(position), indices.dtype))
    return replace(call, indices=draw(arranged(indices)))


@st.composite
def calls(
    draw: st.DrawFn,
    function: str,
    *,
    dtypes: Sequence[np.dtype[Any]] = DATA_DTYPES,
    index_dtypes: Sequence[np.dtype[Any]] = INDEX_DTYPES,
    modes: Sequence[str] = MODES,
    flavours: Sequence[str] = FLAVOURS,
) -> Call:
    """Draw a well-shaped call of `function`: usually a copy, sometimes empty or out of bounds.

    Parameters
    ----------
    function : {"gather_nd", "gather_elements", "gather"}
        The name of the function.
    dtypes, index_dtypes : sequence of numpy.dtype
        The types to draw that of data and that of indices from.
    modes : sequence of str
        The modes to draw from.
    flavours : sequence of str
        What becomes of a call, to draw from: ``"value"``, a result with elements; ``"empty"``,
        axes of size 0 too; ``"stray"``, one to three entries out of bounds with mode ``"raise"``.

    Returns
    -------
    Call
        Data of up to five axes whose elements differ, and `indices`, both in any of the `LAYOUTS`.

    Examples
    --------
    >>> from hypothesis import find
    >>> from tests.definitions.calls import expected
    >>> from tests.definitions.strategies import calls
    >>> call = find(calls("gather", flavours=["value"]), lambda call: call.data.ndim == 2)
    >>> expected(call).size > 0
    True
    """
    case = draw_case(draw, function, dtypes, index_dtypes, modes, flavours)
    dtype, mode, options = case.dtype, case.options["mode"], case.options
    data = draw(arranged(distinct(case.data_shape, dtype)))
    if mode == "fill" and draw(st.booleans()):
        element = np.zeros((), dtype)
        element[()] = distinct((5,), dtype)[4]
        options["fill_value"] = element if moves_as_bytes(dtype) else element[()]

    call = Call(function=function, data=data, indices=case.indices, options=options)
    return with_indices(draw, call, case.flavour)


def gather_nd_calls(**limits: Any) -> st.SearchStrategy[Call]:
    """Draw calls of `gather_nd`; `limits` are the named arguments of `calls`."""
    return calls("gather_nd", **limits)


def gather_elements_calls(**limits: Any) -> st.SearchStrategy[Call]:
    """Draw calls of `gather_elements`; `limits` are the named arguments of `calls`."""
    return calls("gather_elements", **limits)


def gather_calls(**limits: Any) -> st.SearchStrategy[Call]:
    """Draw calls of `gather`; `limits` are the named arguments of `calls`."""
    return calls("gather", **limits)
