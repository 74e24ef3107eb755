"""Laws that relate scatters to gathers, to sums and to each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgather import gather_elements, gather_nd, scatter_elements, scatter_nd
from tests.definitions.draws import INDEX_DTYPES, distinct
from tests.definitions.strategies import arranged

DTYPES = [np.dtype(char) for char in "bifdD"]


@st.composite
def unique_tuples(draw):
    """Draw data, distinct index tuples, and updates."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    depth = draw(st.integers(1, rank))
    places = int(np.prod(shape[:depth]))
    chosen = draw(st.lists(st.integers(0, places - 1), unique=True, max_size=places))
    tuples = np.stack(np.unravel_index(np.array(chosen, int), shape[:depth]), -1)
    negative = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, tuples.shape)
    tuples = tuples - negative * np.array(shape[:depth])
    dtype = draw(st.sampled_from(DTYPES))
    index_dtype = draw(st.sampled_from([each for each in INDEX_DTYPES if each.kind == "i"]))
    both = distinct((int(np.prod(shape)) + len(chosen) * int(np.prod(shape[depth:])),), dtype)
    data = both[: int(np.prod(shape))].reshape(shape)
    updates = both[int(np.prod(shape)) :].reshape(len(chosen), *shape[depth:])
    indices = draw(arranged(tuples.astype(index_dtype), ["C", "F", "every second", "unaligned"]))
    return data, indices, updates


@given(unique_tuples())
def test_gather_of_a_scatter_gives_the_updates(drawn):
    data, indices, updates = drawn
    result = gather_nd(scatter_nd(data, indices, updates), indices)
    np.testing.assert_array_equal(result, updates, strict=True)


@given(unique_tuples(), st.data())
def test_scatter_of_a_gather_gives_data_back(drawn, more):
    data, indices, _ = drawn
    repeated = more.draw(st.lists(st.integers(0, max(len(indices) - 1, 0)), max_size=6))
    if len(indices):
        indices = indices[repeated]
    result = scatter_nd(data, indices, gather_nd(data, indices))
    np.testing.assert_array_equal(result, data, strict=True)


@st.composite
def elements(draw):
    """Draw data, indices along an axis with duplicates, and updates."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    axis = draw(st.integers(0, rank - 1))
    taken = tuple(
        draw(st.integers(1, 5)) if d == axis else draw(st.integers(1, size))
        for d, size in enumerate(shape)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    indices = rng.integers(-shape[axis], shape[axis], taken)
    return rng.integers(-9, 9, shape), indices, rng.integers(-9, 9, taken), axis


@given(elements())
def test_scatter_of_gathered_elements_gives_data_back(drawn):
    data, indices, _, axis = drawn
    result = scatter_elements(data, indices, gather_elements(data, indices, axis), axis)
    np.testing.assert_array_equal(result, data, strict=True)


@given(elements())
def test_add_matches_the_dense_sum(drawn):
    """A scatter is a product with one-hot vectors."""
    data, indices, updates, axis = drawn
    size = data.shape[axis]
    one_hot = indices[..., np.newaxis] % size == np.arange(size)
    dense = np.moveaxis(updates[..., np.newaxis] * one_hot, -1, 0).sum(axis=axis + 1)
    expected = data.copy()
    region = tuple(
        slice(None) if d == axis else slice(0, taken) for d, taken in enumerate(indices.shape)
    )
    expected[region] += np.moveaxis(dense, 0, axis)
    result = scatter_elements(data, indices, updates, axis, reduction="add")
    np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("reduction", ["add", "sub", "mul", "min", "max"])
@given(drawn=elements(), seed=st.integers(0, 2**32))
def test_order_does_not_affect_integers(reduction, drawn, seed):
    data, indices, updates, _ = drawn
    flat, seen = data.reshape(-1), indices.reshape(-1) % data.size
    order = np.random.default_rng(seed).permutation(seen.size)
    first = scatter_elements(flat, seen, updates.reshape(-1), reduction=reduction)
    second = scatter_elements(flat, seen[order], updates.reshape(-1)[order], reduction=reduction)
    np.testing.assert_array_equal(first, second, strict=True)


@given(elements())
def test_both_scatters_agree(drawn):
    """Written as full coordinates, element indices are tuples."""
    data, indices, updates, axis = drawn
    tuples = np.stack(np.indices(indices.shape), -1)
    tuples[..., axis] = indices
    for reduction in ("none", "add", "sub", "mul", "min", "max", "mean"):
        by_tuples = scatter_nd(data, tuples, updates, reduction=reduction)
        by_elements = scatter_elements(data, indices, updates, axis, reduction=reduction)
        np.testing.assert_array_equal(by_tuples, by_elements, strict=True)


@given(elements())
def test_sub_reverts_add(drawn):
    data, indices, updates, axis = drawn
    there = scatter_elements(data, indices, updates, axis, reduction="add")
    back = scatter_elements(there, indices, updates, axis, reduction="sub")
    np.testing.assert_array_equal(back, data, strict=True)


def test_no_updates_return_a_copy():
    data = np.arange(6.0).reshape(2, 3)
    for indices, updates in (
        (np.empty((0, 1), int), np.empty((0, 3))),
        (np.empty((4, 0, 2), int), np.empty((4, 0))),
    ):
        result = scatter_nd(data, indices, updates, reduction="mul")
        assert result is not data
        np.testing.assert_array_equal(result, data, strict=True)


def test_depth_0_updates_the_whole_array_in_order():
    data = np.arange(3)
    updates = np.array([[1, 2, 3], [10, 20, 30]])
    indices = np.empty((2, 0), int)
    np.testing.assert_array_equal(scatter_nd(data, indices, updates), [10, 20, 30])
    added = scatter_nd(data, indices, updates, reduction="add")
    np.testing.assert_array_equal(added, [11, 23, 35])
    scalar = scatter_nd(np.array(5), np.empty((2, 0), int), [7, 9], reduction="sub")
    np.testing.assert_array_equal(scalar, np.array(-11), strict=True)


@given(st.data())
def test_dropped_updates_have_no_effect(data):
    size = data.draw(st.integers(1, 5))
    values = data.draw(st.lists(st.integers(-9, 9), max_size=8))
    inside = [k for k, value in enumerate(values) if -size <= value < size]
    indices, updates = np.array(values, int)[:, np.newaxis], np.arange(len(values)) + 100
    for reduction in ("none", "add", "mean"):
        dropped = scatter_nd(np.arange(size), indices, updates, reduction=reduction, mode="drop")
        expected = scatter_nd(
            np.arange(size), indices[inside], updates[inside], reduction=reduction
        )
        np.testing.assert_array_equal(dropped, expected, strict=True)
