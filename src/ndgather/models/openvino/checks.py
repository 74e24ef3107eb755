"""What an IR says of itself against what follows from it: its edges, attributes and ports.

And what OpenVINO itself does with it that its own pages do not say; other runtimes do not
read an IR.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ndgather.errors import FileError, NdgatherError
from ndgather.errors.shape_errors import shown
from ndgather.errors.texts import plain
from ndgather.models.graph.calls import Facts
from ndgather.models.graph.diagnostics import Finding, Severity, finding, rule_of, runtime_notes
from ndgather.models.openvino.layers import (
    OPERATOR_TYPES,
    PLAIN_TYPES,
    attributes_of,
    check_ports,
    element_type,
    operator_of,
    parameter_type,
    port_type,
)
from ndgather.models.openvino.reading import (
    BY_DTYPE,
    BY_PRECISION,
    Constants,
    Wiring,
    constant_type,
    wire,
)
from ndgather.published.schema import INTEGERS, RankAtLeast, Role, Shape, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.models.graph import Array
    from ndgather.models.openvino.reading import Layer, LayerPort, Network

_RUNTIME = "OpenVINO"  # what the names of the runtimes begin with that read an IR


def check_network(network: Network, constants: Constants, place: str = "") -> Iterator[Finding]:
    """Yield what is wrong in `network` and in the bodies of its layers.

    What the ports of layers of other types declare is taken as true.
    """
    wiring = wire(network)
    for found in wiring.findings:
        yield replace(found, where=place + found.where)
    checker = _Checker(network, wiring, constants, place)
    for layer in wiring.order:
        yield from checker.check(layer)
        for body in layer.bodies:
            yield from check_network(body, constants, f"{place}{layer} {body.name}: ")


class _Checker:
    """Carries the types of values from layer to layer."""

    def __init__(self, network: Network, wiring: Wiring, constants: Constants, place: str) -> None:
        self.network = network
        self.wiring = wiring
        self.constants = constants
        self.place = place
        self.types: dict[tuple[int, int], TensorType] = {}
        self.values: dict[tuple[int, int], Array] = {}

    def check(self, layer: Layer) -> Iterator[Finding]:
        for port in layer.outputs:
            self.types[layer.id, port.id] = port_type(port)
        yield from self._check_edges(layer)
        if layer.type not in (*PLAIN_TYPES, *OPERATOR_TYPES):
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
            inferred, facts = self._infer(layer)
        except NdgatherError as error:
            rule = "constants" if isinstance(error, FileError) else rule_of(error, "layer")
            yield self._error(layer, title, rule, str(error).removeprefix(f"{title}: "))
            return
        for port, found in zip(layer.outputs, inferred, strict=True):
            self.types[layer.id, port.id] = found
            for what in _differences(port, found, f"output port {port.id}"):
                yield self._error(layer, title, "port", what)
        if facts is not None:
            yield from self._runtime_notes(layer, title, facts)

    def _runtime_notes(self, layer: Layer, title: str, facts: Facts) -> Iterator[Finding]:
        for note, detail in runtime_notes(facts):
            runtimes = tuple(name for name in note.runtimes if name.startswith(_RUNTIME))
            if runtimes or not note.runtimes:
                yield finding(f"{self.place}{layer}", title, note, detail, runtimes)

    def _error(self, layer: Layer, title: str, rule: str, what: str) -> Finding:
        return Finding(
            where=f"{self.place}{layer}",
            operator=title,
            rule=rule,
            what=what,
            severity=Severity.ERROR,
        )

    def _check_edges(self, layer: Layer) -> Iterator[Finding]:
        """Hold each input port to the port that feeds it."""
        for port in layer.inputs:
            if (layer.id, port.id) not in self.wiring.sources:
                continue
            source, out = self.wiring.sources[layer.id, port.id]
            fed = TensorType(port_type(out).dtype, out.dims)
            name = f"input port {port.id}, fed by port {out.id} of {source},"
            for what in _differences(port, fed, name, "that port has"):
                yield self._error(layer, layer.type, "edges", what)

    def _infer(self, layer: Layer) -> tuple[tuple[TensorType, ...], Facts | None]:
        """Return the types that follow for the outputs of a layer, and what it calls if it does."""
        if layer.type not in OPERATOR_TYPES:
            return self._infer_plain(layer), None
        given = [self._input(layer, port) for port in layer.inputs]
        function = operator_of(layer)
        row, attributes = function.row, attributes_of(layer, function)
        known = {
            each.name: self.values[source.id, out.id]
            for each, port in zip(row.inputs, layer.inputs, strict=True)
            for source, out in [self.wiring.sources.get((layer.id, port.id), (layer, port))]
            if (source.id, out.id) in self.values
        }
        inference = function.infer(*given, constants=known, **attributes)
        roles = [each.role for each in row.inputs]
        axis = known.get(Role.AXIS.value)
        facts = Facts.of(
            row,
            declared=dict(zip(roles, given, strict=True)),
            inferred=dict(zip(roles, inference.inputs, strict=True)),
            attributes=attributes if axis is None else {**attributes, "axis": axis.item()},
            indices=known.get(Role.INDICES.value),
        )
        return inference.outputs, facts

    def _infer_plain(self, layer: Layer) -> tuple[TensorType, ...]:
        if layer.type == "Parameter":
            return (parameter_type(layer),)
        if layer.type == "Const":
            element, shape = constant_type(layer)
            (port,) = layer.outputs
            if element.dtype in INTEGERS:
                self.values[layer.id, port.id] = self.constants.read(layer)
            else:
                self.constants.find(layer)
            return (TensorType(element.dtype, shape),)
        given = [self._input(layer, port) for port in layer.inputs]
        if layer.type == "Result":
            return ()
        (source,) = given
        return (TensorType(element_type(layer, "destination_type").dtype, source.shape),)

    def _input(self, layer: Layer, port: LayerPort) -> TensorType:
        if (layer.id, port.id) not in self.wiring.sources:
            return port_type(port)
        source, out = self.wiring.sources[layer.id, port.id]
        found = self.types[source.id, out.id]
        declared = port_type(port)
        return TensorType(
            found.dtype if found.dtype is not None else declared.dtype,
            found.shape if found.shape is not None else declared.shape,
        )


def _differences(
    port: LayerPort, found: TensorType, name: str, follows: str = "inferred"
) -> Iterator[str]:
    """Yield how what a port declares is at odds with what was found."""
    element = BY_PRECISION.get(port.precision or "")
    if element is not None and found.dtype is not None and element.dtype != found.dtype:
        wanted = BY_DTYPE[found.dtype].precision if found.dtype in BY_DTYPE else found.dtype
        yield f"{name} declares precision {port.precision}; {follows} {wanted}"
    if not _may_be(port.dims, found.shape):
        yield f"{name} declares {_shown(port.dims)}; {follows} {_shown(found.shape)}"


def _may_be(declared: tuple[int | None, ...], found: Shape) -> bool:
    """Return whether a port with these sizes can be of the shape `found`."""
    if found is None:
        return True
    if isinstance(found, RankAtLeast):
        first, fits = found.first, len(declared) >= len(found.first)
    else:
        first, fits = found, len(declared) == len(found)
    if not declared:  # a scalar, or an unknown rank where something else was not known
        known = first is found and all(isinstance(size, int) for size in first)
        return fits or not known
    return fits and all(
        size is None or not isinstance(other, int) or size == other
        for size, other in zip(declared, first, strict=False)
    )


def _shown(shape: Shape) -> str:
    if shape is None:
        return "any shape"
    dims = shape.first if isinstance(shape, RankAtLeast) else shape
    return shown(["?" if size is None else size for size in dims])
