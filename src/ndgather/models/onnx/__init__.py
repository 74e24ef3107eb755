"""ONNX models: run, checked, inferred and converted, their gather and scatter nodes by ndgather.

All other nodes run in the reference evaluator of the `onnx` package, and are
inferred by it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ndgather.errors import run_errors

if find_spec("onnx") is None:
    raise run_errors.extra_missing("onnx", "onnx")

from ndgather.models.onnx.inference import infer
from ndgather.models.onnx.model import Model
from ndgather.models.onnx.nodes import implementation
from ndgather.models.onnx.runs import load, random_inputs, run

if TYPE_CHECKING:
    from ndgather.models.onnx.backend import Backend
    from ndgather.models.onnx.checks import check
    from ndgather.models.onnx.comparison import Comparison, compare
    from ndgather.models.onnx.converter import Conversion, conversion, convert
    from ndgather.models.onnx.counterexamples import Parting, search
    from ndgather.models.onnx.interchange import save
    from ndgather.models.onnx.model import reference_ops
    from ndgather.models.tensors.pb_tensor import tensor_from_bytes, tensor_to_bytes

__all__ = [
    "Backend",
    "Comparison",
    "Conversion",
    "Model",
    "Parting",
    "check",
    "compare",
    "conversion",
    "convert",
    "implementation",
    "infer",
    "load",
    "random_inputs",
    "reference_ops",
    "run",
    "save",
    "search",
    "tensor_from_bytes",
    "tensor_to_bytes",
]

# What a run in a runtime does without, such as the evaluator of onnx, which takes 20 MB.
_LATER = {
    "Backend": "onnx.backend",
    "Comparison": "onnx.comparison",
    "Conversion": "onnx.converter",
    "Parting": "onnx.counterexamples",
    "check": "onnx.checks",
    "compare": "onnx.comparison",
    "conversion": "onnx.converter",
    "convert": "onnx.converter",
    "reference_ops": "onnx.model",
    "save": "onnx.interchange",
    "search": "onnx.counterexamples",
    "tensor_from_bytes": "tensors.pb_tensor",
    "tensor_to_bytes": "tensors.pb_tensor",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"ndgather.models.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
