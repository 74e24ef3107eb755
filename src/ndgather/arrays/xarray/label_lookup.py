"""From labels to positions along one axis: what `pandas.Index.get_indexer` answers, sooner.

Sorted numbers and times are searched here; all else is left to pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ndgather.arrays.xarray.sorted_labels import SortedLabels, in_a_period
from ndgather.errors import label_errors

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Positions = NDArray[np.intp]


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
