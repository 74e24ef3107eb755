"""Tensors and variables of TensorFlow, eager and in a graph, composed of its operations.

Calls run on the device where TensorFlow places them, and `GradientTape` sees them. An eager call
with ``mode="raise"`` waits once for the device; in a graph (`tf.function`) an index out of bounds
is an `InvalidArgumentError` when the graph runs, but not under XLA, which drops assertions.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ndgather import reductions, slow_path
from ndgather.array_call import _core
from ndgather.arrays import lowering
from ndgather.arrays.lowering import cotangents
from ndgather.errors import argument_errors, container_errors, index_errors, shape_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call

    Segments = Callable[[Any], Any]


_LARGEST = int(np.iinfo(np.int64).max)


def sizes_of(tensor: Any) -> list[Any]:
    """Return the sizes of a tensor of known rank; those that are not known yet are tensors."""
    known = tensor.shape.as_list()
    if None not in known:
        return known  # type: ignore[no-any-return]  # integers
    sizes = tf.shape(tensor, out_type=tf.int64)
    return [sizes[axis] if size is None else size for axis, size in enumerate(known)]


class Library:
    """Operations of TensorFlow; `caller` and `name` are for what a graph says of indices."""

    def __init__(self, caller: str, name: str, dtype: Any) -> None:
        self.caller, self.name, self.dtype = caller, name, dtype

    def array(self, values: Any) -> Any:
        if isinstance(values, list | tuple | range):
            values = [tf.cast(each, tf.int64) for each in values]
            return tf.stack(values) if values else tf.zeros((0,), tf.int64)
        return tf.cast(values, tf.int64)

    def steps(self, size: Any, step: Any) -> Any:
        return tf.range(tf.cast(size, tf.int64)) * tf.cast(step, tf.int64)

    def int64(self, integers: Any, modulus: Any) -> Any:
        if modulus is not None:
            wide = tf.uint64 if integers.dtype == tf.uint64 else tf.int64
            values = tf.math.floormod(tf.cast(integers, wide), tf.cast(modulus, wide))
            return tf.cast(values, tf.int64)
        values = tf.cast(integers, tf.int64)
        if integers.dtype != tf.uint64:
            return values
        return tf.where(values < 0, tf.constant(_LARGEST, tf.int64), values)

    def checked(self, outside: Any, refusal: Callable[[Any, Any], Exception]) -> bool:
        """Check now, or let the graph check when it runs."""
        flags = tf.cast(tf.reshape(outside, (-1,)), tf.int64)
        if tf.executing_eagerly():
            if tf.reduce_any(outside):
                raise refusal(tf.argmax(flags), tf.reduce_sum(flags))
            return True
        text = f"{self.caller}: {self.name} are out of bounds; the first in C order is entry"
        first = tf.argmax(tf.concat([flags, [1]], 0))
        tf.debugging.Assert(tf.reduce_sum(flags) == 0, [text, first])
        return False

    def beyond(self, sizes: Any) -> Any:
        return tf.zeros_like(sizes)  # the assertion refuses it, and nothing before

    def reshape(self, array: Any, shape: Sequence[Any]) -> Any:
        return tf.reshape(array, self.array(tuple(shape)))

    def broadcast(self, array: Any, shape: Sequence[Any]) -> Any:
        return tf.broadcast_to(array, self.array(tuple(shape)))

    def where(self, condition: Any, true: Any, false: Any) -> Any:
        return tf.where(condition, true, false)

    def full(self, shape: Sequence[Any], element: Any) -> Any:
        return tf.fill(self.array(tuple(shape)), tf.constant(element, self.dtype))

    def any(self, array: Any) -> Any:
        return tf.reduce_any(array, axis=-1)

    def sum(self, array: Any) -> Any:
        return tf.reduce_sum(array, axis=-1)

    def take(self, data: Any, numbers: Any) -> Any:
        if data.shape[1] is not None:
            return tf.gather(data, numbers, axis=1)
        outer, count, width = tf.unstack(tf.shape(data, out_type=tf.int64))
        shape = tf.stack([outer, tf.size(numbers, out_type=tf.int64), width])
        return tf.cond(  # without rows all that is named is filled, or there is nothing
            count == 0,
            lambda: tf.zeros(shape, data.dtype),
            lambda: tf.gather(data, numbers, axis=1),
        )


_OF_BOOLEANS = {"add": "max", "mul": "min"}


def updated(
    data: Any, updates: Any, numbers: Any, count: Any, reduction: str, use_init_val: bool
) -> Any:
    """Return rows after updates; `numbers` are those of the rows, and -1 where there is none."""
    if data.dtype == tf.bool:
        reduction = _OF_BOOLEANS.get(reduction, reduction)
        if reduction != "none":
            data, updates = tf.cast(data, tf.int32), tf.cast(updates, tf.int32)
            result = updated(data, updates, numbers, count, reduction, use_init_val)
            return tf.cast(tf.math.floormod(result, 2), tf.bool)
    order = tf.range(tf.shape(numbers, out_type=tf.int64)[0])
    last = tf.math.unsorted_segment_max(order, numbers, count)
    met = tf.reshape(last >= 0, (-1, 1))
    if reduction == "none":
        if updates.shape[0] is None:  # perhaps there are none, and no row to take for those not met
            updates = tf.pad(updates, [[0, 1], [0, 0]])
        return tf.where(met, tf.gather(updates, tf.maximum(last, 0)), data)
    if reduction in ("min", "max"):
        return _extremes(data, updates, numbers, count, reduction, met, use_init_val)
    if reduction == "mul":
        product = tf.math.unsorted_segment_prod(updates, numbers, count)
        return tf.where(met, product * data if use_init_val else product, data)
    total = tf.math.unsorted_segment_sum(updates, numbers, count)
    if reduction == "sub":
        return tf.where(met, (data if use_init_val else tf.zeros_like(total)) - total, data)
    if use_init_val:
        total = total + data
    if reduction == "mean":
        ones = tf.ones_like(numbers)
        counts = tf.math.unsorted_segment_sum(ones, numbers, count) + int(use_init_val)
        total = _quotients(total, tf.reshape(tf.maximum(counts, 1), (-1, 1)))
    return tf.where(met, total, data)


def _extremes(
    data: Any,
    updates: Any,
    numbers: Any,
    count: Any,
    reduction: str,
    met: Any,
    use_init_val: bool,
) -> Any:
    """Return extremes; one that meets a NaN is a NaN."""
    least = reduction == "min"
    segment = tf.math.unsorted_segment_min if least else tf.math.unsorted_segment_max
    pair = tf.minimum if least else tf.maximum
    if not data.dtype.is_floating:
        extreme = segment(updates, numbers, count)
        return tf.where(met, pair(data, extreme) if use_init_val else extreme, data)
    unknown = tf.math.is_nan(updates)
    worst = tf.constant(float("inf" if least else "-inf"), data.dtype)
    extreme = segment(tf.where(unknown, worst, updates), numbers, count)
    any_unknown = tf.math.unsorted_segment_max(tf.cast(unknown, tf.int32), numbers, count) > 0
    if use_init_val:
        any_unknown = any_unknown | tf.math.is_nan(data)
        extreme = pair(data, extreme)
    nan = tf.constant(float("nan"), data.dtype)
    return tf.where(met, tf.where(any_unknown, nan, extreme), data)


def _quotients(totals: Any, counts: Any) -> Any:
    """Return totals by counts in the type of totals: rounded once, integers down."""
    dtype = totals.dtype
    if dtype.is_complex:
        parts = (_quotients(part(totals), counts) for part in (tf.math.real, tf.math.imag))
        return tf.complex(*parts)
    if dtype.is_integer:
        wide = tf.uint64 if dtype == tf.uint64 else tf.int64
        return tf.cast(tf.math.floordiv(tf.cast(totals, wide), tf.cast(counts, wide)), dtype)
    return tf.cast(tf.cast(totals, tf.float64) / tf.cast(counts, tf.float64), dtype)


_DENSE = (tf.Tensor, tf.Variable)
_ALLOWED = "a tensor; write to_tensor() of a RaggedTensor, tf.sparse.to_dense of a SparseTensor"


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def run(call: Call) -> Any:
    """Carry out a call with tensors; the result is a tensor where data is one, or in a graph.

    Raises
    ------
    NdgatherError
        An argument is ragged, sparse or of unknown rank, `out` is no variable, or the call is
        refused as it would be for NumPy arrays.
    """
    caller = call.caller
    for name, value in call.named():
        if _of_tensorflow(value) and not isinstance(value, _DENSE):
            raise container_errors.no_array(caller, name, value, _ALLOWED)
        if isinstance(value, _DENSE) and value.shape.rank is None:
            raise shape_errors.rank_unknown(caller, name)
    if not isinstance(call.data, _DENSE) and all(map(_is_eager, (call.indices, call.updates))):
        if isinstance(call.out, _DENSE):
            raise argument_errors.out_not_an_array(caller, call.out)
        return slow_path.run(
            replace(call, indices=_numpy(call.indices), updates=_numpy(call.updates))
        )
    call = replace(call, data=_tensor(caller, call.data), indices=_indices(call))
    result = _scatter(call) if call.scatters else _gather(call)
    return result if call.out is None else _assign(call, result)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, in which `data` is the cotangent of its result.

    Raises
    ------
    NdgatherError
        The cotangent is no tensor of floats or complex numbers, or the call is refused as it
        would be for NumPy arrays.
    """
    caller, given = call.caller, call.data
    if not isinstance(given, _DENSE):
        return cotangents(replace(call, indices=_numpy(call.indices)), data_shape)
    given = tf.convert_to_tensor(given)
    if not given.dtype.is_floating and not given.dtype.is_complex:
        raise argument_errors.cotangent_dtype(caller, given.dtype.name)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        inputs = [tf.zeros(given.shape if data_shape is None else data_shape, given.dtype)]
        bare = replace(call, data=inputs[0])
        if data_shape is None:
            slices = lowering.result_of(bare, sizes_of(given), sizes_of(_indices(bare)))
            inputs.append(tf.zeros(tuple(slices), given.dtype))
            bare = replace(bare, updates=inputs[1])
        tape.watch(inputs)
        result = run(bare)
    if not result.shape.is_compatible_with(given.shape):
        shapes = given.shape.as_list(), result.shape.as_list()
        raise shape_errors.updates_do_not_fit(caller, *shapes, "cotangent")
    gradients = tape.gradient(result, inputs, given, unconnected_gradients="zero")
    return tuple(gradients) if data_shape is None else tf.convert_to_tensor(gradients[0])


def reshape(tensor: Any, shape: tuple[Any, ...]) -> Any:
    """Return a tensor in another shape, of whose sizes at most one is not known."""
    return tf.reshape(tensor, [-1 if size is None else size for size in shape])


def _of_tensorflow(value: Any) -> bool:
    return any(each.__module__.partition(".")[0] == "tensorflow" for each in type(value).__mro__)


def _is_eager(value: Any) -> bool:
    return not isinstance(value, _DENSE) or (
        tf.executing_eagerly() and (isinstance(value, tf.Variable) or hasattr(value, "numpy"))
    )


def _numpy(value: Any) -> Any:
    return value.numpy() if isinstance(value, _DENSE) else value


def _tensor(caller: str, data: Any) -> Any:
    """Return data as a tensor; of a variable its value now."""
    given = data if isinstance(data, _DENSE) else slow_path.plain_array(caller, "data", data)
    return tf.convert_to_tensor(given)


def _indices(call: Call) -> Any:
    """Return indices as a tensor of integers, of which the number in a tuple is known."""
    name, value = call.indices_name, call.indices
    if not isinstance(value, _DENSE):
        plain = slow_path.native_indices(call.caller, value, name)
        if plain.dtype.kind not in "iu":
            raise index_errors.index_dtype(call.caller, plain.dtype, "no integer type", name)
        return tf.convert_to_tensor(plain)
    indices = tf.convert_to_tensor(value)
    if not indices.dtype.is_integer:
        if indices.dtype.is_floating and 0 in indices.shape:
            return tf.cast(indices, tf.int64)
        kind = "boolean" if indices.dtype == tf.bool else "no integer type"
        raise index_errors.index_dtype(call.caller, indices.dtype.name, kind, name)
    tuples = call.kind.endswith(("_nd", "_windows"))
    if tuples and indices.shape.rank and indices.shape[-1] is None:
        raise shape_errors.depth_unknown(call.caller, name)
    return indices


def _gather(call: Call) -> Any:
    caller, dtype = call.caller, call.data.dtype
    modes = slow_path.MODES if call.kind == "gather_windows" else _core.GATHER_MODES
    mode = slow_path.choice(caller, "mode", call.mode, modes)
    fill: Any = b"" if dtype == tf.string else np.zeros((), dtype.as_numpy_dtype)
    if call.fill_value is not None:
        if mode != "fill":
            raise argument_errors.fill_value_unused(caller, mode)
        fill = _numpy(call.fill_value)
        if dtype != tf.string:
            fill = slow_path.fill_element(caller, fill, np.dtype(dtype.as_numpy_dtype))
        elif not isinstance(fill, str | bytes):
            raise argument_errors.fill_value_lost(caller, fill, dtype.name)
    library = Library(caller, call.indices_name, dtype)
    sizes = sizes_of(call.data), sizes_of(call.indices)
    result = lowering.gather(replace(call, mode=mode), library, *sizes, fill)
    return _with_known_sizes(result, lowering.result_of(call, *sizes))


def _with_known_sizes(result: Any, sizes: Any) -> Any:
    """Tell TensorFlow again which sizes are known, which it forgets in a reshape."""
    return tf.ensure_shape(result, [size if isinstance(size, int) else None for size in sizes])


def _scatter(call: Call) -> Any:
    caller, data = call.caller, call.data
    reduction = slow_path.choice(caller, "reduction", call.reduction, reductions.NAMES)
    mode = slow_path.choice(caller, "mode", call.mode, _core.SCATTER_MODES)
    dtype = np.dtype(data.dtype.as_numpy_dtype)
    meaningful = reductions.meaningful(dtype)
    if reduction not in meaningful:
        raise argument_errors.reduction_type(caller, reduction, data.dtype.name, meaningful)
    updates = call.updates
    if not isinstance(updates, _DENSE):
        updates = slow_path.plain_updates(caller, updates, dtype, call.updates_name)
    try:
        updates = tf.convert_to_tensor(updates)
    except (TypeError, ValueError) as error:  # objects that are no strings
        raise argument_errors.updates_lost(caller, updates, dtype, call.updates_name) from error
    if updates.dtype != data.dtype:
        names = updates.dtype.name, data.dtype.name
        raise argument_errors.updates_dtype(caller, *names, call.updates_name)
    library = Library(caller, call.indices_name, data.dtype)
    shape = sizes_of(data)
    rows = lowering.rows_of(replace(call, mode=mode), library, shape, sizes_of(call.indices))
    view = rows.view
    if not updates.shape.is_compatible_with(
        [size if isinstance(size, int) else None for size in view.result]
    ):
        given = updates.shape.as_list()
        raise shape_errors.updates_do_not_fit(caller, given, view.result, call.updates_name)
    numbers = rows.numbers
    if rows.outside is not None:
        numbers = tf.where(rows.outside, tf.constant(-1, tf.int64), numbers)
    places: Any = prod(view.places)
    if isinstance(places, int) and not places:
        return tf.identity(data)
    result = updated(
        library.reshape(data, (view.count, view.width)),
        library.reshape(updates, (places, view.width)),
        numbers,
        library.array(view.count),
        reduction,
        bool(call.use_init_val),
    )
    return _with_known_sizes(library.reshape(result, shape), shape)


def _assign(call: Call, result: Any) -> Any:
    """Assign a result to `out`, a variable."""
    out = call.out
    if not isinstance(out, tf.Variable):
        raise argument_errors.out_not_a_variable(call.caller, out)
    if out.dtype != result.dtype:
        raise argument_errors.out_dtype(call.caller, out.dtype.name, result.dtype.name)
    if not out.shape.is_compatible_with(result.shape):
        raise shape_errors.out_shape(call.caller, out.shape.as_list(), result.shape.as_list())
    out.assign(result)
    return out
