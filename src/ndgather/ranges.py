"""Ranges along an axis: argument conversion, checks and copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather import arguments, dtypes, exchange, messages, slow_path
from ndgather.array_call import Array, Call, Mode, _core, replace
from ndgather.errors import AttributeValueError, CallError, IndexOutOfBoundsError, ShapeError

Integers: TypeAlias = NDArray[np.int64]

_FAR = 2**61  # starts and stops beyond 2**61 are Python integers


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges along an axis of known size, with their offsets in the result."""

    starts: Integers  # starts far beyond the axis are reduced modulo the size
    lengths: Integers
    offsets: Integers  # the offset of each range in the result, then the total length
    size: int
    named: Array  # the starts as passed by the caller, for error messages

    @property
    def are_inside(self) -> bool:
        """True if all ranges, including empty ranges, are in bounds."""
        if len(self.starts) == 0:
            return True
        return bool(self.starts.min() >= 0 and (self.starts <= self.size - self.lengths).all())

    @property
    def outside(self) -> NDArray[np.bool_]:
        """A mask that is true for non-empty ranges that extend past the axis."""
        beyond = self.starts > self.size - self.lengths
        return (self.lengths > 0) & ((self.starts < 0) | beyond)

    def positions(self, caller: str) -> Integers:
        """Return the concatenated positions of all ranges."""
        try:
            result = np.arange(self.offsets[-1])
        except (MemoryError, ValueError):  # NumPy limits arrays to 2**63 - 1 bytes
            raise messages.result_too_large(caller, (int(self.offsets[-1]),)) from None
        result += np.repeat(self.starts - self.offsets[:-1], self.lengths)
        return result


def read(caller: str, starts: object, stops: object, lengths: object, size: int) -> Ranges:
    """Convert the arguments to ranges, which may extend past the axis."""
    if (stops is None) == (lengths is None):
        given = "neither stops nor lengths is" if stops is None else "both stops and lengths are"
        raise CallError(f"{caller}: {given} given (allowed: one of them)")
    begin = _integers(caller, "starts", starts)
    name = "stops" if lengths is None else "lengths"
    end = _integers(caller, name, stops if lengths is None else lengths)
    if begin.ndim != 1:
        raise ShapeError(
            f"{caller}: starts.shape = {messages.shown(begin.shape)} has {begin.ndim} axes "
            f"(allowed: 1)"
        )
    if name == "lengths" and end.ndim == 0:
        end = np.full(begin.shape, end)
    if end.shape != begin.shape:
        raise ShapeError(
            f"{caller}: {name}.shape = {messages.shown(end.shape)} differs from starts.shape = "
            f"{messages.shown(begin.shape)} (allowed: the same)"
        )
    count = end if name == "lengths" else end - begin
    if count.min(initial=0) < 0:
        where = int(np.argmax(count < 0))
        least = 0 if name == "lengths" else begin[where]
        what = "is negative" if name == "lengths" else f"is before starts[{where}] = {least}"
        raise AttributeValueError(
            f"{caller}: {name}[{where}] = {end[where]} {what} (allowed: {least} or more)"
        )
    if len(count) * int(count.max(initial=0)) > 2 * _FAR and count.sum(dtype=float) > 2 * _FAR:
        raise messages.result_too_large(caller, (int(count.sum(dtype=object)),))
    count = count.astype(np.int64)
    offsets = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    near = begin
    # Replace starts beyond 2**61 with starts just past the axis that are equal modulo the size.
    if begin.dtype == object:
        near = np.where(begin > _FAR, begin % max(size, 1) + max(size, 1), begin)
    return Ranges(near.astype(np.int64, copy=False), count, offsets, size, begin)


def _integers(caller: str, name: str, value: object) -> Array:
    """Return a copy of `value` as int64, or as Python integers if a magnitude exceeds 2**61."""
    array = arguments.integers(caller, value, name).copy()
    is_near = array.size == 0 or (array.min() >= -_FAR and array.max() <= _FAR)
    return array.astype(np.int64 if is_near else object, copy=False)


def check(call: Call, ranges: Ranges, by_lengths: bool) -> bool:
    """Return whether all ranges are in bounds. If they are not, mode ``raise`` raises an error."""
    if ranges.are_inside or not (outside := ranges.outside).any():
        return True
    if call.mode == "raise":
        raise _out_of_bounds(call, ranges, outside, by_lengths)
    if call.mode != "fill" and ranges.size == 0:
        raise ShapeError(
            f"{call.caller}: ranges of an axis of size 0 cannot be read with mode = {call.mode!r} "
            f"(allowed: an axis that is not empty)"
        )
    return False


def _out_of_bounds(
    call: Call, ranges: Ranges, outside: Array, by_lengths: bool
) -> IndexOutOfBoundsError:
    where, size = int(np.argmax(outside)), ranges.size
    start, length = int(ranges.named[where]), int(ranges.lengths[where])
    axis = f"axis {call.axis} of data, which has size {size}"
    if not 0 <= start < size:
        name, value = "starts", start
        what = f"is {'before' if start < 0 else 'beyond'} {axis} (allowed: 0..{size - 1})"
        if size == 0:
            what = f"is outside {axis} (allowed: empty ranges)"
        elif start < 0:
            what += f"; counted from the end, it is {start + size}" if start >= -size else ""
    elif by_lengths:
        name, value = "lengths", length
        what = f"from starts[{where}] = {start} ends beyond {axis} (allowed: 0..{size - start})"
    else:
        name, value = "stops", start + length
        what = f"is beyond {axis} (allowed: {start}..{size})"
    count = int(outside.sum())
    others = f"; {count} of {len(outside)} ranges are out of bounds" if count > 1 else ""
    return IndexOutOfBoundsError(
        f"{call.caller}: {name}[{where}] = {value} {what}{others}",
        position=(where,),
        value=value,
        axis=int(call.axis),
        size=size,
        count=count,
    )


def by_positions(call: Call, ranges: Ranges) -> Call:
    """Return a gather at the positions of all ranges, in a mode that every library supports."""
    positions, size = ranges.positions(call.caller), ranges.size
    if call.mode == "wrap":
        positions %= size
    elif call.mode == "clip":
        positions.clip(0, size - 1, out=positions)
    elif call.mode == "fill":
        positions[(positions < 0) | (positions > size)] = size
    return replace(call, indices=positions, mode=Mode.FILL if call.fills else Mode.RAISE)


def with_axis(call: Call, shape: Sequence[int]) -> Call:
    """Return `call` with its mode validated and its axis normalized to be non-negative."""
    axis, rank = arguments.integer(call, "axis"), len(shape)
    if rank == 0:
        raise messages.rank_too_low(call.caller, "data", shape, 1)
    if not -rank <= axis < rank:
        why = f"data of shape {messages.shown(shape)}"
        raise messages.option_out_of_range(call.caller, "axis", call.axis, -rank, rank - 1, why)
    call = replace(call, axis=axis % rank, mode=arguments.checked_mode(call))
    if call.fill_value is not None and not call.fills:
        raise messages.fill_value_unused(call.caller, call.mode)
    return call


def gather_ranges(call: Call, starts: object, stops: object, lengths: object) -> tuple[Any, Any]:
    """Return the values and offsets of ranges. Offsets are a tensor if data is a tensor."""
    values, offsets = _values(call, starts, stops, lengths)
    own = None if type(call.data) is np.ndarray else exchange.adapter(call.data)
    convert = getattr(own, "offsets_of", None)
    return values, (offsets if convert is None else convert(values, offsets))


def _values(call: Call, starts: object, stops: object, lengths: object) -> tuple[Any, Integers]:
    options = call.out, call.fill_value, call.memory, call.progress, call.executor
    has_options = call.mode != "raise" or any(option is not None for option in options)
    if not has_options and (stops is None) != (lengths is None):
        ends = stops if lengths is None else lengths
        done = _core.gather_ranges(call.data, starts, ends, lengths is not None, call.axis)
        if done is not None:
            return done
    call, given = arguments.check_storage_options(call), call.out
    data, out = (_without_mapping(value) for value in (call.data, call.out))
    adapter: Any = exchange.adapter(data, out)
    store = reader = None
    if adapter is None:
        if type(data) is not np.ndarray:
            data = arguments.plain_array(call.caller, "data", data)
        shape = data.shape
    elif (store := exchange.store_of(data)) is not None:
        reader = exchange.opened(call)
        shape = reader.grid.shape
    else:
        shape = _known_shape(call)
    if data is not call.data or out is not call.out:
        call = replace(call, data=data, out=out)
    call = with_axis(call, shape)
    ranges = read(call.caller, starts, stops, lengths, shape[call.axis])
    if not check(call, ranges, lengths is not None) or (adapter is not None and reader is None):
        values = slow_path.run(by_positions(call, ranges))
    elif store is not None:
        values = store.run_ranges(call, reader, ranges)
    else:
        values = _run_plain(arguments.checked(call, data.dtype), ranges)
    return (values if given is None else given), ranges.offsets


def _without_mapping(value: Any) -> Any:
    return value.view(np.ndarray) if type(value) is np.memmap else value


def _known_shape(call: Call) -> tuple[int, ...]:
    data = call.data
    what = f"{call.caller}: data = {type(data).__name__} object has no known shape"
    allowed = "an array whose sizes are known"
    with messages.converted_errors(lambda _: ShapeError(f"{what} (allowed: {allowed})")):
        shape = tuple(data.shape) if hasattr(data, "shape") else (len(data),)
        return tuple(int(size) for size in shape)


def _run_plain(call: Call, ranges: Ranges) -> Array:
    data, out, axis = call.data, call.out, call.axis
    if out is not None:
        shape = (*data.shape[:axis], int(ranges.offsets[-1]), *data.shape[axis + 1 :])
        if not isinstance(out, np.ndarray):
            raise messages.out_not_an_array(call.caller, out)
        plain = arguments.plain_array(call.caller, "out", out)
        arguments.check_plain_out(replace(call, out=plain), shape)
        if not (np.may_share_memory(plain, data) or dtypes.has_gaps(plain.dtype)):
            copy(data, axis, ranges.starts, ranges.lengths, ranges.offsets[:-1], plain)
            return plain
    result = joined(data, axis, ranges.starts, ranges.lengths)
    return result if out is None else slow_path.deliver(replace(call, out=plain), result)


def joined(data: Array, axis: int, starts: Integers, lengths: Integers) -> Array:
    made = _core.gather_ranges(data, starts, lengths, True, axis)
    if made is not None:
        return made[0]
    shape = (*data.shape[:axis], int(lengths.sum()), *data.shape[axis + 1 :])
    try:
        result = np.empty(shape, data.dtype)
    except ValueError:  # NumPy limits arrays to 2**63 - 1 bytes
        raise messages.result_too_large("gather_ranges", shape) from None
    copy(data, axis, starts, lengths, np.cumsum(lengths) - lengths, result)
    return result


def copy(
    data: Array, axis: int, starts: Integers, lengths: Integers, offsets: Integers, out: Array
) -> None:
    """Copy ranges of `data` to the given offsets in `out`."""
    if data.dtype.hasobject or data.itemsize == 0:
        lead = (slice(None),) * axis
        for start, count, offset in zip(starts, lengths, offsets, strict=True):
            out[(*lead, slice(offset, offset + count))] = data[(*lead, slice(start, start + count))]
    else:
        _core.copy_ranges(data, axis, starts, lengths, offsets, out)
