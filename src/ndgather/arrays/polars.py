"""Series and DataFrames of polars, which copies elements by the numbers that the core finds.

Nulls are copied as nulls, and what is filled is null unless a fill value is given. In a scatter an
element that is null, or that meets an update that is, becomes null (`masked`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ndgather import slow_path
from ndgather.arrays.columns import Columns
from ndgather.arrays.lowering import NO_ELEMENT, element_numbers, row_numbers
from ndgather.errors import argument_errors, container_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.arrays.lowering import Numbers


def run(call: Call) -> Any:
    """Carry out a call with arguments of polars; the result is of the kind of data.

    Raises
    ------
    NdgatherError
        The result has no place in polars, indices have nulls, data has a type that cannot be
        updated, `out` is given for data of polars, or the call is refused as for NumPy arrays.
    """
    return _COLUMNS.run(call, _carry_out)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, of the kind of its `data`, the cotangent of the result."""
    return _COLUMNS.vjp(call, data_shape, _like)


def _like(given: Any, values: Any) -> Any:
    """Return values as what `given` is; None where it has no room for them."""
    if isinstance(given, pl.DataFrame):
        return pl.DataFrame(values) if values.ndim == 2 else None
    return pl.Series(given.name, values) if values.ndim == 1 else None


def _carry_out(call: Call) -> Any:
    if call.scatters:
        return _scatter(call)
    table = isinstance(call.data, pl.DataFrame)
    return _gather_of_table(call) if table else _gather_of_column(call)


def _of_polars(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "polars"


def _plain(caller: str, name: str, value: Any) -> Any:
    """Return an argument without nulls as a NumPy array, without a copy where polars needs none."""
    if not _of_polars(value):
        return value
    table = value.to_frame() if isinstance(value, pl.Series) else value
    if sum(table.null_count().row(0)):
        raise container_errors.nulls(caller, name, f"{name}.drop_nulls()")
    return value.to_numpy()


_COLUMNS = Columns(
    kinds=(pl.Series, pl.DataFrame),
    allowed="a Series or DataFrame; of a LazyFrame what collect() returns",
    is_of_package=_of_polars,
    plain=_plain,
)


def _gather_of_column(call: Call) -> Any:
    """Return a Series, or an element where indices have no axis left."""
    numbers = element_numbers(call, (len(call.data),))
    if numbers.ndim > 1:
        raise container_errors.result_rank(call.caller, numbers.ndim, call.data, "data.to_numpy()")
    taken = _taken(call, call.data, numbers.reshape(-1))
    return taken if numbers.ndim else taken[0]


def _taken(call: Call, data: pl.Series, numbers: Numbers) -> pl.Series:
    if not (numbers == NO_ELEMENT).any():
        return data.gather(numbers)
    try:
        filled = pl.Series(data.name, [call.fill_value], dtype=data.dtype, strict=True)
        extended = pl.concat([data, filled], rechunk=False)
    except MemoryError:
        raise
    except Exception as error:  # whatever becomes of a value of any kind
        raise argument_errors.fill_value_lost(call.caller, call.fill_value, data.dtype) from error
    return extended.gather(np.where(numbers == NO_ELEMENT, len(data), numbers))


def _gather_of_table(call: Call) -> Any:
    data: pl.DataFrame = call.data
    rows = row_numbers(call, data.shape)
    if rows is not None and rows.ndim == 1:
        return pl.DataFrame([_taken(call, column, rows) for column in data.get_columns()])
    if rows is None and call.kind == "gather" and not call.batch_dims:
        numbers = element_numbers(call, (1, data.width))[0, ...]
        if (numbers == NO_ELEMENT).any():
            raise container_errors.filled_columns(call.caller)
        if numbers.ndim == 0:
            return data.to_series(int(numbers))
        if numbers.ndim == 1 and len(set(numbers.tolist())) == numbers.size:
            return data[:, numbers.tolist()]
        raise container_errors.columns_twice(call.caller, data, numbers.ndim)
    numbers = rows if rows is not None else element_numbers(call, data.shape)
    if numbers.ndim != 1:
        raise container_errors.result_rank(call.caller, numbers.ndim, data, "data.to_numpy()")
    if len(set(data.dtypes)) > 1:
        raise container_errors.mixed_cells(call.caller, data)
    row, column = np.divmod(numbers, max(data.width, 1))
    below = np.where(numbers == NO_ELEMENT, NO_ELEMENT, column * data.height + row)
    stacked = pl.concat([each.rename("") for each in data.get_columns()], rechunk=False)
    return _taken(call, stacked, below)


def _scatter(call: Call) -> pl.Series:
    data, updates = call.data, call.updates
    if isinstance(data, pl.DataFrame) or not (data.dtype.is_numeric() or data.dtype == pl.Boolean):
        dtypes = data.dtypes if isinstance(data, pl.DataFrame) else data.dtype
        raise container_errors.no_scatter(call.caller, data, dtypes, "data.to_numpy()")
    if not _has_nulls(data) and not _has_nulls(updates):
        plain = updates.to_numpy() if _of_polars(updates) else updates
        return pl.Series(
            data.name, slow_path.run(replace(call, data=data.to_numpy(), updates=plain))
        )
    masked = _masked(updates) if isinstance(updates, pl.Series) else updates
    result = slow_path.run(replace(call, data=_masked(data), updates=masked))
    values = pl.DataFrame({data.name: result.data, "mask": np.ma.getmaskarray(result)})
    return values.select(pl.when(~pl.col("mask")).then(pl.col(data.name))).to_series()


def _has_nulls(value: Any) -> bool:
    return isinstance(value, pl.Series) and value.null_count() > 0


def _masked(series: pl.Series) -> Any:
    nothing = False if series.dtype == pl.Boolean else 0
    return np.ma.array(series.fill_null(nothing).to_numpy(), mask=series.is_null().to_numpy())
