"""What `lowering` uses of a library of arrays, in operations of TensorFlow: eager or in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
