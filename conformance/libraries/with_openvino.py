"""The adapter of OpenVINO on the CPU, for its own operations and single-node ONNX models."""

from __future__ import annotations

import re
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import openvino

from conformance.corpus import STRING, dtype_of

from . import OPENVINO, CannotExpressError, arrays_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

# By default, the plugin may compute with lower precision.
_SETTINGS = {"INFERENCE_PRECISION_HINT": "f32"}
# Types of ml_dtypes, whose bits are passed as integers.
_NAMES = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}


def version() -> str:
    return str(openvino.__version__).partition("-")[0]


def run_case(case: Case) -> Array:
    arrays = arrays_of(case)
    if case.operator.domain == OPENVINO:
        model = _native_model(case, arrays)
        arrays.pop("axis", None)
    else:
        from .with_onnx_reference import model_of  # noqa: PLC0415 - needs onnx

        proto, arrays = model_of(case)
        try:
            model = openvino.Core().read_model(BytesIO(proto.SerializeToString()))
        except RuntimeError as error:
            if "No conversion rule found" in str(error):
                raise CannotExpressError(f"has no {case.operator.name}") from error
            raise
    compiled = openvino.compile_model(model, "CPU", _SETTINGS)
    output = np.array(compiled([_tensor(array) for array in arrays.values()])[0])
    for name, type_name in _NAMES.items():
        if getattr(openvino.Type, type_name) == compiled.output(0).element_type:
            return output.view(dtype_of(name))
    return output


def _native_model(case: Case, arrays: dict[str, Array]) -> Any:
    name = "_".join(re.findall("[A-Z]+(?![a-z])|[A-Z][a-z]+", case.operator.name)).lower()
    number = case.operator.version or 1
    for candidate in (number, number + 1):  # an operation set may lack an operation of its number
        opset = import_module(f"openvino.opset{candidate}")
        if hasattr(opset, name):
            break
    else:
        raise CannotExpressError(f"has no function {name} of version {number}")
    inputs = {
        key: opset.parameter(list(array.shape), _type(case, key, array), key)
        for key, array in arrays.items()
        if key != "axis"
    }
    nodes = dict(inputs)
    if "axis" in arrays:
        nodes["axis"] = opset.constant(arrays["axis"])
    result = getattr(opset, name)(*nodes.values(), **case.attributes)
    return openvino.Model([result], list(inputs.values()), "case")


def _type(case: Case, name: str, array: Array) -> Any:
    if case.inputs[name].dtype == STRING:
        return openvino.Type.string
    if array.dtype.name in _NAMES:
        return getattr(openvino.Type, _NAMES[array.dtype.name])
    return openvino.Type(array.dtype.newbyteorder("="))


def _tensor(array: Array) -> Any:
    if array.dtype.kind == "O":
        return openvino.Tensor(array.astype(str))
    if array.dtype.name in _NAMES:
        bits = array.view(f"u{array.dtype.itemsize}")
        return openvino.Tensor(bits, array.shape, getattr(openvino.Type, _NAMES[array.dtype.name]))
    if array.dtype.kind == "V":  # OpenVINO packs them, ml_dtypes does not
        raise CannotExpressError(f"has no tensor of {array.dtype.name}")
    return openvino.Tensor(array)
