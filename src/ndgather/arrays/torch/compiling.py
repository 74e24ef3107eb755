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
from ndgather.errors import argument_errors, shape_errors, tensor_errors

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
    return _gathered("gather_nd", data, indices, (batch_dims,), mode, fill_value, out)


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
    return _gathered("gather_elements", data, indices, (axis,), mode, fill_value, out)


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
    return _gathered("gather", data, indices, (axis, batch_dims), mode, fill_value, out)


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
    return _gathered("gather_windows", data, starts, (window_shape,), mode, fill_value, out)


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
    options = (0, reduction, mode, use_init_val)
    return _scattered("scatter_nd", data, indices, updates, options, out)


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
    options = (axis, reduction, mode, use_init_val)
    return _scattered("scatter_elements", data, indices, updates, options, out)


def _gathered(
    kind: str,
    data: Any,
    indices: Any,
    options: tuple[Any, ...],
    mode: str,
    fill_value: Any,
    out: Any,
) -> Any:
    operator = getattr(torch.ops.ndgather, kind)
    tensor = _tensor(data)
    given = (tensor, _tensor(indices).to(tensor.device), *options, mode)
    if isinstance(fill_value, torch.Tensor):
        result = _filled(kind, operator, given, fill_value)
    else:
        result = operator(*given, fill_value)
    return _delivered(kind, data, result, out)


def _filled(kind: str, operator: Any, given: tuple[Any, ...], fill_value: Any) -> Any:
    """Return a result filled with the number of a tensor, which is not known before it runs."""
    tensor, *rest = given
    if rest[-1] != "fill":
        raise argument_errors.fill_value_unused(kind, rest[-1])
    if fill_value.numel() != 1:
        raise argument_errors.fill_value_lost(kind, fill_value, tensor.dtype)
    if fill_value.requires_grad:
        raise tensor_errors.fill_with_gradient(kind, fill_value)
    inside = operator(torch.ones_like(tensor, dtype=torch.bool), *rest, None)
    return torch.where(inside, operator(*given, None), fill_value.reshape(()).to(tensor.dtype))


def _scattered(
    kind: str, data: Any, indices: Any, updates: Any, options: tuple[Any, ...], out: Any
) -> Any:
    tensor, updates = _with_updates(kind, _tensor(data), updates)
    given = (tensor, _tensor(indices).to(tensor.device), updates)
    result = getattr(torch.ops.ndgather, kind)(*given, *options)
    return _delivered(kind, data, result, out)


def _tensor(value: Any) -> Any:
    """Return a tensor; numbers of Python keep all their digits."""
    tensor = torch.as_tensor(value)
    if isinstance(value, list | tuple | float | complex) and _kind(tensor):
        return torch.as_tensor(
            value, dtype=torch.complex128 if tensor.is_complex() else torch.float64
        )
    return tensor


def _with_updates(kind: str, data: Any, updates: Any) -> tuple[Any, Any]:
    """Return data and updates as tensors of one type.

    Numbers and lists take that of data; where autocast mixes floating types, the wider one counts.
    """
    if not isinstance(updates, torch.Tensor):
        given = _tensor(updates)
        if given.numel() and _kind(given) > _kind(data):
            raise argument_errors.updates_lost(kind, updates, data.dtype, "updates")
        return data, given.to(data.dtype).to(data.device)
    if updates.dtype == data.dtype or not torch.is_autocast_enabled(data.device.type):
        return data, updates
    if not (data.dtype.is_floating_point and updates.dtype.is_floating_point):
        return data, updates
    wider = torch.promote_types(data.dtype, updates.dtype)
    return data.to(wider), updates.to(wider)


def _kind(tensor: Any) -> int:
    """Return 0 for integers and booleans, 1 for floats, 2 for complex numbers."""
    return 2 if tensor.is_complex() else int(tensor.is_floating_point())


def _delivered(kind: str, data: Any, result: Any, out: Any) -> Any:
    """Return the result as the kind of data that was given, in `out` if there is one."""
    if out is not None:
        if out.dtype != result.dtype:
            raise argument_errors.out_dtype(kind, out.dtype, result.dtype)
        if out.shape != result.shape:
            raise shape_errors.out_shape(kind, out.shape, result.shape)
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
