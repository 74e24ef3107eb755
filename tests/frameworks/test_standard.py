"""Arrays of the array API standard: results follow the definition and have the right type."""

import tracemalloc
import warnings

import array_api_strict
import mlx.core as mx
import ndonnx
import numpy as np
import onnxruntime
import pytest
import scipy.sparse
import sparse
from hypothesis import given

import ndgather
from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError, ShapeError
from tests.definitions import reference
from tests.frameworks.drawn_calls import GATHERS, drawn_calls


def strict(array):
    return array_api_strict.asarray(np.asarray(array))


def assert_is(actual, expected, kind, to_numpy=np.asarray):
    assert type(actual) is kind
    np.testing.assert_array_equal(to_numpy(actual), expected, strict=True)


def check(call, kind, convert, to_numpy):
    """Run a call: its result must follow the definition, and its error must equal NumPy's."""
    refused = call.error()
    if refused is None:
        assert_is(call.run(convert), call.expected(), kind, to_numpy)
        return
    with pytest.raises(type(refused)) as actual:
        call.run(convert)
    assert str(actual.value) == str(refused)
    assert vars(actual.value) == vars(refused)


@given(call=drawn_calls(GATHERS, ("bool", "int64", "float32"), ("int64", "int32")))
def test_ndonnx_gathers_with_known_values(call):
    check(call, ndonnx.Array, ndonnx.asarray, lambda array: array.unwrap_numpy())


@pytest.mark.parametrize("dtype", ["uint64", "int64", "float64", "float32", "float16"])
@pytest.mark.parametrize("mode", ["fill", "clip", "wrap"])
def test_ndonnx_keeps_digits_and_signs(dtype, mode):
    """onnxruntime's Where adds both sides, and converts uint64 to float64."""
    values = np.array([-0.0, np.nan, -np.inf, 0.0], dtype) if dtype[0] == "f" else None
    data = np.array([2**53 + 1, 1, 2**62 + 1, 0], dtype) * 2 + 1 if values is None else values
    options = {"fill_value": data[2 if dtype[0] == "i" else 0]} if mode == "fill" else {}
    indices = np.array([[0], [2**64 - 1], [2**63 + 1], [2], [1]], np.uint64)
    positions = {"fill": [0, None, None, 2, 1], "clip": [0, 3, 3, 2, 1], "wrap": [0, 3, 1, 2, 1]}
    expected = [options["fill_value"] if at is None else data[at] for at in positions[mode]]
    with warnings.catch_warnings(action="error"):
        found = ndgather.gather_nd(
            ndonnx.asarray(data), ndonnx.asarray(indices), mode=mode, **options
        )
    assert found.unwrap_numpy().tobytes() == np.array(expected, dtype).tobytes()


def model_of(mode, **options):
    """Return a session of a model that gathers rows; its values are unknown at the call."""
    data = ndonnx.argument(shape=(3, 2), dtype=ndonnx.float32)
    indices = ndonnx.argument(shape=(4, 2), dtype=ndonnx.int64)
    result = ndgather.gather_nd(data, indices, mode=mode, **options)
    assert type(result) is ndonnx.Array
    model = ndonnx.build({"data": data, "indices": indices}, {"result": result})
    return onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill"])
def test_lazy_arrays_become_a_model(mode):
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    indices = np.array([[0, 1], [-1, 0], [2, -2], [1, 1]])
    if mode != "raise":
        indices[2] = [9, -9]
    (result,) = model_of(mode).run(None, {"data": data, "indices": indices})
    expected = reference.gather_nd(data, indices, mode=mode)
    np.testing.assert_array_equal(result, expected, strict=True)


def test_bad_index_of_a_lazy_array_raises_when_the_model_runs():
    data = np.zeros((3, 2), np.float32)
    for bad in ([0, 2], [-1, -3], [3, 0]):  # some of them are in bounds of the rows of a copy
        indices = np.array([[0, 0], bad, [0, 0], [0, 0]])
        with pytest.raises(Exception, match=r"out of data bounds, idx=-?\d must be within"):
            model_of("raise").run(None, {"data": data, "indices": indices})


def test_unknown_sizes_and_scatters_of_lazy_arrays_are_refused():
    rows = ndonnx.argument(shape=("N", 2), dtype=ndonnx.float32)
    with pytest.raises(ShapeError, match=r"^gather: data\.shape = \(\?, 2\) is not known before"):
        ndgather.gather(rows, [0])
    known = ndonnx.argument(shape=(3, 2), dtype=ndonnx.float32)
    with pytest.raises(DTypeError, match=r"^scatter_nd: data = Array object is on a device, or"):
        ndgather.scatter_nd(known, [[0]], [[1.0, 2.0]])


def test_dtypes_that_numpy_lacks():
    data = mx.array([[1.0, 2.0], [3.0, 4.0]], dtype=mx.bfloat16)
    result = ndgather.gather_nd(data, mx.array([[1, 0], [5, 5]]), mode="fill", fill_value=0.5)
    assert result.dtype == mx.bfloat16
    assert result.astype(mx.float32).tolist() == [3.0, 0.5]
    with pytest.raises(
        DTypeError, match=r"^scatter_nd: data = array object cannot be converted by"
    ):
        ndgather.scatter_nd(data, [[0, 0]], [1.0])


def test_results_have_the_device_of_data():
    device, host = map(array_api_strict.Device, ("device1", "CPU_DEVICE"))
    data = array_api_strict.asarray([[1, 2], [3, 4]], device=device)
    indices = array_api_strict.asarray([1], device=device)
    assert ndgather.gather(data, indices).device == device
    assert ndgather.gather(data, [1]).device == device
    assert ndgather.scatter_nd(data, [[1]], [[5, 6]]).device == device
    for result, wanted in (
        (ndgather.gather_elements(data, indices[:, None], -1), [[2]]),
        (ndgather.gather_elements(data, [[1, 0]]), [[3, 2]]),
        (ndgather.gather(data, [[1], [0]], 1, batch_dims=1), [[2], [3]]),
        (ndgather.gather_windows(data, [[-1, 0]], (2, 1), mode="fill"), [[[0], [1]]]),
        (ndgather.gather_nd(data, array_api_strict.zeros((0, 2), device=device)), []),
    ):
        assert result.device == device
        assert np.from_dlpack(result.to_device(host)).tolist() == wanted
    empty = ndgather.gather(data, array_api_strict.asarray([], device=device))
    assert empty.shape == (0, 2)


class OnDevice(array_api_strict._array_object.Array):
    """An array that claims to be in the memory of a GPU."""

    def __dlpack_device__(self):
        return 2, 0


def test_arrays_on_another_device_are_not_copied():
    data = OnDevice._new(np.arange(3), array_api_strict.Device("CPU_DEVICE"))
    with pytest.raises(DTypeError, match=r"^gather: indices = ndarray object is not on the device"):
        ndgather.gather(data, np.array([1]))
    assert ndgather.gather(data, OnDevice._new(np.array([1]), data.device))[0] == 1
    assert ndgather.gather(data, [1])[0] == 1  # a list has no device
    with pytest.raises(DTypeError, match=r"^scatter_nd: data = OnDevice object is on a device"):
        ndgather.scatter_nd(data, [[1]], [1])
    with pytest.raises(DTypeError, match=r"^gather: indices = OnDevice object is on another dev"):
        ndgather.gather(np.arange(3), data)


def test_libraries_that_share_cpu_memory_can_be_mixed():
    data, indices = np.arange(3), np.array([2, 0])
    assert_is(ndgather.gather(strict(data), indices), data[indices], type(strict(data)))
    assert_is(ndgather.gather(strict(data), mx.array(indices)), data[indices], type(strict(data)))
    assert_is(ndgather.gather(data, strict(indices)), data[indices], np.ndarray)
    scattered = ndgather.scatter_elements(data, strict(indices), mx.array(indices))
    assert_is(scattered, np.array([0, 1, 2]), np.ndarray)


def test_out_receives_the_result():
    data = strict(np.arange(3.0))
    out = strict(np.zeros(1))
    assert ndgather.gather(data, [2], out=out) is out
    assert out[0] == 2
    assert ndgather.scatter_nd(data, [[0]], [7.0], out=data) is data
    assert data[0] == 7
    for bad in (strict(np.zeros(2)), strict(np.zeros(1, np.int64)), np.zeros(1)):
        with pytest.raises(NdgatherError, match=r"^gather: out"):
            ndgather.gather(data, [2], out=bad)
    with pytest.raises(DTypeError, match=r"^gather: out = Array object"):
        ndgather.gather(np.arange(3.0), [2], out=out)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"indices": strict([1.5])}, DTypeError, "indices.dtype = .* is not an integer type"),
        ({"indices": strict([True])}, DTypeError, "indices.dtype = .* is not an integer type"),
        ({"indices": strict([1]), "axis": 2}, NdgatherError, "axis = 2 is out of range"),
        ({"indices": [1], "mode": "fil"}, NdgatherError, "mode = 'fil' is unknown"),
        ({"indices": [1], "fill_value": 1}, NdgatherError, "fill_value is given, but mode"),
        ({"indices": [1], "mode": "fill", "fill_value": 1.5}, DTypeError, "fill_value = 1.5 cann"),
    ],
)
def test_errors_equal_those_of_numpy(options, error, text):
    with pytest.raises(error, match=f"^gather: {text}"):
        ndgather.gather(strict(np.arange(6).reshape(2, 3)), **options)


def test_sparse_arrays_are_refused():
    data = sparse.COO.from_numpy(np.eye(3))
    with pytest.raises(DTypeError, match=r"^gather: data = COO object is sparse .* todense\(\)"):
        ndgather.gather(data, [1])
    with pytest.raises(DTypeError, match=r"^gather: indices = COO object is sparse"):
        ndgather.gather(np.eye(3), data)
    with pytest.raises(DTypeError, match=r"^gather: data = csr_array object is sparse"):
        ndgather.gather(scipy.sparse.csr_array(np.eye(3)), [1])


@pytest.mark.parametrize("convert", [strict, mx.array], ids=["array-api-strict", "MLX"])
def test_index_values_beyond_int64(convert):
    data, far = np.arange(7), np.array([2**64 - 1, 2, 2**63, 3], np.uint64)
    for mode in ("wrap", "clip", "fill"):
        for function, indices in ((ndgather.gather, far), (ndgather.gather_nd, far[:, None])):
            actual = function(convert(data), convert(indices), mode=mode)
            np.testing.assert_array_equal(np.array(actual), function(data, indices, mode=mode))
    with pytest.raises(
        IndexOutOfBoundsError, match=r"^gather: indices\[0\] = 18446744073709551615"
    ):
        ndgather.gather(convert(data), convert(far))


@pytest.mark.parametrize("convert", [strict, mx.array], ids=["array-api-strict", "MLX"])
def test_fill_values_beyond_int64(convert):
    data, fill = np.arange(5, dtype=np.uint64), 2**64 - 1
    for indices in ([4, 9], [9, 9]):
        actual = ndgather.gather(convert(data), indices, mode="fill", fill_value=fill)
        expected = [[4, fill][index > 4] for index in indices]
        assert np.array(actual).tolist() == expected
    empty = ndgather.gather(convert(data[:0]), [0], mode="fill", fill_value=fill)
    assert np.array(empty).tolist() == [fill]


def test_scatter_in_place_does_not_copy_data():
    peaks = []
    for size in (2**12, 2**20):
        data = array_api_strict.asarray(np.zeros(size))
        for _ in range(2):  # the first call imports modules
            tracemalloc.start()
            result = ndgather.scatter_nd(data, [[3], [5]], [1.0, 2.0], reduction="mean", out=data)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert result is data
        assert np.flatnonzero(np.from_dlpack(data)).tolist() == [3, 5]
    assert peaks[3] <= peaks[1] + 2**14


@pytest.mark.parametrize("value", [np.nan, 300, 2.5, -1, 1j, "1", np.datetime64(1, "s")], ids=str)
def test_fill_value_that_the_dtype_cannot_represent_is_refused(value):
    data = array_api_strict.asarray(np.array([1, 2], np.uint8))
    with pytest.raises(
        DTypeError, match=r"^gather: fill_value = .* cannot be represented in data\.dtype"
    ):
        ndgather.gather(data, [9], mode="fill", fill_value=value)


def test_fill_value_of_a_dtype_that_numpy_lacks():
    data = mx.array([1.0, 2.0]).astype(mx.bfloat16)
    assert ndgather.gather(data, [9], mode="fill", fill_value=2.5).tolist() == [2.5]
    for value in (1e39, 1j, "1", np.datetime64(1, "s")):
        with pytest.raises(DTypeError, match=r"^gather: fill_value = .* cannot be represented"):
            ndgather.gather(data, [9], mode="fill", fill_value=value)


def test_published_operators_return_strict_arrays():
    """OpenVINO's GatherND-5 merges the batch axes; the updates of an element have any rank."""
    data, rows = np.arange(24.0).reshape(2, 3, 4), np.array([[[3], [0], [1]]] * 2)
    gather = ndgather.operator("GatherND", domain="openvino", version=5)
    found = gather(strict(data), strict(rows), batch_dims=2)
    expected = data[np.arange(2)[:, None], np.arange(3), rows[..., 0]].reshape(6)
    assert_is(found, expected, array_api_strict._array_object.Array, np.from_dlpack)
    scatter = ndgather.operator("ScatterNDUpdate", domain="openvino", version=3)
    found = scatter(strict(data), strict(np.array([1, 2, 3])), strict(np.array([7.0])))
    data[1, 2, 3] = 7
    assert_is(found, data, array_api_strict._array_object.Array, np.from_dlpack)
