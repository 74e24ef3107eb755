"""The nodes of an ONNX model, the values that they can read, and the types of values."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from ndgather import messages
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    FileError,
    ModelError,
    NdgatherError,
    one_line,
)
from ndgather.messages import reason
from ndgather.models import Array, instance
from ndgather.models.graph import Port, infer_call
from ndgather.models.onnx.files import map_tensor
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN, microsoft
from ndgather.published.schema import Role, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from onnx import OperatorSetIdProto, TensorShapeProto

    from ndgather.models.onnx.files import Folder
    from ndgather.published.schema import Dim, Inference

Body: TypeAlias = GraphProto | FunctionProto


# Types


_DTYPE_NAMES: dict[int, str] = {
    number: "string" if dtype.kind == "O" else dtype.name
    for number in TensorProto.DataType.values()
    if number != TensorProto.UNDEFINED
    for dtype in [np.dtype(helper.tensor_dtype_to_np_dtype(number))]
}
_ELEMENT_TYPES: dict[str, int] = {name: number for number, name in _DTYPE_NAMES.items()}


def tensor_type(declared: TypeProto) -> TensorType:
    """Return the declared type of a tensor; the type of any other value is unknown."""
    tensor = declared.tensor_type
    shape = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return TensorType(_DTYPE_NAMES.get(tensor.elem_type), shape)


def _size(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None  # exporters write -1 for unknown
    return dim.dim_param or None


def type_of_array(tensor: TensorProto) -> TensorType:
    return TensorType(_DTYPE_NAMES.get(tensor.data_type), tuple(tensor.dims))


def dtype_name(elem_type: int, value: str) -> str:
    """Return the name of the dtype with this number in ONNX, of the value `value`."""
    if elem_type not in _DTYPE_NAMES:
        raise DTypeError(f"value {value!r}: elem_type = {elem_type} is not a type of ONNX")
    return _DTYPE_NAMES[elem_type]


def element_type(dtype: str) -> int:
    """Return the number of a dtype in ONNX."""
    if dtype not in _ELEMENT_TYPES:
        raise DTypeError(f"dtype = {dtype} is not a type of ONNX")
    return _ELEMENT_TYPES[dtype]


def schema_type(dtype: str) -> str:
    """Return the name of a type of tensors in the schemas of `onnx`."""
    return f"tensor({TensorProto.DataType.Name(_ELEMENT_TYPES[dtype]).lower()})"


def declaration(known: TensorType) -> TypeProto:
    """Return a declaration of a type; a shape of unknown rank is left out."""
    declared = TypeProto()
    tensor = declared.tensor_type
    if known.dtype is not None:
        tensor.elem_type = element_type(known.dtype)
    if isinstance(known.shape, tuple):
        tensor.shape.SetInParent()
        for dim in known.shape:
            size = tensor.shape.dim.add()
            if isinstance(dim, int):
                size.dim_value = dim
            elif dim is not None:
                size.dim_param = dim
    return declared


def model_ports(proto: ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs and the outputs that a model declares."""
    for info in proto.graph.input:
        kind = info.type.WhichOneof("value")
        if kind not in {"tensor_type", None}:
            raise messages.not_a_tensor("input", info.name, kind.removesuffix("_type"))
    for info in (*proto.graph.input, *proto.graph.output):
        if info.type.tensor_type.elem_type:
            dtype_name(info.type.tensor_type.elem_type, info.name)  # raises if it is unknown
    defaults = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(
        Port.of(info.name, tensor_type(info.type), optional=info.name in defaults)
        for info in proto.graph.input
    )
    return inputs, tuple(Port.of(info.name, tensor_type(info.type)) for info in proto.graph.output)


# Operators and their domains

DOMAINS = (DEFAULT_DOMAIN, microsoft.DOMAIN)
"""The domains of the published operators of ONNX models."""

PUBLISHED = frozenset((item.name, item.domain) for item in operators() if item.domain in DOMAINS)
"""The name and the domain of every published operator of ONNX models."""


def row_domain(domain: str) -> str:
    """Return the name of a domain in `ndgather.published`."""
    return ALIASES.get(domain, domain)


def file_domain(domain: str) -> str:
    """Return the name of a domain in most ONNX files, which all of `onnx` accepts."""
    return "" if domain == DEFAULT_DOMAIN else domain


def is_published(node: NodeProto) -> bool:
    """Return whether a node is a gather or scatter of `ndgather.published`."""
    return (node.op_type, row_domain(node.domain)) in PUBLISHED


def implementation(op_type: str, domain: str, opset: int) -> Operator:
    """Return the operator that computes a node.

    Parameters
    ----------
    op_type, domain : str
        Of the node; the domain of ONNX itself is ``""`` or ``"ai.onnx"``.
    opset : int
        The version of that domain that the model imports.

    Returns
    -------
    Operator
        Takes the inputs of the node by position and its attributes by name, and raises an error for
        a call that this version does not allow.

    Raises
    ------
    AttributeValueError
        That version of the domain has no such operator.
    DTypeError
        An argument is of another type.

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


def repairing_opset(
    node: NodeProto, opset: int, types: Iterable[TensorType | None], error: Exception | None
) -> int | None:
    """Return the first later opset of ONNX that has the attributes of a node.

    None if there is none, or `error`, that of the node in this opset, is not of its attributes.
    """
    if not isinstance(error, AttributeValueError) or row_domain(node.domain) != DEFAULT_DOMAIN:
        return None
    types = tuple(types)
    for later in range(opset + 1, defs.onnx_opset_version() + 1):
        with suppress(NdgatherError):
            attributes = {item.name: attribute_value(item) for item in node.attribute}
            implementation(node.op_type, DEFAULT_DOMAIN, later).infer(*types, **attributes)
            return later
    return None


def repair(node: NodeProto, opset: int) -> str:
    """Return how a model becomes valid of which `opset` has a node."""
    row = implementation(node.op_type, DEFAULT_DOMAIN, opset).row
    return f"convert --opset {opset}, which has {row}"


def opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of every imported domain."""
    versions: dict[str, int] = {}
    for opset in imports:
        domain = row_domain(opset.domain)
        if versions.setdefault(domain, opset.version) != opset.version:
            raise ModelError(
                f"the model imports versions {versions[domain]} and {opset.version} of "
                f"{one_line(domain)} (allowed: one version)"
            )
    return versions


def with_one_name(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy of it in which every domain has one name."""
    bodies = (model.graph, *model.functions)
    names = {opset.domain for holder in (model, *model.functions) for opset in holder.opset_import}
    names.update(node.domain for body in bodies for node in _nodes_of(body))
    if all(file_domain(row_domain(name)) == name for name in names):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        versions = opsets(holder.opset_import)
        del holder.opset_import[:]
        for domain, version in versions.items():
            holder.opset_import.add(domain=file_domain(domain), version=version)
    for body in (copy.graph, *copy.functions):
        for node in _nodes_of(body):
            node.domain = file_domain(node.domain)
    return copy


# Subgraphs and scopes


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nodes_within(node: NodeProto) -> Iterator[NodeProto]:
    """Yield a node and every node of its subgraphs."""
    yield node
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from nodes_within(inner)


def names_read(node: NodeProto) -> set[str]:
    """Return the names of all values that a node and its subgraphs may read."""
    names = {name for inner in nodes_within(node) for name in inner.input}
    for inner in nodes_within(node):
        names.update(output.name for graph in subgraphs(inner) for output in graph.output)
    return names


def check_acyclic(model: ModelProto) -> None:
    """Raise ModelError for a graph in which a node reads its own result."""
    producers = {
        name: number for number, node in enumerate(model.graph.node) for name in node.output if name
    }
    computed: set[str] = set()
    for node in model.graph.node:
        if any(node.attribute) or any(x in producers and x not in computed for x in node.input):
            break
        computed.update(node.output)
    else:
        return  # every node comes after those whose results it reads
    reads = {}
    for number, node in enumerate(model.graph.node):
        inner = [part for part in nodes_within(node) if part is not node]
        bodies = [graph for part in (node, *inner) for graph in subgraphs(part)]
        names = names_read(node) - {name for part in inner for name in part.output}
        names -= {value.name for graph in bodies for value in (*graph.input, *graph.initializer)}
        names |= set(node.input)
        reads[number] = [producers[name] for name in names if name in producers]
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        node = model.graph.node[error.args[1][0]]
        name = next(iter(node.output), "")
        raise messages.in_node(
            ModelError("it reads its own result (allowed: graphs without cycles)"),
            node.name,
            node.op_type,
            name,
        ) from error


def _nodes_of(body: Body) -> Iterator[NodeProto]:
    return (inner for node in body.node for inner in nodes_within(node))


# The attributes of a Constant node with numbers: the fields of their values, and their dtypes.
_NUMBERS = {
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
}


def constant_tensor(node: NodeProto) -> TensorProto | None:
    """Return the value of a Constant node if it is a dense tensor of numbers."""
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


@dataclass(slots=True)
class Scope:
    """The values that the nodes of a graph or a function can read.

    `around` are the nodes whose subgraphs contain the graph, the outermost first; `folder` is that
    of external tensors, where it is known. If `replaceable`, an input with the name of an
    initializer replaces its value.
    """

    body: Body
    opsets: Mapping[str, int]
    folder: Folder | None = None
    outer: Scope | None = None
    around: tuple[NodeProto, ...] = ()
    replaceable: bool = True
    _types: dict[str, TensorType] = field(init=False, default_factory=dict)
    _constants: dict[str, TensorProto] = field(init=False, default_factory=dict)
    _nodes: dict[str, NodeProto] = field(init=False, default_factory=dict)
    _declared: dict[str, ValueInfoProto] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        body = self.body
        if isinstance(body, GraphProto):
            self._types = {info.name: tensor_type(info.type) for info in body.input}
            for tensor in body.initializer:
                if tensor.name not in self._types or not self.replaceable:
                    self._add_constant(tensor.name, tensor)
            for info in body.output:
                self._add_declaration(info)
        for info in body.value_info:
            self._add_declaration(info)
        for node in body.node:
            self.add(node)

    def _add_constant(self, name: str, tensor: TensorProto) -> None:
        self._types[name], self._constants[name] = type_of_array(tensor), tensor

    def _add_declaration(self, info: ValueInfoProto) -> None:
        self._declared.setdefault(info.name, info)  # its type is read when it is asked for

    def add(self, node: NodeProto) -> None:
        """Add the outputs of a node."""
        for name in node.output:
            if name:
                self._nodes[name] = node
        if node.op_type != "Constant":
            return
        tensor = constant_tensor(node)
        if tensor is not None:
            self._add_constant(node.output[0], tensor)

    def set_type(self, name: str, known: TensorType) -> None:
        self._types[name] = known

    def type_of(self, name: str) -> TensorType:
        if name in self._types:
            return self._types[name]
        if name in self._declared:
            known = self._types[name] = tensor_type(self._declared[name].type)
            return known
        return self.outer.type_of(name) if self.outer else TensorType()

    def _has_type(self, name: str) -> bool:
        return name in self._types or name in self._declared

    def constant(self, name: str) -> Array | None:
        """Return the value of `name` where the model holds it and it can be read."""
        tensor = self._constants.get(name)
        if tensor is None:
            outside = self.outer is not None and not self._has_type(name)
            return self.outer.constant(name) if self.outer and outside else None
        if tensor.data_location == TensorProto.EXTERNAL:
            if self.folder is None:
                return None
            mapped = map_tensor(tensor, self.folder)
            if mapped is not None:
                return mapped
        return tensor_array(tensor, name, self.folder)

    def has_constant(self, name: str) -> bool:
        """Return whether the model itself holds the value of `name`."""
        if name in self._constants or self.outer is None or self._has_type(name):
            return name in self._constants
        return self.outer.has_constant(name)

    def declared(self, name: str) -> TensorType:
        """Return the type that the graph itself declares for a value that its nodes compute."""
        info = self._declared.get(name)
        return TensorType() if info is None else tensor_type(info.type)

    def declare(self, name: str, known: TensorType) -> None:
        """Write the type of a value that the nodes of the graph compute."""
        if name not in self._declared:
            self._declared[name] = self.body.value_info.add(name=name)
        self._declared[name].type.CopyFrom(declaration(known))

    def home(self, name: str) -> Scope:
        """Return the scope of which the value `name` is an input, a constant or a result."""
        here = name in self._nodes or self._has_type(name) or self.outer is None
        return self if here else self.outer.home(name)  # type: ignore[union-attr]  # not None

    def computing(self, name: str) -> Scope | None:
        """Return the scope in which a node computes the value `name`."""
        home = self.home(name)
        return home if name in home._nodes else None

    def node_of(self, name: str) -> NodeProto:
        """Return the node of this graph that computes the value `name`."""
        return self._nodes[name]

    @property
    def outermost(self) -> Scope:
        """The scope of the main graph or of the function."""
        return self if self.outer is None else self.outer.outermost

    @property
    def loops(self) -> tuple[NodeProto, ...]:
        """The nodes of `around` whose bodies run several times."""
        return tuple(node for node in self.around if node.op_type != "If")

    def within(self, node: NodeProto, body: GraphProto) -> Scope:
        return Scope(body, self.opsets, self.folder, self, (*self.around, node))


def tensor_array(tensor: TensorProto, name: str, folder: Folder | None = None) -> Array:
    with messages.foreign_errors(FileError, f"constant {name!r}: cannot be read"):
        return np.asarray(numpy_helper.to_array(tensor, str(folder or "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpNode:
    """A gather or scatter node."""

    node: NodeProto
    scope: Scope

    @property
    def where(self) -> str:
        """The names of the nodes around it and of the node itself, joined by slashes."""
        return "/".join(map(title_of, (*self.scope.around, self.node)))

    def operator(self) -> Operator:
        domain = row_domain(self.node.domain)
        return _implementation(self.node.op_type, domain, self.scope.opsets[domain])

    def types(self) -> tuple[TensorType | None, ...]:
        """Return the types of the inputs; of one that is left out it is None."""
        return tuple(self.scope.type_of(name) if name else None for name in self.node.input)

    def known_types(self) -> tuple[TensorType, ...]:
        """Return the types of the inputs, of which nothing is known of one that is left out."""
        return tuple(known or TensorType() for known in self.types())

    def constants(self) -> dict[str, Array]:
        """Return the known values of inputs that inference can use, by the names of the inputs."""
        row = self.operator().row
        used = {Role.INDICES}
        if row.definition is not None:
            used = {item.role for item in row.inputs} - {Role.DATA, Role.UPDATES, Role.SCALES}
        return {
            item.name: value
            for item, name in zip(row.inputs, self.node.input, strict=False)
            if item.role in used and (value := self.scope.constant(name)) is not None
        }

    def attributes(self) -> dict[str, Any]:
        return {item.name: attribute_value(item) for item in self.node.attribute}

    @property
    def is_open(self) -> bool:
        """Whether an attribute takes its value from the call of the function around the node."""
        return any(item.ref_attr_name for item in self.node.attribute)

    def infer(self) -> Inference:
        return infer_call(self.operator(), self.types(), self.constants(), self.attributes())

    def repairing_opset(self, error: Exception | None) -> int | None:
        opset = self.scope.opsets.get(DEFAULT_DOMAIN, 0)
        return repairing_opset(self.node, opset, self.types(), error)

    def in_opset(self, opset: int) -> OpNode:
        """Return the same node in a model that imports another version of ONNX."""
        scope = copy(self.scope)
        scope.opsets = {DEFAULT_DOMAIN: opset}
        return OpNode(node=self.node, scope=scope)

    def named(self, error: Exception) -> Exception:
        """Return `error` with the names of the node and of the nodes around it before its text."""
        for node in (self.node, *reversed(self.scope.around)):
            output = next(iter(node.output), "")
            error = messages.in_node(error, node.name, node.op_type, output)
        return error


def attribute_value(attribute: AttributeProto) -> Any:
    """Return the value of an attribute, whose type in the file may be wrong."""
    why = "it has no type"
    try:
        value = helper.get_attribute_value(attribute)
        value = value.decode() if isinstance(value, bytes) else value
    except ValueError as error:  # of no known type, of no function, or not UTF-8
        value, why = None, reason(error)
    if value is None:
        raise AttributeValueError(f"attribute {attribute.name!r} has no value: {why}")
    return value


def title_of(node: NodeProto) -> str:
    """Return the name of a node, or its operator and first output."""
    return node.name or f"{node.op_type} of {next(iter(node.output), 'nothing')}"


def op_nodes(model: ModelProto, folder: Folder | None = None) -> Iterator[OpNode]:
    """Yield the gather and scatter nodes of a model, of its subgraphs and of its functions."""
    bodies = (model.graph, *model.functions)
    if not any(is_published(node) for body in bodies for node in _nodes_of(body)):
        return
    for scope, node in nodes(model, folder):
        if is_published(node):
            op_node, domain = OpNode(node=node, scope=scope), row_domain(node.domain)
            if domain not in scope.opsets:
                raise op_node.named(
                    ModelError(f"the model imports no version of {domain}, the domain of the node")
                )
            yield op_node


_REPLACEABLE_FROM = 4  # the version of the format; before, every initializer had to be an input


def nodes(model: ModelProto, folder: Folder | None = None) -> Iterator[tuple[Scope, NodeProto]]:
    """Yield every node of a model, of its subgraphs and of its functions, with its scope."""
    yield from _nodes(graph_scope(model, folder))
    for function in model.functions:
        yield from _nodes(Scope(function, opsets(function.opset_import), folder))


def graph_scope(model: ModelProto, folder: Folder | None) -> Scope:
    """Return the scope of the main graph of a model."""
    replaceable = model.ir_version >= _REPLACEABLE_FROM
    return Scope(model.graph, opsets(model.opset_import), folder, replaceable=replaceable)


def _nodes(scope: Scope) -> Iterator[tuple[Scope, NodeProto]]:
    for node in scope.body.node:
        yield scope, node
        for graph in subgraphs(node):
            yield from _nodes(scope.within(node, graph))
