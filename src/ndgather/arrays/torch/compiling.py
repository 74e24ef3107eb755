"""Support for `torch.compile`, which records each call of a public function as a graph node.

Importing this module registers the functions and imports torch's compiler, which takes more than a
second. The public functions are written in C, which the compiler cannot trace. During tracing, each
node calls its function with fake tensors, so that the arguments are validated by the same code as
in eager calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._dynamo import eval_frame
from torch._dynamo.exc import Unsupported
from torch._subclasses import FakeTensor

from ndgather import api, arguments, slow_path
from ndgather.arrays.torch import checks
from ndgather.errors import DTypeError, NdgatherError
from ndgather.messages import shown_value

_ARRAYS = ("data", "indices", "starts", "updates")


class RefusedInGraphError(Unsupported, NdgatherError):  # type: ignore[misc]
    """An error in a traced call. Unless ``fullgraph=True``, torch repeats the call uncompiled."""


def _traceable(kind: str) -> Callable[..., Any]:
    """Return a traceable function with the parameters of a public function."""
    function, names = getattr(api, kind), list(api.SIGNATURES[kind].parameters)

    @torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
    def node(*given: Any, **named: Any) -> Any:
        try:
            pairs = zip([*names, *given], given, strict=False)  # extra arguments fail below
            given = tuple(_seen_from_outside(kind, name, each) for name, each in pairs)
            named = {name: _seen_from_outside(kind, name, each) for name, each in named.items()}
            # A call becomes a node of the graph only if one of its arguments is a tensor.
            if given:
                return function(_tensor(kind, "data", given[0]), *given[1:], **named)
            if "data" in named:
                named["data"] = _tensor(kind, "data", named["data"])
            return function(**named)
        except (NdgatherError, TypeError) as error:  # Python raises TypeError for wrong arguments
            if torch._C._len_torch_dispatch_stack():
                raise RefusedInGraphError(str(error)) from error
            raise

    def call(*given: Any, **named: Any) -> Any:
        arrays = [value for at, value in enumerate(given[:3]) if at != 1]
        arrays += [value for name, value in named.items() if name in ("data", "updates", "out")]
        # Remove options that have no effect on tensors and cannot be stored in a graph.
        if callable(named.get("progress")):
            del named["progress"]
        if hasattr(named.get("executor"), "submit"):
            del named["executor"]
        result = node(*given, **named)
        return result if any(isinstance(each, torch.Tensor) for each in arrays) else result.numpy()

    return call


def _seen_from_outside(kind: str, name: str, value: Any) -> Any:
    """Return an argument as the caller passed it. Raise DTypeError if a number is not known yet."""
    is_array = name in _ARRAYS
    if isinstance(value, list | tuple):
        values = [_seen_from_outside(kind, name, each) for each in value]
        if is_array and any(isinstance(each, torch.Tensor) for each in values):
            return torch.stack([_tensor(kind, name, each) for each in values])
        return type(value)(values) if isinstance(value, tuple) else values
    unknown = isinstance(value, FakeTensor) and value.constant is None
    if unknown and not is_array and name not in ("out", "fill_value"):
        raise DTypeError(
            f"{kind}: {name} = {shown_value(value)} is not known while the call is compiled "
            f"(allowed: a Python number)"
        )
    return value


def _tensor(kind: str, name: str, value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    array = arguments.plain_array(kind, name, value)
    return checks.tensor(kind, name, array, torch.device("cpu"))


def _register() -> None:
    """Make the compiler trace the results of `_traceable` instead of the public functions."""
    # After a refused call, torch runs the function and all its callers uncompiled.
    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)
    for function in (slow_path.handle_refusal, api.gather_windows):  # written in Python
        eval_frame.set_code_exec_strategy(function.__code__, strategy)
    for kind in checks.OPTIONS:
        function = getattr(api, kind)
        torch.compiler.substitute_in_graph(function, skip_signature_check=True)(_traceable(kind))


_register()
