"""ONNX models as graphs of operators, and graphs as ONNX models.

A model becomes a graph if it is made of gather and scatter operators, constants, identities
and casts that change no value; anything else is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndgather.errors import NdgatherError, conversion_errors
from ndgather.errors.constant_errors import unreadable_tensor
from ndgather.errors.conversion_errors import unknown_target
from ndgather.errors.onnx_errors import invalid_model
from ndgather.errors.run_errors import extra_missing, in_node
from ndgather.models.graph import (
    CastNode,
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    OperatorNode,
    unique,
)
from ndgather.models.graph.dtypes import dtype_of
from ndgather.models.graph.translation import translate
from ndgather.models.graph.value_types import value_types
from ndgather.models.onnx.external_tensors import refuse_tensors
from ndgather.models.onnx.type_protos import dtype_of_number
from ndgather.published import operator, operators
from ndgather.published.rows import microsoft
from ndgather.published.rows.onnx import ALIASES, DOMAIN
from ndgather.published.tensor_types import TensorType

try:
    import onnx
    from onnx import helper, numpy_helper
except ModuleNotFoundError as missing:
    raise extra_missing("onnx", "onnx") from missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ndgather.models.graph import Array
    from ndgather.models.graph.diagnostics import Finding

DEFAULT_OPSET = 18
DOMAINS = (DOMAIN, microsoft.DOMAIN)
PLAIN_TYPES = ("Cast", "Constant", "Identity")

# In models of these versions every constant is an input too, and nobody can mean it as one.
_LAST_IR_WITH_CONSTANTS_AS_INPUTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """An ONNX model, and where a run of it may part from one of the graph it was made of."""

    model: onnx.ModelProto
    findings: tuple[Finding, ...]


def graph_of(model: onnx.ModelProto) -> Graph:
    """Return the graph that a model is.

    Raises
    ------
    NdgatherError
        The model has something else in it; the text names it.
    """
    refuse_tensors(model)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:  # ValueError: beyond 2 GiB
        raise invalid_model("model", error) from error
    return _Reader(model).graph()


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
    domain = ALIASES.get(domain, domain)
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        raise unknown_target("opset", opset, (f"1..{newest}",))
    if domain not in DOMAINS:
        raise unknown_target("domain", domain, DOMAINS)
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


class _Reader:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.proto = model.graph
        self.versions = {
            ALIASES.get(each.domain, each.domain): each.version for each in model.opset_import
        }
        self.defaults_are_constants = model.ir_version <= _LAST_IR_WITH_CONSTANTS_AS_INPUTS
        self.names: dict[str, str] = {}  # what an identity gives, by what it takes
        self.constants: dict[str, Array] = {}
        self.dtypes: dict[str, str | None] = {}
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        if self.proto.sparse_initializer:
            raise conversion_errors.not_in_graph("initializer", "a sparse tensor", "dense tensors")
        for tensor in self.proto.initializer:
            self.constants[tensor.name] = _array(tensor, tensor.name)
        inputs = []
        for info in self.proto.input:
            if info.name in self.constants:
                if self.defaults_are_constants:
                    continue
                raise conversion_errors.not_in_graph(
                    f"input {info.name!r}", "optional: it has a default", "inputs without one"
                )
            inputs.append(GraphInput(name=info.name, type=_type_of(info)))
        for node in self.proto.node:
            try:
                self._add(node)
            except NdgatherError as error:
                raise in_node(error, node.name, node.op_type) from error
        return Graph(
            name=self.proto.name,
            inputs=tuple(inputs),
            constants=self.constants,
            nodes=tuple(self.nodes),
            outputs=tuple(
                GraphOutput(name=info.name, value=self._value(info.name))
                for info in self.proto.output
            ),
        )

    def _value(self, name: str) -> str:
        return self.names.get(name, name)

    def _add(self, node: onnx.NodeProto) -> None:
        domain = ALIASES.get(node.domain, node.domain)
        attributes = {each.name: each for each in node.attribute}
        inputs = tuple(self._value(name) for name in node.input)
        if "" in inputs:
            raise conversion_errors.not_in_graph("an input", "left out", "every input")
        output = node.output[0]
        if domain == DOMAIN and node.op_type == "Identity":
            self.names[output] = inputs[0]
        elif domain == DOMAIN and node.op_type == "Constant":
            self.constants[output] = _constant(attributes)
        elif domain == DOMAIN and node.op_type == "Cast":
            dtype = _dtype_name(attributes["to"].i, output)
            self.nodes.append(
                CastNode(name=node.name or output, input=inputs[0], output=output, dtype=dtype)
            )
        elif domain in DOMAINS and any(operators(node.op_type, domain)):
            row = operator(node.op_type, domain=domain, opset=self.versions.get(domain, 1)).row
            self.nodes.append(
                OperatorNode(
                    name=node.name or output,
                    row=row,
                    inputs=inputs,
                    output=output,
                    attributes={name: _attribute(each) for name, each in attributes.items()},
                )
            )
        else:
            known = dict.fromkeys(each.name for each in operators(domain=DOMAIN))
            raise conversion_errors.not_in_graph(
                f"op_type = {node.op_type!r} of {domain}",
                "no gather or scatter",
                ", ".join((*known, *PLAIN_TYPES)),
            )


def _attribute(attribute: onnx.AttributeProto) -> int | str | bool:
    if attribute.type == onnx.AttributeProto.INT:
        return attribute.i
    if attribute.type == onnx.AttributeProto.STRING:
        return attribute.s.decode(errors="replace")
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    raise conversion_errors.not_in_graph(
        f"attribute {attribute.name!r}", f"of type {kind}", "INT, STRING"
    )


def _constant(attributes: dict[str, onnx.AttributeProto]) -> Array:
    """Return the array of a Constant node, which has one attribute."""
    ((name, attribute),) = attributes.items()
    if name == "value":
        return _array(attribute.t, "value")
    if name in {"value_int", "value_ints"}:
        return np.array(helper.get_attribute_value(attribute), np.int64)
    if name in {"value_float", "value_floats"}:
        return np.array(helper.get_attribute_value(attribute), np.float32)
    raise conversion_errors.not_in_graph(
        f"attribute {name!r}", "no dense tensor of numbers", "value"
    )


def _array(tensor: onnx.TensorProto, name: str) -> Array:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # it believes what the tensor says of itself
        raise unreadable_tensor(name, error) from error


def _dtype_name(elem_type: int, name: str) -> str:
    if elem_type == onnx.TensorProto.STRING:
        return "string"
    return dtype_of_number(elem_type, name).name


def _type_of(info: onnx.ValueInfoProto) -> TensorType:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "value without a type"
        raise conversion_errors.not_in_graph(f"input {info.name!r}", f"a {kind}", "tensors")
    tensor = info.type.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in tensor.shape.dim
        )
    return TensorType(_dtype_name(tensor.elem_type, info.name) if tensor.elem_type else None, shape)


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
            to = _elem_type(node.dtype)
            yield helper.make_node("Cast", [called[node.input]], [output], name=node.name, to=to)
            continue
        proto = helper.make_node(
            node.row.name,
            [called[name] for name in node.inputs],
            [output],
            name=node.name,
            domain="" if node.row.domain == DOMAIN else node.row.domain,
        )
        proto.attribute.extend(
            helper.make_attribute(name, value) for name, value in node.attributes.items()
        )
        yield proto
    for each in graph.outputs:
        if called[each.value] != each.name:
            name = f"{each.name}/result"
            yield helper.make_node("Identity", [called[each.value]], [each.name], name=name)


def _elem_type(dtype: str) -> int:
    if dtype == "string":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype_of(dtype))


def _value_info(name: str, given: TensorType) -> onnx.ValueInfoProto:
    if given.dtype is None:
        raise conversion_errors.not_in_graph(
            f"value {name!r}", "without a type", "a dtype for each input"
        )
    if not isinstance(given.shape, tuple):
        raise conversion_errors.no_known_rank(name)
    return helper.make_tensor_value_info(name, _elem_type(given.dtype), given.shape)
