"""What can be true of a call, as far as a model says it; see `runtime_notes` for what follows."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import (
    DTypeError,
    ExtraMissingError,
    IndexOutOfBoundsError,
    NdgatherError,
    run_errors,
)
from ndgather.models.graph import CastNode, Graph, Node, NodeTime, Output, Run, title
from ndgather.published import operator
from ndgather.published.rows import microsoft
from ndgather.published.schema import (
    COMPLEX,
    BatchRule,
    Duplicates,
    Kind,
    OperatorVersion,
    Role,
    dtype_name,
)
from ndgather.published.shapes import LARGEST_RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ndgather.published.schema import Dim, TensorType


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


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype with this name; strings are Python objects."""
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes  # noqa: PLC0415 - only some types need it
    except ModuleNotFoundError as missing:
        raise ExtraMissingError(
            f"dtype = {name} needs the package ml_dtypes, which is not installed "
            f"(install it with: pip install ml_dtypes)"
        ) from missing
    if not hasattr(ml_dtypes, name):
        raise DTypeError(
            f"dtype = {name!r} is not a type of arrays (allowed: types of NumPy and ml_dtypes)"
        )
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def converted(array: Array, name: str) -> Array:
    """Return `array` with elements of the type `name`."""
    source = dtype_name(array)
    if source == name:
        return array
    if "string" in {source, name} or array.dtype.kind in "cO":
        raise DTypeError(
            f"dtype = {source} cannot be converted to {name} (allowed: booleans, integers, floats)"
        )
    dtype = dtype_of(name)
    if name == "bool":
        return np.not_equal(array, np.zeros((), array.dtype))
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        lost = _lost(array, result)
    if lost.any():
        place = tuple(int(at) for at in np.unravel_index(np.argmax(lost), lost.shape))
        raise DTypeError(
            f"input[{', '.join(map(str, place))}] = {array[place]} cannot be held by {name} "
            f"(allowed: values of that type)"
        )
    return result


def _lost(array: Array, result: Array) -> NDArray[np.bool_]:
    """Return where `result` is not the element of `array` as its type would have it."""
    if not _integral(result.dtype):
        return np.asarray(_finite(array) & ~_finite(result))
    unsigned, bits = result.dtype.name.startswith("u"), _bits(result.dtype)
    if not _integral(array.dtype):
        # The bounds are powers of two: no floating type rounds a value across one.
        lowest, beyond = (0.0, 2.0**bits) if unsigned else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
        whole = np.trunc(array.astype(np.float64))
        return np.asarray(~((whole >= lowest) & (whole < beyond)))
    if unsigned:
        return np.zeros(array.shape, bool)
    return np.asarray((result.astype(array.dtype) != array) | ((result < 0) != (array < 0)))


def _integral(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith(("int", "uint"))


def _finite(array: Array) -> NDArray[np.bool_]:
    return np.isfinite(array.astype(np.float64))


def _bits(dtype: np.dtype[Any]) -> int:
    return int(dtype.name.lstrip("uint"))


@dataclass(slots=True, kw_only=True)
class Step:
    """A node that runs: its name and operator, the values it reads and gives, and its time."""

    name: str
    title: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    seconds: float = 0.0
    bytes: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure what is done within, and name the node in its errors."""
        start = time.perf_counter()
        try:
            yield
        except Exception as error:
            gives = next(iter(self.gives), "")
            raise run_errors.in_node(error, self.name, self.title, gives) from error
        finally:
            self.seconds += time.perf_counter() - start


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> Run:
    """Run `graph`; `inputs` are what its inputs take, by their names."""
    values = {**graph.constants, **inputs}
    steps = []
    for node in graph.nodes:
        step = Step(name=node.name, title=title(node), reads=node.inputs, gives=(node.output,))
        steps.append(step)
        with step.running():
            values[node.output] = _result(node, values)
            step.bytes = values[node.output].nbytes
    outputs = [(each.name, each.value, values[each.value]) for each in graph.outputs]
    return finished(steps, outputs, own_nodes=len(steps), other_nodes=0)


def _result(node: Node, values: Mapping[str, Array]) -> Array:
    if isinstance(node, CastNode):
        return converted(values[node.input], node.dtype)
    function = operator(node.row.name, domain=node.row.domain, version=node.row.since)
    return function(*(values[name] for name in node.inputs), **node.attributes)


def finished(
    steps: Sequence[Step],
    outputs: Sequence[tuple[str, str, Array]],
    *,
    own_nodes: int,
    other_nodes: int,
) -> Run:
    """Return the run that `steps` were; `outputs` are names, values and arrays."""
    return Run(
        outputs=tuple(
            Output(name=name, array=array, seconds=_seconds(steps, value))
            for name, value, array in outputs
        ),
        seconds=sum(step.seconds for step in steps),
        own_nodes=own_nodes,
        other_nodes=other_nodes,
        nodes=tuple(
            NodeTime(name=each.name, operator=each.title, seconds=each.seconds, bytes=each.bytes)
            for each in steps
        ),
    )


def _seconds(steps: Sequence[Step], value: str) -> float:
    """Return the time of the steps that lead to `value`."""
    wanted, total = {value}, 0.0
    for step in reversed(steps):
        if not wanted.isdisjoint(step.gives):
            total += step.seconds
            wanted.update(step.reads)
    return total


Place = tuple[int, ...]

_MOST = 8  # places that are listed


def index_places(
    row: OperatorVersion, attributes: Mapping[str, Any], inputs: Sequence[Array], place: Place
) -> list[tuple[Place, tuple[int, ...]]]:
    """Return where in `indices` the values stand that lead to ``result[place]``, and the values.

    A gather has one; a scatter has those that name the element, the first few, or none.
    """
    data, indices = inputs[0], inputs[1]
    batch = int(attributes.get("batch_dims", 0))
    batch += indices.ndim if batch < 0 else 0
    axis = _axis(row, attributes, inputs) % max(data.ndim, 1)
    if row.kind is Kind.GATHER_ND:
        at = place[: indices.ndim - 1]
        return [(at, tuple(map(int, indices[at])))]
    if row.kind is Kind.GATHER_ELEMENTS:
        return [(place, (int(indices[place]),))]
    if row.kind is Kind.GATHER:
        at = (*place[:batch], *place[axis : axis + indices.ndim - batch])
        return [(at, (int(indices[at]),))]
    if row.kind is Kind.SCATTER_ND:
        depth = indices.shape[-1]
        sizes = np.array(data.shape[:depth])
        hits = (np.where(indices < 0, indices + sizes, indices) == place[:depth]).all(axis=-1)
        found = np.argwhere(hits)[:_MOST]
        return [(at, tuple(map(int, indices[at]))) for at in (tuple(map(int, x)) for x in found)]
    wrapped = np.where(indices < 0, indices + data.shape[axis], indices)
    line = tuple(
        slice(None) if each == axis else slice(place[each], place[each] + 1)
        for each in range(data.ndim)
    )
    found = np.argwhere(wrapped[line] == place[axis])[:_MOST]
    places = [tuple(int(x[k]) if k == axis else place[k] for k in range(data.ndim)) for x in found]
    return [(at, (int(indices[at]),)) for at in places]


def _axis(row: OperatorVersion, attributes: Mapping[str, Any], inputs: Sequence[Array]) -> int:
    for each, value in zip(row.inputs, inputs, strict=False):
        if each.role is Role.AXIS:
            return int(np.reshape(value, ()))
    return int(attributes.get("axis", 0))
