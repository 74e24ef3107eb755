"""TensorFlow tensors follow the definition, eagerly and in graphs, with gradients."""

import re
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

import ndgather
from ndgather import arguments, errors, vjp
from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError, ShapeError
from tests.core.arguments.test_hints import FOLLOWED, followed
from tests.definitions import reference
from tests.frameworks.drawn_calls import GATHERS, SCATTERS, drawn_calls

DATA = np.arange(6.0, dtype=np.float32).reshape(3, 2)
POINTS = np.array([[2, 1], [0, 0], [2, 1]])


def assert_is(actual, expected):
    assert isinstance(actual, tf.Tensor)
    np.testing.assert_array_equal(actual.numpy(), expected, strict=True)


def test_nan_wins_and_complex_means():
    data = np.array([1.0, np.nan, 3.0], np.float32)
    updates = np.array([np.nan, 5.0, 4.0], np.float32)
    for reduction in ("min", "max"):
        actual = ndgather.scatter_elements(
            tf.constant(data), [0, 1, 2], updates, reduction=reduction
        )
        expected = reference.scatter_elements(data, np.arange(3), updates, reduction=reduction)
        assert_is(actual, expected)
    data = np.array([1 + 2j, 3 - 1j], np.complex64)
    actual = ndgather.scatter_elements(tf.constant(data), [0, 0], data, reduction="mean")
    expected = reference.scatter_elements(data, np.zeros(2, int), data, reduction="mean")
    assert_is(actual, expected)


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float64", "complex128"])
def test_means_are_exact_in_their_dtype(dtype, use_init_val):
    data, updates = np.array([0.1, 7, 0.3]).astype(dtype), np.array([0.7, 0.2, 2.1]).astype(dtype)
    if data.dtype.kind in "iu":
        data[0], updates[:] = np.iinfo(dtype).max, (0, 4, 2)
    options = {"reduction": "mean", "use_init_val": use_init_val}
    actual = ndgather.scatter_elements(tf.constant(data), [0, 2, 2], updates, **options)
    assert_is(actual, reference.scatter_elements(data, np.array([0, 2, 2]), updates, **options))


@settings(max_examples=10)
@given(call=drawn_calls(GATHERS + SCATTERS, ("int64", "float32")))
def test_graphs_of_known_sizes(call):
    if call.error() is not None:
        with pytest.raises((tf.errors.InvalidArgumentError, IndexOutOfBoundsError)):
            tf.function(lambda: call.run(tf.constant))()
        return
    arrays = [call.data, call.indices] + ([] if call.updates is None else [call.updates])
    function = getattr(ndgather, call.name)
    graph = tf.function(lambda *tensors: function(*tensors, **call.options))
    assert_is(graph(*map(tf.constant, arrays)), call.expected())


@settings(max_examples=10)
@given(call=drawn_calls(GATHERS + SCATTERS, ("int64", "float32")))
def test_graphs_of_unknown_sizes(call):
    if call.error() is not None:
        return
    arrays = [call.data, call.indices] + ([] if call.updates is None else [call.updates])
    specs = [tf.TensorSpec([None] * each.ndim, each.dtype) for each in arrays]
    if call.name.endswith(("_nd", "_windows")):
        shape = [None] * (call.indices.ndim - 1) + [call.indices.shape[-1]]
        specs[1] = tf.TensorSpec(shape, call.indices.dtype)
    function = getattr(ndgather, call.name)
    graph = tf.function(lambda *tensors: function(*tensors, **call.options), input_signature=specs)
    assert_is(graph(*map(tf.constant, arrays)), call.expected())


@pytest.mark.parametrize("sizes", [(3, 2), (None, 2), (3, None), (None, None)])
def test_known_sizes_are_known_in_the_result(sizes):
    data, rows = tf.TensorSpec(sizes, tf.float32), tf.TensorSpec([4, 1], tf.int64)
    updates = tf.TensorSpec([4, sizes[1]], tf.float32)

    def shape(function, *given):
        return tuple(tf.function(function).get_concrete_function(*given).output_shapes)

    for reduction in ("none", "add", "mean", "max"):
        function = partial(ndgather.scatter_nd, reduction=reduction)
        assert shape(function, data, rows, updates) == sizes
    assert shape(ndgather.gather_nd, data, rows) == (4, sizes[1])
    assert shape(partial(ndgather.gather, axis=1), data, rows) == (sizes[0], 4, 1)


@pytest.mark.parametrize("dtype", [tf.int64, tf.bool, tf.string])
def test_empty_scatter_in_a_graph_of_unknown_sizes(dtype):
    specs = [tf.TensorSpec([None], each) for each in (dtype, tf.int64, dtype)]
    graph = tf.function(ndgather.scatter_elements, input_signature=specs)
    data = tf.zeros([2], dtype)
    assert graph(data, tf.zeros([0], tf.int64), data[:0]).numpy().tolist() == data.numpy().tolist()


def test_bad_index_in_a_graph_raises_when_it_runs():
    graph = tf.function(ndgather.gather_nd)
    for bad in ([0, 2], [3, 0], [-4, 0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="gather_nd: indices are out of b"):
            graph(tf.constant(DATA), tf.constant([[0, 0], bad]))


def test_gradients_of_gathers():
    data = tf.Variable(DATA)
    cotangent = np.array([1.0, 10.0, 100.0], np.float32)
    for run in (ndgather.gather_nd, tf.function(ndgather.gather_nd)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(run(data, tf.constant(POINTS)) * cotangent)
        actual = tf.convert_to_tensor(tape.gradient(loss, data))
        assert_is(actual, vjp.gather_nd(cotangent, DATA.shape, POINTS))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(ndgather.gather_windows(data, [[0], [1]], (2,)))
    expected = vjp.gather_windows(np.ones((2, 2, 2), np.float32), DATA.shape, [[0], [1]], (2,))
    assert_is(tf.convert_to_tensor(tape.gradient(loss, data)), expected)
    with tf.GradientTape() as tape:
        filled = ndgather.gather(data, [0, 9], mode="fill", fill_value=5)
    expected = np.array([[1, 1], [0, 0], [0, 0]], np.float32)
    assert_is(tf.convert_to_tensor(tape.gradient(filled, data)), expected)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_gradients_of_scatters(reduction):
    data, updates = tf.Variable(DATA), tf.Variable(np.ones(3, np.float32))
    weights = np.arange(1.0, 7, dtype=np.float32).reshape(3, 2)
    with tf.GradientTape() as tape:
        result = ndgather.scatter_nd(data, POINTS, updates, reduction=reduction)
        loss = tf.reduce_sum(result * weights)
    actual = tape.gradient(loss, [data, updates])
    for given_one, expected in zip(actual, vjp.scatter_nd(weights, POINTS, reduction), strict=True):
        assert_is(tf.convert_to_tensor(given_one), expected)


@pytest.mark.parametrize("reduction", ["sub", "mul", "min", "max", "mean"])
def test_gradients_of_other_reductions_equal_finite_differences(reduction):
    updates = np.array([1.5, 0.5, 2.5], np.float64)
    data = DATA.astype(np.float64) + 1

    def loss(values):
        result = ndgather.scatter_nd(data, POINTS, values, reduction=reduction)
        return (np.asarray(result) * [[1, 2], [3, 4], [5, 6]]).sum()

    with tf.GradientTape() as tape:
        given_ones = tf.Variable(updates)
        result = ndgather.scatter_nd(tf.constant(data), POINTS, given_ones, reduction=reduction)
        total = tf.reduce_sum(result * [[1, 2], [3, 4], [5, 6]])
    actual = tf.convert_to_tensor(tape.gradient(total, given_ones)).numpy()
    steps = np.eye(3) * 1e-6
    expected = [(loss(updates + step) - loss(updates - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_strings_and_bfloat16():
    words = ndgather.gather(tf.constant(["a", "b"]), [1, 9], mode="fill")
    assert words.numpy().tolist() == [b"b", b""]
    words = ndgather.gather(tf.constant(["a", "b"]), [1, 9], mode="fill", fill_value="none")
    assert words.numpy().tolist() == [b"b", b"none"]
    for number in (0, 1.5, np.datetime64("2026")):
        with pytest.raises(DTypeError, match=r"^gather: fill_value = "):
            ndgather.gather(tf.constant(["a", "b"]), [9], mode="fill", fill_value=number)
    text = "scatter_nd: updates = ndarray object cannot be converted to a tensor: Failed to convert"
    with pytest.raises(DTypeError, match=text):
        ndgather.scatter_nd(tf.constant(["a", "b"]), [[0]], [None])
    halves = tf.constant([1.5, 2.5], tf.bfloat16)
    assert ndgather.scatter_elements(halves, [1], halves[:1], reduction="add").dtype == tf.bfloat16


def test_variables_are_accepted_as_data_and_out():
    variable = tf.Variable(DATA)
    assert_is(ndgather.gather(variable, [1]), DATA[1:2])
    assert ndgather.scatter_nd(variable, [[0, 0]], [9.0], out=variable) is variable
    assert variable.numpy()[0, 0] == 9
    with pytest.raises(DTypeError, match=r"^gather: out = .*Tensor object cannot be assigned to"):
        ndgather.gather(variable, [1], out=tf.constant(DATA[1:2]))
    with pytest.raises(ShapeError, match=r"^gather: out\.shape"):
        ndgather.gather(variable, [1], out=tf.Variable(DATA))


def test_mixed_libraries():
    assert_is(ndgather.gather(tf.constant(DATA), np.array([1])), DATA[1:2])
    assert_is(ndgather.scatter_nd(tf.constant(DATA), [[0, 0]], [5.0])[0], np.float32([5, 1]))
    taken = ndgather.gather(DATA, tf.constant([1]))
    np.testing.assert_array_equal(taken, DATA[1:2], strict=True)
    graph = tf.function(lambda indices: ndgather.gather(DATA, indices))
    with pytest.raises(DTypeError, match=r"write tf\.convert_to_tensor\(data\)"):
        graph(tf.constant([1]))
    graph = tf.function(lambda indices: ndgather.gather(tf.convert_to_tensor(DATA), indices))
    assert_is(graph(tf.constant([1])), DATA[1:2])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda t: ndgather.gather(tf.ragged.constant([[1], [2, 3]]), [0]),
            DTypeError,
            "data = Ra",
        ),
        (lambda t: ndgather.gather(tf.sparse.from_dense(t), [0]), DTypeError, "data = SparseTen"),
        (
            lambda t: ndgather.gather(tf.Variable(t).handle, [0]),
            DTypeError,
            "data = EagerTensor object holds a resource",
        ),
        (lambda t: ndgather.gather(t, tf.constant([0.5])), DTypeError, "indices.dtype = float32"),
        (lambda t: ndgather.gather(t, [0], axis=2), NdgatherError, "axis = 2 is out of range"),
        (lambda t: ndgather.gather(t, [0], fill_value=0), NdgatherError, "fill_value is given"),
        (lambda t: ndgather.gather(t, [0], mode="no"), NdgatherError, "mode = 'no' is unknown"),
        (lambda t: ndgather.scatter_nd(t, [[0]], t), ShapeError, r"updates.shape = \(3, 2\)"),
        (
            lambda t: ndgather.scatter_nd(t, [[0]], tf.constant([[1, 2]])),
            DTypeError,
            "updates.dtype = int32 differs",
        ),
        (
            lambda t: ndgather.scatter_nd(
                tf.constant(["a"]), [[0]], tf.constant(["b"]), reduction="add"
            ),
            DTypeError,
            "reduction = 'add' is not defined",
        ),
    ],
)
def test_unsupported_calls_are_refused(call, error, text):
    with pytest.raises(error, match=rf"^\w+: {text}"):
        call(tf.constant(DATA))


def test_unknown_ranks_are_refused():
    graph = tf.function(
        ndgather.gather_nd,
        autograph=False,  # which replaces exceptions by its own
        input_signature=[tf.TensorSpec(None), tf.TensorSpec([None, None], tf.int64)],
    )
    with pytest.raises(ShapeError, match=r"gather_nd: data\.shape has an unknown rank"):
        graph(DATA, POINTS)


def test_index_values_beyond_int64():
    data, far = np.arange(7), np.array([2**64 - 1, 2, 2**63, 3], np.uint64)
    for mode in ("wrap", "clip", "fill"):
        for function, indices in ((ndgather.gather, far), (ndgather.gather_nd, far[:, None])):
            actual = function(tf.constant(data), tf.constant(indices), mode=mode)
            assert_is(actual, function(data, indices, mode=mode))
    with pytest.raises(
        IndexOutOfBoundsError, match=r"^gather: indices\[0\] = 18446744073709551615"
    ):
        ndgather.gather(tf.constant(data), tf.constant(far))


def test_data_that_is_empty_at_run_time_is_filled():
    graph = tf.function(
        lambda data, indices: ndgather.gather(data, indices, mode="fill", fill_value=7),
        input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int64)],
    )
    assert_is(graph(DATA[:0], [0, 3]), np.full((2, 2), 7, np.float32))
    assert_is(graph(DATA, [0, 3]), np.array([[0, 1], [7, 7]], np.float32))
    with tf.GradientTape() as tape:
        data = tf.Variable(DATA, shape=[None, 2])
        total = tf.reduce_sum(graph(data, [0, 3]))
    gradient = tf.convert_to_tensor(tape.gradient(total, data))
    assert_is(gradient, np.array([[1, 1], [0, 0], [0, 0]], np.float32))


def test_unsupported_reductions_raise(monkeypatch):
    """No rule accepts a name that it does not know."""
    names = ("none", "add", "sub", "mul", "min", "max", "mean", "power")
    monkeypatch.setattr(arguments, "REDUCTIONS", names)
    monkeypatch.setattr(arguments, "supported_reductions", lambda dtype: names)
    with pytest.raises(KeyError):
        ndgather.scatter_nd(tf.ones(2), [[0]], tf.ones(1), reduction="power")


def test_error_of_a_window_has_the_bounds_of_its_axis():
    data, sizes = np.zeros((6, 8)), (2, 4)
    for starts in ([[0, 0], [0, 5]], [[0, 4], [5, 0]]):
        texts = []
        for array in (data, tf.constant(data)):
            with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
                ndgather.gather_windows(array, starts, sizes)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
    assert "(allowed: 0..4)" in texts[0]


TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
OUTSIDE = {  # each with the result for indices 2 and 9; the latter is out of bounds
    "gather": (ndgather.gather, [[5, 6], [0, 0]]),
    "gather_nd": (lambda t, i: ndgather.gather_nd(t, i[:, None]), [[5, 6], [0, 0]]),
    "elements": (lambda t, i: ndgather.gather_elements(t, i[:, None]), [[5], [0]]),
    "columns": (lambda t, i: ndgather.gather(t, i - 1, axis=1)[0], [2, 0]),
    "windows": (lambda t, i: ndgather.gather_windows(t, i[:, None], (1,)), [[[5, 6]], [[0, 0]]]),
    "scatter": (lambda t, i: ndgather.scatter_nd(t, i[:, None], -t[:2])[::2], [[1, 2], [-1, -2]]),
    "add": (
        lambda t, i: ndgather.scatter_nd(t, i[:, None], t[:2], reduction="add")[::2],
        [[1, 2], [6, 8]],
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_without_assertions_other_elements_are_not_read_or_written(name):
    function, wanted = OUTSIDE[name]
    table, places = tf.constant(TABLE), tf.constant([2, 9])
    compiled = tf.function(function, jit_compile=True)
    assert compiled(table, places).numpy().tolist() == wanted
    with tf.GradientTape() as tape:
        tape.watch(table)
        total = tf.reduce_sum(compiled(table, places))
    gradient = tape.gradient(total, table).numpy()
    assert gradient[1].tolist() == [0, 0] or name == "columns"
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        tf.function(function)(table, places)


def test_vectorized_map_does_not_read_other_rows():
    table, places = tf.constant(TABLE), tf.constant([2, 9, -1])
    rows = tf.vectorized_map(lambda place: ndgather.gather(table, place), places)
    assert rows.numpy().tolist() == [[5, 6], [0, 0], [5, 6]]
    tables = tf.vectorized_map(
        lambda place: ndgather.scatter_nd(table, place[None, None], -table[:1]), places
    )
    assert tables.numpy()[1].tolist() == TABLE.tolist()
    assert tables.numpy()[2].tolist() == [[1, 2], [3, 4], [-1, -2]]


@pytest.mark.parametrize(("function", "arrays", "result"), FOLLOWED.values(), ids=FOLLOWED)
def test_hints_for_tensors_work(function, arrays, result):
    assert_is(followed(function, [tf.constant(each) for each in arrays], tf=tf), result)


REFUSED = {
    "option": (lambda t, i: ndgather.gather(t, i, dim=1), errors.CallError),
    "mode": (lambda t, i: ndgather.gather(t, i, mode="warp"), errors.AttributeValueError),
    "axis": (lambda t, i: ndgather.gather(t, i, axis=5), errors.AttributeValueError),
    "shape": (lambda t, i: ndgather.scatter_nd(t, i[:, None], -t[:1]), errors.ShapeError),
    "updates": (
        lambda t, i: ndgather.scatter_nd(tf.cast(t, tf.uint8), i[:, None], [[300, 1], [1, 1]]),
        errors.DTypeError,
    ),
    "fill": (
        lambda t, i: ndgather.gather(tf.cast(t, tf.uint8), i, mode="fill", fill_value=300),
        errors.DTypeError,
    ),
    "fill of a graph": (
        lambda t, i: ndgather.gather(t, i, mode="fill", fill_value=t[0, 0]),
        errors.DTypeError,
    ),
    "out": (lambda t, i: ndgather.gather(t, i, out=3), errors.DTypeError),
    "objects": (lambda t, i: ndgather.gather([None, object()], i), errors.DTypeError),
}


def test_fused_batch_axes_leave_one_size_unknown():
    gather = ndgather.operator("GatherND", domain="openvino", version=5)
    data, indices = np.arange(120).reshape(2, 3, 4, 5), np.arange(24).reshape(2, 3, 4, 1) % 4
    types = [tf.TensorSpec(data.shape, tf.int64), tf.TensorSpec((2, 3, None, 1), tf.int64)]
    function = tf.function(lambda *arrays: gather(*arrays, batch_dims=2), input_signature=types)
    rows = np.take_along_axis(data, indices, 2)
    np.testing.assert_array_equal(function(data, indices), rows.reshape(6, 4, 5))


@pytest.mark.parametrize("name", REFUSED)
def test_graphs_raise_our_errors(name):
    function, error = REFUSED[name]
    caller = "scatter_nd" if name in ("shape", "updates") else "gather"
    with pytest.raises(error, match=rf"(?m)\b{caller}: "):
        tf.function(function)(tf.constant(TABLE), tf.constant([2, 1]))


@pytest.mark.parametrize(
    ("data", "indices", "updates", "error"),
    [
        (
            [None, 3],
            [None, 1],
            [None, 2],
            "updates.shape = (?, 2) does not match indices and data (allowed: (?, 3))",
        ),
        (
            [4, None],
            [1],
            [1, 3],
            "updates.shape = (1, 3) does not match indices and data (allowed: (?,))",
        ),
        ([None, None, 2], [3, 2], [3, 5], "(allowed: (3, 2))"),
    ],
)
def test_errors_show_unknown_sizes_of_a_graph_as_question_marks(data, indices, updates, error):
    specs = [tf.TensorSpec(data), tf.TensorSpec(indices, tf.int64), tf.TensorSpec(updates)]
    with pytest.raises(errors.ShapeError, match=re.escape(error)):
        tf.function(ndgather.scatter_nd, input_signature=specs).get_concrete_function()
