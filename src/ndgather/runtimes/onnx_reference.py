"""Run models in the ONNX reference evaluator, and refuse nodes that it computes wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import NodeProto, helper, inliner
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ndgather import messages
from ndgather.errors import ModelError
from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource, model_with_data


class EvaluatorFault(NamedTuple):
    """A bug in the evaluator, which affects some or all nodes of an operator."""

    operator: str
    reason: str
    applies: Callable[[NodeProto, int], bool] = lambda _node, _opset: True


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    values = (item for item in node.attribute if item.name == name)
    return next(map(helper.get_attribute_value, values), default)


def _reads(node: NodeProto, position: int) -> bool:
    return any(node.input[position : position + 1])


def _caps_products(node: NodeProto, _opset: int) -> bool:
    capped = _attribute(node, "softcap", 0.0) > 0 and any(node.output[3:])
    return capped and _attribute(node, "qk_matmul_output_mode", 0) == 0


def _is_stacking_loop(node: NodeProto, _opset: int) -> bool:
    return len(node.output) > len(node.input) - 2


def _is_scaling(node: NodeProto, _opset: int) -> bool:
    mode = _attribute(node, "coordinate_transformation_mode", b"")
    return bool(mode == b"align_corners") and not _reads(node, 3)


_MATRIX = "before opset 13 the operator flattens its input to a matrix, but the evaluator does not"
FAULTS = (
    EvaluatorFault(
        "Attention", "it caps output 3 although qk_matmul_output_mode is 0", _caps_products
    ),
    EvaluatorFault(
        "BatchNormalization",
        "before opset 14 it mistakes inference for training",
        lambda _node, opset: opset < 14,
    ),
    EvaluatorFault("GlobalMaxPool", "it always reduces two axes, whatever the rank of its input"),
    *(
        EvaluatorFault(name, _MATRIX, lambda _node, opset: opset < 13)
        for name in ("Hardmax", "LogSoftmax", "Softmax")
    ),
    EvaluatorFault("LRN", "it uses the batch size as the number of channels"),
    EvaluatorFault(
        "Loop",
        "it concatenates scan outputs along their first axis instead of stacking them",
        _is_stacking_loop,
    ),
    EvaluatorFault(
        "Loop", "it skips a loop without a condition", lambda node, _opset: not _reads(node, 1)
    ),
    EvaluatorFault(
        "LpPool",
        "it uses the wrong windows if ceil_mode is 1",
        lambda node, _opset: _attribute(node, "ceil_mode", 0) != 0,
    ),
    EvaluatorFault("Optional", "it returns a list instead of its input"),
    EvaluatorFault("Resize", "it computes align_corners from unrounded sizes", _is_scaling),
)


def check_operators(model: onnx.ModelProto) -> None:
    """Raise ModelError if the model contains a node that the evaluator computes wrongly."""
    for body in (model, *model.functions):
        imports = {item.domain: item.version for item in body.opset_import}
        opset = imports.get("", imports.get("ai.onnx", 1))
        graph = body.graph if isinstance(body, onnx.ModelProto) else body
        for node in _nodes_in(graph):
            for fault in FAULTS:
                ours = node.op_type == fault.operator and node.domain in {"", "ai.onnx"}
                if ours and fault.applies(node, opset):
                    refusal = ModelError(
                        f"the reference evaluator of onnx computes it wrongly: {fault.reason} "
                        "(allowed: another runtime: --runtime onnxruntime, "
                        "runtime='onnxruntime')"
                    )
                    raise messages.in_node(refusal, node.name, node.op_type, *node.output[:1])


def _nodes_in(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[NodeProto]:
    """Yield the nodes of a graph and of its nested graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes_in(inner)


class Scatter(OpRun):
    """The operator Scatter (opsets 9 and 10), which the evaluator does not implement."""

    op_domain = ""

    def _run(
        self, data: Array, indices: Array, updates: Array, axis: int | None = None, **_: object
    ) -> tuple[Array]:
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[axis or 0] = indices
        result = data.copy()
        result[tuple(places)] = updates
        return (result,)


def with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """If any function has attributes, inline all functions, as the evaluator ignores defaults."""
    functions = {(item.domain, item.name, item.overload): item for item in model.functions}
    if not any(item.attribute or item.attribute_proto for item in model.functions):
        return model
    result = deepcopy(model)
    bodies: list[Any] = [result.graph, *result.functions]
    while bodies:
        for node in bodies.pop().node:
            given = {attribute.name for attribute in node.attribute}
            bodies += [item.g for item in node.attribute if item.HasField("g")]
            called = functions.get((node.domain, node.op_type, node.overload))
            defaults = () if called is None else called.attribute_proto
            node.attribute.extend(item for item in defaults if item.name not in given)
    return inliner.inline_local_functions(result)


def version() -> str:
    return onnx.__version__


class _Session:
    """A model loaded by the evaluator, which ignores all load options."""

    def __init__(self, source: ModelSource, _options: LoadOptions) -> None:
        model = with_defaults(model_with_data(source))
        check_operators(model)
        self._evaluator = ReferenceEvaluator(model, new_ops=[Scatter])

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        return list(self._evaluator.run(list(names), dict(inputs)))


session = _Session
