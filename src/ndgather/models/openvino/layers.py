"""What the layers of a network mean: the graph that it is, or the layer that it cannot be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, ModelError, NdgatherError, ir_errors
from ndgather.errors.texts import quoted
from ndgather.models.graph import (
    CastNode,
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    OperatorNode,
    unique,
)
from ndgather.models.openvino.reading import (
    BY_NAME,
    BY_PRECISION,
    Constants,
    ElementType,
    Wiring,
    declared_shape,
    wire,
)
from ndgather.published import Operator, operator, operators
from ndgather.published.rows.openvino import DOMAIN
from ndgather.published.schema import AttributeType, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ndgather.models.graph import Array
    from ndgather.models.openvino.reading import Layer, LayerPort, Network

_PLAIN_PORTS = {"Parameter": (0, 1), "Const": (0, 1), "Convert": (1, 1), "Result": (1, 0)}
PLAIN_TYPES = tuple(_PLAIN_PORTS)
OPERATOR_TYPES = tuple(dict.fromkeys(each.name for each in operators(domain=DOMAIN)))

_OPSET = re.compile(r"opset([0-9]{1,4})")
_FLAGS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def operator_of(layer: Layer) -> Operator:
    """Return the version of the operator that a gather or scatter layer names."""
    version = _OPSET.fullmatch(layer.version)
    if version is None:
        raise AttributeValueError(
            f"version = {quoted(layer.version)} is not an operation set (allowed: opset1, "
            "opset2, ...)"
        )
    return operator(layer.type, domain=DOMAIN, opset=int(version[1]))


def attributes_of(layer: Layer, function: Operator) -> dict[str, int | str | bool]:
    """Return the attributes of a layer as values; texts that are none stay texts.

    What is left a text, or is unknown, the operator refuses.
    """
    values: dict[str, int | str | bool] = {}
    for name, text in layer.attributes.items():
        attribute = function.row.attribute(name)
        kind = AttributeType.STRING if attribute is None else attribute.type
        if kind is AttributeType.INT and _WHOLE.fullmatch(text.strip()):
            values[name] = int(text)
        elif kind is AttributeType.BOOL:
            values[name] = _FLAGS.get(text.strip(), text)
        else:
            values[name] = text
    return values


def element_type(layer: Layer, name: str) -> ElementType:
    """Return the element type that an attribute of a layer names."""
    text = layer.attributes.get(name, "")
    if text not in BY_NAME:
        raise ir_errors.bad_attribute(name, text, BY_NAME)
    return BY_NAME[text]


def parameter_bounds(layer: Layer) -> tuple[tuple[int, int | None], ...] | None:
    """Return the least and greatest sizes of a Parameter; None is an unknown rank."""
    text = layer.attributes.get("shape", "...")
    try:
        return declared_shape(text)
    except ValueError as error:
        raise ir_errors.bad_attribute("shape", text, ("sizes", "?", "ranges", "...")) from error


def parameter_type(layer: Layer) -> TensorType:
    bounds = parameter_bounds(layer)
    shape = None
    if bounds is not None:
        shape = tuple(low if low == high else None for low, high in bounds)
    return TensorType(element_type(layer, "element_type").dtype, shape)


def port_type(port: LayerPort) -> TensorType:
    """Return the type that a port declares; without sizes it says nothing of its shape."""
    element = BY_PRECISION.get(port.precision or "")
    return TensorType(element.dtype if element else None, port.dims or None)


def check_ports(layer: Layer) -> None:
    """Refuse a layer that has too few or too many ports."""
    inputs, outputs = port_counts(layer)
    if (len(layer.inputs), len(layer.outputs)) != (inputs, outputs):
        raise ModelError(
            f"ports = {len(layer.inputs)} input and {len(layer.outputs)} output are not those of "
            f"the operation (allowed: {inputs} input and {outputs} output)"
        )


def port_counts(layer: Layer) -> tuple[int, int]:
    """Return how many input and output ports a layer of a known type has."""
    if layer.type in OPERATOR_TYPES:
        return len(operator_of(layer).row.inputs), 1
    return _PLAIN_PORTS[layer.type]


def layer_names(layer: Layer, port: LayerPort) -> tuple[str, ...]:
    """Return the names that a value goes by, the first of them first."""
    names = (*port.names, layer.name)
    return tuple(dict.fromkeys(each for each in names if each)) or (f"layer{layer.id}",)


def graph_of(network: Network, constants: Constants) -> Graph:
    """Return the graph that a network is."""
    for layer in network.layers:
        if layer.type not in (*PLAIN_TYPES, *OPERATOR_TYPES):
            raise ir_errors.layer_not_run(
                str(layer), layer.type, layer.version, (*PLAIN_TYPES, *OPERATOR_TYPES)
            )
    wiring = wire(network)
    for finding in wiring.findings:
        raise ModelError(f"{finding.where}: {finding.what}")
    return _GraphBuilder(network, wiring, constants).graph()


class _GraphBuilder:
    """Gives every value a name that no other one has."""

    def __init__(self, network: Network, wiring: Wiring, constants: Constants) -> None:
        self.network = network
        self.wiring = wiring
        self.constants_file = constants
        self.taken: set[str] = set()
        self.output_names: set[str] = set()
        self.values: dict[tuple[int, int], str] = {}
        self.inputs: list[GraphInput] = []
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.outputs: list[GraphOutput] = []

    def graph(self) -> Graph:
        layers = self.network.layers
        first = [layer for layer in layers if layer.type == "Parameter"]
        last = [layer for layer in layers if layer.type == "Result"]
        between = [each for each in self.wiring.order if each.type not in {"Parameter", "Result"}]
        self._each(layers, check_ports)  # before any of them is believed
        self._each((*first, *between, *last), self._add)
        return Graph(
            name=self.network.name,
            inputs=tuple(self.inputs),
            constants=self.constants,
            nodes=tuple(self.nodes),
            outputs=tuple(self.outputs),
        )

    @staticmethod
    def _each(layers: Iterable[Layer], work: Callable[[Layer], None]) -> None:
        for layer in layers:
            try:
                work(layer)
            except NdgatherError as error:
                raise ir_errors.in_layer(error, str(layer), layer.type) from error

    def _add(self, layer: Layer) -> None:
        if layer.type == "Result":
            ((source, port),) = (self.wiring.sources[layer.id, each.id] for each in layer.inputs)
            names = (*layer.output_names, *port.names, layer.name, f"result{layer.id}")
            name = next(each for each in names if each)
            if name in self.output_names and layer.name:
                name = layer.name
            value = self.values[source.id, port.id]
            self.outputs.append(GraphOutput(name=unique(name, self.output_names), value=value))
            return
        (port,) = layer.outputs
        name = self.values[layer.id, port.id] = unique(layer_names(layer, port)[0], self.taken)
        if layer.type == "Parameter":
            self.inputs.append(GraphInput(name=name, type=parameter_type(layer)))
        elif layer.type == "Const":
            self.constants[name] = self.constants_file.read(layer)
        elif layer.type == "Convert":
            dtype = element_type(layer, "destination_type").dtype
            (source_value,) = self._sources(layer, ("input",))
            self.nodes.append(
                CastNode(name=layer.name or name, input=source_value, output=name, dtype=dtype)
            )
        else:
            function = operator_of(layer)
            self.nodes.append(
                OperatorNode(
                    name=layer.name or name,
                    row=function.row,
                    inputs=self._sources(layer, tuple(each.name for each in function.row.inputs)),
                    output=name,
                    attributes=attributes_of(layer, function),
                )
            )
        if self.network.snippet:
            self.outputs.append(GraphOutput(name="output", value=name))

    def _sources(self, layer: Layer, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values that feed a layer; those of a snippet are inputs of the graph."""
        if not self.network.snippet:
            sources = (self.wiring.sources[layer.id, port.id] for port in layer.inputs)
            return tuple(self.values[source.id, port.id] for source, port in sources)
        given = tuple(
            GraphInput(name=unique(name, self.taken), type=port_type(port))
            for name, port in zip(names, layer.inputs, strict=False)
        )
        self.inputs += given
        return tuple(each.name for each in given)
