"""One call of the core: its arguments, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ndgather import dtypes
from ndgather.messages import core_missing

try:
    from ndgather import _core
except ImportError as error:
    raise core_missing(error) from error

Array: TypeAlias = dtypes.Array
WindowMode: TypeAlias = Literal["raise", "clip", "fill", "wrap", "edge", "reflect"]

__all__ = ["Call", "_core"]

_arguments = attrgetter("kind", *_core.ARGUMENTS)


class Kind(StrEnum):
    """The kinds of calls, in the order of the core; an operator is of one, or close to one."""

    GATHER_ND = "gather_nd"
    GATHER_ELEMENTS = "gather_elements"
    GATHER = "gather"
    SCATTER_ND = "scatter_nd"
    SCATTER_ELEMENTS = "scatter_elements"
    GATHER_WINDOWS = "gather_windows"

    scatters: bool
    tuples: bool  # the last axis of indices holds index tuples
    elements: bool  # an index selects one element, not a slice
    windows: bool

    def __init__(self, name: str) -> None:
        self.scatters = name in ("scatter_nd", "scatter_elements")
        self.tuples = name in ("gather_nd", "scatter_nd", "gather_windows")
        self.elements = name in ("gather_elements", "scatter_elements")
        self.windows = name == "gather_windows"

    @property
    def gather(self) -> Kind:
        """The gather that reads what a scatter of this kind writes."""
        return _GATHERS.get(self, self)

    @property
    def scatter(self) -> Kind:
        """The scatter that writes what a gather by tuples or by elements reads."""
        return Kind.SCATTER_ELEMENTS if self.elements else Kind.SCATTER_ND


_GATHERS = {Kind.SCATTER_ND: Kind.GATHER_ND, Kind.SCATTER_ELEMENTS: Kind.GATHER_ELEMENTS}


class Mode(StrEnum):
    """What happens if an index is out of bounds; windows have EDGE and REFLECT, scatters DROP."""

    RAISE = "raise"
    WRAP = "wrap"
    CLIP = "clip"
    FILL = "fill"
    DROP = "drop"
    EDGE = "edge"
    REFLECT = "reflect"

    __repr__ = str.__repr__  # error texts show modes as users write them


_Call = TypeVar("_Call", bound="Call")


@dataclass(frozen=True)
class Call:
    """The arguments of one gather or scatter; a kind ignores those that it does not have."""

    caller: str  # the name that error texts begin with
    kind: Kind
    data: Any
    indices: Any
    updates: Any = None
    axis: Any = 0
    batch_dims: Any = 0
    reduction: Any = "none"
    mode: Any = "raise"  # once it is checked, a `Mode`, or one per axis if those of windows differ
    fill_value: Any = None
    use_init_val: Any = True
    out: Any = None
    negative: bool = True  # whether negative index values count from the end
    arithmetic: Any = None  # how to reduce dtypes NumPy lacks: None, "bfloat16" or 256x256 results
    window_shape: tuple[int, ...] = ()  # of a gather of windows
    memory: Any = None  # bytes that buffers may take; this and the rest are for stored arrays
    progress: Any = None  # called with the numbers of chunks done and in all
    executor: Any = None  # where chunks are read, if not on threads of this process
    updates_name: str = "updates"  # what the caller calls them

    @property
    def scatters(self) -> bool:
        return self.kind.scatters

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The mode of every axis of windows; other kinds have one mode, and no axes."""
        one = not isinstance(self.mode, tuple)
        return (self.mode,) * len(self.window_shape) if one else self.mode

    @property
    def raises(self) -> bool:
        """Whether an index that is out of bounds raises an error, on some axis at least."""
        return Mode.RAISE in (self.mode, *self.modes)

    @property
    def fills(self) -> bool:
        """Whether elements that are out of bounds are filled, on some axis at least."""
        return Mode.FILL in (self.mode, *self.modes)

    def as_gather(self, **changes: Any) -> Call:
        """Return the gather from where a scatter writes; it fills slices of dropped updates."""
        mode = Mode.FILL if self.mode == Mode.DROP else self.mode
        return replace(self, kind=self.kind.gather, mode=mode, **changes)

    @property
    def indices_name(self) -> str:
        return "starts" if self.kind.windows else "indices"

    def named(self) -> tuple[tuple[str, Any], ...]:
        """Return the arrays of this call, each after the name that error texts have for it."""
        return (
            ("data", self.data),
            (self.indices_name, self.indices),
            (self.updates_name, self.updates),
            ("out", self.out),
        )

    def run(self) -> Array | _core.Refusal:
        """Make the call; return the result, or why the core refuses it."""
        return _core.run(self.arguments())

    def arguments(self) -> _core.Arguments:
        """Return the kind and the arguments as the core takes them."""
        return _core.Arguments(_arguments(self))

    def repeatable(self) -> Callable[..., Array | _core.Refusal]:
        """Return a function of other plain arrays that makes this call without conversion."""
        return partial(_core.run, self.arguments())


def replace(call: _Call, /, **changes: Any) -> _Call:
    """Return a call with some arguments changed.

    `dataclasses.replace` takes five times as long, which was half of the time of a small call.
    """
    made = object.__new__(type(call))
    values = vars(made)
    values.update(vars(call), **changes)
    if len(values) != len(call.__dataclass_fields__):
        raise TypeError(f"a call has no such arguments: {', '.join(changes)}")
    return made


def with_padding(array: Array) -> Array:
    """Return a view of structured elements that NumPy copies with the bytes between their fields.

    It would leave them as they are. Arrays of other elements are returned as they are.
    """
    dtype = array.dtype
    is_plain = not dtype.names or dtype.hasobject or not dtype.itemsize
    return array if is_plain else array.view(f"V{dtype.itemsize}")


class Executor(Protocol):
    """Anything that takes functions to call elsewhere, as `concurrent.futures` has them."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...
