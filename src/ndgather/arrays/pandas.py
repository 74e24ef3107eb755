"""Series, DataFrames and indexes of pandas: elements keep their type, rows keep their labels.

A gather along the rows is `take` of pandas with checked indices and the modes of this package. A
gather of single cells has the labels of `indices`, if that is a Series or a DataFrame.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ndgather import slow_path
from ndgather.arrays.tables import (
    FILLED,
    Package,
    column_indices,
    flat_indices,
    no_scatter,
    one_axis,
    row_indices,
)
from ndgather.messages import converted_errors, fill_value_lost

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.arrays.tables import Indices

_ARRAYS = (pd.DataFrame, pd.Series, pd.Index, pd.api.extensions.ExtensionArray)
_LABELLED = pd.DataFrame | pd.Series


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """Return the cotangents of a call; that of the data of a scatter keeps its labels."""
    cotangent, results = call.data, _PANDAS.vjp(call, data_shape)
    if data_shape is None and isinstance(cotangent, _LABELLED):
        of_data, of_updates = results
        for axis, labels in enumerate(cotangent.axes):
            of_data = of_data.set_axis(labels, axis=axis)
        return of_data.__finalize__(cotangent), of_updates
    return results


def _like(example: Any, values: Any) -> Any:
    if values.ndim != example.ndim:
        return None
    if isinstance(example, _LABELLED):
        return example._constructor(values, copy=False)
    return pd.Index(values) if isinstance(example, pd.Index) else pd.array(values)


def _carry_out(call: Call, indices: Any) -> Any:
    """Carry out a call on data of pandas; `indices` may have labels."""
    data = call.data
    if call.scatters:
        return _scatter(call)
    if isinstance(data, pd.DataFrame):
        return _gather_of_table(call, indices)
    if isinstance(data, pd.MultiIndex):
        return _labels(data, one_axis(call, flat_indices(call, data.shape)))
    column = data if isinstance(data, pd.Series) else pd.Series(data)
    numbers = flat_indices(call, column.shape)
    taken = _taken(call, column, one_axis(call, numbers))
    if not numbers.ndim:
        return taken.iloc[0]
    if isinstance(data, pd.Series):
        return taken
    return pd.Index(taken.array, name=data.name) if isinstance(data, pd.Index) else taken.array


def _taken(call: Call, data: pd.Series, numbers: Indices) -> pd.Series:
    """Return the elements at flat indices, with their labels."""
    filled = numbers == FILLED
    if not filled.any():
        return data.take(numbers)
    if isinstance(data.dtype, np.dtype):
        outside = np.where(filled, len(data), numbers)
        by_number = replace(call, kind="gather", axis=0, batch_dims=0, indices=outside)
        values = slow_path.run(replace(by_number, data=data.to_numpy()))
    else:
        missing = data.dtype.na_value if call.fill_value is None else call.fill_value
        with converted_errors(lambda _: fill_value_lost(call.caller, missing, data.dtype)):
            values = data.array.take(numbers, allow_fill=True, fill_value=missing)
            if values.dtype != data.dtype:
                raise TypeError(values.dtype)
    labels = _labels(data.index, numbers)
    return data._constructor(values, index=labels, name=data.name).__finalize__(data)


def _labels(index: pd.Index, numbers: Indices) -> pd.Index:
    """Return the labels of rows; the label of a row that is filled is missing."""
    if not (numbers == FILLED).any():
        return index.take(numbers)
    if isinstance(index, pd.MultiIndex):
        return index.take(numbers, allow_fill=True, fill_value=np.nan)
    return pd.Index(pd.Series(index.array).reindex(numbers).array, name=index.name)


def _gather_of_table(call: Call, indices: Any) -> Any:
    data: pd.DataFrame = call.data
    rows = row_indices(call, data.shape)
    if rows is not None:
        numbers = one_axis(call, rows)
        columns = [_taken(call, data.iloc[:, column], numbers) for column in range(data.shape[1])]
        table = _table(data, columns, _labels(data.index, numbers), data.columns)
        return table if rows.ndim else table.iloc[0]
    if call.kind == "gather" and not call.batch_dims and call.axis in (1, -1):
        numbers = column_indices(call, data.shape[1])
        one_axis(call, numbers)
        return data.iloc[:, numbers if numbers.ndim else int(numbers)]
    return _cells(call, flat_indices(call, data.shape), indices)


def _cells(call: Call, numbers: Indices, indices: Any) -> Any:
    """Return single cells, which have one type."""
    if numbers.ndim != 2:
        one_axis(call, numbers)
    data: pd.DataFrame = call.data
    columns = [data.iloc[:, number] for number in range(data.shape[1])]
    stacked = pd.concat(columns, ignore_index=True) if columns else pd.Series(dtype=np.float64)
    stacked.name = None
    row, column = np.divmod(numbers, max(len(columns), 1))
    below = np.where(numbers == FILLED, FILLED, column * len(data) + row)
    if below.ndim < 2:
        taken = _taken(call, stacked, below.reshape(-1))
        if not below.ndim:
            return taken.iloc[0]
        labelled = isinstance(indices, _LABELLED)
        return taken.set_axis(indices.index if labelled else pd.RangeIndex(len(taken)))
    count, width = below.shape
    down = call.kind == "gather_elements" and call.axis in (0, -2)
    return _table(
        data,
        [_taken(call, stacked, below[:, number]) for number in range(width)],
        pd.RangeIndex(count) if down else data.index[:count],
        data.columns[:width] if down else pd.RangeIndex(width),
    )


def _table(
    data: pd.DataFrame, columns: list[pd.Series], labels: pd.Index, names: pd.Index
) -> pd.DataFrame:
    table = data._constructor(dict(enumerate(column.array for column in columns)), index=labels)
    return table.set_axis(names, axis=1).__finalize__(data)


def _scatter(call: Call) -> Any:
    """Return data with its labels and new values, all of one type of NumPy."""
    data = call.data
    dtypes = data.dtypes.unique().tolist() if isinstance(data, pd.DataFrame) else [data.dtype]
    if len(dtypes) > 1 or not all(isinstance(dtype, np.dtype) for dtype in dtypes):
        raise no_scatter(call, " and ".join(map(str, dtypes)))
    updates = _PANDAS.plain(call.caller, call.updates_name, call.updates)
    values = slow_path.run(replace(call, data=data.to_numpy(), updates=updates))
    if not isinstance(data, _LABELLED):
        return pd.Index(values, name=data.name) if isinstance(data, pd.Index) else pd.array(values)
    names = {"columns": data.columns} if isinstance(data, pd.DataFrame) else {"name": data.name}
    return data._constructor(values, index=data.index, copy=False, **names).__finalize__(data)


_PANDAS = Package(
    name="pandas",
    kinds=_ARRAYS,
    allowed="a DataFrame, Series, Index or array",
    to_numpy=lambda _caller, _name, value: (
        np.asarray(value) if isinstance(value, _ARRAYS) else value
    ),
    like=_like,
    carry_out=_carry_out,
)
run = _PANDAS.run
