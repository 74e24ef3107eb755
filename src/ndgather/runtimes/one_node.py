"""A call as an ONNX model of one node, its shapes declared."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ndgather.published.rows import ROWS, microsoft, onnx
from ndgather.runtimes.array_types import STRING, in_native_order
from ndgather.runtimes.operator_call import CannotExpressError, arrays_of

if TYPE_CHECKING:
    from ndgather.runtimes.operator_call import OperatorCall

Array = NDArray[Any]


@cache
def _onnx() -> Any:
    return import_module("onnx")


_LEAST_OPSET = 7  # older ones are not run by runtimes any more
_NEWEST_OPSET = 18
_IR_VERSION = 10


def model_of(call: OperatorCall) -> tuple[Any, dict[str, Array]]:
    """Return the model of a call, and its inputs."""
    arrays = arrays_of(call)
    domain = call.operator.domain
    helper = _onnx().helper
    values = [
        helper.make_tensor_value_info(name, element_type(call, name), array.shape)
        for name, array in arrays.items()
    ]
    node = helper.make_node(
        call.operator.name,
        list(arrays),
        ["output"],
        domain="" if domain == onnx.DOMAIN else domain,
        **call.attributes,
    )
    output = helper.make_tensor_value_info("output", element_type(call, "data"), None)
    imports = [helper.make_opsetid("", _opset(call))]
    if domain == microsoft.DOMAIN:
        imports.append(helper.make_opsetid(domain, 1))
    graph = helper.make_graph([node], "case", values, [output])
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION), arrays


def element_type(call: OperatorCall, name: str) -> int:
    """Return the number that ONNX has for the type of an input."""
    dtype = call.inputs[name].dtype
    if dtype == STRING:
        return int(_onnx().TensorProto.STRING)
    array = in_native_order(arrays_of(call)[name])
    try:
        return int(_onnx().helper.np_dtype_to_tensor_dtype(array.dtype))
    except (KeyError, ValueError) as error:
        raise CannotExpressError(f"ONNX has no {dtype}") from error


def _opset(call: OperatorCall) -> int:
    """Return the newest opset in which the version of a call is in force."""
    asked = call.operator
    if asked.domain != onnx.DOMAIN or asked.version is None:
        return _NEWEST_OPSET
    later = [
        row.since
        for row in ROWS
        if (row.name, row.domain) == (asked.name, asked.domain) and row.since > asked.version
    ]
    newest = min(later) - 1 if later else max(asked.version, _LEAST_OPSET)
    return max(newest, _LEAST_OPSET)
