"""Windows of equal shape around labels, for variables and their coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray

from ndgather import arguments, messages
from ndgather.array_call import Kind
from ndgather.arrays.xarray import arrays, selection
from ndgather.arrays.xarray.arrays import Options
from ndgather.arrays.xarray.labels import WIDEST
from ndgather.arrays.xarray.selection import Request
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
)
from ndgather.messages import did_you_mean, listed, shown_value, subscript

_POINTS = "window"  # the dimension for labels in lists or NumPy arrays


def windows(
    data: xarray.Dataset,
    labels: Mapping[Hashable, Any],
    size: Any,
    mode: Any,
    request: Request,
    options: Options,
) -> xarray.Dataset:
    """Return the windows of every variable that has one of the labeled dimensions."""
    caller = request.caller
    if not labels:
        raise CallError(f"{caller}: no labels are given (allowed: labels of at least one axis)")
    data, positions = selection.find_positions(data, labels, request)
    centers, coords = _centers(caller, data, positions)
    written = {name: axis for axis, name in request.names.items()}
    size, mode = (selection.by_axes(data, option, written) for option in (size, mode))
    names = {dim: (dim, *(name for name in labels if data[name].dims == (dim,))) for dim in centers}
    starts, sizes, modes = {}, {}, {}
    for dim, center in centers.items():
        wide = _of_dim(size, names[dim])
        if wide is None:
            raise CallError(
                f"{caller}: size has no entry for {dim} (allowed: a number, or a size for each "
                f"dimension)"
            )
        [sizes[dim]] = arguments.sizes(caller, "size", [wide])
        starts[dim] = center - sizes[dim] // 2
        period = _of_dim(dict(request.period), names[dim])
        word = _of_dim(mode, names[dim]) or ("raise" if period is None else "wrap")
        modes[dim] = arguments.choice(caller, "mode", word, arguments.WINDOW_MODES)
        if modes[dim] == "raise":
            _check_inside(caller, dim, center, starts[dim], sizes[dim], data.sizes[dim])
        elif modes[dim] == "wrap" and period is not None:
            _check_cyclic(caller, dim, data, period)
    known = [*dict.fromkeys(name for of_dim in names.values() for name in of_dim)]
    for argument, value in (("size", size), ("mode", mode)):
        for name in value if isinstance(value, Mapping) else ():
            if name not in known:
                raise CallError(
                    f"{caller}: {argument} has an entry for {name}, which has no labels "
                    f"(allowed: {listed(map(str, known))}){did_you_mean(name, map(str, known))}"
                )
    cut: dict[Hashable, xarray.Variable] = {}
    for name, variable in data.variables.items():
        inside = [dim for dim in variable.dims if dim in centers]
        if inside:
            cut[name] = _cut(variable, inside, starts, sizes, modes, options.of(name, variable))
    offsets = {f"{dim}_offset": np.arange(wide) - wide // 2 for dim, wide in sizes.items()}
    kept = data.drop_vars([*cut])
    result = kept.assign({name: cut[name] for name in data.data_vars if name in cut})
    result = result.assign_coords(
        xarray.Coordinates({name: cut[name] for name in data.coords if name in cut}, indexes={})
    ).assign_coords(offsets)
    return result.assign_coords({n: c for n, c in coords.items() if n not in result.variables})


def _centers(
    caller: str, data: xarray.Dataset, positions: Mapping[Hashable, Any]
) -> tuple[dict[Hashable, xarray.Variable], dict[Hashable, Any]]:
    """Return the positions of the labels along each dimension, and the labels' coordinates."""
    centers: dict[Hashable, xarray.Variable] = {}
    coords: dict[Hashable, Any] = {}
    lengths: dict[Hashable, int] = {}
    for dim, given in positions.items():
        position: Any = given
        if isinstance(given, slice) or np.asarray(given).dtype.kind == "b":
            raise DTypeError(
                f"{caller}: {dim} is a slice or a mask (allowed: the labels at the centers of the "
                f"windows)"
            )
        if isinstance(given, xarray.DataArray):
            coords |= given.coords
            position = given.variable
        elif not isinstance(given, xarray.Variable):
            position = xarray.Variable((_POINTS,) * np.ndim(given), given)
        for point_dim, length in position.sizes.items():
            if point_dim in data.dims:
                raise ShapeError(
                    f"{caller}: the labels {dim} have dimension {point_dim}, which is also a "
                    f"dimension of data (allowed: other names); write "
                    f"{dim}.rename({point_dim}=...)"
                )
            if lengths.setdefault(point_dim, length) != length:
                raise ShapeError(
                    f"{caller}: {dim} has {length} labels along {point_dim}, but another argument "
                    f"has {lengths[point_dim]} (allowed: equal numbers)"
                )
        centers[dim] = position
    return centers, coords


def _of_dim(option: Any, names: tuple[Hashable, ...]) -> Any:
    """Return the value of an option for a dimension that may have several names."""
    if not hasattr(option, "items"):
        return option
    return next((option[name] for name in names if name in option), None)


def _check_inside(
    caller: str,
    dim: Hashable,
    center: xarray.Variable,
    start: xarray.Variable,
    wide: int,
    size: int,
) -> None:
    """Raise IndexOutOfBoundsError if a window extends past an end of its axis."""
    outside = np.asarray((start < 0) | (start > size - wide))
    if not outside.any():
        return
    position = tuple(int(at) for at in np.argwhere(outside)[0])
    where = subscript(position)
    value = int(center.values[position])
    first, last = wide // 2, size - wide + wide // 2
    inside = f"positions {first}..{last}, or " if first <= last else ""
    words = "'clip', 'fill'" if first <= last else "'fill'"
    raise IndexOutOfBoundsError(
        f"{caller}: {dim}{where} is at position {value}: a window of size {wide} around it "
        f"extends past an end of {dim}, which has size {size} (allowed: "
        f"{inside}mode={{{dim!r}: ...}} with {words}, 'wrap', 'edge' or 'reflect')",
        position=position,
        value=value,
        size=size,
        count=int(outside.sum()),
    )


def _check_cyclic(caller: str, dim: Hashable, data: xarray.Dataset, period: Any) -> None:
    """Raise AttributeValueError unless the first and last labels of an axis are neighbors."""
    axis: Any = data[dim].values if dim in data.coords else None
    if axis is None or len(axis) < 2:
        return
    length = pd.Timedelta(period).to_timedelta64() if axis.dtype.kind in "mM" else period
    steps = np.diff(axis, append=axis[:1])
    steps = (-steps if np.median(steps) < 0 * steps[0] else steps) % length
    *others, gap = steps.astype(np.float64)
    if not min(others) / 2 <= gap <= WIDEST * max(others):
        raise AttributeValueError(
            f"{caller}: period = {shown_value(period)}, and {dim} has labels from {axis[0]} to "
            f"{axis[-1]}: the gap between the last and first label is {steps[-1]}, but other "
            f"labels are {np.median(steps)} apart, so windows cannot wrap (allowed: an axis that "
            f"covers one period, or mode={{{dim!r}: ...}})"
        )


def _cut(
    variable: xarray.Variable,
    dims: list[Hashable],
    starts: Mapping[Hashable, xarray.Variable],
    sizes: Mapping[Hashable, int],
    modes: Mapping[Hashable, str],
    options: Options,
) -> xarray.Variable:
    """Return the windows of a variable, filled with NaN out of bounds in mode "fill"."""
    points = {d: n for center in starts.values() for d, n in center.sizes.items()}
    lead = {d: n for d, n in points.items() if any(d in starts[dim].dims for dim in dims)}
    at = [starts[dim].set_dims(lead).transpose(*lead) for dim in dims]  # type: ignore[no-untyped-call]
    call = replace(
        options.call,
        kind=Kind.GATHER_WINDOWS,
        indices=np.stack([each.values for each in at], -1),
        mode=tuple("edge" if modes[dim] == "fill" else modes[dim] for dim in dims),
        window_shape=tuple(sizes[dim] for dim in dims),
    )
    axes = [variable.dims.index(dim) for dim in dims]
    values = arrays.gather(arrays.array_of(variable), call, options, axes)
    rest = [dim for dim in variable.dims if dim not in dims]
    result = xarray.Variable([*lead, *(f"{dim}_offset" for dim in dims), *rest], values)
    for dim, start in zip(dims, at, strict=True):
        if modes[dim] != "fill":
            continue
        position = start + xarray.Variable((f"{dim}_offset",), np.arange(sizes[dim]))
        size = variable.sizes[dim]
        inside = (position >= 0) & (position < size)
        if bool(inside.all()):
            continue
        with messages.converted_errors(partial(_no_filler, options, dim, variable)):
            dtype, missing = arrays.missing_value(result.dtype)
            result = result.astype(dtype).where(inside, missing)  # type: ignore[no-untyped-call]
    ordered = [f"{dim}_offset" if dim in dims else dim for dim in variable.dims]
    result = result.transpose(*lead, *ordered)
    result.attrs.update(variable.attrs)
    return result


def _no_filler(
    options: Options, dim: Hashable, variable: xarray.Variable, error: Exception
) -> DTypeError:
    return DTypeError(
        f"{options.call.caller}: mode[{dim!r}] = 'fill' is not supported for {variable.dtype}, "
        f"which has no missing value: {messages.reason(error)} (allowed: other modes)"
    )
