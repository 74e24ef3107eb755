"""Every exception that ndgather raises, and the only place where their texts are written.

A text reads ``<function>: <argument>[<where>] = <value> <what is wrong> (<what is allowed>)``.
The functions at the end build exceptions; they never raise them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class NdgatherError(Exception):
    """What every exception of this package is."""


class ShapeError(NdgatherError, ValueError):
    """The shapes of two arguments do not fit each other."""


class DTypeError(NdgatherError, TypeError):
    """An argument has a type that the operation does not take."""


class AttributeValueError(NdgatherError, ValueError):
    """An option (`batch_dims`, `axis`, `mode`, `out`, ...) has a value that is not allowed."""


class IndexOutOfBoundsError(NdgatherError, IndexError):
    """An entry of `indices` names no place on the axis of data that it addresses.

    Attributes
    ----------
    position : tuple of int
        Where in `indices` the first bad entry stands (first in C order).
    value : int
        That entry.
    axis : int
        The axis of data that it addresses.
    size : int
        The size of that axis.
    count : int
        How many entries of `indices` are out of bounds in all.
    """

    def __init__(
        self,
        text: str,
        *,
        position: tuple[int, ...] = (),
        value: int = 0,
        axis: int = 0,
        size: int = 0,
        count: int = 0,
    ) -> None:
        super().__init__(text)
        self.position = position
        self.value = value
        self.axis = axis
        self.size = size
        self.count = count


def shown(shape: Sequence[object]) -> str:
    """Write a shape as NumPy does, symbolic sizes by their names, on one line."""
    sizes = (text if (text := str(size)).isprintable() else repr(text) for size in shape)
    return f"({', '.join(sizes)}{',' if len(shape) == 1 else ''})"


def index_out_of_bounds(
    caller: str,
    *,
    position: tuple[int, ...],
    value: int,
    axis: int,
    size: int,
    lowest: int,
    count: int,
    total: int,
) -> IndexOutOfBoundsError:
    allowed = f"allowed: {lowest}..{size - 1}" if size else "the axis is empty"
    others = f"; {count} of {total} entries of indices are out of bounds" if count > 1 else ""
    return IndexOutOfBoundsError(
        f"{caller}: indices[{', '.join(map(str, position))}] = {value} is outside axis {axis} "
        f"of data, which has size {size} ({allowed}){others}",
        position=position,
        value=value,
        axis=axis,
        size=size,
        count=count,
    )


def indices_changed(caller: str) -> NdgatherError:
    return NdgatherError(
        f"{caller}: indices changed while they were read (another thread wrote an entry that is "
        f"out of bounds, and replaced it)"
    )


def shape_changed(caller: str) -> NdgatherError:
    return NdgatherError(
        f"{caller}: an array changed its shape during the call (another thread gave it another)"
    )


def rank_too_low(caller: str, argument: str, shape: Sequence[object], lowest: int) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} has rank {len(shape)} "
        f"(allowed: rank {lowest} or more)"
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
        f"{data[axis]}: batch axes are equal in data {shown(data)} and indices {shown(indices)} "
        f"(allowed: {data[axis]})"
    )


def too_many_axes(caller: str, name: str, rank: int, highest: int) -> ShapeError:
    return ShapeError(
        f"{caller}: {name} has {rank} axes, more than an array can (allowed: at most {highest})"
    )


def index_too_deep(
    caller: str,
    data: Sequence[object],
    indices: Sequence[object],
    batch_dims: int,
    most: int | None = None,
) -> ShapeError:
    most = len(data) - batch_dims if most is None else most
    left = f" after {batch_dims} batch axes" if batch_dims else ""
    return ShapeError(
        f"{caller}: indices.shape[-1] = {indices[-1]} is more than the {most} axes that data "
        f"{shown(data)} has{left}; indices.shape = {shown(indices)} (allowed: 0..{most})"
    )


def longer_off_axis(
    caller: str, axis: int, along: int, data: Sequence[object], indices: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape[{axis}] = {indices[axis]} is more than data.shape[{axis}] = "
        f"{data[axis]}: indices {shown(indices)} may exceed data {shown(data)} on axis {along} "
        f"only (allowed: 0..{data[axis]})"
    )


def option_out_of_range(
    caller: str, option: str, value: object, lowest: int, highest: int, why: str
) -> AttributeValueError:
    allowed = f"{lowest}..{highest}" if lowest <= highest else "nothing"
    return AttributeValueError(
        f"{caller}: {option} = {value} is out of range for {why} (allowed: {allowed})"
    )


def option_not_integer(caller: str, option: str, value: object) -> DTypeError:
    return DTypeError(f"{caller}: {option} = {value!r} is no integer (allowed: an integer)")


def environment_not_integer(name: str, text: str) -> AttributeValueError:
    return AttributeValueError(
        f"ndgather: environment[{name}] = {text!r} is no integer (allowed: an integer)"
    )


def unknown_choice(
    caller: str, option: str, value: object, choices: Sequence[str]
) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {option} = {value!r} is unknown (allowed: {', '.join(map(repr, choices))})"
    )


def index_dtype(caller: str, dtype: object, kind: str) -> DTypeError:
    return DTypeError(
        f"{caller}: indices.dtype = {dtype} is {kind} (allowed: int8..int64, uint8..uint64)"
    )


def not_an_array(caller: str, argument: str, value: object, why: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object {why} (allowed: an array, a number "
        f"or nested lists of numbers)"
    )


def masked_array(caller: str, argument: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = masked array would lose its mask (allowed: a plain array, such "
        f"as {argument}.data)"
    )


def fill_value_lost(caller: str, value: object, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: fill_value = {value!r} cannot be held by data.dtype = {dtype} "
        f"(allowed: one value of that type)"
    )


def fill_value_unused(caller: str, mode: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: fill_value is given, but mode = {mode!r} fills nothing (allowed: mode='fill')"
    )


def out_not_an_array(caller: str, out: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out = {type(out).__name__} object is no array (allowed: a NumPy array)"
    )


def out_dtype(caller: str, out: object, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out.dtype = {out} differs from data.dtype = {data} (allowed: {data})"
    )


def out_shape(caller: str, out: Sequence[object], result: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: out.shape = {shown(out)} differs from the shape of the result "
        f"(allowed: {shown(result)})"
    )


def out_read_only(caller: str) -> AttributeValueError:
    return AttributeValueError(f"{caller}: out is read-only (allowed: a writeable array)")


def out_overlaps_itself(caller: str, strides: Sequence[int]) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: out.strides = {shown(strides)} let elements of out share memory "
        f"(allowed: strides that keep them apart)"
    )


def result_too_large(caller: str, shape: Sequence[object]) -> MemoryError:
    return MemoryError(f"{caller}: the result of shape {shown(shape)} does not fit in memory")


def updates_dtype(caller: str, updates: object, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: updates.dtype = {updates} differs from data.dtype = {data} (allowed: {data})"
    )


def updates_lost(caller: str, updates: object, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: updates = {type(updates).__name__} object cannot be held by data.dtype = "
        f"{dtype} (allowed: values of that type, floating ones may be rounded)"
    )


def reduction_type(
    caller: str, reduction: str, dtype: object, meaningful: Sequence[str]
) -> DTypeError:
    return DTypeError(
        f"{caller}: reduction = {reduction!r} has no meaning for data.dtype = {dtype} "
        f"(allowed: {', '.join(map(repr, meaningful))})"
    )


def cotangent_dtype(caller: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: cotangent.dtype = {dtype} has no sums (allowed: integers, floats and complex "
        f"numbers)"
    )


# operators: what one version of one operator allows


def unknown_operator(name: str, domain: str, known: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"operator: name = {name!r} is unknown in domain {domain!r} (allowed: "
        f"{', '.join(known) or 'no name, the domain is unknown'})"
    )


def unknown_version(
    name: str, domain: str, option: str, value: object, known: Sequence[int]
) -> AttributeValueError:
    return AttributeValueError(
        f"operator: {option} = {value} has no {domain} {name} (allowed: "
        f"{'' if option == 'version' else 'at least '}{', '.join(map(str, known))})"
    )


def version_and_opset(version: object, opset: object) -> AttributeValueError:
    return AttributeValueError(
        f"operator: version = {version} and opset = {opset} are both given (allowed: one of them)"
    )


def unknown_attribute(caller: str, name: str, known: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name if name.isidentifier() else repr(name)} is no attribute of this version "
        f"(allowed: {', '.join(known) or 'no attributes'})"
    )


def missing_attribute(caller: str, name: str) -> AttributeValueError:
    return AttributeValueError(f"{caller}: {name} is missing (allowed: a value, it is required)")


def attribute_type(caller: str, name: str, value: object, wanted: str) -> DTypeError:
    return DTypeError(f"{caller}: {name} = {value!r} is of another type (allowed: {wanted})")


def wrong_inputs(caller: str, count: int, names: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {count} inputs are given (allowed: {len(names)}, {', '.join(names)})"
    )


def input_given_twice(caller: str, name: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name} is given by place and by name (allowed: one of them)"
    )


def input_type(caller: str, name: str, dtype: str, types: Sequence[str]) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {dtype} is not taken (allowed: {', '.join(types)})"
    )


def types_differ(caller: str, name: str, dtype: str, other: str, wanted: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {dtype} differs from {other}.dtype = {wanted} "
        f"(allowed: {wanted})"
    )


def no_tensor_type(caller: str, name: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {value!r} is no type of a tensor (allowed: TensorType(dtype, shape))"
    )


def not_a_shape(caller: str, name: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.shape = {value!r} is no shape (allowed: a tuple of sizes, names and "
        f"None; RankAtLeast; None)"
    )


def value_does_not_fit(
    caller: str, name: str, shape: Sequence[object], declared: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: the value of {name} has shape {shown(shape)}, which is not the declared one "
        f"(allowed: {shown(declared)})"
    )


def depth_too_low(
    caller: str,
    data: Sequence[object],
    indices: Sequence[object],
    lowest: int,
    most: int | None,
) -> ShapeError:
    allowed = f"{lowest} or more" if most is None else f"{lowest}..{most}"
    return ShapeError(
        f"{caller}: indices.shape[-1] = {indices[-1]} is too short for an index tuple; data "
        f"{shown(data)}, indices {shown(indices)} (allowed: {allowed})"
    )


def off_axis_sizes_differ(
    caller: str, axis: int, along: int, data: Sequence[object], indices: Sequence[object]
) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape[{axis}] = {indices[axis]} differs from data.shape[{axis}] = "
        f"{data[axis]}: indices {shown(indices)} and data {shown(data)} differ on axis {along} "
        f"only (allowed: {data[axis]})"
    )


def updates_do_not_fit(
    caller: str,
    updates: Sequence[object],
    wanted: Sequence[object],
    name: str = "updates",
) -> ShapeError:
    return ShapeError(
        f"{caller}: {name}.shape = {shown(updates)} does not fit indices and data "
        f"(allowed: {shown(wanted)})"
    )


def axis_before_batch(caller: str, axis: int, batch_dims: int) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: axis = {axis} is one of the {batch_dims} batch axes (allowed: {batch_dims} or "
        f"more, counted from the front)"
    )


def axis_not_single(caller: str, shape: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: axis.shape = {shown(shape)} is no single value (allowed: () or (1,))"
    )


def empty_axis(
    caller: str, axis: int, data: Sequence[object], indices: Sequence[object]
) -> IndexOutOfBoundsError:
    return IndexOutOfBoundsError(
        f"{caller}: indices {shown(indices)} name places on axis {axis} of data {shown(data)}, "
        f"which is empty (allowed: no indices)",
        axis=axis,
    )
