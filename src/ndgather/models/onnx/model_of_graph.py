"""Graphs as ONNX models, in the operators of a domain that ONNX models can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import helper, numpy_helper

from ndgather.errors import conversion_errors
from ndgather.models.graph import CastNode, Graph, OperatorNode, unique
from ndgather.models.graph.translation import translate
from ndgather.models.graph.value_types import value_types
from ndgather.models.onnx.domains import DOMAINS, file_domain, row_domain
from ndgather.models.onnx.onnx_conversion import Conversion
from ndgather.models.onnx.type_protos import declaration, element_type
from ndgather.published.rows.onnx import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ndgather.published.tensor_types import TensorType

DEFAULT_OPSET = 18


def model_of(graph: Graph, *, domain: str = DOMAIN, opset: int = DEFAULT_OPSET) -> Conversion:
    """Return the model that a graph is, in the operators of a domain of ONNX models.

    Parameters
    ----------
    graph : Graph
        Operators of other domains are translated.
    domain : str
        Whose operators to use.
    opset : int, default 18
        The version of ONNX itself, which casts and identities have in any case.

    Raises
    ------
    NdgatherError
        There is no such model.
    """
    domain = row_domain(domain)
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        raise conversion_errors.unknown_target("opset", opset, (f"1..{newest}",))
    if domain not in DOMAINS:
        raise conversion_errors.unknown_target("domain", domain, DOMAINS)
    translation = translate(graph, domain=domain, opset=opset if domain == DOMAIN else None)
    graph = translation.graph
    types, called = value_types(graph), _names(graph)
    versions = {"": opset}
    for node in graph.nodes:
        if isinstance(node, OperatorNode) and domain != DOMAIN:
            versions[domain] = max(versions.get(domain, 1), node.row.since)
    imports = [helper.make_opsetid(name, version) for name, version in versions.items()]
    model = helper.make_model(
        helper.make_graph(
            [*_node_protos(graph, called)],
            graph.name or "graph",
            [_value_info(each.name, each.type) for each in graph.inputs],
            [_value_info(each.name, types[each.value]) for each in graph.outputs],
            [
                numpy_helper.from_array(array, called[name])
                for name, array in graph.constants.items()
            ],
        ),
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
    )
    onnx.checker.check_model(model)
    return Conversion(model=model, findings=translation.findings)


def _names(graph: Graph) -> dict[str, str]:
    """Return what each value is called in the model: a computed one as its first result."""
    called = {each.name: each.name for each in graph.inputs}
    for output in graph.outputs:
        if output.name in called and output.value != output.name:
            raise conversion_errors.two_values(output.name)
    taken = {*called, *(each.name for each in graph.outputs)}
    computed = {node.output for node in graph.nodes}
    for output in graph.outputs:
        if output.value in computed:
            called.setdefault(output.value, output.name)
    for name in (*graph.constants, *(node.output for node in graph.nodes)):
        if name not in called:
            called[name] = unique(name, taken)
    return called


def _node_protos(graph: Graph, called: Mapping[str, str]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes; a value that is a result under another name passes an identity."""
    for node in graph.nodes:
        output = called[node.output]
        if isinstance(node, CastNode):
            to = element_type(node.dtype)
            yield helper.make_node("Cast", [called[node.input]], [output], name=node.name, to=to)
            continue
        proto = helper.make_node(
            node.row.name,
            [called[name] for name in node.inputs],
            [output],
            name=node.name,
            domain=file_domain(node.row.domain),
        )
        proto.attribute.extend(
            helper.make_attribute(name, value) for name, value in node.attributes.items()
        )
        yield proto
    for each in graph.outputs:
        if called[each.value] != each.name:
            name = f"{each.name}/result"
            yield helper.make_node("Identity", [called[each.value]], [each.name], name=name)


def _value_info(name: str, given: TensorType) -> onnx.ValueInfoProto:
    if given.dtype is None:
        what = f"value {name!r}"
        raise conversion_errors.not_in_graph(what, "without a type", "a dtype for each input")
    if not isinstance(given.shape, tuple):
        raise conversion_errors.no_known_rank(name)
    return onnx.ValueInfoProto(name=name, type=declaration(given))
