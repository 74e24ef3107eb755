"""What makes a tensor a plain piece of memory, which the core takes without this package."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from ndgather import exchange

KINDS = (torch.Tensor, torch.nn.Parameter)

# Wrappers of `torch.func` refuse the exchange by themselves, and subclasses are not accepted.
_TRANSFORMS: tuple[exchange.Transform, ...] = (
    torch._C._len_torch_dispatch_stack,  # such as that of fake tensors
    torch._C._get_tracing_state,  # of torch.jit.trace
    (vars(forward_ad), "_current_level", -1),  # tensors may have tangents
)


def accept() -> None:
    """Let the core take tensors in the memory of the CPU that are nothing but that."""
    for kind in KINDS:
        exchange.accept(
            kind,
            gradient="requires_grad",
            records=torch.is_grad_enabled,
            negated=torch.Tensor.is_neg,
            conjugated=torch.Tensor.is_conj,
            transforms=_TRANSFORMS,
            written=written,
            whole_bytes=(torch.int8, torch.uint8),
        )


def written(out: torch.Tensor) -> None:
    """Let what saved a tensor for a backward pass see that it was written to since."""
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)
