"""Tensors and JAX arrays: results do not depend on the floating-point environment."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ndgather
from ndgather.arrays.jax import get_route, set_route
from tests.definitions import reference
from tests.definitions.environments import ENVIRONMENTS, environment, is_known

pytestmark = pytest.mark.skipif(not is_known(), reason="needs Linux on x86-64")

DATA = np.array([3e-41, 1, 1], np.float32)
INDICES = np.array([[0], [1], [0], [1], [2]])
UPDATES = np.array([1e-40, 0.1, 2e-45, 0.7, 1e-40], np.float32)


@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max", "mean"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_tensors(name, reduction):
    arguments = [torch.from_numpy(each) for each in (DATA, INDICES, UPDATES)]
    expected = reference.scatter_nd(DATA, INDICES, UPDATES, reduction=reduction)
    with environment(name):
        result = ndgather.scatter_nd(*arguments, reduction=reduction)
        changed = arguments[0].clone()
        ndgather.scatter_nd(changed, *arguments[1:], reduction=reduction, out=changed)
    assert result.numpy().tobytes() == expected.tobytes()
    assert changed.numpy().tobytes() == expected.tobytes()


def gradients(arguments, reduction, change):
    data, updates = arguments[0].requires_grad_(), arguments[2].requires_grad_()
    result = ndgather.scatter_nd(data, arguments[1], updates, reduction=reduction)
    return [each.numpy().tobytes() for each in torch.autograd.grad(result, (data, updates), change)]


@pytest.mark.parametrize("reduction", ["none", "add", "sub", "mul", "min", "max", "mean"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gradients_of_tensors(name, reduction):
    arguments = [torch.from_numpy(each) for each in (DATA, INDICES, UPDATES)]
    change = torch.tensor([1e-40, 0.3, 5e-41])
    expected = gradients(arguments, reduction, change)
    with environment(name):
        assert gradients(arguments, reduction, change) == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_means_of_short_floats(name, dtype):
    data, indices, updates = (torch.from_numpy(each) for each in (DATA, INDICES, UPDATES))
    call = partial(
        ndgather.scatter_nd, data.to(dtype), indices, updates.to(dtype), reduction="mean"
    )
    expected = call()
    with environment(name):
        assert call().view(torch.int16).tolist() == expected.view(torch.int16).tolist()


@pytest.mark.parametrize("reduction", ["add", "min", "max"])
@pytest.mark.parametrize("route", ["handler", "callback"])
def test_xla_threads(route, reduction):
    """XLA threads flush subnormal numbers; the first call also creates the core's threads."""
    before = get_route()
    set_route(route)
    try:
        scatter = jax.jit(partial(ndgather.scatter_nd, reduction=reduction))
        result = scatter(*map(jnp.asarray, (DATA, INDICES, UPDATES)))
    finally:
        set_route(before)
    expected = reference.scatter_nd(DATA, INDICES, UPDATES, reduction=reduction)
    assert np.asarray(result).tobytes() == expected.tobytes()
