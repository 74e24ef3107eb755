"""Scatters as sums, products and extremes of segments: one segment of updates for each row.

Every step has a gradient in TensorFlow. Integers are exact; sums of floats are made of the updates
first and data then, in an order that the device chooses. Of several updates of one row the last
one counts, on every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

    Segments = Callable[[Any], Any]

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
