"""The element types, constants and attributes of IR layers, with type inference and checks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    FileError,
    ModelError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import in_node, listed, plain, quoted, shown, unreadable
from ndgather.models import Array
from ndgather.models.graph import infer_call
from ndgather.models.graph.diagnostics import (
    Finding,
    KnownCall,
    Severity,
    fits_32_bits,
    noted,
    rule_of,
    runtime_notes,
)
from ndgather.models.openvino.reading import (
    HIGHEST_RANK,
    LARGEST_SIZE,
    NUMBER,
    Layer,
    LayerPort,
    Network,
    Wiring,
    wire,
)
from ndgather.published import Operator, operator, operators
from ndgather.published.rows.openvino import DOMAIN
from ndgather.published.schema import INTEGERS, AttributeType, Role, TensorType
from ndgather.runtimes.runtime import dtype_named

Bounds = tuple[tuple[int, int | None], ...]

_PLAIN_PORTS = {"Parameter": (0, 1), "Const": (0, 1), "Convert": (1, 1), "Result": (1, 0)}
OPERATOR_TYPES = tuple(dict.fromkeys(known.name for known in operators(domain=DOMAIN)))
KNOWN_TYPES = (*_PLAIN_PORTS, *OPERATOR_TYPES)

_OPSET = re.compile(r"opset([0-9]{1,4})")
_FLAGS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class ElementType(NamedTuple):
    """The names of an element type in attributes, ports and NumPy, and its size in bits."""

    name: str
    precision: str
    dtype: str
    bits: int  # the size of an element in bits, or 0 if elements vary in size


ELEMENT_TYPES = (
    ElementType("boolean", "BOOL", "bool", 8),
    ElementType("bf16", "BF16", "bfloat16", 16),
    ElementType("f16", "FP16", "float16", 16),
    ElementType("f32", "FP32", "float32", 32),
    ElementType("f64", "FP64", "float64", 64),
    ElementType("f4e2m1", "F4E2M1", "float4_e2m1fn", 4),
    ElementType("f8e4m3", "F8E4M3", "float8_e4m3fn", 8),
    ElementType("f8e5m2", "F8E5M2", "float8_e5m2", 8),
    ElementType("f8e8m0", "F8E8M0", "float8_e8m0fnu", 8),
    *(ElementType(f"i{bits}", f"I{bits}", f"int{bits}", bits) for bits in (4, 8, 16, 32, 64)),
    *(
        ElementType(f"u{bits}", f"U{bits}", f"uint{bits}", bits)
        for bits in (1, 2, 3, 4, 6, 8, 16, 32, 64)
    ),
    ElementType("nf4", "NF4", "nf4", 4),
    ElementType("string", "STRING", "string", 0),
)
BY_NAME = {element.name: element for element in ELEMENT_TYPES}
BY_PRECISION = {element.precision: element for element in ELEMENT_TYPES}
BY_DTYPE = {element.dtype: element for element in ELEMENT_TYPES}
# Element types that have no NumPy dtype, or whose elements can cross byte boundaries.
_WITHOUT_ARRAYS = frozenset({"nf4", "string", "u1", "u3", "u6"})


def _array_from(element: ElementType, shape: tuple[int, ...], content: NDArray[np.uint8]) -> Array:
    """Return the constant that is stored in `content`, as a view of the bytes if possible."""
    if element.name in _WITHOUT_ARRAYS:
        raise DTypeError(
            f"element_type = {element.name} is not supported in constants (allowed: booleans, "
            "integers of 2, 4 and 8 to 64 bits, floats of 4 to 64 bits)"
        )
    dtype = dtype_named(element.dtype)
    if element.bits < 8:  # Elements are packed into bytes, starting at the least significant bit.
        shifts = np.arange(0, 8, element.bits, dtype=np.uint8)
        codes = ((content[:, None] >> shifts) & np.uint8(2**element.bits - 1)).reshape(-1)
        return codes[: math.prod(shape)].reshape(shape).view(dtype)
    if element.dtype == "bool":
        return np.not_equal(content, 0).reshape(shape)
    little_endian = dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype
    return np.frombuffer(content, little_endian).reshape(shape).astype(dtype, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The file with the constants of an IR. If `path` is None, constants cannot be read."""

    path: Path | None

    def find(self, layer: Layer) -> tuple[Path, int, int]:
        """Return the file, byte offset and size in bytes of the constant in a Const layer."""
        element, shape = constant_type(layer)
        counts = []
        for name in ("offset", "size"):
            text = layer.attributes.get(name, "")
            if not NUMBER.fullmatch(text):
                raise _bad_attribute(name, text, ("a non-negative integer",))
            counts.append(int(text))
        offset, size = counts
        needed = -(-math.prod(shape) * element.bits // 8)
        if element.bits and size != needed and not (needed == 0 and size <= 1):
            raise ModelError(
                f"size = {size} is not the size in bytes of {element.name} {shown(shape)} "
                f"(allowed: {needed})"
            )
        if self.path is None:
            raise ModelError(
                "the file with the constants is not known (allowed: the path of the model or of "
                "its constants)"
            )
        try:
            file_bytes = self.path.stat().st_size
        except (OSError, ValueError) as error:  # A null byte in the path raises ValueError.
            raise unreadable(self.path, error) from error
        if offset + size > file_bytes:
            raise ModelError(
                f"offset = {offset} and size = {size} extend past the end of {self.path} "
                f"(allowed: at most {file_bytes} bytes)"
            )
        return self.path, offset, needed

    def read(self, layer: Layer) -> Array:
        """Return the constant of a Const layer, as a memory map if possible."""
        path, offset, size = self.find(layer)
        element, shape = constant_type(layer)
        try:
            content = np.memmap(path, np.uint8, "r", offset, (size,)) if size else np.zeros(0, "u1")
        except OSError as error:
            raise unreadable(path, error) from error
        try:
            return _array_from(element, shape, np.asarray(content))
        except ValueError as error:  # NumPy rejects excessive sizes even if the array is empty.
            raise ShapeError(
                f"shape = {shown(shape)} of {element.name} exceeds the largest possible array"
            ) from error


def _bad_attribute(name: str, text: str, allowed: Iterable[str]) -> AttributeValueError:
    return AttributeValueError(f"{name} = {quoted(text)} is unknown (allowed: {listed(allowed)})")


def constant_type(layer: Layer) -> tuple[ElementType, tuple[int, ...]]:
    element = element_type(layer, "element_type")
    text = layer.attributes.get("shape", "")
    try:
        bounds = declared_shape(text)
    except ValueError:
        bounds = None
    if bounds is None or len(bounds) > HIGHEST_RANK or any(low != high for low, high in bounds):
        raise _bad_attribute("shape", text, ("comma-separated sizes",))
    return element, tuple(low for low, _ in bounds)


def element_type(layer: Layer, name: str) -> ElementType:
    text = layer.attributes.get(name, "")
    if text not in BY_NAME:
        raise _bad_attribute(name, text, BY_NAME)
    return BY_NAME[text]


def declared_shape(text: str) -> Bounds | None:
    """Return the minimum and maximum size of each axis in a `shape` attribute.

    None stands for an unknown rank and for an unlimited maximum. A size is a number (``4``),
    unknown (``-1`` or ``?``), or a range (``1..5``, ``..5``, ``1..``).
    """
    text = text.strip()
    if text == "...":
        return None
    return tuple(_bounds(size.strip()) for size in text.split(",")) if text else ()


def _bounds(text: str) -> tuple[int, int | None]:
    if text in {"?", "-1"}:
        return 0, None
    lowest, dots, highest = text.partition("..")
    for size in (lowest, highest):
        if size and not (NUMBER.fullmatch(size) and int(size) <= LARGEST_SIZE):
            raise ValueError(text)
    if not dots:
        return int(lowest), int(lowest)
    low, high = int(lowest or 0), int(highest) if highest else None
    if high is not None and low > high:
        raise ValueError(text)
    return low, high


def parameter_bounds(layer: Layer) -> Bounds | None:
    text = layer.attributes.get("shape", "...")
    try:
        return declared_shape(text)
    except ValueError as error:
        raise _bad_attribute("shape", text, ("sizes", "?", "ranges", "...")) from error


def parameter_type(layer: Layer) -> TensorType:
    bounds, dtype = parameter_bounds(layer), element_type(layer, "element_type").dtype
    if bounds is None:
        return TensorType(dtype)
    return TensorType(dtype, tuple(low if low == high else None for low, high in bounds))


def port_type(port: LayerPort) -> TensorType:
    """Return the declared type of a port. The shape is unknown if the port has no sizes."""
    element = BY_PRECISION.get(port.precision or "")
    return TensorType(element.dtype if element else None, port.dims or None)


def operator_of(layer: Layer) -> Operator:
    """Return the operator version of a gather or scatter layer."""
    version = _OPSET.fullmatch(layer.version)
    if version is None:
        raise AttributeValueError(
            f"version = {quoted(layer.version)} is not an operation set (allowed: opset1, "
            "opset2, ...)"
        )
    return operator(layer.type, domain=DOMAIN, opset=int(version[1]))


def attributes_of(layer: Layer, function: Operator) -> dict[str, int | str | bool]:
    """Parse the attributes of a layer, keeping invalid values for the operator to reject."""
    values: dict[str, int | str | bool] = {}
    for name, text in layer.attributes.items():
        attribute = function.row.attribute(name)
        kind = AttributeType.STRING if attribute is None else attribute.type
        if kind is AttributeType.INT and _INTEGER.fullmatch(text.strip()):
            values[name] = int(text)
        elif kind is AttributeType.BOOL:
            values[name] = _FLAGS.get(text.strip(), text)
        else:
            values[name] = text
    return values


def check_ports(layer: Layer) -> None:
    """Raise ModelError if a layer has too few or too many ports."""
    least, outputs = _PLAIN_PORTS.get(layer.type, (0, 1))
    most = least
    if layer.type in OPERATOR_TYPES:
        inputs = operator_of(layer).row.inputs
        least, most = sum(not item.optional for item in inputs), len(inputs)
    if not (least <= len(layer.inputs) <= most and len(layer.outputs) == outputs):
        raise ModelError(
            f"ports = {len(layer.inputs)} input and {len(layer.outputs)} output do not match the "
            f"operation (allowed: {least if least == most else f'{least}..{most}'} input and "
            f"{outputs} output)"
        )


def check_network(network: Network, constants: Constants, place: str = "") -> Iterator[Finding]:
    """Yield the errors in `network` and in the bodies of its layers.

    The ports of layers with an unsupported type are assumed to be correct.
    """
    wiring = wire(network)
    for error in wiring.findings:
        yield replace(error, where=place + error.where)
    checker = _Checker(wiring, constants, place)
    for layer in wiring.order:
        yield from checker.check(layer)
        for body in layer.bodies:
            yield from check_network(body, constants, f"{place}{layer} {body.name}: ")


# Layer types whose outputs contain only copied or cast elements of the data inputs.
_MOVES = frozenset(
    {"Broadcast", "Concat", "Convert", "Gather", "Reshape", "Slice", "Split", "Squeeze"}
    | {"StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"}
)


def infer_types(network: Network, constants: Constants) -> dict[tuple[int, int], TensorType]:
    """Return a mapping from (layer id, output port id) to the type of the value."""
    checker = _Checker(wire(network), constants, "")
    for layer in checker.wiring.order:
        try:
            checker.infer(layer)
        except NdgatherError as error:
            raise in_node(error, layer.name or f"layer{layer.id}", layer.type) from error
    return checker.types


class _Checker:
    """A checker that infers types layer by layer and compares the types with declared ports."""

    def __init__(self, wiring: Wiring, constants: Constants, place: str) -> None:
        self.wiring = wiring
        self.constants = constants
        self.place = place
        self.types: dict[tuple[int, int], TensorType] = {}
        self.values: dict[tuple[int, int], Array] = {}
        self.fitting: set[tuple[int, int]] = set()  # output ports with values that fit in 32 bits

    def check(self, layer: Layer) -> Iterator[Finding]:
        yield from self._check(layer)
        if self._fits_32_bits(layer):
            self.fitting |= {(layer.id, port.id) for port in layer.outputs}

    def _check(self, layer: Layer) -> Iterator[Finding]:
        for port in layer.outputs:  # If inference fails, other layers use the declared types.
            self.types[layer.id, port.id] = port_type(port)
        for port in layer.inputs:
            if (layer.id, port.id) in self.wiring.sources:
                source, out = self.wiring.sources[layer.id, port.id]
                feeding = TensorType(port_type(out).dtype, out.dims)
                name = f"input port {port.id}, fed by port {out.id} of {source},"
                for what in _contradictions(port, feeding, name, "that port has"):
                    yield self._error(layer, layer.type, "edges", what)
        if layer.type not in KNOWN_TYPES:
            return
        title = f"{layer.type} {layer.version}".strip()
        for port in (*layer.inputs, *layer.outputs):
            if port.precision is not None and port.precision not in BY_PRECISION:
                name = plain(port.precision)
                what = f"port {port.id} declares precision {name}, which is unknown"
                yield self._error(layer, title, "port", what)
        try:
            if layer.type in OPERATOR_TYPES:
                title = str(operator_of(layer).row)
            check_ports(layer)
            inferred, call = self.infer(layer)
        except NdgatherError as error:
            rule = "constants" if isinstance(error, FileError) else rule_of(error, "layer")
            yield self._error(layer, title, rule, str(error).removeprefix(f"{title}: "))
            return
        for port, known in zip(layer.outputs, inferred, strict=True):
            for what in _contradictions(port, known, f"output port {port.id}", "inferred"):
                yield self._error(layer, title, "port", what)
        notes = (
            (note, detail, tuple(name for name in note.runtimes if name.startswith("OpenVINO")))
            for note, detail in (() if call is None else runtime_notes(call))
        )  # Only the notes on OpenVINO apply, because other runtimes do not read IR.
        yield from noted(
            f"{self.place}{layer}",
            title,
            (item for item in notes if item[2] or not item[0].runtimes),
        )

    def _error(self, layer: Layer, title: str, rule: str, what: str) -> Finding:
        return Finding(f"{self.place}{layer}", title, rule, what, Severity.ERROR)

    def infer(self, layer: Layer) -> tuple[tuple[TensorType, ...], KnownCall | None]:
        """Infer and store the output types, and return the types and the operator call, if any."""
        inferred, call = self._infer(layer)
        for port, known in zip(layer.outputs, inferred, strict=True):
            self.types[layer.id, port.id] = known
        return inferred, call

    def _infer(self, layer: Layer) -> tuple[tuple[TensorType, ...], KnownCall | None]:
        if layer.type == "Parameter":
            return (parameter_type(layer),), None
        if layer.type == "Result":
            return (), None
        if layer.type == "Const":
            element, shape = constant_type(layer)
            if element.dtype in INTEGERS:
                self.values[layer.id, layer.outputs[0].id] = self.constants.read(layer)
            else:
                self.constants.find(layer)
            return (TensorType(element.dtype, shape),), None
        types = [self._input(layer, port) for port in layer.inputs]
        if layer.type == "Convert":
            dtype = element_type(layer, "destination_type").dtype
            return (TensorType(dtype, types[0].shape),), None
        function = operator_of(layer)
        row, attributes = function.row, attributes_of(layer, function)
        known = {}
        for item, port in zip(row.inputs, layer.inputs, strict=False):
            source, out = self.wiring.sources.get((layer.id, port.id), (layer, port))
            if (source.id, out.id) in self.values:
                known[item.name] = self.values[source.id, out.id]
        inference = infer_call(function, tuple(types), known, attributes)
        roles = [item.role for item in row.inputs]
        axis = known.get(Role.AXIS.value)
        call = KnownCall.of(
            row,
            types,
            attributes if axis is None else {**attributes, "axis": axis.item()},
            inference,
            indices=known.get(Role.INDICES.value),
            fits_32_bits=all(
                self._is_fitting(layer, port)
                for role, port in zip(roles, layer.inputs, strict=False)
                if role in {Role.DATA, Role.UPDATES}
            ),
        )
        return inference.outputs, call

    def _fits_32_bits(self, layer: Layer) -> bool:
        """Return whether all outputs are sizes, positions or constants and fit in 32 bits."""
        if layer.type in _MOVES:
            moved = layer.inputs if layer.type == "Concat" else layer.inputs[:1]
            return all(self._is_fitting(layer, port) for port in moved)
        values = [self.values.get((layer.id, port.id)) for port in layer.outputs]
        return layer.type in {"ShapeOf", "NonZero"} or all(
            array is not None and fits_32_bits(array) for array in values
        )

    def _is_fitting(self, layer: Layer, port: LayerPort) -> bool:
        source, out = self.wiring.sources.get((layer.id, port.id), (None, None))
        return source is not None and out is not None and (source.id, out.id) in self.fitting

    def _input(self, layer: Layer, port: LayerPort) -> TensorType:
        """Return the inferred type of an input, completed with the declared dtype and shape."""
        declared = port_type(port)
        if (layer.id, port.id) not in self.wiring.sources:
            return declared
        source, out = self.wiring.sources[layer.id, port.id]
        known = self.types[source.id, out.id]
        shape = declared.shape if known.shape is None else known.shape
        return TensorType(known.dtype or declared.dtype, shape)


def _contradictions(port: LayerPort, known: TensorType, name: str, verb: str) -> Iterator[str]:
    """Yield a description of each contradiction between the declared and known types of a port."""
    element = BY_PRECISION.get(port.precision or "")
    if element is not None and known.dtype is not None and element.dtype != known.dtype:
        wanted = BY_DTYPE[known.dtype].precision if known.dtype in BY_DTYPE else known.dtype
        yield f"{name} declares precision {port.precision}; {verb} {wanted}"
    if not _may_be(port.dims, known):
        yield f"{name} declares {shown(port.dims)}; {verb} {shown(known.first)}"


def _may_be(declared: tuple[int | None, ...], known: TensorType) -> bool:
    """Return whether a port with the sizes `declared` can have the shape of `known`."""
    if known.shape is None:
        return True
    more = len(declared) - len(known.first)
    fits = more == 0 if known.dims is not None else more >= 0
    if not declared:  # A port without sizes is a scalar or has an unknown rank.
        return fits or known.numbers is None
    return fits and all(
        size is None or not isinstance(other, int) or size == other
        for size, other in zip(declared, known.first, strict=False)
    )
