"""Gather and scatter calls, represented as data."""

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
    """The kinds of calls, numbered as in the core. Each operator maps to the closest kind."""

    GATHER_ND = "gather_nd"
    GATHER_ELEMENTS = "gather_elements"
    GATHER = "gather"
    SCATTER_ND = "scatter_nd"
    SCATTER_ELEMENTS = "scatter_elements"
    GATHER_WINDOWS = "gather_windows"

    scatters: bool
    tuples: bool  # indices are tuples along the last axis
    elements: bool  # an index selects an element, not a slice
    windows: bool

    def __init__(self, name: str) -> None:
        self.scatters = name in ("scatter_nd", "scatter_elements")
        self.tuples = name in ("gather_nd", "scatter_nd", "gather_windows")
        self.elements = name in ("gather_elements", "scatter_elements")
        self.windows = name == "gather_windows"

    @property
    def gather(self) -> Kind:
        """The gather that reads the elements that this kind updates."""
        return _GATHERS.get(self, self)

    @property
    def scatter(self) -> Kind:
        """The scatter that updates the elements that this kind reads."""
        return Kind.SCATTER_ELEMENTS if self.elements else Kind.SCATTER_ND


_GATHERS = {Kind.SCATTER_ND: Kind.GATHER_ND, Kind.SCATTER_ELEMENTS: Kind.GATHER_ELEMENTS}


class Mode(StrEnum):
    """How to treat out-of-bounds indices; EDGE and REFLECT are for windows, DROP for scatters."""

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
    """The arguments of a gather or scatter. Each kind ignores arguments that it does not have."""

    caller: str  # the function name in error texts
    kind: Kind
    data: Any
    indices: Any
    updates: Any = None
    axis: Any = 0
    batch_dims: Any = 0
    reduction: Any = "none"
    mode: Any = "raise"  # after validation a `Mode`, or a tuple if window axes differ
    fill_value: Any = None
    use_init_val: Any = True
    out: Any = None
    negative: bool = True  # negative indices count from the end
    arithmetic: Any = None  # for dtypes that NumPy lacks: None, "bfloat16" or 256x256 results
    window_shape: tuple[int, ...] = ()  # for windows
    memory: Any = None  # maximum bytes of buffers; this and the next two: stored arrays
    progress: Any = None  # called with the completed and total numbers of chunks
    executor: Any = None  # reads the chunks instead of the threads of this process
    updates_name: str = "updates"  # in error texts

    @property
    def scatters(self) -> bool:
        return self.kind.scatters

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The mode of each axis of a window; empty for calls without windows."""
        one = not isinstance(self.mode, tuple)
        return (self.mode,) * len(self.window_shape) if one else self.mode

    @property
    def raises(self) -> bool:
        """True if an out-of-bounds index raises an error on any axis."""
        return Mode.RAISE in (self.mode, *self.modes)

    @property
    def fills(self) -> bool:
        """True if out-of-bounds elements are filled on any axis."""
        return Mode.FILL in (self.mode, *self.modes)

    def as_gather(self, **changes: Any) -> Call:
        """Return the gather at the targets of a scatter. It fills the slices of dropped updates."""
        mode = Mode.FILL if self.mode == Mode.DROP else self.mode
        return replace(self, kind=self.kind.gather, mode=mode, **changes)

    @property
    def indices_name(self) -> str:
        return "starts" if self.kind.windows else "indices"

    def named(self) -> tuple[tuple[str, Any], ...]:
        """Return pairs of names, as used in error texts, and arrays."""
        return (
            ("data", self.data),
            (self.indices_name, self.indices),
            (self.updates_name, self.updates),
            ("out", self.out),
        )

    def run(self) -> Array | _core.Refusal:
        """Run the call in the core and return its result, or the reason for a refusal."""
        return _core.run(self.arguments())

    def arguments(self) -> _core.Arguments:
        """Return the arguments in the form that the core expects."""
        return _core.Arguments(_arguments(self))

    def repeatable(self) -> Callable[..., Array | _core.Refusal]:
        """Return a function that repeats the call for other NumPy arrays without conversions."""
        return partial(_core.run, self.arguments())


def replace(call: _Call, /, **changes: Any) -> _Call:
    """Return a copy of a call with some arguments changed.

    `dataclasses.replace` is five times slower and took half the time of a small call.
    """
    made = object.__new__(type(call))
    values = vars(made)
    values.update(vars(call), **changes)
    if len(values) != len(call.__dataclass_fields__):
        raise TypeError(f"a call has no such arguments: {', '.join(changes)}")
    return made


def with_padding(array: Array) -> Array:
    """Return a view of structured elements whose copies include the bytes between fields.

    NumPy does not copy padding. Other dtypes are returned unchanged.
    """
    dtype = array.dtype
    is_plain = not dtype.names or dtype.hasobject or not dtype.itemsize
    return array if is_plain else array.view(f"V{dtype.itemsize}")


class Executor(Protocol):
    """An object that runs functions elsewhere, such as an executor of `concurrent.futures`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...
