from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from numpy.typing import NDArray

# Rules of a refusal, and the arguments that one can be about; see core/plan.h.
CONVERT: Final[int]
REFERENCES: Final[int]
INDEX_DTYPE: Final[int]
DATA_RANK: Final[int]
INDEX_RANK: Final[int]
RANKS_DIFFER: Final[int]
BATCH_DIMS: Final[int]
AXIS: Final[int]
BATCH_SIZE: Final[int]
DEPTH: Final[int]
OFF_AXIS: Final[int]
RESULT_RANK: Final[int]
RESULT_SIZE: Final[int]
MODE: Final[int]
OUT_TYPE: Final[int]
OUT_DTYPE: Final[int]
OUT_SHAPE: Final[int]
OUT_READ_ONLY: Final[int]
OUT_OVERLAPS_ITSELF: Final[int]
OUT_OVERLAPS_INPUT: Final[int]
OUT_OF_BOUNDS: Final[int]
INDICES_CHANGED: Final[int]
INTEGER: Final[int]
REDUCTION: Final[int]
REDUCTION_TYPE: Final[int]
UPDATES_SHAPE: Final[int]
UPDATES_DTYPE: Final[int]
FIRST_OPTION: Final[int]

# Places among the functions of the core, for straight().
GATHER_ND: Final[int]
GATHER_ELEMENTS: Final[int]
GATHER: Final[int]
SCATTER_ND: Final[int]
SCATTER_ELEMENTS: Final[int]

class Refused(Exception): ...  # noqa: N818 - a signal between two layers, never seen by users

def straight(
    place: int,
    python: Callable[..., NDArray[Any]],
    names: tuple[str | None, ...],
    defaults: tuple[object, ...],
    positional: int,
    doc: str,
    module: ModuleType,
    /,
) -> Callable[..., NDArray[Any]]: ...
def gather_nd(
    data: object,
    indices: object,
    batch_dims: object,
    mode: object,
    fill: object,
    out: object,
    negative: object,
    /,
) -> NDArray[Any]: ...
def gather_elements(
    data: object,
    indices: object,
    axis: object,
    mode: object,
    fill: object,
    out: object,
    negative: object,
    /,
) -> NDArray[Any]: ...
def gather(
    data: object,
    indices: object,
    axis: object,
    batch_dims: object,
    mode: object,
    fill: object,
    out: object,
    negative: object,
    /,
) -> NDArray[Any]: ...
def scatter_nd(
    data: object,
    indices: object,
    updates: object,
    batch_dims: object,
    reduction: object,
    mode: object,
    out: object,
    negative: object,
    arithmetic: object,
    /,
) -> NDArray[Any]: ...
def scatter_elements(
    data: object,
    indices: object,
    updates: object,
    axis: object,
    reduction: object,
    mode: object,
    out: object,
    negative: object,
    arithmetic: object,
    /,
) -> NDArray[Any]: ...
def get_num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def get_memory_limit() -> int: ...
def set_memory_limit(bytes: int, /) -> None: ...
def release_memory() -> int: ...
