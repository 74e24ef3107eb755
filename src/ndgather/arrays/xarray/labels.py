"""The labels of one axis in ascending order, and how other labels are found among them.

Instead of a binary search for each label, which misses the cache at every step, the range of the
axis is cut into twice as many equal intervals as it has labels. The number of an interval is a
rounded product, and so never falls where labels rise: between the labels of the axis before an
interval and those after it nothing is decided by rounding, and the few inside are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ndgather.errors import label_errors

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Positions = NDArray[np.intp]


_BLOCK = 1 << 15  # labels that are looked up at a time: the arrays of a step stay in the cache
_MOST_IN_AN_INTERVAL = 4
_SWAPPED = {"pad": "backfill", "backfill": "pad"}


@dataclass(frozen=True)
class SortedLabels:
    """Distinct labels in ascending order, and where they stand on the axis."""

    values: Array  # int64 or floats; times as their number
    places: Positions | None  # None: each where it stands here
    descending: bool = False  # the axis runs down: what comes before a label is greater
    period: Any = None

    @classmethod
    def of(cls, labels: Array) -> SortedLabels:
        """Return the labels of an axis that is sorted, either way."""
        values = _numbers(labels)
        if values.size < 2 or values[0] < values[-1]:
            return cls(values, None)
        return cls(values[::-1].copy(), np.arange(values.size - 1, -1, -1), descending=True)

    @classmethod
    def of_unsorted(cls, labels: Array) -> SortedLabels:
        values = _numbers(labels)
        order = np.argsort(values, kind="stable")
        return cls(values[order], order)

    def positions(self, labels: Array, method: str | None, limit: Array | None) -> Positions:
        """Return where labels, or their neighbours, stand on the axis; -1 where there is none."""
        times = labels.dtype if labels.dtype.kind in "mM" else None
        labels = _numbers(labels)
        found = np.empty(labels.shape, np.intp)
        if self.descending and method is not None:
            method = _SWAPPED.get(method, method)
        if self.values.size == 0:
            found[...] = -1
            return found
        for start in range(0, labels.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            with np.errstate(invalid="ignore", over="ignore"):  # infinite labels
                block = self.wrapped(labels[part])
                near, is_found = self._neighbours(block, method)
                if limit is not None:
                    distance = _distance(self.values[near], block, times)
                    is_found &= distance <= (limit[part] if limit.ndim else limit)
            place = near if self.places is None else self.places[near]
            found[part] = np.where(is_found & _is_a_label(block, times), place, -1)
        return found

    def _neighbours(self, labels: Array, method: str | None) -> tuple[Positions, NDArray[np.bool]]:
        """Return which of `values` a label means, and whether it does."""
        values, last = self.values, self.values.size - 1
        below = self.count_below(labels)
        above = np.minimum(below, last)
        if method == "nearest":
            before = np.maximum(below - 1, 0)
            nearer = _difference(labels, values[before]) < _difference(values[above], labels)
            return np.where(nearer, before, above), np.ones(labels.shape, np.bool)
        if method == "backfill":
            return above, below <= last
        equal = values[above] == labels
        if method is None:
            return above, equal
        before = np.where(equal, above, below - 1)
        return np.maximum(before, 0), before >= 0

    def brackets(self, labels: Array, rule: str) -> tuple[Positions, Positions, Array]:
        """Return the places of the labels below and above each label, and how far between it is.

        That is 0 at the label below and 1 at the one above, and NaN where there are not both. A
        label of the axis itself is the upper one by the rule ``left`` and the lower one by
        ``right``; by ``exact`` it is both.
        """
        times = labels.dtype if labels.dtype.kind in "mM" else None
        block = self.wrapped(_numbers(labels))
        last = self.values.size - 1
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            below = self.count_below(block)
            equal = self.values[np.minimum(below, last)] == block
            lower = below - 1 if rule == "left" else np.where(equal, below, below - 1)
            lower = np.clip(lower, 0, max(last - 1, 0))
            upper = np.minimum(lower + 1, last)
            if rule == "exact":
                upper = np.where(equal, below, upper)
                lower = np.where(equal, below, lower)
            span = (self.values[upper] - self.values[lower]).astype(np.float64)
            between = (block - self.values[lower]).astype(np.float64) / span
        if rule != "left":
            between = np.where(equal & (upper == lower), 0.0, between)
        inside = (block >= self.values[0]) & (block <= self.values[last])
        between = np.where(inside & _is_a_label(block, times), between, np.nan)
        if self.places is not None:
            lower, upper = self.places[lower], self.places[upper]
        return lower, upper, between

    def wrapped(self, labels: Array) -> Array:
        """Return labels outside of the range moved by whole periods to where it begins."""
        if self.period is None:
            return labels
        first, last = self.values[1], self.values[-2]
        outside = (labels < first) | (labels > last)
        if labels.dtype.kind == "f":
            moved = labels - self.period * np.floor((labels - first) / self.period)
        else:
            moved = labels - self.period * ((labels - first) // self.period)
        return np.where(outside, moved, labels)

    def count_below(self, labels: Array) -> Positions:
        """Return how many values lie below each label; anything for NaN."""
        intervals = self._intervals if labels.size > self.values.size // 8 else None
        if intervals is None:
            return np.searchsorted(self.values, labels)
        starts, most, bounded = intervals
        count: Positions = starts[self._interval(labels, starts.size)]
        for _ in range(most):
            count += bounded[count] < labels
        return count

    @cached_property
    def _intervals(self) -> tuple[Positions, int, Array] | None:
        """Return how many values lie below each interval, how many at most in it, and the values.

        None where a binary search is better.
        """
        values = self.values
        number = 2 * values.size
        with np.errstate(over="ignore", divide="ignore"):
            usable = values.size > 1 and np.isfinite(self._scale(number)) and self._scale(number)
        if not usable:
            return None
        interval = self._interval(values, number)
        most = int(np.bincount(interval).max())
        if most > _MOST_IN_AN_INTERVAL:
            return None
        greatest = np.inf if values.dtype.kind == "f" else np.iinfo(np.int64).max
        bounded = np.append(values, values.dtype.type(greatest))
        return np.searchsorted(interval, np.arange(number)), most, bounded

    def _scale(self, number: int) -> float:
        return float(number / (np.float64(self.values[-1]) - np.float64(self.values[0])))

    def _interval(self, labels: Array, number: int) -> Positions:
        offset = labels.astype(np.float64) - np.float64(self.values[0])
        offset *= self._scale(number)
        np.fmax(offset, 0, out=offset)  # and 0 for NaN
        np.fmin(offset, number - 1, out=offset)
        return offset.astype(np.intp)


def in_a_period(caller: str, name: Hashable, labels: Array, period: Any) -> SortedLabels:
    """Return the labels of an axis that is a ring, with a neighbour before and after its seam."""
    values = _numbers(labels)
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    if values.size == 0:
        return SortedLabels(values, None)
    first, last = ascending[0], ascending[-1]
    if not np.isfinite(ascending).all() or last - first > period:
        raise label_errors.period_too_short(caller, name, first, last, period)
    descending = bool(values.size > 1 and (np.diff(values) < 0).all())
    closed = last - first == period  # both ends are labels: the neighbours lie one further
    before, after = (-2, 1) if closed and values.size > 1 else (-1, 0)
    ring = np.concatenate(([ascending[before] - period], ascending, [ascending[after] + period]))
    places = np.concatenate(([order[before]], order, [order[after]]))
    return SortedLabels(ring, places, descending, period)


def _numbers(labels: Array) -> Array:
    return labels.view(np.int64) if labels.dtype.kind in "mM" else labels


def _is_a_label(labels: Array, times: object) -> NDArray[np.bool]:
    if times is not None:
        return labels != np.iinfo(np.int64).min  # type: ignore[no-any-return]  # NaT
    return labels == labels  # type: ignore[no-any-return]  # noqa: PLR0124 - NaN is unlike itself


def _difference(greater: Array, smaller: Array) -> Array:
    """Return a difference that is not negative; of integers one that does not overflow."""
    difference: Array = greater - smaller
    return difference if greater.dtype.kind == "f" else difference.view(np.uint64)


def _distance(left: Array, right: Array, times: np.dtype[Any] | None) -> Array:
    if left.dtype.kind == "f":
        distance: Array = np.abs(left - right)
        return distance
    distance = _difference(np.maximum(left, right), np.minimum(left, right))
    if times is None:
        return distance
    longest = np.uint64(np.iinfo(np.int64).max)
    return np.minimum(distance, longest).view(f"m8[{np.datetime_data(times)[0]}]")


def look_up(
    caller: str,
    name: Hashable,
    index: pd.Index[Any],
    labels: Array,
    *,
    method: str | None = None,
    tolerance: Any = None,
    period: Any = None,
) -> Positions:
    """Return where labels stand on an axis, in the shape of `labels`; -1 where they do not.

    Raises
    ------
    LabelError
        Labels of the axis repeat, or are unsorted where the method needs an order.
    NdgatherError
        The labels cannot be compared with those of the axis.
    """
    if not index.is_unique:
        raise label_errors.repeated_labels(caller, name, index)
    flat = np.ravel(labels)
    pair = comparable(index, flat)
    if period is not None:
        if pair is None:
            raise label_errors.not_periodic(caller, name, index.dtype)
        values, flat, length = _with_period(caller, name, index, pair, period)
        sorted_labels = in_a_period(caller, name, values, length)
    elif pair is None or not (index.is_monotonic_increasing or index.is_monotonic_decreasing):
        return _by_pandas(caller, name, index, flat, method, tolerance).reshape(labels.shape)
    else:
        sorted_labels = SortedLabels.of(pair[0])
        flat = pair[1]
    limit = _limit(caller, name, index, tolerance, flat.size)
    return sorted_labels.positions(flat, method, limit).reshape(labels.shape)


def axis_of_numbers(
    caller: str, name: Hashable, index: pd.Index[Any], labels: Array, period: Any
) -> tuple[Array, SortedLabels]:
    """Return labels and those of an axis in ascending order, as they are compared.

    Raises
    ------
    LabelError
        Labels of the axis repeat, or there are none.
    DTypeError
        They are no numbers or times.
    """
    if not index.is_unique:
        raise label_errors.repeated_labels(caller, name, index)
    if not len(index):
        raise label_errors.no_labels(caller, name)
    pair = comparable(index, labels)
    if pair is None:
        raise label_errors.not_interpolated(caller, name, index.dtype, labels.dtype)
    if period is not None:
        values, labels, length = _with_period(caller, name, index, pair, period)
        return labels, in_a_period(caller, name, values, length)
    if index.is_monotonic_increasing or index.is_monotonic_decreasing:
        return pair[1], SortedLabels.of(pair[0])
    return pair[1], SortedLabels.of_unsorted(pair[0])


def comparable(index: pd.Index[Any], labels: Array) -> tuple[Array, Array] | None:
    """Return the labels of an axis and others in the one type that pandas compares them in.

    None where that is no 64-bit integer, float or time.
    """
    if not isinstance(index.dtype, np.dtype):
        return None
    values = index.to_numpy()
    kinds = values.dtype.kind + labels.dtype.kind
    if kinds in ("MM", "mm"):
        return _same_unit(values, labels)
    if not set(kinds) <= set("iuf") or np.dtype(np.uint64) in (values.dtype, labels.dtype):
        return None
    common: np.dtype[Any] = np.dtype(np.int64)
    if "f" in kinds:
        common = np.result_type(values, labels) if kinds == "ff" else np.dtype(np.float64)
        if common.itemsize not in (4, 8):
            return None
    return values.astype(common, copy=False), labels.astype(common, copy=False)


def _same_unit(values: Array, labels: Array) -> tuple[Array, Array] | None:
    common = np.result_type(values, labels)
    unit, count = np.datetime_data(common)
    if unit == "generic" or count != 1:
        return None
    pair = values.astype(common, copy=False), labels.astype(common, copy=False)
    for given, cast in zip((values, labels), pair, strict=True):
        if cast is not given:
            kept = (cast.astype(given.dtype) == given) | np.isnat(given)
            if not kept.all():  # out of the range of the finer unit: pandas says so
                return None
    return pair


def _with_period(
    caller: str, name: Hashable, index: pd.Index[Any], pair: tuple[Array, Array], period: Any
) -> tuple[Array, Array, Any]:
    """Return both kinds of labels and the period as numbers of one type."""
    values, labels = pair
    try:
        if values.dtype.kind in "mM":
            unit = np.datetime_data(values.dtype)[0]
            length: Any = pd.Timedelta(period).to_timedelta64().astype(f"m8[{unit}]").view(np.int64)
        else:
            length = np.asarray(period)[()]
            if values.dtype.kind == "i" and length != int(length):
                values, labels = values.astype(np.float64), labels.astype(np.float64)
            length = values.dtype.type(length)
        usable = bool(np.isfinite(length) and length > 0)
    except (TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        raise label_errors.period_value(caller, name, period, index.dtype)
    return values, labels, length


def _by_pandas(
    caller: str,
    name: Hashable,
    index: pd.Index[Any],
    labels: Array,
    method: str | None,
    tolerance: Any,
) -> Positions:
    sortable = index.is_monotonic_increasing or index.is_monotonic_decreasing
    if method is not None and not sortable:
        raise label_errors.unsorted_labels(caller, name, method)
    wide = labels.astype(np.float64) if labels.dtype == np.float16 else labels
    try:
        target = pd.Index(wide)
        found = index.get_indexer(target, method=method, tolerance=tolerance)
    except MemoryError:
        raise
    except Exception as error:
        raise label_errors.not_comparable(caller, name, index.dtype, labels.dtype, error) from error
    return np.asarray(found, np.intp)


def _limit(
    caller: str, name: Hashable, index: pd.Index[Any], tolerance: Any, count: int
) -> Array | None:
    """Return the greatest distances that count as found, one for all labels or one for each."""
    if tolerance is None:
        return None
    times = index.dtype.kind in "mM"
    try:
        if times:
            limit = np.asarray(pd.to_timedelta(tolerance).to_numpy())
        else:
            limit = np.asarray(tolerance)
        usable = limit.dtype.kind in ("m" if times else "iuf")
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise label_errors.tolerance_value(caller, name, tolerance, index.dtype)
    if limit.size not in (1, count):
        raise label_errors.tolerance_size(caller, name, limit.size, count)
    return limit.reshape(-1) if limit.size > 1 else limit.reshape(())
