"""The functions of `ndgather.vjp` on tensors: the rules of differentiation by themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ndgather import plain_arrays
from ndgather.arrays.torch import arguments, checks, derivatives, places
from ndgather.errors import argument_errors, shape_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call


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
        array = plain_arrays.plain_array(call.caller, "cotangent", of_result)
        of_result = arguments.tensor(call.caller, "cotangent", array, torch.device("cpu"))
    checks.check_layout(call.caller, "cotangent", of_result)
    if of_result.dtype == torch.bool:
        raise argument_errors.cotangent_dtype(call.caller, of_result.dtype)
    shape = of_result.shape if data_shape is None else data_shape
    if math.prod(max(size, 1) for size in shape) * of_result.itemsize >= 2**63:
        raise argument_errors.result_too_large(call.caller, tuple(shape))
    like = of_result.detach().new_empty(()).expand(shape)  # its shape is enough
    gather = replace(call, kind=call.kind.replace("scatter", "gather"), data=like)
    gather = arguments.with_tensors(replace(gather, updates_name="cotangent"))
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
        places.places(gather)  # so that an error names an entry of starts
    return derivatives.gather_back(gather, of_result)
