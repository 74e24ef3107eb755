"""Where a node and its counterpart may differ, by what is known of values before a run.

An operator that is translated keeps its meaning, but the two texts may say different things of an
index out of bounds, of sizes off the axis, or of two updates for one element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndgather.errors import IndexOutOfBoundsError
from ndgather.published.index_check import refuse_outside
from ndgather.published.schema import (
    Duplicates,
    Kind,
    OffAxisRule,
    OperatorVersion,
    Outside,
    Reduction,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ndgather.models.graph import Array
    from ndgather.published.tensor_types import Shape, TensorType

_TUPLES = frozenset({Kind.GATHER_ND, Kind.SCATTER_ND})
_OUTCOMES = {
    Outside.RAISE: "is an error",
    Outside.ZEROS: "gives zeros",
    Outside.UNDEFINED: "is undefined",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the attributes of a node say, in no version's words. An axis of None is an input."""

    axis: int | None
    batch_dims: int
    reduction: Reduction
    use_init_val: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A rule, what the source says of it, and what the target says.

    `loses` is whether the source gives a result that the target does not.
    """

    rule: str
    source: str
    target: str
    loses: bool = False


def meaning_of(
    row: OperatorVersion, given: Mapping[str, int | str | bool], axis: Array | None
) -> Meaning:
    """Return what attributes in the words of `row` say; `axis` is a constant that it reads."""

    def value(name: str, silent: int | str | bool) -> int | str | bool:
        attribute = row.attribute(name)
        default = silent if attribute is None or attribute.default is None else attribute.default
        return given.get(name, default)

    along = None if axis is None else int(axis.item())
    if row.attribute("axis") is not None:
        along = int(value("axis", 0))
    reduction, word = row.attribute("reduction"), value("reduction", "none")
    choices = () if reduction is None else reduction.choices
    return Meaning(
        axis=along,
        batch_dims=int(value("batch_dims", 0)),
        reduction=next((each.reduction for each in choices if each.word == word), Reduction.NONE),
        use_init_val=bool(value("use_init_val", True)),
    )


def differences(
    source: OperatorVersion,
    target: OperatorVersion,
    meaning: Meaning,
    types: Mapping[Role, TensorType],
    constants: Mapping[Role, Array],
) -> Iterator[Difference]:
    """Yield where a node of one version and its counterpart of another may differ.

    Parameters
    ----------
    source, target : OperatorVersion
        What the node was, and what it is to become.
    meaning : Meaning
        What its attributes say.
    types, constants : mapping
        What is known of the values that the counterpart reads, by their roles.
    """
    data_shape, constant = types[Role.DATA].shape, constants.get(Role.INDICES)
    if not _known_inside(source, meaning, data_shape, constant):
        before, after = source.index_rule, target.index_rule
        if before.outside is not after.outside and before.outside is not Outside.UNDEFINED:
            outcomes = (_OUTCOMES[before.outside], _OUTCOMES[after.outside])
            yield Difference(
                rule="index range",
                source=f"an index out of range {outcomes[0]}",
                target=f"it {outcomes[1]}",
            )
        if before.negative and not after.negative and (constant is None or (constant < 0).any()):
            yield Difference(
                rule="index range",
                source="a negative index counts from the end",
                target="it is out of range",
                loses=True,
            )
        if after.negative and not before.negative and before.outside is Outside.RAISE:
            yield Difference(
                rule="index range",
                source="a negative index is an error",
                target="it counts from the end",
            )
    indices = types[Role.INDICES].shape
    depth = indices[-1] if isinstance(indices, tuple) and indices else None
    shorter = source.lowest_depth < target.lowest_depth and source.kind is target.kind
    if source.kind in _TUPLES and shorter and not isinstance(depth, int):
        yield Difference(
            rule="depth",
            source="a tuple of no index copies its batch",
            target="it is an error",
            loses=True,
        )
    smaller = source.off_axis_rule in {OffAxisRule.AT_MOST, OffAxisRule.AT_MOST_EVERYWHERE}
    equal = target.off_axis_rule is OffAxisRule.EQUAL
    if smaller and equal and not _equal_off_axis(data_shape, indices, meaning.axis):
        yield Difference(
            rule="off-axis sizes",
            source="indices may be smaller than data off the axis",
            target="that is an error",
        )
    if _forbids_duplicates(target, meaning) and not _forbids_duplicates(source, meaning):
        yield Difference(
            rule="duplicates",
            source="an element may be named twice",
            target="that is forbidden or undefined",
        )


def _known_inside(
    source: OperatorVersion, meaning: Meaning, data: Shape, indices: Array | None
) -> bool:
    """Return whether all indices and sizes are known, and in the range of the source."""
    if indices is None or not isinstance(data, tuple) or not data:
        return False
    by_tuple = source.kind in _TUPLES
    if by_tuple:
        axis, count = meaning.batch_dims, indices.shape[-1]
    elif meaning.axis is None:
        return False
    else:
        axis, count = meaning.axis % len(data), 1
    if not all(isinstance(size, int) for size in data[axis : axis + count]):
        return False
    try:
        refuse_outside(source, data, indices, axis)
    except IndexOutOfBoundsError:
        return False
    return True


def _equal_off_axis(data: object, indices: object, axis: int | None) -> bool:
    if not (isinstance(data, tuple) and isinstance(indices, tuple)) or axis is None:
        return False
    return all(
        first == second and first is not None
        for position, (first, second) in enumerate(zip(data, indices, strict=True))
        if position != axis % len(data)
    )


def _forbids_duplicates(row: OperatorVersion, meaning: Meaning) -> bool:
    reduces = meaning.reduction is not Reduction.NONE
    return row.duplicates in {Duplicates.FORBIDDEN, Duplicates.UNDEFINED} or (
        row.duplicates is Duplicates.FORBIDDEN_WITHOUT_REDUCTION and not reduces
    )
