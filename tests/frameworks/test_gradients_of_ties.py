"""Gradients of scatters with equal, zero, NaN and infinite elements, in three frameworks."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ndgather
from ndgather import vjp

NAN, INFINITE = math.nan, math.inf
# The values of data and updates.
ALPHABETS = {
    "ties": (1, 2),
    "one value": (3,),
    "zeros": (0.0, -0.0, 2, 5),
    "NaN": (NAN, 1, 2),
    "infinite": (INFINITE, -INFINITE, 0.0, 1),
    "all": (1, 2, 0.0, -0.0, NAN, INFINITE, -INFINITE),
}
SIZE, COUNT, DROPPED = 5, 7, 9
# Destinations of updates: the more there are, the fewer duplicates.
SPREADS = (0, 0, 0, 1, 1, 2, 3, DROPPED), (2,)
REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")
FUNCTIONS = ("scatter_nd", "scatter_elements")


def slopes(reduction, use_init_val, data, places, updates):
    """Return the derivatives of each element of the result by data and by updates."""
    of_data, of_updates = np.zeros((SIZE, SIZE)), np.zeros((SIZE, COUNT))
    data, updates = data.tolist(), updates.tolist()
    for place in range(SIZE):
        met = [n for n, at in enumerate(places) if at == place]
        if not met:
            of_data[place, place] = 1
            continue
        if reduction == "none":
            of_updates[place, met[-1]] = 1
            continue
        parts = [(of_data, place, data[place])] if use_init_val else []
        parts += [(of_updates, n, updates[n]) for n in met]
        values = [value for *_, value in parts]
        for part, (table, n, _) in enumerate(parts):
            if reduction in ("add", "sub"):
                slope = -1 if reduction == "sub" and table is of_updates else 1
            elif reduction == "mean":
                slope = 1 / len(parts)
            elif reduction == "mul":
                slope = math.prod(values[:part] + values[part + 1 :])
            else:  # operands equal to the result share its change; a NaN result equals NaN operands
                result = getattr(np, reduction)(values)
                equal = [np.array_equal(each, result, equal_nan=True) for each in values]
                slope = equal[part] / sum(equal)
            table[place, n] = slope
    return of_data, of_updates


def summed(table, factors):
    """Return the sums of a table along its first axis times factors, skipping zero factors."""
    with np.errstate(invalid="ignore"):
        return np.where(table == 0, 0, table * np.reshape(factors, (-1, 1))).sum(axis=0)


def arguments(function, places):
    return places[:, None] if function == "scatter_nd" else places


def by_torch(function, places, options, data, updates, weights, tangents):
    """Return the gradients of a weighted sum from a recorded call, which has no tangents."""
    data, updates = (torch.tensor(each, requires_grad=True) for each in (data, updates))
    places = arguments(function, torch.from_numpy(places))
    result = getattr(ndgather, function)(data, places, updates, **options)
    return torch.autograd.grad(result, (data, updates), torch.tensor(weights)), None


def by_operator(function, places, options, data, updates, weights, tangents):
    """Return the gradients and tangents from torch's transforms."""
    places = arguments(function, torch.from_numpy(places))

    def call(data, updates):
        return getattr(ndgather, function)(data, places, updates, **options)

    given = torch.tensor(data), torch.tensor(updates)
    _, back = torch.func.vjp(call, *given)
    _, ahead = torch.func.jvp(call, given, tuple(map(torch.tensor, tangents)))
    return back(torch.tensor(weights)), ahead


def _of_jax(function, names, data, updates, places, weights, tangents):
    def call(data, updates):
        return getattr(ndgather, function)(
            data, arguments(function, places), updates, **dict(names)
        )

    _, back = jax.vjp(call, data, updates)
    return back(weights), jax.jvp(call, (data, updates), tangents)[1]


_JITTED = jax.jit(_of_jax, static_argnums=(0, 1))


def by_jax(function, places, options, data, updates, weights, tangents):
    arrays = [jnp.asarray(each, jnp.float32) for each in (data, updates)]
    given = (jnp.asarray(each, jnp.float32) for each in tangents)
    options = tuple(options.items())
    weights = jnp.asarray(weights, jnp.float32)
    return _JITTED(function, options, *arrays, jnp.asarray(places, jnp.int32), weights, (*given,))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("library", [by_torch, by_operator, by_jax])
@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_tied_elements_share_the_gradient(reduction, use_init_val, library, draws):
    function = draws.choice(FUNCTIONS)
    options = {"reduction": reduction, "use_init_val": use_init_val, "mode": "drop"}
    for alphabet in ALPHABETS.values():
        data = np.array(draws.choices(alphabet, k=SIZE), np.float64)
        updates = np.array(draws.choices(alphabet, k=COUNT), np.float64)
        places = np.array(draws.choices(draws.choice(SPREADS), k=COUNT))
        tables = slopes(reduction, use_init_val, data, places, updates)
        weights = np.array([1.0, 2, 4, 8, 16])
        tangents = np.arange(1.0, 1 + SIZE), np.arange(3.0, 3 + COUNT)
        if reduction in ("none", "add", "sub"):  # elements with factor 0 contribute nothing
            weights[draws.randrange(SIZE)] = draws.choice((NAN, INFINITE))
            tangents[0][draws.randrange(SIZE)] = draws.choice((NAN, INFINITE))
            tangents[1][draws.randrange(COUNT)] = draws.choice((NAN, INFINITE))
        found, ahead = library(function, places, options, data, updates, weights, tangents)
        case = f"{function}({data.tolist()}, {places.tolist()}, {updates.tolist()}, {options})"
        for actual, table in zip(found, tables, strict=True):
            wanted = summed(table, weights)
            np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-5, err_msg=case)
        if ahead is not None:
            parts = [summed(table.T, each) for table, each in zip(tables, tangents, strict=True)]
            with np.errstate(invalid="ignore"):  # infinities of both signs
                wanted = sum(parts)
            np.testing.assert_allclose(np.asarray(ahead), wanted, rtol=1e-5, err_msg=case)


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", ["mul", "min", "max"])
def test_tensorflow_gives_ties_to_data_alone(reduction, use_init_val, draws):
    tf = pytest.importorskip("tensorflow")
    function = draws.choice(FUNCTIONS)
    options = {"reduction": reduction, "use_init_val": use_init_val, "mode": "drop"}
    for alphabet in (ALPHABETS[name] for name in ("ties", "one value", "zeros")):
        data = np.array(draws.choices(alphabet, k=SIZE), np.float64)
        updates = np.array(draws.choices(alphabet, k=COUNT), np.float64)
        places = np.array(draws.choices(SPREADS[0], k=COUNT))
        tables = slopes(reduction, use_init_val, data, places, updates)
        if reduction in ("min", "max"):
            taken = tables[0].diagonal() > 0
            tables[0][taken, taken] = 1
            tables[1][taken] = 0
        weights = np.array([1.0, 2, 4, 8, 16])
        with tf.GradientTape() as tape:
            given = [tf.Variable(each) for each in (data, updates)]
            call = getattr(ndgather, function)
            result = call(given[0], arguments(function, places), given[1], **options)
        found = tape.gradient(result, given, tf.constant(weights), unconnected_gradients="zero")
        case = f"{function}({data.tolist()}, {places.tolist()}, {updates.tolist()}, {options})"
        for actual, table in zip(found, tables, strict=True):
            wanted = summed(table, weights)
            np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-9, err_msg=case)


def test_means_of_more_updates_than_a_float16_can_count():
    count = 70_000
    places, data, updates = np.zeros((count, 1), np.int32), np.zeros(2), np.zeros(count)

    def mean(data, updates):
        return ndgather.scatter_nd(data, places, updates, reduction="mean")

    half, wanted = [torch.tensor(each, dtype=torch.float16) for each in (data, updates)], 1 / 70_001
    found = [*torch.func.vjp(mean, *half)[1](torch.ones(2, dtype=torch.float16))]
    half = [jnp.asarray(each, jnp.float16) for each in (data, updates)]
    found += jax.vjp(mean, *half)[1](jnp.ones(2, jnp.float16))
    for of_data, of_updates in (found[:2], found[2:]):
        assert of_data.tolist() == [float(np.float16(wanted)), 1]
        assert {*of_updates.tolist()} == {float(np.float16(wanted))}


@pytest.mark.parametrize("make", [np.array, torch.tensor, jnp.array], ids=["NumPy", "torch", "JAX"])
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_nonfinite_cotangents_do_not_spread(function, reduction, make, draws):
    for alphabet in ALPHABETS.values():
        places = np.array(draws.choices(range(-SIZE, SIZE), k=COUNT))
        cotangent = np.array(draws.choices(alphabet, k=SIZE), np.float32)
        nothing = np.zeros(SIZE), places % SIZE, np.zeros(COUNT)
        tables = slopes(reduction, True, *nothing)
        options = {"reduction": reduction}
        found = getattr(vjp, function)(make(cotangent), arguments(function, places), **options)
        for actual, table in zip(found, tables, strict=True):
            np.testing.assert_array_equal(np.asarray(actual), summed(table, cotangent))


MAKERS = {"torch": torch.tensor, "JAX": jnp.array, "TensorFlow": None}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", *FUNCTIONS])
def test_complex_cotangents_are_moved_unchanged(function, name):
    make = MAKERS[name] or pytest.importorskip("tensorflow").constant
    places = arguments(function.replace("gather", "scatter"), np.array([3, 0, 3, 1]))
    if "gather" in function:
        given = np.array([1 + 2j, 3 - 1j, -2j, 5], np.complex64), (SIZE,), places
    else:
        given = np.arange(1, 1 + SIZE).astype(np.complex64) * (1 - 2j), places
    found, wanted = (
        getattr(vjp, function)(each, *given[1:]) for each in (make(given[0]), given[0])
    )
    found, wanted = (each if isinstance(each, tuple) else (each,) for each in (found, wanted))
    for actual, desired in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(actual), desired, strict=True)
