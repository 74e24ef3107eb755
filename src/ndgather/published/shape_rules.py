"""The shape rule of each kind of operator: what its inputs must fit, and the axes of its result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgather.errors import option_errors, shape_errors
from ndgather.published.call_shapes import equate_updates
from ndgather.published.schema import BatchRule, Kind, OffAxisRule, Role
from ndgather.published.symbolic_dims import Axes, Size, Sizes, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.published.call_shapes import CallShapes


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
        call.refuse_indices_of_empty_axis(axis, indices.sizes)
    return indices


def _gather(call: CallShapes, axis: int) -> Axes:
    data, indices, batch_dims = call.data, call.indices, call.batch_dims
    if axis < batch_dims:
        raise option_errors.axis_before_batch(call.caller, axis, batch_dims)
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
