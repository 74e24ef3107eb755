"""Sizes, offsets and indices at the limits of integer types, without using as much memory.

Arrays of size zero, of repeated elements and of sparse files can have any shape and strides.
test_two_gib.py has arrays that really exceed 2 GiB.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from ndgather.published import operator
from tests.definitions import reference
from tests.definitions.calls import assert_same_elements

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
EDGES = sorted(
    {
        sign * (2**bits + step)
        for bits in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    }
)
SIZES = (1, 5, 200, 40_000)  # 200 and 40,000 exceed the narrow signed types
GATHER_MODES = ("raise", "wrap", "clip", "fill")
SCATTER_MODES = ("raise", "wrap", "clip", "drop")


def edges(dtype, size):
    """Return the limits of all integer types and of the axis, if `dtype` can represent them."""
    limits = np.iinfo(dtype)
    near = [size - 1, size, size + 1, -size + 1, -size, -size - 1]
    return [
        value for value in sorted({*EDGES, *near}) if int(limits.min) <= value <= int(limits.max)
    ]


def outside(value, size):
    return not -size <= value < size


def gather_nd(data, indices, **more):
    return ndgather.gather_nd(data, indices[:, np.newaxis], **more)


def scatter_nd(data, indices, updates, **more):
    return ndgather.scatter_nd(data, indices[:, np.newaxis], updates, **more)


GATHERS = {
    "gather_nd": gather_nd,
    "gather_elements": ndgather.gather_elements,
    "gather": ndgather.gather,
}
SCATTERS = {"scatter_nd": scatter_nd, "scatter_elements": ndgather.scatter_elements}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("mode", GATHER_MODES)
@pytest.mark.parametrize("function", GATHERS)
def test_gathers_at_the_limits_of_every_integer_type(function, mode, dtype):
    call = GATHERS[function]
    for size in SIZES:
        data = np.arange(1, size + 1, dtype=np.uint16)
        values = edges(dtype, size)
        if mode == "raise":
            for value in values:
                if outside(value, size):
                    with pytest.raises(IndexOutOfBoundsError) as caught:
                        call(data, np.array([0, value], dtype))
                    assert (caught.value.value, caught.value.size) == (value, size)
                    assert caught.value.position[0] == 1
            values = [value for value in values if not outside(value, size)]
        desired = reference.gather(data, np.array(values, dtype), mode=mode)
        assert_same_elements(call(data, np.array(values, dtype), mode=mode), desired)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("mode", SCATTER_MODES)
@pytest.mark.parametrize("function", SCATTERS)
def test_scatters_at_the_limits_of_every_integer_type(function, mode, dtype):
    call = SCATTERS[function]
    for size in SIZES:
        data = np.arange(size)
        values = edges(dtype, size)
        if mode == "raise":
            for value in values:
                if outside(value, size):
                    with pytest.raises(IndexOutOfBoundsError) as caught:
                        call(data, np.array([0, value], dtype), np.array([7, 8]), out=data)
                    assert (caught.value.value, caught.value.size) == (value, size)
                    assert_same_elements(data, np.arange(size))
            values = [value for value in values if not outside(value, size)]
        indices, updates = np.array(values, dtype), np.arange(len(values)) - 1_000_000
        desired = reference.scatter_elements(data, indices, updates, mode=mode)
        assert_same_elements(call(data, indices, updates, mode=mode), desired)


AXES = [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 3, 2**53 + 1, 2**62, 2**63 - 1]


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
@pytest.mark.parametrize("size", AXES)
def test_axes_of_any_size_over_empty_slices(size, dtype):
    """Nothing is copied, but each index is checked against the size of its axis."""
    data, updates = np.zeros((size, 0), np.int8), np.zeros((1, 0), np.int8)
    limits = np.iinfo(dtype)
    for value in (0, size - 1, size, size + 1, -size, -size - 1, *EDGES):
        if not int(limits.min) <= value <= int(limits.max):
            continue
        indices = np.array([[value]], dtype)
        for call in (
            lambda indices=indices: ndgather.gather_nd(data, indices),
            lambda indices=indices: ndgather.gather(data, indices[0]),
            lambda indices=indices: ndgather.scatter_nd(data, indices, updates)[:1],
        ):
            if outside(value, size):
                with pytest.raises(IndexOutOfBoundsError) as caught:
                    call()
                assert (caught.value.value, caught.value.size) == (value, size)
            else:
                assert call().shape == (1, 0)


@pytest.mark.parametrize("size", AXES)
def test_axes_of_any_size_over_one_element(size):
    data = np.broadcast_to(np.int8(5), (size,))
    inside = np.array([0, size - 1, -size, -1])
    five = np.full(4, 5, np.int8)
    assert_same_elements(ndgather.gather(data, inside), five)
    assert_same_elements(ndgather.gather_nd(data, inside[:, np.newaxis]), five)
    assert_same_elements(ndgather.gather_elements(data, inside), five)
    over = [min(size, 2**63 - 1), 2**63 - 1, -(2**63), max(-size - 1, -(2**63))]
    for mode in ("wrap", "clip"):
        assert_same_elements(ndgather.gather(data, np.array(over), mode=mode), five)
    filled = np.array([0 if outside(value, size) else 5 for value in over], np.int8)
    assert_same_elements(ndgather.gather(data, np.array(over), mode="fill"), filled)


# Offsets in a sparse file: only written pages occupy space.
ROWS = {
    "2**31": (2**16, 2**15),
    "2**32": (2**17 + 1, 2**15),
    "2**33": (5, 2**33 // 5 + 1),
    "2**35": (2**20 + 1, 2**15),
}


@pytest.fixture
def file_with_holes(tmp_path):
    def mapped(shape):
        path = tmp_path / "holes"
        with path.open("wb") as file:
            file.truncate(int(np.prod(shape)))
        if path.stat().st_blocks > 2**14:
            pytest.skip("the file system fills holes")
        return np.memmap(path, np.int8, "r+", shape=shape)

    return mapped


@pytest.mark.skipif(sys.platform == "win32", reason="files have no holes there")
@pytest.mark.parametrize("view", ["as it is", "backwards", "columns first"])
@pytest.mark.parametrize("name", ROWS)
def test_byte_offsets_beyond_32_bits(file_with_holes, name, view):
    whole = np.asarray(file_with_holes(ROWS[name]))
    data = {
        "as it is": whole,
        "backwards": whole[::-1, ::-1],
        "columns first": whole.T,
    }[view]
    rows, columns = data.shape
    places = [
        (row, column)
        for row in (0, rows // 2, rows - 1, -rows, -2)
        for column in (0, columns // 2 + 1, columns - 1, -columns)
    ]
    marks = np.arange(1, len(places) + 1, dtype=np.int8)
    indices = np.array(places)
    assert ndgather.scatter_nd(data, indices, marks, out=data) is data
    stands = {(r % rows, c % columns): mark for (r, c), mark in zip(places, marks, strict=True)}
    desired = np.array([stands[r % rows, c % columns] for r, c in places], np.int8)
    assert_same_elements(data[tuple(indices.T)], desired)  # by NumPy
    assert_same_elements(ndgather.gather_nd(data, indices), desired)
    for (r, c), value in zip(places, desired, strict=True):
        row = data[:, c % columns]
        assert_same_elements(ndgather.gather(row, [r]), np.array([value]))
        assert_same_elements(ndgather.gather_elements(row, np.array([r])), np.array([value]))
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather_nd(data, [[rows, 0]])
    ndgather.scatter_nd(data, indices, -marks, reduction="min", out=data)
    assert ndgather.gather_nd(data, indices).max() < 0


def nothing(shape, dtype=np.int8):
    """Return an array of zeros at a single address."""
    return np.broadcast_to(np.zeros((), dtype), shape)


# shapes of data and indices whose result exceeds the named limit
PRODUCTS = {
    "bytes of 2**47": ((2**40,), (2**7, 0)),
    "2**62 elements of one byte": ((2**31,), (2**31, 0)),
    "2**63 exactly": ((2**32,), (2**31, 0)),
    "2**63 + 2**31": ((2**31,), (2**32 + 1, 0)),
    "2**64: zero once it is cut": ((2**32,), (2**32, 0)),
    "2**64 + 2**32: small once it is cut": ((2**32,), (2**32 + 1, 0)),
    "2**66 over four axes": ((2**33, 2**11), (2**11, 2**11, 0)),
    "2**96": ((2**48,), (2**48, 0)),
    "2**124": ((2**62,), (2**62, 0)),
}


@pytest.mark.parametrize("dtype", ["i1", "f8", "V3", "V16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_shape_products_too_large_for_memory(name, dtype):
    shape, places = PRODUCTS[name]
    item = np.dtype(dtype).itemsize
    shape = (*shape[:-1], max(1, shape[-1] // item)) if dtype != "i1" else shape
    data, indices = nothing(shape, dtype), np.zeros(places, np.int8)
    with pytest.raises(MemoryError):
        ndgather.gather_nd(data, indices)


RESULTS = {
    "gather_nd": lambda: ndgather.gather_nd(nothing((3, 2**40)), nothing((2**22, 1))),
    "gather_nd, indices to convert": lambda: ndgather.gather_nd(
        nothing((3, 2**40)), nothing((2**61, 1), ">i2")
    ),
    "gather": lambda: ndgather.gather(nothing((3, 2**40)), nothing(2**22)),
    "gather, inner axis": lambda: ndgather.gather(nothing((2**40, 3)), nothing(2**22), 1),
    "gather_elements": lambda: ndgather.gather_elements(
        nothing((2**40, 3)), nothing((2**40, 2**20)), 1
    ),
    "gather of objects": lambda: ndgather.gather(nothing((3, 2**57), "O"), nothing(2**22)),
    "gather, filled": lambda: ndgather.gather(nothing((3, 2**40)), nothing(2**22), mode="fill"),
    "scatter_nd": lambda: ndgather.scatter_nd(nothing(2**61), [[0]], nothing(1)),
    "scatter_nd, mean": lambda: ndgather.scatter_nd(
        nothing(2**59, "f4"), [[0]], nothing(1, "f4"), reduction="mean"
    ),
    "scatter_nd, from the identity": lambda: ndgather.scatter_nd(
        nothing(2**60, "i4"), [[0]], nothing(1, "i4"), reduction="add", use_init_val=False
    ),
    "scatter_nd, other byte order": lambda: ndgather.scatter_nd(
        nothing(2**59, ">i4"), [[0]], nothing(1, ">i4"), reduction="add"
    ),
    "scatter_elements": lambda: ndgather.scatter_elements(nothing(2**61), [0], nothing(1)),
    "ONNX GatherND": lambda: operator("GatherND")(nothing((3, 2**40)), nothing((2**20, 1), "i8")),
    "ONNX ScatterND": lambda: operator("ScatterND")(
        nothing(2**61), nothing((1, 1), "i8"), nothing(1)
    ),
    "OpenVINO Gather": lambda: operator("Gather", domain="openvino")(
        nothing((3, 2**40)), nothing(2**22), 0
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_too_large_for_memory(name):
    with pytest.raises(MemoryError):
        RESULTS[name]()


def test_memory_is_allocated_before_anything_is_read():
    """Bad indices are not even read, and the caller's arrays are unchanged."""
    data = nothing((3, 2**40))
    indices = np.full((2**18, 1), 99, np.int8)
    with pytest.raises(MemoryError):
        ndgather.gather_nd(data, indices)
    with pytest.raises(MemoryError):
        ndgather.scatter_nd(nothing(2**61), np.array([[-1]]), np.ones(1, np.int8))
    assert_same_elements(indices, np.full((2**18, 1), 99, np.int8))


# Each argument in turn has different strides but the same values.
def backwards(array):
    return np.ascontiguousarray(array[::-1])[::-1] if array.ndim else array


def with_gaps(array):
    room = np.zeros((*array.shape, 2), array.dtype)
    room[..., 0] = array
    return room[..., 0]


def columns_first(array):
    return np.asfortranarray(array)


def huge_over_one(array):
    """Return a view whose leading axis of size one has a huge stride."""
    strides = (2**62, *array.strides[1:])
    return np.lib.stride_tricks.as_strided(array, array.shape, strides)


LAYOUTS = (backwards, with_gaps, columns_first)


def names(layouts):
    return "-".join(layout.__name__ for layout in layouts)


ARGUMENTS = {
    "gather_nd": (reference.gather_nd, {}),
    "gather_elements": (reference.gather_elements, {"axis": 1}),
    "gather": (reference.gather, {"axis": 1}),
    "scatter_nd": (reference.scatter_nd, {"reduction": "add"}),
    "scatter_elements": (reference.scatter_elements, {"axis": 1, "reduction": "add"}),
}


def arguments_of(function):
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    if function.endswith("_nd"):
        indices = np.array([[0, 1], [-1, -4], [2, 2], [0, 1]])
        updates = np.arange(4, dtype=np.float32) + 100
    else:
        indices = np.array([[0, -1, 2], [3, 1, 0], [-4, 2, 2]])
        updates = np.arange(9, dtype=np.float32).reshape(3, 3) + 100
    return [data, indices, *([updates] if function.startswith("scatter") else [])]


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, repeat=3)), ids=names)
@pytest.mark.parametrize("function", ARGUMENTS)
def test_strides_of_every_argument(function, layouts):
    by_loops, options = ARGUMENTS[function]
    plain = arguments_of(function)
    desired = by_loops(*plain, **options)
    arranged = [layout(each) for layout, each in zip(layouts, plain, strict=False)]
    call = getattr(ndgather, function)
    assert_same_elements(call(*arranged, **options), desired)
    out = layouts[2](np.zeros(desired.shape, desired.dtype))
    assert call(*arranged, **options, out=out) is out
    assert_same_elements(out, desired)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (function, argument)
        for function in ARGUMENTS
        for argument in range(3 if function.startswith("scatter") else 2)
    ],
)
def test_strides_of_zero(function, argument):
    """All rows of one argument are the same memory."""
    by_loops, options = ARGUMENTS[function]
    plain = arguments_of(function)
    plain[argument] = np.broadcast_to(plain[argument][:1], plain[argument].shape)
    desired = by_loops(*(each.copy() for each in plain), **options)
    assert_same_elements(getattr(ndgather, function)(*plain, **options), desired)


@pytest.mark.parametrize("function", ARGUMENTS)
def test_huge_strides_over_one_element(function):
    by_loops, options = ARGUMENTS[function]
    plain = [each[:1] for each in arguments_of(function)]
    plain[1] = np.where((plain[1] >= -1) & (plain[1] < 1), plain[1], 0)
    desired = by_loops(*plain, **options)
    strided = [huge_over_one(each) for each in plain]
    assert_same_elements(getattr(ndgather, function)(*strided, **options), desired)
    out = huge_over_one(np.zeros(desired.shape, desired.dtype))
    getattr(ndgather, function)(*strided, **options, out=out)
    assert_same_elements(out.copy(), desired)


HUGE = (2**62, -(2**62), 2**63 - 1, -(2**63))


@pytest.mark.parametrize("stride", HUGE)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 0, 5), (0, 0)])
def test_huge_strides_over_nothing(shape, stride):
    """Strides of an empty array may have any value and must not be used in arithmetic."""
    empty = np.lib.stride_tricks.as_strided(np.zeros(0), shape, (stride,) * len(shape))
    none = np.lib.stride_tricks.as_strided(np.zeros(0, int), (0, 3), (stride, stride))
    plain = np.arange(27.0).reshape(3, 3, 3)
    assert ndgather.gather_nd(plain, none).shape == (0,)
    assert ndgather.gather_elements(plain[0], none, 0).shape == (0, 3)
    assert ndgather.gather(plain, none).shape == (0, 3, 3, 3)
    whole = np.zeros((shape[0] or 1, 0), np.int64)
    assert ndgather.gather_nd(empty, whole).shape == (whole.shape[0], *shape)
    out = np.lib.stride_tricks.as_strided(np.zeros(0), (0,), (stride,))
    assert ndgather.gather_nd(plain, none, out=out) is out
    result = ndgather.scatter_nd(plain, none, np.zeros(0), out=plain)
    assert_same_elements(result, np.arange(27.0).reshape(3, 3, 3))
    assert (
        ndgather.scatter_nd(empty, np.zeros((0, 1), int), np.zeros((0, *shape[1:]))).shape == shape
    )
