"""The adapter of the ONNX reference evaluator, and the single-node models for all runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from conformance.corpus import STRING

from . import MICROSOFT, ONNX, CannotExpressError, arrays_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

_LEAST_OPSET = 7  # runtimes do not support older opsets
_NEWEST_OPSET = 18
_IR_VERSION = 10
_PACKED = ("int4", "uint4")


def version() -> str:
    return str(onnx.__version__)


def run_case(case: Case) -> Array:
    model, arrays = model_of(case)
    return np.asarray(ReferenceEvaluator(model).run(None, arrays)[0])  # type: ignore[index]  # a list


def model_of(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the model of one node that a case describes, and its inputs."""
    arrays = arrays_of(case)
    names = list(arrays)
    domain = case.operator.domain
    source = next(name for name in ("scales", *names) if name in arrays)  # of the output's type
    # NumPy holds numbers of 4 bits in bytes of their own, and ONNX two in one: they are constants.
    packed = {name: arrays.pop(name) for name in names if arrays[name].dtype.name in _PACKED}
    constants = [numpy_helper.from_array(array, name) for name, array in packed.items()]
    values = [
        helper.make_tensor_value_info(name, element_type(case, name), array.shape)
        for name, array in arrays.items()
    ]
    node = helper.make_node(
        case.operator.name,
        names,
        ["output"],
        domain="" if domain == ONNX else domain,
        **case.attributes,
    )
    output = helper.make_tensor_value_info("output", element_type(case, source), None)
    imports = [helper.make_opsetid("", _opset(case))]
    if domain == MICROSOFT:
        imports.append(helper.make_opsetid(domain, 1))
    graph = helper.make_graph([node], "case", values, [output], constants)
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION), arrays


def element_type(case: Case, name: str) -> int:
    """Return the number that ONNX has for the type of an input."""
    dtype = case.inputs[name].dtype
    if dtype == STRING:
        return int(onnx.TensorProto.STRING)
    native = arrays_of(case)[name].dtype.newbyteorder("=")
    try:
        return int(helper.np_dtype_to_tensor_dtype(native))
    except (KeyError, ValueError) as error:
        raise CannotExpressError(f"ONNX has no {dtype}") from error


def _opset(case: Case) -> int:
    """Return the newest opset in which the version of a case is in force."""
    number = case.operator.version
    if case.operator.domain != ONNX or number is None:
        return _NEWEST_OPSET
    later = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if (schema.name, schema.domain) == (case.operator.name, "")
        and schema.since_version > number
    ]
    newest = min(later) - 1 if later else number
    return max(newest, _LEAST_OPSET)
