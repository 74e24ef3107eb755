"""Index tuples of two, which some processors check four at a time: each of them counts."""

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from ndgather.testing import assert_same_elements

SIZES = (20, 30)
LAYOUTS = {
    "as it comes": np.arange(600).reshape(SIZES),
    "backwards": np.arange(600).reshape(SIZES)[::-1, ::-1],
    "more than 2**32 rows": np.broadcast_to(np.arange(30), (2**33, 30)),
}


def pairs(data, count, dtype):
    """Draw tuples with both ends of either axis among them."""
    random = np.random.default_rng(count)
    columns = [
        random.choice([-size, -1, 0, size - 1, *random.integers(-size, size, 4)], count)
        for size in (min(data.shape[0], 2**31), data.shape[1])
    ]
    return np.stack(columns, axis=-1).astype(dtype)


@pytest.mark.parametrize("dtype", ["i8", "i4"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 11, 255, 256, 259, 1000])
def test_pairs_are_numpy_indexing(dtype, layout, count):
    data = LAYOUTS[layout]
    indices = pairs(data, count, dtype)
    assert_same_elements(ndgather.gather_nd(data, indices), data[tuple(indices.T)])


def outside(size, dtype):
    """Values that the type has and an axis of `size` has not."""
    limits = np.iinfo(dtype)
    values = {size, -size - 1, size + 2**32, limits.min, limits.max}
    return [
        value for value in values if limits.min <= value <= limits.max and not -size <= value < size
    ]


@pytest.mark.parametrize(
    ("dtype", "layout", "column"),
    [
        (dtype, layout, column)
        for dtype in ("i8", "i4")
        for layout, data in LAYOUTS.items()
        for column in (0, 1)
        if outside(data.shape[column], dtype)
    ],
)
@pytest.mark.parametrize("place", range(11))
def test_one_value_outside_is_found_in_every_place(dtype, layout, column, place):
    data = LAYOUTS[layout]
    for value in outside(data.shape[column], dtype):
        indices = pairs(data, 11, dtype)
        indices[place, column] = value
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather_nd(data, indices)
        error = caught.value
        assert (error.position, error.value, error.count) == ((place, column), value, 1)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", ["i8", "i4"])
@pytest.mark.parametrize("place", [*range(8), 69_998, 70_000])
def test_updates_of_pairs(dtype, place):
    """So many that threads share them by place; an entry outside leaves all as it was."""
    count = 70_001
    indices = pairs(LAYOUTS["as it comes"], count, dtype)
    updates = np.arange(count)
    data = np.zeros(SIZES, np.int64)
    desired = data.copy()
    np.add.at(desired, tuple(indices.T), updates)
    ndgather.scatter_nd(data, indices, updates, reduction="add", out=data)
    assert_same_elements(data, desired)
    indices[place, place % 2] = SIZES[place % 2]
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.scatter_nd(data, indices, updates, reduction="add", out=data)
    assert_same_elements(data, desired)
