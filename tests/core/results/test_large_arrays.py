"""Arrays above all block sizes and thread thresholds, on a grid of shapes, compared with NumPy.

The plain loops would be too slow. `expected_by_numpy` uses NumPy indexing instead, and one test
compares it with the loops on small calls.
"""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.by_numpy import expected_by_numpy
from tests.definitions.calls import (
    PublicCall,
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
    moves_as_bytes,
)
from tests.definitions.draws import DATA_DTYPES, MODES, NUMBER_DTYPES, SCATTERS
from tests.definitions.strategies import calls

WIDTHS = (1, 2, 3, 4, 5, 8, 12, 16, 24, 64, 100, 1024)
INDEX_DTYPES = ("i8", "i4", "u4", "i2", "u8", ">i8", "i1", "u1", "u2")
THREADS = (1, 2, 4)
BYTES = 1 << 21  # bytes of data; results are about as large


# Window starts may be so far out of bounds that positions overflow 64 bits.
@pytest.mark.parametrize("function", [name for name in MODES if name != "gather_windows"])
@given(data=st.data())
def test_numpy_agrees_with_the_loops(function, data):
    dtypes = NUMBER_DTYPES if function in SCATTERS else [*filter(moves_as_bytes, DATA_DTYPES)]
    call = data.draw(calls(function, dtypes=dtypes, flavours=["value"]))
    note(str(call))
    if function != "gather_ranges":
        assume(not bad_entries(call))
    same = assert_same_numbers if call.computes else assert_same_elements
    same(expected_by_numpy(call), expected(call))


def elements(shape, width, random):
    stored = random.integers(0, 256, (int(np.prod(shape)), width), np.uint8)
    kind = {1: "u1", 2: "f2", 4: "f4", 8: "i8", 16: "c16", 64: "U16", 24: "S24"}.get(width)
    if kind == "U16":
        stored[:, 1::4] = stored[:, 2::4] = stored[:, 3::4] = 0  # code points below 256
    return np.ndarray(shape, kind or f"V{width}", stored.data)


def strided(array):
    """Return the same values with gaps in memory and a reversed first axis."""
    room = np.empty((*array.shape[:-1], array.shape[-1] * 2), array.dtype)[..., ::2][::-1]
    room[...] = array
    return room


def index_values(shape, sizes, dtype, mode, random):
    """Return index values of every kind for axes of `sizes` (the last of `shape` if several)."""
    limits = np.iinfo(dtype)
    sizes = np.asarray(sizes)
    low, high = (-sizes, sizes) if mode == "raise" else (-2 * sizes, 2 * sizes)
    low, high = np.maximum(low, limits.min), np.minimum(high, min(limits.max, 2**62))
    return random.integers(low, high, shape).astype(dtype)


def compare(call, threads, *outs):
    """Compare a new result, and a result in each array of `outs`, with NumPy."""
    desired = expected_by_numpy(call)
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(threads)
    try:
        for out in (None, *outs):
            assert_same_elements(call.result(out=out), desired)
    finally:
        ndgather.set_num_threads(before)


def variants(*axes):
    """Return combinations of `axes`, each with a mode, an index type and a number of threads."""
    beside = (
        itertools.cycle(turn) for turn in (MODES["gather"], INDEX_DTYPES, (*THREADS, *THREADS, 2))
    )
    rows = zip(itertools.product(*axes), *beside, strict=False)
    return [
        pytest.param(number, *chosen, *turn, id="-".join(map(str, (*chosen, *turn))))
        for number, (chosen, *turn) in enumerate(rows)
    ]


def sides(count, rank):
    """Return a shape with about `count` elements and `rank` axes of different sizes."""
    side = max(2, int(count ** (1 / rank)))
    return tuple(max(1, side - 1 + d) for d in range(rank))


@pytest.mark.parametrize(
    ("seed", "width", "depth", "layout", "mode", "index_dtype", "threads"),
    variants(WIDTHS, range(1, 6), ("contiguous", "strided")),
)
def test_gather_nd_elements(seed, width, depth, layout, mode, index_dtype, threads):
    """Full index tuples, with and without a batch axis."""
    random = np.random.default_rng(seed)
    batch_dims = seed % 2 if depth > 1 else 0
    shape = sides(BYTES // width, depth)
    count = min(BYTES // width, 60_000)
    lead = (shape[0], count // shape[0] + 1) if batch_dims else (count,)
    data = elements(shape, width, random)
    sizes = shape[batch_dims:]
    indices = index_values((*lead, len(sizes)), sizes, index_dtype, mode, random)
    if layout == "strided":
        data, indices = strided(data), strided(indices)
    options = {"batch_dims": batch_dims, "mode": mode}
    compare(PublicCall(function="gather_nd", data=data, indices=indices, options=options), threads)


@pytest.mark.parametrize(
    ("seed", "width", "depth", "layout", "mode", "index_dtype", "threads"),
    variants(WIDTHS, range(1, 4), ("contiguous", "strided")),
)
def test_gather_nd_rows(seed, width, depth, layout, mode, index_dtype, threads):
    """Slices of `width` bytes: of one-byte elements, or of five trailing axes."""
    random = np.random.default_rng(seed)
    lead = sides(BYTES // width, depth)
    data = elements((*lead, width) if width % 2 else (*lead, 2, width // 2), 1, random)
    indices = index_values((20_000 // (1 + width // 64), depth), lead, index_dtype, mode, random)
    if layout == "strided":
        data, indices = strided(data), strided(indices)
    options = {"mode": mode, **({"fill_value": 200} if mode == "fill" else {})}
    compare(PublicCall(function="gather_nd", data=data, indices=indices, options=options), threads)


@pytest.mark.parametrize(
    ("seed", "width", "axis", "layout", "mode", "index_dtype", "threads"),
    variants(WIDTHS, ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)), ("contiguous", "strided")),
)
def test_gather_elements(seed, width, axis, layout, mode, index_dtype, threads):
    random = np.random.default_rng(seed)
    rank, axis = axis
    shape = sides(BYTES // width, rank)
    data = elements(shape, width, random)
    taken = list(shape)
    taken[axis] += 3 - 5 * (seed % 2)
    taken[axis - 1] -= 1 if rank > 1 else 0
    indices = index_values(taken, shape[axis], index_dtype, mode, random)
    if layout == "strided":
        data, indices = strided(data), strided(indices)
    options = {"axis": axis, "mode": mode}
    call = PublicCall(function="gather_elements", data=data, indices=indices, options=options)
    compare(call, threads)


@pytest.mark.parametrize(
    ("seed", "shape", "axis", "width", "mode", "index_dtype", "threads"),
    variants(((260, 4096), (900, 1000), (3, 260, 1024)), (-2,), (1, 2, 4, 8, 16)),
)
def test_gather_elements_along_columns(seed, shape, axis, width, mode, index_dtype, threads):
    """Each column has about as many indices as rows, and its rows are far apart in memory."""
    random = np.random.default_rng(seed)
    data = elements(shape, width, random)
    for rows, columns in ((shape[-2], shape[-1]), (shape[-2] * 2, shape[-1] - 3)):
        taken = (*shape[:-2], rows, columns)
        indices = index_values(taken, shape[-2], index_dtype, mode, random)
        options = {"axis": axis, "mode": mode}
        call = PublicCall(function="gather_elements", data=data, indices=indices, options=options)
        compare(call, threads, np.asfortranarray(np.zeros(taken, data.dtype)))


@pytest.mark.parametrize(
    ("seed", "shape", "width", "mode", "index_dtype", "threads"),
    variants(((4096, 260), (1000, 900), (3, 1024, 260)), (1, 2, 4, 8, 16)),
)
def test_gather_elements_along_rows_of_a_transposed_array(
    seed, shape, width, mode, index_dtype, threads
):
    """Like along columns, but adjacent columns of data are far apart in the other arrays."""
    random = np.random.default_rng(seed)
    data = elements((*shape[:-2], shape[-1], shape[-2]), width, random).swapaxes(-1, -2)
    for rows, columns in ((shape[-2], shape[-1]), (shape[-2] - 3, shape[-1] * 2)):
        taken = (*shape[:-2], rows, columns)
        indices = index_values(taken, shape[-1], index_dtype, mode, random)
        call = PublicCall(
            function="gather_elements",
            data=data,
            indices=indices,
            options={"axis": -1, "mode": mode},
        )
        compare(call, threads)


@pytest.mark.parametrize(
    ("seed", "width", "axis", "layout", "mode", "index_dtype", "threads"),
    variants(WIDTHS, ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)), ("contiguous", "strided")),
)
def test_gather(seed, width, axis, layout, mode, index_dtype, threads):
    random = np.random.default_rng(seed)
    rank, axis = axis
    shape = sides(BYTES // width, rank)
    data = elements(shape, width, random)
    batch_dims = seed % (axis + 1)
    taken = (*shape[:batch_dims], shape[axis] // 2 + 1)
    indices = index_values(taken, shape[axis], index_dtype, mode, random)
    if layout == "strided":
        data, indices = strided(data), strided(indices)
    options = {"axis": axis, "batch_dims": batch_dims, "mode": mode}
    compare(PublicCall(function="gather", data=data, indices=indices, options=options), threads)


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 129, 255, 256, 257, 70_001])
def test_single_bad_entry_is_found_anywhere(function, count, threads):
    """The bad entry is the first, the last, or at the edge of a block."""
    data, good = np.arange(1000), np.arange(count) % 1000
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(threads)
    try:
        for place in {0, count // 3, count // 2, max(count - 2, 0), count - 1}:
            for value in (1000, -1001, 2**62):
                indices = good.copy()
                indices[place] = value
                entry = (place,) if function != "gather_nd" else (place, 0)
                indices = indices.reshape(count, 1) if function == "gather_nd" else indices
                with pytest.raises(IndexOutOfBoundsError) as caught:
                    getattr(ndgather, function)(data, indices)
                error = caught.value
                assert (error.position, error.value, error.count) == (entry, value, 1)
    finally:
        ndgather.set_num_threads(before)


COUNT = 9_000_000  # elements of 4 bytes
LOOKS = 60_000


@pytest.fixture(scope="module")
def numbers():
    """Return an array in which each element is its own flat index."""
    return np.arange(COUNT, dtype=np.int32)


def random_places(size, count=LOOKS):
    return np.random.default_rng(count).integers(0, size, count)


@pytest.mark.parametrize("width", [1, 3, 25, 256, 300])
def test_rows(numbers, threads, width):
    rows = numbers[: COUNT // width * width].reshape(-1, width)
    places = random_places(len(rows), LOOKS // width + 1000)
    found = ndgather.gather_nd(rows, places[:, None])
    np.testing.assert_array_equal(found, places[:, None] * width + np.arange(width))


def test_slices_with_gaps(numbers, threads):
    rows = numbers.reshape(-1, 12)[:, ::3]
    places = random_places(len(rows))
    found = ndgather.gather_nd(rows, places[:, None])
    np.testing.assert_array_equal(found, places[:, None] * 12 + [0, 3, 6, 9])


@pytest.mark.parametrize("columns", [5, 600])
def test_elements(numbers, threads, columns):
    data = numbers.reshape(-1, columns)
    places = random_places(len(data)).reshape(-1, columns)
    found = ndgather.gather_elements(data, places)
    np.testing.assert_array_equal(found, places * columns + np.arange(columns))


@pytest.mark.parametrize("beyond", [COUNT // 10, COUNT // 5000])
def test_some_elements_are_filled(numbers, threads, beyond):
    places = random_places(COUNT + beyond)
    found = ndgather.gather_nd(numbers, places[:, None], mode="fill", fill_value=-7)
    np.testing.assert_array_equal(found, np.where(places < COUNT, places, -7))


def test_out_of_bounds_entry_is_named(numbers, threads):
    places = random_places(COUNT)
    places[LOOKS - 3] = COUNT
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(numbers, places[:, None])
    assert f"indices[{LOOKS - 3}, 0] = {COUNT}" in str(caught.value)


@pytest.mark.parametrize("mode", ["raise", "drop"])
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("width", [1, 4, 40])
def test_scatters(numbers, threads, width, reduction, mode):
    rows = numbers.reshape(-1, width).copy()
    # Some targets repeat soon, and some much later.
    places = random_places(len(rows), LOOKS // 2)
    places = np.concatenate([places, places[::-1], np.repeat(places[:500], 3)])
    updates = np.arange(places.size * width, dtype=np.int32).reshape(-1, width)
    inside = np.ones(len(places), bool)
    if mode == "drop":
        inside[::7] = False
    indices = np.where(inside, places, len(rows))[:, None]
    expected = rows.copy()
    if reduction == "add":
        np.add.at(expected, places[inside], updates[inside])
    else:
        last = dict(zip(places[inside].tolist(), np.flatnonzero(inside).tolist(), strict=True))
        expected[list(last)] = updates[list(last.values())]
    ndgather.scatter_nd(rows, indices, updates, reduction=reduction, mode=mode, out=rows)
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatters_of_elements(numbers, threads, reduction):
    data = numbers.reshape(-1, 6).copy()
    places = random_places(len(data)).reshape(-1, 6)
    updates = np.arange(places.size, dtype=np.int32).reshape(places.shape)
    expected = data.copy()
    for column in range(6):
        if reduction == "add":
            np.add.at(expected[:, column], places[:, column], updates[:, column])
        else:
            for place, update in zip(places[:, column], updates[:, column], strict=True):
                expected[place, column] = update
    ndgather.scatter_elements(data, places, updates, reduction=reduction, out=data)
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize("shape", [(1100, 2048), (300, 4096)])
def test_columns_of_many_rows(numbers, threads, shape):
    data = numbers[: shape[0] * shape[1]].reshape(shape)
    places = random_places(shape[0], data.size).reshape(shape)
    columns = np.arange(shape[1])
    found = ndgather.gather_elements(data, places, 0)
    np.testing.assert_array_equal(found, places * shape[1] + columns)
    order = np.argsort(random_places(shape[0], shape[0]), kind="stable")[:, None]
    places = (order + columns) % shape[0]  # each row of a column exactly once
    scattered = ndgather.scatter_elements(np.zeros_like(data), places, data, 0)
    np.testing.assert_array_equal(np.take_along_axis(scattered, places, 0), data)
