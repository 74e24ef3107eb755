"""Calls on several devices: `jax.shard_map`, sharded arrays, axes of both types."""

from contextlib import nullcontext
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import ndgather
from tests.frameworks.jax_calls import ROUTES, carried_out_by

DEVICES = 8
PARTS, WHOLE = PartitionSpec("s"), PartitionSpec()
DATA, UPDATES = jnp.arange(1.0, 9), jnp.arange(2.0, 10)
PLACES = jnp.array([3, 2, 1, 0, 7, 3, 5, 4])

pytestmark = pytest.mark.skipif(
    len(jax.devices()) < DEVICES, reason="XLA_FLAGS of the environment have fewer devices"
)


@pytest.fixture(params=ROUTES, autouse=True)
def route(request):
    with carried_out_by(request.param):
        yield request.param


def mesh_of(kind):
    return jax.make_mesh((DEVICES,), ("s",), axis_types=(kind,))


def by_hand(function, specs, *arrays):
    """Call a function for one device after another, with its parts of the arrays."""
    results = []
    for device in range(DEVICES):
        pairs = zip(arrays, specs, strict=True)
        given = [a[device : device + 1] if spec == PARTS else a for a, spec in pairs]
        results.append(function(*given))
    return jnp.concatenate(results)


def scattered(reduction):
    def function(data, places, updates):
        count = min(len(places), len(updates))
        given = data, places[:count, None], updates[:count]
        return ndgather.scatter_nd(*given, mode="wrap", reduction=reduction)

    return function


CALLS = {
    "gather": lambda d, i, u: ndgather.gather(d, i, mode="wrap") * u[0],
    "windows": lambda d, i, u: ndgather.gather_windows(d, i[:, None], (2,), mode="wrap") * u[0],
    "elements": lambda d, i, u: ndgather.gather_elements(d, i, mode="wrap") * u[0],
    "vmap": lambda d, i, u: jax.vmap(ndgather.gather, (None, 0))(d, i % len(d)) * u[0],
    **{
        each: scattered(each)
        for each in ("none", "add", "sub", "mul", "min", "max", "mean")
    },
}  # fmt: skip
SPECS = [
    (WHOLE, PARTS, WHOLE), (PARTS, WHOLE, WHOLE), (WHOLE, WHOLE, PARTS),
    (WHOLE, PARTS, PARTS), (PARTS, PARTS, PARTS),
]  # fmt: skip


def gradient_cases():
    """Return each call with three of `SPECS`; derivatives have the same rules on all routes."""
    for number, name in enumerate(CALLS):
        for at in sorted({number % 5, (number + 2) % 5, (number + 3) % 5}):
            yield pytest.param(name, SPECS[at], ROUTES[0], id=f"{name}-{at}")
    yield from (
        pytest.param(name, SPECS[0], route) for name in ("gather", "add") for route in ROUTES[1:]
    )


@pytest.mark.parametrize(("name", "specs", "route"), [*gradient_cases()], indirect=["route"])
def test_sharded_arguments_have_the_same_gradients(name, specs, route):
    function = CALLS[name]
    mapped = jax.shard_map(function, mesh=mesh_of(AxisType.Auto), in_specs=specs, out_specs=PARTS)

    def loss(call):
        def squared(data, updates):
            result = call(data, PLACES, updates)
            return (result**2).sum(), result

        return jax.value_and_grad(squared, (0, 1), has_aux=True)

    def alone(*arrays):
        return by_hand(function, specs, *arrays)

    # Eager calls compile each step, which takes seconds.
    eager = name in ("gather", "add") and specs == SPECS[0]
    compiled = (lambda call: call) if eager else jax.jit
    (_, result), ours = compiled(loss(mapped))(DATA, UPDATES)
    (_, expected), wanted = compiled(loss(alone))(DATA, UPDATES)
    np.testing.assert_allclose(result, expected)
    for actual, desired in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(actual, desired, rtol=1e-5)


FUNCTIONS = {
    "gather a list": lambda x, i: ndgather.gather(x, [7, 0]),
    "gather a table": lambda x, i: ndgather.gather(x, [[7, 0, 1], [2, 3, 3]]),
    "gather": ndgather.gather,
    "gather of indices on no mesh": lambda x, i: ndgather.gather(x, PLACES),
    "scatter of updates on no mesh": lambda x, i: ndgather.scatter_nd(x, i[:, None], UPDATES),
    "elements": ndgather.gather_elements,
    "windows": lambda x, i: ndgather.gather_windows(x, jnp.array([[7]]), (2,), mode="wrap"),
    "vmap": lambda x, i: jax.vmap(lambda place: ndgather.gather(x, place))(i),
    "scatter a list": lambda x, i: ndgather.scatter_nd(x, [[3]], [7.0]),
    "scatter": lambda x, i: ndgather.scatter_nd(x, i[:, None], x, reduction="add"),
    "gradient": lambda x, i: jax.grad(lambda x: (ndgather.gather(x, i) ** 2).sum())(x),
    "gradient of a scatter": lambda x, i: jax.grad(
        lambda x: ndgather.scatter_nd(x, i[:, None], x, reduction="mul").sum()
    )(x),
}


def mesh_cases():
    """Return each function with each mesh, eager and compiled; routes take turns.

    Each function runs on all routes, both eager and compiled.
    """
    cases = []
    meshes = list(product((AxisType.Auto, AxisType.Explicit), (PARTS, WHOLE)))
    for number, name in enumerate(FUNCTIONS):
        for at, (kind, spec) in enumerate(meshes, start=number):
            eager, compiled = ROUTES[at % 3], ROUTES[at % 2 * 2]  # jit needs no Python callback
            for jits, route in ((False, eager), (True, compiled)):
                words = (name, kind, "parts" if spec == PARTS else "whole", jits, route)
                cases.append(
                    pytest.param(name, kind, spec, jits, route, id="-".join(map(str, words)))
                )
    return cases


@pytest.mark.parametrize(
    ("name", "kind", "spec", "compiled", "route"), mesh_cases(), indirect=["route"]
)
def test_results_on_a_mesh_can_be_used(name, kind, spec, compiled, route):
    function, mesh = FUNCTIONS[name], mesh_of(kind)
    wanted = function(DATA, PLACES) + 1
    with jax.set_mesh(mesh) if kind == AxisType.Explicit else nullcontext():
        x, i = (jax.device_put(each, NamedSharding(mesh, spec)) for each in (DATA, PLACES))
        result = (jax.jit(function) if compiled else function)(x, i)
        np.testing.assert_allclose(result + 1, wanted)
        assert len(result.devices()) == DEVICES


@pytest.mark.parametrize("spec", [PARTS, WHOLE], ids=["parts", "whole"])
def test_data_without_a_mesh_with_indices_on_a_mesh_under_vmap(spec):
    places = jax.device_put(PLACES, NamedSharding(mesh_of(AxisType.Explicit), spec))
    result = jax.vmap(lambda place: ndgather.gather(DATA * 1, place))(places)
    np.testing.assert_allclose(result + 1, DATA[PLACES] + 1)


def test_results_have_the_device_of_data():
    last = jax.devices()[-1]
    result = ndgather.gather(jax.device_put(DATA, last), [7, 0])
    assert result.committed
    assert result.devices() == {last}
    assert not ndgather.gather(DATA, [7, 0]).committed


def test_out_of_bounds_index_is_named_for_sharded_arrays():
    x = jax.device_put(DATA, NamedSharding(mesh_of(AxisType.Auto), PARTS))
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError, match=r"indices\[1\] = 8"):
        ndgather.gather(x, [0, 8])
