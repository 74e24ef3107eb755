"""Nodes, scopes and value types of ONNX models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cache, lru_cache
from graphlib import CycleError, TopologicalSorter
from operator import is_
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from ndgather import messages
from ndgather.api import own_errors
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    FileError,
    ModelError,
    NdgatherError,
    one_line,
)
from ndgather.messages import reason
from ndgather.models import Array, FilePath, instance
from ndgather.models.graph import Port, infer_call
from ndgather.models.onnx.files import map_tensor, messages_in
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN, microsoft
from ndgather.published.schema import ELEMENTS, Dim, Inference, Role, TensorType

Body: TypeAlias = GraphProto | FunctionProto

UNKNOWN = TensorType()


# Types


_DTYPE_NAMES: dict[int, str] = {
    number: "string" if dtype.kind == "O" else dtype.name
    for number in TensorProto.DataType.values()
    if number != TensorProto.UNDEFINED
    for dtype in [np.dtype(helper.tensor_dtype_to_np_dtype(number))]
}
_ELEMENT_TYPES: dict[str, int] = {name: number for number, name in _DTYPE_NAMES.items()}


def tensor_type(declared: TypeProto) -> TensorType:
    """Return the declared type of a tensor, or an unknown type for any other kind of value."""
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(_DTYPE_NAMES.get(tensor.elem_type))
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(dim.dim_value if dim.dim_value >= 0 else None)  # some exporters write -1
        else:
            dims.append(dim.dim_param or None)
    return TensorType(_DTYPE_NAMES.get(tensor.elem_type), tuple(dims))


def type_of_array(tensor: TensorProto) -> TensorType:
    return TensorType(_DTYPE_NAMES.get(tensor.data_type), tuple(tensor.dims[:]))


def element_type(dtype: str) -> int:
    if dtype not in _ELEMENT_TYPES:
        raise DTypeError(f"dtype = {dtype} is not an ONNX type")
    return _ELEMENT_TYPES[dtype]


@cache
def schema_type(dtype: str) -> str:
    """Return the name that `onnx` schemas use for tensors of a dtype, such as ``tensor(float)``."""
    return f"tensor({TensorProto.DataType.Name(_ELEMENT_TYPES[dtype]).lower()})"


def declaration(known: TensorType) -> TypeProto:
    declared = TypeProto()
    tensor = declared.tensor_type
    if known.dtype is not None:
        tensor.elem_type = element_type(known.dtype)
    if known.dims is not None:
        tensor.shape.SetInParent()
        for dim in known.dims:
            size = tensor.shape.dim.add()
            if isinstance(dim, int):
                size.dim_value = dim
            elif dim is not None:
                size.dim_param = dim
    return declared


def model_ports(proto: ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    inputs, outputs = proto.graph.input, proto.graph.output
    for info in inputs:
        kind = info.type.WhichOneof("value")
        if kind not in {"tensor_type", None}:
            raise messages.not_a_tensor("input", info.name, kind.removesuffix("_type"))
    for info in (*inputs, *outputs):
        elem_type = info.type.tensor_type.elem_type
        if elem_type and elem_type not in _DTYPE_NAMES:
            text = f"value {info.name!r}: elem_type = {elem_type} is not an ONNX type"
            raise DTypeError(text)
    defaults = {tensor.name for tensor in proto.graph.initializer}
    ports = [
        [Port.of(x.name, tensor_type(x.type), optional=x.name in defaults) for x in inputs],
        [Port.of(x.name, tensor_type(x.type)) for x in outputs],
    ]
    return tuple(ports[0]), tuple(ports[1])


# Operators and their domains

DOMAINS = (DEFAULT_DOMAIN, microsoft.DOMAIN)
"""The domains of the published ONNX operators."""

PUBLISHED = frozenset((item.name, item.domain) for item in operators() if item.domain in DOMAINS)
"""The name and domain of every published ONNX operator."""


def row_domain(domain: str) -> str:
    """Return the name that `ndgather.published` uses for a domain."""
    return ALIASES.get(domain, domain)


def file_domain(domain: str) -> str:
    """Return the domain name that is common in ONNX files and that `onnx` always accepts."""
    return "" if domain == DEFAULT_DOMAIN else domain


def is_published(node: NodeProto) -> bool:
    return (node.op_type, row_domain(node.domain)) in PUBLISHED


@own_errors("implementation")
def implementation(op_type: str, domain: str, opset: int) -> Operator:
    """Return the operator that computes a node.

    Parameters
    ----------
    op_type, domain : str
        The operator name and domain of the node. The default domain of ONNX is ``""`` or
        ``"ai.onnx"``.
    opset : int
        The version of the domain that the model imports.

    Returns
    -------
    Operator
        A callable that takes the inputs of the node by position and its attributes by name. It
        raises an error for calls that this operator version does not allow.

    Raises
    ------
    AttributeValueError
        This version of the domain does not define the operator.
    DTypeError
        An argument has the wrong type.

    Examples
    --------
    >>> from ndgather.models import onnx
    >>> str(onnx.implementation("GatherND", "", 18).row)
    'ai.onnx GatherND-13'
    """
    instance("implementation", "op_type", op_type, str, "the name of an operator")
    instance("implementation", "domain", domain, str, "the name of a domain")
    instance("implementation", "opset", opset, int, "a version")
    return _implementation(op_type, domain, opset)


@lru_cache(maxsize=256)
def _implementation(op_type: str, domain: str, opset: int) -> Operator:
    return operator(op_type, domain=row_domain(domain), opset=opset)


@cache
def _used(function: Operator) -> tuple[tuple[int, str], ...]:
    """Return the positions and names of the inputs whose values affect type inference."""
    row, roles = function.row, {Role.INDICES}
    if row.definition is not None:
        roles = {item.role for item in row.inputs} - ELEMENTS
    return tuple((n, item.name) for n, item in enumerate(row.inputs) if item.role in roles)


def repairing_opset(
    node: NodeProto, opset: int, types: Iterable[TensorType | None], error: Exception | None
) -> int | None:
    """Return the first opset after `opset` that allows the attributes of a node, or None.

    If `error`, which the node raised in `opset`, is not an AttributeValueError, return None.
    """
    if not isinstance(error, AttributeValueError) or row_domain(node.domain) != DEFAULT_DOMAIN:
        return None
    types = tuple(types)
    for later in range(opset + 1, NEWEST_OPSET + 1):
        with suppress(NdgatherError):
            attributes = {item.name: attribute_value(item) for item in node.attribute}
            implementation(node.op_type, DEFAULT_DOMAIN, later).infer(*types, **attributes)
            return later
    return None


def repair(node: NodeProto, opset: int) -> str:
    """Return the advice to convert a model to `opset`, the first opset that allows `node`."""
    row = implementation(node.op_type, DEFAULT_DOMAIN, opset).row
    return f"convert --opset {opset}, which has {row}"


def opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for opset in imports:
        domain = row_domain(opset.domain)
        if versions.setdefault(domain, opset.version) != opset.version:
            raise ModelError(
                f"the model imports versions {versions[domain]} and {opset.version} of "
                f"{one_line(domain)} (allowed: one version)"
            )
    return versions


def not_imported(model: ModelProto) -> dict[str, NodeProto]:
    """Return the first node of each domain that a model uses but does not import."""
    known = {row_domain(item.domain) for item in model.opset_import}
    known |= {DEFAULT_DOMAIN, *(item.domain for item in model.functions)}
    found: dict[str, NodeProto] = {}
    for node in nodes_in(model):
        if row_domain(node.domain) not in known:
            found.setdefault(node.domain, node)
    return found


def with_one_name(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy in which every domain is imported under a single name."""
    names = {opset.domain for holder in (model, *model.functions) for opset in holder.opset_import}
    names.update(node.domain for node in nodes_in(model))
    missing = not_imported(model)
    if not missing and all(file_domain(row_domain(name)) == name for name in names):
        return model
    result = deepcopy(model)
    for holder in (result, *result.functions):
        versions = opsets(holder.opset_import) | dict.fromkeys(missing, 1)
        del holder.opset_import[:]
        for domain, version in versions.items():
            holder.opset_import.add(domain=file_domain(domain), version=version)
    for node in nodes_in(result):
        node.domain = file_domain(node.domain)
    return result


# Subgraphs and scopes


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nodes_in(message: ModelProto | Body | NodeProto) -> Iterator[NodeProto]:
    """Yield all nodes in `message`, including nodes in subgraphs and `message` if it is a node."""
    return messages_in(message, NodeProto)


def value_names(graph: GraphProto) -> set[str]:
    names: set[str] = set()
    for inner in messages_in(graph, GraphProto):
        names.update(value.name for value in (*inner.input, *inner.initializer))
        names.update(name for node in inner.node for name in node.output)
    return names


def set_nodes(graph: GraphProto, before: Sequence[NodeProto], after: Sequence[NodeProto]) -> bool:
    """Replace the nodes `before` of a graph with `after`, and return whether they differ."""
    if len(before) == len(after) and all(map(is_, before, after)):
        return False
    copies = GraphProto()
    copies.node.extend(after)
    del graph.node[:]
    graph.node.extend(copies.node)
    return True


def rename_values(message: GraphProto | NodeProto, names: Mapping[str, str]) -> None:
    for part in messages_in(message, NodeProto, TensorProto, ValueInfoProto):
        if isinstance(part, NodeProto):
            for values in part.input, part.output:
                values[:] = [names.get(value, value) for value in values]
        else:
            part.name = names.get(part.name, part.name)


def names_read(node: NodeProto) -> set[str]:
    names = {name for inner in nodes_in(node) for name in inner.input}
    return names.union(x.name for graph in messages_in(node, GraphProto) for x in graph.output)


def unread(graph: GraphProto) -> set[str]:
    """Return the names of unused results and constants in a graph and its subgraphs."""
    names = {x.name for body in messages_in(graph, GraphProto) for x in body.initializer}
    names.update(name for node in nodes_in(graph) for name in node.output)
    for node in graph.node:
        names -= names_read(node)
    return names.difference(port.name for port in graph.output)


def drop_unread(graph: GraphProto, kept: set[str]) -> None:
    """Drop unused nodes and constants unless their names are in `kept`."""
    for node in graph.node:
        for inner in subgraphs(node):
            drop_unread(inner, kept)
    readers = Counter(name for node in graph.node for name in names_read(node))
    readers.update(port.name for port in (*graph.input, *graph.output))
    for number in reversed(range(len(graph.node))):
        node = graph.node[number]
        if not any(readers[name] or name in kept for name in node.output if name):
            readers.subtract(names_read(node))
            del graph.node[number]
    for tensor in list(graph.initializer):
        if tensor.name not in kept and readers[tensor.name] <= 0:
            graph.initializer.remove(tensor)


# Maps each numeric attribute of a Constant node to the field of its value and to its dtype.
_NUMBERS = {
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
}


def constant_tensor(node: NodeProto) -> TensorProto | None:
    """Return the value of a Constant node if it is a dense numeric tensor."""
    if node.op_type != "Constant" or row_domain(node.domain) != DEFAULT_DOMAIN or not node.output:
        return None
    for attribute in node.attribute:
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        if attribute.name in _NUMBERS:
            field_name, dtype = _NUMBERS[attribute.name]
            return numpy_helper.from_array(np.array(getattr(attribute, field_name), dtype))
    return None


class ReadNode(NamedTuple):
    """A node with cached fields, because accessing protobuf fields in Python is slow."""

    node: NodeProto
    op_type: str
    domain: str  # as in `ndgather.published`
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Sequence[AttributeProto]
    graphs: Sequence[GraphProto]

    @classmethod
    def from_node(cls, node: NodeProto) -> Self:
        attributes, domain = node.attribute[:], row_domain(node.domain)
        graphs = list(subgraphs(node)) if attributes else attributes
        return cls(node, node.op_type, domain, node.input[:], node.output[:], attributes, graphs)

    @property
    def is_published(self) -> bool:
        return (self.op_type, self.domain) in PUBLISHED

    def reads(self) -> Collection[str]:
        """Return the names of the values that the node reads from the enclosing graph."""
        if not self.graphs:
            return self.inputs
        return names_read(self.node).difference(*map(value_names, self.graphs)).union(self.inputs)


def _declarations(body: Body) -> dict[str, ValueInfoProto]:
    """Return the declarations of a graph by name, without parsing the types."""
    known = {info.name: info for info in body.value_info}
    if isinstance(body, GraphProto):
        known |= {info.name: info for info in body.output}
    return known


@dataclass(slots=True)
class Scope:
    """The values that the nodes of a graph or function can read.

    `around` contains the nodes that enclose the graph, outermost first. `folder` is the folder of
    the external tensors, if known. If `replaceable`, an initializer with the same name as an input
    is only the default value of this input, not a constant.
    """

    body: Body
    opsets: Mapping[str, int]
    folder: FilePath | None = None
    outer: Scope | None = None
    around: tuple[NodeProto, ...] = ()
    replaceable: bool = True
    nodes: Sequence[ReadNode] = field(init=False)
    _types: dict[str, TensorType] = field(init=False, default_factory=dict)
    _constants: dict[str, TensorProto] = field(init=False, default_factory=dict)
    _nodes: dict[str, NodeProto] = field(init=False, default_factory=dict)
    _declared: dict[str, ValueInfoProto] = field(init=False, default_factory=dict)
    _inferred: dict[str, ValueInfoProto] = field(init=False, default_factory=dict)
    _inner: dict[int, tuple[Scope, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        body = self.body
        self.nodes = list(map(ReadNode.from_node, body.node))
        if isinstance(body, GraphProto):
            self._types = {info.name: tensor_type(info.type) for info in body.input}
            for tensor in body.initializer:
                if tensor.name not in self._types or not self.replaceable:
                    self._add_constant(tensor.name, tensor)
        self._declared = _declarations(body)
        for item in self.nodes:
            self._add(item.node, item.op_type, item.outputs)

    def learn(self, body: Body) -> None:
        """Adopt the types that are declared in `body`, which is a copy of this scope's body."""
        self._inferred = _declarations(body)
        inputs = body.input if isinstance(body, GraphProto) else ()
        inputs = {info.name: tensor_type(info.type) for info in inputs}
        self._types = {name: x for name, x in inputs.items() if name not in self._constants}
        for number, scopes in self._inner.items():
            for scope, graph in zip(scopes, subgraphs(body.node[number]), strict=True):
                scope.learn(graph)

    def _add_constant(self, name: str, tensor: TensorProto) -> None:
        self._types.pop(name, None)
        self._constants[name] = tensor

    def add(self, node: NodeProto) -> None:
        self._add(node, node.op_type, node.output)

    def _add(self, node: NodeProto, op_type: str, outputs: Iterable[str]) -> None:
        for name in outputs:
            if name:
                self._nodes[name] = node
        if op_type == "Constant":
            tensor = constant_tensor(node)
            if tensor is not None:
                self._add_constant(node.output[0], tensor)

    def set_type(self, name: str, known: TensorType) -> None:
        self._types[name] = known

    def type_of(self, name: str) -> TensorType:
        known = self._types.get(name)
        if known is not None:
            return known
        if name in self._constants:
            known = type_of_array(self._constants[name])
        elif name in self._inferred:
            known = tensor_type(self._inferred[name].type)
        elif name in self._declared:
            known = tensor_type(self._declared[name].type)
        else:
            return self.outer.type_of(name) if self.outer else UNKNOWN
        self._types[name] = known
        return known

    def tensor(self, name: str) -> TensorProto | None:
        return self.home(name)._constants.get(name)

    def constant(self, name: str) -> Array | None:
        """Return the value of `name` if it is a constant that can be read."""
        tensor = self.tensor(name)
        if tensor is None:
            return None
        if tensor.data_location == TensorProto.EXTERNAL:
            if self.folder is None:
                return None
            mapped = map_tensor(tensor, self.folder)
            if mapped is not None:
                return mapped
        return tensor_array(tensor, name, self.folder)

    def has_constant(self, name: str) -> bool:
        return self.tensor(name) is not None

    def declared(self, name: str) -> TensorType:
        """Return the type that the graph declares for the result `name`, ignoring inference."""
        info = self._declared.get(name)
        return UNKNOWN if info is None else tensor_type(info.type)

    def declare(self, name: str, known: TensorType) -> None:
        if name not in self._declared:
            self._declared[name] = self.body.value_info.add(name=name)
        self._declared[name].type.CopyFrom(declaration(known))
        self._types[name] = known

    def home(self, name: str) -> Scope:
        """Return the innermost scope that defines the value `name`."""
        known = self._nodes, self._types, self._constants, self._declared, self._inferred
        if self.outer is None or any(name in each for each in known):
            return self
        return self.outer.home(name)

    def computing(self, name: str) -> Scope | None:
        """Return the scope of the node that computes `name`, if any."""
        home = self.home(name)
        return home if name in home._nodes else None

    def node_of(self, name: str) -> NodeProto:
        return self._nodes[name]

    @property
    def outermost(self) -> Scope:
        return self if self.outer is None else self.outer.outermost

    @property
    def loops(self) -> tuple[NodeProto, ...]:
        """The enclosing nodes that may run their bodies several times."""
        return tuple(node for node in self.around if node.op_type != "If")

    def inner(self, number: int) -> tuple[Scope, ...]:
        node, *_, graphs = self.nodes[number]
        if graphs and number not in self._inner:
            around = (*self.around, node)
            self._inner[number] = tuple(
                Scope(graph, self.opsets, self.folder, self, around) for graph in graphs
            )
        return self._inner.get(number, ())

    def where(self, node: NodeProto) -> str:
        """Return the titles of the enclosing nodes and of the node, joined with slashes."""
        return "/".join(map(title_of, (*self.around, node)))

    def all_nodes(self) -> Iterator[tuple[Scope, ReadNode]]:
        """Yield the nodes of the graph and its subgraphs, each with its scope."""
        for number, item in enumerate(self.nodes):
            yield self, item
            for scope in self.inner(number) if item.graphs else ():
                yield from scope.all_nodes()


def check_acyclic(scope: Scope) -> None:
    """Raise ModelError if the nodes of a graph form a cycle."""
    producers = {name: n for n, node in enumerate(scope.nodes) for name in node.outputs if name}
    computed: set[str] = set()
    for node in scope.nodes:
        if any(x in producers and x not in computed for x in node.reads()):
            break
        computed.update(node.outputs)
    else:
        return  # The nodes are already in topological order.
    reads = {
        number: [producers[name] for name in node.reads() if name in producers]
        for number, node in enumerate(scope.nodes)
    }
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        node = scope.nodes[error.args[1][0]].node
        refusal = ModelError("it reads its own result (allowed: graphs without cycles)")
        raise named_by(refusal, node) from error


# Common index types, whose raw bytes NumPy can read without the slower `onnx` helper
_NATIVE: dict[int, np.dtype[Any]] = {
    TensorProto.INT64: np.dtype("<i8"),
    TensorProto.INT32: np.dtype("<i4"),
}


def tensor_array(tensor: TensorProto, name: str, folder: FilePath | None = None) -> Array:
    dtype = _NATIVE.get(tensor.data_type)
    if dtype is not None and tensor.data_location != TensorProto.EXTERNAL:
        with suppress(ValueError):  # If NumPy fails, `onnx.numpy_helper` raises a clear error.
            return np.frombuffer(tensor.raw_data, dtype).reshape(tensor.dims)
    with messages.foreign_errors(FileError, f"constant {name!r}: cannot be read"):
        return np.asarray(numpy_helper.to_array(tensor, str(folder or "")))


class OpNode:
    """A gather or scatter node with cached constants and attributes."""

    __slots__ = ("_attributes", "_constants", "_parsed", "is_open", "read", "scope")

    def __init__(self, read: ReadNode, scope: Scope) -> None:
        self.read, self.scope = read, scope
        self._constants: dict[str, Array] | None = None
        self._parsed: dict[str, Any] = {}
        self._attributes = tuple([item.SerializeToString() for item in read.attributes])
        # `is_open` is true if an attribute refers to a parameter of the enclosing function.
        self.is_open = any(item.ref_attr_name for item in read.attributes)

    @property
    def node(self) -> NodeProto:
        return self.read.node

    @property
    def where(self) -> str:
        return self.scope.where(self.node)

    def operator(self) -> Operator:
        domain = self.read.domain
        return _implementation(self.read.op_type, domain, self.scope.opsets[domain])

    def types(self) -> tuple[TensorType | None, ...]:
        """Return the type of each input, or None for an omitted input."""
        type_of = self.scope.type_of
        return tuple([type_of(name) if name else None for name in self.read.inputs])

    def known_types(self) -> tuple[TensorType, ...]:
        """Return the type of each input, or an unknown type for an omitted input."""
        return tuple(known or UNKNOWN for known in self.types())

    def constants(self) -> dict[str, Array]:
        """Return the constant inputs that affect type inference, by input name."""
        inputs = self.read.inputs
        used = ((inputs[k], name) for k, name in _used(self.operator()) if k < len(inputs))
        known = ((name, self.scope.constant(value)) for value, name in used)
        return {name: array for name, array in known if array is not None}

    def attributes(self) -> dict[str, Any]:
        parsed = map(AttributeProto.FromString, self._attributes)
        return {item.name: attribute_value(item) for item in parsed}

    def infer(self) -> Inference:
        if self._constants is None:
            self._constants, self._parsed = self.constants(), self.attributes()
        return infer_call(self.operator(), self.types(), self._constants, self._parsed)

    def repairing_opset(self, error: Exception | None) -> int | None:
        opset = self.scope.opsets.get(DEFAULT_DOMAIN, 0)
        return repairing_opset(self.node, opset, self.types(), error)

    def in_opset(self, opset: int) -> OpNode:
        """Return this node in a copy of its scope that imports another opset."""
        scope = copy(self.scope)
        scope.opsets = {DEFAULT_DOMAIN: opset}
        return OpNode(self.read, scope)

    def named(self, error: Exception) -> Exception:
        """Return `error` with the names of the enclosing nodes and the node as a prefix."""
        for node in (self.node, *reversed(self.scope.around)):
            error = named_by(error, node)
        return error


def attribute_value(attribute: AttributeProto) -> Any:
    """Return the value of an attribute, or raise AttributeValueError if it is malformed."""
    why = "it has no type"
    try:
        value = helper.get_attribute_value(attribute)
        value = value.decode() if isinstance(value, bytes) else value
    except ValueError as error:  # The type is unknown, or the value is a reference or not UTF-8.
        value, why = None, reason(error)
    if value is None:
        raise AttributeValueError(f"attribute {attribute.name!r} has no value: {why}")
    return value


def named_by(error: Exception, node: NodeProto) -> Exception:
    """Return `error` with the name of a node as a prefix."""
    return messages.in_node(error, node.name, node.op_type, next(iter(node.output), ""))


def title_of(node: NodeProto) -> str:
    return node.name or f"{node.op_type} of {next(iter(node.output), 'nothing')}"


NEWEST_OPSET = defs.onnx_opset_version()
CONSTANTS_FROM = 4  # the first IR version that allows initializers that are not also inputs


def graph_scope(model: ModelProto, folder: FilePath | None) -> Scope:
    replaceable = model.ir_version >= CONSTANTS_FROM
    return Scope(model.graph, opsets(model.opset_import), folder, replaceable=replaceable)


def scopes_of(model: ModelProto, folder: FilePath | None = None) -> list[Scope]:
    functions = [Scope(item, opsets(item.opset_import), folder) for item in model.functions]
    return [graph_scope(model, folder), *functions]


def op_nodes(model: ModelProto, folder: FilePath | None = None) -> Iterator[OpNode]:
    return op_nodes_in(scopes_of(model, folder))


def op_nodes_in(scopes: Iterable[Scope]) -> Iterator[OpNode]:
    for outermost in scopes:
        for scope, item in outermost.all_nodes():
            if item.is_published:
                op_node = OpNode(item, scope)
                if item.domain not in scope.opsets:
                    raise op_node.named(
                        ModelError(
                            f"the model imports no version of {item.domain}, the domain of the node"
                        )
                    )
                yield op_node
