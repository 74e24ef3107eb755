"""OpenVINO IR files read: the XML, and the constants beside it.

The XML may come from anyone. Document types and entities are refused, and the size of the file,
its depth and what it counts are bounded before they are used; a constant is looked for only
inside its file.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, ParseError

from ndgather.errors import ModelError, ir_errors
from ndgather.errors.run_errors import extra_missing
from ndgather.errors.texts import plain
from ndgather.models.openvino.layer_constants import HIGHEST_RANK, LARGEST_SIZE, SIZE
from ndgather.models.openvino.network import Edge, Layer, LayerPort, Network
from ndgather.models.tensors.safe_read import content

try:
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse
except ModuleNotFoundError as missing:
    raise extra_missing("defusedxml", "openvino") from missing

if TYPE_CHECKING:
    from collections.abc import Iterator


IN_MEMORY = Path("model")  # what errors call an IR that has no path
_COMMA = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a file may ask for before it is refused."""

    file_bytes: int = 64 * 2**20
    depth: int = 64
    elements: int = 2_000_000
    layers: int = 100_000


def read(source: Path | bytes, limits: Limits = Limits()) -> Network:
    """Read the XML of an IR, or a bare ``<layer>``: a file, or what it holds.

    Raises
    ------
    FileError
        The file cannot be read, or is larger than `limits` allow.
    ModelError
        It is not an IR, or asks for more than `limits`.
    """
    place = source if isinstance(source, Path) else IN_MEMORY
    text = content(source, limits.file_bytes) if isinstance(source, Path) else source
    if len(text) > limits.file_bytes:
        raise ir_errors.beyond_limit(place, "its size", f"{limits.file_bytes} bytes")
    root = _parse(place, text, limits)
    reader = _Reader(place)
    if root.tag == "layer":
        return Network(name=place.stem, layers=(reader.layer(root),), edges=(), snippet=True)
    if root.tag != "net":
        raise ir_errors.not_ir(place, root.tag)
    return reader.network(root, root.get("name", place.stem))


def _parse(path: Path, content: bytes, limits: Limits) -> Element:
    depth = elements = layers = 0
    root: Element | None = None
    try:
        for event, element in iterparse(
            io.BytesIO(content), events=("start", "end"), forbid_dtd=True
        ):
            if event == "end":
                depth -= 1
                continue
            root = element if root is None else root
            depth += 1
            elements += 1
            layers += element.tag == "layer"
            if depth > limits.depth:
                raise ir_errors.beyond_limit(path, "its depth", f"{limits.depth} elements")
            if elements > limits.elements:
                raise ir_errors.beyond_limit(path, "its count of elements", str(limits.elements))
            if layers > limits.layers:
                raise ir_errors.beyond_limit(path, "its count of layers", str(limits.layers))
    except DefusedXmlException as error:
        raise ir_errors.document_type(path) from error
    except (ParseError, LookupError, ValueError) as error:  # the last two: of its encoding
        if isinstance(error, ModelError):
            raise
        raise ir_errors.not_xml(path, error) from error
    if root is None:
        raise ir_errors.not_xml(path, ParseError("no element found"))
    return root


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes layers and edges of XML elements; `path` is for the errors."""

    path: Path

    def network(self, element: Element, name: str) -> Network:
        return Network(
            name=name,
            layers=tuple(self.layer(each) for each in element.iterfind("layers/layer")),
            edges=tuple(self._edge(each) for each in element.iterfind("edges/edge")),
        )

    def layer(self, element: Element) -> Layer:
        place = f"layer {plain(element.get('id', ''))}"
        data = element.find("data")
        if not element.get("type"):
            raise ir_errors.bad_element(self.path, place, "type", "", "the name of an operation")
        return Layer(
            id=self._number(element, "id", place),
            name=element.get("name", ""),
            type=element.get("type", ""),
            version=element.get("version", ""),
            attributes={} if data is None else dict(data.attrib),
            inputs=tuple(self._ports(element, "input", place)),
            outputs=tuple(self._ports(element, "output", place)),
            output_names=_names(element.get("output_names")),
            bodies=tuple(
                self.network(each, each.tag) for each in element if each.find("layers") is not None
            ),
        )

    def _ports(self, layer: Element, side: str, place: str) -> Iterator[LayerPort]:
        for port in layer.iterfind(f"{side}/port"):
            where = f"{place} port {plain(port.get('id', ''))}"
            dims = tuple(self._dim(each.text or "", where) for each in port.iterfind("dim"))
            if len(dims) > HIGHEST_RANK:
                raise ir_errors.beyond_limit(
                    self.path, f"the rank of {where}", f"rank {HIGHEST_RANK}"
                )
            yield LayerPort(
                id=self._number(port, "id", where),
                precision=port.get("precision"),
                names=_names(port.get("names")),
                dims=dims,
            )

    def _dim(self, text: str, where: str) -> int | None:
        if text.strip() == "-1":
            return None
        if SIZE.fullmatch(text.strip()) and int(text) <= LARGEST_SIZE:
            return int(text)
        raise ir_errors.bad_element(self.path, where, "dim", text, f"0..{LARGEST_SIZE}, or -1")

    def _edge(self, element: Element) -> Edge:
        from_layer, from_port, to_layer, to_port = (
            self._number(element, name, "edge")
            for name in ("from-layer", "from-port", "to-layer", "to-port")
        )
        return Edge(from_layer=from_layer, from_port=from_port, to_layer=to_layer, to_port=to_port)

    def _number(self, element: Element, name: str, where: str) -> int:
        text = element.get(name, "")
        if not SIZE.fullmatch(text):
            raise ir_errors.bad_element(self.path, where, name, text, "a whole number")
        return int(text)


def _names(text: str | None) -> tuple[str, ...]:
    """Return the names in a list of them; a comma inside a name has a backslash before it."""
    names = (each.replace("\\,", ",").strip() for each in _COMMA.split(text or ""))
    return tuple(each for each in names if each)
