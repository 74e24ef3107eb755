"""ONNX Runtime: a model of one node in a session on the CPU."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import microsoft, onnx
from ndgather.runtimes.one_node import element_type, model_of
from ndgather.runtimes.runtime import Runtime

if TYPE_CHECKING:
    from ndgather.runtimes.operator_call import OperatorCall

Array = NDArray[Any]

RUNTIME = Runtime(
    name="onnxruntime",
    module="onnxruntime",
    adapter=__name__,
    domains=(onnx.DOMAIN, microsoft.DOMAIN),
)


@cache
def _runtime() -> Any:
    return import_module("onnxruntime")


_SILENT = 4
_TYPES_OF_NUMPY = "biufcO"


def version() -> str:
    return str(_runtime().__version__)


def run(call: OperatorCall) -> Array:
    model, arrays = model_of(call)
    options = _runtime().SessionOptions()
    options.log_severity_level = _SILENT
    session = _runtime().InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    if all(array.dtype.kind in _TYPES_OF_NUMPY for array in arrays.values()):
        answer: Array = session.run(None, arrays)[0]
        return answer
    return _run_on_values(call, session, arrays)


def _run_on_values(call: OperatorCall, session: Any, arrays: dict[str, Array]) -> Array:
    """Run with element types that the interface to NumPy does not know."""
    values = {}
    for name, array in arrays.items():
        stored = array if array.dtype.kind in _TYPES_OF_NUMPY else _bits(array)
        make = _runtime().OrtValue.ortvalue_from_numpy_with_onnx_type
        values[name] = make(stored, element_type(call, name))
    result = session.run_with_ort_values(None, values)[0]
    dtype = arrays["data"].dtype
    memory = ctypes.string_at(result.data_ptr(), result.tensor_size_in_bytes())
    return np.frombuffer(memory, dtype).reshape(result.shape())


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")
