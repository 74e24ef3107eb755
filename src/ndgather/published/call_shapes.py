"""The shapes of one call while they are being found, and the rules that every kind shares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ndgather.errors import index_errors, operator_errors, option_errors, shape_errors
from ndgather.published.schema import AttributeRange, Kind, OperatorVersion, Role
from ndgather.published.symbolic_dims import LARGEST_RANK, Axes, Size, Sizes
from ndgather.published.tensor_types import RankAtLeast, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(slots=True)
class CallShapes:
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

    def copy(self) -> CallShapes:
        axes = {role: each.copy() for role, each in self.axes.items()}
        return replace(self, sizes=self.sizes.copy(), axes=axes)

    def shown(self, axes: Axes) -> tuple[object, ...]:
        dims = [self.sizes.dim(size) for size in axes.sizes]
        return (*("?" if dim is None else dim for dim in dims), *(() if axes.exact else ("...",)))

    def shape(self, axes: Axes) -> Shape:
        dims = tuple(self.sizes.dim(size) for size in axes.sizes)
        return dims if axes.exact else RankAtLeast(dims) if dims else None

    def refuse_indices_of_empty_axis(self, axis: int, positions: Sequence[Size]) -> None:
        """Hold to: where there are positions, the axis that their indices address is not empty."""
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


def settle_value(call: CallShapes, role: Role, value: NDArray[Any]) -> None:
    """Give an input the shape of its known value."""
    axes = call.axes[role]
    given = call.shown(axes)
    if not axes.is_of(value.ndim) or not all(map(call.sizes.equate, axes.sizes, value.shape)):
        raise operator_errors.value_does_not_fit(call.caller, role.value, value.shape, given)


def settle_ranks(call: CallShapes) -> None:
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
        equate_updates(call, call.indices.sizes[:-1])
    if row.kind not in {Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS}:
        return
    data, indices, updates = call.data, call.indices, call.axes.get(Role.UPDATES)
    if not data.is_as_long_as(indices):
        raise shape_errors.ranks_differ(caller, call.shown(data), call.shown(indices))
    if updates is None:
        return
    if not (updates.is_as_long_as(indices) and data.is_as_long_as(indices)):
        raise shape_errors.updates_do_not_fit(caller, call.shown(updates), call.shown(indices))
    equate_updates(call, indices.sizes)


def equate_updates(call: CallShapes, wanted: Sequence[Size]) -> None:
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


_AFTER_BATCH = {
    AttributeRange.BATCH_BELOW_RANKS: (1, 1),
    AttributeRange.BATCH_BEFORE_TUPLES: (0, 1),
    AttributeRange.BATCH_UP_TO_AXIS: (0, 0),
}


def settle_batch_dims(call: CallShapes, batch_dims: int) -> None:
    """Bring `batch_dims` into its range, counted from the front, and merge the batch axes."""
    attribute = call.row.attribute("batch_dims")
    if attribute is None:
        return
    # How many axes of data and of indices come after the batch axes, at least.
    after_data, after_indices = _AFTER_BATCH[attribute.range]
    both = ((call.data, after_data), (call.indices, after_indices))
    highest = min((axes.rank if axes.exact else LARGEST_RANK) - after for axes, after in both)
    lowest = -highest if attribute.range is AttributeRange.BATCH_UP_TO_AXIS else 0
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
    for axes, after in both:
        axes.reaches(batch_dims + after)
    for each in range(batch_dims):
        if not call.sizes.equate(call.data.sizes[each], call.indices.sizes[each]):
            raise shape_errors.batch_sizes_differ(
                call.caller, each, call.shown(call.data), call.shown(call.indices)
            )


def settle_axis(call: CallShapes, axis: int) -> None:
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
