"""What can be true of a call, as far as a model says it; see `runtime_notes` for what follows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import IndexOutOfBoundsError, NdgatherError
from ndgather.published.rows import microsoft
from ndgather.published.schema import (
    COMPLEX,
    BatchRule,
    Duplicates,
    Kind,
    OperatorVersion,
    Role,
)
from ndgather.published.symbolic_dims import LARGEST_RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ndgather.published.tensor_types import Dim, TensorType

Array = NDArray[Any]

_INT32 = np.iinfo(np.int32)


class Condition(StrEnum):
    """What can be true of a call. The values are the names of rules in findings."""

    INDEX_OUTSIDE = "index range"
    NEGATIVE_INDEX = "negative index"
    INDEX_BEYOND_32_BITS = "index width"
    WIDE_INTEGERS = "64-bit integers"
    WIDE_FLOATS = "64-bit floats"
    COMPLEX_DATA = "complex data"
    STRINGS = "string data"
    BATCH_SIZES_DIFFER = "batch sizes"
    BATCH_SIZES_UNPROVED = "batch sizes unproved"
    BATCH_DIMS = "batch dims"
    DEPTH_ZERO = "empty tuples"
    DEPTH_UNKNOWN = "tuple length"
    CONTRIBUTED_DEPTH_UNKNOWN = "contributed tuple length"
    CONTRIBUTED = "contributed operator"
    SMALLER_OFF_AXIS = "off-axis sizes"
    DUPLICATES = "duplicates"
    REDUCTION = "reduction"
    HALF_REDUCTION = "reduction of halves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a call, and the refusal if no such call can run.

    `declared` are the types as the model says them, `inferred` what follows; the same where
    the call is refused. `fits_32_bits` is whether no value of data can need more than that.
    """

    row: OperatorVersion
    declared: Mapping[Role, TensorType]
    inferred: Mapping[Role, TensorType]
    attributes: Mapping[str, int | str | bool]
    indices: Array | None = None
    refusal: NdgatherError | None = None
    fits_32_bits: bool = False

    @classmethod
    def of(cls, row: OperatorVersion, *, attributes: Mapping[str, Any], **known: Any) -> Self:
        """Return the facts with the defaults of the row in place of attributes left out."""
        defaults = {each.name: each.default for each in row.attributes if each.default is not None}
        return cls(row=row, attributes={**defaults, **attributes}, **known)

    @property
    def dtype(self) -> str | None:
        return self.inferred[Role.DATA].dtype

    @property
    def batch_dims(self) -> int:
        """The attribute, where it is a number of axes that an array can have."""
        batch_dims = self.attributes.get("batch_dims", 0)
        return batch_dims if isinstance(batch_dims, int) and batch_dims <= LARGEST_RANK else 0

    @property
    def reduction(self) -> str:
        return str(self.attributes.get("reduction", "none"))

    @property
    def by_tuple(self) -> bool:
        return self.row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}

    @property
    def depth(self) -> Dim:
        """The length of an index tuple, where it is known."""
        dims = _dims(self.inferred[Role.INDICES])
        return dims[-1] if dims else None

    def axis(self) -> int | None:
        """Return the axis that is indexed, counted from the front, where its rank is known."""
        dims = _dims(self.inferred[Role.DATA])
        if "axis" not in self.attributes and Role.AXIS in self.inferred:  # an input, not known
            return None
        axis = int(self.attributes.get("axis", 0))
        return axis if axis >= 0 else axis + len(dims) if dims else None


def _dims(known: TensorType) -> tuple[Dim, ...] | None:
    return known.shape if isinstance(known.shape, tuple) else None


def _index_outside(facts: Facts) -> str | None:
    outside = isinstance(facts.refusal, IndexOutOfBoundsError)
    return "an index is outside its axis" if outside else None


def _negative_index(facts: Facts) -> str | None:
    if facts.indices is None or not facts.row.index_rule.negative:
        return None
    return _first_entry(facts.indices, facts.indices < 0, "counts from the end")


def _first_entry(indices: Array, meets: NDArray[np.bool_], what: str) -> str | None:
    if not meets.any():
        return None
    position = np.unravel_index(int(np.argmax(meets)), meets.shape)
    return f"indices[{', '.join(map(str, position))}] = {indices[position]} {what}"


def _index_beyond_32_bits(facts: Facts) -> str | None:
    if facts.indices is not None:
        beyond = (facts.indices > _INT32.max) | (facts.indices < _INT32.min)
        return _first_entry(facts.indices, beyond, "needs more than 32 bits")
    dims, depth = _dims(facts.inferred[Role.DATA]), facts.depth
    if dims is None:
        return None
    axes = range(facts.batch_dims, facts.batch_dims + depth if isinstance(depth, int) else 0)
    if not facts.by_tuple:
        axis = facts.axis()
        axes = range(0) if axis is None else range(axis, axis + 1)
    for axis in axes:
        size = dims[axis]
        if isinstance(size, int) and size > _INT32.max + 1:
            return f"axis {axis} of data has size {size}"
    return None


def _has_dtype(*dtypes: str) -> Callable[[Facts], str | None]:
    return lambda facts: f"data is {facts.dtype}" if facts.dtype in dtypes else None


def _wide_integers(facts: Facts) -> str | None:
    return None if facts.fits_32_bits else _has_dtype("int64", "uint64")(facts)


def _batch_pairs(facts: Facts) -> Iterator[tuple[int, Dim, Dim]]:
    data, indices = (_dims(facts.declared[role]) for role in (Role.DATA, Role.INDICES))
    for axis in range(facts.batch_dims):
        yield axis, data[axis] if data else None, indices[axis] if indices else None


def _batch_sizes_differ(facts: Facts) -> str | None:
    if facts.row.batch_rule is BatchRule.NONE or not _batch_axes_exist(facts):
        return None
    for axis, have, take in _batch_pairs(facts):
        if isinstance(have, int) and isinstance(take, int) and have != take:
            return f"data has {have} and indices have {take} on batch axis {axis}"
    return None


def _batch_axes_exist(facts: Facts) -> bool:
    both = (_dims(facts.declared[role]) for role in (Role.DATA, Role.INDICES))
    return all(dims is None or len(dims) > facts.batch_dims for dims in both)


def _batch_sizes_unproved(facts: Facts) -> str | None:
    for axis, have, take in _batch_pairs(facts):
        if have is None or have != take:
            sizes = " and ".join("?" if size is None else str(size) for size in (have, take))
            return f"sizes {sizes} of batch axis {axis} are not known to be equal"
    return None


def _batch_dims(facts: Facts) -> str | None:
    return f"batch_dims is {facts.batch_dims}" if facts.batch_dims else None


def _depth_zero(facts: Facts) -> str | None:
    none = facts.depth == 0 and facts.row.lowest_depth > 0
    return "the index tuples have length 0" if none else None


def _depth_unknown(facts: Facts) -> str | None:
    if isinstance(facts.depth, int):
        return None
    return "the length of the index tuples is not known"


def _contributed_depth_unknown(facts: Facts) -> str | None:
    return _depth_unknown(facts) if _contributed(facts) else None


def _contributed(facts: Facts) -> str | None:
    domain = facts.row.domain
    return f"the operator is of {domain}" if domain == microsoft.DOMAIN else None


def _smaller_off_axis(facts: Facts) -> str | None:
    data, indices = (_dims(facts.inferred[role]) for role in (Role.DATA, Role.INDICES))
    for axis, (have, take) in enumerate(zip(data or (), indices or (), strict=False)):
        if axis != facts.axis() and isinstance(have, int) and isinstance(take, int) and take < have:
            return f"indices.shape[{axis}] = {take} is less than data.shape[{axis}] = {have}"
    return None


def _duplicates(facts: Facts) -> str | None:
    """Say which two updates go to one position, where no reduction says what they come to."""
    if facts.row.duplicates is Duplicates.NOT_APPLICABLE or facts.reduction != "none":
        return None
    data = _dims(facts.inferred[Role.DATA])
    if facts.indices is None or data is None:
        return None
    positions = _positions(facts, facts.indices, data)
    if positions is None:
        return None
    _, first, counts = np.unique(positions, axis=0, return_index=True, return_counts=True)
    if counts.max(initial=0) < 2:
        return None
    position = tuple(int(at) for at in positions[first[np.argmax(counts > 1)]])
    return f"the indices name position {position} of data more than once"


def _positions(facts: Facts, indices: Array, data: tuple[Dim, ...]) -> Array | None:
    """Return one row for each update: the position that it goes to, counted from the front."""
    axis = facts.axis()
    if facts.by_tuple:
        axes, positions = range(indices.shape[-1]), indices.reshape(-1, indices.shape[-1])
    elif axis is None:
        return None
    else:
        grid = [column.ravel() for column in np.indices(indices.shape)]
        grid[axis] = indices.ravel()
        axes, positions = range(axis, axis + 1), np.stack(grid, axis=-1)
    positions = positions.astype(np.int64)
    for each in axes:
        size = data[each]
        column = positions[:, each]
        if isinstance(size, int):
            positions[:, each] = np.where(column < 0, column + size, column)
        elif (column < 0).any():
            return None
    return positions


def _reduction(facts: Facts) -> str | None:
    return f"reduction is {facts.reduction!r}" if facts.reduction != "none" else None


def _half_reduction(facts: Facts) -> str | None:
    compares = facts.reduction in {"max", "min"}
    if facts.row.kind is Kind.SCATTER_ELEMENTS and facts.dtype == "float16" and compares:
        return None
    if facts.reduction == "none" or facts.dtype not in {"float16", "bfloat16"}:
        return None
    return f"reduction is {facts.reduction!r} and data is {facts.dtype}"


PREDICATES: dict[Condition, Callable[[Facts], str | None]] = {
    Condition.INDEX_OUTSIDE: _index_outside,
    Condition.NEGATIVE_INDEX: _negative_index,
    Condition.INDEX_BEYOND_32_BITS: _index_beyond_32_bits,
    Condition.WIDE_INTEGERS: _wide_integers,
    Condition.WIDE_FLOATS: _has_dtype("float64"),
    Condition.COMPLEX_DATA: _has_dtype(*COMPLEX),
    Condition.STRINGS: _has_dtype("string"),
    Condition.BATCH_SIZES_DIFFER: _batch_sizes_differ,
    Condition.BATCH_SIZES_UNPROVED: _batch_sizes_unproved,
    Condition.BATCH_DIMS: _batch_dims,
    Condition.DEPTH_ZERO: _depth_zero,
    Condition.DEPTH_UNKNOWN: _depth_unknown,
    Condition.CONTRIBUTED_DEPTH_UNKNOWN: _contributed_depth_unknown,
    Condition.CONTRIBUTED: _contributed,
    Condition.SMALLER_OFF_AXIS: _smaller_off_axis,
    Condition.DUPLICATES: _duplicates,
    Condition.REDUCTION: _reduction,
    Condition.HALF_REDUCTION: _half_reduction,
}
