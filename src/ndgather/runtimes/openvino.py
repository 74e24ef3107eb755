"""Run models in OpenVINO, which reads them with its ONNX frontend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource, dtype_named, model_with_data


@cache
def _openvino() -> Any:
    return import_module("openvino")


# By default, OpenVINO may compute with lower precision than the model declares.
_SETTINGS = {"INFERENCE_PRECISION_HINT": "f32"}

# The ml_dtypes types whose values are passed as integers with the same bits.
_NAMES = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}


def version() -> str:
    return str(_openvino().__version__).partition("-")[0]


class _Session:
    """A compiled model that computes with the float types that it declares."""

    def __init__(self, source: ModelSource, options: LoadOptions) -> None:
        core = _openvino().Core()
        for library in options.libraries:
            core.add_extension(library)
        content = source.content
        if source.folder is not None and isinstance(content, bytes):
            content = model_with_data(source).SerializeToString()
        model = core.read_model(BytesIO(content) if isinstance(content, bytes) else content)
        settings: dict[str, Any] = dict(_SETTINGS)
        if options.threads is not None:
            settings["INFERENCE_NUM_THREADS"] = options.threads
        device = ",".join(options.providers) or "CPU"
        self._compiled = core.compile_model(model, device, settings)

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        known = _by_name(self._compiled.inputs)
        tensors = {known[name]: _tensor(array) for name, array in inputs.items() if name in known}
        by_name = _by_name(self._compiled.outputs)
        # OpenVINO would read uninitialized memory for a missing input.
        unknown = [port.node.friendly_name for port in self._compiled.inputs if port not in tensors]
        unknown += [name for name in names if name not in by_name]
        if unknown:
            raise ValueError(f"{unknown[0]!r} does not name a unique input or output")
        outputs, ports = self._compiled(tensors), [by_name[name] for name in names]
        return [_array(np.array(outputs[port]), port.element_type) for port in ports]


def _by_name(ports: Sequence[Any]) -> dict[str, Any]:
    """Map the tensor names and the unique layer names of ports to the ports."""
    counts = Counter(port.node.friendly_name for port in ports)
    layers = {name: port for port in ports if counts[name := port.node.friendly_name] == 1}
    return layers | {name: port for port in ports for name in port.get_names()}


session = _Session


def _tensor(array: Array) -> Any:
    if array.dtype.kind == "O":
        return _openvino().Tensor(array.astype(str))
    if array.dtype.name in _NAMES:
        bits = array.view(f"u{array.dtype.itemsize}")
        element_type = getattr(_openvino().Type, _NAMES[array.dtype.name])
        return _openvino().Tensor(bits, array.shape, element_type)
    if array.dtype.kind == "V":  # unlike ml_dtypes, OpenVINO packs narrow integers
        raise TypeError(f"does not support tensors of {array.dtype.name}")
    return _openvino().Tensor(array)


def _array(output: Array, element_type: Any) -> Array:
    """Return an output; if it contains the bits of an ml_dtypes type, view it as this type."""
    for name, type_name in _NAMES.items():
        if getattr(_openvino().Type, type_name) == element_type:
            return output.view(dtype_named(name))
    return output
