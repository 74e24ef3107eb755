"""The kinds and arguments of gather and scatter calls."""

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
    """The kinds of calls, in the same order as in the core."""

    GATHER_ND = "gather_nd"
    GATHER_ELEMENTS = "gather_elements"
    GATHER = "gather"
    SCATTER_ND = "scatter_nd"
    SCATTER_ELEMENTS = "scatter_elements"
    GATHER_WINDOWS = "gather_windows"

    scatters: bool
    tuples: bool  # each vector along the last axis of indices is an index tuple
    elements: bool  # each index selects an element instead of a slice
    windows: bool

    def __init__(self, name: str) -> None:
        self.scatters = name in ("scatter_nd", "scatter_elements")
        self.tuples = name in ("gather_nd", "scatter_nd", "gather_windows")
        self.elements = name in ("gather_elements", "scatter_elements")
        self.windows = name == "gather_windows"

    @property
    def gather(self) -> Kind:
        return _GATHERS.get(self, self)

    @property
    def scatter(self) -> Kind:
        return Kind.SCATTER_ELEMENTS if self.elements else Kind.SCATTER_ND


_GATHERS = {Kind.SCATTER_ND: Kind.GATHER_ND, Kind.SCATTER_ELEMENTS: Kind.GATHER_ELEMENTS}


class Mode(StrEnum):
    """How to treat out-of-bounds indices. EDGE and REFLECT apply to windows, DROP to scatters."""

    RAISE = "raise"
    WRAP = "wrap"
    CLIP = "clip"
    FILL = "fill"
    DROP = "drop"
    EDGE = "edge"
    REFLECT = "reflect"

    __repr__ = str.__repr__  # error messages show modes as users write them


_Call = TypeVar("_Call", bound="Call")


@dataclass(frozen=True)
class Call:
    """The arguments of a gather or scatter. Arguments that a kind does not use are ignored."""

    caller: str  # the function name in error messages
    kind: Kind
    data: Any
    indices: Any
    updates: Any = None
    axis: Any = 0
    batch_dims: Any = 0
    reduction: Any = "none"
    mode: Any = "raise"  # after validation, a `Mode` or a tuple with a `Mode` for each window axis
    fill_value: Any = None
    use_init_val: Any = True
    out: Any = None
    negative: bool = True  # whether negative indices count from the end
    arithmetic: Any = None  # "bfloat16" or a 256x256 table for dtypes that NumPy lacks
    window_shape: tuple[int, ...] = ()  # for windows
    memory: Any = None  # the maximum size of buffers for stored arrays, in bytes
    progress: Any = None  # a function that receives the numbers of completed and of all chunks
    executor: Any = None  # the executor that reads the chunks of stored arrays
    updates_name: str = "updates"  # the name of `updates` in error messages

    @property
    def scatters(self) -> bool:
        return self.kind.scatters

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes of all window axes, or an empty tuple for calls without windows."""
        one = not isinstance(self.mode, tuple)
        return (self.mode,) * len(self.window_shape) if one else self.mode

    @property
    def raises(self) -> bool:
        return Mode.RAISE in (self.mode, *self.modes)

    @property
    def fills(self) -> bool:
        return Mode.FILL in (self.mode, *self.modes)

    def as_gather(self, **changes: Any) -> Call:
        """Return a gather of the slices that this scatter updates. Mode DROP becomes FILL."""
        mode = Mode.FILL if self.mode == Mode.DROP else self.mode
        return replace(self, kind=self.kind.gather, mode=mode, **changes)

    @property
    def indices_name(self) -> str:
        return "starts" if self.kind.windows else "indices"

    def named(self) -> tuple[tuple[str, Any], ...]:
        """Return each array argument with its name in error messages."""
        return (
            ("data", self.data),
            (self.indices_name, self.indices),
            (self.updates_name, self.updates),
            ("out", self.out),
        )

    def run(self) -> Array | _core.Refusal:
        """Run the call in the core. Return the result, or a `Refusal` if the call is refused."""
        return _core.run(self.arguments())

    def arguments(self) -> _core.Arguments:
        return _core.Arguments(_arguments(self))

    def repeatable(self) -> Callable[..., Array | _core.Refusal]:
        """Return a function that runs the call on other NumPy arrays without converting them."""
        return partial(_core.run, self.arguments())


def replace(call: _Call, /, **changes: Any) -> _Call:
    """Return a changed copy of a call. `dataclasses.replace` is five times slower."""
    made = object.__new__(type(call))
    values = vars(made)
    values.update(vars(call), **changes)
    if len(values) != len(call.__dataclass_fields__):
        raise TypeError(f"a call has no such arguments: {', '.join(changes)}")
    return made


def with_padding(array: Array) -> Array:
    """Return a view of a structured array as raw bytes, so that copies include padding.

    NumPy does not copy the padding between fields. Arrays of other dtypes are returned unchanged.
    """
    dtype = array.dtype
    is_plain = not dtype.names or dtype.hasobject or not dtype.itemsize
    return array if is_plain else array.view(f"V{dtype.itemsize}")


class Executor(Protocol):
    """An object that runs functions asynchronously, such as a `concurrent.futures.Executor`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...
