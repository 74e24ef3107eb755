"""The operators ``torch.ops.ndgather.*``: what torch, its transforms and its compilers see.

A kernel of the processor calls the core; one for all other devices composes torch's functions. The
rule of differentiation stands at the place of torch's own, below `torch.func` and above the
devices, so that gradients, tangents and `vmap` nest in any order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _is_fwd_grad_enabled, _set_fwd_grad_enabled, unpack_dual
from torch.autograd.function import _SingleLevelFunction

from ndgather import plain_arrays
from ndgather.arrays.torch import (
    batching,
    calls,
    checks,
    composition,
    derivatives,
    elements,
    fakes,
    host,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call

LIBRARY = torch.library.Library("ndgather", "DEF")


def _on_host(kind: str, *arguments: Any) -> torch.Tensor:
    return host.run(_checked(kind, arguments))


def _composed(kind: str, *arguments: Any) -> torch.Tensor:
    call = _checked(kind, arguments)
    checks.check_shapes(call)
    return composition.run(call)


def _checked(kind: str, arguments: tuple[Any, ...]) -> Call:
    tensors, options = calls.tensors_of(kind, arguments), calls.options_of(kind, arguments)
    call = checks.checked(calls.call_of(kind, tensors, options))
    known = elements.numpy_dtype(call.data.dtype)
    if call.fill_value is not None and known is not None:
        plain_arrays.fill_element(call.caller, call.fill_value, known)  # refuses what is lost
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
    if calls.reduction_of(kind, options) in derivatives.OF_VALUES:
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
    return calls.call_of(ctx.kind, (data, indices, *(rest or [None])), ctx.options), result


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
    for kind in calls.OPTIONS:
        LIBRARY.define(calls.schema(kind), tags=(torch.Tag.pt2_compliant_tag,))
        LIBRARY.impl(kind, partial(_on_host, kind), "CPU")
        LIBRARY.impl(kind, partial(_composed, kind), "CompositeExplicitAutograd")
        LIBRARY.impl(kind, partial(_differentiated, kind), "Autograd")
        torch.library.register_fake(f"ndgather::{kind}", partial(fakes.result, kind), lib=LIBRARY)
        torch.library.register_vmap(f"ndgather::{kind}", partial(batching.rule, kind), lib=LIBRARY)
