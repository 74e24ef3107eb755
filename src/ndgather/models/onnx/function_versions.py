"""Local functions that import another opset than their model, brought to that of the model.

onnx puts only functions of the same versions in place of their calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import ModelProto, NodeProto

from ndgather.errors import NdgatherError, conversion_errors, run_errors
from ndgather.models.onnx.domains import implementation, is_ours, nodes_within, opsets, row_domain
from ndgather.models.onnx.op_nodes import Scope
from ndgather.models.onnx.other_node import Values
from ndgather.models.onnx.other_nodes import OtherNodes
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from onnx import FunctionProto


def with_one_version(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy of it whose functions all import its opset.

    Raises
    ------
    ModelError
        A node of a function is not the same there; the text names it.
    """
    wanted = opsets(model.opset_import).get(DEFAULT_DOMAIN)
    others = [_opset(each) not in {wanted, None} for each in model.functions]
    if wanted is None or not any(others):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for function, other in zip(copy.functions, others, strict=True):
        if other:
            _convert(function, wanted)
    return copy


def _opset(function: FunctionProto) -> int | None:
    return opsets(function.opset_import).get(DEFAULT_DOMAIN)


def _convert(function: FunctionProto, opset: int) -> None:
    here = _opset(function) or opset
    scope = Scope(function, opsets(function.opset_import))
    taken = {*function.input, *(name for node in function.node for name in node.output)}
    others = OtherNodes(opset=opset, taken=taken)
    values = Values(type_of=scope.type_of, constant=scope.constant)
    converted: list[NodeProto] = []
    for node in function.node:
        own = [inner for inner in nodes_within(node) if is_ours(inner)]
        if len([*nodes_within(node)]) > 1 or any(_differs(each, here, opset) for each in own):
            raise conversion_errors.function_stays(function.domain, function.name)
        try:
            converted += [node] if own else others.converted(node, values, here)
        except NdgatherError as error:
            gives = next(iter(node.output), "")
            raise run_errors.in_node(error, node.name, node.op_type, gives) from error
    copies = [NodeProto.FromString(node.SerializeToString()) for node in converted]
    del function.node[:]
    function.node.extend(copies)
    for each in function.opset_import:
        if row_domain(each.domain) == DEFAULT_DOMAIN:
            each.version = opset


def _differs(node: NodeProto, here: int, there: int) -> bool:
    domain = row_domain(node.domain)
    if domain != DEFAULT_DOMAIN:
        return False
    first, second = (implementation(node.op_type, domain, each) for each in (here, there))
    return first.row is not second.row
