"""OpenVINO IR files read: the XML, and the constants beside it.

The XML may come from anyone. Document types and entities are refused, and the size of the file,
its depth and what it counts are bounded before they are used; a constant is looked for only
inside its file.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import DTypeError, ModelError, ShapeError, ir_errors
from ndgather.errors.file_errors import unreadable
from ndgather.errors.run_errors import extra_missing
from ndgather.errors.shape_errors import shown
from ndgather.errors.texts import plain, quoted
from ndgather.models.graph.calls import dtype_of
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.tensors.tensor_files import content

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPort:
    """A port of a layer. A size of None is dynamic.

    A port without sizes is that of a scalar or of an unknown rank: files do not tell them apart.
    """

    id: int
    precision: str | None
    names: tuple[str, ...]
    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From an output port of one layer to an input port of another."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int

    def __str__(self) -> str:
        return f"edge {self.from_layer}:{self.from_port} to {self.to_layer}:{self.to_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One operation. `version` is the operation set, as ``"opset8"``; "" where there is none."""

    id: int
    name: str
    type: str
    version: str
    attributes: Mapping[str, str]
    inputs: tuple[LayerPort, ...]
    outputs: tuple[LayerPort, ...]
    output_names: tuple[str, ...] = ()
    bodies: tuple[Network, ...] = ()

    def __str__(self) -> str:
        return f"layer {self.id} {self.name!r}" if self.name else f"layer {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The layers and edges of a file, or of a body in it.

    `snippet` is whether the file was a bare layer, whose inputs come from nowhere.
    """

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    snippet: bool = False


Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    """A type by the name of attributes, the name of ports, and the name of NumPy.

    `bits` is the width of an element in a file of constants, 0 where it has no fixed one.
    """

    name: str
    precision: str
    dtype: str
    bits: int


_ROWS = (
    ("boolean", "BOOL", "bool", 8),
    ("bf16", "BF16", "bfloat16", 16),
    ("f16", "FP16", "float16", 16),
    ("f32", "FP32", "float32", 32),
    ("f64", "FP64", "float64", 64),
    ("f4e2m1", "F4E2M1", "float4_e2m1fn", 4),
    ("f8e4m3", "F8E4M3", "float8_e4m3fn", 8),
    ("f8e5m2", "F8E5M2", "float8_e5m2", 8),
    ("f8e8m0", "F8E8M0", "float8_e8m0fnu", 8),
    ("i4", "I4", "int4", 4),
    ("i8", "I8", "int8", 8),
    ("i16", "I16", "int16", 16),
    ("i32", "I32", "int32", 32),
    ("i64", "I64", "int64", 64),
    ("u1", "U1", "uint1", 1),
    ("u2", "U2", "uint2", 2),
    ("u3", "U3", "uint3", 3),
    ("u4", "U4", "uint4", 4),
    ("u6", "U6", "uint6", 6),
    ("u8", "U8", "uint8", 8),
    ("u16", "U16", "uint16", 16),
    ("u32", "U32", "uint32", 32),
    ("u64", "U64", "uint64", 64),
    ("nf4", "NF4", "nf4", 4),
    ("string", "STRING", "string", 0),
)
ELEMENT_TYPES = tuple(
    ElementType(name=name, precision=precision, dtype=dtype, bits=bits)
    for name, precision, dtype, bits in _ROWS
)
# Constants of these are refused: their elements lie across bytes, in another order, or apart.
_WITHOUT_ARRAYS = frozenset({"nf4", "string", "u1", "u3", "u6"})
BY_NAME = {each.name: each for each in ELEMENT_TYPES}
BY_PRECISION = {each.precision: each for each in ELEMENT_TYPES}
BY_DTYPE = {each.dtype: each for each in ELEMENT_TYPES}


def stored_bytes(element: ElementType, shape: Sequence[int]) -> int:
    """Return how many bytes a constant takes; Python integers do not overflow."""
    count = 1
    for size in shape:
        count *= size
    return -(-count * element.bits // 8)


def array_from(element: ElementType, shape: tuple[int, ...], content: NDArray[np.uint8]) -> Array:
    """Return the constant that `content` holds, without a copy where none is needed."""
    if element.name in _WITHOUT_ARRAYS:
        raise DTypeError(
            f"element_type = {element.name} is not supported in constants (allowed: booleans, "
            "integers of 2, 4 and 8 to 64 bits, floats of 4 to 64 bits)"
        )
    dtype = dtype_of(element.dtype)
    if element.bits < 8:
        return _unpacked(content, element.bits, dtype, shape)
    if element.dtype == "bool":
        return np.not_equal(content, 0).reshape(shape)
    stored = np.frombuffer(content, _little_endian(dtype)).reshape(shape)
    return stored.astype(dtype, copy=False)


def bytes_of(element: ElementType, array: Array) -> bytes:
    """Return what a file of constants holds for `array`."""
    if element.name in _WITHOUT_ARRAYS:
        raise DTypeError(
            f"element_type = {element.name} is not supported in constants (allowed: booleans, "
            "integers of 2, 4 and 8 to 64 bits, floats of 4 to 64 bits)"
        )
    if element.bits < 8:
        return _packed(array, element.bits)
    return array.astype(_little_endian(array.dtype), copy=False).tobytes()


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype


def _unpacked(
    content: NDArray[np.uint8], bits: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    """Give each element a byte of its own; the first one lies in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((content[:, None] >> shifts) & np.uint8(2**bits - 1)).reshape(-1)
    codes = codes[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
    return codes.view(dtype)


def _packed(array: Array, bits: int) -> bytes:
    codes = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & np.uint8(2**bits - 1)
    each = 8 // bits
    padded = np.zeros(-(-codes.size // each) * each, np.uint8)
    padded[: codes.size] = codes
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    lanes = padded.reshape(-1, each) << shifts
    joined: NDArray[np.uint8] = np.bitwise_or.reduce(lanes, axis=1)
    return joined.tobytes()


HIGHEST_RANK = 64
LARGEST_SIZE = 2**63 - 1
SIZE = re.compile(r"[0-9]{1,19}")


def declared_shape(text: str) -> tuple[tuple[int, int | None], ...] | None:
    """Return the least and the greatest size of each axis that a `shape` attribute names.

    None is an unknown rank, and a greatest size of None is none. A size is ``4``, ``-1``,
    ``?``, or a range as ``1..5``, ``..5``, ``1..``.
    """
    text = text.strip()
    if text == "...":
        return None
    return tuple(_bounds(each.strip()) for each in text.split(",")) if text else ()


def _bounds(text: str) -> tuple[int, int | None]:
    if text in {"?", "-1"}:
        return 0, None
    least, dots, most = text.partition("..")
    for part in (least, most):
        if part and not (SIZE.fullmatch(part) and int(part) <= LARGEST_SIZE):
            raise ValueError(text)
    if not dots:
        return int(least), int(least)
    low, high = int(least or 0), int(most) if most else None
    if high is not None and low > high:
        raise ValueError(text)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The file of constants of an IR; it is opened where a constant is asked for.

    Without a path there is no such file, and no constant that takes bytes can be read.
    """

    path: Path | None

    def find(self, layer: Layer) -> tuple[ElementType, tuple[int, ...], int]:
        """Return the type of a Const layer, its shape, and where it begins in the file."""
        element, shape = constant_type(layer)
        offset, size = (self._count(layer, name) for name in ("offset", "size"))
        needed = stored_bytes(element, shape)
        if element.bits and size != needed and not (needed == 0 and size <= 1):
            raise ModelError(
                f"size = {size} is not the size in bytes of {element.name} {shown(shape)} "
                f"(allowed: {needed})"
            )
        path = self._file()
        try:
            file_bytes = path.stat().st_size
        except (OSError, ValueError) as error:  # ValueError: a NUL in its name
            raise unreadable(path, error) from error
        if offset + size > file_bytes:
            raise ModelError(
                f"offset = {offset} and size = {size} reach beyond the end of {path} "
                f"(allowed: at most {file_bytes} bytes)"
            )
        return element, shape, offset

    def read(self, layer: Layer) -> Array:
        """Return the array of a Const layer, memory-mapped where its type allows it."""
        element, shape, offset = self.find(layer)
        needed = stored_bytes(element, shape)
        try:
            content = (
                np.memmap(self._file(), np.uint8, "r", offset, (needed,))
                if needed
                else np.zeros(0, np.uint8)
            )
        except OSError as error:
            raise unreadable(self._file(), error) from error
        try:
            return array_from(element, shape, np.asarray(content))
        except ValueError as error:  # an empty array may have sizes that no array has
            raise ShapeError(
                f"shape = {shown(shape)} of {element.name} exceeds the largest possible array"
            ) from error

    def _file(self) -> Path:
        if self.path is None:
            raise ModelError(
                "the file of constants is not known (allowed: the path of the model, or of its "
                "constants)"
            )
        return self.path

    def _count(self, layer: Layer, name: str) -> int:
        text = layer.attributes.get(name, "")
        if not SIZE.fullmatch(text):
            raise ir_errors.bad_attribute(name, text, ("a whole number",))
        return int(text)


def constant_type(layer: Layer) -> tuple[ElementType, tuple[int, ...]]:
    """Return the element type and the shape that a Const layer declares."""
    element = BY_NAME.get(layer.attributes.get("element_type", ""))
    if element is None:
        raise ir_errors.bad_attribute(
            "element_type", layer.attributes.get("element_type", ""), BY_NAME
        )
    text = layer.attributes.get("shape", "")
    try:
        bounds = declared_shape(text)
    except ValueError:
        bounds = None
    if bounds is None or len(bounds) > HIGHEST_RANK or any(low != high for low, high in bounds):
        raise ir_errors.bad_attribute("shape", text, ("sizes with commas between them",))
    return element, tuple(low for low, _ in bounds)


try:
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse
except ModuleNotFoundError as missing:
    raise extra_missing("defusedxml", "openvino") from missing


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
    """Read the XML of an IR, or a bare ``<layer>``: a file, or what it holds."""
    place = source if isinstance(source, Path) else IN_MEMORY
    text = content(source, limits.file_bytes) if isinstance(source, Path) else source
    if len(text) > limits.file_bytes:
        raise ir_errors.beyond_limit(place, "its size", f"{limits.file_bytes} bytes")
    root = _parse(place, text, limits)
    reader = _Reader(place)
    if root.tag == "layer":
        return Network(name=place.stem, layers=(reader.layer(root),), edges=(), snippet=True)
    if root.tag != "net":
        raise ModelError(
            f"{place}: is not an OpenVINO IR: its root is {quoted(root.tag)} "
            f"(allowed: net, or a single layer)"
        )
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
        raise ModelError(
            f"{path}: has a document type or an entity, which can grow without end or name other "
            f"files (allowed: elements, attributes and text)"
        ) from error
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


_SHOWN_OF_A_CYCLE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What the edges of a network come to.

    Attributes
    ----------
    sources : mapping
        The layer and output port that feed an input port, by the ids of layer and port.
    order : tuple of Layer
        The layers, each after those that feed it; without those in or behind a cycle.
    findings : tuple of Finding
        Edges and ports that make no sense, each of them an error.
    """

    sources: Mapping[tuple[int, int], tuple[Layer, LayerPort]]
    order: tuple[Layer, ...]
    findings: tuple[Finding, ...]


def wire(network: Network) -> Wiring:
    """Follow the edges of `network`."""
    findings = [_error(str(layer), what) for layer, what in _repeated_ids(network)]
    layers = {layer.id: layer for layer in network.layers}
    outputs = {(layer.id, port.id): port for layer in layers.values() for port in layer.outputs}
    inputs = {(layer.id, port.id) for layer in layers.values() for port in layer.inputs}
    sources: dict[tuple[int, int], tuple[Layer, LayerPort]] = {}
    for edge in network.edges:
        start, end = (edge.from_layer, edge.from_port), (edge.to_layer, edge.to_port)
        if start not in outputs:
            findings.append(_error(str(edge), f"there is no output port {start[0]}:{start[1]}"))
        elif end not in inputs:
            findings.append(_error(str(edge), f"there is no input port {end[0]}:{end[1]}"))
        elif end in sources:
            findings.append(_error(str(layers[end[0]]), f"two edges lead to input port {end[1]}"))
        else:
            sources[end] = (layers[start[0]], outputs[start])
    if not network.snippet:
        findings += [
            _error(str(layer), f"no edge leads to input port {port.id}")
            for layer in network.layers
            for port in layer.inputs
            if (layer.id, port.id) not in sources
        ]
    order, cycle = _order(layers, sources)
    if cycle:
        shown = ", ".join(map(str, cycle[:_SHOWN_OF_A_CYCLE]))
        more = len(cycle) - _SHOWN_OF_A_CYCLE
        findings.append(
            _error(shown + (f" and {more} more" if more > 0 else ""), "edges form a cycle")
        )
    return Wiring(sources=sources, order=order, findings=tuple(findings))


def _error(where: str, what: str) -> Finding:
    return Finding(where=where, operator="", rule="edges", what=what, severity=Severity.ERROR)


def _repeated_ids(network: Network) -> Iterable[tuple[Layer, str]]:
    seen: set[int] = set()
    for layer in network.layers:
        if layer.id in seen:
            yield layer, f"another layer has the id {layer.id}"
        seen.add(layer.id)
        for side, ports in (("input", layer.inputs), ("output", layer.outputs)):
            for number, count in Counter(port.id for port in ports).items():
                if count > 1:
                    yield layer, f"{count} {side} ports have the id {number}"


def _order(
    layers: Mapping[int, Layer],
    sources: Mapping[tuple[int, int], tuple[Layer, LayerPort]],
) -> tuple[tuple[Layer, ...], list[Layer]]:
    """Return the layers in an order to run them, and those that no order has: a cycle."""
    feeds: dict[int, set[int]] = {number: set() for number in layers}
    fed_by: dict[int, set[int]] = {number: set() for number in layers}
    for (number, _), (source, _) in sources.items():
        feeds[source.id].add(number)
        fed_by[number].add(source.id)
    order = _stripped(feeds, fed_by)
    left = set(layers) - set(order)
    behind = set(
        _stripped(
            {each: fed_by[each] & left for each in left},
            {each: feeds[each] & left for each in left},
        )
    )
    return (
        tuple(layers[each] for each in order),
        [layer for number, layer in layers.items() if number in left - behind],
    )


def _stripped(
    following: Mapping[int, Iterable[int]], preceding: Mapping[int, set[int]]
) -> list[int]:
    """Return the nodes that have none before them once those before them are taken away."""
    waiting = {number: len(before) for number, before in preceding.items()}
    ready = [number for number, count in waiting.items() if not count]
    for number in ready:  # it grows while it is walked
        for other in following[number]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return ready
