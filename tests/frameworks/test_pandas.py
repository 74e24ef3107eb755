"""Series, DataFrames and indexes of pandas: values by the definition, labels by `take`."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from tests.frameworks.drawn_calls import drawn_calls

import ndgather
from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError, ShapeError

TABLE = pd.DataFrame(
    {"height": [1.5, 2.5, 3.5], "count": [1, 2, 3], "name": ["a", None, "c"]},
    index=pd.Index(["x", "y", "z"], name="site"),
)
NUMBERS = TABLE[["height", "count"]]
COLUMN = TABLE["count"]


@given(call=drawn_calls(("gather_nd", "gather_elements", "gather"), ("int64", "float32", "bool")))
def test_values_are_those_of_the_definition(call):
    if call.data.ndim > 2:
        return
    convert = {1: pd.Series, 2: pd.DataFrame}[call.data.ndim]
    data = convert(call.data)
    refused = call.error()
    if refused is not None:
        with pytest.raises(IndexOutOfBoundsError):
            getattr(ndgather, call.name)(data, call.indices, **call.options)
        return
    expected = call.expected()
    try:
        actual = getattr(ndgather, call.name)(data, call.indices, **call.options)
    except NdgatherError:
        columns = call.options["mode"] == "fill" and data.ndim == 2
        assert expected.ndim > data.ndim or columns
        return
    assert np.shape(actual) == expected.shape
    np.testing.assert_array_equal(np.asarray(actual), expected)
    if expected.size and call.data.size and call.data.ndim == np.ndim(actual):
        assert np.asarray(actual).dtype == expected.dtype


@given(call=drawn_calls(("scatter_nd", "scatter_elements"), ("int64", "float32")))
def test_a_scatter_keeps_labels(call):
    if call.data.ndim > 2 or call.error() is not None:
        return
    convert = {1: pd.Series, 2: pd.DataFrame}[call.data.ndim]
    labels = pd.Index([f"row {i}" for i in range(len(call.data))])
    data = convert(call.data, index=labels, dtype=call.data.dtype)
    if not data.shape[-1]:
        return  # without columns there is no type
    actual = getattr(ndgather, call.name)(data, call.indices, call.updates, **call.options)
    assert type(actual) is convert
    pd.testing.assert_index_equal(actual.index, labels)
    np.testing.assert_array_equal(actual.to_numpy(), call.expected(), strict=True)


def test_rows_are_those_of_take():
    rows = [2, 0, 2]
    pd.testing.assert_frame_equal(ndgather.gather(TABLE, rows), TABLE.take(rows))
    pd.testing.assert_frame_equal(
        ndgather.gather_nd(TABLE, np.array(rows)[:, None]), TABLE.take(rows)
    )
    pd.testing.assert_series_equal(ndgather.gather(COLUMN, pd.Series(rows)), COLUMN.take(rows))
    pd.testing.assert_series_equal(ndgather.gather_elements(COLUMN, rows), COLUMN.take(rows))
    pd.testing.assert_frame_equal(
        ndgather.gather(TABLE, [1, 0], axis=1), TABLE.take([1, 0], axis=1)
    )
    pd.testing.assert_series_equal(ndgather.gather(TABLE, 1), TABLE.iloc[1])
    assert ndgather.gather(COLUMN, 1) == 2


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, None, 3], dtype="Int64"),
        pd.array(["a", None, "c"], dtype="str"),
        pd.Categorical(["a", None, "c"]),
        pd.date_range("2020-01-01", periods=3, tz="UTC").array,
        pd.arrays.SparseArray([0.0, np.nan, 1.0]),
        pd.interval_range(0.0, 3.0).array,
    ],
    ids=lambda values: str(values.dtype),
)
def test_types_of_pandas_stay_what_they_are(values):
    series = pd.Series(values, index=list("xyz"))
    pd.testing.assert_series_equal(ndgather.gather(series, [2, 1]), series.take([2, 1]))
    pd.testing.assert_extension_array_equal(ndgather.gather(values, [2, 1]), values.take([2, 1]))
    filled = ndgather.gather(series, [2, 9], mode="fill")
    assert filled.dtype == series.dtype
    assert filled.index[0] == "z"
    assert pd.isna(filled.index[1])


def test_what_is_filled_has_no_label():
    filled = ndgather.gather(TABLE, [1, 7], mode="fill")
    assert filled.dtypes.tolist() == TABLE.dtypes.tolist()
    assert filled.index[0] == "y"
    assert pd.isna(filled.index[1])
    assert filled["count"].tolist() == [2, 0]
    assert filled["name"].isna().all()
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    series = pd.Series([1, 2], index=pairs)
    assert np.isnan(ndgather.gather(series, [5], mode="fill").index[0]).all()
    with pytest.raises(DTypeError, match=r"^gather: fill_value = 0\.5 cannot be held"):
        ndgather.gather(COLUMN, [9], mode="fill", fill_value=0.5)
    for values in (pd.arrays.SparseArray([1]), pd.Categorical(["a"])):
        with pytest.raises(DTypeError, match=r"^gather: fill_value = 'b' cannot be held"):
            ndgather.gather(pd.Series(values), [9], mode="fill", fill_value="b")


def test_an_index_gives_an_index():
    pd.testing.assert_index_equal(ndgather.gather(TABLE.index, [2, 0]), TABLE.index.take([2, 0]))
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    pd.testing.assert_index_equal(ndgather.gather(pairs, [1]), pairs.take([1]))


def test_single_cells_have_the_labels_of_the_points():
    points = pd.DataFrame({"row": [2, 0], "column": [1, 0]}, index=["first", "second"])
    cells = ndgather.gather_nd(NUMBERS, points)
    pd.testing.assert_series_equal(cells, pd.Series([3.0, 1.5], index=points.index))
    pd.testing.assert_series_equal(
        ndgather.gather_nd(NUMBERS, points.to_numpy()), pd.Series([3.0, 1.5])
    )
    down = ndgather.gather_elements(NUMBERS, [[2, 0]], axis=0)
    pd.testing.assert_frame_equal(down, pd.DataFrame({"height": [3.5], "count": [1.0]}))
    along = ndgather.gather_elements(NUMBERS, [[1], [0]], axis=1)
    assert along.index.tolist() == ["x", "y"]
    assert along[0].tolist() == [1.0, 2.5]


def test_attributes_and_names_stay():
    column = COLUMN.copy()
    column.attrs["unit"] = "m"
    assert ndgather.gather(column, [1]).attrs == {"unit": "m"}
    scattered = ndgather.scatter_nd(column, [[0]], [9])
    assert scattered.attrs == {"unit": "m"}
    assert scattered.name == "count"
    assert column.tolist() == [1, 2, 3]


def test_data_of_numpy_take_arguments_of_pandas():
    result = ndgather.scatter_nd(np.arange(3), pd.DataFrame({"at": [1]}), pd.Series([9]))
    np.testing.assert_array_equal(result, [0, 9, 2], strict=True)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ndgather.gather(COLUMN, [[0]]), ShapeError, "the result would have rank 2"),
        (lambda: ndgather.gather_windows(COLUMN, [[0]], (2,)), ShapeError, "the result would"),
        (lambda: ndgather.gather(COLUMN, [3]), IndexOutOfBoundsError, r"indices\[0\] = 3 is out"),
        (
            lambda: ndgather.gather(TABLE, [3]),
            IndexOutOfBoundsError,
            r"indices\[0\] = 3 is outside axis 0 of data, which has size 3",
        ),
        (
            lambda: ndgather.gather(TABLE, [3], axis=1),
            IndexOutOfBoundsError,
            r"indices\[0\] = 3 is outside axis 1 of data, which has size 3",
        ),
        (lambda: ndgather.gather(TABLE, [0], axis=2), NdgatherError, "axis = 2 is out of range"),
        (lambda: ndgather.gather(COLUMN, [0], out=COLUMN), NdgatherError, "out is given, but"),
        (lambda: ndgather.gather([1], [0], out=COLUMN), DTypeError, "out = Series object"),
        (lambda: ndgather.gather(COLUMN, pd.array([1, None])), DTypeError, "indices"),
        (lambda: ndgather.gather(TABLE.groupby("count"), [0]), DTypeError, "data = DataFrameGro"),
        (lambda: ndgather.scatter_nd(TABLE, [[0, 0]], [1]), DTypeError, "data = DataFrame object"),
        (
            lambda: ndgather.scatter_nd(pd.Series(["a"]), [[0]], ["b"]),
            DTypeError,
            "data = Series object of str cannot be updated",
        ),
    ],
)
def test_what_pandas_cannot_hold_is_refused(call, error, text):
    with pytest.raises(error, match=rf"^\w+: {text}"):
        call()
