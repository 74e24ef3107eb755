"""All functions on JAX arrays follow the definitions on every route."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions import reference
from tests.definitions.calls import (
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
)
from tests.definitions.strategies import calls
from tests.frameworks.jax_calls import INTEGERS, LONG, ROUTES, SHORT, as_numpy, carried_out_by

GATHERS = ("gather_nd", "gather_elements", "gather")
SCATTERS = ("scatter_nd", "scatter_elements")
few = settings(max_examples=8)


def types_of(route, dtypes):
    """Return the dtypes that XLA gathers, and adds, exactly as defined."""
    if route != "native":
        return dtypes
    return [each for each in dtypes if each.isbuiltin == 1 and each.char != "e"]


def outcome(route, call, *arrays):
    """Return the result of a call, or None after checking the error of its first bad entry."""
    # XLA computes in the environment of its own threads, which flush subnormal numbers.
    assume(route != "native" or call.environment is None)
    bad = bad_entries(call)
    if not bad:
        return as_numpy(call.result(*arrays))
    with pytest.raises(IndexOutOfBoundsError) as caught:
        call.result(*arrays)
    first = bad[0]
    assert (caught.value.position, caught.value.value) == (first.position, first.value)
    assert (caught.value.axis, caught.value.size) == (first.axis, first.size)
    return None


def with_subnormals_as_zero(array):
    """Return a copy in which each subnormal part of a number is a zero of the same sign."""
    if array.dtype.kind == "c":
        result = array.copy()
        result.real, result.imag = map(with_subnormals_as_zero, (array.real, array.imag))
        return result
    least = 2.0**-1022 if array.dtype.itemsize == 8 else 2.0**-126
    with np.errstate(all="ignore"):
        return np.where(abs(array) < least, np.copysign(0, array), array).astype(array.dtype)


@pytest.mark.parametrize("long", [False, True], ids=["x64 off", "x64 on"])
@pytest.mark.parametrize("function", GATHERS)
@pytest.mark.parametrize("route", ROUTES)
@few
@given(drawn=st.data())
def test_gathers(route, function, long, drawn):
    dtypes = types_of(route, SHORT + LONG if long else SHORT)
    call = drawn.draw(calls(function, dtypes=dtypes, index_dtypes=INTEGERS))
    with jax.enable_x64(long), carried_out_by(route):
        result = outcome(route, call, jnp.asarray(call.data), call.indices)
        event("error" if result is None else "value" if result.size else "empty")
        if result is not None:
            assert_same_elements(result, expected(call))


@pytest.mark.parametrize("long", [False, True], ids=["x64 off", "x64 on"])
@pytest.mark.parametrize("function", SCATTERS)
@pytest.mark.parametrize("route", ROUTES)
@few
@given(drawn=st.data())
def test_scatters(route, function, long, drawn):
    dtypes = types_of(route, SHORT + LONG if long else SHORT)
    call = drawn.draw(calls(function, dtypes=dtypes, index_dtypes=INTEGERS))
    with jax.enable_x64(long), carried_out_by(route):
        with np.errstate(all="ignore"):
            arrays = jnp.asarray(call.data), call.indices, jnp.asarray(call.updates)
            result = outcome(route, call, *arrays)
        if result is not None:
            with np.errstate(all="ignore"):
                wanted = expected(call)
                if call.options.get("reduction") == "mean":  # XLA divides
                    result, wanted = map(with_subnormals_as_zero, (result, wanted))
                products = wanted.dtype.kind == "c" and call.options.get("reduction") == "mul"
                if products and route == "native":
                    # XLA may round once in a product of complex numbers that has three roundings.
                    rtol = 64 * np.finfo(wanted.dtype).eps
                    np.testing.assert_allclose(result, wanted, rtol=rtol, strict=True)
                else:
                    assert_same_numbers(result, wanted)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
def test_elements_smaller_than_a_byte(dtype, reduction):
    values = jnp.array([1, 0, 1, 1], dtype)
    indices = jnp.array([[2], [0], [2]])
    updates = jnp.array([1, 1, 0], dtype)
    result = ndgather.scatter_nd(values, indices, updates, reduction=reduction)
    desired = reference.scatter_nd(
        np.array([1, 0, 1, 1], np.int8),
        np.asarray(indices),
        np.array([1, 1, 0], np.int8),
        reduction=reduction,
    )
    assert result.dtype == dtype
    np.testing.assert_array_equal(
        np.asarray(result).astype(np.int8), desired.astype(dtype).astype(np.int8)
    )
    gathered = ndgather.gather_nd(values, indices, mode="fill", fill_value=1)
    assert gathered.dtype == dtype
    np.testing.assert_array_equal(np.asarray(gathered).astype(int), [1, 1, 1])


def test_sums_keep_subnormal_numbers():
    tiny = np.float32(1e-40)
    result = ndgather.scatter_nd(
        jnp.zeros(2), jnp.array([[1], [1]]), np.array([tiny, tiny]), reduction="add"
    )
    np.testing.assert_array_equal(np.asarray(result), [0, tiny + tiny])


def test_means_that_are_subnormal_are_zero():
    result = ndgather.scatter_nd(
        jnp.ones(2),
        [[0], [1]],
        np.array([1e-40, 2**-126], "f4"),
        reduction="mean",
        use_init_val=False,
    )
    np.testing.assert_array_equal(np.asarray(result), np.array([0, 2**-126], "f4"))


def test_large_gathers_use_all_threads():
    rng = np.random.default_rng(0)
    data = rng.random((1000, 1000), dtype=np.float32)
    indices = rng.integers(0, 1000, (1_000_000, 2), dtype=np.int32)
    result = as_numpy(jax.jit(ndgather.gather_nd)(data, indices))
    np.testing.assert_array_equal(result, data[indices[:, 0], indices[:, 1]])


def test_scatter_does_not_change_its_data():
    data = jnp.arange(5.0)
    before = np.asarray(data).copy()
    function = jax.jit(lambda x: (ndgather.scatter_nd(x, jnp.array([[1]]), jnp.array([9.0])), x))
    changed, same = function(data)
    np.testing.assert_array_equal(np.asarray(changed), [0, 9, 2, 3, 4])
    np.testing.assert_array_equal(np.asarray(same), before)
    np.testing.assert_array_equal(np.asarray(data), before)
