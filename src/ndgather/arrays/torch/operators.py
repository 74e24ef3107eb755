"""The operators ``torch.ops.ndgather.*``, which torch, its transforms and its compilers use.

The CPU kernel calls the core. The kernel for CUDA and ROCm launches Triton kernels if Triton is
installed. The kernel for all other devices is composed of torch functions. Derivatives use the same
dispatch key as torch's own operators, which torch handles after `torch.func` and before the device,
so that gradients, tangents and `vmap` nest in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack

from ndgather import foreign, reductions, slow_path
from ndgather.arguments import updates_do_not_fit
from ndgather.array_call import Call, Kind, Mode, _core, replace
from ndgather.arrays import lowering
from ndgather.arrays.torch import autograd, checks, composition
from ndgather.arrays.torch.checks import call_of
from ndgather.errors import ShapeError
from ndgather.messages import batch_sizes_differ

LIBRARY = torch.library.Library("ndgather", "DEF")
_VMAP = torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)


def register() -> None:
    LIBRARY.define(
        "fill_value(Tensor value, ScalarType dtype, Device device, str caller) -> Tensor",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    LIBRARY.impl("fill_value", _fill_value, "CompositeExplicitAutograd")
    torch.library.register_fake("ndgather::fill_value", _fake_fill_value, lib=LIBRARY)
    on_cpu = run_on_gpu if checks.INTERPRETED else run
    for kind in checks.OPTIONS:
        LIBRARY.define(checks.schema(kind), tags=(torch.Tag.pt2_compliant_tag,))
        LIBRARY.impl(kind, partial(_kernel, on_cpu, kind), "CPU")
        LIBRARY.impl(kind, partial(_kernel, run_on_gpu, kind), "CUDA")
        LIBRARY.impl(kind, partial(_kernel, composition.run, kind), "CompositeExplicitAutograd")
        LIBRARY.impl(kind, partial(autograd.differentiated, kind), "Autograd")
        torch.library.register_fake(f"ndgather::{kind}", partial(_fake, kind), lib=LIBRARY)
        LIBRARY.impl(kind, partial(_batched, kind), "FuncTorchBatched")


@cache
def _kernels() -> Any:
    """Return the module of the Triton kernels, or None if Triton is disabled or missing."""
    if checks.KERNELS == "0" or not find_spec("triton"):
        return None
    return import_module("ndgather.arrays.torch.kernels")


def run_on_gpu(call: Call, check: Callable[[Call], Call] | None = None) -> torch.Tensor:
    """Run a call on CUDA or ROCm tensors.

    `check` validates the options of the call, or is None if the options are already valid. The
    Triton kernels validate only the first call with each signature.
    """
    kernels = _kernels()
    if kernels is not None:
        result: torch.Tensor = kernels.run(call, check)
        return result
    return composition.run(call if check is None else check(call))


def _kernel(run: Callable[[Call], torch.Tensor], kind: str, *arguments: Any) -> torch.Tensor:
    call = checks.checked(call_of(kind, arguments))
    if call.fill_value is not None:  # data must be able to represent the fill value
        checks.fill_number(call.caller, call.fill_value, call.data.dtype)
    return run(call)


def _fill_value(
    value: torch.Tensor, dtype: torch.dtype, device: torch.device, caller: str
) -> torch.Tensor:
    return torch.tensor(checks.fill_number(caller, value, dtype), dtype=dtype, device=device)


def _fake_fill_value(
    value: torch.Tensor, dtype: torch.dtype, device: torch.device, _: str
) -> torch.Tensor:
    return value.new_empty((), dtype=dtype, device=device)


def _fake(kind: str, *arguments: Any) -> torch.Tensor:
    """Return a fake result, and record guards for symbolic sizes."""
    call = checks.checked(call_of(kind, arguments))
    data, indices = call.data.shape, call.indices.shape
    if _has_known_shapes(call):
        slices = checks.check_shapes(call)
    else:
        lowering.check_shapes(call, data, indices)
        for axis in range(call.batch_dims):
            error = partial(batch_sizes_differ, call.caller, axis, data, indices)
            _require(data[axis] == indices[axis], error)
        slices = tuple(lowering.layout_of(call, data, indices).result)
        if call.scatters:
            updates = call.updates.shape
            error = partial(updates_do_not_fit, call, data, indices, slices, updates)
            _require(len(updates) == len(slices), error)
            for size, wanted in zip(updates, slices, strict=True):
                _require(size == wanted, error)
    return call.data.new_empty(data if call.scatters else slices)


def _require(condition: Any, error: Callable[[], ShapeError]) -> None:
    """Raise an error if a condition on sizes is false. If it is unknown, record it as a guard."""
    from torch.fx.experimental.symbolic_shapes import guard_or_true  # noqa: PLC0415 - slow

    if not guard_or_true(condition):
        raise error()
    torch._check(condition)


def _has_known_shapes(call: Call) -> bool:
    return all(type(size) is int for _, tensor in checks.tensors(call) for size in tensor.shape)


def _batched(kind: str, *arguments: Any) -> torch.Tensor:
    """Run a call under `vmap`. The batching rules of `torch.library` take 45 us longer per call."""
    count, level = checks.count_of_tensors(kind), functorch.current_level()
    unwrapped = [functorch._unwrap_batched(tensor, level) for tensor in arguments[:count]]
    tensors, mapped = zip(*unwrapped, strict=True)
    with torch._C._ExcludeDispatchKeyGuard(_VMAP):
        if mapped == (None,) * count:  # the current vmap does not map any tensor
            return getattr(torch.ops.ndgather, kind).default(*arguments)
        result, axis = _mapped(kind, tensors, mapped, arguments[count:])
        return functorch._add_batch_dim(result, axis, level)


def _mapped(
    kind: str,
    tensors: tuple[torch.Tensor, ...],
    mapped: tuple[int | None, ...],
    options: tuple[Any, ...],
) -> tuple[torch.Tensor, int]:
    """Return the result of a call under `vmap` and the mapped axis of the result."""
    bare = map(_entry_of_axis, tensors, mapped)
    call = call_of(kind, (*bare, *options))
    if _has_known_shapes(call):  # check shapes without the mapped axis
        checks.check_shapes(call)
    if not call.scatters and mapped[1] is None and not call.kind.elements:
        # The indices are not mapped, so make the mapped axis of data the last axis of the slices.
        result = _carry_out(replace(call, data=tensors[0].movedim(mapped[0], -1)))
        return result, result.dim() - 1
    if mapped[0] is None and not (call.scatters or call.kind.elements):
        first = 0 if call.kind.windows else call.batch_dims
        result = _carry_out(replace(call, indices=tensors[1].movedim(mapped[1], first)))
        return result, call.axis if call.kind is Kind.GATHER else first

    pairs = list(zip(tensors, mapped, strict=True))
    size = next(tensor.shape[axis] for tensor, axis in pairs if axis is not None)
    data, indices, *updates = (
        tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
        for tensor, axis in pairs
    )
    if call.kind.windows:
        return _mapped_windows(call, data, indices), 0
    wider = replace(call, axis=call.axis + 1, batch_dims=call.batch_dims + 1)
    wider = replace(wider, data=data, indices=indices, updates=updates[0] if updates else None)
    return _carry_out(wider), 0


def _carry_out(call: Call) -> torch.Tensor:
    """Run a call outside the current `vmap`, or as an operator if the core refuses the call."""
    return checks.carry_out(call, temporarily_pop_interpreter_stack())


def _entry_of_axis(tensor: torch.Tensor, axis: int | None) -> torch.Tensor:
    """Return the first entry along an axis, or an uninitialized tensor if the axis is empty."""
    if axis is None:
        return tensor
    if tensor.shape[axis]:
        return tensor.select(axis, 0)
    return tensor.new_empty((*tensor.shape[:axis], *tensor.shape[axis + 1 :]))


def _mapped_windows(call: Call, data: Any, starts: Any) -> torch.Tensor:
    """Gather windows of size 1 along the mapped axis."""
    number = torch.arange(len(starts), device=starts.device)
    number = number.reshape(-1, *(1,) * (starts.dim() - 1)).expand(*starts.shape[:-1], 1)
    starts = torch.cat([number, composition.TorchLibrary(data).integers(starts, None)], -1)
    mode = (Mode.RAISE, *call.mode) if isinstance(call.mode, tuple) else call.mode
    wider = replace(call, data=data, indices=starts, window_shape=(1, *call.window_shape))
    return _carry_out(replace(wider, mode=mode)).squeeze(starts.dim() - 1)


@dataclass(frozen=True)
class _InCore(composition.Steps):
    """Multi-step reductions in the core, for dtypes that NumPy does not support."""

    call: Call

    def scatter(self, data: torch.Tensor, updates: torch.Tensor, reduction: str) -> torch.Tensor:
        step = replace(self.call, data=data, updates=updates, reduction=reduction)
        return run(replace(step, use_init_val=True, out=None))


def run(call: Call) -> torch.Tensor:
    """Run a call on CPU tensors in the core, without recording a gradient."""
    dtype, options = call.data.dtype, (call.reduction, call.use_init_val)
    if call.scatters and dtype not in checks.NUMPY and not reductions.in_one_step(*options):
        steps = _InCore(call), call.data, call.updates, *options
        return _core.in_default_environment(reductions.in_steps, *steps)
    arrays = _with_arrays(call)
    carry_out = slow_path.run if arrays.arithmetic is None else slow_path.run_plain
    try:
        result = carry_out(arrays)
    except ShapeError:
        checks.check_shapes(call)  # raises a ShapeError with a hint for tensors
        raise
    return checks.tensor_of(result, dtype) if call.out is None else call.out


def _with_arrays(call: Call) -> Call:
    for name, tensor in [*checks.tensors(call), ("out", call.out)]:
        if tensor is not None:
            foreign.check_storage(call.caller, name, tensor)
    arrays: dict[str, Any] = {
        "data": checks.array_of(call.data),
        "indices": checks.array_of(call.indices),
    }
    if call.out is not None:
        arrays["out"] = checks.bits_of(call.out.detach()).numpy()
    if call.scatters:
        arrays["updates"] = checks.array_of(call.updates)
        arrays["arithmetic"] = checks.for_core(call.data.dtype, call.reduction)
    elif call.fill_value is not None:
        fill = torch.tensor(call.fill_value, dtype=call.data.dtype, device="cpu")
        arrays["fill_value"] = checks.array_of(fill)
    return replace(call, **arrays)
