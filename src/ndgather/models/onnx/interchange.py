"""ONNX models as graphs of operators.

A model becomes a graph if it is made of gather and scatter operators, constants, identities
and casts that change no value; anything else is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ndgather.errors import (
    FileError,
    NdgatherError,
    constant_errors,
    conversion_errors,
    file_errors,
    onnx_errors,
    run_errors,
)
from ndgather.models.arguments import FilePath, file_path, instance
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
from ndgather.models.onnx.converter import Conversion
from ndgather.models.onnx.files import MOST, fetch, held_bytes, without_initializers
from ndgather.models.onnx.nodes import (
    DOMAINS,
    attribute_value,
    check_tensors,
    constant_tensor,
    declaration,
    dtype_name,
    element_type,
    external_tensors,
    file_domain,
    held_tensors,
    implementation,
    is_ours,
    opsets,
    place,
    refuse_tensors,
    row_domain,
    set_place,
    span,
    tensor_type,
)
from ndgather.models.tensors.tensor_files import replace_file, resolved
from ndgather.published import operators
from ndgather.published.rows.onnx import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ndgather.models.graph import Array
    from ndgather.published.schema import TensorType


PLAIN_TYPES = ("Cast", "Constant", "Identity")

# In models of these versions every constant is an input too, and nobody can mean it as one.
_LAST_IR_WITH_CONSTANTS_AS_INPUTS = 3


def is_graph(model: onnx.ModelProto) -> bool:
    """Return whether all nodes of a model are of operators that a graph has."""
    return all(
        is_ours(node) or (row_domain(node.domain) == DOMAIN and node.op_type in PLAIN_TYPES)
        for node in model.graph.node
    )


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
        raise onnx_errors.invalid_model("model", error) from error
    return _Reader(model).graph()


class _Reader:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.proto = model.graph
        self.versions = opsets(model.opset_import)
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
                gives = next(iter(node.output), "")
                raise run_errors.in_node(error, node.name, node.op_type, gives) from error
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
        domain = row_domain(node.domain)
        attributes = {each.name: each for each in node.attribute}
        inputs = tuple(self._value(name) for name in node.input)
        if "" in inputs:
            raise conversion_errors.not_in_graph("an input", "left out", "every input")
        output = node.output[0]
        if domain == DOMAIN and node.op_type == "Identity":
            self.names[output] = inputs[0]
        elif domain == DOMAIN and node.op_type == "Constant":
            self.constants[output] = _constant(node)
        elif domain == DOMAIN and node.op_type == "Cast":
            dtype = dtype_name(attributes["to"].i, output)
            self.nodes.append(
                CastNode(name=node.name or output, input=inputs[0], output=output, dtype=dtype)
            )
        elif is_ours(node):
            row = implementation(node.op_type, domain, self.versions.get(domain, 1)).row
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
            raise conversion_errors.other_operator(
                node.op_type, domain, ", ".join((*known, *PLAIN_TYPES))
            )


def _attribute(attribute: onnx.AttributeProto) -> int | str | bool:
    value = attribute_value(attribute)
    if not isinstance(value, int | str):
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        what = f"attribute {attribute.name!r}"
        raise conversion_errors.not_in_graph(what, f"of type {kind}", "INT, STRING")
    return value


def _constant(node: onnx.NodeProto) -> Array:
    """Return the array of a Constant node, which has one attribute."""
    tensor = constant_tensor(node)
    if tensor is None:
        what = f"attribute {node.attribute[0].name!r}"
        raise conversion_errors.not_in_graph(what, "not a dense tensor of numbers", "value")
    return _array(tensor, "value")


def _array(tensor: onnx.TensorProto, name: str) -> Array:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # it believes what the tensor says of itself
        raise constant_errors.unreadable_tensor(name, error) from error


def _type_of(info: onnx.ValueInfoProto) -> TensorType:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "value without a type"
        raise conversion_errors.not_in_graph(f"input {info.name!r}", f"a {kind}", "tensors")
    if info.type.tensor_type.elem_type:
        dtype_name(info.type.tensor_type.elem_type, info.name)  # refuses a number of no type
    return tensor_type(info.type)


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


ALIGNMENT = 4096  # of tensors in their file, so that what maps it can use them in place
_SMALL = 1024  # bytes of a tensor that stays in the model
_CHUNK = 1 << 24


def save(model: ModelProto | Conversion, path: FilePath, folder: FilePath | None = None) -> None:
    """Write a model to a file, whole or not at all.

    Parameters
    ----------
    model : ModelProto or Conversion
        It is not changed. A conversion knows the folder of the file that it came from.
    path : str or os.PathLike
        The file. One that exists is replaced when the new one is complete.
    folder : str or os.PathLike, optional
        Where the model keeps tensors in other files; without it, the folder of `path`. They
        stay there if it is that folder; otherwise they become part of the model.

    Raises
    ------
    FileError
        The file cannot be written, or the tensors that the model keeps in other files are not in
        that folder.

    Notes
    -----
    A file of a model holds less than 2 GiB. The tensors of one that is larger are written to a
    file beside it: ``model.onnx.data`` for ``model.onnx``.

    Examples
    --------
    >>> from onnx import ModelProto
    >>> from ndgather.models import onnx
    >>> onnx.save(ModelProto(), "nowhere/model.onnx")
    Traceback (most recent call last):
    ...
    ndgather.errors.FileError: nowhere/model.onnx: cannot be written: no such file or directory
    """
    if isinstance(model, Conversion):
        folder = model.folder if folder is None else folder
        model = model.model
    instance("save", "model", model, ModelProto, "a model")
    target = file_path("save", "path", path)
    given = target.parent if folder is None else file_path("save", "folder", folder)
    stays = resolved(given) == resolved(target).parent
    try:
        check_tensors(model, given)
    except FileError as error:
        if folder is not None:
            raise
        raise file_errors.tensors_elsewhere(target, error) from error
    for tensor in external_tensors(model):
        if stays and place(tensor, target.parent) == resolved(target):
            raise file_errors.keeps_tensors(target, "the model")
    elsewhere = 0 if stays else sum(span(each, given)[1] for each in external_tensors(model))
    held = sum(map(held_bytes, held_tensors(model)))
    content = None
    if held + elsewhere <= MOST:
        content = _serialized(model if stays else _with_tensors(model, given))
    if content is None:
        _save_apart(model, target, given, stays=stays)
    else:
        replace_file((target, lambda part: part.write_bytes(content)))


def _with_tensors(model: ModelProto, folder: Path) -> ModelProto:
    whole = ModelProto()
    whole.CopyFrom(model)
    fetch(whole, str(folder))
    return whole


def _serialized(model: ModelProto) -> bytes | None:
    """Return the bytes of a model; None where they are too many."""
    try:
        content: bytes = model.SerializeToString()
    except Exception:
        return None
    return content if len(content) <= MOST else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A tensor on its way to the file of tensors: its bytes are in memory, or in another file."""

    tensor: TensorProto
    start: int
    path: Path | None = None
    offset: int = 0
    length: int = 0

    def write(self, file: BinaryIO) -> None:
        file.seek(self.start)
        if self.path is None:
            file.write(self.tensor.raw_data)
            return
        with self.path.open("rb") as source:
            source.seek(self.offset)
            for left in range(self.length, 0, -_CHUNK):
                file.write(source.read(min(left, _CHUNK)))


def _save_apart(model: ModelProto, target: Path, folder: Path, *, stays: bool) -> None:
    """Write a model, and its tensors to a file beside it."""
    apart = target.with_name(f"{target.name}.data")
    if any(place(each, folder) == resolved(apart) for each in external_tensors(model)):
        raise file_errors.keeps_tensors(apart, "the model")
    small = without_initializers(model, _SMALL)
    parts: list[_Part] = []
    end = 0
    for tensor, copy in zip(held_tensors(model), held_tensors(small), strict=True):
        start = -(-end // ALIGNMENT) * ALIGNMENT
        if tensor.data_location == TensorProto.EXTERNAL:
            if stays:
                continue
            offset, length = span(tensor, folder)
            path = place(tensor, folder)
            part = _Part(tensor=tensor, start=start, path=path, offset=offset, length=length)
        elif held_bytes(tensor) >= _SMALL:
            part = _Part(tensor=tensor, start=start, length=held_bytes(tensor))
        else:
            continue
        parts.append(part)
        end = start + part.length
        set_place(copy, apart.name, start, part.length)
    content = _serialized(small)
    if content is None:
        raise file_errors.too_large_without_tensors(target, MOST)

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for part in parts:
                part.write(file)

    replace_file((apart, write), (target, lambda path: path.write_bytes(content)))
