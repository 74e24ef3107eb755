"""The public functions as `torch.compile` and `torch.export` see them: calls of the operators.

The functions are written in C, which the compiler cannot trace; it traces these instead.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from ndgather import api, messages
from ndgather.array_call import _core
from ndgather.arrays.torch import checks

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_COMPILER = "torch._dynamo"


def _traceable(kind: str) -> Callable[..., Any]:
    """Return a function for the compiler, with the arguments of a public function."""
    parameters = api.SIGNATURES[kind].parameters
    names = [name for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    scatters = kind.startswith("scatter")
    operator = getattr(torch.ops.ndgather, kind)
    options = [name for name in checks.OPTIONS[kind] if name in parameters]
    indices_name = names[1]

    def call(*arguments: Any, **named: Any) -> Any:
        given = defaults | dict(zip(names, arguments, strict=False)) | named
        data, out = given["data"], given["out"]
        tensor, fill_value = _tensor(data), given.get("fill_value")
        arrays = [tensor, _tensor(given[indices_name]).to(tensor.device)]
        if scatters:
            arrays[0], updates = _with_updates(kind, tensor, given["updates"])
            arrays.append(updates)
        chosen = {name: given[name] for name in options}
        if isinstance(fill_value, torch.Tensor):
            chosen["fill_value"] = None
            result = _filled(kind, operator, arrays, chosen, fill_value)
        else:
            result = operator(*arrays, **chosen)
        if out is not None:
            if out.dtype != result.dtype:
                raise messages.out_dtype(kind, out.dtype, result.dtype)
            if out.shape != result.shape:
                raise messages.out_shape(kind, out.shape, result.shape)
            return out.copy_(result)
        return result if isinstance(data, torch.Tensor) else result.numpy()

    return call


def _filled(
    kind: str, operator: Any, arrays: list[Any], options: dict[str, Any], fill_value: Any
) -> Any:
    """Return a result filled with the number of a tensor, which is not known before it runs."""
    data, indices = arrays
    if options["mode"] != "fill":
        raise messages.fill_value_unused(kind, options["mode"])
    if fill_value.numel() != 1:
        raise messages.fill_value_lost(kind, fill_value, data.dtype)
    if fill_value.requires_grad:
        raise checks.fill_with_gradient(kind, fill_value)
    inside = operator(torch.ones_like(data, dtype=torch.bool), indices, **options)
    fill = fill_value.reshape(()).to(data.dtype)
    return torch.where(inside, operator(data, indices, **options), fill)


def _tensor(value: Any) -> Any:
    """Return a tensor; numbers of Python keep all their digits."""
    tensor = torch.as_tensor(value)
    if isinstance(value, list | tuple | float | complex) and _number_kind(tensor):
        return torch.as_tensor(
            value, dtype=torch.complex128 if tensor.is_complex() else torch.float64
        )
    return tensor


def _with_updates(kind: str, data: Any, updates: Any) -> tuple[Any, Any]:
    """Return data and updates as tensors; numbers and lists take the dtype of data."""
    if isinstance(updates, torch.Tensor):
        return checks.promoted(data, updates)
    tensor = _tensor(updates)
    if tensor.numel() and _number_kind(tensor) > _number_kind(data):
        raise messages.updates_lost(kind, updates, data.dtype, "updates")
    return data, tensor.to(data.dtype).to(data.device)


def _number_kind(tensor: Any) -> int:
    """Return 0 for integers and booleans, 1 for floats, 2 for complex numbers."""
    return 2 if tensor.is_complex() else int(tensor.is_floating_point())


def _substitute() -> None:
    for kind in _core.KINDS:
        original = getattr(api, kind)
        torch.compiler.substitute_in_graph(original, skip_signature_check=True)(_traceable(kind))


class _WhenTheCompilerIsImported(MetaPathFinder):
    """Substitutes the functions once torch imports its compiler, which takes over a second."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != _COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _substitute()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one
        return spec


def register() -> None:
    """Let the compiler see calls of the public functions as calls of the operators."""
    if _COMPILER in sys.modules:
        _substitute()
    else:
        sys.meta_path.insert(0, _WhenTheCompilerIsImported())
