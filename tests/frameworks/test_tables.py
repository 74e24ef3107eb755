"""Columns and tables of pandas, polars and Arrow are indices and updates, but not data."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ndgather
from ndgather.errors import DTypeError

LARGE = 2**53 + 1  # the first integer that float64 cannot represent
DATA = np.arange(4)
NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NAMES += ["float16", "float32", "float64"]
COLUMNS = {
    "Series of pandas": pd.Series,
    "Index of pandas": pd.Index,
    "nullable array of pandas": lambda values: pd.array(values, dtype=nullable(values)),
    "Arrow in pandas": lambda values: pd.Series(pa.array(values), dtype=pd.ArrowDtype(of(values))),
    "Series of polars": pl.Series,
    "array of Arrow": pa.array,
    "chunked array of Arrow": lambda values: pa.chunked_array([values[:1], values[1:]]),
}
TABLES = {
    "DataFrame of pandas": pd.DataFrame,
    "DataFrame of polars": pl.DataFrame,
    "Table of Arrow": pa.table,
}


def of(values):
    return pa.array(values).type


def nullable(values):
    name = np.asarray(values).dtype.name
    return "boolean" if name == "bool" else name.capitalize().replace("Ui", "UI")


@pytest.mark.parametrize("make", (COLUMNS | TABLES).values(), ids=COLUMNS | TABLES)
def test_columns_are_refused_as_data(make):
    values = np.array([1, 2])
    data = make({"a": values}) if make in TABLES.values() else make(values)
    calls = {
        "gather": lambda: ndgather.gather(data, [0]),
        "gather_ranges": lambda: ndgather.gather_ranges(data, [0], [1]),
        "scatter_nd": lambda: ndgather.scatter_nd(data, [[0]], [1]),
        "vjp.gather_nd": lambda: ndgather.vjp.gather_nd(data, (3,), [[0], [1]]),
        "ai.onnx Gather-13": lambda: ndgather.operator("Gather", version=13)(data, DATA[:1]),
    }
    for name, call in calls.items():
        with pytest.raises(
            DTypeError, match=rf"^{name}: (data|cotangent) = \w+ object is from "
        ) as e:
            call()
        assert "numpy.asarray(" in str(e.value)
    with pytest.raises(DTypeError, match=r"^gather: out = "):
        ndgather.gather(DATA, [0], out=data)
    with pytest.raises(DTypeError):
        ndgather.gather([data, data], [0])


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_every_dtype_are_refused_as_data_of_operators(make):
    """Arrow calls float16 halffloat and float64 double; pandas and polars use capitals."""
    for name in NAMES:
        if name == "float16" and make in (pd.Index, COLUMNS["nullable array of pandas"]):
            continue  # pandas has no such array
        column = make(np.array([1, 0], name))
        with pytest.raises(DTypeError, match=r"data = .* object is from "):
            ndgather.operator("GatherND", version=13)(column, [[1]])


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "float32", "float64", "bool"])
def test_columns_are_exact_as_updates(make, dtype):
    values = np.array([1, 0], dtype)
    if values.dtype.itemsize == 8 and values.dtype.kind in "iu":
        values = np.array([LARGE, np.iinfo(dtype).max], dtype)
    result = ndgather.scatter_nd(np.zeros(3, dtype), [[2], [0]], make(values))
    expected = np.zeros(3, dtype)
    expected[[2, 0]] = values
    np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_updates_that_lose_digits_are_refused(make):
    column = make(np.array([LARGE, 1]))
    with pytest.raises(DTypeError, match=r"^scatter_nd: updates"):
        ndgather.scatter_nd(np.zeros(3), [[2], [0]], column)


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8"])
def test_columns_are_accepted_as_indices(make, dtype):
    column = make(np.array([3, 1], dtype))
    np.testing.assert_array_equal(ndgather.gather(DATA, column), [3, 1], strict=True)
    starts = ndgather.gather_ranges(DATA, make(np.array([1, 0], dtype)), lengths=1)[0]
    np.testing.assert_array_equal(starts, [1, 0], strict=True)


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_tables_of_one_dtype_are_accepted_as_index_tuples(make):
    table = make({"row": np.array([1, 0]), "column": np.array([0, 1])})
    result = ndgather.gather_nd(np.arange(4).reshape(2, 2), table)
    np.testing.assert_array_equal(result, [2, 1], strict=True)


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("other", ["float64", "uint64", "int32", "bool"])
def test_columns_of_several_dtypes_are_refused(make, other):
    table = make({"a": np.array([LARGE]), "b": np.array([0], other)})
    with pytest.raises(DTypeError, match=r"^scatter_nd: updates = \w+ object has the dtypes "):
        ndgather.scatter_nd(np.zeros((1, 2)), [[0]], table)
    with pytest.raises(DTypeError, match=r"^gather_nd: indices = \w+ object has the dtypes "):
        ndgather.gather_nd(DATA[:, None], table)


NULLS = {
    "integers of pandas": pd.array([1, None], dtype="Int64"),
    "floats of pandas": pd.Series([1.5, None], dtype="Float64"),
    "booleans of pandas": pd.Series([True, None], dtype="boolean"),
    "Arrow in pandas": pd.Series([1, None], dtype="int64[pyarrow]"),
    "objects of pandas": pd.Series([1, pd.NA]),
    "integers of polars": pl.Series([1, None]),
    "floats of polars": pl.Series([1.5, None]),
    "integers of Arrow": pa.array([1, None]),
    "floats of Arrow": pa.array([1.5, None]),
    "table of Arrow": pa.table({"a": pa.array([1.5, None])}),
    "table of polars": pl.DataFrame({"a": [1.5, None]}),
    "table of pandas": pd.DataFrame({"a": pd.array([1.5, None], dtype="Float64")}),
    "texts of pandas": pd.Series(["1", "2"]),
    "categories": pd.Series(pd.Categorical([1, 2])),
    "decimals": pl.Series(["1", "2"]).cast(pl.Decimal(10, 2)),
    "dates": pl.Series([1, 2]).cast(pl.Date),
    "128 bits": pl.Series([1, 2], dtype=pl.Int128),
}


@pytest.mark.parametrize("column", NULLS.values(), ids=NULLS)
def test_nulls_and_other_dtypes_are_refused(column):
    for dtype in ("f8", "i8", "?", "O", "U3", "M8[D]"):
        with pytest.raises(DTypeError, match=r"^scatter_nd: updates"):
            ndgather.scatter_nd(np.zeros((2, 1), dtype)[:, 0], [[0], [1]], column)
    with pytest.raises(DTypeError, match=r"^gather: indices"):
        ndgather.gather(DATA, column)


def test_missing_values_are_refused():
    with pytest.raises(DTypeError, match=r"^gather: fill_value = <NA> cannot be represented"):
        ndgather.gather(DATA, [9], mode="fill", fill_value=pd.NA)
    with pytest.raises(DTypeError):
        ndgather.scatter_nd(DATA, [[0], [1]], [1, pd.NA])
