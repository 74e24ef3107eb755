"""Errors of shapes that do not fit, and how a shape is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import ShapeError
from ndgather.errors.shown_values import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence


def shown(shape: Sequence[object]) -> str:
    """Write a shape as NumPy does, symbolic sizes by their names, on one line."""
    sizes = (text if (text := str(size)).isprintable() else repr(text) for size in shape)
    return f"({', '.join(sizes)}{',' if len(shape) == 1 else ''})"


def rank_too_low(caller: str, argument: str, shape: Sequence[object], lowest: int) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} has rank {len(shape)} "
        f"(allowed: rank {lowest} or more)"
    )


def depth_unknown(caller: str, argument: str) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape[-1] is not known, which says how many axes are indexed "
        f"(allowed: a known size)"
    )


def rank_too_high(caller: str, rank: int, highest: int) -> ShapeError:
    return ShapeError(f"{caller}: the result would have rank {rank} (allowed: at most {highest})")


def ranks_differ(caller: str, data: Sequence[object], indices: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape = {shown(indices)} has rank {len(indices)}, but data.shape = "
        f"{shown(data)} has rank {len(data)} (allowed: the same rank)"
    )


def batch_sizes_differ(
    caller: str, axis: int, data: Sequence[object], indices: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape[{axis}] = {indices[axis]} differs from data.shape[{axis}] = "
        f"{data[axis]}: batch axes must be equal in data {shown(data)} and indices "
        f"{shown(indices)} (allowed: {data[axis]})"
    )


def too_many_axes(caller: str, name: str, rank: int, highest: int) -> ShapeError:
    return ShapeError(
        f"{caller}: {name} has {rank} axes, more than an array can have "
        f"(allowed: at most {highest})"
    )


def index_too_deep(
    caller: str,
    data: Sequence[object],
    indices: Sequence[object],
    batch_dims: int,
    lowest: int = 0,
    most: int | None = None,
) -> ShapeError:
    most = len(data) - batch_dims if most is None else most
    left = f" after {batch_dims} batch axes" if batch_dims else ""
    if len(indices) == 1:
        hint = "; one index for each slice is indices[:, None]"
    elif len(indices) == 2 and indices[0] == most:
        hint = "; in place of np.nonzero(mask) use np.argwhere(mask)"
    else:
        hint = ""
    return ShapeError(
        f"{caller}: indices.shape[-1] = {indices[-1]} is more than the {most} axes that data "
        f"{shown(data)} has{left}; indices.shape = {shown(indices)} (allowed: "
        f"{lowest}..{most}){hint}"
    )


def longer_off_axis(
    caller: str, axis: int, along: int, data: Sequence[object], indices: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape[{axis}] = {indices[axis]} is more than data.shape[{axis}] = "
        f"{data[axis]}: indices {shown(indices)} may be larger than data {shown(data)} only "
        f"on axis {along} (allowed: 0..{data[axis]})"
    )


def updates_do_not_fit(
    caller: str,
    updates: Sequence[object],
    wanted: Sequence[object],
    name: str = "updates",
    hint: str = "",
) -> ShapeError:
    return ShapeError(
        f"{caller}: {name}.shape = {shown(updates)} does not fit indices and data "
        f"(allowed: {shown(wanted)}){f'; {hint}' if hint else ''}"
    )


def out_shape(caller: str, out: Sequence[object], result: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: out.shape = {shown(out)} differs from the shape of the result "
        f"(allowed: {shown(result)})"
    )


def windows_do_not_fit(
    caller: str, data: Sequence[object], starts: Sequence[object], window: Sequence[object]
) -> ShapeError:
    most = f"0..{len(data)}" if len(window) > len(data) else f"{len(window)}, as window_shape has"
    hint = "; one start for each window is starts[:, None]" if len(starts) == 1 else ""
    return ShapeError(
        f"{caller}: starts.shape[-1] = {starts[-1]} does not fit window_shape = {shown(window)} "
        f"and data {shown(data)}; starts.shape = {shown(starts)} (allowed: {most}){hint}"
    )


def window_too_large(
    caller: str, axis: int, data: Sequence[object], window: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: window_shape[{axis}] = {window[axis]} is more than data.shape[{axis}] = "
        f"{data[axis]}: every window sticks out (allowed: 0..{data[axis]}, or mode='fill')"
    )


def too_many_windows(caller: str, data: Sequence[object], window: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: window_shape = {shown(window)} makes more windows of data {shown(data)} than "
        f"can be counted (allowed: less than 2**63 bytes and at most 64 axes in all)"
    )


def not_sizes(caller: str, argument: str, value: object) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument} = {shown_value(value)} is not a shape (allowed: integers from 0 on)"
    )
