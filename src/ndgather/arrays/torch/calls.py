"""The operators as rows: what each takes, in the order of its schema, and a call as a `Call`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ndgather.array_call import Call

_GATHER = ("mode", "fill_value", "negative", "caller")
_SCATTER = ("reduction", "mode", "use_init_val", "negative", "caller", "updates_name")
# What stands after data, indices and updates.
OPTIONS = {
    "gather_nd": ("batch_dims", *_GATHER),
    "gather_elements": ("axis", *_GATHER),
    "gather": ("axis", "batch_dims", *_GATHER),
    "gather_windows": ("window_shape", "mode", "fill_value", "caller"),
    "scatter_nd": ("batch_dims", *_SCATTER),
    "scatter_elements": ("axis", *_SCATTER),
}
_TYPES = {
    "axis": "int axis=0",
    "batch_dims": "int batch_dims=0",
    "window_shape": "SymInt[] window_shape",
    "reduction": 'str reduction="none"',
    "mode": 'str mode="raise"',
    "fill_value": "Scalar? fill_value=None",
    "use_init_val": "bool use_init_val=True",
    "negative": "bool negative=True",
    "updates_name": 'str updates_name="updates"',
}


def schema(kind: str) -> str:
    """Return the schema of an operator, as `torch.library` takes it."""
    types = _TYPES | {"caller": f'str caller="{kind}"'}
    tensors = ["Tensor data", "Tensor indices"]
    if kind.startswith("scatter"):
        tensors.append("Tensor updates")
    return f"{kind}({', '.join([*tensors, *(types[name] for name in OPTIONS[kind])])}) -> Tensor"


def tensors_of(kind: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return data, indices, and updates or None."""
    return arguments[:3] if kind.startswith("scatter") else (*arguments[:2], None)


def options_of(kind: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments after the tensors; those that equal their defaults may be missing."""
    return arguments[3 if kind.startswith("scatter") else 2 :]


def reduction_of(kind: str, options: tuple[Any, ...]) -> str:
    """Return the reduction of a scatter; "none" for a gather."""
    if not kind.startswith("scatter"):
        return "none"
    at = OPTIONS[kind].index("reduction")
    return options[at] if at < len(options) else "none"


def call_of(kind: str, tensors: tuple[Any, ...], options: tuple[Any, ...]) -> Call:
    """Return the call that an operator is given, its axis and batch axes counted from 0."""
    given = dict(zip(OPTIONS[kind], options, strict=False))
    given["window_shape"] = tuple(given.get("window_shape", ()))
    return counted(Call(given.pop("caller", kind), kind, *tensors, **given))


def counted(call: Call) -> Call:
    """Return `call` with an axis and batch axes that count from 0, where they are in range."""
    rank = call.data.dim()
    if call.kind == "gather" and call.batch_dims < 0:
        call = replace(call, batch_dims=call.batch_dims + call.indices.dim())
    if call.axis < 0 <= call.axis + rank:
        call = replace(call, axis=call.axis + rank)
    return call


def arguments_of(call: Call) -> tuple[Any, ...]:
    """Return the arguments of the operator that makes `call`."""
    tensors = (
        (call.data, call.indices, call.updates) if call.scatters else (call.data, call.indices)
    )
    return (*tensors, *(getattr(call, name) for name in OPTIONS[call.kind]))


def operate(call: Call) -> torch.Tensor:
    """Make `call` by its operator; whatever transforms its tensors takes part."""
    return getattr(torch.ops.ndgather, call.kind).default(*arguments_of(call))
