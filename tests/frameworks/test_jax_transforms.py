"""vmap, grad, jvp and jit of the functions, compared with loops and finite differences."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.frameworks.jax_calls import ROUTES, carried_out_by

few = settings(max_examples=6)
rng = np.random.default_rng(0)

# A function of data, with shapes and duplicate indices, and its arguments.
DATA = jnp.asarray(rng.standard_normal((4, 3, 5)), jnp.float32)
PAIRS = jnp.array([[[0, 2], [3, 0]], [[0, 2], [-1, -1]]])
OF_DATA = {
    "gather_nd": lambda x: ndgather.gather_nd(x, PAIRS),
    "gather_nd of batches": lambda x: ndgather.gather_nd(x, PAIRS[:1].repeat(4, 0) % 3, 1),
    "gather_nd filled": lambda x: ndgather.gather_nd(x, PAIRS + 2, mode="fill", fill_value=7),
    "gather_nd wrapped": lambda x: ndgather.gather_nd(x, PAIRS + 2, mode="wrap"),
    "gather_elements": lambda x: ndgather.gather_elements(x, PAIRS[:, :, :1] % 3, 1),
    "gather": lambda x: ndgather.gather(x, PAIRS, 1, mode="clip"),
    "gather of batches": lambda x: ndgather.gather(x, jnp.zeros((4, 2), int), 2, batch_dims=1),
    "windows": lambda x: ndgather.gather_windows(x, jnp.array([[1, 0], [2, 1]]), (2, 2)),
    "windows clipped": lambda x: ndgather.gather_windows(
        x, jnp.array([[1, -5], [9, 1]]), (2, 2), mode="clip"
    ),
    "windows wrapped": lambda x: ndgather.gather_windows(
        x, jnp.array([[3, -1], [-1, 2]]), (2, 2), mode=("wrap", "reflect")
    ),
    "windows filled": lambda x: ndgather.gather_windows(
        x, jnp.array([[3, -1], [-1, 2]]), (2, 2), mode="fill"
    ),
}
UPDATES = jnp.asarray(rng.standard_normal((2, 2, 5)), jnp.float32)
OF_BOTH = {
    "scatter_nd": lambda x, u: ndgather.scatter_nd(x, PAIRS, u),
    "scatter_nd added": lambda x, u: ndgather.scatter_nd(x, PAIRS, u, reduction="add"),
    "scatter_nd subtracted": lambda x, u: ndgather.scatter_nd(x, PAIRS, u, reduction="sub"),
    "scatter_nd dropped": lambda x, u: ndgather.scatter_nd(x, PAIRS + 2, u, mode="drop"),
    "scatter_nd mean": lambda x, u: ndgather.scatter_nd(x, PAIRS, u, reduction="mean"),
    "scatter_nd sum alone": lambda x, u: ndgather.scatter_nd(
        x, PAIRS, u, reduction="add", use_init_val=False
    ),
    "scatter_elements": lambda x, u: ndgather.scatter_elements(
        x, jnp.array([[[0], [1]], [[0], [1]]]).repeat(5, 2), u, 0
    ),
    "scatter_elements added": lambda x, u: ndgather.scatter_elements(
        x, jnp.array([[[0], [1]], [[0], [1]]]).repeat(5, 2), u, 0, reduction="add"
    ),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", OF_DATA)
def test_gathers_have_first_and_second_derivatives(route, name):
    with carried_out_by(route):
        check_grads(jax.jit(OF_DATA[name]), (DATA,), order=2, eps=1.0)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", OF_BOTH)
def test_scatters_have_first_and_second_derivatives(route, name):
    with carried_out_by(route):
        check_grads(jax.jit(OF_BOTH[name]), (DATA, UPDATES), order=2, eps=1.0)


def loop(function, axes, *arrays):
    """Return the expected result of vmap by a loop over the batch."""
    size = next(a.shape[0] for a, axis in zip(arrays, axes, strict=True) if axis == 0)
    return np.stack(
        [
            function(*(a[i] if axis == 0 else a for a, axis in zip(arrays, axes, strict=True)))
            for i in range(size)
        ]
    )


BATCHED = [(0, None), (None, 0), (0, 0)]
WITH_INDICES = {
    "gather_nd": (partial(ndgather.gather_nd, mode="wrap"), (4, 3, 5), (2, 2)),
    "gather_nd of batches": (
        partial(ndgather.gather_nd, batch_dims=1, mode="fill"),
        (4, 3),
        (4, 2, 1),
    ),
    "gather_elements": (partial(ndgather.gather_elements, axis=1, mode="clip"), (4, 3), (2, 6)),
    "gather": (partial(ndgather.gather, axis=1, mode="wrap"), (4, 3, 2), (2, 2)),
    "gather of batches": (
        partial(ndgather.gather, axis=2, batch_dims=1, mode="wrap"),
        (4, 3, 2),
        (4, 2),
    ),
    "windows": (
        partial(ndgather.gather_windows, window_shape=(2, 1), mode="clip"),
        (4, 3, 2),
        (5, 2),
    ),
}


# Each function and each choice of axes occurs with every route.
VMAPS = [
    (name, axes, ROUTES[(n + a) % 3])
    for n, name in enumerate(WITH_INDICES)
    for a, axes in enumerate(BATCHED)
]


@pytest.mark.parametrize(("name", "axes", "route"), VMAPS, ids=str)
def test_vmap_of_gathers(name, axes, route):
    function, shape, indices_shape = WITH_INDICES[name]
    batch = 3
    data = rng.standard_normal((batch, *shape)).astype(np.float32)
    indices = rng.integers(-5, 9, (batch, *indices_shape)).astype(np.int32)
    given = map(jnp.asarray, (data, indices))
    given_arrays = [a if axis == 0 else a[0] for a, axis in zip(given, axes, strict=True)]
    with carried_out_by(route):
        twice = jax.vmap(jax.vmap(function, axes), (0, None))
        result = jax.vmap(function, axes)(*given_arrays)
        np.testing.assert_array_equal(result, loop(function, axes, *given_arrays))
        if axes[0] == 0:
            pair = jnp.stack([given_arrays[0], given_arrays[0] + 1])
            outer = loop(jax.vmap(function, axes), (0, None), pair, given_arrays[1])
            np.testing.assert_array_equal(twice(pair, given_arrays[1]), outer)

        def total(x, i):
            return (function(x, i) ** 2).sum()

        of_data = jax.jit(jax.grad(total))  # eager derivatives compile each step
        each = loop(of_data, axes, *given_arrays)
        gradient = jax.jit(jax.vmap(of_data, axes))(*given_arrays)
        np.testing.assert_allclose(gradient, each, rtol=1e-5)
        both = jax.grad(lambda x, i: (jax.vmap(function, axes)(x, i) ** 2).sum())
        whole = jax.jit(both)(*given_arrays)
        np.testing.assert_allclose(
            whole, each if axes[0] == 0 else each.sum(0), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("reduction", ["none", "add", "max", "mean"])
@few
@given(axes=st.tuples(*[st.sampled_from([0, None])] * 3).filter(any_batched := lambda a: 0 in a))
def test_vmap_of_scatters(route, reduction, axes):
    function = partial(ndgather.scatter_nd, reduction=reduction, mode="wrap")
    shapes = (3, 4, 2), (3, 5, 1), (3, 5, 2)
    data, updates = (rng.standard_normal(shapes[n]).astype(np.float32) for n in (0, 2))
    indices = rng.integers(-5, 9, shapes[1]).astype(np.int32)
    given = map(jnp.asarray, (data, indices, updates))
    arrays = [a if n == 0 else a[0] for a, n in zip(given, axes, strict=True)]
    with carried_out_by(route):
        result = jax.vmap(function, axes)(*arrays)
        np.testing.assert_array_equal(result, loop(function, axes, *arrays))
        if reduction in ("none", "add"):

            def total(d, i, u):
                return (function(d, i, u) ** 2).sum()

            of_both = jax.vmap(jax.grad(total, (0, 2)), axes)(*arrays)
            for number, found in zip((0, 2), of_both, strict=True):
                desired = loop(jax.grad(total, number), axes, *arrays)
                np.testing.assert_allclose(found, desired, rtol=1e-5)


def slow_derivative(reduction, data, places, updates, use_init_val, of_data, of_updates):
    """Return the tangent of a scatter by loops over its elements."""
    tangent = of_data.copy()
    for at in range(len(data)):
        factors = [(updates[n], of_updates[n]) for n, place in enumerate(places) if place == at]
        if not factors:
            continue
        if use_init_val:
            factors.append((data[at], of_data[at]))
        values = [value for value, _ in factors]
        if reduction == "mul":
            others = [np.prod(values[:n] + values[n + 1 :]) for n in range(len(values))]
            tangent[at] = sum(o * change for o, (_, change) in zip(others, factors, strict=True))
        else:
            best = min(values) if reduction == "min" else max(values)
            changes = [change for value, change in factors if value == best]
            tangent[at] = sum(changes) / len(changes)
    return tangent


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", ["mul", "min", "max"])
def test_nonlinear_reductions(route, reduction, use_init_val):
    """Several factors may be zero, and tied extremes share their change."""
    draw = np.random.default_rng(5)
    data, updates = (draw.integers(-2, 3, n).astype(np.float32) for n in (6, 12))
    places = draw.integers(0, 5, 12)
    changes = [draw.standard_normal(n).astype(np.float32) for n in (6, 12)]

    def function(data, updates):
        index = jnp.asarray(places)[:, None]
        return ndgather.scatter_nd(
            data, index, updates, reduction=reduction, use_init_val=use_init_val
        )

    expected = slow_derivative(reduction, data, places, updates, use_init_val, *changes)
    with carried_out_by(route):
        _, tangent = jax.jvp(function, (data, updates), tuple(changes))
        np.testing.assert_allclose(tangent, expected, rtol=1e-5, atol=1e-6)
        _, back = jax.vjp(function, data, updates)
        weights = draw.standard_normal(6).astype(np.float32)
        found = sum((a * b).sum() for a, b in zip(back(weights), changes, strict=True))
        np.testing.assert_allclose(found, (weights * expected).sum(), rtol=1e-4)


def test_products_have_second_derivatives():
    places = jnp.array([0, 2, 2, 0, 2])

    def ours(both):
        return (
            ndgather.scatter_nd(both[:3], places[:, None], both[3:], reduction="mul") ** 2
        ).sum()

    def native(both):
        factors = jnp.where(places[:, None] == jnp.arange(3), both[3:, None], 1)
        return ((both[:3] * factors.prod(0)) ** 2).sum()

    both = jnp.array([1.5, -1.0, 2.0, 0.5, 0.0, 3.0, 2.0, -1.0])
    found, desired = (jax.jit(jax.hessian(each))(both) for each in (ours, native))
    np.testing.assert_allclose(found, desired, rtol=1e-5)


def test_each_factor_of_a_product_has_the_product_of_the_others():
    factors = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0]
    for count in range(1, 10):
        places, updates = jnp.zeros((count, 1), int), jnp.array(factors[:count])
        gradient = jax.grad(
            lambda u, i=places: ndgather.scatter_nd(jnp.ones(1), i, u, reduction="mul").sum()
        )(updates)
        others = [math.prod(factors[:n] + factors[n + 1 : count]) for n in range(count)]
        np.testing.assert_allclose(gradient, others, rtol=1e-5)


def test_derivatives_of_bad_and_dropped_updates():
    def function(u):
        places = jnp.array([[1], [7], [1]])
        return ndgather.scatter_nd(jnp.ones(3), places, u, reduction="mul", mode="drop")

    gradient = jax.grad(lambda u: function(u).sum())(jnp.array([2.0, 3.0, 5.0]))
    assert gradient.tolist() == [5.0, 0.0, 2.0]


@pytest.mark.parametrize("reduction", ["mul", "min", "max"])
@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, 0), (None, None, 0), (0, 0, 0)])
def test_vmap_and_derivatives_of_reductions_nest(reduction, axes):
    shapes = (3, 4, 2), (3, 5, 1), (3, 5, 2)
    data, updates = (rng.standard_normal(shapes[n]).astype(np.float32) for n in (0, 2))
    indices = rng.integers(0, 4, shapes[1]).astype(np.int32)
    given = map(jnp.asarray, (data, indices, updates))
    arrays = [a if n == 0 else a[0] for a, n in zip(given, axes, strict=True)]

    def total(d, i, u):
        return (ndgather.scatter_nd(d, i, u, reduction=reduction) ** 2).sum()

    whole = jax.grad(lambda *given: jax.vmap(total, axes)(*given).sum(), (0, 2))
    of_both = jax.jit(jax.grad(total, (0, 2)))  # eager derivatives compile each step
    each = jax.jit(jax.vmap(of_both, axes))(*arrays)
    for place, (found, at_once) in enumerate(zip(each, jax.jit(whole)(*arrays), strict=True)):
        number = 2 * place
        desired = loop(lambda *given, place=place: of_both(*given)[place], axes, *arrays)
        np.testing.assert_allclose(found, desired, rtol=1e-4, atol=1e-5)
        summed = desired if axes[number] == 0 else desired.sum(0)
        np.testing.assert_allclose(at_once, summed, rtol=1e-4, atol=1e-5)


def test_integer_functions_have_no_tangent():
    result, tangent = jax.jvp(
        lambda x: x * ndgather.gather_nd(jnp.arange(3), jnp.array([[2]])), (1.0,), (1.0,)
    )
    assert (result.tolist(), tangent.tolist()) == ([2.0], [2.0])


def test_calls_in_jax_loops():
    def step(carry, index):
        carry = ndgather.scatter_nd(carry, index[None, None], carry[:1] + 1, reduction="add")
        return carry, ndgather.gather_nd(carry, index[None])

    indices = jnp.array([0, 1, 1, 2])
    final, each = jax.lax.scan(step, jnp.zeros(3), indices)
    assert final.tolist() == [1.0, 4.0, 2.0]
    assert each.tolist() == [1.0, 2.0, 4.0, 2.0]


@pytest.mark.parametrize("route", ["handler", "callback"])
def test_out_of_bounds_index_under_vmap_is_named(route):
    indices = jnp.array([[0, 1], [2, 3]])
    with carried_out_by(route):
        function = jax.vmap(lambda x, i: ndgather.gather_elements(x, i, 0, mode="raise"), (0, None))
        data = jnp.zeros((3, 2, 2))
        text = (
            r"gather_elements: indices\[1, 0\] = 2 is outside axis 0 of data, which has size 2 "
            r"\(allowed: -2\.\.1\); 2 of 4 entries of indices are out of bounds"
        )
        with pytest.raises(IndexOutOfBoundsError, match="^" + text):
            function(data, indices)
        with pytest.raises((ValueError, RuntimeError), match=text):
            jax.block_until_ready(jax.jit(function)(data, indices))
        for axis, size in enumerate(data.shape[1:]):
            alone = jax.vmap(lambda x, a=axis: ndgather.gather(x, [0, 7], a, mode="raise"))
            text = (
                rf"gather: indices\[1\] = 7 is outside axis {axis} of data, which has size {size} "
            )
            with pytest.raises(IndexOutOfBoundsError, match="^" + text):
                alone(data)


@pytest.mark.parametrize("compiled", [False, True])
def test_custom_vjp_receives_the_residuals(compiled):
    """NumPy residuals come back as a JAX class, which has no unit."""
    indices, shape = np.array([[1], [1], [0]]), (3, 2)

    @jax.custom_vjp
    def look_up(data, indices):
        return ndgather.gather_nd(data, indices)

    def backward(indices, of_result):
        zeros = jnp.zeros(shape)
        return ndgather.scatter_nd(zeros, indices, of_result, reduction="add"), None

    look_up.defvjp(lambda data, indices: (look_up(data, indices), indices), backward)
    gradient = jax.grad(lambda data: look_up(data, indices).sum())
    found = (jax.jit(gradient) if compiled else gradient)(jnp.ones(shape))
    assert found.tolist() == [[1, 1], [2, 2], [0, 0]]
