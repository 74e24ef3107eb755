"""Series and DataFrames of polars, which copies elements by flat indices.

Nulls are copied as nulls, and an element that is filled is null without a fill value. In a scatter
an element becomes null if it is null, or an update to it is (`ndgather.arrays.masked`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ndgather import slow_path
from ndgather.arrays.tables import (
    FILLED,
    Package,
    column_indices,
    flat_indices,
    has_nulls,
    no_scatter,
    one_axis,
    result_rank,
    row_indices,
)
from ndgather.errors import DTypeError, ShapeError
from ndgather.messages import converted_errors, fill_value_lost

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.arrays.tables import Indices


def _like(example: Any, values: Any) -> Any:
    if isinstance(example, pl.DataFrame):
        return pl.DataFrame(values) if values.ndim == 2 else None
    return pl.Series(example.name, values) if values.ndim == 1 else None


def _to_numpy(caller: str, name: str, value: Any) -> Any:
    table = value.to_frame() if isinstance(value, pl.Series) else value
    if sum(table.null_count().row(0)):
        raise has_nulls(caller, name, f"{name}.drop_nulls()")
    return value.to_numpy()


def _carry_out(call: Call, _: Any) -> Any:
    if call.scatters:
        return _scatter(call)
    if isinstance(call.data, pl.DataFrame):
        return _gather_of_table(call)
    numbers = flat_indices(call, (len(call.data),))
    taken = _taken(call, call.data, one_axis(call, numbers))
    return taken if numbers.ndim else taken[0]


def _taken(call: Call, data: pl.Series, numbers: Indices) -> pl.Series:
    if not (numbers == FILLED).any():
        return data.gather(numbers)
    with converted_errors(lambda _: fill_value_lost(call.caller, call.fill_value, data.dtype)):
        filled = pl.Series(data.name, [call.fill_value], dtype=data.dtype, strict=True)
        extended = pl.concat([data, filled], rechunk=False)
    return extended.gather(np.where(numbers == FILLED, len(data), numbers))


def _gather_of_table(call: Call) -> Any:
    data: pl.DataFrame = call.data
    rows = row_indices(call, data.shape)
    if rows is not None and rows.ndim == 1:
        return pl.DataFrame([_taken(call, column, rows) for column in data.get_columns()])
    if rows is None and call.kind == "gather" and not call.batch_dims:
        numbers = column_indices(call, data.width)
        if numbers.ndim == 0:
            return data.to_series(int(numbers))
        if numbers.ndim == 1 and len(set(numbers.tolist())) == numbers.size:
            return data[:, numbers.tolist()]
        raise ShapeError(
            f"{call.caller}: indices name columns of a DataFrame twice, or have rank "
            f"{numbers.ndim} (allowed: every column once, in one axis; write data.to_numpy())"
        )
    numbers = rows if rows is not None else flat_indices(call, data.shape)
    if numbers.ndim != 1:
        raise result_rank(call, numbers.ndim)
    if len(set(data.dtypes)) > 1:
        raise DTypeError(
            f"{call.caller}: data = DataFrame object has columns of several types, so its cells "
            f"have none (allowed: one type; write data.to_numpy() for an array)"
        )
    row, column = np.divmod(numbers, max(data.width, 1))
    below = np.where(numbers == FILLED, FILLED, column * data.height + row)
    stacked = pl.concat([series.rename("") for series in data.get_columns()], rechunk=False)
    return _taken(call, stacked, below)


def _scatter(call: Call) -> pl.Series:
    data, updates = call.data, call.updates
    if isinstance(data, pl.DataFrame) or not (data.dtype.is_numeric() or data.dtype == pl.Boolean):
        dtypes = data.dtypes if isinstance(data, pl.DataFrame) else data.dtype
        raise no_scatter(call, dtypes)
    if isinstance(updates, pl.Series):
        updates = _masked(updates)
    elif _POLARS.has(updates):
        updates = updates.to_numpy()
    result = slow_path.run(replace(call, data=_masked(data), updates=updates))
    values, mask = pl.Series(data.name, result.data), np.ma.getmask(result)
    return values if mask is np.ma.nomask else values.set(pl.Series(mask), None)


def _masked(series: pl.Series) -> Any:
    """Return a masked array, which has no mask if there are no nulls."""
    if not series.null_count():
        return np.ma.array(series.to_numpy())
    nothing = False if series.dtype == pl.Boolean else 0
    return np.ma.array(series.fill_null(nothing).to_numpy(), mask=series.is_null().to_numpy())


_POLARS = Package(
    name="polars",
    kinds=(pl.Series, pl.DataFrame),
    allowed="a Series or DataFrame; of a LazyFrame what collect() returns",
    to_numpy=_to_numpy,
    like=_like,
    carry_out=_carry_out,
)
run, vjp = _POLARS.run, _POLARS.vjp
