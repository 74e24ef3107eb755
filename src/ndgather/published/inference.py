"""Shape and type rules of every kind of operator, where sizes may be names or unknown.

`infer` refuses what a run would refuse for every value, and says what follows from the rest.
Sizes are found by making them equal. Where the length of a tuple or an axis is not known, each
possible one is tried: those that are refused are dropped, a single one that is left is a fact,
and of several the result has what they have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.errors import DTypeError, NdgatherError, shape_errors
from ndgather.published import shapes
from ndgather.published.schema import (
    Equality,
    Inference,
    Kind,
    OperatorVersion,
    RankAtLeast,
    Role,
    Shape,
    TensorType,
)
from ndgather.published.shapes import (
    LARGEST_RANK,
    RULES,
    Axes,
    CallShapes,
    Sizes,
    Unknown,
    known_of_result,
    refuse_outside,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


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
    call = CallShapes(
        row=row,
        sizes=Sizes(),
        axes={
            each.role: Axes.of(given.shape) for each, given in zip(row.inputs, types, strict=True)
        },
        check_empty_axes=check_empty_axes,
    )
    for role, value in values.items():
        shapes.settle_value(call, role, value)
    shapes.settle_ranks(call)
    if "axis" in attributes:
        shapes.settle_axis(call, int(attributes["axis"]))
    elif Role.AXIS in values:
        shapes.settle_axis(call, int(values[Role.AXIS].item()))
    shapes.settle_batch_dims(call, int(attributes.get("batch_dims", 0)))
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
            raise DTypeError(
                f"{row!s}: {each.name}.dtype = {given.dtype} is not taken (allowed: "
                f"{', '.join(each.types)})"
            )
        other, dtype = found.setdefault(each.type_variable, (each.name, given.dtype))
        if dtype != given.dtype:
            raise DTypeError(
                f"{row!s}: {each.name}.dtype = {given.dtype} differs from {other}.dtype = {dtype} "
                f"(allowed: {dtype})"
            )
    return {each.type_variable: found.get(each.type_variable, ("", None))[1] for each in row.inputs}


def _refuse_known_outside(call: CallShapes, values: Mapping[Role, NDArray[Any]]) -> None:
    """Refuse known indices outside an axis of known size."""
    by_tuple = call.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}
    axis = call.batch_dims if by_tuple else call.axis
    if not call.row.index_rule.raises or Role.INDICES not in values or axis is None or axis < 0:
        return
    data = [call.sizes.dim(size) for size in call.data.sizes]
    refuse_outside(call.row, data, values[Role.INDICES], axis)


def _settle(call: CallShapes) -> tuple[CallShapes, Shape, int | None]:
    """Return the call with what was found, the shape of the result, and the length of a tuple."""
    by_depth = call.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}
    if call.batch_dims < 0:  # counted from the rank of indices, which is not known
        return call, None, None
    choices = _depths(call) if by_depth else _axes_to_try(call)
    if choices is None:
        return call, call.shape(known_of_result(call)), None
    fits: list[tuple[CallShapes, Axes, int]] = []
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


def _depths(call: CallShapes) -> Iterable[int] | None:
    """Return the lengths that an index tuple may have, or None where there is no limit."""
    data, indices, lowest = call.data, call.indices, call.row.lowest_depth
    depth = call.sizes.value(indices.sizes[-1]) if indices.exact else None
    if depth is None:
        return range(lowest, data.rank - call.batch_dims + 1) if data.exact else None
    most = (data.rank if data.exact else LARGEST_RANK) - call.batch_dims
    shapes = call.shown(data), call.shown(indices)
    if depth > most:
        raise shape_errors.index_too_deep(call.caller, *shapes, call.batch_dims, lowest, most)
    if depth < lowest:
        raise shape_errors.depth_too_low(call.caller, *shapes, lowest, most if data.exact else None)
    return (depth,)


def _axes_to_try(call: CallShapes) -> Iterable[int] | None:
    if call.axis is None:
        return range(call.data.rank) if call.data.exact else None
    return (call.axis,) if call.axis >= 0 else None


def _applied(call: CallShapes, choice: int) -> Axes:
    """Apply the rules of the kind until nothing more follows; return the axes of the result."""
    rule = RULES[call.row.kind]
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
