"""Conversion of model files between ONNX and OpenVINO IR, and of ONNX models to graphs and back.

Models of gather and scatter operators, constants and casts are converted in both directions.
Other ONNX models need the converter of the package openvino.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    numpy_helper,
)

from ndgather.errors import FileError, ModelError, NdgatherError, ShapeError, one_line
from ndgather.models import onnx, openvino
from ndgather.models.graph import (
    CastNode,
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    OperatorNode,
    unique,
    value_types,
)
from ndgather.models.graph.conversion import translate
from ndgather.models.graph.diagnostics import Finding
from ndgather.models.onnx.converter import unknown_target
from ndgather.models.onnx.files import (
    check_self_contained,
    check_valid,
    external_files,
    load_model,
    open_model,
    sparse_tensors,
)
from ndgather.models.onnx.nodes import (
    CONSTANTS_FROM,
    DOMAINS,
    attribute_value,
    constant_tensor,
    declaration,
    dtype_name,
    element_type,
    file_domain,
    implementation,
    is_published,
    named_by,
    opsets,
    row_domain,
    tensor_array,
    tensor_type,
)
from ndgather.models.onnx.rewriting.report import Conversion
from ndgather.models.openvino import model as ir_model
from ndgather.models.tensors.tensor_files import resolved
from ndgather.published import operators
from ndgather.published.rows.onnx import DOMAIN
from ndgather.published.schema import TensorType

DEFAULT_OPSET = 18


def onnx_to_openvino(
    source: str | os.PathLike[str], target: str | os.PathLike[str]
) -> tuple[int, tuple[Finding, ...]]:
    """Write an ONNX file as an IR, with its constants in the ``.bin`` beside it.

    Returns the number of nodes, and where runs of the two files may differ. If OpenVINO wrote the
    IR, the findings are those of a check of its gather and scatter layers.
    """
    constants = Path(target).with_suffix(".bin")
    taken = external_files(source, "convert")
    for path in (constants, Path(target)):
        if resolved(path) in taken:
            raise FileError(f"{path}: cannot be written: {source} keeps tensors there")
    if ir_model.is_installed() and not is_graph(open_model(source, "convert")[0]):
        return ir_model.write_converted(Path(source), Path(target), constants)
    graph = graph_of(load_model(source, "convert"))
    return len(graph.nodes), openvino.write(graph, target, constants)


def openvino_to_onnx(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    domain: str | None = None,
    opset: int | None = None,
    operator: str | None = None,
    strict: bool = False,
) -> tuple[int, tuple[Finding, ...]]:
    """Write an IR as an ONNX file; the options are those of `ndgather.models.onnx.conversion`.

    Returns the number of nodes, and where runs of the two files may differ.
    """
    graph = openvino.Model.load(source).graph
    conversion = model_of(graph, domain=domain or DOMAIN, opset=opset or DEFAULT_OPSET)
    proto, findings = conversion.model, conversion.findings
    if operator is not None:
        conversion = onnx.conversion(proto, operator=operator, strict=strict)
        proto, findings = conversion.model, (*findings, *conversion.findings)
    onnx.save(proto, target)
    return len(proto.graph.node), findings


# Graphs of a model

_PLAIN = ("Cast", "Constant", "Identity")


def is_graph(model: ModelProto) -> bool:
    """Return whether all nodes of a model are of operators that a graph has."""
    return all(is_published(node) or _is_plain(node, *_PLAIN) for node in model.graph.node)


def _is_plain(node: NodeProto, *op_types: str) -> bool:
    return row_domain(node.domain) == DOMAIN and node.op_type in op_types


def graph_of(model: ModelProto) -> Graph:
    """Return the graph of a model of gathers, scatters, constants, identities and casts."""
    check_self_contained(model)
    check_valid(model)
    if any(sparse_tensors(model)):
        raise _not_in_graph("initializer", "a sparse tensor", "dense tensors")
    constants = {
        tensor.name: tensor_array(tensor, tensor.name) for tensor in model.graph.initializer
    }
    inputs = []
    for info in model.graph.input:
        what, kind = f"input {info.name!r}", info.type.WhichOneof("value")
        if info.name in constants:
            if model.ir_version >= CONSTANTS_FROM:
                why = "optional: it has a default"
                raise _not_in_graph(what, why, "inputs without one")
            continue
        if kind != "tensor_type":
            kind = f"a {kind or 'value without a type'}"
            raise _not_in_graph(what, kind, "tensors")
        if info.type.tensor_type.elem_type:
            dtype_name(info.type.tensor_type.elem_type, info.name)
        inputs.append(GraphInput(info.name, tensor_type(info.type)))
    versions = opsets(model.opset_import)
    aliases: dict[str, str] = {}  # outputs of identities, and their inputs
    nodes: list[Node] = []
    for node in model.graph.node:
        output = next(iter(node.output), "")
        try:
            if "" in node.input:
                raise _not_in_graph("an input", "left out", "every input")
            reads = tuple(aliases.get(name, name) for name in node.input)
            if _is_plain(node, "Identity"):
                aliases[output] = reads[0]
            elif _is_plain(node, "Constant"):
                tensor = constant_tensor(node)
                if tensor is None:
                    what = f"attribute {node.attribute[0].name!r}"
                    why = "not a dense tensor of numbers"
                    raise _not_in_graph(what, why, "value")
                constants[output] = tensor_array(tensor, "value")
            else:
                nodes.append(_graph_node(node, reads, output, versions))
        except NdgatherError as error:
            raise named_by(error, node) from error
    outputs = [
        GraphOutput(info.name, aliases.get(info.name, info.name)) for info in model.graph.output
    ]
    return Graph(model.graph.name, tuple(inputs), constants, tuple(nodes), tuple(outputs))


def _graph_node(
    node: NodeProto, inputs: tuple[str, ...], output: str, versions: Mapping[str, int]
) -> Node:
    name, domain = node.name or output, row_domain(node.domain)
    if _is_plain(node, "Cast"):
        to = next(item.i for item in node.attribute if item.name == "to")
        return CastNode(name, inputs[0], output, dtype_name(to, output))
    if not is_published(node):
        known = dict.fromkeys(operator.name for operator in operators(domain=DOMAIN))
        allowed = ", ".join((*known, *_PLAIN))
        raise ModelError(
            f"op_type = {node.op_type!r} of {one_line(domain)} is not a gather or scatter "
            f"operator, which cannot be converted (allowed: {allowed}; any, if the package "
            "openvino is installed)"
        )
    attributes = {item.name: attribute_value(item) for item in node.attribute}
    for item in node.attribute:
        if not isinstance(attributes[item.name], int | str):
            kind = f"of type {AttributeProto.AttributeType.Name(item.type)}"
            what = f"attribute {item.name!r}"
            raise _not_in_graph(what, kind, "INT, STRING")
    row = implementation(node.op_type, domain, versions.get(domain, 1)).row
    return OperatorNode(name, row, inputs, output, attributes)


# Models of a graph


def model_of(graph: Graph, *, domain: str = DOMAIN, opset: int = DEFAULT_OPSET) -> Conversion:
    """Return the model of a graph, in the operators of a domain.

    `opset` is the version of ONNX itself, which always has the casts and identities.
    """
    domain = row_domain(domain)
    newest = defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        raise unknown_target("opset", opset, (f"1..{newest}",))
    if domain not in DOMAINS:
        raise unknown_target("domain", domain, DOMAINS)
    graph, findings = translate(graph, domain=domain, opset=opset if domain == DOMAIN else None)
    types, names = value_types(graph), _value_names(graph)
    versions = {"": opset}
    for node in graph.nodes:
        if isinstance(node, OperatorNode) and domain != DOMAIN:
            versions[domain] = max(versions.get(domain, 1), node.row.since)
    imports = [helper.make_opsetid(name, version) for name, version in versions.items()]
    model = helper.make_model(
        helper.make_graph(
            list(_node_protos(graph, names)),
            graph.name or "graph",
            [_value_info(item.name, item.type) for item in graph.inputs],
            [_value_info(item.name, types[item.value]) for item in graph.outputs],
            [numpy_helper.from_array(np.asarray(array), names[name])
             for name, array in graph.constants.items()],
        ),
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
    )  # fmt: skip
    checker.check_model(model)
    return Conversion(model=model, findings=findings)


def _value_names(graph: Graph) -> dict[str, str]:
    """Return the name of every value in the model; a result has the name of its first output."""
    names = {item.name: item.name for item in graph.inputs}
    for output in graph.outputs:
        if output.name in names and output.value != output.name:
            raise ModelError(
                f"name = {output.name!r} names an input and another result "
                "(allowed: one value for each name)"
            )
    taken = {*names, *(output.name for output in graph.outputs)}
    computed = {node.output for node in graph.nodes}
    for output in graph.outputs:
        if output.value in computed:
            names.setdefault(output.value, output.name)
    for name in (*graph.constants, *(node.output for node in graph.nodes)):
        if name not in names:
            names[name] = unique(name, taken)
    return names


def _node_protos(graph: Graph, names: Mapping[str, str]) -> Iterator[NodeProto]:
    """Yield the nodes, and an Identity for every output whose value has another name."""
    for node in graph.nodes:
        output = names[node.output]
        if isinstance(node, CastNode):
            to = element_type(node.dtype)
            yield helper.make_node("Cast", [names[node.input]], [output], name=node.name, to=to)
            continue
        proto = helper.make_node(
            node.row.name,
            [names[name] for name in node.inputs],
            [output],
            name=node.name,
            domain=file_domain(node.row.domain),
        )
        proto.attribute.extend(
            helper.make_attribute(name, value) for name, value in node.attributes.items()
        )
        yield proto
    for result in graph.outputs:
        if names[result.value] != result.name:
            yield helper.make_node(
                "Identity", [names[result.value]], [result.name], name=f"{result.name}/result"
            )


def _value_info(name: str, known: TensorType) -> ValueInfoProto:
    if known.dtype is None:
        what = f"value {name!r}"
        raise _not_in_graph(what, "without a type", "a dtype for each input")
    if known.dims is None:
        raise ShapeError(
            f"value {name!r} has no known rank (allowed: a rank for inputs and results)"
        )
    return ValueInfoProto(name=name, type=declaration(known))


def _not_in_graph(what: str, is_what: str, allowed: str) -> ModelError:
    return ModelError(f"{what} is {is_what}, which cannot be converted (allowed: {allowed})")
