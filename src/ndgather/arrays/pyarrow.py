"""Arrays, tables and tensors of Arrow.

Numbers without nulls are looked at where they are, and the result lies in the memory that the core
filled: nothing is converted. Other elements are copied by Arrow, by the numbers that the core
finds. Nulls are copied as nulls, and what is filled is null unless a fill value is given. In a
scatter an element that is null, or that meets an update that is, becomes null (`masked`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ndgather import slow_path
from ndgather.arrays.columns import Columns
from ndgather.arrays.lowering import NO_ELEMENT, element_numbers, row_numbers
from ndgather.errors import argument_errors, container_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.arrays.lowering import Numbers

_COLUMNS = (pa.Array, pa.ChunkedArray)
_TABLES = (pa.Table, pa.RecordBatch)


def run(call: Call) -> Any:
    """Carry out a call with arguments of Arrow; the result is of the kind of data.

    Raises
    ------
    NdgatherError
        The result has no place in Arrow, indices have nulls, data has a type that cannot be
        updated, `out` is given for data of Arrow, or the call is refused as for NumPy arrays.
    """
    return _ARROW.run(call, _carry_out)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, of the kind of its `data`, the cotangent of the result."""
    return _ARROW.vjp(call, data_shape, _like)


def _like(given: Any, values: Any) -> Any:
    """Return values as what `given` is; None where it has no room for them."""
    if isinstance(given, pa.Tensor):
        return pa.Tensor.from_numpy(values)
    if isinstance(given, _TABLES) or values.ndim != 1:
        return None
    array = pa.array(values)
    return pa.chunked_array([array]) if isinstance(given, pa.ChunkedArray) else array


def _carry_out(call: Call) -> Any:
    data = call.data
    if isinstance(data, pa.Tensor):
        updates = _plain(call.caller, call.updates_name, call.updates)
        result = slow_path.run(replace(call, data=data.to_numpy(), updates=updates))
        return pa.Tensor.from_numpy(result, dim_names=data.dim_names if call.scatters else None)
    if call.scatters:
        return _scatter(call)
    return _gather_of_table(call) if isinstance(data, _TABLES) else _gather_of_column(call)


def _of_arrow(value: Any) -> bool:
    return any(each.__module__.partition(".")[0] == "pyarrow" for each in type(value).__mro__)


def _plain(caller: str, name: str, value: Any) -> Any:
    """Return an argument without nulls as a NumPy array, without a copy where it is one."""
    if not _of_arrow(value):
        return value
    if isinstance(value, pa.Tensor):
        return value.to_numpy()
    if isinstance(value, _TABLES):
        columns = [_plain(caller, name, each) for each in value.columns]
        return np.stack(columns, -1) if columns else np.empty((value.num_rows, 0), np.int64)
    if value.null_count:
        raise container_errors.nulls(caller, name, f"{name}.drop_null()")
    return _numpy(value)


_ARROW = Columns(
    kinds=(*_COLUMNS, *_TABLES, pa.Tensor),
    allowed="an Array, ChunkedArray, Table, RecordBatch or Tensor",
    is_of_package=_of_arrow,
    plain=_plain,
)


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
            return _array(data.type, values)
    numbers = element_numbers(call, (len(data),))
    if numbers.ndim > 1:
        instead = "pyarrow.Tensor.from_numpy(data.to_numpy())"
        raise container_errors.result_rank(call.caller, numbers.ndim, data, instead)
    taken = _taken(call, data, numbers.reshape(-1))
    return taken if numbers.ndim else taken[0]


def _is_plain(column: Any) -> bool:
    """Whether a column is numbers without nulls, side by side."""
    kinds = (pa.types.is_integer, pa.types.is_floating)
    known = any(is_kind(column.type) for is_kind in kinds)
    return known and isinstance(column, pa.Array) and not column.null_count


def _array(arrow_type: Any, values: Any) -> Any:
    """Return an array that shares the memory of a NumPy array."""
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(values)])


def _taken(call: Call, data: Any, numbers: Numbers) -> Any:
    if not (numbers == NO_ELEMENT).any():
        return data.take(pa.array(numbers))
    try:
        filled = pa.array([call.fill_value]).cast(data.type)
    except MemoryError:
        raise
    except Exception as error:  # whatever becomes of a value of any kind
        raise argument_errors.fill_value_lost(call.caller, call.fill_value, data.type) from error
    parts = data.chunks if isinstance(data, pa.ChunkedArray) else [data]
    extended = pa.chunked_array([*parts, filled], type=data.type)
    taken = extended.take(pa.array(np.where(numbers == NO_ELEMENT, len(data), numbers)))
    return taken if isinstance(data, pa.ChunkedArray) else taken.combine_chunks()


def _gather_of_table(call: Call) -> Any:
    data = call.data
    numbers = row_numbers(call, data.shape)
    if numbers is None or numbers.ndim != 1:
        raise container_errors.rows_alone(call.caller, data)
    columns = [_taken(call, each, numbers) for each in data.columns]
    return type(data).from_arrays(columns, schema=data.schema)


def _scatter(call: Call) -> Any:
    data, updates = call.data, call.updates
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if isinstance(data, _TABLES) or not any(is_kind(data.type) for is_kind in numbers):
        dtypes = data.schema.types if isinstance(data, _TABLES) else data.type
        raise container_errors.no_scatter(call.caller, data, dtypes, "a NumPy array")
    if data.null_count or (isinstance(updates, _COLUMNS) and updates.null_count):
        if isinstance(updates, _COLUMNS):
            nothing = pa.types.is_null(updates.type)
            updates = _masked(updates.cast(data.type) if nothing else updates)
        result = slow_path.run(replace(call, data=_masked(data), updates=updates))
        made = pa.array(result.data, type=data.type, mask=np.ma.getmaskarray(result))
    else:
        updates = _plain(call.caller, call.updates_name, updates)
        values = slow_path.run(replace(call, data=_numpy(data), updates=updates))
        made = _array(data.type, values) if _is_plain(data) else pa.array(values, type=data.type)
    return pa.chunked_array([made]) if isinstance(data, pa.ChunkedArray) else made


def _masked(column: Any) -> Any:
    nothing = pa.scalar(False if pa.types.is_boolean(column.type) else 0, type=column.type)
    mask = _numpy(column.is_null())
    return np.ma.array(_numpy(column.fill_null(nothing)), mask=mask)
