from collections.abc import Callable
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray

_Shape: TypeAlias = tuple[int, ...]

# See array_call.py, where it has a name for all to import.
_Refusal: TypeAlias = tuple[str, tuple[Any, ...], _Shape, _Shape, _Shape, _Shape]

KINDS: Final[tuple[str, ...]]
ARGUMENTS: Final[tuple[str, ...]]
GATHER_MODES: Final[tuple[str, ...]]
SCATTER_MODES: Final[tuple[str, ...]]
REDUCTIONS: Final[tuple[str, ...]]
RULES: Final[tuple[str, ...]]
HIGHEST_RANK: Final[int]

# A capsule for jax.ffi.register_ffi_target; None where the core was built without jaxlib's headers.
jax_handler: Final[tuple[object, int, int] | None]

def run(
    kind: str,
    data: object,
    indices: object,
    updates: object,
    axis: object,
    batch_dims: object,
    reduction: object,
    mode: object,
    fill_value: object,
    use_init_val: object,
    out: object,
    negative: object,
    arithmetic: object,
    memory: object,
    progress: object,
    executor: object,
    /,
) -> NDArray[Any] | _Refusal: ...
def slices_shape(
    kind: str, data_shape: _Shape, indices_shape: _Shape, axis: int, batch_dims: int, /
) -> _Refusal: ...
def check_out(out: object, result: NDArray[Any], /) -> _Refusal: ...
def sort_points(
    kind: str,
    steps: tuple[int | NDArray[Any], ...],
    begin: int,
    places: NDArray[Any],
    positions: NDArray[Any],
    data: object,
    indices: object,
    updates: object,
    axis: object,
    batch_dims: object,
    reduction: object,
    mode: object,
    fill_value: object,
    use_init_val: object,
    out: object,
    negative: object,
    arithmetic: object,
    memory: object,
    progress: object,
    executor: object,
    /,
) -> tuple[NDArray[Any], NDArray[Any]] | _Refusal: ...
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
def fast_call(
    kind: str,
    answer: Callable[..., object],
    misuse: Callable[..., Exception],
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
def instruction_set() -> str: ...
def get_num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def get_memory_limit() -> int: ...
def set_memory_limit(bytes: int, /) -> None: ...
def release_memory() -> int: ...
