"""The runtimes for ONNX models and their adapters."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime that requires `module` and may be able to map tensors from external files."""

    module: str
    adapter: str  # the module whose ``session(source, options)`` returns a `Session`
    maps_tensors: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Any:
        return import_module(self.adapter)


MODEL_NAMES = {
    "onnxruntime": Runtime("onnxruntime", "ndgather.runtimes.onnxruntime", maps_tensors=True),
    "reference": Runtime("onnx", "ndgather.runtimes.onnx_reference"),
    "openvino": Runtime("openvino", "ndgather.runtimes.openvino", maps_tensors=True),
}


def model_runtime(name: str) -> Runtime:
    """Return the runtime or user module called `name`, or raise LookupError."""
    if name in MODEL_NAMES:
        return MODEL_NAMES[name]
    if "." in name and is_module(name):
        return Runtime(name, name)
    raise LookupError(name)


def is_module(name: str) -> bool:
    """Return whether a module called `name` can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # raised if the parent package is missing
        return False
