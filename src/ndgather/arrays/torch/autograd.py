"""Derivatives of the operators, and `ndgather.vjp`.

A gather is linear, so its tangent is the same gather applied to the tangent of data. The transpose
of a gather adds each slice to the elements of data from which the slice was read. In a scatter, an
element of the result changes by ``of_data * d(data) + sum(of_updates * d(update))``. The forward
and backward derivatives of all reductions follow from `of_data` and `of_updates`; see `weights`.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _is_fwd_grad_enabled, _set_fwd_grad_enabled, unpack_dual
from torch.autograd.function import _SingleLevelFunction

from ndgather import arguments, messages, slow_path
from ndgather.array_call import Call, Kind, Mode, _core, replace
from ndgather.arrays import lowering
from ndgather.arrays.torch import checks, composition
from ndgather.arrays.torch.checks import operate
from ndgather.reductions import ROWS

_LARGEST_POWER = 1000  # exponent of 2, within the range -1022..1023 with full precision in float64
_ZERO = 4096  # each zero adds this to the sum of exponents, which therefore also counts zeros


def gather_back(call: Call, of_result: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a gather with respect to data, using only the shape of data."""
    mode = Mode.DROP if call.fills else call.mode
    # The zeros are broadcast to save memory, and the core's threads copy them to the result.
    zeros = of_result.new_zeros(call.data.shape[-1:]).expand(call.data.shape)
    back = replace(call, mode=mode, fill_value=None, reduction="add", data=zeros, updates=of_result)
    if call.kind is Kind.GATHER_ND or call.kind.elements:
        return checks.carry_out(replace(back, kind=call.kind.scatter))
    if call.kind.windows:
        inside = [Mode.CLIP if mode == Mode.RAISE else mode for mode in call.modes]
        valid = replace(call, mode=arguments.window_mode(call.caller, inside, len(inside)))
        count, numbers = composition.row_numbers(valid)
        rest = call.data.shape[len(call.window_shape) :]
        rows = replace(
            back,
            kind=Kind.SCATTER_ND,
            data=zeros.reshape(count, *rest),
            indices=numbers[:, None],
            updates=of_result.reshape(len(numbers), *rest),
            mode=Mode.DROP,
            window_shape=(),
        )
        return checks.carry_out(rows).reshape(call.data.shape)
    first, axis, ends = call.batch_dims, call.axis, call.indices.dim()
    moved = replace(
        back,
        kind=Kind.SCATTER_ND,
        data=zeros.movedim(axis, first),
        indices=call.indices.unsqueeze(-1),
        updates=of_result.movedim(
            tuple(range(first, axis)), tuple(range(ends, ends + axis - first))
        ),
    )
    return checks.carry_out(moved).movedim(first, axis)


def scatter_back(
    call: Call, result: torch.Tensor | None, of_result: torch.Tensor, wanted: tuple[bool, bool]
) -> tuple[Any, Any]:
    """Return the gradients with respect to data and updates, or None for an unwanted gradient."""
    conjugates = [None if each is None else each.conj() for each in weights(call, result, wanted)]
    of_data = _weighted(of_result, conjugates[0]) if wanted[0] else None
    of_updates = _weighted(_gather_like(call, of_result), conjugates[1]) if wanted[1] else None
    return of_data, of_updates


def _weighted(change: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """Return ``change * weight``. A boolean weight of False gives 0, even if the change is NaN."""
    if weight is None:
        return change
    return torch.where(weight, change, 0) if weight.dtype == torch.bool else change * weight


def scatter_ahead(
    call: Call,
    result: torch.Tensor | None,
    of_data: torch.Tensor | None,
    of_updates: torch.Tensor | None,
) -> torch.Tensor:
    """Return the tangent of a scatter's result."""
    data_weight, update_weight = weights(
        call, result, (of_data is not None, of_updates is not None)
    )
    of_data = torch.zeros_like(call.data) if of_data is None else _weighted(of_data, data_weight)
    if of_updates is None:
        return of_data
    return _scattered(call, of_data, _weighted(of_updates, update_weight), "add")


def _gather_like(call: Call, data: torch.Tensor) -> torch.Tensor:
    """Return the element of `data` at the index of each update, or 0 for a dropped update."""
    return checks.carry_out(call.as_gather(data=data, fill_value=None))


def _scattered(
    call: Call, data: torch.Tensor, updates: torch.Tensor, reduction: str
) -> torch.Tensor:
    """Scatter updates at the indices of `call`. Reductions start from the elements of `data`."""
    step = replace(call, data=data, updates=updates, reduction=reduction, use_init_val=True)
    return checks.carry_out(step)


def weights(call: Call, result: torch.Tensor | None, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
    """Return the partial derivatives with respect to data and updates. None stands for 1."""
    data, updates, reduction = call.data, call.updates, call.reduction
    steps, row = composition.Steps(), ROWS[reduction]
    rule = row.derivative
    of_data: Any = None
    of_updates: Any = None
    untouched: Any = None  # True for elements without updates, or None if not needed
    if (reduction == "none" or not call.use_init_val) and (wanted[0] or result is not None):
        untouched = torch.ones_like(data, dtype=torch.bool, memory_format=torch.contiguous_format)
        replaced = torch.zeros_like(updates, dtype=torch.bool)
        untouched = _scattered(call, untouched, replaced, "none")
    if reduction == "none":  # only the last update of an element has an effect
        if wanted[1]:
            order = torch.arange(updates.numel(), device=data.device).reshape(updates.shape)
            last = _scattered(call, steps.counts(data, -1), order, "none")
            of_updates = _gather_like(call, last) == order
    elif rule == "moves":
        of_updates = None if row.added == 1 else updates.new_tensor(row.added)
    elif rule == "counts":
        first = steps.counts(data, int(call.use_init_val))
        counts = _scattered(call, first, steps.ones(updates), "add")
        wide = steps.wide(data.dtype.to_real())[1]
        of_data = (1 / counts.clamp(min=1).to(wide)).to(data.dtype)
        of_updates = _gather_like(call, of_data) if wanted[1] else None
    elif rule == "others":
        divided = _divided_products(call) if wanted[1] else None
        if divided is not None:
            of_data, of_updates = divided
        elif wanted[0] and call.use_init_val:
            of_data = checks.carry_out(replace(call, data=torch.ones_like(data)))
        if wanted[1] and divided is None:
            valid = replace(call, mode="wrap") if call.mode == "raise" else call
            count, rows = composition.row_numbers(valid)
            factors = updates.reshape(len(rows), updates.numel() // max(len(rows), 1))
            factors = torch.where(rows[:, None] < count, factors, 1)
            of_updates = lowering.products_of_others(torch, factors, rows).reshape(updates.shape)
        if wanted[1]:
            of_updates = of_updates * _gather_like(call, data) if call.use_init_val else of_updates
            of_updates = of_updates.to(data.dtype)
    else:  # operands of min and max that equal the result share the derivative
        assert result is not None
        hits = lowering.equal(updates, _gather_like(call, result)).to(data.dtype)
        kept = lowering.equal(data, result)
        kept = (kept if untouched is None else kept & untouched).to(data.dtype)
        share = 1 / _scattered(call, kept, hits, "add").clamp(min=1)
        of_data, of_updates = kept * share, hits * _gather_like(call, share)
    return (of_data if untouched is None else untouched), of_updates


def _divided_products(call: Call) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the product of each element's updates, and for each update the product of the others.

    Division is ten times as fast as sorting the updates. Return None if a product might overflow
    float64, if the result must be differentiable, if a transform hides the values, or if data is
    not on the CPU.
    """
    data, updates = call.data, call.updates
    if torch.is_grad_enabled() or not checks.is_plain(call) or data.device.type != "cpu":
        return None
    factors = updates.to(torch.complex128 if updates.is_complex() else torch.float64, copy=True)
    sizes, zeros = updates.abs().to(torch.float32), None
    if not updates.numel() or not bool(sizes.min() > 0):
        zeros = factors == 0
        factors.masked_fill_(zeros, 1)
    # The sum of the absolute logarithms bounds every partial product.
    # For example, 8 and 1/4 have the logarithms 3 and -2, so products are between 2**-5 and 2**5.
    powers = sizes.log2_().abs_()
    if zeros is not None:
        powers.masked_fill_(zeros, _ZERO)
    nothing = torch.zeros((), dtype=torch.float64).expand(data.shape)
    powers = _scattered(call, nothing, powers.to(torch.float64), "add")
    counts = powers // _ZERO
    if not bool((powers - counts * _ZERO < _LARGEST_POWER).all()):  # too large, or NaN
        return None
    ones = torch.ones((), dtype=factors.dtype).expand(data.shape)
    products = _scattered(call, ones, factors, "mul")
    if zeros is None:
        return products.to(data.dtype), _gather_like(call, products).div_(factors)
    whole, of_one = torch.where(counts == 0, products, 0), torch.where(counts == 1, products, 0)
    others = _gather_like(call, whole).div_(factors)
    return whole.to(data.dtype), torch.where(zeros, _gather_like(call, of_one), others)


def _save(
    ctx: Any, kind: str, options: tuple[Any, ...], tensors: tuple[Any, ...], output: torch.Tensor
) -> list[torch.Tensor]:
    """Save the options and tensors that derivatives of a call need, and return the tensors."""
    data, indices, *rest = tensors
    ctx.kind, ctx.options = kind, options
    ctx.shapes = [tensor.shape for tensor in (data, *rest)]
    ctx.set_materialize_grads(False)
    reduction = dict(zip(checks.OPTIONS[kind], options, strict=False)).get("reduction", "none")
    of_values = ROWS[reduction].derivative in ("others", "equals")
    saved = [indices, data, *rest, output] if of_values else [indices]
    saved = [tensor.clone() if tensor.is_inference() else tensor for tensor in saved]
    ctx.save_for_backward(*saved)
    return saved


def _call(
    ctx: Any, change: torch.Tensor, *, has_tangents: bool = False
) -> tuple[Call, torch.Tensor | None]:
    """Return the call and the result that were saved to compute a derivative.

    If the derivative does not depend on values, the result is None, and data and updates are
    uninitialized tensors with the dtype and device of `change`, a gradient or tangent.
    """
    indices, *saved = ctx.saved_tensors
    if has_tangents:
        saved = [unpack_dual(tensor).primal for tensor in saved]
    result = saved.pop() if saved else None
    none = torch.empty((), dtype=change.dtype, device=change.device)
    data, *rest = saved or map(none.expand, ctx.shapes)
    return checks.call_of(ctx.kind, (data, indices, *rest, *ctx.options)), result


class Ndgather(_SingleLevelFunction):  # type: ignore[misc]  # torch has no types here
    """An autograd function for one level of nested `torch.func` transforms."""

    @staticmethod
    def forward(
        kind: str, options: tuple[Any, ...], state: tuple[bool, bool], *tensors: Any
    ) -> torch.Tensor:
        # Another level of torch.func may differentiate this operator call again.
        below, (grad, ahead) = torch._C._AutoDispatchBelowAutograd(), state
        with below, torch.set_grad_enabled(grad), _set_fwd_grad_enabled(ahead):
            return getattr(torch.ops.ndgather, kind).default(*tensors, *options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        kind, options, ctx.state, *tensors = inputs
        ctx.save_for_forward(*_save(ctx, kind, options, tuple(tensors), output))

    @staticmethod
    def backward(ctx: Any, of_result: torch.Tensor | None) -> tuple[Any, ...]:
        wanted = ctx.needs_input_grad
        gradients: list[Any] = [None] * len(wanted)
        if of_result is not None:
            call, result = _call(ctx, of_result)
            if call.scatters:
                which = wanted[3], wanted[5]
                pair = _core.in_default_environment(scatter_back, call, result, of_result, which)
                gradients[3], gradients[5] = pair
            elif wanted[3]:
                gradients[3] = gather_back(call, of_result)
        return tuple(gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        of_data, _, *of_updates = tangents[3:]
        change = of_updates[0] if of_data is None else of_data
        with torch.set_grad_enabled(ctx.state[0]), _set_fwd_grad_enabled(ctx.state[1]):
            call, result = _call(ctx, change, has_tangents=True)
            if call.scatters:
                changes = of_data, *of_updates
                return _core.in_default_environment(scatter_ahead, call, result, *changes)
            return operate(replace(call, data=of_data, fill_value=None))  # fill values are constant


def differentiated(kind: str, *arguments: Any) -> torch.Tensor:
    """Run an operator, and record its derivative if a tensor needs one."""
    count = checks.count_of_tensors(kind)
    state = torch.is_grad_enabled(), _is_fwd_grad_enabled()
    with enable_single_level_autograd_function():
        result: torch.Tensor = Ndgather.apply(kind, arguments[count:], state, *arguments[:count])
        return result


# Getters for the operator options that the core also has. Other options keep their defaults.
_OPTIONS = {
    kind: attrgetter(*(name for name in names if name in _core.ARGUMENTS))
    for kind, names in checks.OPTIONS.items()
}


class NdgatherCore(Ndgather):
    """An autograd function that calls the core directly and supports only backward passes."""

    setup_context = staticmethod(_SingleLevelFunction.setup_context)

    @staticmethod
    def forward(  # type: ignore[override]  # torch accepts either form
        ctx: Any, kind: str, arguments: _core.Arguments, _: None, *tensors: Any
    ) -> Any:
        result: Any = _core.run(arguments)  # torch does not record gradients in `forward`
        if isinstance(result, _core.Refusal):
            result = slow_path.handle_refusal(kind, result, arguments)
        _save(ctx, kind, _OPTIONS[kind](arguments), tensors, result)
        return result


def record(arguments: _core.Arguments) -> Any:
    """Run a call in the core and record its backward pass.

    Torch's dispatcher is bypassed, because dispatching takes longer than a small call.
    """
    tensors = [arguments.data, arguments.indices]
    if arguments.updates is not None:
        tensors.append(arguments.updates)
    return NdgatherCore.apply(arguments.kind, arguments, None, *tensors)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    of_result = call.data
    if not isinstance(of_result, torch.Tensor):
        raise messages.not_an_array(call.caller, "cotangent", of_result, "is not a tensor")
    checks.check_layout(call.caller, "cotangent", of_result)
    if of_result.dtype == torch.bool or checks.numbers(of_result.dtype) is None:
        raise messages.cotangent_dtype(call.caller, of_result.dtype)
    shape = of_result.shape if data_shape is None else data_shape
    if math.prod(max(size, 1) for size in shape) * of_result.itemsize >= 2**63:
        raise messages.result_too_large(call.caller, tuple(shape))
    like = of_result.detach().new_empty(()).expand(shape)  # only this tensor's shape is used
    gather = replace(call, kind=call.kind.gather, data=like)
    gather = checks.with_tensors(replace(gather, updates_name="cotangent"))
    slices = slow_path.result_shape(gather)
    if data_shape is None:
        updates = like.new_empty(()).expand(slices)
        scatter = replace(gather, kind=call.kind, updates=updates)
        of_data, of_updates = scatter_back(scatter, None, of_result, (True, True))
        return of_data.clone() if of_data is of_result else of_data, of_updates
    if tuple(of_result.shape) != slices:
        raise messages.updates_do_not_fit(call.caller, tuple(of_result.shape), slices, "cotangent")
    if call.kind.windows:
        composition.row_numbers(gather)  # raises an error if an entry of starts is out of bounds
    return (gather_back(gather, of_result),)
