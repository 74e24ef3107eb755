"""An IR as a model: what goes in and comes out, what is wrong with it, and its results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from ndgather.errors.run_errors import input_shape
from ndgather.models.entry_checks import Content, file_path, instance, named_arrays
from ndgather.models.graph.dtypes import dtype_of
from ndgather.models.graph.evaluation import evaluate
from ndgather.models.graph.ports import Port, Run, fit_inputs
from ndgather.models.graph.value_types import value_types
from ndgather.models.openvino.ir_checks import check_network
from ndgather.models.openvino.ir_reading import Constants, Limits, read
from ndgather.models.openvino.layers import graph_of, layer_names, parameter_bounds
from ndgather.models.openvino.network import Network
from ndgather.published.tensor_types import RankAtLeast, TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.models.entry_checks import FilePath
    from ndgather.models.graph import Array, Graph
    from ndgather.models.graph.diagnostics import Finding


class Model:
    """An OpenVINO IR, or a bare layer of one.

    Parameters
    ----------
    network : Network
        What the file says.
    constants : Constants
        Where its constants are.
    """

    def __init__(self, network: Network, constants: Constants) -> None:
        instance("Model", "network", network, Network, "what an IR says")
        instance("Model", "constants", constants, Constants, "a file of constants")
        self.network = network
        self.constants = constants
        self._graph: Graph | None = None

    @classmethod
    def load(
        cls,
        path: FilePath | Content,
        constants: FilePath | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Read a file, or the bytes of one; its constants are in the ``.bin`` beside it.

        Raises
        ------
        FileError, ModelError
            The file cannot be read, is no IR, or is larger than `limits`.
        """
        source = bytes(path) if isinstance(path, Content) else _path("path", path)
        beside = None if constants is None else _path("constants", constants)
        if beside is None and isinstance(source, Path):
            beside = source.parent / f"{source.stem}.bin"
        if limits is None:
            limits = Limits()
        instance("Model.load", "limits", limits, Limits, "a set of limits")
        return cls(read(source, limits), Constants(path=beside))

    @property
    def graph(self) -> Graph:
        """The graph that the network is.

        Raises
        ------
        NdgatherError
            A layer is not one of ours, its edges make no sense, or a constant is not there.
        """
        if self._graph is None:
            self._graph = graph_of(self.network, self.constants)
        return self._graph

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(_port(each.name, each.type) for each in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        types = value_types(self.graph)
        return tuple(_port(each.name, types[each.value]) for each in self.graph.outputs)

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model; an input goes by a name of its tensor or by that of its layer.

        Raises
        ------
        ModelError
            An input is missing or unknown, or a layer is not one of ours.
        ShapeError, DTypeError, IndexOutOfBoundsError
            An input, or what a layer was given, does not fit; the text names it.
        """
        names = self._names_of_inputs()
        arrays = named_arrays("run", inputs)
        given = {names.get(name, name): array for name, array in arrays.items()}
        fitted = fit_inputs(self.inputs, given)
        self._check_ranges(fitted)
        return evaluate(self.graph, fitted)

    def check(self) -> tuple[Finding, ...]:
        """Return what is wrong with the model: its edges, attributes, constants and ports."""
        return tuple(check_network(self.network, self.constants))

    def _names_of_inputs(self) -> dict[str, str]:
        """Return the name of the graph's input for every name that a Parameter goes by."""
        layers = [each for each in self.network.layers if each.type == "Parameter"]
        inputs = [each.name for each in self.graph.inputs]
        names: dict[str, str] = {}
        for layer, name in zip(layers, inputs, strict=False):  # a snippet has no Parameters
            for other in layer_names(layer, layer.outputs[0]):
                names.setdefault(other, name)
        return {**names, **{name: name for name in inputs}}

    def _check_ranges(self, inputs: Mapping[str, Array]) -> None:
        """Hold inputs to sizes that are declared as ranges, which no `Port` can say."""
        layers = [each for each in self.network.layers if each.type == "Parameter"]
        for layer, each in zip(layers, self.graph.inputs, strict=False):
            bounds = parameter_bounds(layer)
            if bounds is None:
                continue
            shape = inputs[each.name].shape
            for size, (low, high) in zip(shape, bounds, strict=True):
                if size < low or (high is not None and size > high):
                    declared = [_range(*pair) for pair in bounds]
                    raise input_shape(each.name, shape, declared)


def run(model: FilePath | Content | Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run an IR, a file or one that is loaded, and return its outputs by name."""
    loaded = model if isinstance(model, Model) else Model.load(model)
    return {output.name: output.array for output in loaded.run(inputs).outputs}


def check(model: FilePath | Content | Model) -> tuple[Finding, ...]:
    """Return what is wrong with an IR, a file or one that is loaded."""
    loaded = model if isinstance(model, Model) else Model.load(model)
    return loaded.check()


def _path(argument: str, value: object) -> Path:
    return file_path("Model.load", argument, value)


def _port(name: str, given: TensorType) -> Port:
    shape = given.shape
    return Port(
        name=name,
        dtype=None if given.dtype is None else dtype_of(given.dtype),
        shape=None
        if shape is None or isinstance(shape, RankAtLeast)
        else tuple("?" if size is None else size for size in shape),
    )


def _range(low: int, high: int | None) -> str:
    if low == high:
        return str(low)
    return "?" if (low, high) == (0, None) else f"{low or ''}..{'' if high is None else high}"
