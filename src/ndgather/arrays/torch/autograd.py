"""Calls of plain tensors with a gradient and nothing else at work: past the dispatcher of torch.

Autograd alone is told of them, in the fewest steps: what the operators do for every transform takes
longer than a small call. Tangents are not saved, as none are at work.
"""

from __future__ import annotations

import math
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _are_functorch_transforms_active, _get_tracing_state, _len_torch_dispatch_stack
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from ndgather import dispatch, slow_path
from ndgather.array_call import Refusal, _core
from ndgather.arrays.torch import checks, composition, derivatives
from ndgather.arrays.torch.operators import Gather, Scatter, remember
from ndgather.errors import argument_errors, shape_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call


# Of the arguments of the core, those that are options of an operator; what follows has its default.
_OPTIONS = {
    kind: itemgetter(
        *(_core.ARGUMENTS.index(n) for n in checks.OPTIONS[kind] if n in _core.ARGUMENTS)
    )
    for kind in _core.KINDS
}
_OUT = _core.ARGUMENTS.index("out")
_FILL = _core.ARGUMENTS.index("fill_value")
_NO_OTHERS = (None,) * 3  # memory, progress, executor: the last arguments


class NotDirectError(Exception):
    """The core does not take a call by itself."""


class RecordedGather(Gather):
    """A gather by the core itself, whose backward pass may be asked for."""

    setup_context = staticmethod(_SingleLevelFunction.setup_context)

    @staticmethod
    def forward(  # type: ignore[override]  # torch takes either form
        ctx: Any, kind: str, arguments: tuple[Any, ...], _: None, data: Any, indices: Any
    ) -> Any:
        result: Any = _core.run(kind, *arguments)  # it takes them: no gradient is recorded in here
        if isinstance(result, Refusal):
            raise NotDirectError
        ctx.kind, ctx.options, ctx.shapes = kind, _OPTIONS[kind](arguments), (data.shape,)
        ctx.save_for_backward(indices.clone() if indices.is_inference() else indices)
        return result


class RecordedScatter(Scatter):
    """The same for a scatter."""

    setup_context = staticmethod(_SingleLevelFunction.setup_context)

    @staticmethod
    def forward(  # type: ignore[override]  # as above
        ctx: Any, kind: str, arguments: tuple[Any, ...], _: None, *tensors: Any
    ) -> Any:
        result: Any = _core.run(kind, *arguments)
        if isinstance(result, Refusal):
            raise NotDirectError
        remember(ctx, kind, _OPTIONS[kind](arguments), tensors, result)
        return result


def direct(kind: str, *arguments: Any) -> Any:
    """Make a call of the core on plain tensors with a gradient and nothing else at work.

    NotImplemented where it is another one, or the core refuses it.
    """
    data, indices, updates = arguments[:3]
    scatters = updates is not None
    if (
        type(data) not in checks.KINDS
        or type(indices) not in checks.KINDS
        or (scatters and type(updates) not in checks.KINDS)
        or not (data.requires_grad or (scatters and updates.requires_grad))
        or kind not in _OPTIONS
        or arguments[_OUT] is not None
        or arguments[_FILL] is not None
        or arguments[-3:] != _NO_OTHERS
        or not torch.is_grad_enabled()
        or forward_ad._current_level >= 0
        or _are_functorch_transforms_active()
        or _len_torch_dispatch_stack()
        or _get_tracing_state() is not None
    ):
        return NotImplemented
    try:
        if scatters:
            return RecordedScatter.apply(kind, arguments, None, data, indices, updates)
        return RecordedGather.apply(kind, arguments, None, data, indices)
    except NotDirectError:
        return NotImplemented


def register() -> None:
    """Let the dispatch try such a call first."""
    for kind_of_tensor in checks.KINDS:
        dispatch.SHORT_CUTS[kind_of_tensor] = direct


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, in which `data` is the cotangent of its result.

    That of data for a gather from data of `data_shape`, those of data and updates for a scatter.

    Raises
    ------
    NdgatherError
        The shapes or types do not fit, or an index is out of bounds.
    """
    of_result = call.data
    if not isinstance(of_result, torch.Tensor):
        array = slow_path.plain_array(call.caller, "cotangent", of_result)
        of_result = checks.tensor(call.caller, "cotangent", array, torch.device("cpu"))
    checks.check_layout(call.caller, "cotangent", of_result)
    if of_result.dtype == torch.bool:
        raise argument_errors.cotangent_dtype(call.caller, of_result.dtype)
    shape = of_result.shape if data_shape is None else data_shape
    if math.prod(max(size, 1) for size in shape) * of_result.itemsize >= 2**63:
        raise argument_errors.result_too_large(call.caller, tuple(shape))
    like = of_result.detach().new_empty(()).expand(shape)  # its shape is enough
    gather = replace(call, kind=call.kind.replace("scatter", "gather"), data=like)
    gather = checks.with_tensors(replace(gather, updates_name="cotangent"))
    slices = checks.check_shapes(gather)
    if data_shape is None:
        updates = like.new_empty(()).expand(slices)
        scatter = replace(gather, kind=call.kind, updates=updates)
        of_data, of_updates = derivatives.scatter_back(scatter, like, of_result, (True, True))
        return of_data.clone() if of_data is of_result else of_data, of_updates
    if tuple(of_result.shape) != slices:
        raise shape_errors.updates_do_not_fit(
            call.caller, tuple(of_result.shape), slices, "cotangent"
        )
    if call.kind == "gather_windows":
        composition.places(gather)  # so that an error names an entry of starts
    return derivatives.gather_back(gather, of_result)
