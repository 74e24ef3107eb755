"""The operators ``torch.ops.ndgather.*``: what torch, its transforms and its compilers see.

A kernel of the processor calls the core; one for all other devices composes torch's functions. The
rule of differentiation stands at the place of torch's own, below `torch.func` and above the
devices, so that gradients, tangents and `vmap` nest in any order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _is_fwd_grad_enabled, _set_fwd_grad_enabled, unpack_dual
from torch.autograd.function import _SingleLevelFunction

from ndgather import slow_path
from ndgather.array_call import Refusal
from ndgather.arrays.torch import checks, composition, derivatives
from ndgather.arrays.torch.checks import call_of, operate, options_of, tensors_of
from ndgather.arrays.torch.composition import signed
from ndgather.errors import tensor_errors
from ndgather.slow_path import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call


def rule(
    kind: str, info: Any, in_dims: tuple[int | None, ...], *arguments: Any
) -> tuple[torch.Tensor, int]:
    """Return the result for every entry of the axis that is mapped, and where that axis stands."""
    tensors = tensors_of(kind, arguments)
    mapped = tensors_of(kind, in_dims)
    bare = tuple(
        each if axis is None else each.select(axis, 0)
        for each, axis in zip(tensors, mapped, strict=True)
    )
    call = call_of(kind, bare, options_of(kind, arguments))
    if not call.scatters and mapped[1] is None and kind != "gather_elements":
        return _data_alone(call, tensors[0], mapped[0])
    if mapped[0] is None and kind in ("gather_nd", "gather", "gather_windows"):
        first = 0 if kind == "gather_windows" else call.batch_dims
        result = operate(replace(call, indices=tensors[1].movedim(mapped[1], first)))
        return result, call.axis if kind == "gather" else first
    size = info.batch_size
    data, indices, updates = (
        _in_front(each, axis, size) for each, axis in zip(tensors, mapped, strict=True)
    )
    if kind == "gather_windows":
        return _windows(call, data, indices, size), 0
    wider = replace(
        call,
        data=data,
        indices=indices,
        updates=updates,
        axis=call.axis + 1,
        batch_dims=call.batch_dims + 1,
    )
    return operate(wider), 0


def _data_alone(call: Call, data: torch.Tensor, axis: int) -> tuple[torch.Tensor, int]:
    """Gather with the same indices from every entry: the axis becomes the last of the slices."""
    result = operate(replace(call, data=data.movedim(axis, -1)))
    return result, result.dim() - 1


def _in_front(tensor: torch.Tensor | None, axis: int | None, size: int) -> torch.Tensor | None:
    if tensor is None:
        return None
    return tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)


def _windows(call: Call, data: torch.Tensor, starts: torch.Tensor, size: int) -> torch.Tensor:
    """Gather windows of size 1 along the axis that is mapped."""
    number = torch.arange(size, device=starts.device, dtype=torch.int64)
    number = number.reshape(-1, *(1,) * (starts.dim() - 1)).expand(*starts.shape[:-1], 1)
    starts = torch.cat([number, signed(starts)], -1)
    wider = replace(call, data=data, indices=starts, window_shape=(1, *call.window_shape))
    return operate(wider).squeeze(starts.dim() - 1)


def result(kind: str, *arguments: Any) -> torch.Tensor:
    """Return a tensor with the shape and type of the result of an operator.

    Raises
    ------
    NdgatherError
        The shapes or types do not fit; where sizes are symbols, torch adds guards or checks.
    """
    tensors, options = checks.tensors_of(kind, arguments), checks.options_of(kind, arguments)
    call = checks.checked(checks.call_of(kind, tensors, options))
    sizes = [size for each in tensors if each is not None for size in each.shape]
    if all(type(size) is int for size in sizes):
        shape = checks.check_shapes(call)
    else:
        shape = slices_shape(call)
        if call.scatters:
            for given, wanted in zip(call.updates.shape, shape, strict=True):
                torch._check(given == wanted)
    return call.data.new_empty(call.data.shape if call.scatters else shape)


def slices_shape(call: Call) -> tuple[Any, ...]:
    """Return the shape of the slices that a call names; sizes may be symbols."""
    data, indices = call.data.shape, call.indices.shape
    if call.kind in ("gather_elements", "scatter_elements"):
        return tuple(indices)
    if call.kind == "gather_windows":
        return (*indices[:-1], *call.window_shape, *data[len(call.window_shape) :])
    first = call.batch_dims
    for axis in range(first):
        torch._check(data[axis] == indices[axis])
    if call.kind == "gather":
        return (*data[: call.axis], *indices[first:], *data[call.axis + 1 :])
    return (*indices[:-1], *data[first + int(indices[-1]) :])


def run(call: Call) -> torch.Tensor:
    """Carry out a call on tensors of the processor, without a gradient.

    Raises
    ------
    NdgatherError
        The core refuses the call.
    """
    dtype = call.data.dtype
    if checks.numpy_dtype(dtype) is None and call.scatters and composition.needed(call):
        return composition.reduce_in_steps(call, run)
    arrays = with_arrays(call)
    result = slow_path.run(arrays) if arrays.arithmetic is None else _of_bits(arrays)
    return checks.tensor_of(result, dtype) if call.out is None else call.out


def _of_bits(call: Call) -> Any:
    """Return the result of a scatter whose elements NumPy does not know."""
    result = call.run()
    if not isinstance(result, Refusal):
        return result
    if result.rule != "out_overlaps_input":
        raise explain(call, result)
    np.copyto(call.out, _of_bits(replace(call, out=None)))
    return call.out


def _check_storage(caller: str, name: str, tensor: torch.Tensor) -> None:
    """Raise the error of a tensor whose storage was made smaller than what it names."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in pairs)
    held = tensor.untyped_storage().nbytes()
    if tensor.numel() and (last + 1) * tensor.element_size() > held:
        raise tensor_errors.storage_too_small(caller, name, tensor.shape, held)


def with_arrays(call: Call) -> Call:
    """Return `call` with arrays that share the memory of its tensors."""
    for name, each in [*checks.tensors(call), ("out", call.out)]:
        if each is not None:
            _check_storage(call.caller, name, each)
    given: dict[str, Any] = {
        "data": checks.array_of(call.data),
        "indices": checks.array_of(call.indices),
    }
    if call.out is not None:
        given["out"] = checks.bits_of(call.out.detach()).numpy()
    if call.scatters:
        given["updates"] = checks.array_of(call.updates)
        given["arithmetic"] = checks.for_core(call.data.dtype, call.reduction)
    elif call.fill_value is not None:
        fill = torch.tensor(call.fill_value, dtype=call.data.dtype)
        given["fill_value"] = checks.array_of(fill)
    return replace(call, **given)


LIBRARY = torch.library.Library("ndgather", "DEF")


def _on_host(kind: str, *arguments: Any) -> torch.Tensor:
    return run(_checked(kind, arguments))


def _composed(kind: str, *arguments: Any) -> torch.Tensor:
    call = _checked(kind, arguments)
    checks.check_shapes(call)
    return composition.run(call)


def _checked(kind: str, arguments: tuple[Any, ...]) -> Call:
    tensors, options = checks.tensors_of(kind, arguments), checks.options_of(kind, arguments)
    call = checks.checked(checks.call_of(kind, tensors, options))
    known = checks.numpy_dtype(call.data.dtype)
    if call.fill_value is not None and known is not None:
        slow_path.fill_element(call.caller, call.fill_value, known)  # refuses what is lost
    return call


def remember(
    ctx: Any, kind: str, options: tuple[Any, ...], tensors: tuple[Any, ...], output: torch.Tensor
) -> list[torch.Tensor]:
    """Keep of a call what its derivatives depend on, and save the tensors for a backward pass."""
    data, indices, *rest = tensors
    ctx.kind, ctx.options = kind, options
    ctx.shapes = [each.shape for each in (data, *rest)]
    ctx.set_materialize_grads(False)
    saved = [indices]
    if checks.reduction_of(kind, options) in derivatives.OF_VALUES:
        saved = [indices, data, *rest, output]
    saved = [each.clone() if each.is_inference() else each for each in saved]
    ctx.save_for_backward(*saved)
    return saved


class _Differentiable(_SingleLevelFunction):  # type: ignore[misc]  # torch has no types here
    """One level of differentiation, of whichever transform is at work."""

    @staticmethod
    def forward(
        kind: str, options: tuple[Any, ...], state: tuple[bool, bool], *tensors: Any
    ) -> torch.Tensor:
        # What is below may be a further level of torch.func, which takes part as it did above.
        below, (grad, ahead) = torch._C._AutoDispatchBelowAutograd(), state
        with below, torch.set_grad_enabled(grad), _set_fwd_grad_enabled(ahead):
            return getattr(torch.ops.ndgather, kind).default(*tensors, *options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        kind, options, ctx.state, *tensors = inputs
        ctx.save_for_forward(*remember(ctx, kind, options, tuple(tensors), output))


def _without_tangent(tensor: torch.Tensor) -> torch.Tensor:
    return unpack_dual(tensor).primal


def _call(
    ctx: Any, change: torch.Tensor, seen: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> tuple[Call, torch.Tensor | None]:
    """Return the call that is differentiated, and its result.

    Where the derivative does not depend on values, its tensors have the shapes alone, with the type
    and the device of `change`, a gradient or a tangent, and the result is None.
    """
    indices, *saved = ctx.saved_tensors
    saved = saved if seen is None else list(map(seen, saved))
    result = saved.pop() if saved else None
    none = torch.empty((), dtype=change.dtype, device=change.device)
    data, *rest = saved or map(none.expand, ctx.shapes)
    return checks.call_of(ctx.kind, (data, indices, *(rest or [None])), ctx.options), result


class Gather(_Differentiable):
    """A gather, as the rules of differentiation see it."""

    @staticmethod
    def backward(ctx: Any, of_result: torch.Tensor | None) -> tuple[Any, ...]:
        of_data = None
        if of_result is not None and ctx.needs_input_grad[3]:
            of_data = derivatives.gather_back(_call(ctx, of_result)[0], of_result)
        return None, None, None, of_data, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        with torch.set_grad_enabled(ctx.state[0]), _set_fwd_grad_enabled(ctx.state[1]):
            call, _ = _call(ctx, tangents[3], _without_tangent)
            return derivatives.gather_ahead(call, tangents[3])


class Scatter(_Differentiable):
    """A scatter, as the rules of differentiation see it."""

    @staticmethod
    def backward(ctx: Any, of_result: torch.Tensor | None) -> tuple[Any, ...]:
        of_data = of_updates = None
        if of_result is not None:
            call, result = _call(ctx, of_result)
            wanted = (ctx.needs_input_grad[3], ctx.needs_input_grad[5])
            of_data, of_updates = derivatives.scatter_back(call, result, of_result, wanted)
        return None, None, None, of_data, None, of_updates

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        *_, of_data, _, of_updates = tangents
        change = of_updates if of_data is None else of_data
        with torch.set_grad_enabled(ctx.state[0]), _set_fwd_grad_enabled(ctx.state[1]):
            call, result = _call(ctx, change, _without_tangent)
            return derivatives.scatter_ahead(call, result, of_data, of_updates)


def _differentiated(kind: str, *arguments: Any) -> torch.Tensor:
    function = Scatter if kind.startswith("scatter") else Gather
    count = 3 if kind.startswith("scatter") else 2
    state = torch.is_grad_enabled(), _is_fwd_grad_enabled()
    with enable_single_level_autograd_function():
        return function.apply(kind, arguments[count:], state, *arguments[:count])


def register() -> None:
    """Make the operators known to torch."""
    for kind in checks.OPTIONS:
        LIBRARY.define(checks.schema(kind), tags=(torch.Tag.pt2_compliant_tag,))
        LIBRARY.impl(kind, partial(_on_host, kind), "CPU")
        LIBRARY.impl(kind, partial(_composed, kind), "CompositeExplicitAutograd")
        LIBRARY.impl(kind, partial(_differentiated, kind), "Autograd")
        torch.library.register_fake(f"ndgather::{kind}", partial(result, kind), lib=LIBRARY)
        torch.library.register_vmap(f"ndgather::{kind}", partial(rule, kind), lib=LIBRARY)
