"""Kernels that check indices. torch's dispatcher calls these kernels while a block is open.

A `TorchDispatchMode` would intercept every operator, which takes several microseconds per call and
changes the behavior of some programs. Instead, only the operators in the table `OPERATORS` get a
kernel, under a dispatch key that torch reserves for its own C++ tests. An open block enables this
key in its thread. Other operators, and calls outside of blocks, are unaffected. Products of sparse
and dense tensors use the same operators, but checking dense products would take too long. For
sparse tensors, the check therefore wraps torch's sparse kernels.

This module uses private names of torch, which exist in torch 2.11 to 2.13.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from ndgather.arrays.torch.checked.operators import (
    FOREIGN,
    OPERATORS,
    SPARSE,
    WHOLE,
    operator_name,
)

Kernel: TypeAlias = Callable[..., Any]  # called with dispatch keys and the arguments
MakeKernel: TypeAlias = Callable[[Any], Kernel]  # called with an operator overload

_NAME = "TESTING_ONLY_GenericMode"
_KEY = torch._C._parse_dispatch_key(_NAME)
_BELOW = torch._C._dispatch_keyset_full_after(_KEY)
_OWN = torch._C.DispatchKeySet(_KEY)
_HIDDEN = _OWN  # the dispatch keys that are disabled in checks, to hide the checks from modes
for _name in (
    *("PreDispatch", "PythonDispatcher", "FuncTorchDynamicLayerFrontMode", "PythonTLSSnapshot"),
    *("FuncTorchDynamicLayerBackMode", "FuncTorchVmapMode", "Functionalize", "Python", "Tracer"),
):
    _HIDDEN = _HIDDEN | torch._C.DispatchKeySet(torch._C._parse_dispatch_key(_name))
_MODES = tuple(torch._C._TorchDispatchModeKey.__members__.values())
_LIBRARIES: list[torch.library.Library] = []  # keeps the kernels registered


def list_overloads(names: Iterable[str]) -> Iterator[torch._ops.OpOverload]:
    """Yield all overloads of the operators in `torch.ops.aten` with these names."""
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        name, _, overload = name.partition(".")
        if namespace == "aten" and operator_name(name) in names:
            yield getattr(getattr(torch.ops.aten, name), overload or "default")


def list_operators() -> Iterator[torch._ops.OpOverload]:
    """Yield the overloads in `torch.ops.aten` whose indices are checked."""
    for operator in list_overloads(OPERATORS):
        # Check only the parts of a composite operator, unless the parts receive modified indices.
        name = operator._schema.name.removeprefix("aten::")
        if name.startswith("_") or name in WHOLE or not operator._can_decompose():
            yield operator


@dataclass(frozen=True)
class SparseOperator:
    """An operator with torch's original kernel for sparse tensors."""

    _schema: Any
    redispatch: Kernel


def install_sparse_kernels(library: torch.library.Library, make_kernel: MakeKernel) -> None:
    """Wrap torch's kernels for sparse tensors in kernels that check indices."""
    for operator in list_overloads(SPARSE):
        for key in ("SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA"):
            if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key):
                kernel = make_sparse_kernel(operator, key, make_kernel)
                library.impl(operator, kernel, key, with_keyset=True, allow_override=True)


def make_sparse_kernel(
    operator: torch._ops.OpOverload, key: str, make_kernel: MakeKernel
) -> Kernel:
    """Return a kernel that checks a call if the calling thread is in a block."""
    kernel = torch.library.get_kernel(operator, key).call_boxed
    check_call = make_kernel(SparseOperator(operator._schema, kernel))

    def check_sparse_call(keys: Any, /, *args: Any, **kwargs: Any) -> Any:
        call = check_call if is_switched_on() else kernel
        return call(keys, *args, **kwargs)

    return check_sparse_call


def replace_unravel_index(make_function: Callable[..., Callable[..., Any]]) -> Callable[[], None]:
    """Check calls of `torch.unravel_index`, and return a function that removes the check."""
    # Replace an internal function, because a program may already have imported unravel_index.
    function = getattr(torch.functional, "_unravel_index", None)
    if function is None:  # this version of torch has no such function
        return lambda: None
    checked = make_function(function)

    def unravel_checked_index(indices: Any, shape: Any) -> Any:
        return (checked if is_switched_on() else function)(indices, shape)

    torch.functional._unravel_index = unravel_checked_index
    return partial(setattr, torch.functional, "_unravel_index", function)


@cache
def install_kernels(make_kernel: MakeKernel) -> None:
    """Register the kernels of all operators, once per process."""
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, _NAME)
    library = torch.library.Library("aten", "IMPL")
    _LIBRARIES.extend([fallback, library])
    for operator in list_operators():
        library.impl(operator, make_kernel(operator), _NAME, with_keyset=True)
    for full in FOREIGN:
        namespace, _, name = full.partition("::")
        _LIBRARIES.append(torch.library.Library(namespace, "IMPL"))
        kernel = make_foreign_kernel(getattr(torch.ops, namespace), name, make_kernel)
        _LIBRARIES[-1].impl(name, kernel, _NAME, with_keyset=True)
    with warnings.catch_warnings(action="ignore"):  # torch warns about overridden kernels
        install_sparse_kernels(library, make_kernel)
    # Higher-order operators such as torch.cond require a kernel or fallthrough for every key.
    # The operators in the branches of torch.cond are checked.
    getattr(torch._ops, "_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS", []).append(_KEY)
    for each in torch._ops._higher_order_ops.values():
        each.fallthrough(_KEY)


def make_foreign_kernel(namespace: Any, name: str, make_kernel: MakeKernel) -> Kernel:
    """Return a kernel that looks up its operator when the kernel is first called."""

    @cache
    def find_kernel() -> Kernel:
        return make_kernel(getattr(namespace, name).default)

    def check_foreign_call(keys: Any, /, *args: Any, **kwargs: Any) -> Any:
        return find_kernel()(keys, *args, **kwargs)

    return check_foreign_call


def is_switched_on() -> bool:
    """Return whether this thread is in a block, but not inside a check."""
    excluded = torch._C._dispatch_tls_is_dispatch_key_excluded(_KEY)
    return bool(torch._C._dispatch_tls_is_dispatch_key_included(_KEY)) and not excluded


def switch_kernels(on: bool) -> bool:
    """Switch the kernels on or off for this thread; return whether they were on."""
    before = bool(torch._C._dispatch_tls_is_dispatch_key_included(_KEY))
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, on)
    return before


def call_below(operator: Any, keys: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator, and check the operators that it calls."""
    return operator.redispatch(keys & _BELOW, *args, **kwargs)


def call_checked(operator: Any, keys: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator without checking the operators that it calls."""
    with torch._C._ExcludeDispatchKeyGuard(_OWN):
        return operator.redispatch(keys & _BELOW, *args, **kwargs)


def name_traced_values(arguments: Iterable[Any]) -> None:
    """Name arguments in a graph of `torch.jit.trace` after the program's variables.

    Torch would use the variable names of the calling frame, which is the frame of a kernel.
    """
    caller = sys._getframe(2).f_back
    variables = caller.f_locals if caller else {}
    names = {id(value): name for name, value in reversed(variables.items())}
    for each in tree_leaves([*arguments]):
        name = names.get(id(each), "self")
        if isinstance(each, torch.Tensor) and name != "self":
            value = torch._C._get_value_trace(each)
            if value.debugName().isdigit():  # torch numbers unnamed values
                value.setDebugName(name)


class HiddenChecks:
    """A context manager that hides checks from the program's modes, transforms and tracers."""

    def __enter__(self) -> None:
        self.functions = torch._C.DisableTorchFunction()
        self.keys = torch._C._ExcludeDispatchKeyGuard(_HIDDEN)
        self.tracing = torch._C._get_tracing_state()
        if self.tracing is not None:  # reset the state before excluding the tracer's key
            torch._C._set_tracing_state(None)
        self.functions.__enter__()
        self.keys.__enter__()

    def __exit__(self, *error: object) -> None:
        self.keys.__exit__(*error)
        self.functions.__exit__(*error)
        if self.tracing is not None:
            torch._C._set_tracing_state(self.tracing)


def is_traced() -> bool:
    """Return whether a dispatch mode is tracing a graph or computing only shapes."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    return any(torch._C._get_dispatch_mode(key) is not None for key in _MODES)


def unwrap_values(values: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor without `torch.func` wrappers, with its batch axes first."""
    functorch, axes = torch._C._functorch, []
    if type(values).__module__ in ("torch_geometric.edge_index", "torch_geometric.index"):
        values = values.as_tensor()
    while functorch.is_functorch_wrapped_tensor(values):
        if functorch.is_functionaltensor(values):
            return None  # a functional tensor has no values yet
        if functorch.is_batchedtensor(values):
            axes.append(functorch.maybe_get_bdim(values))
        values = functorch.get_unwrapped(values)
    for number, axis in enumerate(reversed(axes)):
        values = values.movedim(number + axis, number)
    return values


def is_readable(values: torch.Tensor) -> bool:
    """Return whether a tensor has values that can be read now."""
    if values.numel() == 0 or values.is_nested or values.layout != torch.strided:
        return False
    if type(values).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
        return False
    if values.is_cpu:
        return True
    return not (values.is_meta or (values.is_cuda and torch.cuda.is_current_stream_capturing()))
