"""The gather and scatter nodes of a model, and what the model says of their inputs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
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
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from ndgather.errors import FileError, constant_errors, onnx_errors, run_errors
from ndgather.errors.texts import reason
from ndgather.models.arguments import instance
from ndgather.models.tensors.tensor_files import check_regular
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN, microsoft
from ndgather.published.schema import RankAtLeast, Role, TensorType

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from onnx import ModelProto, OperatorSetIdProto, TensorShapeProto

    from ndgather.published.schema import Dim, Inference, Shape


def _dtype_names() -> dict[int, str]:
    dtypes = {
        each: np.dtype(helper.tensor_dtype_to_np_dtype(each))
        for each in TensorProto.DataType.values()
        if each != TensorProto.UNDEFINED
    }
    return {each: "string" if dtype.kind == "O" else dtype.name for each, dtype in dtypes.items()}


_NAMES = _dtype_names()
_ELEMENT_TYPES = {name: each for each, name in _NAMES.items()}


def tensor_type(declared: TypeProto) -> TensorType:
    """Return what a declaration says; nothing is known of what is not a tensor."""
    tensor = declared.tensor_type
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return TensorType(_NAMES.get(tensor.elem_type), shape)


def type_of_array(tensor: TensorProto) -> TensorType:
    """Return the type of a tensor whose values need not be there."""
    return TensorType(_NAMES.get(tensor.data_type), tuple(tensor.dims))


def dtype_of_number(elem_type: int, name: str) -> np.dtype[Any]:
    """Return the dtype itself; see `dtype_name`."""
    dtype_name(elem_type, name)
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))


def dtype_name(elem_type: int, name: str) -> str:
    """Return the name of the dtype that a file gives the value `name` by a number.

    Raises
    ------
    DTypeError
        ONNX has no type of that number.
    """
    if elem_type not in _NAMES:
        raise onnx_errors.unknown_element_type(name, elem_type)
    return _NAMES[elem_type]


def element_type(dtype: str) -> int:
    """Return the number that ONNX has for a dtype.

    Raises
    ------
    DTypeError
        It has none.
    """
    if dtype not in _ELEMENT_TYPES:
        raise onnx_errors.unknown_dtype(dtype)
    return _ELEMENT_TYPES[dtype]


def schema_type(dtype: str) -> str:
    """Return the name that the schemas of `onnx` have for a tensor of a type."""
    return f"tensor({TensorProto.DataType.Name(_ELEMENT_TYPES[dtype]).lower()})"


def declaration(known: TensorType) -> TypeProto:
    """Return a declaration that says what is known; of a shape it can only say every size."""
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


def forget_negative_sizes(declared: TypeProto) -> None:
    """Have sizes below 0 say that nothing is known, which is how they are read."""
    within = {"sequence_type": "elem_type", "optional_type": "elem_type", "map_type": "value_type"}
    kind = declared.WhichOneof("value")
    while kind in within:
        declared = getattr(getattr(declared, kind), within[kind])
        kind = declared.WhichOneof("value")
    if kind in {"tensor_type", "sparse_tensor_type"}:
        for dim in getattr(declared, kind).shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


DOMAINS = (DEFAULT_DOMAIN, microsoft.DOMAIN)
"""The domains of published operators that nodes of ONNX models can have, as the rows write them."""

_SHORT = {DEFAULT_DOMAIN: ""}

OURS = frozenset((each.name, each.domain) for each in operators() if each.domain in DOMAINS)
"""Name and domain of every published operator that a node can be."""


def row_domain(domain: str) -> str:
    """Return a domain as the rows write it."""
    return ALIASES.get(domain, domain)


def file_domain(domain: str) -> str:
    """Return a domain as ONNX files mostly write it, and all of `onnx` understands it."""
    return _SHORT.get(domain, domain)


def is_ours(node: NodeProto) -> bool:
    return (node.op_type, row_domain(node.domain)) in OURS


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
        Takes the inputs of the node by position and its attributes by name, and refuses what this
        version does not allow.

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


def opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each domain, named as the rows do.

    Raises
    ------
    ModelError
        Two names of one domain have different versions.
    """
    found: dict[str, int] = {}
    for each in imports:
        domain = row_domain(each.domain)
        if found.setdefault(domain, each.version) != each.version:
            raise onnx_errors.two_versions(domain, found[domain], each.version)
    return found


def with_one_name(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy of it in which each domain is written in one way only."""
    holders = (model, *model.functions)
    names = {each.domain for holder in holders for each in holder.opset_import}
    names.update(node.domain for holder in holders for node in _nodes_of(holder))
    if all(file_domain(name) == name for name in names):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        versions = opsets(holder.opset_import)
        del holder.opset_import[:]
        for domain, version in versions.items():
            holder.opset_import.add(domain=file_domain(domain), version=version)
        for node in _nodes_of(holder):
            node.domain = file_domain(node.domain)
    return copy


def _nodes_of(holder: ModelProto | FunctionProto) -> Iterator[NodeProto]:
    """Yield every node of a model or a function, those of subgraphs too."""
    for node in holder.graph.node if hasattr(holder, "graph") else holder.node:
        yield from nodes_within(node)


def nodes_within(node: NodeProto) -> Iterator[NodeProto]:
    """Yield a node and every node of its subgraphs."""
    yield node
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from nodes_within(inner)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


_COUNT = re.compile(r"[0-9]{1,19}")
_BITS = {
    getattr(TensorProto, name): bits
    for name, bits in {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}.items()
    if hasattr(TensorProto, name)  # the narrowest came last
}


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model that are in other files."""
    for tensor in held_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor


def held_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors of a model."""
    for body in (model.graph, *model.functions):
        yield from _tensors(body)


def _tensors(body: GraphProto | FunctionProto) -> Iterator[TensorProto]:
    if isinstance(body, GraphProto):
        yield from body.initializer
        for sparse in body.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in body.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
        for graph in subgraphs(node):
            yield from _tensors(graph)


def place(tensor: TensorProto, folder: str | os.PathLike[str]) -> Path:
    """Return the file that a tensor is in.

    Raises
    ------
    FileError
        It names none, or one that is not inside `folder`, by whatever links.
    """
    location = _entry(tensor, "location", "")
    inside = Path(folder).resolve()
    named = (PurePosixPath(location), PureWindowsPath(location))
    if location.strip() in {"", "."} or "\0" in location or any(each.anchor for each in named):
        raise constant_errors.tensor_place(tensor.name, location)
    found = (inside / location).resolve()
    if not found.is_relative_to(inside):
        raise constant_errors.tensor_place(tensor.name, location)
    return found


def check_tensor(tensor: TensorProto, folder: str | os.PathLike[str]) -> None:
    """Refuse a tensor that its file does not hold.

    Raises
    ------
    FileError
        The file is not there or outside `folder`, or has other bytes than the tensor needs.
    """
    path = place(tensor, folder)
    try:
        check_regular(path)
    except FileError as error:
        raise constant_errors.in_constant(tensor.name, error) from error
    if path.stat().st_nlink > 1:  # the other name may be of a file outside
        raise constant_errors.tensor_of_two_names(tensor.name, path)
    size = path.stat().st_size
    offset = _count(tensor, "offset", 0)
    length = _count(tensor, "length", size - offset)
    if length < 0 or offset + length > size:
        raise constant_errors.tensor_beyond(tensor.name, path, offset, max(length, 0), size)
    needed = bytes_of(tensor)
    if needed is not None and length != needed:
        raise constant_errors.tensor_length(tensor.name, length, needed)


def mapped(tensor: TensorProto, folder: str | os.PathLike[str]) -> NDArray[Any] | None:
    """Return a tensor that `check_tensor` allowed as a map of its file.

    None where its elements are of no whole bytes, or there are none.
    """
    if tensor.data_type == TensorProto.STRING or tensor.data_type in _BITS:
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
    shape, offset = tuple(tensor.dims), _count(tensor, "offset", 0)
    if 0 in shape:
        return None
    return np.asarray(np.memmap(place(tensor, folder), dtype, "r", offset, shape))


def has_whole_bytes(tensor: TensorProto) -> bool:
    """Whether the elements of a tensor are of one size, in whole bytes."""
    kinds = TensorProto.DataType.values()
    none = {TensorProto.UNDEFINED, TensorProto.STRING, *_BITS}
    return tensor.data_type in kinds and tensor.data_type not in none


def span(tensor: TensorProto, folder: str | os.PathLike[str]) -> tuple[int, int]:
    """Return where in its file a tensor that `check_tensor` allowed begins, and its length."""
    offset = _count(tensor, "offset", 0)
    return offset, _count(tensor, "length", place(tensor, folder).stat().st_size - offset)


def set_place(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Have a tensor stand in a file, and not in the model."""
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def check_tensors(model: ModelProto, folder: str | os.PathLike[str]) -> None:
    """Refuse a model with a tensor that `check_tensor` refuses."""
    for tensor in external_tensors(model):
        check_tensor(tensor, folder)


def refuse_tensors(model: ModelProto) -> None:
    """Refuse a model in memory with tensors in files: nobody has said in which folder."""
    for tensor in external_tensors(model):
        raise constant_errors.tensor_elsewhere(tensor.name)


def _entry(tensor: TensorProto, key: str, default: str) -> str:
    return next((each.value for each in tensor.external_data if each.key == key), default)


def _count(tensor: TensorProto, key: str, default: int) -> int:
    text = _entry(tensor, key, "")
    if not text:
        return default
    if not _COUNT.fullmatch(text):
        raise constant_errors.tensor_count(tensor.name, key, text)
    return int(text)


def bytes_of(tensor: TensorProto) -> int | None:
    """Return how many bytes the elements of a tensor take; None where the type has no width."""
    if any(size < 0 for size in tensor.dims):
        raise constant_errors.tensor_dims(tensor.name, tuple(tensor.dims))
    if tensor.data_type in {TensorProto.UNDEFINED, TensorProto.STRING}:
        return None
    try:
        width = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize * 8
    except (KeyError, ValueError):
        return None
    count: int = math.prod(tensor.dims)
    return -(-count * _BITS.get(tensor.data_type, width) // 8)


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


def with_names(known: TensorType, names: set[str]) -> TensorType:
    """Return a type without the names of sizes that are not in `names`."""

    def kept(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(dim if not isinstance(dim, str) or dim in names else None for dim in dims)

    shape = known.shape
    if isinstance(shape, RankAtLeast):
        return TensorType(known.dtype, RankAtLeast(kept(shape.first)))
    return known if shape is None else TensorType(known.dtype, kept(shape))


def merged(name: str, declared: TensorType, known: TensorType) -> TensorType:
    """Return what both say; a declared name stays, except where the size is known."""
    if None not in {declared.dtype, known.dtype} and declared.dtype != known.dtype:
        raise onnx_errors.declared_dtype(name, known.dtype, declared.dtype)
    if not _fits(declared.shape, known.shape):
        raise onnx_errors.declared_shape(name, _shown(known.shape), _shown(declared.shape))
    return TensorType(declared.dtype or known.dtype, _merged_shape(declared.shape, known.shape))


def _fits(declared: Shape, known: Shape) -> bool:
    """Return whether a tensor can have both shapes."""
    if not isinstance(declared, tuple) or known is None:
        return True
    dims = known if isinstance(known, tuple) else known.first
    if len(dims) > len(declared) or (isinstance(known, tuple) and len(dims) < len(declared)):
        return False
    pairs = zip(declared, dims, strict=False)
    return all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)


def _merged_shape(declared: Shape, known: Shape) -> Shape:
    if not isinstance(declared, tuple):
        return known if isinstance(known, tuple) else None
    dims = known.first if isinstance(known, RankAtLeast) else known or ()
    merged = [
        dim if before is None or isinstance(dim, int) else before
        for before, dim in zip(declared, dims, strict=False)
    ]
    return (*merged, *declared[len(merged) :])


def _shown(shape: Shape) -> tuple[object, ...]:
    dims = shape.first if isinstance(shape, RankAtLeast) else shape or ()
    rest = ("...",) if isinstance(shape, RankAtLeast) else ()
    return (*("?" if dim is None else dim for dim in dims), *rest)


def size_names(graph: GraphProto) -> set[str]:
    """Return the names of sizes that a graph declares."""
    infos = (*graph.input, *graph.output, *graph.value_info)
    names = {dim.dim_param for info in infos for dim in info.type.tensor_type.shape.dim}
    for node in graph.node:
        for inner in subgraphs(node):
            names |= size_names(inner)
    return names


def typed_values(model: ModelProto) -> dict[str, dict[str, TensorType]]:
    """Return the types of the inputs, the outputs, and the other values of the main graph."""
    graph = model.graph
    held = {each.name for each in graph.initializer}
    inputs = {each.name: tensor_type(each.type) for each in graph.input if each.name not in held}
    outputs = {each.name: tensor_type(each.type) for each in graph.output}
    known = {each.name: tensor_type(each.type) for each in graph.value_info}
    known.update((each.name, type_of_array(each)) for each in graph.initializer)
    made = [name for node in graph.node for name in node.output if name and name not in outputs]
    between = {name: known.get(name, TensorType()) for name in made}
    return {"input": inputs, "output": outputs, "value": between}
