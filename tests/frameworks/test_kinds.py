"""The table of docs/kinds.md shows the types of results."""

from contextlib import suppress

import array_api_strict
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tensorflow as tf
import torch

import ndgather
from ndgather import vjp
from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError, ShapeError
from tests.definitions import reference
from tests.frameworks import kinds_table
from tests.frameworks.kinds import KINDS


def test_table_matches_the_types_of_results():
    expected = kinds_table.table()
    assert kinds_table.written() == expected  # python -m tests.frameworks.kinds_table writes it
    assert not [line for line in expected if "lost" in line]


def arrays_of(values):
    """Return `values` as arrays of all types that support them, by name."""
    made = {}
    for kind in KINDS:
        with suppress(Exception):  # a type with floats only, or with a single axis
            made[kind.name] = kind.make(values)
    return made


ODD = {
    "ragged": tf.ragged.constant([[1], [2, 3]]),
    "text of TensorFlow": tf.constant(["a", "b"]),
    "scalar of TensorFlow": tf.constant(1),
    "LazyFrame": pl.LazyFrame({"a": [1]}),
    "empty DataFrame of polars": pl.DataFrame(),
    "text of polars": pl.Series(["a", "b"]),
    "nulls of Arrow": pa.nulls(3),
    "scalar of Arrow": pa.scalar(1),
    "empty table of Arrow": pa.table({}),
    "missing": pd.NA,
    "empty DataFrame of pandas": pd.DataFrame(),
    "MultiIndex": pd.MultiIndex.from_tuples([(1, 2), (3, 4)]),
    "dates": pd.date_range("2020", periods=3),
    "masked": np.ma.masked,
}


REFUSED = (
    *("pandas Series", "pandas DataFrame", "polars Series", "polars DataFrame", "Arrow array"),
    *("pydata sparse array", "SciPy sparse array"),
)


def numbers_of(value):
    """Return an argument as NumPy numbers, depending on its library."""
    read = next((kind.read for kind in KINDS if type(kind.data) is type(value)), np.asarray)
    if hasattr(value, "compute"):
        value = value.compute()
    array = np.ma.getdata(read(value))
    return array.astype(int) if array.size == 0 and array.dtype.kind == "f" else array


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_other_types_equal_the_loops_or_raise(kind):
    floats = arrays_of(np.array([[7.0, 8.0], [9.0, 10.0]]))
    tuples = arrays_of(np.array([[1], [0]]))
    calls = [
        *(("gather_nd", {"indices": each}) for each in [*ODD.values(), *tuples.values()]),
        *(("gather", {"indices": each, "axis": axis}) for each in ODD.values() for axis in (0, 1)),
        *(("gather", {"data": each, "indices": [1, 0]}) for each in ODD.values()),
        *(
            ("scatter_nd", {"indices": [[1], [0]], "updates": each})
            for each in (ODD | floats).values()
        ),
        *(("gather_nd", {"indices": [[1], [0]], "out": each}) for each in (ODD | floats).values()),
        *(
            ("gather_nd", {"indices": [[9]], "mode": "fill", "fill_value": each})
            for each in (*ODD.values(), object())
        ),
    ]
    answers = 0
    for name, given in calls:
        data = given.get("data", kind.data)
        before = numbers_of(data) if "data" not in given else None
        try:
            result = getattr(ndgather, name)(**{"data": data, **given})
        except NdgatherError:
            continue
        plain = {key: value for key, value in given.items() if key not in ("data", "out")}
        plain |= {key: numbers_of(plain[key]) for key in ("indices", "updates") if key in plain}
        if "fill_value" in plain:
            plain["fill_value"] = 0 if np.ma.is_masked(plain["fill_value"]) else plain["fill_value"]
        values = numbers_of(data) if before is None else before
        expected = getattr(reference, name)(values, **plain)
        np.testing.assert_array_equal(numbers_of(result), expected, err_msg=f"{name} {given}")
        answers += "data" not in given
    assert (answers > 0) == (kind.name not in REFUSED)


OPERATORS = {
    "Gather": "gather",
    "GatherElements": "gather_elements",
    "GatherND": "gather_nd",
    "ScatterElements": "scatter_elements",
    "ScatterND": "scatter_nd",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_operators_return_the_types_of_the_functions(kind):
    for name, function in OPERATORS.items():
        arguments = [*kinds_table.CALLS[kind.axes][function]]
        if len(arguments) == 2:
            arguments[1] = kind.updates(np.array(arguments[1]))
        answers = []
        for call in (getattr(ndgather, function), ndgather.operator(name)):
            try:
                answers.append(call(kind.data, *arguments))
            except NdgatherError:
                answers.append(None)
        expected, actual = answers
        assert type(actual) is type(expected), name
        if expected is not None:
            np.testing.assert_array_equal(*(np.asarray(kind.read(each)) for each in answers))


def test_operators_check_dtypes_of_every_library():
    gather = ndgather.operator("Gather", version=13)
    assert gather(tf.constant([1.0, 2.0]), tf.constant([-1])).numpy().tolist() == [2.0]
    add = ndgather.operator("ScatterND", version=16)
    added = add(np.array([1.0, 2.0]), pd.DataFrame({"at": [1]}), pl.Series([3.0]), reduction="add")
    assert added.tolist() == [1, 5]
    for updates in (pl.Series([3]), tf.constant([3]), pa.array([3]), pd.Series([3])):
        with pytest.raises(DTypeError, match=r"^ai\.onnx ScatterND-16: updates\.dtype = int"):
            add(np.array([1.0, 2.0]), [[1]], updates)
    with pytest.raises(DTypeError, match=r"^ai\.onnx Gather-13: indices\.dtype = float64 is not"):
        gather(tf.constant([1.0]), pa.array([0.0]))


def test_operators_check_shapes_before_values():
    """Unknown sizes stay unknown, and operators that merge axes merge them."""
    gather = ndgather.operator("GatherND", domain="openvino", version=5)
    data, indices = np.arange(8.0).reshape(2, 2, 2), np.zeros((2, 2, 1), np.int64)
    expected = gather(data, indices, batch_dims=2)
    assert expected.shape == (4,)
    for make in (tf.constant, array_api_strict.asarray, torch.tensor, jnp.asarray):
        actual = gather(make(data), indices, batch_dims=2)
        assert type(actual) is type(make(data))
        np.testing.assert_array_equal(np.from_dlpack(actual), expected)

    @tf.function(input_signature=[tf.TensorSpec((None, 2)), tf.TensorSpec((None, 1), tf.int32)])
    def function(data, indices):
        return ndgather.operator("GatherND", domain="openvino")(data, indices)

    assert function(tf.ones((3, 2)), tf.zeros((4, 1), tf.int32)).shape == (4, 2)


WITH_COTANGENTS = (
    *("NumPy array", "other subclass of a NumPy array"),
    *("TensorFlow tensor", "TensorFlow variable", "array-api-strict", "MLX array"),
)
PAIRS = np.array([[2, 1], [0, 0], [2, 1]])
PRODUCTS = (
    (vjp.gather_nd, np.array([1.0, 10, 100]), ((3, 2), PAIRS)),
    (vjp.gather_nd, np.array([1.0, 10]), ((2, 3), [[2], [0]], 1)),
    (vjp.gather_elements, np.array([[1.0, 10]]), ((3, 2), [[2, 2]])),
    (vjp.gather_elements, np.array([[1.0, 10]]), ((3, 2), [[1, 1]], 1)),
    (vjp.gather_windows, np.ones((2, 2, 2)), ((3, 2), [[0], [1]], (2,))),
    (vjp.scatter_nd, np.arange(6.0).reshape(3, 2), (PAIRS,)),
    (vjp.scatter_nd, np.arange(6.0).reshape(3, 2), (PAIRS, "add")),
    (vjp.scatter_elements, np.arange(6.0).reshape(3, 2), ([[2, 2]],)),
    (vjp.scatter_elements, np.arange(6.0).reshape(3, 2), ([[1, 1]], 1, "add")),
)


@pytest.mark.parametrize("name", WITH_COTANGENTS)
def test_cotangents_keep_their_type(name):
    kind = next(each for each in KINDS if each.name == name)
    for function, cotangent, arguments in PRODUCTS:
        expected = function(cotangent, *arguments)
        given = kind.make(cotangent)
        actual = function(given, *arguments)
        pairs = (
            zip(actual, expected, strict=True) if type(expected) is tuple else [(actual, expected)]
        )
        for one, plain in pairs:
            assert type(one) is type(given) or isinstance(given, tf.Variable)
            np.testing.assert_array_equal(np.asarray(kind.read(one)), plain)


@pytest.mark.parametrize("name", WITH_COTANGENTS[2:])
def test_cotangents_that_do_not_fit_are_refused(name):
    kind = next(each for each in KINDS if each.name == name)
    with pytest.raises(
        IndexOutOfBoundsError, match=r"^vjp\.gather_nd: indices\[0, 0\] = 3 is outs"
    ):
        vjp.gather_nd(kind.make(np.ones((1, 1))), (3, 1), [[3]])
    with pytest.raises(ShapeError, match=r"^vjp\.gather_nd: cotangent\.shape"):
        vjp.gather_nd(kind.make(np.ones((2, 1))), (3, 1), [[1]])
