# The types of the results: a NumPy array for arguments that NumPy converts, otherwise the type of
# data. api.py has the same signatures, and stubtest compares the two.

from collections.abc import Callable, Sequence
from inspect import Signature
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndgather.array_call import Call as Call
from ndgather.array_call import Executor, WindowMode
from ndgather.reductions import Name as Reduction
from ndgather.slow_path import result_shape as result_shape
from ndgather.slow_path import run as run

__all__ = [
    "SIGNATURES",
    "Call",
    "call_of",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_ranges",
    "gather_windows",
    "own_errors",
    "result_shape",
    "run",
    "scatter_elements",
    "scatter_nd",
]

SIGNATURES: dict[str, Signature]

def call_of(caller: str, /, *arguments: Any, **options: Any) -> Call: ...

_F = TypeVar("_F", bound=Callable[..., Any])

def own_errors(
    caller: str, hint_of: Callable[[Sequence[object]], str] = ...
) -> Callable[[_F], _F]: ...

_Array: TypeAlias = NDArray[Any]
_Numbers: TypeAlias = _Array | np.generic | complex | str | bytes | Sequence[Any]

class _InChunks(Protocol):  # a zarr or HDF5 array
    @property
    def chunks(self) -> tuple[int, ...]: ...

class _TensorStore(Protocol):
    @property
    def chunk_layout(self) -> Any: ...

_Gathered: TypeAlias = _Numbers | _InChunks | _TensorStore
_Progress: TypeAlias = bool | Callable[[int, int], object] | None
_Mode: TypeAlias = Literal["raise", "wrap", "clip", "fill"]
_ScatterMode: TypeAlias = Literal["raise", "wrap", "clip", "drop"]
_A = TypeVar("_A")

@overload
def gather_nd(
    data: _Gathered,
    indices: ArrayLike,
    batch_dims: int = ...,
    *,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _Array: ...
@overload
def gather_nd(
    data: _A,
    indices: object,
    batch_dims: int = ...,
    *,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _A: ...
@overload
def gather_elements(
    data: _Gathered,
    indices: ArrayLike,
    axis: int = ...,
    *,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _Array: ...
@overload
def gather_elements(
    data: _A,
    indices: object,
    axis: int = ...,
    *,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _A: ...
@overload
def gather(
    data: _Gathered,
    indices: ArrayLike,
    axis: int = ...,
    *,
    batch_dims: int = ...,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _Array: ...
@overload
def gather(
    data: _A,
    indices: object,
    axis: int = ...,
    *,
    batch_dims: int = ...,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _A: ...
@overload
def gather_windows(
    data: _Gathered,
    starts: ArrayLike,
    window_shape: Sequence[int],
    *,
    mode: WindowMode | Sequence[WindowMode] = ...,
    fill_value: object = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _Array: ...
@overload
def gather_windows(
    data: _A,
    starts: object,
    window_shape: Sequence[int],
    *,
    mode: WindowMode | Sequence[WindowMode] = ...,
    fill_value: object = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _A: ...
@overload
def gather_ranges(
    data: _Gathered,
    starts: ArrayLike,
    stops: ArrayLike | None = ...,
    *,
    lengths: ArrayLike | None = ...,
    axis: int = ...,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> tuple[_Array, NDArray[np.int64]]: ...
@overload
def gather_ranges(
    data: _A,
    starts: ArrayLike,
    stops: ArrayLike | None = ...,
    *,
    lengths: ArrayLike | None = ...,
    axis: int = ...,
    mode: _Mode = ...,
    fill_value: object = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> tuple[_A, NDArray[np.int64]]: ...
@overload
def scatter_nd(
    data: _Numbers,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    reduction: Reduction = ...,
    mode: _ScatterMode = ...,
    use_init_val: bool = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _Array: ...
@overload
def scatter_nd(
    data: _A,
    indices: object,
    updates: object,
    *,
    reduction: Reduction = ...,
    mode: _ScatterMode = ...,
    use_init_val: bool = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _A: ...
@overload
def scatter_elements(
    data: _Numbers,
    indices: ArrayLike,
    updates: ArrayLike,
    axis: int = ...,
    *,
    reduction: Reduction = ...,
    mode: _ScatterMode = ...,
    use_init_val: bool = ...,
    out: _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _Array: ...
@overload
def scatter_elements(
    data: _A,
    indices: object,
    updates: object,
    axis: int = ...,
    *,
    reduction: Reduction = ...,
    mode: _ScatterMode = ...,
    use_init_val: bool = ...,
    out: _A | _Array | None = ...,
    memory: int | str | None = ...,
    progress: _Progress = ...,
    executor: Executor | None = ...,
) -> _A: ...
