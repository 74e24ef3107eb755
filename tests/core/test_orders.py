"""Arrays in C and in Fortran order, mixed: the core walks them as they lie in memory."""

from itertools import product

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from ndgather.testing import assert_same_elements

SHAPES = ((150, 140), (7, 300), (300, 7), (20, 9, 140), (140, 3, 20))
ORDERS = tuple("".join(orders) for orders in product("CF", repeat=3))

shapes_and_axes = pytest.mark.parametrize(
    ("shape", "axis"), [(shape, axis) for shape in SHAPES for axis in range(len(shape))]
)


def arrays(shape, axis, orders):
    """Return data, indices with many repeated values, and updates, each in its order of memory."""
    random = np.random.default_rng(axis)
    size = shape[axis]
    parts = (
        random.standard_normal(shape).astype("f4"),
        random.integers(-size, size, shape) // 3,
        random.standard_normal(shape).astype("f4"),
    )
    return [np.asarray(part, order=order) for part, order in zip(parts, orders, strict=True)]


def one_after_the_other(data, indices, updates, axis, add):
    """Return what the loop of the specification leaves, step by step along `axis`."""
    result = data.copy()
    others = np.ogrid[tuple(slice(1 if d == axis else n) for d, n in enumerate(data.shape))]
    for step in range(indices.shape[axis]):
        place = list(others)
        place[axis] = np.take(indices, [step], axis)
        update = np.take(updates, [step], axis)
        result[tuple(place)] = result[tuple(place)] + update if add else update
    return result


@shapes_and_axes
@pytest.mark.parametrize("orders", ORDERS)
def test_gather_elements_in_any_order(shape, axis, orders, threads):
    data, indices, out = arrays(shape, axis, orders)
    others = np.ogrid[tuple(map(slice, shape))]
    expected = data[tuple(indices if d == axis else others[d] for d in range(len(shape)))]
    assert_same_elements(ndgather.gather_elements(data, indices, axis), expected)
    ndgather.gather_elements(data, indices, axis, out=out)
    assert_same_elements(out, expected)


@shapes_and_axes
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_updates_of_one_place_keep_their_order(shape, axis, orders, reduction, threads):
    data, indices, updates = arrays(shape, axis, orders)
    expected = one_after_the_other(data, indices, updates, axis, reduction == "add")
    options = {"reduction": reduction}
    assert_same_elements(
        ndgather.scatter_elements(data, indices, updates, axis, **options), expected
    )
    ndgather.scatter_elements(data, indices, updates, axis, **options, out=data)
    assert_same_elements(data, expected)


@pytest.mark.parametrize("shape", [(150, 140), (7, 300), (300, 7)])
@pytest.mark.parametrize("depth", [1, 2])
def test_tuples_keep_the_order_of_indices(shape, depth, threads):
    random = np.random.default_rng(depth)
    sizes = (6, 5)
    data = random.standard_normal(sizes[:depth]).astype("f4")
    columns = np.stack([random.integers(-size, size, shape) for size in sizes[:depth]], axis=-1)
    updates = np.asfortranarray(random.standard_normal(shape).astype("f4"))
    expected = data.copy()
    for position in np.ndindex(shape):
        expected[tuple(columns[position])] += updates[position]
    for indices in (columns, np.asfortranarray(columns)):
        assert_same_elements(ndgather.scatter_nd(data, indices, updates, reduction="add"), expected)
        gathered = data[tuple(np.moveaxis(columns, -1, 0))]
        assert_same_elements(ndgather.gather_nd(data, indices), gathered)


@shapes_and_axes
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_first_bad_entry_is_the_first_of_indices(shape, axis, order, threads):
    data, indices, _ = arrays(shape, axis, ("C", order, "C"))
    first = (1, *(size - 1 for size in shape[1:]))
    second = (2, *(0 for _ in shape[1:]))  # comes before the first in Fortran order
    for entry in (first, second):
        indices[entry] = shape[axis] + entry[0]
    place = ", ".join(map(str, first))
    for out in (None, data.copy()):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather_elements(data, indices, axis, out=out)
        assert f"indices[{place}] = {shape[axis] + 1} is outside" in str(caught.value)
