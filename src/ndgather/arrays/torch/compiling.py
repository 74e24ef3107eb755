"""The public functions as `torch.compile` and `torch.export` see them: calls of the operators.

The functions are of C, which the compiler cannot look into. Here is what it takes in their place.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from ndgather import api
from ndgather.errors import argument_errors, shape_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_COMPILER = "torch._dynamo"


def gather_nd(
    data: Any,
    indices: Any,
    batch_dims: int = 0,
    *,
    mode: str = "raise",
    fill_value: Any = None,
    out: Any = None,
    **_: Any,
) -> Any:
    tensor, indices = _tensors(data, indices)
    result = torch.ops.ndgather.gather_nd(tensor, indices, batch_dims, mode, fill_value)
    return _delivered(data, result, out)


def gather_elements(
    data: Any,
    indices: Any,
    axis: int = 0,
    *,
    mode: str = "raise",
    fill_value: Any = None,
    out: Any = None,
    **_: Any,
) -> Any:
    tensor, indices = _tensors(data, indices)
    result = torch.ops.ndgather.gather_elements(tensor, indices, axis, mode, fill_value)
    return _delivered(data, result, out)


def gather(
    data: Any,
    indices: Any,
    axis: int = 0,
    *,
    batch_dims: int = 0,
    mode: str = "raise",
    fill_value: Any = None,
    out: Any = None,
    **_: Any,
) -> Any:
    tensor, indices = _tensors(data, indices)
    result = torch.ops.ndgather.gather(tensor, indices, axis, batch_dims, mode, fill_value)
    return _delivered(data, result, out)


def gather_windows(
    data: Any,
    starts: Any,
    window_shape: Sequence[int],
    *,
    mode: str = "raise",
    fill_value: Any = None,
    out: Any = None,
    **_: Any,
) -> Any:
    tensor, starts = _tensors(data, starts)
    result = torch.ops.ndgather.gather_windows(tensor, starts, window_shape, mode, fill_value)
    return _delivered(data, result, out)


def scatter_nd(
    data: Any,
    indices: Any,
    updates: Any,
    *,
    reduction: str = "none",
    mode: str = "raise",
    use_init_val: bool = True,
    out: Any = None,
    **_: Any,
) -> Any:
    tensor, indices = _tensors(data, indices)
    tensor, updates = _with_updates(tensor, updates)
    result = torch.ops.ndgather.scatter_nd(
        tensor, indices, updates, 0, reduction, mode, use_init_val
    )
    return _delivered(data, result, out)


def scatter_elements(
    data: Any,
    indices: Any,
    updates: Any,
    axis: int = 0,
    *,
    reduction: str = "none",
    mode: str = "raise",
    use_init_val: bool = True,
    out: Any = None,
    **_: Any,
) -> Any:
    tensor, indices = _tensors(data, indices)
    tensor, updates = _with_updates(tensor, updates)
    result = torch.ops.ndgather.scatter_elements(
        tensor, indices, updates, axis, reduction, mode, use_init_val
    )
    return _delivered(data, result, out)


def _tensors(data: Any, indices: Any) -> tuple[Any, Any]:
    tensor = torch.as_tensor(data)
    return tensor, torch.as_tensor(indices, device=tensor.device)


def _with_updates(data: Any, updates: Any) -> tuple[Any, Any]:
    """Return data and updates as tensors of one type.

    Numbers and lists take that of data; where autocast mixes floating types, the wider one counts.
    """
    if not isinstance(updates, torch.Tensor):
        given = torch.as_tensor(updates, device=data.device)
        if given.numel() and _kind(given) > _kind(data):
            raise argument_errors.updates_lost("ndgather", updates, data.dtype, "updates")
        return data, given.to(data.dtype)
    if updates.dtype == data.dtype or not torch.is_autocast_enabled(data.device.type):
        return data, updates
    if not (data.dtype.is_floating_point and updates.dtype.is_floating_point):
        return data, updates
    wider = torch.promote_types(data.dtype, updates.dtype)
    return data.to(wider), updates.to(wider)


def _kind(tensor: Any) -> int:
    """Return 0 for integers and booleans, 1 for floats, 2 for complex numbers."""
    return 2 if tensor.is_complex() else int(tensor.is_floating_point())


def _delivered(data: Any, result: Any, out: Any) -> Any:
    """Return the result as the kind of data that was given, in `out` if there is one."""
    if out is not None:
        if out.dtype != result.dtype:
            raise argument_errors.out_dtype("ndgather", out.dtype, result.dtype)
        if out.shape != result.shape:
            raise shape_errors.out_shape("ndgather", out.shape, result.shape)
        return out.copy_(result)
    return result if isinstance(data, torch.Tensor) else result.numpy()


_SEEN = (gather_nd, gather_elements, gather, gather_windows, scatter_nd, scatter_elements)


def _substitute() -> None:
    for seen in _SEEN:
        original = getattr(api, seen.__name__)
        torch.compiler.substitute_in_graph(original, skip_signature_check=True)(seen)


class _WhenTheCompilerIsImported(MetaPathFinder):
    """Substitutes the functions once torch imports its compiler, which takes over a second."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != _COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # it acts as one
        return spec


class _Loader:
    """A loader of a module, after which the functions are substituted."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _substitute()


def register() -> None:
    """Let the compiler see calls of the public functions as calls of the operators."""
    if _COMPILER in sys.modules:
        _substitute()
    else:
        sys.meta_path.insert(0, _WhenTheCompilerIsImported())
