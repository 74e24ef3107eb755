"""How many nodes a model has once its functions stand in place of their calls.

A few functions that call each other twice come to more nodes than any machine holds, and one
that calls itself to no end of them; so this is counted before it is done.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from ndgather.errors import onnx_errors
from ndgather.models.onnx.domains import nodes_within, row_domain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onnx import FunctionProto, ModelProto, NodeProto

MOST_NODES = 1_000_000
DEEPEST = 100

_Key: TypeAlias = tuple[str, str, str]


def refuse_unbounded(model: ModelProto) -> None:
    """Refuse a model whose functions come to too many nodes.

    Raises
    ------
    ModelError
        Functions call themselves, or their calls are more or deeper than what is run.
    """
    if not model.functions:
        return
    functions = {_key(function): function for function in model.functions}
    calls = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes: dict[_Key, int] = {}
    waiting = dict(calls)
    for _ in range(DEEPEST):
        ready = [key for key, called in waiting.items() if called.keys() <= sizes.keys()]
        for key in ready:
            called = waiting.pop(key)
            sizes[key] = len(functions[key].node) + sum(
                count * sizes[other] for other, count in called.items()
            )
        if not waiting:
            break
    for _, name, _ in waiting:
        raise onnx_errors.functions_call_themselves(name, DEEPEST)
    nodes = len(model.graph.node) + sum(
        count * sizes[key] for key, count in _calls(model.graph.node, functions).items()
    )
    if nodes > MOST_NODES:
        raise onnx_errors.too_many_nodes(nodes, MOST_NODES)


def _key(each: NodeProto | FunctionProto) -> _Key:
    name = each.op_type if hasattr(each, "op_type") else each.name
    return row_domain(each.domain), name, getattr(each, "overload", "")


def _calls(nodes: Iterable[NodeProto], functions: Mapping[_Key, FunctionProto]) -> Counter[_Key]:
    """Count the calls of each function, in subgraphs too."""
    keys = (_key(inner) for node in nodes for inner in nodes_within(node))
    return Counter(key for key in keys if key in functions)
