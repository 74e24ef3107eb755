"""Columns, tables and tensors of polars and Arrow: values and nulls by the definition."""

from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frameworks.drawn_calls import GATHERS, SCATTERS, drawn_calls

import ndgather
from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError, ShapeError
from ndgather.testing import reference

KINDS = {
    "polars.Series": (pl.Series, lambda values: pl.Series("n", values)),
    "pyarrow.Array": (pa.Array, pa.array),
    "pyarrow.ChunkedArray": (pa.ChunkedArray, lambda values: pa.chunked_array([values])),
}
DTYPES = ("bool", "int8", "int64", "uint16", "float32", "float64")
TABLE = pl.DataFrame({"a": [1, 2, None], "b": [4, 5, 6], "c": ["x", "y", "z"]})


def listed(column):
    return column.to_list() if isinstance(column, pl.Series) else column.to_pylist()


def named(kind, values):
    return KINDS[kind][1](values)


@pytest.mark.parametrize("kind", KINDS)
@given(call=drawn_calls(GATHERS, DTYPES))
def test_a_gather_of_a_column(kind, call):
    if call.data.ndim > 1 or call.name == "gather_windows":
        return
    data = named(kind, call.data)
    run = getattr(ndgather, call.name)
    if call.error() is not None:
        with pytest.raises(IndexOutOfBoundsError) as refused:
            run(data, call.indices, **call.options)
        assert str(refused.value) == str(call.error())
        return
    expected = call.expected()
    if expected.ndim > 1:
        with pytest.raises(ShapeError, match="the result would have rank"):
            run(data, call.indices, **call.options)
        return
    actual = run(data, call.indices, **call.options)
    if call.options["mode"] == "fill" and "fill_value" not in call.options:
        inside = replace(call, data=np.ones(call.data.shape, bool)).expected()
        expected = np.where(inside, expected.astype(object), None)
    if not expected.ndim:
        element = actual.as_py() if isinstance(actual, pa.Scalar) else actual
        assert element == expected.item()
        return
    assert isinstance(actual, KINDS[kind][0])
    assert actual.dtype == data.dtype if kind == "polars.Series" else actual.type == data.type
    assert listed(actual) == expected.tolist()


@pytest.mark.parametrize("kind", KINDS)
@given(call=drawn_calls(SCATTERS, DTYPES[1:]), draw=st.data())
def test_a_scatter_of_a_column_with_nulls(kind, call, draw):
    if call.data.ndim > 1 or np.ndim(call.updates) != 1 or call.error() is not None:
        return
    flags = st.lists(st.booleans(), min_size=len(call.data), max_size=len(call.data))
    empty = np.array(draw.draw(flags), bool)
    flags = st.lists(st.booleans(), min_size=len(call.updates), max_size=len(call.updates))
    missing = np.array(draw.draw(flags), bool)
    columns = [
        named(kind, pa.array(values, mask=mask))
        for values, mask in ((call.data, empty), (call.updates, missing))
    ]
    actual = getattr(ndgather, call.name)(columns[0], call.indices, columns[1], **call.options)
    assert isinstance(actual, KINDS[kind][0])
    reduced = "none" if call.options["reduction"] == "none" else "max"
    null = getattr(reference, call.name)(
        empty, call.indices, missing, **call.options | {"reduction": reduced}
    )
    assert listed(actual) == np.where(null, None, call.expected().astype(object)).tolist()


@given(call=drawn_calls(GATHERS + SCATTERS, ("int64", "float32")))
def test_tensors_of_arrow(call):
    if call.error() is not None:
        with pytest.raises(IndexOutOfBoundsError):
            call.run(pa.Tensor.from_numpy)
        return
    actual = call.run(pa.Tensor.from_numpy)
    assert isinstance(actual, pa.Tensor)
    np.testing.assert_array_equal(actual.to_numpy(), call.expected(), strict=True)


def test_numbers_of_arrow_are_not_copied():
    data = pa.array(np.arange(4.0))
    values = ndgather.gather(data, pa.array([3, 1])).to_numpy(zero_copy_only=True)
    assert values.tolist() == [3.0, 1.0]
    assert ndgather.gather(data[1:], [0]).to_pylist() == [1.0]
    sliced = pa.array([None, 1, 2])[1:]
    assert ndgather.gather(sliced, [1, 0]).to_pylist() == [2, 1]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "c"]),
        pa.array([[1], None, [2, 3]]),
        pa.array([1, None, 3], pa.timestamp("us", "UTC")),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([True, None, False]),
    ],
    ids=lambda values: str(values.type),
)
def test_types_stay_what_they_are(values):
    taken = ndgather.gather(values, [2, 9, 1], mode="fill")
    assert taken.type == values.type
    assert taken.to_pylist() == [values[2].as_py(), None, values[1].as_py()]
    series = pl.Series(values)
    taken = ndgather.gather(series, [2, 9, 1], mode="fill")
    assert taken.dtype == series.dtype
    listed_ones = series.to_list()
    assert taken.to_list() == [listed_ones[2], None, listed_ones[1]]


def test_rows_of_tables():
    rows = ndgather.gather(TABLE, [2, 0, 2])
    assert rows.equals(TABLE[[2, 0, 2]])
    assert ndgather.gather_nd(TABLE, [[1]]).equals(TABLE[[1]])
    filled = ndgather.gather(TABLE, pl.Series([1, 7]), mode="fill")
    assert filled.rows() == [(2, 5, "y"), (None, None, None)]
    assert ndgather.gather(TABLE, [2, 0], axis=1).columns == ["c", "a"]
    assert ndgather.gather(TABLE, 1, axis=1).equals(TABLE["b"])
    cells = ndgather.gather_nd(TABLE[["a", "b"]], pl.DataFrame({"row": [0, 2], "column": [1, 0]}))
    assert cells.to_list() == [4, None]
    for table in (TABLE.to_arrow(), TABLE.to_arrow().to_batches()[0]):
        taken = ndgather.gather(table, [2, 0])
        assert type(taken) is type(table)
        assert taken.equals(table.take([2, 0]))


def test_data_of_numpy_take_columns_as_arguments():
    for column in (pl.Series, pa.array):
        result = ndgather.scatter_elements(np.arange(3), column([1]), column([9]))
        np.testing.assert_array_equal(result, [0, 9, 2], strict=True)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ndgather.gather(TABLE.lazy(), [0]), DTypeError, "data = LazyFrame object is of"),
        (lambda: ndgather.gather(pl.col("a"), [0]), DTypeError, "data = Expr object is of polars"),
        (lambda: ndgather.gather(pa.scalar(1), [0]), DTypeError, "data = Int64Scalar object is"),
        (
            lambda: ndgather.scatter_nd([1], [[0]], pa.array([None], pa.int64())),
            DTypeError,
            "updates has nulls",
        ),
        (lambda: ndgather.gather(TABLE, [0, 0], axis=1), ShapeError, "indices name columns"),
        (lambda: ndgather.gather_nd(TABLE, [[0, 0]]), DTypeError, "data = DataFrame object has"),
        (lambda: ndgather.gather(TABLE["a"], [0], out=TABLE["a"]), NdgatherError, "out is given"),
        (lambda: ndgather.gather([1], [0], out=TABLE["a"]), DTypeError, "out = Series object"),
        (lambda: ndgather.gather(TABLE.to_arrow(), [0], axis=1), ShapeError, "data = Table obj"),
        (lambda: ndgather.scatter_nd(TABLE, [[0]], [[1]]), DTypeError, "data = DataFrame object"),
        (lambda: ndgather.scatter_nd(TABLE["c"], [[0]], ["q"]), DTypeError, "data = Series object"),
        (lambda: ndgather.scatter_nd(pa.array(["a"]), [[0]], ["q"]), DTypeError, "data = String"),
    ],
)
def test_what_columns_cannot_hold_is_refused(call, error, text):
    with pytest.raises(error, match=rf"^\w+: {text}"):
        call()


@pytest.mark.parametrize("column", [pl.Series, pa.array])
def test_values_that_columns_cannot_hold_are_refused(column):
    with pytest.raises(DTypeError, match=r"^gather: indices has nulls, which are not positions"):
        ndgather.gather([1], column([0, None]))
    with pytest.raises(DTypeError, match=r"^gather: fill_value = 0\.5 cannot be held"):
        ndgather.gather(column([1]), [9], mode="fill", fill_value=0.5)
