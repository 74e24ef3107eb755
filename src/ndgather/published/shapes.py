"""The shapes of one call while they are being found, and the rules that every kind shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.errors import (
    AttributeValueError,
    IndexOutOfBoundsError,
    ShapeError,
    index_errors,
    option_errors,
    shape_errors,
)
from ndgather.errors.shape_errors import shown
from ndgather.published.schema import (
    AttributeRange,
    BatchRule,
    Dim,
    Kind,
    OffAxisRule,
    OperatorVersion,
    RankAtLeast,
    Role,
    Shape,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Unknown:
    """A size that is neither known nor named; equal to itself only."""

    __slots__ = ()


Size: TypeAlias = int | str | Unknown


class Sizes:
    """What is known of the sizes of a call: which are equal, and between which bounds.

    A known size stands for its names, and a name for what is unknown.
    """

    def __init__(self) -> None:
        self._found: dict[Size, Size] = {}
        self._bounds: dict[Size, tuple[int, int | None]] = {}
        self.steps = 0  # how many facts were added

    def copy(self) -> Sizes:
        copied = Sizes()
        copied._found, copied._bounds = dict(self._found), dict(self._bounds)
        copied.steps = self.steps
        return copied

    def find(self, size: Size) -> Size:
        while size in self._found:
            size = self._found[size]
        return size

    def value(self, size: Size) -> int | None:
        found = self.find(size)
        return found if isinstance(found, int) else None

    def bounds(self, size: Size) -> tuple[int, int | None]:
        """Return the bounds of `size`; None stands for no upper bound."""
        found = self.find(size)
        return (found, found) if isinstance(found, int) else self._bounds.get(found, (0, None))

    def bound(self, size: Size, least: int, most: int | None = None) -> bool:
        """Hold `size` between bounds, and return whether it can be."""
        before = self.bounds(size)
        highs = [high for high in (before[1], most) if high is not None]
        low, high = max(before[0], least), min(highs, default=None)
        if (low, high) == before:
            return True
        if high is not None and low > high:
            return False
        if low == high:
            return self.equate(size, low)
        self._bounds[self.find(size)] = (low, high)
        self.steps += 1
        return True

    def equate(self, first: Size, second: Size) -> bool:
        """Make two sizes one, and return whether they can be."""
        first, second = self.find(first), self.find(second)
        if first == second:
            return True
        if isinstance(first, int) or (isinstance(first, str) and isinstance(second, Unknown)):
            first, second = second, first
        if isinstance(first, int):
            return False
        least, most = self.bounds(first)
        self._found[first] = second
        self.steps += 1
        return self.bound(second, least, most)

    def dim(self, size: Size) -> Dim:
        """Return `size` as a shape shows it: its value, or its own name, or another's."""
        found = self.find(size)
        if isinstance(found, int):
            return found
        if isinstance(size, str):
            return size
        return found if isinstance(found, str) else None


LARGEST_RANK = 64
"""The most axes that an array can have. A model that declares more could use up the memory."""


@dataclass(slots=True)
class Axes:
    """The axes of one tensor: all of them, or (`exact` is false) the first ones."""

    sizes: list[Size]
    exact: bool = True

    @classmethod
    def of(cls, shape: Shape) -> Axes:
        dims = () if shape is None else shape.first if isinstance(shape, RankAtLeast) else shape
        exact = isinstance(shape, tuple)
        return cls([Unknown() if dim is None else dim for dim in dims], exact)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def copy(self) -> Axes:
        return Axes(list(self.sizes), self.exact)

    def reaches(self, rank: int) -> bool:
        """Return whether there are `rank` axes or more, adding unknown ones where they may be."""
        if not self.exact:
            self.sizes += [Unknown() for _ in range(min(rank, LARGEST_RANK) - self.rank)]
        return self.rank >= rank

    def is_of(self, rank: int) -> bool:
        """Return whether there are just `rank` axes, adding unknown ones where they may be."""
        fits = self.reaches(rank) and self.rank == rank
        self.exact = self.exact or fits
        return fits

    def is_as_long_as(self, other: Axes) -> bool:
        """Return whether both have the same rank, adding unknown axes where they may be."""
        rank = max(self.rank, other.rank)
        if self.exact or other.exact:
            return self.is_of(rank) and other.is_of(rank)
        return self.reaches(rank) and other.reaches(rank)


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
            raise IndexOutOfBoundsError(
                f"{self.caller}: indices {shown(self.shown(self.indices))} address axis {axis} "
                f"of data {shown(self.shown(self.data))}, which is empty (allowed: no indices)",
                axis=axis,
            )
        if len(open_sizes) == 1 and self.sizes.value(size) == 0:
            self.sizes.equate(open_sizes.pop(), 0)


def settle_value(call: CallShapes, role: Role, value: NDArray[Any]) -> None:
    """Give an input the shape of its known value."""
    axes = call.axes[role]
    given = call.shown(axes)
    if not axes.is_of(value.ndim) or not all(map(call.sizes.equate, axes.sizes, value.shape)):
        raise ShapeError(
            f"{call.caller}: the value of {role.value} has shape {shown(value.shape)}, which is "
            f"not the declared one (allowed: {shown(given)})"
        )


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
            raise ShapeError(
                f"{caller}: axis.shape = {shown(call.shown(axis))} is not a single value "
                "(allowed: () or (1,))"
            )
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
        raise AttributeValueError(
            f"{call.caller}: axis = {axis} is one of the {batch_dims} batch axes (allowed: "
            f"{batch_dims} or more, counted from the front)"
        )
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


def _gather_nd(call: CallShapes, depth: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    data.reaches(batch_dims + depth)
    lead = indices.sizes[:-1]
    if indices.exact:
        call.sizes.equate(indices.sizes[-1], depth)
        for axis in range(batch_dims, batch_dims + depth):
            call.refuse_indices_of_empty_axis(axis, lead)
    lead = _fused(call, lead)
    if not indices.exact:
        return _followed_by_unknown(lead, data.rank - batch_dims - depth)
    return Axes([*lead, *data.sizes[batch_dims + depth :]], data.exact)


def _followed_by_unknown(sizes: Sequence[Size], count: int) -> Axes:
    """Return axes of which the first are known, and at least `count` more follow."""
    return Axes([*sizes, *(Unknown() for _ in range(count))], exact=False)


def _fused(call: CallShapes, lead: list[Size]) -> list[Size]:
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


def _gather_elements(call: CallShapes, axis: int) -> Axes:
    data, indices, sizes = call.data, call.indices, call.sizes
    rule = call.row.off_axis_rule
    for each, (have, take) in enumerate(zip(data.sizes, indices.sizes, strict=True)):
        if each == axis and rule is not OffAxisRule.AT_MOST_EVERYWHERE:
            continue
        if rule is OffAxisRule.EQUAL:
            if not sizes.equate(have, take):
                raise ShapeError(
                    f"{call.caller}: indices.shape[{each}] = {call.shown(indices)[each]} differs "
                    f"from data.shape[{each}] = {call.shown(data)[each]}: indices "
                    f"{shown(call.shown(indices))} and data {shown(call.shown(data))} may differ "
                    f"only on axis {axis} (allowed: {call.shown(data)[each]})"
                )
            continue
        most, least = sizes.bounds(have)[1], sizes.bounds(take)[0]
        if not (sizes.bound(have, least) and sizes.bound(take, 0, most)):
            raise shape_errors.longer_off_axis(
                call.caller, each, axis, call.shown(data), call.shown(indices)
            )
    if indices.exact:
        call.refuse_indices_of_empty_axis(axis, indices.sizes)
    return indices


def _gather(call: CallShapes, axis: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    if axis < batch_dims:
        raise AttributeValueError(
            f"{call.caller}: axis = {axis} is one of the {batch_dims} batch axes (allowed: "
            f"{batch_dims} or more, counted from the front)"
        )
    if indices.exact:
        call.refuse_indices_of_empty_axis(axis, indices.sizes)
    lead = [*data.sizes[:axis], *indices.sizes[batch_dims:]]
    if not indices.exact:
        return _followed_by_unknown(lead, data.rank - axis - 1)
    return Axes([*lead, *data.sizes[axis + 1 :]], data.exact)


def _scatter_nd(call: CallShapes, depth: int) -> Axes:
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
        equate_updates(call, wanted.sizes)
    for axis in range(depth):
        call.refuse_indices_of_empty_axis(axis, indices.sizes[:-1])
    return data


def _scatter_elements(call: CallShapes, axis: int) -> Axes:
    _gather_elements(call, axis)
    return call.data


RULES = {
    Kind.GATHER_ND: _gather_nd,
    Kind.GATHER_ELEMENTS: _gather_elements,
    Kind.GATHER: _gather,
    Kind.SCATTER_ND: _scatter_nd,
    Kind.SCATTER_ELEMENTS: _scatter_elements,
}


def known_of_result(call: CallShapes) -> Axes:
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


def refuse_outside(
    row: OperatorVersion,
    data: Sequence[Dim],
    indices: NDArray[Any],
    axis: int,
) -> None:
    """Raise for the first entry of `indices` that `row` forbids; unknown sizes allow any.

    Parameters
    ----------
    row : OperatorVersion
        Its index rule says whether negative values count from the end.
    data : sequence
        The sizes of data, or the first of them; those that are not integers are unknown.
    indices : array of integers
        The values.
    axis : int
        The axis that they address; where they are tuples, the first one.
    """
    if indices.size == 0:
        return
    by_tuple = row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}
    sizes = data[axis : axis + (indices.shape[-1] if by_tuple else 1)]
    known = {column: size for column, size in enumerate(sizes) if isinstance(size, int)}
    columns = indices if by_tuple else indices[..., None]
    outside = np.zeros(columns.shape, bool)
    for column, size in known.items():
        values = columns[..., column]
        outside[..., column] = (values < _lowest(row, size)) | (values >= size)
    count = int(np.count_nonzero(outside))
    if not count:
        return
    *lead, column = (int(at) for at in np.unravel_index(np.argmax(outside), outside.shape))
    position = (*lead, column) if by_tuple else tuple(lead)
    raise index_errors.index_out_of_bounds(
        str(row),
        position=position,
        value=int(indices[position]),
        axis=axis + column,
        size=known[column],
        lowest=_lowest(row, known[column]),
        count=count,
        total=indices.size,
    )


def _lowest(row: OperatorVersion, size: int) -> int:
    return -size if row.index_rule.negative else 0
