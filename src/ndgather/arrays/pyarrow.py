"""Arrays, tables and tensors of Arrow.

Indices without nulls are read where they are, and the result stays in the memory that the core
filled. Arrow copies all else by flat indices. Nulls are copied as nulls, and an element that
is filled is null without a fill value. In a scatter an element becomes null if it is null, or an
update to it is (`ndgather.arrays.masked`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ndgather import slow_path
from ndgather.arrays.tables import (
    FILLED,
    Package,
    flat_indices,
    has_nulls,
    no_scatter,
    one_axis,
    row_indices,
)
from ndgather.errors import ShapeError
from ndgather.messages import converted_errors, fill_value_lost

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.arrays.tables import Indices

_COLUMNS = (pa.Array, pa.ChunkedArray)
_TABLES = (pa.Table, pa.RecordBatch)


def _like(example: Any, values: Any) -> Any:
    if isinstance(example, pa.Tensor):
        return pa.Tensor.from_numpy(values)
    if isinstance(example, _TABLES) or values.ndim != 1:
        return None
    array = pa.array(values)
    return pa.chunked_array([array]) if isinstance(example, pa.ChunkedArray) else array


def _to_numpy(caller: str, name: str, value: Any) -> Any:
    if isinstance(value, pa.Tensor):
        return value.to_numpy()
    if isinstance(value, _TABLES):
        columns = [_to_numpy(caller, name, column) for column in value.columns]
        return np.stack(columns, -1) if columns else np.empty((value.num_rows, 0), np.int64)
    if value.null_count:
        raise has_nulls(caller, name, f"{name}.drop_null()")
    return _numpy(value)


def _carry_out(call: Call, _: Any) -> Any:
    data = call.data
    if isinstance(data, pa.Tensor):
        updates = _ARROW.plain(call.caller, call.updates_name, call.updates)
        result = slow_path.run(replace(call, data=data.to_numpy(), updates=updates))
        return pa.Tensor.from_numpy(result, dim_names=data.dim_names if call.scatters else None)
    if call.scatters:
        return _scatter(call)
    return _gather_of_table(call) if isinstance(data, _TABLES) else _gather_of_column(call)


def _numpy(column: Any) -> Any:
    """Return the values of a column without nulls."""
    whole = isinstance(column, pa.ChunkedArray)
    return column.to_numpy() if whole else column.to_numpy(zero_copy_only=False)


def _gather_of_column(call: Call) -> Any:
    """Return a column, or a scalar where indices have no axis left."""
    data = call.data
    if _is_plain(data) and call.mode != "fill" and np.ndim(call.indices):
        values = slow_path.run(replace(call, data=data.to_numpy(zero_copy_only=True)))
        if values.ndim == 1:
            return pa.array(values, type=data.type)
    numbers = flat_indices(call, (len(data),))
    along = one_axis(call, numbers, "pyarrow.Tensor.from_numpy(data.to_numpy())")
    taken = _taken(call, data, along)
    return taken if numbers.ndim else taken[0]


def _is_plain(column: Any) -> bool:
    """Whether a column is numbers without nulls in one piece of memory."""
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return is_number and isinstance(column, pa.Array) and not column.null_count


def _taken(call: Call, data: Any, numbers: Indices) -> Any:
    if not (numbers == FILLED).any():
        return data.take(pa.array(numbers))
    with converted_errors(lambda _: fill_value_lost(call.caller, call.fill_value, data.type)):
        filled = pa.array([call.fill_value]).cast(data.type)
    chunks = data.chunks if isinstance(data, pa.ChunkedArray) else [data]
    extended = pa.chunked_array([*chunks, filled], type=data.type)
    taken = extended.take(pa.array(np.where(numbers == FILLED, len(data), numbers)))
    return taken if isinstance(data, pa.ChunkedArray) else taken.combine_chunks()


def _gather_of_table(call: Call) -> Any:
    data = call.data
    numbers = row_indices(call, data.shape)
    if numbers is None or numbers.ndim != 1:
        raise ShapeError(
            f"{call.caller}: data = {type(data).__name__} object gives only whole rows (allowed: "
            f"one index for every row, along axis 0; write data.column(...) for one column)"
        )
    columns = [_taken(call, column, numbers) for column in data.columns]
    return type(data).from_arrays(columns, schema=data.schema)


def _scatter(call: Call) -> Any:
    data, updates = call.data, call.updates
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if isinstance(data, _TABLES) or not any(is_kind(data.type) for is_kind in numbers):
        dtypes = data.schema.types if isinstance(data, _TABLES) else data.type
        raise no_scatter(call, dtypes, "a NumPy array")
    if isinstance(updates, _COLUMNS):
        updates = _masked(updates.cast(data.type) if pa.types.is_null(updates.type) else updates)
    updates = _ARROW.plain(call.caller, call.updates_name, updates)
    result = slow_path.run(replace(call, data=_masked(data), updates=updates))
    mask = np.ma.getmask(result)
    array = pa.array(result.data, type=data.type, mask=None if mask is np.ma.nomask else mask)
    return pa.chunked_array([array]) if isinstance(data, pa.ChunkedArray) else array


def _masked(column: Any) -> Any:
    """Return a masked array, which has no mask if there are no nulls."""
    if not column.null_count:
        return np.ma.array(_numpy(column))
    nothing = pa.scalar(False if pa.types.is_boolean(column.type) else 0, type=column.type)
    mask = _numpy(column.is_null())
    return np.ma.array(_numpy(column.fill_null(nothing)), mask=mask)


_ARROW = Package(
    name="pyarrow",
    kinds=(*_COLUMNS, *_TABLES, pa.Tensor),
    allowed="an Array, ChunkedArray, Table, RecordBatch or Tensor",
    to_numpy=_to_numpy,
    like=_like,
    carry_out=_carry_out,
)
run, vjp = _ARROW.run, _ARROW.vjp
