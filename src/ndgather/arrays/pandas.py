"""Series, DataFrames and indexes of pandas: elements keep their type, rows keep their labels.

A gather along the rows is `take` of pandas, with the indices checked and the modes of this package:
labels come along, once for each row that is copied. Where single cells are gathered, no label of
data is left, and the result has the labels of `indices` where that is of pandas.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ndgather import slow_path
from ndgather.arrays.columns import Columns
from ndgather.arrays.lowering import NO_ELEMENT, element_numbers, row_numbers
from ndgather.errors import argument_errors, container_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.arrays.lowering import Numbers

_ARRAYS = (pd.DataFrame, pd.Series, pd.Index, pd.api.extensions.ExtensionArray)


def run(call: Call) -> Any:
    """Carry out a call with arguments of pandas; the result is of the kind of data.

    Raises
    ------
    NdgatherError
        The result has no place in pandas, data has types that cannot be updated, `out` is given
        for data of pandas, or the call is refused as it would be for NumPy arrays.
    """
    return _PANDAS.run(call, lambda plain: _carry_out(plain, call.indices))


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, of the kind of its `data`, the cotangent of the result.

    That of the data of a scatter has its labels too, as it stands at the same elements.

    Raises
    ------
    NdgatherError
        A cotangent has no place in pandas, or the call is refused as it would be for NumPy arrays.
    """
    given, results = call.data, _PANDAS.vjp(call, data_shape, _like)
    if data_shape is None and isinstance(given, pd.DataFrame | pd.Series):
        of_data, of_updates = results
        for axis, labels in enumerate(given.axes):
            of_data = of_data.set_axis(labels, axis=axis)
        return of_data.__finalize__(given), of_updates
    return results


def _of_pandas(value: Any) -> bool:
    return any(each.__module__.partition(".")[0] == "pandas" for each in type(value).__mro__)


def _plain(caller: str, name: str, value: Any) -> Any:
    return np.asarray(value) if isinstance(value, _ARRAYS) else value


_PANDAS = Columns(
    kinds=_ARRAYS,
    allowed="a DataFrame, Series, Index or array",
    is_of_package=_of_pandas,
    plain=_plain,
)


def _like(given: Any, values: Any) -> Any:
    """Return values as what `given` is; None where it has no room for them."""
    if values.ndim != given.ndim:
        return None
    if isinstance(given, pd.DataFrame | pd.Series):
        return given._constructor(values, copy=False)
    return pd.Index(values) if isinstance(given, pd.Index) else pd.array(values)


def _carry_out(call: Call, indices: Any) -> Any:
    """Carry out a call on data of pandas; its indices are plain, `indices` may have labels."""
    data = call.data
    if call.scatters:
        return _scatter(call)
    if isinstance(data, pd.DataFrame):
        return _gather_of_table(call, indices)
    if isinstance(data, pd.Series):
        return _gather_of_column(call, data)
    if isinstance(data, pd.MultiIndex):
        return _labels(data, _one_axis(call, data, element_numbers(call, data.shape)))
    gathered = _gather_of_column(call, pd.Series(data))
    if not isinstance(gathered, pd.Series):
        return gathered
    return (
        pd.Index(gathered.array, name=data.name) if isinstance(data, pd.Index) else gathered.array
    )


def _one_axis(call: Call, data: Any, numbers: Numbers) -> Numbers:
    if numbers.ndim > 1:
        raise container_errors.result_rank(call.caller, numbers.ndim, data, "data.to_numpy()")
    return numbers.reshape(-1)


def _gather_of_column(call: Call, data: pd.Series) -> Any:
    """Return a Series, or an element where indices have no axis left."""
    numbers = element_numbers(call, data.shape)
    taken = _taken(call, data, _one_axis(call, data, numbers))
    return taken if numbers.ndim else taken.iloc[0]


def _taken(call: Call, data: pd.Series, numbers: Numbers) -> pd.Series:
    """Return the elements with these numbers, and their labels."""
    if not (numbers == NO_ELEMENT).any():
        return data.take(numbers)
    if isinstance(data.dtype, np.dtype):
        by_number = replace(call, kind="gather", axis=0, batch_dims=0, indices=numbers)
        far = np.where(numbers == NO_ELEMENT, len(data), numbers)
        values = slow_path.run(replace(by_number, data=data.to_numpy(), indices=far))
    else:
        missing = data.dtype.na_value if call.fill_value is None else call.fill_value
        try:
            values = data.array.take(numbers, allow_fill=True, fill_value=missing)
        except MemoryError:
            raise
        except Exception as error:  # whatever becomes of a value of any kind
            raise argument_errors.fill_value_lost(call.caller, missing, data.dtype) from error
        if values.dtype != data.dtype:
            raise argument_errors.fill_value_lost(call.caller, missing, data.dtype)
    labels = _labels(data.index, numbers)
    return data._constructor(values, index=labels, name=data.name).__finalize__(data)


def _labels(index: pd.Index, numbers: Numbers) -> pd.Index:
    """Return the labels of these rows; that of a row that is filled is missing."""
    if not (numbers == NO_ELEMENT).any():
        return index.take(numbers)
    if isinstance(index, pd.MultiIndex):
        return index.take(numbers, allow_fill=True, fill_value=np.nan)
    return pd.Index(pd.Series(index.array).reindex(numbers).array, name=index.name)


def _gather_of_table(call: Call, indices: Any) -> Any:
    data: pd.DataFrame = call.data
    rows = row_numbers(call, data.shape)
    if rows is not None:
        numbers = _one_axis(call, data, rows)
        columns = [_taken(call, data.iloc[:, each], numbers) for each in range(data.shape[1])]
        table = _table(data, columns, _labels(data.index, numbers), data.columns)
        return table if rows.ndim else table.iloc[0]
    if call.kind == "gather" and not call.batch_dims and call.axis in (1, -1):
        numbers = element_numbers(call, (1, data.shape[1]))[0, ...]
        if (numbers == NO_ELEMENT).any():
            raise container_errors.filled_columns(call.caller)
        _one_axis(call, data, numbers)
        return data.iloc[:, numbers] if numbers.ndim else data.iloc[:, int(numbers)]
    numbers = element_numbers(call, data.shape)
    if numbers.ndim > 2:
        raise container_errors.result_rank(call.caller, numbers.ndim, data, "data.to_numpy()")
    return _cells(call, numbers, indices)


def _cells(call: Call, numbers: Numbers, indices: Any) -> Any:
    """Return single cells, which have one type: as many as `numbers`, and with its axes."""
    data: pd.DataFrame = call.data
    parts = [data.iloc[:, each] for each in range(data.shape[1])]
    stacked = pd.concat(parts, ignore_index=True) if parts else pd.Series(dtype=np.float64)
    stacked.name = None
    row, column = np.divmod(numbers, max(len(parts), 1))
    below = np.where(numbers == NO_ELEMENT, NO_ELEMENT, column * len(data) + row)
    if below.ndim < 2:
        taken = _taken(call, stacked, below.reshape(-1))
        if not below.ndim:
            return taken.iloc[0]
        labelled = isinstance(indices, pd.DataFrame | pd.Series)
        return taken.set_axis(indices.index if labelled else pd.RangeIndex(len(taken)))
    count, width = below.shape
    down = call.kind == "gather_elements" and call.axis in (0, -2)
    return _table(
        data,
        [_taken(call, stacked, below[:, each]) for each in range(width)],
        pd.RangeIndex(count) if down else data.index[:count],
        data.columns[:width] if down else pd.RangeIndex(width),
    )


def _table(
    data: pd.DataFrame, columns: list[pd.Series], labels: pd.Index, names: pd.Index
) -> pd.DataFrame:
    table = data._constructor(dict(enumerate(each.array for each in columns)), index=labels)
    return table.set_axis(names, axis=1).__finalize__(data)


def _scatter(call: Call) -> Any:
    """Return data with its labels and new values, all of one type of NumPy."""
    data = call.data
    dtypes = data.dtypes.unique().tolist() if isinstance(data, pd.DataFrame) else [data.dtype]
    if len(dtypes) > 1 or not all(isinstance(each, np.dtype) for each in dtypes):
        shown = " and ".join(map(str, dtypes))
        raise container_errors.no_scatter(call.caller, data, shown, "data.to_numpy()")
    updates = _plain(call.caller, call.updates_name, call.updates)
    values = slow_path.run(replace(call, data=data.to_numpy(), updates=updates))
    if isinstance(data, pd.DataFrame):
        table = data._constructor(values, index=data.index, columns=data.columns, copy=False)
        return table.__finalize__(data)
    if isinstance(data, pd.Series):
        column = data._constructor(values, index=data.index, name=data.name, copy=False)
        return column.__finalize__(data)
    return pd.Index(values, name=data.name) if isinstance(data, pd.Index) else pd.array(values)
