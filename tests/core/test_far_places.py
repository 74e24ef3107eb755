"""Places that have to be waited for: random ones in data that are larger than most caches.

Lines are asked for ahead there.
"""

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError

COUNT = 9_000_000  # elements of 4 bytes
LOOKS = 60_000


@pytest.fixture(scope="module")
def numbers():
    """Each element is its own place."""
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
def test_some_places_are_filled(numbers, threads, beyond):
    places = random_places(COUNT + beyond)
    found = ndgather.gather_nd(numbers, places[:, None], mode="fill", fill_value=-7)
    np.testing.assert_array_equal(found, np.where(places < COUNT, places, -7))


def test_an_entry_outside_is_named(numbers, threads):
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
    # Some places come up again soon, and some much later.
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
    places = (order + columns) % shape[0]  # each row of a column once
    scattered = ndgather.scatter_elements(np.zeros_like(data), places, data, 0)
    np.testing.assert_array_equal(np.take_along_axis(scattered, places, 0), data)
