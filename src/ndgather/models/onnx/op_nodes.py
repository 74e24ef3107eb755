"""The gather and scatter nodes of a model, and what the model says of their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from ndgather.errors import constant_errors, onnx_errors, run_errors
from ndgather.errors.texts import reason
from ndgather.models.onnx.domains import (
    implementation,
    is_ours,
    opsets,
    row_domain,
    subgraphs,
)
from ndgather.models.onnx.external_tensors import check_tensor, mapped
from ndgather.models.onnx.type_protos import declaration, tensor_type, type_of_array
from ndgather.published.schema import Role
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from ndgather.published import Operator
    from ndgather.published.tensor_types import Inference

_REPLACEABLE = 4

# Where a Constant node holds numbers as they are, and their dtypes.
_NUMBERS = {
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
}

Array = NDArray[Any]
Body: TypeAlias = GraphProto | FunctionProto


@dataclass(slots=True)
class Scope:
    """The values that the nodes of a graph can read.

    `around` are the nodes that the graph stands in, the outermost first. `folder` is where the
    values of tensors are that the model keeps in other files; None where that is not known.
    `replaceable` is whether an input of the name of a constant replaces it.
    """

    body: Body
    opsets: Mapping[str, int]
    folder: str | os.PathLike[str] | None = None
    outer: Scope | None = None
    around: tuple[NodeProto, ...] = ()
    replaceable: bool = True
    _types: dict[str, TensorType] = field(init=False, default_factory=dict)
    _constants: dict[str, TensorProto] = field(init=False, default_factory=dict)
    _made: set[str] = field(init=False, default_factory=set)
    _declared: dict[str, ValueInfoProto] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        body = self.body
        inputs, outputs, initial = (
            (body.input, body.output, body.initializer)
            if isinstance(body, GraphProto)
            else ((), (), ())
        )
        self._types = {info.name: tensor_type(info.type) for info in inputs}
        for tensor in initial:
            if tensor.name not in self._types or not self.replaceable:
                self._types[tensor.name] = type_of_array(tensor)
                self._constants[tensor.name] = tensor
        for info in (*outputs, *body.value_info):
            self._declared.setdefault(info.name, info)
            self._types.setdefault(info.name, tensor_type(info.type))
        for node in body.node:
            self._made.update(filter(None, node.output))
            tensor = constant_tensor(node)
            if tensor is not None:
                self._constants[node.output[0]] = tensor
                self._types[node.output[0]] = type_of_array(tensor)

    def type_of(self, name: str) -> TensorType:
        if name in self._types:
            return self._types[name]
        return self.outer.type_of(name) if self.outer else TensorType()

    def constant(self, name: str) -> Array | None:
        """Return the value of `name` where the model holds it and it can be read."""
        tensor = self._constants.get(name)
        if tensor is None:
            outside = self.outer is not None and name not in self._types
            return self.outer.constant(name) if self.outer and outside else None
        if tensor.data_location == TensorProto.EXTERNAL:
            if self.folder is None:
                return None
            check_tensor(tensor, self.folder)
            found = mapped(tensor, self.folder)
            if found is not None:
                return found
        try:
            return np.asarray(numpy_helper.to_array(tensor, str(self.folder or "")))
        except Exception as error:  # no such file, or not as long as it should be
            raise constant_errors.unreadable_tensor(name, error) from error

    def holds(self, name: str) -> bool:
        """Return whether the model itself holds the value of `name`."""
        if name in self._constants or self.outer is None or name in self._types:
            return name in self._constants
        return self.outer.holds(name)

    def declared(self, name: str) -> TensorType:
        """Return what the graph itself declares of a value that its nodes make."""
        found = self._declared.get(name)
        return TensorType() if found is None else tensor_type(found.type)

    def declare(self, name: str, known: TensorType) -> None:
        """Write the type of a value that the nodes of the graph make."""
        if name not in self._declared:
            self._declared[name] = self.body.value_info.add(name=name)
        self._declared[name].type.CopyFrom(declaration(known))

    def maker_of(self, name: str) -> Scope | None:
        """Return the scope in which a node makes the value `name`."""
        if name in self._made:
            return self
        return None if self.outer is None or name in self._types else self.outer.maker_of(name)

    @property
    def outermost(self) -> Scope:
        """The scope of the graph or the function that this one stands in."""
        scope = self
        while scope.outer is not None:
            scope = scope.outer
        return scope

    def within(self, node: NodeProto, body: GraphProto) -> Scope:
        return Scope(body, self.opsets, self.folder, self, (*self.around, node))


def constant_tensor(node: NodeProto) -> TensorProto | None:
    """Return what a Constant node holds, if it is a dense tensor of numbers."""
    if node.op_type != "Constant" or row_domain(node.domain) != row_domain("") or not node.output:
        return None
    for attribute in node.attribute:
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        if attribute.name in _NUMBERS:
            place, dtype = _NUMBERS[attribute.name]
            return numpy_helper.from_array(np.array(getattr(attribute, place), dtype))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpNode:
    """A gather or scatter node."""

    node: NodeProto
    scope: Scope

    @property
    def where(self) -> str:
        """The node as its model names it, after the nodes that it stands in."""
        return "/".join(map(title_of, (*self.scope.around, self.node)))

    def operator(self) -> Operator:
        domain = row_domain(self.node.domain)
        return implementation(self.node.op_type, domain, self.scope.opsets[domain])

    def refuse_missing_import(self) -> None:
        """Refuse the node where the model imports no version of its domain."""
        domain = row_domain(self.node.domain)
        if domain not in self.scope.opsets:
            raise self.named(onnx_errors.domain_not_imported(domain))

    def types(self) -> tuple[TensorType, ...]:
        return tuple(map(self.scope.type_of, self.node.input))

    def constants(self) -> dict[str, Array]:
        """Return the known values that inference can use, by the names of the inputs."""
        return {
            each.name: value
            for each, name in zip(self.operator().row.inputs, self.node.input, strict=False)
            if each.role is Role.INDICES and (value := self.scope.constant(name)) is not None
        }

    def attributes(self) -> dict[str, Any]:
        return {each.name: attribute_value(each) for each in self.node.attribute}

    @property
    def is_open(self) -> bool:
        """Whether the node takes an attribute from the calls of the function it stands in."""
        return any(each.ref_attr_name for each in self.node.attribute)

    def infer(self) -> Inference:
        """Return what follows from what is known.

        Raises
        ------
        NdgatherError
            The node can run on no inputs of these types.
        """
        return self.operator().infer(*self.types(), constants=self.constants(), **self.attributes())

    def named(self, error: Exception) -> Exception:
        """Return `error` with the node, and those around it, before its text."""
        for node in (self.node, *reversed(self.scope.around)):
            gives = next(iter(node.output), "")
            error = run_errors.in_node(error, node.name, node.op_type, gives)
        return error


def attribute_value(attribute: AttributeProto) -> Any:
    """Return the value of an attribute, whose type and text the file only claims."""
    try:
        value = helper.get_attribute_value(attribute)
        value = value.decode() if isinstance(value, bytes) else value
    except ValueError as error:  # of no known type, from a call that there is not, or no text
        raise onnx_errors.unreadable_attribute(attribute.name, reason(error)) from error
    if value is None:
        raise onnx_errors.unreadable_attribute(attribute.name, "it has no type")
    return value


def title_of(node: NodeProto) -> str:
    """Return what findings call a node: its name, or what it is and gives."""
    return node.name or f"{node.op_type} of {next(iter(node.output), 'nothing')}"


def op_nodes(
    model: onnx.ModelProto, folder: str | os.PathLike[str] | None = None
) -> Iterator[OpNode]:
    """Yield the gather and scatter nodes of the graph, its subgraphs and its functions."""
    for scope, node in nodes(model, folder):
        if is_ours(node):
            yield OpNode(node=node, scope=scope)


def nodes(
    model: onnx.ModelProto, folder: str | os.PathLike[str] | None = None
) -> Iterator[tuple[Scope, NodeProto]]:
    """Yield every node of a model with its scope; a node comes before those within it."""
    # Before that version of the format, each constant had to be an input too.
    replaceable = model.ir_version >= _REPLACEABLE
    main = Scope(model.graph, opsets(model.opset_import), folder, replaceable=replaceable)
    yield from _nodes(main)
    for function in model.functions:
        yield from _nodes(Scope(function, opsets(function.opset_import), folder))


def _nodes(scope: Scope) -> Iterator[tuple[Scope, NodeProto]]:
    for node in scope.body.node:
        yield scope, node
        for graph in subgraphs(node):
            yield from _nodes(scope.within(node, graph))
