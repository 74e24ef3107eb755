"""Shape and type rules of every kind of operator, where sizes may be names or unknown.

`infer` refuses what a run would refuse for every value, and says what follows from the
rest. It settles sizes by making them equal. Where a depth or an axis is not
known, it tries each one that is possible: those that are refused drop out, a single one
left is a fact, and several are joined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ndgather.errors import (
    NdgatherError,
    index_errors,
    operator_errors,
    option_errors,
    shape_errors,
)
from ndgather.published.index_check import refuse_outside
from ndgather.published.schema import (
    AttributeRange,
    BatchRule,
    Kind,
    OffAxisRule,
    OperatorVersion,
    Role,
)
from ndgather.published.symbolic_dims import LARGEST_RANK, Axes, Size, Sizes, Unknown
from ndgather.published.tensor_types import Equality, Inference, RankAtLeast, Shape, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(slots=True)
class _Call:
    """The shapes of one call of one operator while they are being settled."""

    row: OperatorVersion
    sizes: Sizes
    axes: dict[Role, Axes]
    axis: int | None = None
    batch_dims: int = 0
    check_empty_axes: bool = True
    caller: str = field(init=False)

    def __post_init__(self) -> None:
        self.caller = str(self.row)

    @property
    def data(self) -> Axes:
        return self.axes[Role.DATA]

    @property
    def indices(self) -> Axes:
        return self.axes[Role.INDICES]

    def copy(self) -> _Call:
        axes = {role: each.copy() for role, each in self.axes.items()}
        return replace(self, sizes=self.sizes.copy(), axes=axes)

    def shown(self, axes: Axes) -> tuple[object, ...]:
        dims = [self.sizes.dim(size) for size in axes.sizes]
        return (*("?" if dim is None else dim for dim in dims), *(() if axes.exact else ("...",)))

    def shape(self, axes: Axes) -> Shape:
        dims = tuple(self.sizes.dim(size) for size in axes.sizes)
        return dims if axes.exact else RankAtLeast(dims) if dims else None

    def refuse_places_on_empty_axis(self, axis: int, positions: Sequence[Size]) -> None:
        """Hold to: where there are positions, the axis that their indices address has places."""
        if not (self.row.index_rule.raises and self.check_empty_axes):
            return
        size = self.data.sizes[axis]
        open_sizes = {self.sizes.find(each) for each in positions if not self.sizes.bounds(each)[0]}
        if not open_sizes and not self.sizes.bound(size, 1):
            raise index_errors.empty_axis(
                self.caller, axis, self.shown(self.data), self.shown(self.indices)
            )
        if len(open_sizes) == 1 and self.sizes.value(size) == 0:
            self.sizes.equate(open_sizes.pop(), 0)


def infer(
    row: OperatorVersion,
    types: Sequence[TensorType],
    attributes: Mapping[str, int | str | bool],
    *,
    values: Mapping[Role, NDArray[Any]] | None = None,
    check_empty_axes: bool = True,
) -> Inference:
    """Return what follows from the types of the inputs of one call.

    Parameters
    ----------
    row : OperatorVersion
        The operator.
    types : sequence of TensorType
        One for each input of `row`.
    attributes : mapping
        A value for each attribute of `row`.
    values : mapping, optional
        The inputs whose values are known.
    check_empty_axes : bool, default True
        Refuse indices into an axis of size 0. A run leaves that to the check of the values,
        which says where they stand.

    Raises
    ------
    ShapeError, DTypeError, AttributeValueError, IndexOutOfBoundsError
        No values could make such a call run.
    """
    values = values or {}
    dtypes = _merged_dtypes(row, types)
    call = _Call(
        row=row,
        sizes=Sizes(),
        axes={
            each.role: Axes.of(given.shape) for each, given in zip(row.inputs, types, strict=True)
        },
        check_empty_axes=check_empty_axes,
    )
    for role, value in values.items():
        _settle_value(call, role, value)
    _settle_ranks(call)
    if "axis" in attributes:
        _settle_axis(call, int(attributes["axis"]))
    elif Role.AXIS in values:
        _settle_axis(call, int(values[Role.AXIS].item()))
    _settle_batch_dims(call, int(attributes.get("batch_dims", 0)))
    call, shape, depth = _settle(call)
    _refuse_known_outside(call, values)
    names = dict.fromkeys(
        size for axes in call.axes.values() for size in axes.sizes if isinstance(size, str)
    )
    equal = ((name, call.sizes.find(name)) for name in names)
    return Inference(
        outputs=tuple(TensorType(dtypes[each.type_variable], shape) for each in row.outputs),
        inputs=tuple(
            TensorType(dtypes[each.type_variable], call.shape(call.axes[each.role]))
            for each in row.inputs
        ),
        equalities=tuple(
            Equality(name=name, equals=other)
            for name, other in equal
            if not isinstance(other, Unknown) and other != name
        ),
        depth=depth,
    )


def _merged_dtypes(row: OperatorVersion, types: Sequence[TensorType]) -> dict[str, str | None]:
    """Return the type that each type variable of `row` has in `types`."""
    found: dict[str, tuple[str, str]] = {}
    for each, given in zip(row.inputs, types, strict=True):
        if given.dtype is None:
            continue
        if given.dtype not in each.types:
            raise operator_errors.input_type(str(row), each.name, given.dtype, each.types)
        other, dtype = found.setdefault(each.type_variable, (each.name, given.dtype))
        if dtype != given.dtype:
            raise operator_errors.types_differ(str(row), each.name, given.dtype, other, dtype)
    return {each.type_variable: found.get(each.type_variable, ("", None))[1] for each in row.inputs}


def _settle_value(call: _Call, role: Role, value: NDArray[Any]) -> None:
    """Give an input the shape of its known value."""
    axes = call.axes[role]
    given = call.shown(axes)
    if not axes.is_of(value.ndim) or not all(map(call.sizes.equate, axes.sizes, value.shape)):
        raise operator_errors.value_does_not_fit(call.caller, role.value, value.shape, given)


def _refuse_known_outside(call: _Call, values: Mapping[Role, NDArray[Any]]) -> None:
    """Refuse known indices outside an axis of known size."""
    by_tuple = call.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}
    axis = call.batch_dims if by_tuple else call.axis
    if not call.row.index_rule.raises or Role.INDICES not in values or axis is None or axis < 0:
        return
    data = [call.sizes.dim(size) for size in call.data.sizes]
    refuse_outside(call.row, data, values[Role.INDICES], axis)


def _settle_ranks(call: _Call) -> None:
    row, caller = call.row, call.caller
    for each in row.inputs:
        if call.axes[each.role].rank > LARGEST_RANK:
            raise shape_errors.too_many_axes(
                caller, each.name, call.axes[each.role].rank, LARGEST_RANK
            )
    for each in row.inputs:
        axes = call.axes[each.role]
        if not axes.reaches(each.lowest_rank):
            raise shape_errors.rank_too_low(caller, each.name, call.shown(axes), each.lowest_rank)
    axis = call.axes.get(Role.AXIS)
    if axis is not None:
        too_many = axis.rank > 1
        if too_many or not all(call.sizes.equate(size, 1) for size in axis.sizes):
            raise operator_errors.axis_not_single(caller, call.shown(axis))
    if row.kind is Kind.SCATTER_ND:
        _equate_updates(call, call.indices.sizes[:-1])
    if row.kind not in {Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS}:
        return
    data, indices, updates = call.data, call.indices, call.axes.get(Role.UPDATES)
    if not data.is_as_long_as(indices):
        raise shape_errors.ranks_differ(caller, call.shown(data), call.shown(indices))
    if updates is None:
        return
    if not (updates.is_as_long_as(indices) and data.is_as_long_as(indices)):
        raise shape_errors.updates_do_not_fit(caller, call.shown(updates), call.shown(indices))
    _equate_updates(call, indices.sizes)


def _equate_updates(call: _Call, wanted: Sequence[Size]) -> None:
    """Make the first sizes of updates those of `wanted`."""
    updates = call.axes[Role.UPDATES]
    if not updates.reaches(len(wanted)):
        raise shape_errors.updates_do_not_fit(
            call.caller, call.shown(updates), (*call.shown(Axes(list(wanted))), "...")
        )
    for size, other in zip(updates.sizes, wanted, strict=False):
        if not call.sizes.equate(size, other):
            raise shape_errors.updates_do_not_fit(
                call.caller, call.shown(updates), call.shown(Axes(list(wanted)))
            )


def _settle_batch_dims(call: _Call, batch_dims: int) -> None:
    """Bring `batch_dims` into its range, counted from the front, and merge the batch axes."""
    attribute = call.row.attribute("batch_dims")
    if attribute is None:
        return
    both = (call.data, call.indices)
    below = attribute.range is AttributeRange.BATCH_BELOW_RANKS
    ranks_known = (axes.rank for axes in both if axes.exact)
    highest = min(ranks_known, default=LARGEST_RANK) - below
    lowest = 0 if below else -highest
    if not lowest <= batch_dims <= highest:
        ranks = (
            f"data {shape_errors.shown(call.shown(call.data))} and indices "
            + shape_errors.shown(call.shown(call.indices))
        )
        raise option_errors.option_out_of_range(
            call.caller, "batch_dims", batch_dims, lowest, highest, ranks
        )
    if batch_dims < 0 and call.indices.exact:
        batch_dims += call.indices.rank
    call.batch_dims = batch_dims
    axis = call.axis if call.axis is not None else call.data.rank if call.data.exact else -1
    if 0 <= axis < batch_dims and call.row.kind is Kind.GATHER:
        raise option_errors.axis_before_batch(call.caller, axis, batch_dims)
    for axes in both:
        axes.reaches(batch_dims + below)
    for each in range(batch_dims):
        if not call.sizes.equate(call.data.sizes[each], call.indices.sizes[each]):
            raise shape_errors.batch_sizes_differ(
                call.caller, each, call.shown(call.data), call.shown(call.indices)
            )


def _settle_axis(call: _Call, axis: int) -> None:
    """Bring `axis` into its range, counted from the front where the rank is known."""
    if call.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}:
        return
    data = call.data
    needed = axis + 1 if axis >= 0 else -axis
    known = shape_errors.shown(call.shown(data))
    if not data.reaches(needed):
        raise option_errors.option_out_of_range(
            call.caller,
            "axis",
            axis,
            -data.rank,
            data.rank - 1,
            f"data of shape {known}",
        )
    if call.row.kind is not Kind.GATHER:
        for role in {Role.INDICES, Role.UPDATES} & set(call.axes):
            call.axes[role].reaches(needed)
    call.axis = axis % data.rank if data.exact else axis


def _settle(call: _Call) -> tuple[_Call, Shape, int | None]:
    """Return the call with what was learnt, the shape of the result, and the depth."""
    by_depth = call.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}
    if call.batch_dims < 0:  # counted from the rank of indices, which is not known
        return call, None, None
    choices = _depths(call) if by_depth else _axes_to_try(call)
    if choices is None:
        return call, call.shape(_loosely(call)), None
    fits: list[tuple[_Call, Axes, int]] = []
    refusals: list[NdgatherError] = []
    for choice in choices:
        trial = call.copy()
        try:
            fits.append((trial, _applied(trial, choice), choice))
        except NdgatherError as refusal:
            refusals.append(refusal)
    if not fits:
        raise refusals[0]
    if len(fits) > 1:
        return call, _joined([trial.shape(out) for trial, out, _ in fits]), None
    trial, out, choice = fits[0]
    return trial, trial.shape(out), choice if by_depth else None


def _depths(call: _Call) -> Iterable[int] | None:
    """Return the lengths that an index tuple may have, or None where there is no greatest."""
    data, indices, lowest = call.data, call.indices, call.row.lowest_depth
    depth = call.sizes.value(indices.sizes[-1]) if indices.exact else None
    if depth is None:
        return range(lowest, data.rank - call.batch_dims + 1) if data.exact else None
    most = (data.rank if data.exact else LARGEST_RANK) - call.batch_dims
    shapes = call.shown(data), call.shown(indices)
    if depth > most:
        raise shape_errors.index_too_deep(call.caller, *shapes, call.batch_dims, most)
    if depth < lowest:
        raise shape_errors.depth_too_low(call.caller, *shapes, lowest, most if data.exact else None)
    return (depth,)


def _axes_to_try(call: _Call) -> Iterable[int] | None:
    if call.axis is None:
        return range(call.data.rank) if call.data.exact else None
    return (call.axis,) if call.axis >= 0 else None


def _applied(call: _Call, choice: int) -> Axes:
    """Apply the rules of the kind until nothing more follows; return the axes of the result."""
    rule = _RULES[call.row.kind]
    while True:
        steps = call.sizes.steps
        out = rule(call, choice)
        if call.sizes.steps == steps:
            return out


def _joined(shapes: Sequence[Shape]) -> Shape:
    """Return what holds for each of `shapes`."""
    firsts = [
        () if each is None else each.first if isinstance(each, RankAtLeast) else each
        for each in shapes
    ]
    dims = tuple(
        column[0] if len(set(column)) == 1 else None for column in zip(*firsts, strict=False)
    )
    exact = all(isinstance(each, tuple) for each in shapes)
    if exact and len({len(each) for each in firsts}) == 1:
        return dims
    return RankAtLeast(dims) if dims else None


def _gather_nd(call: _Call, depth: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    data.reaches(batch_dims + depth)
    lead = indices.sizes[:-1]
    if indices.exact:
        call.sizes.equate(indices.sizes[-1], depth)
        for axis in range(batch_dims, batch_dims + depth):
            call.refuse_places_on_empty_axis(axis, lead)
    lead = _fused(call, lead)
    if not indices.exact:
        return _followed_by_unknown(lead, data.rank - batch_dims - depth)
    return Axes([*lead, *data.sizes[batch_dims + depth :]], data.exact)


def _followed_by_unknown(sizes: Sequence[Size], count: int) -> Axes:
    """Return axes of which the first are known, and at least `count` more follow."""
    return Axes([*sizes, *(Unknown() for _ in range(count))], exact=False)


def _fused(call: _Call, lead: list[Size]) -> list[Size]:
    """Return the first axes of the result, the batch axes as one where the row says so."""
    count = call.batch_dims
    if call.row.batch_rule is not BatchRule.FUSED or count < 2:
        return lead
    return [_product(call.sizes, lead[:count]), *lead[count:]]


def _product(sizes: Sizes, factors: Sequence[Size]) -> Size:
    values = [sizes.value(factor) for factor in factors]
    known = math.prod(value for value in values if value is not None)
    left = [factor for factor, value in zip(factors, values, strict=True) if value is None]
    if known == 0 or not left:
        return known
    return left[0] if known == 1 and len(left) == 1 else Unknown()


def _gather_elements(call: _Call, axis: int) -> Axes:
    data, indices, sizes = call.data, call.indices, call.sizes
    rule = call.row.off_axis_rule
    for each, (have, take) in enumerate(zip(data.sizes, indices.sizes, strict=True)):
        if each == axis and rule is not OffAxisRule.AT_MOST_EVERYWHERE:
            continue
        if rule is OffAxisRule.EQUAL:
            if not sizes.equate(have, take):
                raise shape_errors.off_axis_sizes_differ(
                    call.caller, each, axis, call.shown(data), call.shown(indices)
                )
            continue
        most, least = sizes.bounds(have)[1], sizes.bounds(take)[0]
        if not (sizes.bound(have, least) and sizes.bound(take, 0, most)):
            raise shape_errors.longer_off_axis(
                call.caller, each, axis, call.shown(data), call.shown(indices)
            )
    if indices.exact:
        call.refuse_places_on_empty_axis(axis, indices.sizes)
    return indices


def _gather(call: _Call, axis: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    if axis < batch_dims:
        raise option_errors.axis_before_batch(call.caller, axis, batch_dims)
    if indices.exact:
        call.refuse_places_on_empty_axis(axis, indices.sizes)
    lead = [*data.sizes[:axis], *indices.sizes[batch_dims:]]
    if not indices.exact:
        return _followed_by_unknown(lead, data.rank - axis - 1)
    return Axes([*lead, *data.sizes[axis + 1 :]], data.exact)


def _scatter_nd(call: _Call, depth: int) -> Axes:
    data, indices, updates = call.data, call.indices, call.axes[Role.UPDATES]
    data.reaches(depth)
    loose = call.row.one_element_updates  # then the rank of one element tells nothing
    fits = True
    if updates.exact and data.exact and not (indices.exact or (loose and depth == data.rank)):
        fits = indices.is_of(updates.rank - (data.rank - depth) + 1)
    if updates.exact and indices.exact and not (data.exact or (loose and indices.rank == 1)):
        fits = data.is_of(updates.rank - (indices.rank - 1) + depth)
    if not fits or (indices.exact and not call.sizes.equate(indices.sizes[-1], depth)):
        lead = call.shown(Axes(indices.sizes[:-1]))
        raise shape_errors.updates_do_not_fit(call.caller, call.shown(updates), (*lead, "..."))
    if not indices.exact:
        return data
    wanted = Axes([*indices.sizes[:-1], *data.sizes[depth:]], data.exact)
    single = loose and wanted.exact and wanted.rank == 0
    if single:
        fits = all(call.sizes.equate(size, 1) for size in updates.sizes)
    else:
        fits = updates.is_of(wanted.rank) if wanted.exact else updates.reaches(wanted.rank)
    if not fits:
        raise shape_errors.updates_do_not_fit(call.caller, call.shown(updates), call.shown(wanted))
    if not single:
        _equate_updates(call, wanted.sizes)
    for axis in range(depth):
        call.refuse_places_on_empty_axis(axis, indices.sizes[:-1])
    return data


def _scatter_elements(call: _Call, axis: int) -> Axes:
    _gather_elements(call, axis)
    return call.data


_RULES = {
    Kind.GATHER_ND: _gather_nd,
    Kind.GATHER_ELEMENTS: _gather_elements,
    Kind.GATHER: _gather,
    Kind.SCATTER_ND: _scatter_nd,
    Kind.SCATTER_ELEMENTS: _scatter_elements,
}


def _loosely(call: _Call) -> Axes:
    """Return what is known of the result where neither a depth nor an axis can be tried."""
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
