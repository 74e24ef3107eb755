"""OpenVINO on the CPU: its own operations, and ONNX models, one node or whole, by its frontend."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import onnx, openvino
from ndgather.runtimes.runtime import STRING, CannotExpressError, Runtime, arrays_of, dtype_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import LoadOptions, ModelSource, OperatorCall

Array = NDArray[Any]

RUNTIME = Runtime(
    name="openvino",
    module="openvino",
    adapter=__name__,
    domains=(onnx.DOMAIN, openvino.DOMAIN),
    runs_models=True,
)


@cache
def _openvino() -> Any:
    return import_module("openvino")


# The hint would let the plugin compute in narrower floats.
_SETTINGS = {"INFERENCE_PRECISION_HINT": "f32"}

# Types that NumPy has from another package, so that their bits are passed.
_NAMES = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}


def version() -> str:
    return str(_openvino().__version__).partition("-")[0]


def run(call: OperatorCall) -> Array:
    arrays = arrays_of(call)
    if call.operator.domain == openvino.DOMAIN:
        model, given = _native_model(call, arrays), list(_fed(arrays).values())
    else:
        # Only this way needs another package to write the model with.
        one_node = import_module("ndgather.runtimes.runtime")
        proto, arrays = one_node.model_of(call)
        model = _openvino().Core().read_model(BytesIO(proto.SerializeToString()))
        given = list(arrays.values())
    compiled = _openvino().compile_model(model, "CPU", _SETTINGS)
    answer = compiled([_tensor(array) for array in given])[0]
    return _array(np.array(answer), compiled.output(0).element_type)


class _Session:
    """A whole model, compiled to compute in the floats that it declares."""

    def __init__(self, source: ModelSource, options: LoadOptions) -> None:
        core = _openvino().Core()
        for library in options.libraries:
            core.add_extension(library)
        content = source.content
        if source.folder is not None and isinstance(content, bytes):
            # Only this way needs another package to read the model with.
            external = import_module("ndgather.runtimes.runtime")
            content = external.model_with_data(source).SerializeToString()
        model = core.read_model(BytesIO(content) if isinstance(content, bytes) else content)
        settings: dict[str, Any] = dict(_SETTINGS)
        if options.threads is not None:
            settings["INFERENCE_NUM_THREADS"] = options.threads
        device = ",".join(options.providers) or "CPU"
        self._compiled = core.compile_model(model, device, settings)

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        known = {name for each in self._compiled.inputs for name in each.get_names()}
        given = {name: _tensor(array) for name, array in inputs.items() if name in known}
        answer = self._compiled(given)
        ports = [self._compiled.output(name) for name in names]
        return [_array(np.array(answer[port]), port.element_type) for port in ports]


def session(source: ModelSource, options: LoadOptions) -> _Session:
    """Load a whole model."""
    return _Session(source, options)


def _native_model(call: OperatorCall, arrays: dict[str, Array]) -> Any:
    asked = call.operator
    opset = _opset_with(_function_name(asked.name), asked.version or 1)
    function = getattr(opset, _function_name(asked.name))
    inputs = {}
    for name, array in _fed(arrays).items():
        inputs[name] = opset.parameter(list(array.shape), _type(call, name, array), name)
    nodes = dict(inputs)
    if "axis" in arrays:
        nodes["axis"] = opset.constant(arrays["axis"])
    result = function(*nodes.values(), **call.attributes)
    return _openvino().Model([result], list(inputs.values()), "case")


def _function_name(operator: str) -> str:
    return "_".join(re.findall("[A-Z]+(?![a-z])|[A-Z][a-z]+", operator)).lower()


def _opset_with(function: str, version: int) -> Any:
    """Return the first opset from `version` on that has a function for the operation."""
    for number in range(version, version + 2):
        opset = import_module(f"openvino.opset{number}")
        if hasattr(opset, function):
            return opset
    raise CannotExpressError(f"has no function {function} of version {version}")


def _fed(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: array for name, array in arrays.items() if name != "axis"}


def _type(call: OperatorCall, name: str, array: Array) -> Any:
    if call.inputs[name].dtype == STRING:
        return _openvino().Type.string
    if array.dtype.name in _NAMES:
        return getattr(_openvino().Type, _NAMES[array.dtype.name])
    return _openvino().Type(array.dtype.newbyteorder("="))


def _tensor(array: Array) -> Any:
    if array.dtype.kind == "O":
        return _openvino().Tensor(array.astype(str))
    if array.dtype.name in _NAMES:
        bits = array.view(f"u{array.dtype.itemsize}")
        element_type = getattr(_openvino().Type, _NAMES[array.dtype.name])
        return _openvino().Tensor(bits, array.shape, element_type)
    if array.dtype.kind == "V":  # half a byte wide, and ours take a whole one
        raise CannotExpressError(f"has no tensor of {array.dtype.name}")
    return _openvino().Tensor(array)


def _array(answer: Array, element_type: Any) -> Array:
    """Return an answer with its own type where NumPy was given the bits as another one."""
    for name, own in _NAMES.items():
        if getattr(_openvino().Type, own) == element_type:
            return answer.view(dtype_named(name))
    return answer
