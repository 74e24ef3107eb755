"""Shape and type inference for operators, with sizes that may be named or unknown.

`infer` raises an error if the call fails for all possible values of its inputs. Sizes are inferred
from equalities between them. If the axis or the length of index tuples is unknown, all possible
values are tried, and the result contains everything that the successful trials have in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ndgather import messages
from ndgather.array_call import Array, Kind
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import shown
from ndgather.published.schema import (
    AttributeRange,
    BatchRule,
    Dim,
    Equality,
    Inference,
    OffAxisRule,
    OperatorVersion,
    RankAtLeast,
    Role,
    Shape,
    TensorType,
    dtype_name,
    first_sizes,
)
from ndgather.published.shapes import LARGEST_RANK, Axes, Size, Sizes, Unknown

# The minimum number of axes that follow the batch axes, in data and in indices.
_AFTER_BATCH = {
    AttributeRange.BATCH_BELOW_RANKS: (1, 1),
    AttributeRange.BATCH_UP_TO_AXIS: (0, 0),
}


def infer(
    row: OperatorVersion,
    types: Sequence[TensorType | None],
    attributes: Mapping[str, int | str | bool],
    *,
    values: Mapping[Role, Array] | None = None,
    check_empty_axes: bool = True,
) -> Inference:
    """Infer the types of a call from the input types, the attributes and known values of inputs.

    `types` has an entry for every input, which is None if the input is omitted. If
    `check_empty_axes` is true, raise an error for indices into an axis of size 0. When a call runs,
    the check of index values reports such indices instead, because this check knows the positions.
    """
    values = values or {}
    dtypes = _merged_dtypes(row, types, values)
    axes = {
        item.role: Axes.of(known.shape)
        for item, known in zip(row.inputs, types, strict=True)
        if known is not None
    }
    call = CallShapes(row, Sizes(), axes, check_empty_axes=check_empty_axes)
    for role, value in values.items():
        declared = call.shown(axes[role])
        fits = axes[role].is_of(value.ndim)
        if not fits or not all(map(call.sizes.equate, axes[role].sizes, value.shape)):
            raise ShapeError(
                f"{row}: the value of {call.name(role)} has shape {shown(value.shape)}, which is "
                f"not the declared shape (allowed: {shown(declared)})"
            )
    _infer_ranks(call)
    depth = first = None
    if row.definition is not None:
        call.dtypes, call.attributes, call.values = dtypes, attributes, values
        shape = call.shape(row.definition.infer_shapes(call))
    else:
        call, shape, depth, first = _inferred_shape(call, attributes, values)
    names = dict.fromkeys(x for axes in call.axes.values() for x in axes.sizes if type(x) is str)
    equal = ((name, call.sizes.find(name)) for name in names)
    return Inference(
        outputs=tuple(TensorType(dtypes[item.type_variable], shape) for item in row.outputs),
        inputs=tuple(
            TensorType(dtypes[item.type_variable], call.shape(call.axes[item.role]))
            if item.role in call.axes
            else TensorType()
            for item in row.inputs
        ),
        equalities=tuple(
            Equality(name=name, equals=other)
            for name, other in equal
            if not isinstance(other, Unknown) and other != name
        ),
        depth=depth,
        axis=first,
    )


def _inferred_shape(
    call: CallShapes,
    attributes: Mapping[str, int | str | bool],
    values: Mapping[Role, Array],
) -> tuple[CallShapes, Shape, int | None, int | None]:
    """Return the inferred call, its result shape, its depth and its first indexed axis."""
    row = call.row
    axis = attributes.get("axis", values.get(Role.AXIS))
    if axis is not None and not row.kind.tuples:
        _infer_axis(call, int(np.asarray(axis).item()))
    _infer_batch_dims(call, int(attributes.get("batch_dims", 0)))
    call, shape, depth = _infer_shape(call)
    first = call.batch_dims if row.kind.tuples else call.axis
    first = None if first is None or first < 0 else first
    if Role.INDICES in values and row.index_rule.raises and first is not None:
        data = [call.sizes.dim(size) for size in call.data.sizes]
        check_indices(row, data, values[Role.INDICES], first)
    return call, shape, depth, first


def _merged_dtypes(
    row: OperatorVersion, types: Sequence[TensorType | None], values: Mapping[Role, Array]
) -> dict[str, str | None]:
    """Return the element type of each type variable, or None if the type is unknown."""
    known: dict[str, tuple[str, str]] = {}
    for item, tensor in zip(row.inputs, types, strict=True):
        dtype, value = None if tensor is None else tensor.dtype, values.get(item.role)
        of_value = dtype if value is None or value.dtype.kind in "iu" else dtype_name(value)
        for name in (dtype, of_value):
            if name is not None and name not in item.types:
                raise DTypeError(
                    f"{row}: {item.name}.dtype = {name} is not supported (allowed: "
                    f"{', '.join(item.types)})"
                )
        if dtype is None:
            continue
        other, wanted = known.setdefault(item.type_variable, (item.name, dtype))
        if dtype != wanted:
            raise DTypeError(
                f"{row}: {item.name}.dtype = {dtype} differs from {other}.dtype = {wanted} "
                f"(allowed: {wanted})"
            )
    return {item.type_variable: known.get(item.type_variable, ("", None))[1] for item in row.inputs}


@dataclass(slots=True)
class CallShapes:
    """The shapes of a call while they are being inferred."""

    row: OperatorVersion
    sizes: Sizes
    axes: dict[Role, Axes]
    axis: int | None = None
    batch_dims: int = 0
    check_empty_axes: bool = True
    dtypes: Mapping[str, str | None] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[Role, Array] = field(default_factory=dict)

    @property
    def caller(self) -> str:
        return str(self.row)

    @property
    def data(self) -> Axes:
        return self.axes[Role.DATA]

    @property
    def indices(self) -> Axes:
        return self.axes[Role.INDICES]

    def name(self, role: Role) -> str:
        item = self.row.input(role)
        return role.value if item is None else item.name

    def copy(self) -> CallShapes:
        axes = {role: Axes(list(known.sizes), known.exact) for role, known in self.axes.items()}
        return replace(self, sizes=self.sizes.copy(), axes=axes)

    def shape(self, axes: Axes) -> Shape:
        dims = tuple(self.sizes.dim(size) for size in axes.sizes)
        return dims if axes.exact else RankAtLeast(dims) if dims else None

    def shown(self, axes: Axes) -> tuple[object, ...]:
        dims = [self.sizes.dim(size) for size in axes.sizes]
        return (*dims, *(() if axes.exact else ("...",)))

    def equate_updates(self, wanted: Sequence[Size]) -> None:
        """Require that the leading sizes of updates equal `wanted`."""
        updates = self.axes[Role.UPDATES]
        if not updates.reaches(len(wanted)):
            raise self.updates_do_not_fit(Axes(list(wanted), exact=False))
        for size, other in zip(updates.sizes, wanted, strict=False):
            if not self.sizes.equate(size, other):
                raise self.updates_do_not_fit(Axes(list(wanted)))

    def updates_do_not_fit(self, wanted: Axes) -> ShapeError:
        updates = self.shown(self.axes[Role.UPDATES])
        return messages.updates_do_not_fit(self.caller, updates, self.shown(wanted))

    def check_axis_not_empty(self, axis: int, positions: Sequence[Size]) -> None:
        """Require that `axis` is not empty, unless one of the sizes in `positions` is 0."""
        if not (self.row.index_rule.raises and self.check_empty_axes):
            return
        size = self.data.sizes[axis]
        maybe_empty = {self.sizes.find(x) for x in positions if not self.sizes.bounds(x)[0]}
        if not maybe_empty and not self.sizes.bound(size, 1):
            raise IndexOutOfBoundsError(
                f"{self.caller}: indices {shown(self.shown(self.indices))} address axis {axis} "
                f"of data {shown(self.shown(self.data))}, which is empty (allowed: no indices)",
                axis=axis,
            )
        if len(maybe_empty) == 1 and self.sizes.value(size) == 0:
            self.sizes.equate(maybe_empty.pop(), 0)


def _infer_ranks(call: CallShapes) -> None:
    row, caller, axes = call.row, call.caller, call.axes
    for item in row.inputs:
        rank = axes[item.role].rank if item.role in axes else 0
        if rank > LARGEST_RANK:
            raise messages.too_many_axes(caller, item.name, rank, LARGEST_RANK)
    for item in row.inputs:
        if item.role in axes and not axes[item.role].reaches(item.lowest_rank):
            shape = call.shown(axes[item.role])
            raise messages.rank_too_low(caller, item.name, shape, item.lowest_rank)
    axis = axes.get(Role.AXIS)
    if axis is not None and (axis.rank > 1 or not all(call.sizes.equate(x, 1) for x in axis.sizes)):
        raise ShapeError(
            f"{caller}: axis.shape = {shown(call.shown(axis))} is not a single value "
            "(allowed: () or (1,))"
        )
    if row.definition is not None:
        return
    if row.kind is Kind.SCATTER_ND:
        call.equate_updates(call.indices.sizes[:-1])
    if not row.kind.elements:
        return
    data, indices, updates = call.data, call.indices, axes.get(Role.UPDATES)
    if not data.is_as_long_as(indices):
        raise messages.ranks_differ(caller, call.shown(data), call.shown(indices))
    if updates is not None:
        if not (updates.is_as_long_as(indices) and data.is_as_long_as(indices)):
            raise call.updates_do_not_fit(indices)
        call.equate_updates(indices.sizes)


def _infer_axis(call: CallShapes, axis: int) -> None:
    """Check `axis`, and normalize it if the rank of data is known."""
    call.axis = counted_from_the_front(call, "axis", axis)
    if call.row.kind is not Kind.GATHER:
        for role in {Role.INDICES, Role.UPDATES} & set(call.axes):
            call.axes[role].reaches(axis + 1 if axis >= 0 else -axis)


def counted_from_the_front(call: CallShapes, name: str, axis: int) -> int:
    """Check an axis of data, and normalize it if the rank of data is known."""
    data = call.data
    declared = data.rank
    if not data.reaches(axis + 1 if axis >= 0 else -axis):
        shape = shown(call.shown(Axes(data.sizes[:declared], data.exact)))
        what = f"{call.name(Role.DATA)} of shape {shape}"
        raise messages.option_out_of_range(call.caller, name, axis, -data.rank, data.rank - 1, what)
    return axis % data.rank if data.exact else axis


def _infer_batch_dims(call: CallShapes, batch_dims: int) -> None:
    """Check and normalize `batch_dims`, and require equal batch axes in data and indices."""
    attribute = call.row.attribute("batch_dims")
    if attribute is None:
        return
    both = [*zip((call.data, call.indices), _AFTER_BATCH[attribute.range], strict=True)]
    highest = min((axes.rank if axes.exact else LARGEST_RANK) - after for axes, after in both)
    lowest = -highest if attribute.range is AttributeRange.BATCH_UP_TO_AXIS else 0
    if not lowest <= batch_dims <= highest:
        data, indices = shown(call.shown(call.data)), shown(call.shown(call.indices))
        shapes = f"data {data} and indices {indices}"
        raise messages.option_out_of_range(
            call.caller, "batch_dims", batch_dims, lowest, highest, shapes
        )
    if batch_dims < 0 and call.indices.exact:
        batch_dims += call.indices.rank
    call.batch_dims = batch_dims
    if call.row.kind is Kind.GATHER and call.axis is not None and call.axis >= 0:
        _check_axis_after_batch(call, call.axis)
    for axes, after in both:
        axes.reaches(batch_dims + after)
    for axis in range(batch_dims):
        if not call.sizes.equate(call.data.sizes[axis], call.indices.sizes[axis]):
            raise messages.batch_sizes_differ(
                call.caller, axis, call.shown(call.data), call.shown(call.indices)
            )


def _check_axis_after_batch(call: CallShapes, axis: int) -> None:
    if axis < call.batch_dims:
        raise AttributeValueError(
            f"{call.caller}: axis = {axis} is one of the {call.batch_dims} batch axes (allowed: "
            f"{call.batch_dims} or more, counted from the front)"
        )


def _infer_shape(call: CallShapes) -> tuple[CallShapes, Shape, int | None]:
    """Return the inferred call, its result shape, and the length of its index tuples."""
    by_tuple = call.row.kind.tuples
    if call.batch_dims < 0:  # counts from the end of indices, whose rank is unknown
        return call, None, None
    choices: Iterable[int] | None = None  # None means unlimited
    if by_tuple:
        choices = _depths(call)
    elif call.axis is not None:
        choices = (call.axis,) if call.axis >= 0 else None
    elif call.data.exact:
        choices = range(call.data.rank)
    if choices is None:
        return call, call.shape(_known_of_result(call)), None
    fits: list[tuple[CallShapes, Axes, int]] = []
    errors: list[NdgatherError] = []
    for choice in choices:
        trial = call.copy()
        try:
            fits.append((trial, _applied(trial, choice), choice))
        except NdgatherError as error:
            errors.append(error)
    if not fits:
        raise errors[0]
    if len(fits) > 1:
        return call, _in_common([trial.shape(out) for trial, out, _ in fits]), None
    trial, out, choice = fits[0]
    return trial, trial.shape(out), choice if by_tuple else None


def _depths(call: CallShapes) -> Iterable[int] | None:
    """Return the possible lengths of an index tuple, or None if they are unlimited."""
    data, indices, lowest = call.data, call.indices, call.row.lowest_depth
    depth = call.sizes.value(indices.sizes[-1]) if indices.exact else None
    if depth is None:
        return range(lowest, data.rank - call.batch_dims + 1) if data.exact else None
    most = (data.rank if data.exact else LARGEST_RANK) - call.batch_dims
    shapes = call.shown(data), call.shown(indices)
    if depth > most:
        raise messages.index_too_deep(call.caller, *shapes, call.batch_dims, "", lowest, most)
    if depth < lowest:
        allowed = f"{lowest}..{most}" if data.exact else f"{lowest} or more"
        raise ShapeError(
            f"{call.caller}: indices.shape[-1] = {depth} is too short for an index tuple; data "
            f"{shown(shapes[0])}, indices {shown(shapes[1])} (allowed: {allowed})"
        )
    return (depth,)


def _applied(call: CallShapes, choice: int) -> Axes:
    """Apply the rule of the operator's kind until nothing changes; return the result axes."""
    rule = _RULES[call.row.kind]
    while True:
        steps = call.sizes.steps
        out = rule(call, choice)
        if call.sizes.steps == steps:
            return out


def _in_common(shapes: Sequence[Shape]) -> Shape:
    """Return the most specific shape that describes all of `shapes`."""
    firsts = [*map(first_sizes, shapes)]
    dims = tuple(
        column[0] if len(set(column)) == 1 else None for column in zip(*firsts, strict=False)
    )
    exact = all(isinstance(shape, tuple) for shape in shapes)
    if exact and len({len(first) for first in firsts}) == 1:
        return dims
    return RankAtLeast(dims) if dims else None


def _gather_nd(call: CallShapes, depth: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    data.reaches(batch_dims + depth)
    lead = indices.sizes[:-1]
    if indices.exact:
        call.sizes.equate(indices.sizes[-1], depth)
        for axis in range(batch_dims, batch_dims + depth):
            call.check_axis_not_empty(axis, lead)
    lead = _fused(call, lead)
    if not indices.exact:
        return _followed_by_unknown(lead, data.rank - batch_dims - depth)
    return Axes([*lead, *data.sizes[batch_dims + depth :]], data.exact)


def _followed_by_unknown(sizes: Sequence[Size], count: int) -> Axes:
    """Return axes with the given sizes, followed by at least `count` unknown axes."""
    return Axes([*sizes, *(Unknown() for _ in range(count))], exact=False)


def _fused(call: CallShapes, lead: list[Size]) -> list[Size]:
    """Return the leading axes of the result, in which some operators fuse the batch axes."""
    count, sizes = call.batch_dims, call.sizes
    if call.row.batch_rule is not BatchRule.FUSED or count < 2:
        return lead
    values = [sizes.value(size) for size in lead[:count]]
    known = math.prod(value for value in values if value is not None)
    left = [size for size, value in zip(lead, values, strict=False) if value is None]
    product: Size = known
    if known and left:
        product = left[0] if known == 1 and len(left) == 1 else Unknown()
    return [product, *lead[count:]]


def _gather_elements(call: CallShapes, axis: int) -> Axes:
    data, indices, sizes = call.data, call.indices, call.sizes
    rule = call.row.off_axis_rule
    for position, (have, take) in enumerate(zip(data.sizes, indices.sizes, strict=True)):
        if position == axis and rule is not OffAxisRule.AT_MOST_EVERYWHERE:
            continue
        if rule is OffAxisRule.EQUAL:
            if not sizes.equate(have, take):
                shapes = call.shown(indices), call.shown(data)
                raise ShapeError(
                    f"{call.caller}: indices.shape[{position}] = {shapes[0][position]} differs "
                    f"from data.shape[{position}] = {shapes[1][position]}: indices "
                    f"{shown(shapes[0])} and data {shown(shapes[1])} may differ "
                    f"only on axis {axis} (allowed: {shapes[1][position]})"
                )
            continue
        most, least = sizes.bounds(have)[1], sizes.bounds(take)[0]
        if not (sizes.bound(have, least) and sizes.bound(take, 0, most)):
            raise messages.longer_off_axis(
                call.caller, position, axis, call.shown(data), call.shown(indices)
            )
    if indices.exact:
        call.check_axis_not_empty(axis, indices.sizes)
    return indices


def _gather(call: CallShapes, axis: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    _check_axis_after_batch(call, axis)
    if indices.exact:
        call.check_axis_not_empty(axis, indices.sizes)
    lead = [*data.sizes[:axis], *indices.sizes[batch_dims:]]
    if not indices.exact:
        return _followed_by_unknown(lead, data.rank - axis - 1)
    return Axes([*lead, *data.sizes[axis + 1 :]], data.exact)


def _scatter_nd(call: CallShapes, depth: int) -> Axes:
    data, indices, updates = call.data, call.indices, call.axes[Role.UPDATES]
    data.reaches(depth)
    loose = call.row.one_element_updates  # an update of a single element may have any rank
    fits = True
    if updates.exact and data.exact and not (indices.exact or (loose and depth == data.rank)):
        fits = indices.is_of(updates.rank - (data.rank - depth) + 1)
    if updates.exact and indices.exact and not (data.exact or (loose and indices.rank == 1)):
        fits = data.is_of(updates.rank - (indices.rank - 1) + depth)
    if not fits or (indices.exact and not call.sizes.equate(indices.sizes[-1], depth)):
        raise call.updates_do_not_fit(Axes(indices.sizes[:-1], exact=False))
    if not indices.exact:
        return data
    wanted = Axes([*indices.sizes[:-1], *data.sizes[depth:]], data.exact)
    single = loose and wanted.exact and wanted.rank == 0
    if single:
        fits = all(call.sizes.equate(size, 1) for size in updates.sizes)
    else:
        fits = updates.is_of(wanted.rank) if wanted.exact else updates.reaches(wanted.rank)
    if not fits:
        raise call.updates_do_not_fit(wanted)
    if not single:
        call.equate_updates(wanted.sizes)
    for axis in range(depth):
        call.check_axis_not_empty(axis, indices.sizes[:-1])
    return data


def _scatter_elements(call: CallShapes, axis: int) -> Axes:
    _gather_elements(call, axis)
    return call.data


_RULES = {
    Kind.GATHER_ND: _gather_nd,
    Kind.GATHER_ELEMENTS: _gather_elements,
    Kind.GATHER: _gather,
    Kind.SCATTER_ND: _scatter_nd,
    Kind.SCATTER_ELEMENTS: _scatter_elements,
}


def _known_of_result(call: CallShapes) -> Axes:
    """Return the axes of the result that do not depend on the unknown depth or axis."""
    data, indices = call.data, call.indices
    if call.row.kind.scatters:
        return data
    if call.row.kind is Kind.GATHER_ELEMENTS:
        return indices
    if call.row.kind is Kind.GATHER_ND:
        return Axes(_fused(call, indices.sizes[:-1]), exact=False)
    lead = data.sizes[: max(call.batch_dims, data.rank + call.axis if call.axis else 0)]
    rank = data.rank - 1 + indices.rank - call.batch_dims
    return _followed_by_unknown(lead, rank - len(lead))


def check_known_indices(row: OperatorVersion, inference: Inference, indices: Array) -> None:
    """Raise an error if an index of an inferred call is out of bounds."""
    data = inference.inputs[0]
    if row.index_rule.raises and inference.axis is not None and data.shape is not None:
        check_indices(row, data.first, indices, inference.axis)


def check_indices(row: OperatorVersion, data: Sequence[Dim], indices: Array, axis: int) -> None:
    """Raise an error for the first out-of-bounds index.

    `data` contains sizes of the leading axes of data. If a size is unknown, any index is allowed.
    `axis` is the indexed axis or, for index tuples, the first indexed axis.
    """
    by_tuple = row.kind.tuples
    columns = indices if by_tuple else indices[..., None]
    sizes = [size for size in data[axis : axis + columns.shape[-1]] if isinstance(size, int)]
    least = min(sizes, default=0)
    if not sizes or not indices.size:
        return
    if indices.min() >= (-least if row.index_rule.negative else 0) and indices.max() < least:
        return
    outside = np.zeros(columns.shape, bool)
    for column, size in enumerate(data[axis : axis + columns.shape[-1]]):
        if isinstance(size, int):
            lowest = -size if row.index_rule.negative else 0
            values = columns[..., column]
            outside[..., column] = (values < lowest) | (values >= size)
    if not outside.any():
        return
    position = tuple(int(at) for at in np.unravel_index(np.argmax(outside), outside.shape))
    axis += position[-1]
    position = position if by_tuple else position[:-1]
    known: Any = data[axis]
    raise messages.index_out_of_bounds(
        str(row),
        position=position,
        value=int(indices[position]),
        axis=axis,
        size=known,
        lowest=-known if row.index_rule.negative else 0,
        count=int(np.count_nonzero(outside)),
        total=indices.size,
    )
