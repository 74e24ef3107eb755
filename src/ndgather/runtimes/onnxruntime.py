"""Run models in onnxruntime with its default session options."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource, dtype_named


@cache
def _runtime() -> Any:
    return import_module("onnxruntime")


_SILENT = 4
_FOLDER = "session.model_external_initializers_file_folder_path"
# The ONNX ids and dtype names of types that onnxruntime cannot convert to NumPy.
_OTHER_TYPES = {
    "tensor(bfloat16)": (16, "bfloat16"),
    "tensor(float8e4m3fn)": (17, "float8_e4m3fn"),
    "tensor(float8e4m3fnuz)": (18, "float8_e4m3fnuz"),
    "tensor(float8e5m2)": (19, "float8_e5m2"),
    "tensor(float8e5m2fnuz)": (20, "float8_e5m2fnuz"),
}


def version() -> str:
    return str(_runtime().__version__)


class _Session:
    """An onnxruntime inference session."""

    def __init__(self, source: ModelSource, options: LoadOptions) -> None:
        settings = _runtime().SessionOptions()
        settings.log_severity_level = _SILENT
        if options.threads is not None:
            settings.intra_op_num_threads = options.threads
        for library in options.libraries:
            settings.register_custom_ops_library(library)
        if source.folder is not None and isinstance(source.content, bytes):
            settings.add_session_config_entry(_FOLDER, source.folder)
        providers = list(options.providers) or ["CPUExecutionProvider"]
        available = _runtime().get_available_providers()
        for name in providers:
            if name not in available:
                raise LookupError(f"it has no provider {name!r} (allowed: {', '.join(available)})")
        self._session = _runtime().InferenceSession(
            source.content, settings, providers=providers, enable_fallback=False
        )
        self._numbers = {
            port.name: _OTHER_TYPES[port.type][0]
            for port in self._session.get_inputs()
            if port.type in _OTHER_TYPES
        }
        self._others = {
            port.name for port in self._session.get_outputs() if port.type in _OTHER_TYPES
        }

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        if not self._numbers and self._others.isdisjoint(names):
            arrays: list[Any] = self._session.run(list(names), dict(inputs))
            return arrays
        make, values = _runtime().OrtValue, {}
        for name, array in inputs.items():
            if name in self._numbers:
                bits, number = array.view(f"u{array.dtype.itemsize}"), self._numbers[name]
                values[name] = make.ortvalue_from_numpy_with_onnx_type(bits, number)
            else:
                values[name] = make.ortvalue_from_numpy(array)
        results = self._session.run_with_ort_values(list(names), values)
        return [_array(value) for value in results]


session = _Session


def _array(value: Any) -> Any:
    if value.data_type() not in _OTHER_TYPES:
        return value.numpy()
    memory = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    dtype = dtype_named(_OTHER_TYPES[value.data_type()][1])
    return np.frombuffer(memory, dtype).reshape(value.shape())
