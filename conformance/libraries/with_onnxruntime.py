"""The adapter of onnxruntime, which runs single-node models on the CPU."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime

from .with_onnx_reference import element_type, model_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

_SILENT = 4
_TYPES_OF_NUMPY = "biufcO"  # dtype kinds that onnxruntime can convert


def version() -> str:
    return str(onnxruntime.__version__)


def run_case(case: Case) -> Array:
    model, arrays = model_of(case)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    if all(array.dtype.kind in _TYPES_OF_NUMPY for array in arrays.values()):
        output: Array = session.run(None, arrays)[0]
        return output
    values = {}
    for name, array in arrays.items():
        plain = array.dtype.kind in _TYPES_OF_NUMPY
        stored = array if plain else array.view(f"u{array.dtype.itemsize}")
        make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        values[name] = make(stored, element_type(case, name))
    result = session.run_with_ort_values(None, values)[0]
    memory = ctypes.string_at(result.data_ptr(), result.tensor_size_in_bytes())
    dtype = next(arrays[name].dtype for name in ("scales", *arrays) if name in arrays)
    return np.frombuffer(memory, dtype).reshape(result.shape())
