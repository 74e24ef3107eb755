"""vjp, published operators and export with JAX arrays; refused calls and their errors."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ndgather
from ndgather import vjp
from ndgather.arrays.jax import export_checks, set_route
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError
from tests.frameworks.jax_calls import ROUTES, carried_out_by

DATA = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
PAIRS = np.array([[0, 2], [-1, 1], [0, 2]], np.int32)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (vjp.gather_nd, (np.ones((3, 2), np.float32), DATA.shape, PAIRS)),
        (vjp.gather_nd, (np.ones((4, 2), np.int32), (4, 3, 2), np.zeros((4, 1), np.int8), 1)),
        (vjp.gather_elements, (DATA, (4, 5, 2), np.ones(DATA.shape, np.int32), 1)),
        (vjp.gather_windows, (np.ones((3, 2, 1, 2), np.float32), (5, 3, 2), PAIRS % 3, (2, 1))),
        (vjp.scatter_nd, (DATA, PAIRS, "add")),
        (vjp.scatter_nd, (DATA, PAIRS)),
        (vjp.scatter_elements, (DATA, np.zeros((2, 3, 2), np.int32), 0)),
    ],
)
def test_vjp(function, arguments):
    try:
        desired = function(*arguments)
    except ShapeError:
        pytest.fail("the case does not fit")
    on_jax = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    found = function(*on_jax)
    pairs = zip(found, desired, strict=True) if isinstance(desired, tuple) else [(found, desired)]
    for result, wanted in pairs:
        assert isinstance(result, jax.Array)
        np.testing.assert_array_equal(np.asarray(result), wanted, strict=True)


def test_vjp_refuses_wrong_shapes():
    with pytest.raises(ShapeError, match=r"^vjp.gather_nd: cotangent.shape = \(2,\)"):
        vjp.gather_nd(jnp.ones(2), (4,), jnp.array([[0]]))
    with pytest.raises(
        IndexOutOfBoundsError, match=r"^vjp.gather_windows: starts\[0, 0\] = 3 makes"
    ):
        vjp.gather_windows(jnp.ones((1, 2)), (4,), jnp.array([[3]]), (2,))


def test_published_operators():
    gather_nd = ndgather.operator("GatherND", opset=13)
    with jax.enable_x64(True):
        result = gather_nd(jnp.asarray(DATA), jnp.asarray(PAIRS, jnp.int64))
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, DATA[PAIRS[:, 0], PAIRS[:, 1]])


def test_exported_function_runs_without_ndgather():
    function = jax.jit(lambda x, i: ndgather.gather_nd(x, i) * 2)
    arrays = jnp.asarray(DATA), jnp.asarray(PAIRS)
    with pytest.raises(ValueError, match="ndgather"):
        jax.export.export(function)(*arrays)
    exported = jax.export.export(function, disabled_checks=export_checks())(*arrays)
    again = jax.export.deserialize(
        exported.serialize(),
    )
    np.testing.assert_array_equal(again.call(*arrays), function(*arrays))
    both = jax.export.export(
        function, disabled_checks=export_checks(), platforms=["cpu", "tpu", "cuda"]
    )(*arrays)
    np.testing.assert_array_equal(both.call(*arrays), function(*arrays))


def test_exported_function_with_symbolic_sizes():
    (rows,) = jax.export.symbolic_shape("rows")
    exported = jax.export.export(jax.jit(ndgather.gather_nd), disabled_checks=export_checks())(
        jax.ShapeDtypeStruct((rows, 3), jnp.float32), jax.ShapeDtypeStruct((4, 1), jnp.int32)
    )
    for count in (2, 5):
        data = jnp.arange(3.0 * count).reshape(count, 3)
        result = exported.call(data, jnp.array([[0], [1], [1], [-1]]))
        np.testing.assert_array_equal(result, data[np.array([0, 1, 1, -1])])


@pytest.mark.parametrize("route", ["native", "callback"])
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x, i: ndgather.gather_nd(x, i, mode="fill"), (4, 1)),
        (lambda x, i: ndgather.gather_elements(x, i, 1), ("rows", 2)),
        (lambda x, i: ndgather.gather(x, i, 1, batch_dims=1), ("rows", 2)),
        (jax.vmap(ndgather.gather_nd), ("rows", 2, 1)),
        (lambda x, i: ndgather.gather_windows(x, i, (1,), mode="clip"), (4, 1)),
        (lambda x, i: ndgather.scatter_nd(x, i, x[:1], reduction="mean"), (1, 1)),
        (lambda x, i: jax.grad(lambda y: (ndgather.gather_nd(y, i) ** 2).sum())(x), (4, 1)),
    ],
)
def test_functions_exported_without_the_handler_run_anywhere(route, function, shape):
    (rows,) = jax.export.symbolic_shape("rows")
    shape = tuple(rows if size == "rows" else size for size in shape)
    with carried_out_by(route):
        exported = jax.export.export(jax.jit(partial(function)))(
            jax.ShapeDtypeStruct((rows, 3), jnp.float32), jax.ShapeDtypeStruct(shape, jnp.int32)
        )
    data = jnp.arange(15.0).reshape(5, 3)
    places = jnp.arange(60).reshape(5, 12)[:, :2] % 3
    indices = jnp.broadcast_to(places, (5, 2)).reshape(-1)
    sizes = tuple(size if isinstance(size, int) else 5 for size in shape)
    indices = jnp.resize(indices, sizes).astype(jnp.int32)
    result = jax.export.deserialize(exported.serialize()).call(data, indices)
    np.testing.assert_array_equal(result, function(data, indices))


def test_numpy_indices_that_jax_would_truncate():
    far = np.array([[0], [2**32 + 1]])
    data = jnp.arange(3.0)
    text = r"^gather_nd: indices\[1, 0\] = 4294967297 is outside axis 0 of data"
    with pytest.raises(IndexOutOfBoundsError, match=text):
        ndgather.gather_nd(data, far)
    assert ndgather.gather_nd(data, far, mode="wrap").tolist() == [0.0, (2**32 + 1) % 3]
    assert ndgather.gather_nd(data, far, mode="clip").tolist() == [0.0, 2.0]
    assert ndgather.gather_nd(data, far, mode="fill", fill_value=9).tolist() == [0.0, 9.0]


def test_lists_and_numbers_with_jax_arrays():
    assert ndgather.gather_nd(jnp.arange(3), [[2], [0]]).tolist() == [2, 0]
    assert ndgather.scatter_nd(jnp.zeros(3), [[1]], [5]).tolist() == [0.0, 5.0, 0.0]


@pytest.mark.parametrize("make", [np.array, np.ndarray.tolist, torch.tensor])
def test_data_of_another_library_keeps_library_and_dtype(make):
    indices = jnp.array([1, 0])
    for numbers in ([0.1, 1e300], [2**40, 1], [2**63 - 1, -(2**63)]):
        data = make(np.array(numbers))
        kind = torch.Tensor if make is torch.tensor else np.ndarray
        for result in (
            ndgather.gather(data, indices),
            ndgather.scatter_nd(data, indices[:, None], make(np.array(numbers))),
        ):
            assert type(result) is kind
            assert result.tolist() == numbers[::-1]
    with pytest.raises(DTypeError, match=r"traced by JAX.*; write jax\.numpy\.asarray\(data\)"):
        jax.jit(lambda places: ndgather.gather(data, places))(indices)


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4"])
def test_indices_smaller_than_a_byte_are_accepted(name):
    indices = jnp.array([1, 0], name)
    for data in (jnp.arange(3), np.arange(3)):
        assert ndgather.gather(data, indices).tolist() == [1, 0]


@pytest.mark.parametrize("guard", ["disallow", "disallow_explicit"])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_transfer_guard_allows_calls(guard, reduction):
    data, indices, updates = jnp.ones(3), jnp.array([[1]]), jnp.array([3.0])
    with jax.transfer_guard(guard):
        taken = ndgather.gather_windows(data, indices, (2,), mode="wrap")
        result = ndgather.scatter_nd(data, indices, updates, reduction=reduction)
        listed = ndgather.gather_nd(data, [[1]])
    assert taken.tolist() == [[1, 1]]
    assert result.tolist() == [1, 3 if reduction == "none" else 2, 1]
    assert listed.tolist() == [1]


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (
            AttributeValueError,
            r"^gather_nd: out is given, but JAX arrays are immutable \(allowed: None\)",
            lambda: ndgather.gather_nd(jnp.asarray(DATA), PAIRS, out=jnp.zeros((3, 2))),
        ),
        (
            DTypeError,
            r"^scatter_nd: updates.dtype = float64 differs from data.dtype = float32",
            lambda: ndgather.scatter_nd(jnp.zeros(3), jnp.array([[1]]), np.zeros(1)),
        ),
        (
            DTypeError,
            r"^gather_nd: data.dtype = key<fry> is not numeric",
            lambda: ndgather.gather_nd(jax.random.key(0)[None], jnp.array([[0]])),
        ),
        (
            DTypeError,
            r"^gather_nd: indices.dtype = float32 is not an integer type",
            lambda: ndgather.gather_nd(jnp.zeros(3), jnp.array([[1.0]])),
        ),
        (
            DTypeError,
            r"^scatter_nd: updates.dtype = int32",
            lambda: ndgather.scatter_nd(jnp.zeros(3), jnp.array([[1]]), jnp.array([1])),
        ),
        (
            ShapeError,
            r"^scatter_nd: updates.shape = \(2,\)",
            lambda: ndgather.scatter_nd(jnp.zeros(3), jnp.array([[1]]), jnp.zeros(2)),
        ),
        (
            AttributeValueError,
            r"^gather_nd: mode = 'nearest'",
            lambda: ndgather.gather_nd(jnp.zeros(3), jnp.array([[1]]), mode="nearest"),
        ),
        (
            AttributeValueError,
            r"^gather_elements: axis = 3",
            lambda: jax.jit(lambda x: ndgather.gather_elements(x, [0], 3))(jnp.zeros(3)),
        ),
        (
            AttributeValueError,
            r"^arrays.jax: route = 'gpu'",
            lambda: set_route("gpu"),
        ),
    ],
)
def test_refusals(error, text, call):
    with pytest.raises(error, match=text):
        call()


WEAK = {
    "gather": lambda x: ndgather.gather(x, [0, 2]),
    "filled": lambda x: ndgather.gather_nd(x, [[0], [7]], mode="fill", fill_value=1),
    "windows": lambda x: ndgather.gather_windows(x, [[0]], (2,)),
    "none": lambda x: ndgather.scatter_nd(x, [[1]], [5]),
    "mean": lambda x: ndgather.scatter_nd(x, [[1]], x[:1], reduction="mean"),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", WEAK)
def test_results_are_not_weakly_typed(name, route):
    """Otherwise, adding a result to an array would change the dtype of the sum."""
    for number, other in ((2.0, jnp.bfloat16), (2, jnp.int8)):
        weak = jnp.broadcast_to(jnp.asarray(number), (3,))
        assert weak.weak_type
        with carried_out_by(route):
            for call in (WEAK[name], jax.jit(WEAK[name])):
                result = call(weak)
                assert not result.weak_type
                assert (result + jnp.ones((), other)).dtype == weak.dtype


def test_weakly_typed_updates_are_exact():
    weak = jnp.asarray(2.5)
    assert weak.weak_type
    assert ndgather.scatter_nd(jnp.zeros(2, jnp.bfloat16), [[1]], weak[None]).tolist() == [0, 2.5]
    for dtype in (jnp.int32, jnp.uint8, bool):
        with pytest.raises(DTypeError, match=r"^scatter_nd: updates\.dtype = float32"):
            ndgather.scatter_nd(jnp.zeros(2, dtype), [[1]], weak[None])


# Their lower 32 bits are in bounds.
FAR = np.array([[2**40 + 1, -(2**41) + 1], [-(2**62) + 2, 2**62 + 2]])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("mode", ["wrap", "clip", "fill"])
def test_indices_beyond_32_bits_are_not_truncated(mode, route):
    with carried_out_by(route):
        for data in (DATA, DATA[:, :, 0]):
            found = ndgather.gather_nd(jnp.asarray(data), FAR, mode=mode)
            np.testing.assert_array_equal(found, ndgather.gather_nd(data, FAR, mode=mode))
        mode = "drop" if mode == "fill" else mode
        updates = np.array([100, 200], np.float32)
        found = ndgather.scatter_nd(jnp.asarray(DATA[..., 0]), FAR, updates, mode=mode)
        wanted = ndgather.scatter_nd(DATA[..., 0], FAR, updates, mode=mode)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_means_of_the_largest_integers(dtype, route):
    most = np.iinfo(dtype).max
    data, updates = np.array([most, 5], dtype), np.array([0, 3], dtype)
    for use_init_val in (True, False):
        options = {"reduction": "mean", "use_init_val": use_init_val}
        given = [[0], [1]], updates
        wanted = ndgather.scatter_nd(data, *given, **options)
        with carried_out_by(route):
            np.testing.assert_array_equal(
                ndgather.scatter_nd(jnp.asarray(data), *given, **options), wanted
            )


def test_xla_fills_bad_indices_if_it_cannot_raise():
    with carried_out_by("native"):
        far = jax.jit(lambda x: ndgather.gather_nd(x, jnp.array([[9], [1]])))
        assert np.isnan(far(jnp.arange(3.0))[0])
        assert far(jnp.arange(3.0))[1] == 1
        assert far(jnp.arange(3)).tolist() == [np.iinfo(np.int32).min, 1]
        late = jax.jit(lambda x: ndgather.scatter_nd(x, jnp.array([[9], [1]]), -x[:2] - 1))
        assert late(jnp.arange(3.0)).tolist() == [0, -2, 2]


@pytest.mark.parametrize("route", ROUTES)
def test_results_are_on_the_device_of_data(route):
    device = jax.devices()[-1]
    x = jax.device_put(jnp.arange(3.0), device)
    with carried_out_by(route):
        for result in (
            ndgather.gather(x, [2]),
            ndgather.scatter_nd(x, [[1]], [5.0]),
        ):
            assert result.devices() == {device}
