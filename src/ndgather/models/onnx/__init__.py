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

from ndgather.models.onnx.compared import Comparison
from ndgather.models.onnx.comparison import compare
from ndgather.models.onnx.domains import implementation
from ndgather.models.onnx.fixpoint import infer
from ndgather.models.onnx.model_runs import load, run
from ndgather.models.onnx.model_writing import save
from ndgather.models.onnx.onnx_checks import check
from ndgather.models.onnx.onnx_conversion import Conversion, conversion, convert
from ndgather.models.onnx.onnx_model import Model
from ndgather.models.onnx.parting_inputs import Parting, search
from ndgather.models.onnx.random_inputs import random_inputs
from ndgather.models.tensors.pb_tensor import tensor_from_bytes, tensor_to_bytes

if TYPE_CHECKING:
    from ndgather.models.onnx.backend import Backend
    from ndgather.models.onnx.onnx_evaluation import reference_ops

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

# What brings the evaluator of onnx, which takes 20 MB, is imported only when it is asked for.
_LATER = {"Backend": "backend", "reference_ops": "onnx_evaluation"}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
