"""A graph written as an OpenVINO IR of version 11: XML, and the constants beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree

from ndgather.errors import DTypeError, ModelError
from ndgather.models import Array, FilePath, file_path, instance
from ndgather.models.graph import CastNode, Graph, Node, unique, value_types
from ndgather.models.graph.conversion import translate
from ndgather.models.graph.diagnostics import Finding
from ndgather.models.openvino.layers import BY_DTYPE, ElementType, bytes_of
from ndgather.models.tensors.tensor_files import replace_file
from ndgather.published.rows.openvino import DOMAIN

IR_VERSION = "11"
ALIGNMENT = 64  # of constants in their file, for use in place when it is mapped

# The first operation set with a version of an operator, if it has another number.
_FIRST_SETS = {("ScatterNDUpdate", 3): 4}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(graph: Graph, path: FilePath, constants: FilePath | None = None) -> tuple[Finding, ...]:
    """Write a graph as an OpenVINO IR: an ``.xml`` file and a ``.bin`` file of its constants.

    Parameters
    ----------
    graph : Graph
        Operators of other domains are converted.
    path : str or os.PathLike
        The XML.
    constants : str or os.PathLike, optional
        The file of constants; by default the ``.bin`` beside the XML. Both files are written,
        or neither is.

    Returns
    -------
    tuple of Finding
        Where runs of the IR and of the graph may differ.

    Raises
    ------
    FileError
        A file cannot be written.
    NdgatherError
        The graph cannot be expressed as an IR; the text names the node and says why.
    """
    instance("write", "graph", graph, Graph, "a graph")
    place = file_path("write", "path", path)
    beside = place.parent / f"{place.stem}.bin"
    if constants is not None:
        beside = file_path("write", "constants", constants)
    translated, findings = translate(graph, domain=DOMAIN)
    writer = _Writer(translated)
    text = writer.xml()
    replace_file(
        (beside, lambda file: file.write_bytes(writer.content)),
        (place, lambda file: file.write_bytes(text)),
    )
    return findings


class _Writer:
    """Writes the layers of a graph; `ports` has the layer and output port of every value."""

    def __init__(self, graph: Graph) -> None:
        self.types = value_types(graph)
        self.content = bytearray()
        self.net = ElementTree.Element("net", name=_text(graph.name), version=IR_VERSION)
        self.layers = ElementTree.SubElement(self.net, "layers")
        self.edges = ElementTree.SubElement(self.net, "edges")
        self.taken: set[str] = set()
        self.ports: dict[str, tuple[int, int]] = {}
        self.tensor_names: dict[str, list[str]] = {}
        for output in graph.outputs:
            self.tensor_names.setdefault(output.value, []).append(output.name)
        for item in graph.inputs:
            sizes = item.type.dims
            declared = ("?" if not isinstance(size, int) else str(size) for size in sizes or ())
            data = {
                "shape": "..." if sizes is None else ",".join(declared),
                "element_type": _element(item.name, item.type.dtype).name,
            }
            self.tensor_names.setdefault(item.name, []).insert(0, item.name)
            self._layer(item.name, "Parameter", data, (), item.name)
        for name, array in graph.constants.items():
            self._layer(name, "Const", self._constant(name, array), (), name)
        for node in graph.nodes:
            self._node(node)
        for output in graph.outputs:
            layer = self._layer(f"{output.name}/result", "Result", {}, (output.value,), None)
            # The other names too: OpenVINO drops names that are missing here.
            names = dict.fromkeys((output.name, *self.tensor_names[output.value]))
            layer.set("output_names", _joined(names))

    def xml(self) -> bytes:
        ElementTree.indent(self.net, "\t")
        text: bytes = ElementTree.tostring(self.net, encoding="utf-8", xml_declaration=True)
        return text

    def _node(self, node: Node) -> None:
        if isinstance(node, CastNode):
            data = {"destination_type": _element(node.name, node.dtype).name}
            self._layer(node.name, "Convert", data, (node.input,), node.output)
            return
        data = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in node.attributes.items()
        }
        row = node.row
        version = f"opset{_FIRST_SETS.get((row.name, row.since), row.since)}"
        self._layer(node.name, row.name, data, node.inputs, node.output, version)

    def _layer(
        self,
        name: str,
        kind: str,
        data: Mapping[str, str],
        inputs: Sequence[str],
        output: str | None,
        version: str = "opset1",
    ) -> ElementTree.Element:
        number = len(self.layers)
        attributes = {"id": str(number), "name": unique(_text(name), self.taken)}
        attributes |= {"type": kind, "version": version}
        layer = ElementTree.SubElement(self.layers, "layer", attributes)
        if data:
            ElementTree.SubElement(layer, "data", {key: _text(text) for key, text in data.items()})
        if inputs:
            side = ElementTree.SubElement(layer, "input")
            for port, value in enumerate(inputs):
                self._port(side, port, value)
                ends = map(str, (*self.ports[value], number, port))
                names = ("from-layer", "from-port", "to-layer", "to-port")
                ElementTree.SubElement(self.edges, "edge", dict(zip(names, ends, strict=True)))
        if output is not None:
            port_element = self._port(ElementTree.SubElement(layer, "output"), len(inputs), output)
            if output in self.tensor_names:
                port_element.set("names", _joined(dict.fromkeys(self.tensor_names[output])))
            self.ports[output] = (number, len(inputs))
        return layer

    def _port(self, side: ElementTree.Element, number: int, value: str) -> ElementTree.Element:
        known = self.types[value]
        precision = _element(value, known.dtype).precision
        port = ElementTree.SubElement(side, "port", id=str(number), precision=precision)
        for size in known.dims or ():
            dim = ElementTree.SubElement(port, "dim")
            dim.text = str(size) if isinstance(size, int) else "-1"  # -1 is dynamic
        return port

    def _constant(self, name: str, array: Array) -> dict[str, str]:
        element = _element(name, self.types[name].dtype)
        self.content += bytes(-len(self.content) % ALIGNMENT)
        offset = len(self.content)
        self.content += bytes_of(element, array)
        return {
            "element_type": element.name,
            "shape": ", ".join(map(str, array.shape)),
            "offset": str(offset),
            "size": str(len(self.content) - offset),
        }


def _element(name: str, dtype: str | None) -> ElementType:
    if dtype is None or dtype == "string" or dtype not in BY_DTYPE:
        raise DTypeError(
            f"{name}: dtype = {dtype} cannot be written to an IR (allowed: booleans, integers, "
            "floats)"
        )
    return BY_DTYPE[dtype]


def _joined(names: Iterable[str]) -> str:
    return ",".join(_text(name).replace(",", "\\,") for name in names)


def _text(text: str) -> str:
    if _NOT_XML.search(text):
        raise ModelError(
            f"name = {text!r} has a character that XML cannot hold (allowed: printable characters)"
        )
    return text
