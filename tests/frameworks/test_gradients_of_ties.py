"""Gradients of scatters where elements are equal, zero or NaN, by torch and by JAX."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ndgather

NAN = math.nan
VALUES = {
    "ties": ([2, 2, 5, 7, 2], [2, 2, 2, 5, 1, 1, 7]),
    "ties of all": ([3] * 5, [3] * 7),
    "zeros": ([0, 2, 0, 7, 2], [0, 0, 3, 0, 4, 5, -0.0]),
    "NaN": ([NAN, 2, 1, NAN, 2], [1, NAN, 3, 4, 4, 4, NAN]),
    "infinite": ([math.inf, 1, -math.inf, 2, 3], [math.inf, 1, -math.inf, 2, 1, 2, 3]),
}
PLACES = [0, 0, 1, 2, 1, 1, 0]  # 3 and 4 are met by none
WEIGHTS = [1.0, 2.0, 4.0, 8.0, 16.0]


def by_hand(reduction, use_init_val, data, updates):
    """Return the gradients of the sum of the results by their weights, element by element."""
    of_data, of_updates = [0.0] * len(data), [0.0] * len(updates)
    for place, weight in enumerate(WEIGHTS):
        met = [n for n, at in enumerate(PLACES) if at == place]
        if not met:
            of_data[place] = weight
            continue
        parts = [("data", place, data[place])] if use_init_val else []
        parts += [("updates", n, updates[n]) for n in met]
        values = [value for _, _, value in parts]
        for part, (name, n, _) in enumerate(parts):
            if reduction == "mul":
                slope = math.prod(values[:part] + values[part + 1 :])
            else:  # those that are equal to the result share its change; NaN is the result of NaN
                result = getattr(np, reduction)(values)
                equal = [np.array_equal(each, result, equal_nan=True) for each in values]
                slope = equal[part] / sum(equal)
            (of_data if name == "data" else of_updates)[n] = weight * slope
    return of_data, of_updates


def by_torch(reduction, use_init_val, data, updates):
    given = [torch.tensor(each, dtype=torch.float64).requires_grad_() for each in (data, updates)]
    places = torch.tensor(PLACES)[:, None]
    options = {"reduction": reduction, "use_init_val": use_init_val}
    result = ndgather.scatter_nd(given[0], places, given[1], **options)
    return torch.autograd.grad((result * torch.tensor(WEIGHTS)).sum(), given)


def by_operator(reduction, use_init_val, data, updates):
    given = [torch.tensor(each, dtype=torch.float64) for each in (data, updates)]
    places = torch.tensor(PLACES)[:, None]
    options = {"reduction": reduction, "use_init_val": use_init_val}

    def total(data, updates):
        result = ndgather.scatter_nd(data, places, updates, **options)
        return (result * torch.tensor(WEIGHTS)).sum()

    return torch.func.grad(total, (0, 1))(*given)


def by_jax(reduction, use_init_val, data, updates):
    places = jnp.array(PLACES)[:, None]
    options = {"reduction": reduction, "use_init_val": use_init_val}

    def total(data, updates):
        result = ndgather.scatter_nd(data, places, updates, **options)
        return (result * jnp.array(WEIGHTS)).sum()

    given = [jnp.array(each, jnp.float32) for each in (data, updates)]
    return jax.grad(total, (0, 1))(*given)


@pytest.mark.parametrize("library", [by_torch, by_operator, by_jax])
@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", ["min", "max", "mul"])
@pytest.mark.parametrize("kind", VALUES)
def test_every_element_has_its_share(kind, reduction, use_init_val, library):
    data, updates = VALUES[kind]
    wanted = by_hand(reduction, use_init_val, data, updates)
    found = library(reduction, use_init_val, data, updates)
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)
