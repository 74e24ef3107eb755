"""Calls of plain tensors with a gradient and nothing else at work: past the dispatcher of torch.

Autograd alone is told of them, in the fewest steps: what the operators do for every transform takes
longer than a small call. Tangents are not saved, as none are at work.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import torch
from torch._C import (
    _are_functorch_transforms_active,
    _get_tracing_state,
    _len_torch_dispatch_stack,
)
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from ndgather import dispatch
from ndgather.arrays.torch import calls, plain
from ndgather.arrays.torch.operators import Gather, Scatter, remember
from ndgather.compiled import _core

# Of the arguments of the core, those that are options of an operator; what follows has its default.
_OPTIONS = {
    kind: itemgetter(
        *(_core.ARGUMENTS.index(n) for n in calls.OPTIONS[kind] if n in _core.ARGUMENTS)
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
        if type(result) is tuple:
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
        if type(result) is tuple:
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
        type(data) not in plain.KINDS
        or type(indices) not in plain.KINDS
        or (scatters and type(updates) not in plain.KINDS)
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
    for kind_of_tensor in plain.KINDS:
        dispatch.SHORT_CUTS[kind_of_tensor] = direct
