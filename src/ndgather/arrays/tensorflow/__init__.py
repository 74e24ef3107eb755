"""Calls on TensorFlow tensors and variables, built from TensorFlow operations.

TensorFlow chooses the device and `GradientTape` records the operations. In ``mode="raise"``, an
eager call synchronizes with the device once. In a graph (`tf.function`), an out-of-bounds index
raises `InvalidArgumentError` when the graph runs. XLA and `tf.vectorized_map` drop assertions, so
out-of-bounds indices gather zeros and the updates at out-of-bounds indices are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from ndgather import messages

if find_spec("tensorflow") is None:
    raise messages.extra_missing("tensorflow", "tensorflow")

import numpy as np
import tensorflow as tf

from ndgather import arguments, exchange, reductions, windows
from ndgather.array_call import Call, replace
from ndgather.arrays import lowering
from ndgather.errors import DTypeError, ShapeError
from ndgather.messages import reason


def sizes_of(tensor: Any) -> list[Any]:
    """Return the sizes of a tensor of known rank, with scalar tensors for unknown sizes."""
    known = tensor.shape.as_list()
    if None not in known:
        return known  # type: ignore[no-any-return]  # integers
    sizes = tf.shape(tensor, out_type=tf.int64)
    return [sizes[axis] if size is None else size for axis, size in enumerate(known)]


class TensorFlowLibrary(reductions.Steps, lowering.Library):
    """The TensorFlow primitives. Error messages of a graph contain the names in `call`."""

    cast, complex, real, imag, maximum = map(
        staticmethod, (tf.cast, tf.complex, tf.math.real, tf.math.imag, tf.maximum)
    )

    def __init__(self, call: Call) -> None:
        super().__init__(tf, call.data)
        self.call = call
        self.fills = True

    def arange(self, size: Any) -> Any:
        return tf.range(tf.cast(size, tf.int64))

    def integers(self, indices: Any, modulus: Any) -> Any:
        if modulus is not None:
            wide = tf.uint64 if indices.dtype == tf.uint64 else tf.int64
            values = tf.math.floormod(tf.cast(indices, wide), tf.cast(modulus, wide))
            return tf.cast(values, tf.int64)
        values = tf.cast(indices, tf.int64)
        if indices.dtype != tf.uint64:
            return values
        return tf.where(values < 0, tf.constant(windows.LARGEST, tf.int64), values)

    def raise_if_any(self, outside: Any, error: Callable[[Any], Exception]) -> bool:
        """Raise an error if a flag is true, or add an assertion to the graph."""
        call, flags = self.call, tf.cast(tf.reshape(outside, (-1,)), tf.int64)
        if tf.executing_eagerly():
            if tf.reduce_any(outside):
                raise error(tf.argmax(flags))
            return True
        entry = "index tuple" if call.kind.tuples else "entry"
        text = f"{call.caller}: {call.indices_name} are out of bounds; the first is {entry}"
        first = tf.argmax(tf.concat([flags, [1]], 0))
        tf.debugging.Assert(tf.reduce_sum(flags) == 0, [text, first])
        return False

    def count(self, flags: Any) -> Any:
        return tf.math.count_nonzero(flags)

    def clip(self, values: Any, lowest: Any, highest: Any) -> Any:
        lowest, highest = tf.cast(lowest, tf.int64), tf.cast(highest, tf.int64)
        return tf.maximum(tf.minimum(values, highest), lowest)

    def reshape(self, array: Any, shape: Sequence[Any]) -> Any:
        return tf.reshape(array, _shape(shape))

    def broadcast(self, array: Any, shape: Sequence[Any]) -> Any:
        return tf.broadcast_to(array, _shape(shape))

    def where(self, condition: Any, true: Any, false: Any) -> Any:
        return tf.where(condition, tf.cast(true, false.dtype), false)

    def full(self, shape: Sequence[Any], element: Any) -> Any:
        return tf.fill(_shape(shape), tf.constant(element, self.data.dtype))

    def take(self, data: Any, numbers: Any) -> Any:
        if data.shape[1] is not None:
            return tf.gather(data, numbers, axis=1)
        outer, count, width = tf.unstack(tf.shape(data, out_type=tf.int64))
        shape = tf.stack([outer, tf.size(numbers, out_type=tf.int64), width])
        return tf.cond(  # if data has no rows, every position is filled later
            count == 0,
            lambda: tf.zeros(shape, data.dtype),
            lambda: tf.gather(data, numbers, axis=1),
        )

    def scatter(self, rows: Any, updates: Any, reduction: str) -> Any:
        """Combine updates with the rows in `self.numbers`, using segment operations."""
        row = reductions.ROWS[reduction]
        if rows.dtype == tf.bool and reduction != "none":
            rows, updates = tf.cast(rows, tf.int32), tf.cast(updates, tf.int32)
            return self.scatter(rows, updates, row.of_bits) % 2 == 1
        count = tf.shape(rows, out_type=tf.int64)[0]

        def segments(operation: str, values: Any) -> Any:
            """Combine values by row, ignoring the extra row of dropped updates."""
            combine = getattr(tf.math, f"unsorted_segment_{operation}")
            return combine(values, self.numbers, count + 1)[:-1]

        last = segments("max", tf.range(tf.size(self.numbers, out_type=tf.int64)))
        met = tf.reshape(last >= 0, (-1, 1))
        if reduction == "none":
            if not updates.shape[0]:  # rows without updates read update 0, which must exist
                updates = tf.pad(updates, [[0, 1], [0, 0]])
            return tf.where(met, tf.gather(updates, tf.maximum(last, 0)), rows)
        if row.added:
            total = segments("sum", updates)
            return rows + total if row.added > 0 else rows - total
        if not row.tensorflow:
            raise messages.no_reduction(self.call.caller, reduction, "TensorFlow")
        pair = getattr(tf, row.ufunc.__name__)
        if row.takes is None or not rows.dtype.is_floating:
            return tf.where(met, pair(rows, segments(row.tensorflow, updates)), rows)
        # The result must be NaN if any operand is NaN, which segment operations do not guarantee.
        unknown = tf.math.is_nan(updates)
        updates = tf.where(unknown, self.start(updates, reduction), updates)
        any_unknown = segments("max", tf.cast(unknown, tf.int32)) > 0
        extreme = pair(rows, segments(row.tensorflow, updates))
        nan = tf.constant(float("nan"), rows.dtype)
        return tf.where(met, tf.where(any_unknown | tf.math.is_nan(rows), nan, extreme), rows)

    def start(self, updates: Any, reduction: str) -> Any:
        number = reductions.identity(np.dtype(updates.dtype.as_numpy_dtype), reduction)
        return tf.fill(tf.shape(updates), tf.constant(number, updates.dtype))

    def counts(self, array: Any, count: int) -> Any:
        return tf.fill(tf.shape(array), tf.constant(count, tf.int64))

    def wide(self, dtype: Any) -> tuple[str, Any]:
        if dtype.is_integer:
            return "i", tf.uint64 if dtype == tf.uint64 else tf.int64
        return "c" if dtype.is_complex else "f", tf.float64


def _shape(sizes: Sequence[Any]) -> Any:
    return tf.stack([tf.cast(size, tf.int64) for size in sizes]) if sizes else ()


_DENSE = (tf.Tensor, tf.Variable)
_ALLOWED = "a tensor; write ragged.to_tensor() or tf.sparse.to_dense(sparse)"


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def run(call: Call) -> Any:
    caller = call.caller
    for name, value in call.named():
        _check_value(caller, name, value)
    call = replace(call, data=_tensor(caller, "data", call.data), indices=_indices(call))
    result = _scatter(call) if call.scatters else _gather(call)
    return result if call.out is None else _assign(call, result)


def to_numpy(call: Call, name: str, value: Any) -> Any:
    _check_value(call.caller, name, value)
    if not _is_eager(value):
        why = "is part of a graph, so its values are not known"
        raise messages.unknown_values(call.caller, name, value, why, "tf.convert_to_tensor")
    return _numpy(value)


def _check_value(caller: str, name: str, value: Any) -> None:
    if not isinstance(value, _DENSE):
        if exchange.adapter_name(type(value)) == __name__:
            why = "is a TensorFlow object, but not an array"
            raise messages.not_an_array(caller, name, value, why, _ALLOWED)
    elif value.dtype in (tf.resource, tf.variant):
        raise messages.not_an_array(caller, name, value, f"holds a {value.dtype.name}")
    elif value.shape.rank is None:
        raise ShapeError(f"{caller}: {name}.shape has an unknown rank (allowed: a known rank)")


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    caller = call.caller
    _check_value(caller, "cotangent", call.data)
    cotangent = tf.convert_to_tensor(call.data)
    if not cotangent.dtype.is_floating and not cotangent.dtype.is_complex:
        raise messages.cotangent_dtype(caller, cotangent.dtype.name)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        shape = cotangent.shape if data_shape is None else data_shape
        inputs = [tf.zeros(shape, cotangent.dtype)]
        bare = replace(call, data=inputs[0])
        if data_shape is None:
            layout = lowering.layout_of(bare, sizes_of(cotangent), sizes_of(_indices(bare)))
            inputs.append(tf.zeros(tuple(layout.result), cotangent.dtype))
            bare = replace(bare, updates=inputs[1])
        tape.watch(inputs)
        result = run(bare)
    if not result.shape.is_compatible_with(cotangent.shape):
        shapes = cotangent.shape.as_list(), result.shape.as_list()
        raise messages.updates_do_not_fit(caller, *shapes, "cotangent")
    gradients = tape.gradient(result, inputs, cotangent, unconnected_gradients="zero")
    return tuple(map(tf.convert_to_tensor, gradients))


def offsets_of(_: Any, offsets: Any) -> Any:
    return tf.convert_to_tensor(offsets)


def reshape(tensor: Any, shape: tuple[Any, ...]) -> Any:
    """Reshape a tensor for a published operator, with at most one unknown size."""
    return tf.reshape(tensor, [-1 if size is None else size for size in shape])


def _is_eager(value: Any) -> bool:
    return not isinstance(value, _DENSE) or (
        tf.executing_eagerly() and (isinstance(value, tf.Variable) or hasattr(value, "numpy"))
    )


def _numpy(value: Any) -> Any:
    return value.numpy() if isinstance(value, _DENSE) else value


def _tensor(caller: str, name: str, value: Any) -> Any:
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:  # for example, arrays of objects other than strings
        raise messages.not_an_array(
            caller, name, value, f"cannot be converted to a tensor: {reason(error)}"
        ) from error


def _indices(call: Call) -> Any:
    """Convert indices to an integer tensor. The length of index tuples must be known."""
    name, value = call.indices_name, call.indices
    if not isinstance(value, _DENSE):
        return tf.convert_to_tensor(arguments.integer_indices(call))
    indices = tf.convert_to_tensor(value)
    if not indices.dtype.is_integer:
        if indices.dtype.is_floating and 0 in indices.shape:
            arguments.check_depth(call, indices)
            return tf.cast(indices, tf.int64)
        raise arguments.index_dtype(call.caller, indices.dtype, name)
    tuples = call.kind.tuples
    if tuples and indices.shape.rank and indices.shape[-1] is None:
        raise messages.depth_unknown(call.caller, name)
    return indices


def _gather(call: Call) -> Any:
    data, dtype = call.data, call.data.dtype
    fill: Any = b""
    if not _is_eager(call.fill_value):
        raise DTypeError(
            f"{call.caller}: fill_value = {type(call.fill_value).__name__} object has no value "
            f"while a graph is traced (allowed: a number)"
        )
    if dtype == tf.string:
        call = arguments.checked(call, None)
        if call.fill_value is not None:
            fill = _numpy(call.fill_value)
            if not isinstance(fill, str | bytes):
                raise messages.fill_value_lost(call.caller, fill, dtype.name)
    else:
        known = np.dtype(dtype.as_numpy_dtype)
        call = arguments.checked(replace(call, fill_value=_numpy(call.fill_value)), known)
        fill = np.zeros((), known) if call.fill_value is None else call.fill_value
    sizes = sizes_of(data), sizes_of(call.indices)
    lowering.check_shapes(call, *sizes)
    result = lowering.gather(call, TensorFlowLibrary(call), *sizes, fill)
    return tf.ensure_shape(result, _known(lowering.layout_of(call, *sizes).result))


def _known(sizes: Any) -> list[Any]:
    """Return sizes of which the unknown ones are None, as `tf.ensure_shape` expects."""
    return [size if isinstance(size, int) else None for size in sizes]


def _scatter(call: Call) -> Any:
    caller, data, updates, name = call.caller, call.data, call.updates, call.updates_name
    dtype = np.dtype(data.dtype.as_numpy_dtype)
    call = arguments.checked(call, dtype)
    if not isinstance(updates, _DENSE):
        updates = arguments.plain_updates(call, dtype)
    updates = _tensor(caller, name, updates)
    if updates.dtype != data.dtype:
        raise messages.updates_dtype(caller, updates.dtype.name, data.dtype.name, name)
    sizes = sizes_of(data), sizes_of(call.indices)
    lowering.check_shapes(call, *sizes)
    slices = _known(lowering.layout_of(call, *sizes).result)
    if not updates.shape.is_compatible_with(slices):
        shapes = *map(_known, sizes), slices, updates.shape.as_list()
        raise arguments.updates_do_not_fit(call, *shapes)
    call = replace(call, updates=updates)
    result = lowering.scatter(call, TensorFlowLibrary(call), *sizes)
    return tf.ensure_shape(result, _known(sizes[0]))


def _assign(call: Call, result: Any) -> Any:
    out = call.out
    if not isinstance(out, tf.Variable):
        raise DTypeError(
            f"{call.caller}: out = {type(out).__name__} object cannot be assigned to "
            f"(allowed: a variable)"
        )
    shape, given = result.shape.as_list(), out.shape.as_list()
    fits = out.shape.is_compatible_with(result.shape)
    arguments.check_out(call, given if fits else shape, given)
    out.assign(result)
    return out
