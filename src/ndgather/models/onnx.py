"""ONNX models: run, checked, inferred and converted, with our operators in place of their own.

The nodes that are not ours run in the reference evaluator of the `onnx` package, and are
inferred by it. The work is done in `ndgather.models.onnx_format`, which alone imports `onnx`.
"""

from __future__ import annotations

from importlib.util import find_spec

from ndgather.models import errors

if find_spec("onnx") is None:
    raise errors.extra_missing("onnx")

from ndgather.models.onnx_format.backend import Backend
from ndgather.models.onnx_format.checking import check
from ndgather.models.onnx_format.conversion import convert
from ndgather.models.onnx_format.domains import implementation
from ndgather.models.onnx_format.evaluation import Model, reference_ops, run
from ndgather.models.onnx_format.files import save
from ndgather.models.onnx_format.inference import infer
from ndgather.models.onnx_format.tensors import tensor_from_bytes, tensor_to_bytes

__all__ = [
    "Backend",
    "Model",
    "check",
    "convert",
    "implementation",
    "infer",
    "reference_ops",
    "run",
    "save",
    "tensor_from_bytes",
    "tensor_to_bytes",
]
