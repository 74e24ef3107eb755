"""Columns of large arrays, which are copied to panels, compared with NumPy; and bad entries.

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

INDEX_DTYPES = ("i8", "i4", "u4", "i2", "u8", ">i8", "i1", "u1", "u2")
THREADS = (1, 2, 4)

pytestmark = pytest.mark.unhurried


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
    return np.ndarray(shape, {1: "u1", 2: "f2", 4: "f4", 8: "i8", 16: "c16"}[width], stored.data)


def index_values(shape, sizes, dtype, mode, random):
    """Return index values of every kind for axes of `sizes`."""
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


@pytest.mark.parametrize("shape", [(1100, 2048), (300, 4096)])
def test_columns_of_many_rows(threads, shape):
    """Each element is its own flat index."""
    random, data = np.random.default_rng(0), np.arange(np.prod(shape), dtype=np.int32)
    data, places = data.reshape(shape), random.integers(0, shape[0], shape)
    columns = np.arange(shape[1])
    found = ndgather.gather_elements(data, places, 0)
    np.testing.assert_array_equal(found, places * shape[1] + columns)
    order = random.permutation(shape[0])[:, None]
    places = (order + columns) % shape[0]  # each row of a column exactly once
    scattered = ndgather.scatter_elements(np.zeros_like(data), places, data, 0)
    np.testing.assert_array_equal(np.take_along_axis(scattered, places, 0), data)
