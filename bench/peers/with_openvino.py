"""OpenVINO: a single-operation model on the CPU, whose tensors share NumPy's memory."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from . import Call, Idioms, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.case import Arrays, Case, Shape

_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "min": "min", "max": "max"}

_openvino: Any = import_module("openvino")
_opset: Any = import_module("openvino.opset15")


def prepare(case: Case, threads: int) -> Idioms:
    if case.output == "data":
        raise Unsupported("no update in place")
    properties = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    return {"infer": partial(_infer, _openvino.compile_model(_model(case), "CPU", properties))}


def _model(case: Case) -> Any:
    def parameter(shape: Shape, dtype: str) -> Any:
        sides = [-1] * len(shape) if case.varied_shapes else list(shape)
        return _opset.parameter(sides, np.dtype(dtype))

    inputs = [
        parameter(case.data_shape, case.dtype),
        parameter(case.index_shape, case.index_dtype),
    ]
    if case.has_tuples and case.varied_shapes:  # the tuple length determines the rank of the result
        inputs[1] = _opset.parameter([-1, case.index_shape[-1]], np.dtype(case.index_dtype))
    if case.is_scatter:
        inputs.append(parameter(case.gathered_shape, case.dtype))
    axis, reduction = _opset.constant(np.int64(case.axis)), _REDUCTIONS[case.reduction]
    nodes: dict[str, Callable[[], Any]] = {
        "gather_nd": lambda: _opset.gather_nd(*inputs, case.batch_dims),
        "gather_elements": lambda: _opset.gather_elements(*inputs, case.axis),
        "gather": lambda: _opset.gather(*inputs, axis, case.batch_dims),
        "scatter_nd": lambda: _opset.scatter_nd_update(*inputs, reduction),
        "scatter_elements": lambda: _opset.scatter_elements_update(*inputs, axis, reduction),
    }
    return _openvino.Model([nodes[case.operator]()], inputs, "case")


def _infer(compiled: Any, case: Case, arrays: Arrays) -> Call:
    request = compiled.create_infer_request()

    def share(port: int, array: Any) -> None:
        request.set_input_tensor(port, _openvino.Tensor(array, shared_memory=True))

    if arrays.updates is not None:
        share(2, arrays.updates)
    if arrays.out is not None:
        request.set_output_tensor(0, _openvino.Tensor(arrays.out, shared_memory=True))
    infer = partial(request.infer, share_outputs=True)
    inputs = (arrays.data, arrays.indices)
    if case.is_packed:
        for port, array in enumerate(inputs):
            share(port, array)
        return Call(run=infer, answer=lambda _: request.get_output_tensor(0).data)

    def run() -> None:
        # The tensors do not keep these arrays alive.
        dense = [np.ascontiguousarray(array) for array in inputs]
        for port, array in enumerate(dense):
            share(port, array)
        infer()

    return Call(run=run, answer=lambda _: request.get_output_tensor(0).data)
