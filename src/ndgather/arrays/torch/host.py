"""Calls on tensors in the memory of the processor: the core has them as arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ndgather import fallback
from ndgather.arrays.torch import checks, elements, steps
from ndgather.errors import tensor_errors
from ndgather.explain import explain

if TYPE_CHECKING:
    from ndgather.array_call import Call


def run(call: Call) -> torch.Tensor:
    """Carry out a call on tensors of the processor, without a gradient.

    Raises
    ------
    NdgatherError
        The core refuses the call.
    """
    dtype = call.data.dtype
    if elements.numpy_dtype(dtype) is None and call.scatters and steps.needed(call):
        return steps.run(call, run)
    arrays = with_arrays(call)
    result = fallback.run(arrays) if arrays.arithmetic is None else _of_bits(arrays)
    return elements.tensor_of(result, dtype) if call.out is None else call.out


def _of_bits(call: Call) -> Any:
    """Return the result of a scatter whose elements NumPy does not know."""
    result = call.run()
    if not isinstance(result, tuple):
        return result
    if result[0] != "out_overlaps_input":
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
        "data": elements.array_of(call.data),
        "indices": elements.array_of(call.indices),
    }
    if call.out is not None:
        given["out"] = elements.bits_of(call.out.detach()).numpy()
    if call.scatters:
        given["updates"] = elements.array_of(call.updates)
        given["arithmetic"] = elements.for_core(call.data.dtype, call.reduction)
    elif call.fill_value is not None:
        fill = torch.tensor(call.fill_value, dtype=call.data.dtype)
        given["fill_value"] = elements.array_of(fill)
    return replace(call, **given)
