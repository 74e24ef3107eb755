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

from ndgather.models.onnx.domains import implementation
from ndgather.models.onnx.fixpoint import infer
from ndgather.models.onnx.model_runs import load, run
from ndgather.models.onnx.onnx_model import Model
from ndgather.models.onnx.random_inputs import random_inputs

if TYPE_CHECKING:
    from ndgather.models.onnx.backend import Backend
    from ndgather.models.onnx.compared import Comparison
    from ndgather.models.onnx.comparison import compare
    from ndgather.models.onnx.model_writing import save
    from ndgather.models.onnx.onnx_checks import check
    from ndgather.models.onnx.onnx_conversion import Conversion, conversion, convert
    from ndgather.models.onnx.onnx_evaluation import reference_ops
    from ndgather.models.onnx.parting_inputs import Parting, search
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
    "Comparison": "onnx.compared",
    "Conversion": "onnx.onnx_conversion",
    "Parting": "onnx.parting_inputs",
    "check": "onnx.onnx_checks",
    "compare": "onnx.comparison",
    "conversion": "onnx.onnx_conversion",
    "convert": "onnx.onnx_conversion",
    "reference_ops": "onnx.onnx_evaluation",
    "save": "onnx.model_writing",
    "search": "onnx.parting_inputs",
    "tensor_from_bytes": "tensors.pb_tensor",
    "tensor_to_bytes": "tensors.pb_tensor",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"ndgather.models.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
