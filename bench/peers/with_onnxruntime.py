"""ONNX Runtime: a single-node model, run with arrays or with bound memory."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from . import Bind, Call, Idioms, Unsupported

if TYPE_CHECKING:
    from bench.case import Array, Arrays, Case, Shape

_OPERATORS = {
    "gather_nd": "GatherND",
    "gather_elements": "GatherElements",
    "gather": "Gather",
    "scatter_nd": "ScatterND",
    "scatter_elements": "ScatterElements",
}
_OPSET = 18
_IR_VERSION = 10

_runtime: Any = import_module("onnxruntime")
_helper: Any = import_module("onnx.helper")


def prepare(case: Case, threads: int) -> Idioms:
    operator = _OPERATORS[case.operator]
    if operator == "ScatterND" and case.reduction != "none":
        raise Unsupported("ScatterND with a reduction loses updates where indices repeat")
    if case.operator == "gather" and case.batch_dims:
        if case.axis != case.batch_dims:
            raise Unsupported("Gather has no batch_dims")
        operator = "GatherND"
    takes_int32 = operator in ("Gather", "GatherElements", "ScatterElements")
    forms = [("", case.index_dtype if takes_int32 else "int64")]
    if operator == "GatherND" and case.index_dtype == "int32" and case.batch_dims == 0:
        forms.append(("com.microsoft", "int32"))

    options = _runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    idioms: dict[str, Bind] = {}
    for domain, index_dtype in forms:
        model = _model(case, operator, domain, index_dtype)
        session = _runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        label = f"{domain}:{operator}".lstrip(":")
        if case.output == "new":
            idioms[f"{label}, run"] = partial(_run, session, index_dtype)
        if case.is_packed:
            idioms[f"{label}, bound"] = partial(_bound, session, index_dtype)
    return idioms


def _model(case: Case, operator: str, domain: str, index_dtype: str) -> bytes:
    """Return a single-node model; sizes that differ between calls are dynamic."""

    def value(name: str, dtype: str, shape: Shape) -> Any:
        element = _helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        sides = [None] * len(shape) if case.varied_shapes else shape
        return _helper.make_tensor_value_info(name, element, sides)

    attributes: dict[str, int | str] = {}
    index_shape = case.index_shape
    if operator == "GatherND":
        if case.operator == "gather":
            index_shape = (*index_shape, 1)
        if not domain:
            attributes["batch_dims"] = case.batch_dims
    elif operator != "ScatterND":
        attributes["axis"] = case.axis
    inputs = [
        value("data", case.dtype, case.data_shape),
        value("indices", index_dtype, index_shape),
    ]
    if case.is_scatter:
        attributes["reduction"] = case.reduction
        inputs.append(value("updates", case.dtype, case.gathered_shape))
    names = [tensor.name for tensor in inputs]
    node = _helper.make_node(operator, names, ["out"], domain=domain, **attributes)
    outputs = [value("out", case.dtype, case.output_shape)]
    model: bytes = _helper.make_model(
        _helper.make_graph([node], "case", inputs, outputs),
        opset_imports=[_helper.make_opsetid("", _OPSET), _helper.make_opsetid("com.microsoft", 1)],
        ir_version=_IR_VERSION,
    ).SerializeToString()
    return model


def _inputs(session: Any, index_dtype: str, arrays: Arrays) -> dict[str, Array]:
    indices = arrays.indices.astype(index_dtype, copy=False)
    if len(session.get_inputs()[1].shape) > indices.ndim:
        indices = indices[..., None]
    inputs = {"data": arrays.data, "indices": indices}
    return inputs if arrays.updates is None else inputs | {"updates": arrays.updates}


def _run(session: Any, index_dtype: str, case: Case, arrays: Arrays) -> Call:
    inputs = _inputs(session, index_dtype, arrays)
    if case.is_packed:
        return Call(run=partial(session.run, None, inputs), answer=lambda answer: answer[0])

    def run() -> Any:
        return session.run(None, {name: np.ascontiguousarray(a) for name, a in inputs.items()})

    return Call(run=run, answer=lambda answer: answer[0])


def _bound(session: Any, index_dtype: str, case: Case, arrays: Arrays) -> Call:
    binding = session.io_binding()
    for name, array in _inputs(session, index_dtype, arrays).items():
        binding.bind_cpu_input(name, array)
    run = partial(session.run_with_iobinding, binding)
    # Updates in place need the same memory as input and output.
    target = arrays.data if case.output == "data" else arrays.out
    if target is None:
        binding.bind_output("out", "cpu")
        return Call(run=run, answer=lambda _: binding.copy_outputs_to_cpu()[0])
    binding.bind_output("out", "cpu", 0, target.dtype, target.shape, target.ctypes.data)
    return Call(run=run, answer=lambda _: target)
