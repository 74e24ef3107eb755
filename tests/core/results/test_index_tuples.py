"""Index tuples of every length, packed and by column: every component counts at every position."""

import numpy as np
import pytest

import ndgather.vjp
from ndgather.errors import DTypeError, IndexOutOfBoundsError
from tests.definitions.calls import assert_same_elements

SIZES = {1: (600,), 2: (20, 30), 3: (4, 5, 30), 4: (4, 5, 6, 5)}
LAYOUTS = {
    **{f"{depth} axes": np.arange(600).reshape(sizes) for depth, sizes in SIZES.items()},
    "backwards": np.arange(600).reshape(SIZES[2])[::-1, ::-1],
    "one axis backwards": np.arange(600).reshape(SIZES[2])[:, ::-1],
    "more than 2**32 rows": np.broadcast_to(np.arange(30), (2**33, 30)),
    "more than 2**32 columns": np.broadcast_to(np.arange(30)[:, None], (30, 2**33)),
}
ORDERS = {"tuples": "C", "columns": "F"}


def draw(data, count, dtype, order):
    """Draw indices for all axes of data that include both ends of each axis."""
    random = np.random.default_rng(count)
    columns = [
        random.choice([-size, -1, 0, size - 1, *random.integers(-size, size, 4)], count)
        for size in (min(size, 2**31) for size in data.shape)
    ]
    return np.stack(columns, axis=-1).astype(dtype, order=ORDERS[order])


@pytest.mark.parametrize("dtype", ["i8", "i4"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [1, 5, 256, 259, 1000])
def test_all_elements_match_numpy_indexing(dtype, order, layout, count):
    data = LAYOUTS[layout]
    indices = draw(data, count, dtype, order)
    assert_same_elements(ndgather.gather_nd(data, indices), data[tuple(indices.T)])


def outside(size, dtype):
    """Values of the dtype that are out of bounds for an axis of `size`."""
    limits = np.iinfo(dtype)
    values = {size, -size - 1, size + 2**32, 2**32 - 1, limits.min, limits.max}
    return [
        value for value in values if limits.min <= value <= limits.max and not -size <= value < size
    ]


ONE_OUTSIDE = [
    (dtype, layout, column)
    for dtype in ("i8", "i4")
    for layout, data in LAYOUTS.items()
    for column, size in enumerate(data.shape)
    if outside(size, dtype)
]


@pytest.mark.parametrize(("dtype", "layout", "column"), ONE_OUTSIDE)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", [0, 3, 4, 10])
def test_out_of_bounds_index_is_found_at_every_position(dtype, layout, column, order, place):
    data = LAYOUTS[layout]
    for value in outside(data.shape[column], dtype):
        indices = draw(data, 11, dtype, order)
        indices[place, column] = value
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather_nd(data, indices)
        error = caught.value
        assert (error.position, error.value, error.count) == ((place, column), value, 1)


@pytest.mark.parametrize(("dtype", "layout", "column"), ONE_OUTSIDE)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", [0, 3, 4, 10])
def test_out_of_bounds_index_is_filled_at_every_position(dtype, layout, column, order, place):
    data = LAYOUTS[layout]
    indices = draw(data, 11, dtype, order)
    desired = data[tuple(indices.T)]
    desired[place] = -7
    for value in outside(data.shape[column], dtype):
        indices[place, column] = value
        actual = ndgather.gather_nd(data, indices, mode="fill", fill_value=-7)
        assert_same_elements(actual, desired)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", ["i8", "i4"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("depth", SIZES)
@pytest.mark.parametrize("place", [0, 5, 70_000])
def test_updates(dtype, order, depth, place):
    """Enough updates to be partitioned between threads; an error leaves everything unchanged."""
    count = 70_001
    sizes = SIZES[depth]
    indices = draw(LAYOUTS[f"{depth} axes"], count, dtype, order)
    updates = np.arange(count)
    data = np.zeros(sizes, np.int64)
    desired = data.copy()
    np.add.at(desired, tuple(indices.T), updates)
    ndgather.scatter_nd(data, indices, updates, reduction="add", out=data)
    assert_same_elements(data, desired)
    column = place % depth
    indices[place, column] = sizes[column]
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.scatter_nd(data, indices, updates, reduction="add", out=data)
    assert_same_elements(data, desired)
    dropped = updates.copy()
    dropped[place] = 0
    indices[place, column] = 0
    np.add.at(desired, tuple(indices.T), dropped)
    indices[place, column] = sizes[column]
    ndgather.scatter_nd(data, indices, updates, reduction="add", mode="drop", out=data)
    assert_same_elements(data, desired)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "?", "c8", "U1", "S1", "M8[s]", "O"])
def test_only_empty_float_arrays_count_as_no_indices(dtype):
    """``np.empty((0, 1))`` often means no indices; any other dtype is a mistake."""
    data, none = np.arange(3), np.empty((0, 1), dtype)
    calls = [
        ("indices", lambda: ndgather.gather_nd(data, none)),
        ("indices", lambda: ndgather.gather(data, none)),
        ("indices", lambda: ndgather.scatter_nd(data, none, np.empty(0, int))),
        ("indices", lambda: ndgather.vjp.gather_nd(np.zeros(0, int), (3,), none)),
        ("starts", lambda: ndgather.gather_windows(data, none, (2,), mode="wrap")),
    ]
    for name, call in calls:
        if np.dtype(dtype).kind == "f":
            assert call().dtype == data.dtype
        else:
            with pytest.raises(DTypeError, match=f": {name}\\.dtype = "):
                call()
