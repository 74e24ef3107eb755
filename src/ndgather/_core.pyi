from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, final

from _typeshed import structseq
from numpy.typing import NDArray

_Shape: TypeAlias = tuple[int, ...]

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_Facts: TypeAlias = tuple[Any, ...]

@final
class Refusal(structseq[Any], tuple[str, _Facts, _Shape, _Shape, _Shape, _Shape]):
    __match_args__: Final = ("rule", "facts", "data", "indices", "slices", "updates")
    @property
    def rule(self) -> str: ...
    @property
    def facts(self) -> _Facts: ...
    @property
    def data(self) -> _Shape: ...
    @property
    def indices(self) -> _Shape: ...
    @property
    def slices(self) -> _Shape: ...
    @property
    def updates(self) -> _Shape: ...

@final
class Arguments(structseq[Any], tuple[Any, ...]):  # the kind of a call, then ARGUMENTS
    __match_args__: Final = (
        "kind",
        "data",
        "indices",
        "updates",
        "axis",
        "batch_dims",
        "reduction",
        "mode",
        "fill_value",
        "use_init_val",
        "out",
        "negative",
        "arithmetic",
        "window_shape",
        "memory",
        "progress",
        "executor",
    )
    @property
    def kind(self) -> str: ...
    @property
    def data(self) -> Any: ...
    @property
    def indices(self) -> Any: ...
    @property
    def updates(self) -> Any: ...
    @property
    def axis(self) -> Any: ...
    @property
    def batch_dims(self) -> Any: ...
    @property
    def reduction(self) -> Any: ...
    @property
    def mode(self) -> Any: ...
    @property
    def fill_value(self) -> Any: ...
    @property
    def use_init_val(self) -> Any: ...
    @property
    def out(self) -> Any: ...
    @property
    def negative(self) -> Any: ...
    @property
    def arithmetic(self) -> Any: ...
    @property
    def window_shape(self) -> Any: ...
    @property
    def memory(self) -> Any: ...
    @property
    def progress(self) -> Any: ...
    @property
    def executor(self) -> Any: ...

KINDS: Final[tuple[str, ...]]
ARGUMENTS: Final[tuple[str, ...]]
GATHER_MODES: Final[tuple[str, ...]]
SCATTER_MODES: Final[tuple[str, ...]]
REDUCTIONS: Final[tuple[str, ...]]
RULES: Final[tuple[str, ...]]
HIGHEST_RANK: Final[int]
LISTED_CHUNKS: Final[int]  # the most chunks that `look_up` lists

# A capsule for jax.ffi.register_ffi_target; None if built without jaxlib's headers.
jax_handler: Final[tuple[object, int, int] | None]

def run(arguments: Arguments, /, *arrays: object) -> NDArray[Any] | Refusal: ...
def slices_shape(
    kind: str,
    data_shape: _Shape,
    indices_shape: _Shape,
    axis: int,
    batch_dims: int,
    window_shape: _Shape = (),
    /,
) -> Refusal: ...
def check_out(out: object, result: NDArray[Any], /) -> Refusal: ...
def sort_points(
    arguments: Arguments,
    steps: tuple[int | NDArray[Any], ...],
    begin: int,
    places: NDArray[Any],
    positions: NDArray[Any],
    /,
) -> tuple[NDArray[Any], NDArray[Any]] | Refusal: ...
def move_points(
    chunk: NDArray[Any],
    dense: NDArray[Any],
    bits: tuple[int, ...],
    places: NDArray[Any],
    positions: NDArray[Any],
    block: int,
    starts: NDArray[Any],
    stops: NDArray[Any],
    reduction: str | None,
    arithmetic: object,
    /,
) -> None: ...
def copy_ranges(
    data: NDArray[Any],
    axis: int,
    starts: NDArray[Any],
    lengths: NDArray[Any],
    places: NDArray[Any],
    out: NDArray[Any],
    /,
) -> None: ...
def gather_ranges(
    data: object, starts: object, ends: object, by_lengths: bool, axis: object, /
) -> tuple[NDArray[Any], NDArray[Any]] | None: ...
def chunk_table(shape: _Shape, steps: _Shape, element: int, /) -> object | None: ...
def set_chunk(table: object, number: int, values: NDArray[Any] | None, /) -> None: ...
def unpack_lzf(stored: Any, memory: NDArray[Any], /) -> int: ...
def count_hits(table: object, /) -> int: ...
def last_use(table: object | None, number: int, /) -> int: ...
def look_up(
    table: object, arguments: Arguments, data: NDArray[Any], again: bool, /
) -> NDArray[Any] | Refusal | tuple[NDArray[Any], int]: ...
def fast_call(
    kind: str,
    slow_path: Callable[..., object],
    names: tuple[str, ...],
    required: int,
    positional: int,
    defaults: tuple[object, ...],
    doc: str,
    module: str,
    /,
) -> Callable[..., NDArray[Any]]: ...
def accept_exchange(
    type: type,
    gradient: str | None,
    records: Callable[[], object] | None,
    negated: Callable[[Any], object] | None,
    conjugated: Callable[[Any], object] | None,
    transforms: tuple[Callable[[], object] | tuple[dict[str, object], str, object], ...],
    written: Callable[[Any], object] | None,
    bytes: tuple[object, ...] | None,
    /,
) -> bool: ...
def in_default_environment(
    function: Callable[_P, _Result], /, *args: _P.args, **kwargs: _P.kwargs
) -> _Result: ...
def instruction_set() -> str: ...
def get_num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def get_memory_limit() -> int: ...
def set_memory_limit(bytes: int, /) -> None: ...
def release_memory() -> int: ...
