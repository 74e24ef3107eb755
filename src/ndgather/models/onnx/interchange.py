"""Save ONNX models, and convert models of gathers and scatters to graphs and back."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ndgather import messages
from ndgather.errors import FileError, ModelError, NdgatherError, ShapeError, one_line
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
from ndgather.models.onnx import files
from ndgather.models.onnx.converter import Conversion, unknown_target
from ndgather.models.onnx.nodes import (
    DOMAINS,
    attribute_value,
    constant_tensor,
    declaration,
    dtype_name,
    element_type,
    file_domain,
    implementation,
    is_published,
    opsets,
    row_domain,
    tensor_array,
    tensor_type,
)
from ndgather.models.tensors.tensor_files import replace_file, resolved
from ndgather.published import operators
from ndgather.published.rows.onnx import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ndgather.published.schema import TensorType

# Files

_ALIGNMENT = 4096  # of tensors in their file, so that they can be used where they are mapped
_SMALL = 1024  # bytes of a tensor that stays in the model
_CHUNK = 1 << 24


def save(model: ModelProto | Conversion, path: FilePath, folder: FilePath | None = None) -> None:
    """Write a model to a file. An error leaves an existing file as it was.

    Parameters
    ----------
    model : ModelProto or Conversion
        It is not changed. A conversion knows the folder of the file that it came from.
    path : str or os.PathLike
        The file. An existing file is replaced when the new one is complete.
    folder : str or os.PathLike, optional
        The folder of the external tensors of the model; by default that of `path`. The tensors
        stay in their files if `path` is in that folder; otherwise they become part of the model.

    Raises
    ------
    FileError
        The file cannot be written, or the external tensors are not in that folder.

    Notes
    -----
    The tensors of a model of 2 GiB or more are written to a file beside it: ``model.onnx.data`` for
    ``model.onnx``.

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
    source = target.parent if folder is None else file_path("save", "folder", folder)
    stays = resolved(source) == resolved(target).parent
    try:
        files.check_tensors(model, source)
    except FileError as error:
        if folder is not None:
            raise
        raise FileError(
            f"{target}: cannot be written: the model keeps tensors in other files, which are not "
            f"beside it: {error} (allowed: folder=, the folder of those files)"
        ) from error
    external = list(files.external_tensors(model))
    size = sum(map(files.raw_bytes, files.all_tensors(model)))
    if stays:
        _check_not_replaced(target, external, source)
    else:
        size += sum(files.check_tensor(tensor, source)[2] for tensor in external)
    content = None
    if size <= files.LARGEST_MODEL:
        whole = model
        if external and not stays:
            whole = deepcopy(model)
            files.load_tensors(whole, str(source))
        content = _serialized(whole)
    if content is None:
        _save_with_data(model, target, source, stays=stays)
    else:
        replace_file((target, lambda part: part.write_bytes(content)))


def _check_not_replaced(path: Path, tensors: list[TensorProto], folder: Path) -> None:
    if any(files.tensor_path(tensor, folder) == resolved(path) for tensor in tensors):
        raise FileError(f"{path}: cannot be written: the model keeps tensors there")


def _serialized(model: ModelProto) -> bytes | None:
    """Return the bytes of a model, or None if they are too many."""
    try:
        content: bytes = model.SerializeToString()
    except Exception:
        return None
    return content if len(content) <= files.LARGEST_MODEL else None


def _save_with_data(model: ModelProto, target: Path, folder: Path, *, stays: bool) -> None:
    """Write a model, and its tensors to a file beside it."""
    data = target.with_name(f"{target.name}.data")
    _check_not_replaced(data, list(files.external_tensors(model)), folder)
    small = files.without_values(model, lambda tensor: files.raw_bytes(tensor) >= _SMALL)
    moved: list[tuple[TensorProto, int]] = []
    end = 0
    for tensor, copy in zip(files.all_tensors(model), files.all_tensors(small), strict=True):
        is_external = tensor.data_location == TensorProto.EXTERNAL
        length = files.raw_bytes(tensor)
        if is_external:
            _, _, length = files.check_tensor(tensor, folder)
        if stays if is_external else length < _SMALL:
            continue
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        moved.append((tensor, start))
        end = start + length
        files.make_external(copy, data.name, start, length)
    content = _serialized(small)
    if content is None:
        raise FileError(
            f"{target}: cannot be written: the model is too large, although its tensors are in "
            f"another file (allowed: at most {files.LARGEST_MODEL} bytes)"
        )

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for tensor, start in moved:
                file.seek(start)
                if tensor.data_location != TensorProto.EXTERNAL:
                    file.write(tensor.raw_data)
                    continue
                source, offset, length = files.check_tensor(tensor, folder)
                with source.open("rb") as values:
                    values.seek(offset)
                    for rest in range(length, 0, -_CHUNK):
                        file.write(values.read(min(rest, _CHUNK)))

    replace_file((data, write), (target, lambda path: path.write_bytes(content)))


# Graphs of a model

_PLAIN = ("Cast", "Constant", "Identity")

# In models of these versions every constant is also an input, which is never meant to be set.
_LAST_IR_WITH_CONSTANTS_AS_INPUTS = 3


def is_graph(model: ModelProto) -> bool:
    """Return whether all nodes of a model are of operators that a graph has."""
    return all(is_published(node) or _is_plain(node, *_PLAIN) for node in model.graph.node)


def _is_plain(node: onnx.NodeProto, *op_types: str) -> bool:
    return row_domain(node.domain) == DOMAIN and node.op_type in op_types


def graph_of(model: ModelProto) -> Graph:
    """Return the graph of a model of gathers, scatters, constants, identities and casts."""
    files.check_self_contained(model)
    files.check_valid(model)
    if model.graph.sparse_initializer:
        raise _not_in_graph("initializer", "a sparse tensor", "dense tensors")
    constants = {
        tensor.name: tensor_array(tensor, tensor.name) for tensor in model.graph.initializer
    }
    inputs = []
    for info in model.graph.input:
        what, kind = f"input {info.name!r}", info.type.WhichOneof("value")
        if info.name in constants:
            if model.ir_version > _LAST_IR_WITH_CONSTANTS_AS_INPUTS:
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
            raise messages.in_node(error, node.name, node.op_type, output) from error
    outputs = [
        GraphOutput(info.name, aliases.get(info.name, info.name)) for info in model.graph.output
    ]
    return Graph(model.graph.name, tuple(inputs), constants, tuple(nodes), tuple(outputs))


def _graph_node(
    node: onnx.NodeProto, inputs: tuple[str, ...], output: str, versions: Mapping[str, int]
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
            kind = f"of type {onnx.AttributeProto.AttributeType.Name(item.type)}"
            what = f"attribute {item.name!r}"
            raise _not_in_graph(what, kind, "INT, STRING")
    row = implementation(node.op_type, domain, versions.get(domain, 1)).row
    return OperatorNode(name, row, inputs, output, attributes)


# Models of a graph

DEFAULT_OPSET = 18


def model_of(graph: Graph, *, domain: str = DOMAIN, opset: int = DEFAULT_OPSET) -> Conversion:
    """Return the model of a graph, in the operators of a domain.

    `opset` is the version of ONNX itself, which always has the casts and identities.
    """
    domain = row_domain(domain)
    newest = onnx.defs.onnx_opset_version()
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
    onnx.checker.check_model(model)
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


def _node_protos(graph: Graph, names: Mapping[str, str]) -> Iterator[onnx.NodeProto]:
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


def _value_info(name: str, known: TensorType) -> onnx.ValueInfoProto:
    if known.dtype is None:
        what = f"value {name!r}"
        raise _not_in_graph(what, "without a type", "a dtype for each input")
    if not isinstance(known.shape, tuple):
        raise ShapeError(
            f"value {name!r} has no known rank (allowed: a rank for inputs and results)"
        )
    return onnx.ValueInfoProto(name=name, type=declaration(known))


def _not_in_graph(what: str, is_what: str, allowed: str) -> ModelError:
    return ModelError(f"{what} is {is_what}, which cannot be converted (allowed: {allowed})")
