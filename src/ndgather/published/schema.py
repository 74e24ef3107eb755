"""Data types that describe operators, such as `OperatorVersion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from ndgather import exchange
from ndgather.array_call import Array, Kind

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
FLOATS_8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
COMPLEX = ("complex64", "complex128")


OPERATOR_KINDS = tuple(kind for kind in Kind if not kind.windows)
"""The kinds of operators; an operator with a definition only resembles its kind."""


class Role(StrEnum):
    """The role of an input."""

    DATA = "data"
    INDICES = "indices"
    UPDATES = "updates"
    AXIS = "axis"
    START = "start"
    STOP = "stop"
    STEP = "step"
    AXES = "axes"
    SCALES = "scales"
    ZERO_POINTS = "zero_points"
    LENGTHS = "lengths"
    END = "end"


ELEMENTS = frozenset({Role.DATA, Role.UPDATES, Role.SCALES, Role.ZERO_POINTS})
"""The inputs whose values are not restricted."""


class Outside(StrEnum):
    """The effect of an out-of-bounds index. ndgather raises an error for `UNDEFINED`."""

    RAISE = "raise"
    ZEROS = "zeros"
    CLAMPED = "clamped"
    UNDEFINED = "undefined"


_EQUAL = "the first `batch_dims` sizes of `indices` and `data` must be equal"


class BatchRule(StrEnum):
    """The rule for batch axes, as quoted on the operator pages."""

    NONE = "none"
    EQUAL = f"{_EQUAL}; nothing is broadcast"
    FUSED = f"{_EQUAL}; if there are several, they become a single axis of the result"


class OffAxisRule(StrEnum):
    """The allowed sizes of indices along non-indexed axes, as quoted on the operator pages."""

    FREE = "none"
    AT_MOST = "at most those of `data`, except along `axis`; nothing is broadcast"
    AT_MOST_EVERYWHERE = "at most those of `data`, along `axis` too"
    EQUAL = "those of `data`, except along `axis`"


class Duplicates(StrEnum):
    """The rule for duplicate indices in scatters, as quoted on the operator pages."""

    NOT_APPLICABLE = "none"
    FORBIDDEN = "not allowed"
    FORBIDDEN_WITHOUT_REDUCTION = (
        "not allowed without a reduction; with one, the updates are applied in any order"
    )
    UNDEFINED = "allowed, but the result is undefined"
    ANY_ORDER = "allowed; the updates are applied in any order"
    SILENT = "not mentioned in the text"


class Reduction(StrEnum):
    """The way in which the core combines an update with the original element."""

    NONE = "none"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"


class AttributeType(StrEnum):
    """The type of an attribute's value."""

    INT = "int"
    STRING = "string"
    BOOL = "bool"


class AttributeRange(StrEnum):
    """The allowed values of an attribute, where r and q are the ranks of data and indices."""

    AXIS = "`-r..r-1`"
    BATCH_BELOW_RANKS = "`0..min(q, r)-1`"
    BATCH_UP_TO_AXIS = "`-min(q, r)..min(q, r)`, at most `axis` after normalization"
    CHOICE = "one of the choices"
    FLAG = "`True`, `False`"
    SEQUENCE_AXIS = "`-r+1..r-1` except 0"
    BLOCK = "a power of 2, at least 16; for floats also 0, which means a single block"
    BITS = "`2`, `4`, `8`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The name of a reduction in a specification, such as `prod` for `mul`."""

    word: str
    reduction: Reduction


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A named option of an operator. A required attribute has no default."""

    name: str
    type: AttributeType
    range: AttributeRange
    default: int | str | bool | None = None
    required: bool = False
    choices: tuple[Choice, ...] = ()
    words: tuple[str, ...] = ()  # the allowed strings, unless the attribute is a reduction
    summary: str = ""


def reduction_attribute(*words: str) -> Attribute:
    """Return the attribute `reduction` with the given choices and the default "none"."""
    reductions = {"sum": Reduction.ADD, "prod": Reduction.MUL}
    choices = [Choice(word=x, reduction=reductions.get(x) or Reduction(x)) for x in words]
    return Attribute(
        name="reduction",
        type=AttributeType.STRING,
        range=AttributeRange.CHOICE,
        default="none",
        choices=tuple(choices),
        summary="how an update is combined with the original element; `none` replaces it",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input tensor. Inputs with the same type variable must have the same type."""

    name: str
    role: Role
    type_variable: str
    types: tuple[str, ...]
    lowest_rank: int = 1
    optional: bool = False
    summary: str = ""


def tensor(
    name: str, role: Role, variable: str, types: tuple[str, ...], summary: str, **more: Any
) -> Input:
    more = {"lowest_rank": 0, **more}
    return Input(name=name, role=role, type_variable=variable, types=types, summary=summary, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output tensor, whose type variable also occurs in the inputs."""

    name: str
    type_variable: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRule:
    """The allowed index values along an axis of size s, and the effect of other values."""

    negative: bool  # whether the allowed range is [-s, s-1] instead of [0, s-1]
    outside: Outside

    @property
    def raises(self) -> bool:
        return self.outside is not Outside.ZEROS


@dataclass(frozen=True, slots=True)
class Erratum:
    """An error in a specification, given by its section, a quote and the correction."""

    place: str
    quote: str
    correction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The implementation of an operator that is not a single call of the core.

    `infer_shapes` checks the known sizes, attributes and values of a call and returns the axes of
    the result. `compute` returns the result for attributes and NumPy arrays that have already been
    checked. `rules` is a table for the operator's page.
    """

    infer_shapes: Callable[[Any], Any]  # CallShapes -> Axes
    compute: Callable[[OperatorVersion, Mapping[Role, Array], Mapping[str, Any]], Array]
    rules: tuple[tuple[str, str], ...]
    alike: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVersion:
    """A version of an operator, as a row of data."""

    name: str
    domain: str
    since: int  # the first opset that contains this version
    kind: Kind
    inputs: tuple[Input, ...]
    index_rule: IndexRule
    summary: str
    formula: str
    source: str
    outputs: tuple[Output, ...] = (Output(name="output", type_variable="T"),)
    attributes: tuple[Attribute, ...] = ()
    batch_rule: BatchRule = BatchRule.NONE
    off_axis_rule: OffAxisRule = OffAxisRule.FREE
    lowest_depth: int = 0  # the minimum length of index tuples
    duplicates: Duplicates = Duplicates.NOT_APPLICABLE
    one_element_updates: bool = False  # whether an update of a single element may have any rank
    definition: Definition | None = None
    notes: tuple[str, ...] = ()  # unclear points in the specification, and how they are resolved
    errata: tuple[Erratum, ...] = ()

    def __str__(self) -> str:
        return f"{self.domain} {self.name}-{self.since}"

    def version(self, since: int, **changes: Any) -> OperatorVersion:
        """Return another version of this operator, and update the version number in its URL."""
        source = self.source.replace(f"-{self.since}", f"-{since}")
        return replace(self, since=since, source=source, **changes)

    def attribute(self, name: str) -> Attribute | None:
        return next((item for item in self.attributes if item.name == name), None)

    def input(self, role: Role) -> Input | None:
        return next((item for item in self.inputs if item.role is role), None)


Dim: TypeAlias = int | str | None
"""The size of an axis: a number, a name, or None if it is unknown."""


@dataclass(frozen=True, slots=True)
class RankAtLeast:
    """A shape whose rank is unknown but whose leading sizes are known.

    Parameters
    ----------
    first : tuple of int, str or None
        The leading sizes: numbers, names, or None for an unknown size.

    Examples
    --------
    >>> import ndgather
    >>> some = ndgather.RankAtLeast(("N",))
    >>> ndgather.operator("Gather").infer_shape(some, (3,), axis=0)
    RankAtLeast(first=(3,))
    """

    first: tuple[Dim, ...]


Shape: TypeAlias = tuple[Dim, ...] | RankAtLeast | None
"""A shape: all sizes, the leading sizes, or None if nothing is known."""


def first_sizes(shape: Shape) -> tuple[Dim, ...]:
    return shape.first if isinstance(shape, RankAtLeast) else shape or ()


@dataclass(frozen=True, slots=True)
class TensorType:
    """The element type and shape of a tensor. Unknown properties are None.

    Parameters
    ----------
    dtype : str, optional
        The name of the element type in NumPy or ml_dtypes, or ``"string"``.
    shape : tuple of int, str or None; or RankAtLeast, optional
        The sizes: numbers, names, or None for an unknown size.

    Examples
    --------
    >>> import ndgather
    >>> ndgather.TensorType("float32", ("N", 3, None))
    TensorType(dtype='float32', shape=('N', 3, None))
    """

    dtype: str | None = None
    shape: Shape = None

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The sizes of all axes, or None if the rank is unknown."""
        return self.shape if isinstance(self.shape, tuple) else None

    @property
    def first(self) -> tuple[Dim, ...]:
        """The sizes of the leading axes that are known to exist."""
        return first_sizes(self.shape)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The sizes of all axes, or None if a size or the rank is unknown."""
        sizes = tuple(size for size in self.first if isinstance(size, int))
        return None if self.dims is None or len(sizes) < len(self.dims) else sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """A named size, and the number or the other name that it must equal."""

    name: str
    equals: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """The result of inferring the types and shapes of a call."""

    outputs: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]  # the input types, including inferred sizes and ranks
    equalities: tuple[Equality, ...]
    depth: int | None
    axis: int | None  # the first axis of data that is indexed, as a non-negative number


def dtype_name(array: Array) -> str:
    """Return the name of an array's element type, as used in the rows."""
    kind = array.dtype.kind
    if kind in "UST" or (
        kind == "O" and all(isinstance(item, (str, bytes)) for item in array.flat)
    ):
        return "string"
    return array.dtype.name


def type_of(array: Any) -> TensorType:
    """Return the type of an array or a table from any library."""
    if isinstance(array, np.ndarray):
        return TensorType(dtype_name(array), array.shape)
    shape = tuple(array.shape) if hasattr(array, "shape") else (len(array),)
    if hasattr(array, "dtype"):
        return TensorType(_name(array.dtype), shape)
    dtypes = getattr(array, "dtypes", None)
    if dtypes is None:
        dtypes = array.schema.types if hasattr(array, "schema") else (array.type,)
    return TensorType(" and ".join(dict.fromkeys(map(_name, dtypes))), shape)


def _name(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        return dtype_name(np.empty(0, dtype)) if dtype.kind != "O" else "object"
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2].lower()


def keeps_its_kind(value: Any) -> bool:
    """Return whether operators can use `value` without converting it to a NumPy array."""
    if not exchange.adapter(value) or getattr(value, "is_nested", False):
        return False
    try:
        return type_of(value).dtype != "object"  # NumPy must determine the types of objects
    except MemoryError:
        raise
    except Exception:  # raised if the type or shape is unavailable
        return False


def reshaped(array: Any, shape: tuple[Any, ...]) -> Any:
    if hasattr(array, "reshape"):
        return array.reshape(shape)
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().reshape(array, shape)
    reshape = getattr(exchange.adapter(array), "reshape", np.reshape)
    return reshape(array, shape)
