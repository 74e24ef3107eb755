"""ONNX Runtime: a model of one node on the CPU, and whole models as its users load them."""

from __future__ import annotations

import ctypes
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import microsoft, onnx
from ndgather.runtimes.runtime import Runtime, dtype_named, element_type, model_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import LoadOptions, ModelSource, OperatorCall

Array = NDArray[Any]

RUNTIME = Runtime(
    name="onnxruntime",
    module="onnxruntime",
    adapter=__name__,
    domains=(onnx.DOMAIN, microsoft.DOMAIN),
    runs_models=True,
    maps_tensors=True,
)


@cache
def _runtime() -> Any:
    return import_module("onnxruntime")


_SILENT = 4
_FOLDER = "session.model_external_initializers_file_folder_path"
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


class _Session:
    """A whole model in a session."""

    def __init__(self, source: ModelSource, options: LoadOptions) -> None:
        own = _runtime().SessionOptions()
        own.log_severity_level = _SILENT
        if options.threads is not None:
            own.intra_op_num_threads = options.threads
        for library in options.libraries:
            own.register_custom_ops_library(library)
        if source.folder is not None and isinstance(source.content, bytes):
            own.add_session_config_entry(_FOLDER, source.folder)
        self._folder = TemporaryDirectory() if options.profile else None
        if self._folder is not None:
            own.enable_profiling = True
            own.profile_file_prefix = f"{self._folder.name}/run"
        providers = list(options.providers) or ["CPUExecutionProvider"]
        there = _runtime().get_available_providers()
        for name in providers:
            if name not in there:
                raise LookupError(f"it has no provider {name!r} (allowed: {', '.join(there)})")
        try:
            self._session = _runtime().InferenceSession(
                source.content, own, providers=providers, enable_fallback=False
            )
        except BaseException:
            if self._folder is not None:
                self._folder.cleanup()
            raise
        self._numbers = {
            each.name: _ODD_TYPES[each.type][0]
            for each in self._session.get_inputs()
            if each.type in _ODD_TYPES
        }
        self._odd = {each.name for each in self._session.get_outputs() if each.type in _ODD_TYPES}

    def profile(self) -> list[tuple[str, str, float, int]]:
        """Return the name, operator, seconds and bytes of each node that ran; runs no more."""
        if self._folder is None:
            return []
        events = json.loads(Path(self._session.end_profiling()).read_text(encoding="utf-8"))
        self._folder.cleanup()
        return [
            (
                each["name"].removesuffix("_kernel_time"),
                each["args"]["op_name"],
                each["dur"] * 1e-6,
                int(each["args"].get("output_size", 0)),
            )
            for each in events
            if each.get("cat") == "Node" and each["name"].endswith("_kernel_time")
        ]

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        if not self._numbers and self._odd.isdisjoint(names):
            answer: list[Any] = self._session.run(list(names), dict(inputs))
            return answer
        make = _runtime().OrtValue
        values = {
            name: make.ortvalue_from_numpy_with_onnx_type(_bits(array), self._numbers[name])
            if name in self._numbers
            else make.ortvalue_from_numpy(array)
            for name, array in inputs.items()
        }
        found = self._session.run_with_ort_values(list(names), values)
        return [_array(each) for each in found]


def session(source: ModelSource, options: LoadOptions) -> _Session:
    """Load a whole model."""
    return _Session(source, options)


# Types that the interface to NumPy does not know, with their numbers in ONNX and their names.
_ODD_TYPES = {
    "tensor(bfloat16)": (16, "bfloat16"),
    "tensor(float8e4m3fn)": (17, "float8_e4m3fn"),
    "tensor(float8e4m3fnuz)": (18, "float8_e4m3fnuz"),
    "tensor(float8e5m2)": (19, "float8_e5m2"),
    "tensor(float8e5m2fnuz)": (20, "float8_e5m2fnuz"),
}


def _array(value: Any) -> Any:
    if value.data_type() not in _ODD_TYPES:
        return value.numpy()
    memory = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    dtype = dtype_named(_ODD_TYPES[value.data_type()][1])
    return np.frombuffer(memory, dtype).reshape(value.shape())


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
