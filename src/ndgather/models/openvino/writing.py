"""A graph written as an OpenVINO IR of version 11: XML, and the constants beside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ndgather.errors import DTypeError, ModelError
from ndgather.models.arguments import file_path, instance
from ndgather.models.graph import CastNode, Graph, Node, unique, value_types
from ndgather.models.graph.conversion import translate
from ndgather.models.openvino.reading import BY_DTYPE, ElementType, bytes_of
from ndgather.models.tensors.tensor_files import replace_file
from ndgather.published.rows.openvino import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.models.arguments import FilePath
    from ndgather.models.graph import Array
    from ndgather.models.graph.diagnostics import Finding
    from ndgather.published.schema import Shape, TensorType

IR_VERSION = "11"
ALIGNMENT = 64  # of constants in their file, so that what maps it can use them in place

# Operation sets in which a version of an operator first stands, where it is not its own number.
_FIRST_SETS = {("ScatterNDUpdate", 3): 4}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(
    graph: Graph,
    path: FilePath,
    constants: FilePath | None = None,
) -> tuple[Finding, ...]:
    """Write a graph as an OpenVINO IR: an ``.xml`` file and a ``.bin`` file of its constants.

    Parameters
    ----------
    graph : Graph
        Operators of other domains are translated.
    path : str or os.PathLike
        The XML.
    constants : str or os.PathLike, optional
        The file of constants; without it the ``.bin`` beside the XML. Both files appear
        complete, or neither does.

    Returns
    -------
    tuple of Finding
        Where a run of the IR may differ from a run of the graph.

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
    translation = translate(graph, domain=DOMAIN)
    writer = _Writer(translation.graph)
    text = writer.xml()
    replace_file(
        (beside, lambda part: part.write_bytes(writer.content)),
        (place, lambda part: part.write_bytes(text)),
    )
    return translation.findings


class _Writer:
    """Lays out the layers of a graph; values are known by the layer and port that give them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types = value_types(graph)
        self.content = bytearray()
        self.net = ElementTree.Element("net", name=_text(graph.name), version=IR_VERSION)
        self.layers = ElementTree.SubElement(self.net, "layers")
        self.edges = ElementTree.SubElement(self.net, "edges")
        self.taken: set[str] = set()
        self.places: dict[str, tuple[int, int]] = {}
        self.tensor_names: dict[str, list[str]] = {}
        for each in graph.outputs:
            self.tensor_names.setdefault(each.value, []).append(each.name)
        self._write()

    def xml(self) -> bytes:
        ElementTree.indent(self.net, "\t")
        text: bytes = ElementTree.tostring(self.net, encoding="utf-8", xml_declaration=True)
        return text

    def _write(self) -> None:
        for each in self.graph.inputs:
            element, _ = self._type(each.name)
            data = {"shape": _declared(each.type.shape), "element_type": element.name}
            self.tensor_names.setdefault(each.name, []).insert(0, each.name)
            self._layer(each.name, "Parameter", data, (), each.name)
        for name, array in self.graph.constants.items():
            self._layer(name, "Const", self._constant(name, array), (), name)
        for node in self.graph.nodes:
            self._node(node)
        for output in self.graph.outputs:
            layer = self._layer(f"{output.name}/result", "Result", {}, (output.value,), None)
            # Its own name first. The others too: a name that is missing here is lost in OpenVINO.
            names = dict.fromkeys((output.name, *self.tensor_names[output.value]))
            layer.set("output_names", _listed([*names]))

    def _node(self, node: Node) -> None:
        if isinstance(node, CastNode):
            data = {"destination_type": _element(node.name, node.dtype).name}
            self._layer(node.name, "Convert", data, (node.input,), node.output)
            return
        data = {name: _written(value) for name, value in node.attributes.items()}
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
        layer = ElementTree.SubElement(
            self.layers,
            "layer",
            id=str(number),
            name=unique(_text(name), self.taken),
            type=kind,
            version=version,
        )
        if data:
            ElementTree.SubElement(layer, "data", {key: _text(text) for key, text in data.items()})
        if inputs:
            side = ElementTree.SubElement(layer, "input")
            for port, value in enumerate(inputs):
                self._port(side, port, value)
                source, out = self.places[value]
                places = (source, out, number, port)
                ends = zip(("from-layer", "from-port", "to-layer", "to-port"), places, strict=True)
                ElementTree.SubElement(self.edges, "edge", {end: str(at) for end, at in ends})
        if output is not None:
            port_element = self._port(ElementTree.SubElement(layer, "output"), len(inputs), output)
            names = list(dict.fromkeys(self.tensor_names.get(output, [])))
            if names:
                port_element.set("names", _listed(names))
            self.places[output] = (number, len(inputs))
        return layer

    def _port(self, side: ElementTree.Element, number: int, value: str) -> ElementTree.Element:
        element, dims = self._type(value)
        port = ElementTree.SubElement(side, "port", id=str(number), precision=element.precision)
        for size in dims:
            ElementTree.SubElement(port, "dim").text = str(size)
        return port

    def _type(self, value: str) -> tuple[ElementType, tuple[int, ...]]:
        """Return the element type of a value, and the sizes that a port shows; -1 is dynamic."""
        given: TensorType = self.types[value]
        shape = given.shape if isinstance(given.shape, tuple) else ()
        return (
            _element(value, given.dtype),
            tuple(size if isinstance(size, int) else -1 for size in shape),
        )

    def _constant(self, name: str, array: Array) -> dict[str, str]:
        element = _element(name, self.types[name].dtype)
        self.content += bytes(-len(self.content) % ALIGNMENT)
        stored = bytes_of(element, array)
        offset = len(self.content)
        self.content += stored
        return {
            "element_type": element.name,
            "shape": ", ".join(map(str, array.shape)),
            "offset": str(offset),
            "size": str(len(stored)),
        }


def _element(name: str, dtype: str | None) -> ElementType:
    if dtype is None or dtype == "string" or dtype not in BY_DTYPE:
        raise DTypeError(
            f"{name}: dtype = {dtype} cannot be written to an IR (allowed: booleans, integers, "
            "floats)"
        )
    return BY_DTYPE[dtype]


def _declared(shape: Shape) -> str:
    if not isinstance(shape, tuple):
        return "..."
    return ",".join(str(size) if isinstance(size, int) else "?" for size in shape)


def _written(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(names: Sequence[str]) -> str:
    return ",".join(_text(name).replace(",", "\\,") for name in names)


def _text(text: str) -> str:
    if _NOT_XML.search(text):
        raise ModelError(
            f"name = {text!r} has a character that XML cannot hold (allowed: printable characters)"
        )
    return text
