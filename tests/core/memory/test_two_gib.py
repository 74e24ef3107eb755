"""Arrays of more than 2**31 elements: no offset, count or index is truncated to 32 bits.

The arrays consist of bytes that are mostly zero, so only touched pages use memory.
"""

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import assert_same_elements

pytestmark = pytest.mark.slow

SIZE = 2**31 + 8
PLACES = np.array([0, 1, 2**31 - 1, 2**31, 2**31 + 1, SIZE - 1, -1, -SIZE, -(2**31)])
MARKS = np.arange(1, PLACES.size + 1, dtype=np.int8)


@pytest.fixture(scope="module")
def line():
    data = np.zeros(SIZE, np.int8)
    for place, mark in zip(PLACES, MARKS, strict=True):
        data[place] = mark
    return data


def marks(places):
    """Return the value at each of `places`: the last mark written there."""
    stand = {int(place) % SIZE: mark for place, mark in zip(PLACES, MARKS, strict=True)}
    return np.array([stand[int(place) % SIZE] for place in places], np.int8)


@pytest.mark.parametrize("dtype", ["i8", "u8", "u4", "i4"])
def test_one_axis(line, dtype):
    limits = np.iinfo(dtype)
    places = PLACES[(limits.min <= PLACES) & (limits.max >= PLACES)]
    indices, desired = places.astype(dtype), marks(places)
    assert_same_elements(ndgather.gather_nd(line, indices[:, np.newaxis]), desired)
    assert_same_elements(ndgather.gather_elements(line, indices), desired)
    assert_same_elements(ndgather.gather(line, indices), desired)


@pytest.mark.parametrize("value", [SIZE, -SIZE - 1, 2**32, 2**32 + 1, -(2**32), 2**63 - 1])
def test_one_axis_out_of_bounds(line, value):
    for call, indices in ((ndgather.gather_nd, [[0], [value]]), (ndgather.gather, [0, value])):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call(line, indices)
        assert (caught.value.value, caught.value.size) == (value, SIZE)


def test_backwards(line):
    data, places = line[::-1], PLACES[PLACES >= 0]
    assert_same_elements(ndgather.gather(data, SIZE - 1 - places), marks(places))


def test_two_axes():
    """The flat index of an element exceeds 2**31, although each index is small."""
    data = np.zeros((65537, 32769), np.int8)
    places = [(0, 0), (65535, 32768), (65536, 0), (65536, 32768), (-1, -2), (32768, 1)]
    for mark, place in enumerate(places, 1):
        data[place] = mark
    found = ndgather.gather_nd(data, np.array(places))
    assert_same_elements(found, np.arange(1, len(places) + 1, dtype=np.int8))
    rows = ndgather.gather_nd(data, [[65536], [-2]])
    assert_same_elements(rows, data[-1:-3:-1].copy())
    columns = ndgather.gather(data, [32768, 0], axis=1)
    assert_same_elements(columns, data[:, [32768, 0]])


def test_three_batches():
    data = np.zeros((3, 2**30), np.int8)
    places = np.array([[2**30 - 1, 0], [-1, 5], [2**30 - 1, -(2**30)]])
    for batch in range(3):
        for column in range(2):
            data[batch, places[batch, column]] = 10 * batch + column + 1
    desired = np.array([[1, 2], [11, 12], [21, 22]], np.int8)
    assert_same_elements(ndgather.gather_nd(data, places[..., np.newaxis], batch_dims=1), desired)
    assert_same_elements(ndgather.gather_elements(data, places, axis=1), desired)
    assert_same_elements(ndgather.gather(data, places, axis=1, batch_dims=1), desired)
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_elements(data, np.where(places == 2**30 - 1, 2**30, places), axis=1)
    assert caught.value.position == (0, 0)
    assert caught.value.count == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_result_of_more_than_two_gib(threads):
    """Few bytes of data, many positions: offsets in the result exceed 2**31."""
    data = np.arange(1, 12, dtype=np.int8)
    row = np.array([3, -1, 0, 10, 7], np.int8)
    indices = np.broadcast_to(row, (SIZE // 5 + 1, 5))
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(threads)
    try:
        result = ndgather.gather(data, indices)
    finally:
        ndgather.set_num_threads(before)
    assert result.size > 2**31
    desired = np.tile(data[row], (2**22, 1))
    for begin in range(0, len(result), len(desired)):
        part = result[begin : begin + len(desired)]
        np.testing.assert_array_equal(part.view("V5"), desired[: len(part)].view("V5"))


def test_rows_of_more_than_two_gib_in_all():
    data = np.arange(3 * 2**20, dtype=np.int8).reshape(3, 2**20)
    indices = np.resize(np.array([[2], [0], [-2]], np.int16), (2049, 1))
    result = ndgather.gather_nd(data, indices)
    assert result.nbytes > 2**31
    for k in (0, 1, 2, 1024, 2046, 2047, 2048):
        assert_same_elements(result[k].copy(), data[indices[k, 0]].copy())


def test_bad_entry_beyond_two_gib_of_entries():
    """The position of an entry is also counted in 64 bits."""
    indices = np.zeros((2, 2**30 + 3), np.int8)
    indices[1, -2] = 7
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather(np.zeros(7, np.int8), indices)
    assert caught.value.position == (1, 2**30 + 1)
    assert caught.value.count == 1
