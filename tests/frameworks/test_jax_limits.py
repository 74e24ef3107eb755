"""Arguments at the limits of JAX arrays are refused with our errors."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndgather
from ndgather import vjp
from ndgather.array_call import Kind, _core
from ndgather.arrays.jax import derivatives, export_checks, operation
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)

DATA = jnp.arange(3.0)
PLACES = jnp.array([[2], [0]])


@pytest.mark.parametrize("indices", [2**32 - 1, [2**32 - 1], [[-(2**40)], [5]]])
@pytest.mark.parametrize("mode", ["wrap", "clip", "fill"])
def test_indices_that_jax_integers_cannot_represent(mode, indices):
    data, indices = np.arange(1.0, 8, dtype=np.float32), np.array(indices)
    for function in (ndgather.gather, partial(ndgather.gather, axis=-1)):
        result = function(jnp.asarray(data), indices, mode=mode)
        np.testing.assert_array_equal(result, function(data, indices, mode=mode), strict=True)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("far", [np.int64(2**31), np.uint64(2**32), np.int64(-(2**31) - 1)])
def test_error_of_an_empty_axis_names_an_index_beyond_32_bits(mode, far):
    data, indices = np.zeros((1, 0, 0), bool), np.array([[0, far]], far.dtype)
    for array in (data, jnp.asarray(data)):
        with pytest.raises(IndexOutOfBoundsError) as error:
            ndgather.scatter_nd(array, indices, array.reshape(1, 0), mode=mode)
        assert (error.value.position, error.value.value) == ((0, 1), far)
        with pytest.raises(IndexOutOfBoundsError) as error:
            ndgather.gather_elements(array[0, :, :0].reshape(0, 1), indices[:, 1:], 0, mode=mode)
        assert (error.value.position, error.value.value) == ((0, 0), far)


@pytest.mark.parametrize("function", [ndgather.scatter_nd, ndgather.scatter_elements])
def test_updates_far_out_of_bounds_of_an_empty_axis_are_dropped(function):
    far = np.full((1, 1), 2**40) if function is ndgather.scatter_nd else np.array([2**40])
    given = far, jnp.ones(1)
    assert function(jnp.zeros(0), *given, mode="drop").shape == (0,)
    filled = ndgather.gather_nd(jnp.zeros(0), np.array([[2**40]]), mode="fill", fill_value=2)
    np.testing.assert_array_equal(filled, [2])


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill"])
def test_indices_far_out_of_bounds_with_symbolic_sizes(mode):
    (rows,) = jax.export.symbolic_shape("rows")
    far, data = np.array([[2**40], [1]]), np.arange(4, dtype=np.float32)
    function = jax.jit(lambda data: ndgather.gather_nd(data, far, mode=mode))
    argument = jax.ShapeDtypeStruct((rows,), "float32")
    if mode in ("raise", "wrap"):
        with pytest.raises(DTypeError, match=r"indices.dtype = int64 would become int32 in JAX"):
            jax.export.export(function)(argument)
    else:
        exported = jax.export.export(function, disabled_checks=export_checks())(argument)
        expected = ndgather.gather_nd(data, far, mode=mode)
        np.testing.assert_array_equal(exported.call(data), expected)


def test_indices_of_axes_longer_than_32_bits():
    data, far = jnp.zeros(2**31 + 8, jnp.uint8), np.array([2**31 + 2])
    for mode in ("raise", "wrap", "clip", "fill"):
        for function, given in (
            (ndgather.gather, (far,)),
            (ndgather.gather_windows, (far[:, None], (2,))),
        ):
            with pytest.raises(DTypeError, match=r"dtype = int64 would become int32 in JAX"):
                function(data, *given, mode=mode)


def test_out_of_bounds_index_of_an_empty_result_raises():
    """XLA removes such calls."""
    with pytest.raises(IndexOutOfBoundsError, match=r"^gather: indices\[0\] = 5 is outside axis 0"):
        ndgather.gather(jnp.zeros((3, 0)), [5])
    assert ndgather.gather(jnp.zeros((3, 0)), [5], mode="fill").shape == (1, 0)


def test_random_keys_are_refused():
    keys = jax.random.split(jax.random.key(0), 2)
    with pytest.raises(DTypeError, match=r"^gather_nd: data.dtype = key"):
        ndgather.gather_nd(keys, PLACES)
    with pytest.raises(NdgatherError, match=r"^gather_nd: indices.dtype = key"):
        ndgather.gather_nd(DATA, keys)
    with pytest.raises(DTypeError, match=r"^scatter_nd: updates.dtype = key"):
        ndgather.scatter_nd(DATA, PLACES, keys)


@pytest.mark.parametrize("argument", ["data", "indices", "updates", "fill_value"])
def test_deleted_arrays_are_refused(argument):
    gone = jnp.array({"indices": [[0]], "updates": [1.0], "fill_value": 1.0}.get(argument, [1.0]))
    gone.delete()
    named = {"data": DATA, "indices": PLACES[1:], argument: gone}
    function = ndgather.scatter_nd if argument == "updates" else ndgather.gather_nd
    if argument == "fill_value":
        named["mode"] = "fill"
    with pytest.raises(DTypeError, match=rf"{argument} = .* was deleted, or donated"):
        function(**named)


def test_cotangents_are_exact():
    cotangent = vjp.gather_nd(np.full(2, 1e300), (3,), PLACES)
    assert type(cotangent) is np.ndarray
    assert cotangent.tolist() == [1e300, 0, 1e300]
    with pytest.raises(DTypeError, match=r"^vjp.scatter_nd: cotangent.dtype = bool"):
        vjp.scatter_nd(jnp.ones(3, bool), PLACES)


def test_too_many_axes_are_refused():
    many = (1,) * 65
    with pytest.raises(ShapeError, match=r"^gather: data has 65 axes"):
        ndgather.gather(jnp.zeros(many), PLACES)
    with pytest.raises(ShapeError, match=r"^gather: indices has 65 axes"):
        ndgather.gather(DATA, jnp.zeros(many, int))


WRONG = {
    "axis": (lambda d, i: ndgather.gather(d, i, axis=7), (2,), AttributeValueError),
    "type": (lambda d, i: ndgather.gather(d, i, axis=1.5), (2,), DTypeError),
    "batch_dims": (lambda d, i: ndgather.gather_nd(d, i, batch_dims=5), (2, 1), NdgatherError),
    "depth": (ndgather.gather_nd, (2, 3), ShapeError),
    "symbol": (ndgather.gather_nd, (2, "rows"), ShapeError),
    "ranks": (ndgather.gather_elements, (2,), ShapeError),
}


@pytest.mark.parametrize(("function", "shape", "error"), WRONG.values(), ids=WRONG)
def test_symbolic_shapes_are_checked_for_ranks_and_axes(function, shape, error):
    (rows,) = jax.export.symbolic_shape("rows")
    shape = tuple(rows if size == "rows" else size for size in shape)
    export = jax.export.export(jax.jit(function), disabled_checks=export_checks())
    with pytest.raises(error, match=r"^gather"):
        export(jax.ShapeDtypeStruct((rows, 3), "float32"), jax.ShapeDtypeStruct(shape, "int32"))


def test_windows_extend_beyond_the_dtype_of_their_starts():
    data = jnp.arange(300.0)

    def total(data, starts):
        return ndgather.gather_windows(data, starts, (20,)).sum()

    gradient = jax.grad(total)(data, jnp.array([[250]], jnp.uint8))
    assert gradient.tolist() == [0.0] * 250 + [1.0] * 20 + [0.0] * 30
    starts = jnp.array([[2**32 - 1], [298]], jnp.uint32)
    result = ndgather.gather_windows(data, starts, (3,), mode="fill", fill_value=-1)
    assert result.tolist() == [[-1, -1, -1], [298, 299, -1]]


SOUND = {
    "kind": 3,
    "mode": 0,
    "reduction": 1,
    "axis": 0,
    "batch_dims": 0,
    "lead": 0,
    "skip": 0,
    "negative": True,
    "window": (),
    "fill": b"",
    "caller": "scatter_nd",
}
CHANGED = [
    *({"kind": 5}, {"kind": -1}, {"mode": 4}, {"reduction": 6}, {"lead": 9}, {"lead": -1}),
    *({"window": (-7,)}, {"fill": b"12"}, {"axis": 9, "kind": 2}, {"batch_dims": 9}),
    *({"updates": (2, 5)}, {"updates": "int32"}, {"result": (4,)}, {"result": "int32"}),
    dict.fromkeys(("data", "updates", "result"), "complex64") | {"reduction": 5},
    dict.fromkeys(("data", "updates", "result"), "float8_e4m3fn") | {"table": (10,)},
    {"kind": 0, "data": (3, 3), "places": (2, 2), "window": (1,), "result": (2, 3)},
    # XLA packs several of these into a byte.
    *(
        dict.fromkeys(("data", "updates", "result"), name) | {"reduction": 0}
        for name in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
    ),
]


@pytest.mark.parametrize("changed", [{}, *CHANGED], ids=str)
def test_exported_call_that_was_changed_is_refused(changed):
    """By the handler itself, because an exported program is a file from any source."""

    def shape_of(name, shape):
        found = changed.get(name)
        dtype = found if isinstance(found, str) else "float32"
        return jnp.ones(found if isinstance(found, tuple) else shape, dtype)

    attributes = {name: changed.get(name, value) for name, value in SOUND.items()}
    for name, value in attributes.items():
        if type(value) is int:
            attributes[name] = np.int64(value)
    attributes["window"] = np.array(attributes["window"], np.int64)
    attributes["fill"] = np.frombuffer(attributes["fill"], np.uint8)
    result = shape_of("result", (3,))
    call = jax.ffi.ffi_call("ndgather", jax.ShapeDtypeStruct(result.shape, result.dtype))
    data = shape_of("data", DATA.shape) if "data" in changed else DATA
    places = jnp.zeros(changed["places"], PLACES.dtype) if "places" in changed else PLACES
    given = [data, places, shape_of("updates", (2,))]
    if "table" in changed:
        given.append(jnp.zeros(changed["table"], "uint8"))
    if not changed:
        assert call(*given, **attributes).tolist() == [1.0, 1.0, 3.0]
        return
    with pytest.raises(jax.errors.JaxRuntimeError, match="do not fit"):
        jax.block_until_ready(call(*given, **attributes))


def test_handler_of_a_newer_interface_is_not_used():
    """If it were registered, no function of JAX would run."""
    made, major, minor = _core.jax_handler
    assert operation.usable((made, major, minor)) is made
    assert operation.usable((made, major, minor + 1000)) is None
    assert operation.usable((made, major + 1, 0)) is None
    assert operation.usable(None) is None


def test_reduction_without_a_derivative_raises():
    """No rule accepts a name that it does not know."""
    call = operation.Operation(
        *("scatter_nd", Kind.SCATTER_ND, None, None), reduction="power", route="scatter"
    )
    with pytest.raises((AssertionError, KeyError)):
        derivatives.weights(DATA, PLACES, jnp.ones(2), DATA, call)
