"""Writer of small OpenVINO IR files for tests."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ndgather.models.openvino.layers import BY_DTYPE
from ndgather.published import operator
from ndgather.published.schema import OperatorVersion, TensorType, dtype_name

ALIGNMENT = 64  # of constants in the file, in bytes


@dataclass
class GraphInput:
    name: str
    type: TensorType


@dataclass
class GraphOutput:
    name: str
    value: str


@dataclass
class OperatorNode:
    name: str
    row: OperatorVersion
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, int | str | bool]


@dataclass
class CastNode:
    name: str
    input: str
    output: str
    dtype: str

    @property
    def inputs(self):
        return (self.input,)


@dataclass
class Graph:
    """A graph: inputs, constants by name, and nodes in execution order."""

    name: str
    inputs: tuple[GraphInput, ...]
    constants: Mapping[str, np.ndarray]
    nodes: tuple[OperatorNode | CastNode, ...]
    outputs: tuple[GraphOutput, ...]

    def types(self):
        types = {item.name: item.type for item in self.inputs}
        types |= {x: TensorType(dtype_name(a), a.shape) for x, a in self.constants.items()}
        for node in self.nodes:
            if isinstance(node, CastNode):
                types[node.output] = replace(types[node.input], dtype=node.dtype)
                continue
            row, inputs = node.row, [types[name] for name in node.inputs]
            names = zip(row.inputs, node.inputs, strict=False)
            known = {x.name: self.constants[y] for x, y in names if y in self.constants}
            op = operator(row.name, domain=row.domain, version=row.since)
            types[node.output] = op.infer(*inputs, constants=known, **node.attributes).outputs[0]
        return types


def write_ir(graph, path):
    """Write a graph as XML and its constants to a ``.bin`` file next to it."""
    Path(path).with_suffix(".bin").write_bytes(_Writer(graph).write(path))


class _Writer:
    def __init__(self, graph):
        self.graph, self.types = graph, graph.types()
        self.net = ElementTree.Element("net", name=graph.name, version="11")
        self.layers = ElementTree.SubElement(self.net, "layers")
        self.edges = ElementTree.SubElement(self.net, "edges")
        self.ports = {}  # value name: layer and output port

    def write(self, path):
        content, names = bytearray(), {item.name: [item.name] for item in self.graph.inputs}
        for output in self.graph.outputs:
            names.setdefault(output.value, []).append(output.name)
        for item in self.graph.inputs:
            sizes = item.type.dims
            shape = "..." if sizes is None else ",".join(map(_size("?"), sizes))
            data = {"shape": shape, "element_type": BY_DTYPE[item.type.dtype].name}
            self.layer(item.name, "Parameter", data, (), item.name, names)
        for name, array in self.graph.constants.items():
            element = BY_DTYPE[self.types[name].dtype]
            content += bytes(-len(content) % ALIGNMENT)
            data = {"element_type": element.name, "shape": ", ".join(map(str, array.shape))}
            data |= {"offset": str(len(content)), "size": str(array.nbytes)}
            content += array.tobytes()
            self.layer(name, "Const", data, (), name, names)
        for node in self.graph.nodes:
            if isinstance(node, CastNode):
                data = {"destination_type": BY_DTYPE[node.dtype].name}
                self.layer(node.name, "Convert", data, node.inputs, node.output, names)
                continue
            data = {
                name: str(value).lower() if isinstance(value, bool) else str(value)
                for name, value in node.attributes.items()
            }
            first = 4 if (node.row.name, node.row.since) == ("ScatterNDUpdate", 3) else None
            version = f"opset{first or node.row.since}"
            self.layer(node.name, node.row.name, data, node.inputs, node.output, names, version)
        for output in self.graph.outputs:
            layer = self.layer(f"{output.name}/result", "Result", {}, (output.value,), None, names)
            # OpenVINO drops tensor names that are missing here.
            layer.set("output_names", _joined((output.name, *names[output.value])))
        ElementTree.indent(self.net, "\t")
        ElementTree.ElementTree(self.net).write(path, encoding="utf-8", xml_declaration=True)
        return content

    def layer(self, name, kind, data, inputs, output, names, version="opset1"):
        number = str(len(self.layers))
        attributes = {"id": number, "name": name, "type": kind, "version": version}
        layer = ElementTree.SubElement(self.layers, "layer", attributes)
        if data:
            ElementTree.SubElement(layer, "data", data)
        side = ElementTree.SubElement(layer, "input") if inputs else None
        for port, value in enumerate(inputs):
            self.port(side, port, value)
            ends = (*self.ports[value], number, str(port))
            keys = ("from-layer", "from-port", "to-layer", "to-port")
            ElementTree.SubElement(self.edges, "edge", dict(zip(keys, ends, strict=True)))
        if output is not None:
            port = self.port(ElementTree.SubElement(layer, "output"), len(inputs), output)
            if output in names:
                port.set("names", _joined(names[output]))
            self.ports[output] = (number, str(len(inputs)))
        return layer

    def port(self, side, number, value):
        known = self.types[value]
        precision = BY_DTYPE[known.dtype].precision
        port = ElementTree.SubElement(side, "port", id=str(number), precision=precision)
        for size in known.dims or ():
            ElementTree.SubElement(port, "dim").text = _size("-1")(size)
        return port


def _size(unknown):
    return lambda size: str(size) if isinstance(size, int) else unknown


def _joined(names):
    return ",".join(name.replace(",", "\\,") for name in dict.fromkeys(names))
