"""Which output port feeds which input port, in which order layers run, and what is amiss."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndgather.models.graph.diagnostics import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ndgather.models.openvino.network import Layer, LayerPort, Network

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
