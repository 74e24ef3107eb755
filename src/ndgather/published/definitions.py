"""Shape inference and NumPy implementations of operators that are not a single call of the core.

The `infer_shapes` functions receive sizes that may be named or unknown, and values of some inputs.
The `compute` functions receive arrays that have already been checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ndgather.array_call import Array
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
)
from ndgather.messages import shown, subscript, updates_dtype
from ndgather.published.inference import CallShapes, check_indices, counted_from_the_front
from ndgather.published.schema import Definition, OperatorVersion, Role
from ndgather.published.shapes import LARGEST_RANK, Axes, Size, Unknown

Arrays: TypeAlias = Mapping[Role, Array]
Attributes: TypeAlias = Mapping[str, Any]


def _equate(call: CallShapes, role: Role, wanted: Sequence[Size]) -> None:
    """Require that an input has the shape `wanted`."""
    axes = call.axes[role]
    before = call.shown(axes)
    if not axes.is_of(len(wanted)) or not all(map(call.sizes.equate, axes.sizes, wanted)):
        raise ShapeError(
            f"{call.caller}: {call.name(role)}.shape = {shown(before)} does not match the "
            f"other inputs (allowed: {shown(call.shown(Axes(list(wanted))))})"
        )


def _equal_rank(call: CallShapes, first: Role, second: Role) -> None:
    shapes = [call.shown(call.axes[role]) for role in (first, second)]
    if not call.axes[first].is_as_long_as(call.axes[second]):
        raise ShapeError(
            f"{call.caller}: {call.name(second)}.shape = {shown(shapes[1])} has a different rank "
            f"than {call.name(first)}.shape = {shown(shapes[0])} (allowed: equal ranks)"
        )


# ScatterUpdate of OpenVINO


def _infer_scatter_update(call: CallShapes) -> Axes:
    data, indices, updates = call.data, call.indices, call.axes[Role.UPDATES]
    axis = call.values.get(Role.AXIS)
    if axis is None:
        ranks = data.exact and indices.exact
        if ranks and not updates.is_of(data.rank + indices.rank - 1):
            rank = data.rank + indices.rank - 1
            raise call.updates_do_not_fit(Axes([Unknown()] * rank))
        return data
    along = counted_from_the_front(call, "axis", int(axis.item()))
    if data.exact and indices.exact:
        before, after = data.sizes[:along], data.sizes[along + 1 :]
        _equate(call, Role.UPDATES, [*before, *indices.sizes, *after])
    if data.exact and Role.INDICES in call.values:
        dims = [call.sizes.dim(size) for size in data.sizes]
        check_indices(call.row, dims, call.values[Role.INDICES], along)
    return data


def _compute_scatter_update(_: OperatorVersion, arrays: Arrays, __: Attributes) -> Array:
    result = arrays[Role.DATA].copy()
    axis = int(arrays[Role.AXIS].item()) % result.ndim
    result[(slice(None),) * axis + (arrays[Role.INDICES],)] = arrays[Role.UPDATES]
    return result


SCATTER_UPDATE = Definition(
    infer_shapes=_infer_scatter_update,
    compute=_compute_scatter_update,
    rules=(
        ("ranks", "`data` has rank `r >= 1`, `indices` have any rank"),
        ("shape of updates", "`data.shape[:axis] + indices.shape + data.shape[axis+1:]`"),
        ("shape of the result", "`data.shape`"),
    ),
    alike="`torch.index_copy`, `data[:, indices] = updates` of NumPy",
)


# TensorScatter of ONNX


def _infer_tensor_scatter(call: CallShapes) -> Axes:
    cache, update, starts = call.data, call.axes[Role.UPDATES], call.axes.get(Role.INDICES)
    _equal_rank(call, Role.DATA, Role.UPDATES)
    axis = counted_from_the_front(call, "axis", call.attributes["axis"])
    if axis == 0:
        raise AttributeValueError(
            f"{call.caller}: axis = {call.attributes['axis']} is the batch axis of past_cache "
            f"{shown(call.shown(cache))} (allowed: the axes after it)"
        )
    if starts is not None:
        _equate(call, Role.INDICES, cache.sizes[:1])
    if not (cache.exact and update.exact):
        shape, batches = call.shown(update), cache.sizes[:1]
        if not call.sizes.equate(batches[0], update.sizes[0]):
            raise ShapeError(
                f"{call.caller}: update.shape = {shown(shape)} does not match the other inputs "
                f"(allowed: {shown(call.shown(Axes(batches, exact=False)))})"
            )
        return cache
    size, count = cache.sizes[axis], update.sizes[axis]
    wanted = list(cache.sizes)
    wanted[axis] = count
    _equate(call, Role.UPDATES, wanted)
    longest, shortest = call.sizes.bounds(size)[1], call.sizes.bounds(count)[0]
    if not (call.sizes.bound(size, shortest) and call.sizes.bound(count, 0, longest)):
        raise ShapeError(
            f"{call.caller}: update.shape[{axis}] = {shortest} is longer than past_cache.shape"
            f"[{axis}] = {longest} (allowed: at most {longest})"
        )
    values = call.values.get(Role.INDICES)
    if values is not None and call.attributes["mode"] == "linear" and longest is not None:
        most = longest - shortest
        bad = (values < 0) | (values > most)
        if bad.any():
            at = int(np.argmax(bad))
            raise IndexOutOfBoundsError(
                f"{call.caller}: write_indices[{at}] = {values[at]} lets {shortest} rows extend "
                f"past the end of axis {axis} of past_cache, which has size {longest} "
                f"(allowed: 0..{most})",
                position=(at,),
                value=int(values[at]),
                axis=axis,
                size=longest,
                count=int(bad.sum()),
            )
    return cache


def _compute_tensor_scatter(row: OperatorVersion, arrays: Arrays, attributes: Attributes) -> Array:
    result, update = arrays[Role.DATA].copy(), arrays[Role.UPDATES]
    if result.dtype.kind in "US" and update.dtype != result.dtype:  # could truncate strings
        raise updates_dtype(str(row), update.dtype, result.dtype, "update")
    axis = attributes["axis"] % result.ndim
    starts = arrays.get(Role.INDICES, np.zeros(result.shape[0], np.int64))
    places = np.arange(update.shape[axis])
    for batch, start in enumerate(starts.tolist()):
        along = start + places
        if attributes["mode"] == "circular":
            size = result.shape[axis]
            along = (start % size + places) % size if size else along
        rows = np.moveaxis(result[batch], axis - 1, 0)
        rows[along] = np.moveaxis(update[batch], axis - 1, 0)
    return result


TENSOR_SCATTER = Definition(
    infer_shapes=_infer_tensor_scatter,
    compute=_compute_tensor_scatter,
    rules=(
        ("ranks", "`past_cache` and `update` have the same rank `r >= 2`"),
        ("shape of update", "`past_cache.shape`, but with `L <= S` rows along `axis`"),
        ("write_indices", "one per batch; `linear`: `0..S-L`; `circular`: any value, modulo `S`"),
        ("shape of the result", "`past_cache.shape`"),
    ),
    alike="`jax.lax.dynamic_update_slice` for each batch",
)


# SliceScatter of OpenVINO


def _infer_slice_scatter(call: CallShapes) -> Axes:
    data, updates, values = call.data, call.axes[Role.UPDATES], call.values
    _equal_rank(call, Role.DATA, Role.UPDATES)
    roles = [x for x in (Role.START, Role.STOP, Role.STEP, Role.AXES) if x in call.axes]
    for role in roles:
        _equate(call, role, call.axes[Role.START].sizes[:1] or [Unknown()])
    count = call.sizes.value(call.axes[Role.START].sizes[0])
    if count is not None and not data.reaches(count):
        raise ShapeError(
            f"{call.caller}: start.shape = ({count},) names more axes than data "
            f"{shown(call.shown(data))} has (allowed: at most {data.rank})"
        )
    if Role.STEP in values and not values[Role.STEP].all():
        raise AttributeValueError(
            f"{call.caller}: step = {values[Role.STEP].tolist()} has a 0 (allowed: other numbers)"
        )
    axes = values.get(Role.AXES)
    if Role.AXES not in call.axes and count is not None:
        axes = np.arange(count)
    if axes is None:
        return data
    named = [counted_from_the_front(call, "axes", int(axis)) for axis in axes]
    if len(set(named)) < len(named):
        raise AttributeValueError(
            f"{call.caller}: axes = {axes.tolist()} names an axis twice (allowed: each once)"
        )
    if not (data.exact and updates.exact):
        return data
    wanted = list(data.sizes)
    limits = [values.get(role) for role in roles[:3]]
    for number, axis in enumerate(named):
        size = call.sizes.value(data.sizes[axis])
        wanted[axis] = Unknown()
        if size is not None and all(limit is not None for limit in limits):
            taken = slice(*(int(limit[number]) for limit in limits if limit is not None))
            wanted[axis] = len(range(*taken.indices(size)))
    _equate(call, Role.UPDATES, wanted)
    return data


def _compute_slice_scatter(_: OperatorVersion, arrays: Arrays, __: Attributes) -> Array:
    result = arrays[Role.DATA].copy()
    limits = [arrays[role].tolist() for role in (Role.START, Role.STOP, Role.STEP)]
    axes = arrays.get(Role.AXES, np.arange(len(limits[0])))
    taken = [slice(None)] * result.ndim
    for axis, *numbers in zip(axes.tolist(), *limits, strict=True):
        taken[axis] = slice(*numbers)
    result[tuple(taken)] = arrays[Role.UPDATES]
    return result


SLICE_SCATTER = Definition(
    infer_shapes=_infer_slice_scatter,
    compute=_compute_slice_scatter,
    rules=(
        ("ranks", "`data` and `updates` have the same rank `r >= 1`; the others have rank 1"),
        ("shape of updates", "`data.shape`, but with the lengths of the slices along `axes`"),
        ("start, stop, step, axes", "equally long; `axes` has no duplicates, `step` no 0"),
        ("shape of the result", "`data.shape`"),
    ),
    alike="`data[start:stop:step] = updates` of NumPy, `torch.slice_scatter`",
)


# GatherTree of OpenVINO


def _infer_gather_tree(call: CallShapes) -> Axes:
    ids = call.data
    _equate(call, Role.DATA, [Unknown(), Unknown(), Unknown()])
    _equate(call, Role.INDICES, ids.sizes)
    _equate(call, Role.LENGTHS, ids.sizes[1:2])
    _equate(call, Role.END, [])
    for role in {Role.INDICES, Role.LENGTHS} & call.values.keys():
        values = _numbers(call.values[role])
        if not (np.isfinite(values) & (np.trunc(values) == values)).all():
            raise DTypeError(
                f"{call.caller}: {call.name(role)} has values that are not integers (allowed: "
                "integers)"
            )
    return ids


def _numbers(array: Array) -> Array:
    """Convert floats to float64 so that comparisons with sizes are exact."""
    return array if array.dtype.kind in "iu" else array.astype(np.float64)


def _compute_gather_tree(row: OperatorVersion, arrays: Arrays, _: Attributes) -> Array:
    """Follow the parents of each beam from the last step back to the first step."""
    ids, end = arrays[Role.DATA], arrays[Role.END]
    parents, lengths = _numbers(arrays[Role.INDICES]), _numbers(arrays[Role.LENGTHS])
    steps, batches, width = ids.shape
    result = np.full(ids.shape, end, ids.dtype)
    batch = np.arange(batches)[:, None]
    beam = np.broadcast_to(np.arange(width), (batches, width))
    for time in reversed(range(steps)):
        runs = (time < lengths)[:, None] & (width > 0)
        result[time] = np.where(runs, ids[time][batch, beam], end)
        above = parents[time][batch, beam]
        bad = runs & ((above < 0) | (above >= width)) & (time > 0)
        if bad.any():
            place = tuple(int(x) for x in np.argwhere(bad)[0])
            position, value = (time, place[0], int(beam[place])), int(above[place])
            raise IndexOutOfBoundsError(
                f"{row}: parent_ids{subscript(position)} = {value} is not a beam "
                f"(allowed: 0..{width - 1})",
                position=position,
                value=value,
                axis=2,
                size=width,
                count=int(bad.sum()),
            )
        beam = np.where(runs & (time > 0), above, beam).astype(np.intp)
    ended = np.cumsum(result == end, axis=0) > 0
    return np.where(ended, end, result)


GATHER_TREE = Definition(
    infer_shapes=_infer_gather_tree,
    compute=_compute_gather_tree,
    rules=(
        ("ranks", "`step_ids` have rank 3: the steps, batches and `B` beams"),
        ("shapes of others", "`step_ids.shape`, `step_ids.shape[1:2]` and `()`"),
        ("values of parent_ids", "`0..B-1`, in steps that are read"),
        ("shape of the result", "`step_ids.shape`"),
    ),
    alike="`tfa.seq2seq.gather_tree`",
)


# GatherBlockQuantized of com.microsoft


_LEAST_BLOCK = 16


def _infer_block_quantized(call: CallShapes) -> Axes:
    data, indices, attributes = call.data, call.indices, call.attributes
    dtype, points = call.dtypes["T1"], call.axes.get(Role.ZERO_POINTS)
    block, bits = attributes["block_size"], attributes["bits"]
    is_float = dtype is not None and dtype.startswith("float")
    valid = block >= _LEAST_BLOCK and block & (block - 1) == 0
    if not valid and not (block == 0 and (is_float or dtype is None)):
        raise AttributeValueError(
            f"{call.caller}: block_size = {block} is not supported (allowed: powers of 2, at least "
            f"{_LEAST_BLOCK}{'; or 0' if is_float else ''})"
        )
    widths = {"uint8": (2, 4, 8), "int4": (4,), "uint4": (4,)}.get(dtype or "", (2, 4, 8))
    if not is_float and bits not in widths:
        raise AttributeValueError(
            f"{call.caller}: bits = {bits} is not supported for {dtype} (allowed: "
            f"{', '.join(map(str, widths))})"
        )
    if is_float and points is not None:
        raise AttributeValueError(
            f"{call.caller}: zero_points are given for data of {dtype} (allowed: none)"
        )
    _equal_rank(call, Role.DATA, Role.SCALES)
    gathered, quantized = (
        counted_from_the_front(call, name, attributes[name])
        for name in ("gather_axis", "quantize_axis")
    )
    if not (data.exact and indices.exact):
        return Axes([], exact=False)
    packed = 8 // bits if dtype == "uint8" else 1
    last = data.rank - 1
    if dtype == "uint8" and (gathered != 0 or quantized != last or last == 0):
        raise AttributeValueError(
            f"{call.caller}: gather_axis = {gathered} and quantize_axis = {quantized} are not "
            f"supported for data of uint8 {shown(call.shown(data))} (allowed: 0 and the last axis, "
            "of two axes or more)"
        )
    sizes: list[Size] = list(data.sizes)
    if dtype is None or packed > 1:
        known = call.sizes.value(sizes[last])
        sizes[last] = known * packed if known is not None and dtype is not None else Unknown()
    _infer_scales(call, sizes, quantized, broadcasts=is_float)
    if points is not None:
        _equal_rank(call, Role.SCALES, Role.ZERO_POINTS)
        wanted = list(call.axes[Role.SCALES].sizes)
        count = call.sizes.value(wanted[quantized])
        if packed > 1 or dtype is None:
            known = count is not None and dtype is not None
            wanted[quantized] = -(-(count or 0) // packed) if known else Unknown()
        _equate(call, Role.ZERO_POINTS, wanted)
    return Axes([*sizes[:gathered], *indices.sizes, *sizes[gathered + 1 :]])


def _infer_scales(
    call: CallShapes, sizes: Sequence[Size], quantized: int, *, broadcasts: bool
) -> None:
    """Require an element of `scales` for each block of data, where `sizes` are data's sizes."""
    block, scales = call.attributes["block_size"], call.axes[Role.SCALES]
    wanted = list(sizes)
    size = call.sizes.value(sizes[quantized])
    wanted[quantized] = Unknown()
    if block == 0:
        wanted[quantized] = 1
    elif size is not None:
        wanted[quantized] = -(-size // block)
    for axis, have in enumerate(scales.sizes):
        if broadcasts and axis != quantized and call.sizes.value(have) in {1, None}:
            wanted[axis] = have
    _equate(call, Role.SCALES, wanted)


def _compute_block_quantized(row: OperatorVersion, arrays: Arrays, attributes: Attributes) -> Array:
    """Gather numbers, scales and zero points, and dequantize the numbers in float32."""
    data, indices, scales = (arrays[x] for x in (Role.DATA, Role.INDICES, Role.SCALES))
    along, blocks = (attributes[x] % data.ndim for x in ("gather_axis", "quantize_axis"))
    rank = data.ndim - 1 + indices.ndim
    if rank > LARGEST_RANK:
        raise ShapeError(
            f"{row}: the result would have rank {rank} (allowed: at most {LARGEST_RANK})"
        )
    packed = data.dtype == np.uint8
    bits, size = attributes["bits"] if packed else 8, data.shape[along]
    inside = (indices >= -size) & (indices < size)
    places = (indices[inside] % max(size, 1)).astype(np.intp)
    count = data.shape[blocks] * (8 // bits)
    longest = max(count, 1)
    block_of = np.arange(count) // min(attributes["block_size"] or longest, longest)

    def of_blocks(array: Array) -> Array:
        """Return the element of `array` for the block of each number, as a float32 array."""
        if blocks == along:
            taken = np.take(array, block_of[places], along)
        else:
            rows = places if array.shape[along] > 1 else np.zeros_like(places)
            taken = np.take(np.take(array, rows, along), block_of, blocks)
        return np.asarray(taken, np.float32)

    points: Any = np.float32(2 ** (bits - 1) if packed else 0)
    if Role.ZERO_POINTS in arrays:
        points = of_blocks(_unpacked(arrays[Role.ZERO_POINTS], bits))
    with np.errstate(all="ignore"):
        numbers = _unpacked(np.take(data, places, along), bits).astype(np.float32)
        slices = ((numbers - points) * of_blocks(scales)).astype(scales.dtype)
    before, after = slices.shape[:along], slices.shape[along + 1 :]
    result = np.zeros((*before, indices.size, *after), scales.dtype)
    result[(slice(None),) * along + (inside.reshape(-1),)] = slices
    return result.reshape((*before, *indices.shape, *after))


def _unpacked(array: Array, bits: int) -> Array:
    """Unpack numbers of `bits` bits from the bytes along the last axis, low bits first."""
    if bits == 8 or array.dtype != np.uint8:
        return array
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    repeated = array.repeat(shifts.size, -1)
    return (repeated >> np.resize(shifts, repeated.shape[-1])) & np.uint8(2**bits - 1)


GATHER_BLOCK_QUANTIZED = Definition(
    infer_shapes=_infer_block_quantized,
    compute=_compute_block_quantized,
    rules=(
        ("ranks", "`data`, `scales` and `zero_points` have the same rank `r >= 1`"),
        ("packing", "`uint8` holds `8 / bits` numbers along the last axis, low bits first"),
        ("shape of scales", "the unpacked shape of `data`; along `quantize_axis`, one per block"),
        ("scales of floats", "may have size 1 on the other axes, which is broadcast"),
        ("shape of zero_points", "`scales.shape`, packed like `data`; not allowed for floats"),
        ("shape of the result", "see Gather, with the unpacked `data`"),
    ),
    alike="ONNX `Gather`, then `DequantizeLinear`",
)
