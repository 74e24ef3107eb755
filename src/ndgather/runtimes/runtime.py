"""The known runtimes of ONNX models, and the interface of a module that adapts another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import DTypeError, ExtraMissingError

Array = NDArray[Any]

STRING = "string"


@dataclass(frozen=True, slots=True)
class Runtime:
    """One runtime."""

    module: str  # that must be installed
    adapter: str  # the module that calls it by ``session(source, options)``; returns a `Session`
    maps_tensors: bool = False  # whether it reads tensors from files beside the bytes of a model

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
"""The runtimes that run whole models, by name."""


def model_runtime(name: str) -> Runtime:
    """Return the runtime of this name, or that of a module of the user; raises LookupError."""
    if name in MODEL_NAMES:
        return MODEL_NAMES[name]
    if "." in name and is_module(name):
        return Runtime(name, name)
    raise LookupError(name)


def is_module(name: str) -> bool:
    """Whether a module of this name can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # its package is missing
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """An ONNX model: the path of its file or its bytes, and the folder of its other files."""

    content: str | bytes
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a runtime loads a model."""

    threads: int | None = None  # of one operator; None leaves it to the runtime
    providers: tuple[str, ...] = ()  # of onnxruntime, or the device of OpenVINO; empty for the CPU
    libraries: tuple[str, ...] = ()  # paths of libraries of custom operators
    profile: bool = False  # whether the session's method `profile`, if any, returns times of nodes


class Session(Protocol):
    """A model that is loaded."""

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        """Return the values of the outputs `names`, in this order."""
        ...


def dtype_named(name: str) -> np.dtype[Any]:
    """Return the type of arrays with this name, of NumPy or ml_dtypes; strings are objects."""
    if name == STRING:
        return np.dtype(object)
    with suppress(TypeError):
        return np.dtype(name)
    if find_spec("ml_dtypes") is None:
        raise ExtraMissingError(
            f"dtype = {name} needs the package ml_dtypes, which is not installed "
            f"(install it with: pip install ml_dtypes)"
        )
    types = import_module("ml_dtypes")
    if not hasattr(types, name):
        raise DTypeError(
            f"dtype = {name!r} is not a type of arrays (allowed: types of NumPy and ml_dtypes)"
        )
    dtype: np.dtype[Any] = np.dtype(getattr(types, name))
    return dtype


def model_with_data(source: ModelSource) -> Any:
    """Return a model that contains all of its tensors."""
    import onnx  # noqa: PLC0415 - slow, and an extra

    if isinstance(source.content, str):
        return onnx.load(source.content)
    model = onnx.load_from_string(source.content)
    if source.folder is not None:
        onnx.external_data_helper.load_external_data_for_model(model, source.folder)
    return model
