"""Gradients, compared with finite differences and with torch's autograd."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgather
from ndgather import vjp
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from tests.definitions.draws import INDEX_DTYPES
from tests.definitions.strategies import calls


def numerical(function, point, cotangent):
    """Return the gradient of the sum of ``cotangent * function(point)`` by differences.

    The functions are linear and the numbers are small integers, so the differences are exact.
    """
    gradient = np.zeros(point.shape)
    start = (cotangent * function(point)).sum()
    for place in np.ndindex(point.shape):
        moved = point.copy()
        moved[place] += 1
        gradient[place] = (cotangent * function(moved)).sum() - start
    return gradient


def integers(shape, seed):
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float64)


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements"])
@given(data=st.data())
def test_gathers(function, data):
    call = data.draw(
        calls(function, dtypes=[np.dtype("f8")], modes=["raise"], flavours=["value", "empty"])
    )
    option = {name: value for name, value in call.options.items() if name != "mode"}

    def gather(array):
        return getattr(ndgather, function)(array, call.indices, **option)

    point = integers(call.data.shape, 1)
    try:
        cotangent = integers(gather(point).shape, 2)
    except IndexOutOfBoundsError:  # an axis of size 0
        return
    result = getattr(vjp, function)(cotangent, point.shape, call.indices, **option)
    np.testing.assert_array_equal(result, numerical(gather, point, cotangent), strict=True)


WINDOW_MODES = ["raise", "clip", "fill", "wrap", "edge", "reflect"]


@pytest.mark.parametrize("second", WINDOW_MODES)
@pytest.mark.parametrize("first", WINDOW_MODES)
@pytest.mark.parametrize("window", [(1, 1), (2, 3), (4, 5), (3, 0)])
def test_windows_in_every_pair_of_modes(first, second, window):
    point = integers((4, 5, 2), 1)
    far = [
        [0, size - wide] if mode == "raise" else range(-2 * size - 1, 2 * size + 2)
        for mode, size, wide in zip((first, second), point.shape, window, strict=False)
    ]
    rng = np.random.default_rng(0)
    starts = np.stack([rng.choice(each, (3, 4)) for each in far], -1)

    def gather(array):
        return ndgather.gather_windows(array, starts, window, mode=(first, second))

    cotangent = integers(gather(point).shape, 2)
    for mode in {(first, second), first} if first == second else {(first, second)}:
        found = vjp.gather_windows(cotangent, point.shape, starts, window, mode=mode)
        np.testing.assert_array_equal(found, numerical(gather, point, cotangent), strict=True)


@pytest.mark.parametrize("mode", ["raise", "wrap", "fill"])
def test_more_windows_than_one_block(mode):
    rng, size, wide = np.random.default_rng(0), 5000, 1000
    starts = rng.integers(0, size - wide + 1 if mode == "raise" else size, (3000, 1))
    cotangent = rng.integers(-9, 10, (3000, wide))
    at = starts + np.arange(wide)
    places = at % size if mode == "wrap" else np.minimum(at, size)
    expected = np.bincount(places.ravel(), cotangent.ravel(), size + 1)[:size]
    found = vjp.gather_windows(cotangent, (size,), starts, (wide,), mode=mode)
    np.testing.assert_array_equal(found, expected)


@st.composite
def scatters(draw):
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from([each for each in INDEX_DTYPES if each.kind == "i"]))
    seed = draw(st.integers(0, 2**32))
    return shape, dtype, np.random.default_rng(seed), draw(st.sampled_from(["none", "add"]))


@given(scatters(), st.data())
def test_scatter_nd(drawn, data):
    shape, dtype, rng, reduction = drawn
    depth = data.draw(st.integers(0, len(shape)))
    count = tuple(data.draw(st.lists(st.integers(0, 4), max_size=2)))
    sizes = np.array(shape[:depth], int)
    indices = rng.integers(-sizes, sizes, (*count, depth)).astype(dtype)
    point, updates = integers(shape, 1), integers((*count, *shape[depth:]), 2)
    cotangent = integers(shape, 3)
    of_data, of_updates = vjp.scatter_nd(cotangent, indices, reduction)

    def scatter(x, u):
        return ndgather.scatter_nd(x, indices, u, reduction=reduction)

    desired = numerical(lambda x: scatter(x, updates), point, cotangent)
    np.testing.assert_array_equal(of_data, desired, strict=True)
    desired = numerical(lambda u: scatter(point, u), updates, cotangent)
    np.testing.assert_array_equal(of_updates, desired, strict=True)


@given(scatters(), st.data())
def test_scatter_elements(drawn, data):
    shape, dtype, rng, reduction = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    taken = [data.draw(st.integers(0, size)) for size in shape]
    taken[axis] = data.draw(st.integers(0, 5))
    indices = rng.integers(-shape[axis], shape[axis], taken).astype(dtype)
    point, updates, cotangent = integers(shape, 1), integers(taken, 2), integers(shape, 3)
    of_data, of_updates = vjp.scatter_elements(cotangent, indices, axis, reduction)

    def scatter(x, u):
        return ndgather.scatter_elements(x, indices, u, axis, reduction=reduction)

    desired = numerical(lambda x: scatter(x, updates), point, cotangent)
    np.testing.assert_array_equal(of_data, desired, strict=True)
    desired = numerical(lambda u: scatter(point, u), updates, cotangent)
    np.testing.assert_array_equal(of_updates, desired, strict=True)


def test_last_update_gets_the_whole_cotangent():
    of_data, of_updates = vjp.scatter_nd([1.0, 2.0, 4.0], [[1], [1], [0], [1]])
    np.testing.assert_array_equal(of_data, [0.0, 0.0, 4.0], strict=True)
    np.testing.assert_array_equal(of_updates, [0.0, 0.0, 1.0, 2.0], strict=True)


def test_cotangent_is_unchanged():
    cotangent = np.arange(3.0)
    for reduction in ("none", "add"):
        of_data, of_updates = vjp.scatter_elements(cotangent, np.array([0, 0]), reduction=reduction)
        assert not np.shares_memory(of_data, cotangent)
        assert not np.shares_memory(of_updates, cotangent)
    np.testing.assert_array_equal(cotangent, [0.0, 1.0, 2.0], strict=True)


REFUSALS = [
    (
        lambda: vjp.gather_nd([1.0, 2.0], (3,), [[0], [3]]),
        IndexOutOfBoundsError,
        "vjp.gather_nd: indices[1, 0] = 3 is outside axis 0 of data, which has size 3 "
        "(allowed: -3..2)",
    ),
    (
        lambda: vjp.gather_nd(np.ones((2, 1)), (2, 3), [[[0]], [[-4]]], 1),
        IndexOutOfBoundsError,
        "vjp.gather_nd: indices[1, 0, 0] = -4 is outside axis 1 of data, which has size 3 "
        "(allowed: -3..2)",
    ),
    (
        lambda: vjp.gather_elements([1.0], (3,), [5]),
        IndexOutOfBoundsError,
        "vjp.gather_elements: indices[0] = 5 is outside axis 0 of data, which has size 3 "
        "(allowed: -3..2)",
    ),
    (
        lambda: vjp.scatter_nd([1.0], [[1]]),
        IndexOutOfBoundsError,
        "vjp.scatter_nd: indices[0, 0] = 1 is outside axis 0 of data, which has size 1 "
        "(allowed: -1..0)",
    ),
    (
        lambda: vjp.gather_nd([1.0], (3,), [[0], [1]]),
        ShapeError,
        "vjp.gather_nd: cotangent.shape = (1,) does not match indices and data (allowed: (2,))",
    ),
    (
        lambda: vjp.scatter_nd([1.0], [[0]], "mul"),
        AttributeValueError,
        "vjp.scatter_nd: reduction = 'mul' is unknown (allowed: 'none', 'add')",
    ),
    (
        lambda: vjp.gather_nd([True], (3,), [[0]]),
        DTypeError,
        "vjp.gather_nd: cotangent.dtype = bool cannot be summed (allowed: integers, floats and "
        "complex numbers)",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals(call, error, text):
    with pytest.raises(NdgatherError) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == text
