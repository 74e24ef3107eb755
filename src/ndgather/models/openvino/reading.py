"""Parse the XML of an OpenVINO IR into layers and edges.

Because a file may come from an untrusted source, the parser rejects document types and entities,
and limits the file size, the nesting depth, and the number of elements and layers.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from ndgather.errors import ModelError
from ndgather.messages import extra_missing, plain, quoted, reason
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.tensor_files import content

try:
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse
except ModuleNotFoundError as missing:
    raise extra_missing("defusedxml", "ir") from missing


HIGHEST_RANK = 64
LARGEST_SIZE = 2**63 - 1
NUMBER = re.compile(r"[0-9]{1,19}")

_COMMA = re.compile(r"(?<!\\),")
_MOST_NAMED = 5  # the maximum number of layers that an error about a cycle names


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPort:
    """An input or output port of a layer."""

    id: int
    precision: str | None
    names: tuple[str, ...]
    dims: tuple[int | None, ...]  # An empty tuple means a scalar or an unknown rank.


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer, which is an operation with ports and attributes."""

    id: int
    name: str
    type: str
    version: str  # the name of the opset, such as "opset8", or an empty string
    attributes: Mapping[str, str]
    inputs: tuple[LayerPort, ...]
    outputs: tuple[LayerPort, ...]
    output_names: tuple[str, ...] = ()
    bodies: tuple[Network, ...] = ()

    def __str__(self) -> str:
        return f"layer {self.id} {self.name!r}" if self.name else f"layer {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The layers and edges of a file or of a layer body. `snippet` is true for a bare layer."""

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[tuple[int, ...], ...]  # source layer, output port, target layer and input port ids
    snippet: bool = False

    def of_type(self, name: str) -> list[Layer]:
        return [layer for layer in self.layers if layer.type == name]

    @property
    def operations(self) -> list[Layer]:
        """The layers of the network, excluding constants, inputs and outputs."""
        return [x for x in self.layers if x.type not in {"Const", "Parameter", "Result"}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits for reading a file."""

    file_bytes: int = 64 * 2**20
    depth: int = 64
    elements: int = 2_000_000
    layers: int = 100_000


def read(source: Path | bytes, limits: Limits = Limits()) -> Network:
    """Parse an IR or a bare ``<layer>``. `source` is the path or the content of the XML file."""
    place = source if isinstance(source, Path) else Path("model")
    text = content(source, limits.file_bytes) if isinstance(source, Path) else source
    try:
        root = _parse(text, limits)
        if root.tag == "layer":
            return Network(name=place.stem, layers=(_layer(root),), edges=(), snippet=True)
        if root.tag != "net":
            raise ModelError(
                f"is not an OpenVINO IR: its root is {quoted(root.tag)} "
                f"(allowed: net, or a single layer)"
            )
        return _network(root, root.get("name", place.stem))
    except ModelError as error:
        raise ModelError(f"{place}: {error}") from error.__cause__


def _parse(text: bytes, limits: Limits) -> Element:
    _check_limit("its size", len(text), limits.file_bytes, " bytes")
    depth = elements = layers = 0
    root: Element | None = None
    try:
        for event, element in iterparse(io.BytesIO(text), events=("start", "end"), forbid_dtd=True):
            if event == "end":
                depth -= 1
                continue
            root = element if root is None else root
            depth += 1
            elements += 1
            layers += element.tag == "layer"
            _check_limit("its depth", depth, limits.depth, " elements")
            _check_limit("its count of elements", elements, limits.elements)
            _check_limit("its count of layers", layers, limits.layers)
    except DefusedXmlException as error:
        raise ModelError(
            "has a document type or an entity, which can expand without limit or refer to other "
            "files (allowed: elements, attributes and text)"
        ) from error
    except ModelError:
        raise
    except (ParseError, LookupError, ValueError) as error:
        # An invalid encoding raises LookupError or ValueError.
        raise ModelError(f"cannot be read as XML: {reason(error)}") from error
    if root is None:
        raise ModelError("cannot be read as XML: no element found")
    return root


def _check_limit(what: str, count: int, most: int, unit: str = "") -> None:
    if count > most:
        raise ModelError(f"{what} exceeds the limit (allowed: at most {most}{unit})")


def _network(element: Element, name: str) -> Network:
    ends = ("from-layer", "from-port", "to-layer", "to-port")
    return Network(
        name=name,
        layers=tuple(_layer(layer) for layer in element.iterfind("layers/layer")),
        edges=tuple(
            tuple(_number(edge, end, "edge") for end in ends)
            for edge in element.iterfind("edges/edge")
        ),
    )


def _layer(element: Element) -> Layer:
    where = f"layer {plain(element.get('id', ''))}"
    data = element.find("data")
    if not element.get("type"):
        raise _bad_element(where, "type", "", "the name of an operation")
    return Layer(
        id=_number(element, "id", where),
        name=element.get("name", ""),
        type=element.get("type", ""),
        version=element.get("version", ""),
        attributes={} if data is None else dict(data.attrib),
        inputs=tuple(_ports(element, "input", where)),
        outputs=tuple(_ports(element, "output", where)),
        output_names=_names(element.get("output_names")),
        bodies=tuple(
            _network(body, body.tag) for body in element if body.find("layers") is not None
        ),
    )


def _ports(layer: Element, side: str, where: str) -> Iterator[LayerPort]:
    for port in layer.iterfind(f"{side}/port"):
        name = f"{where} port {plain(port.get('id', ''))}"
        dims = tuple(_dim(dim.text or "", name) for dim in port.iterfind("dim"))
        if len(dims) > HIGHEST_RANK:
            raise ModelError(
                f"the rank of {name} exceeds the limit (allowed: at most rank {HIGHEST_RANK})"
            )
        yield LayerPort(
            id=_number(port, "id", name),
            precision=port.get("precision"),
            names=_names(port.get("names")),
            dims=dims,
        )


def _dim(text: str, where: str) -> int | None:
    if text.strip() == "-1":
        return None
    if NUMBER.fullmatch(text.strip()) and int(text) <= LARGEST_SIZE:
        return int(text)
    raise _bad_element(where, "dim", text, f"0..{LARGEST_SIZE}, or -1")


def _number(element: Element, name: str, where: str) -> int:
    text = element.get(name, "")
    if not NUMBER.fullmatch(text):
        raise _bad_element(where, name, text, "a non-negative integer")
    return int(text)


def _bad_element(where: str, name: str, text: str, allowed: str) -> ModelError:
    return ModelError(f"{where}: {name} = {quoted(text)} is not a valid value (allowed: {allowed})")


def _names(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated list of names, in which a backslash escapes a comma in a name."""
    names = (name.replace("\\,", ",").strip() for name in _COMMA.split(text or ""))
    return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The resolved edges of a network."""

    # (layer id, input port id) → the layer and the output port that the input is connected to
    sources: Mapping[tuple[int, int], tuple[Layer, LayerPort]]
    order: tuple[Layer, ...]  # the layers in topological order, excluding layers after a cycle
    findings: tuple[Finding, ...]  # the errors in edges and ports


def wire(network: Network) -> Wiring:
    findings = list(_repeated_ids(network))
    layers = {layer.id: layer for layer in network.layers}
    outputs = {(layer.id, port.id): port for layer in layers.values() for port in layer.outputs}
    inputs = {(layer.id, port.id) for layer in layers.values() for port in layer.inputs}
    sources: dict[tuple[int, int], tuple[Layer, LayerPort]] = {}
    for from_layer, from_port, to_layer, to_port in network.edges:
        start, end = (from_layer, from_port), (to_layer, to_port)
        edge = f"edge {from_layer}:{from_port} to {to_layer}:{to_port}"
        if start not in outputs:
            findings.append(_error(edge, f"there is no output port {from_layer}:{from_port}"))
        elif end not in inputs:
            findings.append(_error(edge, f"there is no input port {to_layer}:{to_port}"))
        elif end in sources:
            findings.append(_error(layers[to_layer], f"two edges lead to input port {to_port}"))
        else:
            sources[end] = (layers[from_layer], outputs[start])
    if not network.snippet:
        findings += [
            _error(layer, f"no edge leads to input port {port.id}")
            for layer in network.layers
            for port in layer.inputs
            if (layer.id, port.id) not in sources
        ]
    sorter = TopologicalSorter[int](dict.fromkeys(layers, ()))
    for (layer_id, _), (source, _) in sources.items():
        sorter.add(layer_id, source.id)
    try:
        sorter.prepare()
    except CycleError as error:  # The sorter still yields the layers that precede the cycle.
        cycle = [layer for layer in layers.values() if layer.id in error.args[1]]
        named = ", ".join(map(str, cycle[:_MOST_NAMED]))
        if len(cycle) > _MOST_NAMED:
            named += f" and {len(cycle) - _MOST_NAMED} more"
        findings.append(_error(named, "edges form a cycle"))
    order: list[Layer] = []
    while ready := sorter.get_ready():
        order += (layers[layer_id] for layer_id in ready)
        sorter.done(*ready)
    return Wiring(sources=sources, order=tuple(order), findings=tuple(findings))


def _error(where: object, what: str) -> Finding:
    return Finding(str(where), "", "edges", what, Severity.ERROR)


def _repeated_ids(network: Network) -> Iterator[Finding]:
    seen: set[int] = set()
    for layer in network.layers:
        if layer.id in seen:
            yield _error(layer, f"another layer has the id {layer.id}")
        seen.add(layer.id)
        for side, ports in (("input", layer.inputs), ("output", layer.outputs)):
            for number, count in Counter(port.id for port in ports).items():
                if count > 1:
                    yield _error(layer, f"{count} {side} ports have the id {number}")
