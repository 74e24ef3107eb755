"""An OpenVINO IR as a model: its graph, its inputs and outputs, and its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from ndgather.errors import ModelError, NdgatherError
from ndgather.messages import foreign_errors, input_shape, listed, quoted
from ndgather.models import Array, Content, FilePath, file_path, instance, named_arrays
from ndgather.models.graph import (
    CastNode,
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    OperatorNode,
    OutputArray,
    Port,
    Run,
    fit_inputs,
    unique,
    value_types,
)
from ndgather.models.graph.diagnostics import Finding, Findings
from ndgather.models.graph.evaluation import evaluate
from ndgather.models.openvino.layers import (
    KNOWN_TYPES,
    OPERATOR_TYPES,
    Constants,
    attributes_of,
    check_network,
    check_ports,
    element_type,
    operator_of,
    parameter_bounds,
    parameter_type,
    port_type,
)
from ndgather.models.openvino.reading import Layer, LayerPort, Limits, Network, read, wire
from ndgather.runtimes import MODEL_NAMES
from ndgather.runtimes.runtime import LoadOptions, ModelSource


class Model:
    """An OpenVINO IR, or a bare layer of one; `Model.load` reads it.

    Parameters
    ----------
    network : Network
        The layers and edges of the XML.
    constants : Constants
        The file of its constants.

    Raises
    ------
    DTypeError
        An argument is of another type.
    """

    def __init__(self, network: Network, constants: Constants) -> None:
        instance("Model", "network", network, Network, "the network of an IR")
        instance("Model", "constants", constants, Constants, "a file of constants")
        self.network = network
        self.constants = constants
        self._file: Path | None = None

    @classmethod
    def load(
        cls,
        path: FilePath | Content,
        constants: FilePath | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Read an IR.

        Parameters
        ----------
        path : str, os.PathLike or bytes
            The path of the XML, or its content.
        constants : str or os.PathLike, optional
            The file of constants; by default the ``.bin`` beside the XML.
        limits : Limits, optional
            The largest size, depth and number of elements and layers to read.

        Returns
        -------
        Model
        """
        source = _source("Model.load", "path", path)
        beside = None
        if constants is not None:
            beside = file_path("Model.load", "constants", constants)
        elif isinstance(source, Path):
            beside = source.parent / f"{source.stem}.bin"
        limits = Limits() if limits is None else limits
        instance("Model.load", "limits", limits, Limits, "a set of limits")
        model = cls(read(source, limits), Constants(path=beside))
        if isinstance(source, Path) and constants is None:
            model._file = source
        return model

    @cached_property
    def graph(self) -> Graph:
        """The network as a graph."""
        layer = self._other_layer
        if layer is not None:
            of = f" of {quoted(layer.version)}" if layer.version else ""
            raise ModelError(
                f"{layer}: type = {quoted(layer.type)}{of} is not supported "
                f"(allowed: {listed(KNOWN_TYPES)}; any in a file, if the package openvino is "
                "installed)"
            )
        return _GraphBuilder(self.network, self.constants).graph()

    @property
    def _other_layer(self) -> Layer | None:
        """The first layer that ndgather does not run."""
        layers = self.network.layers
        return next((layer for layer in layers if layer.type not in KNOWN_TYPES), None)

    @property
    def _runs_in_openvino(self) -> bool:
        """Whether the file has other layers, which the package openvino runs."""
        return self._file is not None and self._other_layer is not None and is_installed()

    @cached_property
    def _ports(self) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        return _GraphBuilder(self.network, self.constants).ports()

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The names, dtypes and shapes of the inputs."""
        if self._runs_in_openvino:
            return self._ports[0]
        return tuple(Port.of(item.name, item.type) for item in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The names, dtypes and shapes of the outputs."""
        if self._runs_in_openvino:
            return self._ports[1]
        types = value_types(self.graph)
        return tuple(Port.of(item.name, types[item.value]) for item in self.graph.outputs)

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model, as the function `run` does.

        Parameters
        ----------
        inputs : mapping of str to array_like
            As in `run`.

        Returns
        -------
        Run
            `outputs`, with their names and arrays, and the time of the run.

        Raises
        ------
        ModelError, ShapeError, DTypeError, IndexOutOfBoundsError
            As in `run`.
        """
        if self._runs_in_openvino:
            return self._run_in_openvino(named_arrays("run", inputs))
        graph, arrays = self.graph, named_arrays("run", inputs)
        parameters = self.network.of_type("Parameter")  # of which a snippet has none
        fitted = fit_inputs(self.inputs, self._by_first_name(arrays))
        # A `Port` has no ranges of sizes.
        for layer, item in zip(parameters, graph.inputs, strict=False):
            shape = fitted[item.name].shape
            for size, (low, high) in zip(shape, parameter_bounds(layer) or (), strict=False):
                if size < low or (high is not None and size > high):
                    sizes = [text.strip() for text in layer.attributes["shape"].split(",")]
                    raise input_shape(item.name, shape, sizes)
        return evaluate(graph, fitted)

    def _by_first_name(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return inputs by their first names: a tensor may have several, and its layer another."""
        names: dict[str, str] = {}
        for layer, port in zip(self.network.of_type("Parameter"), self.inputs, strict=False):
            for name in _value_names(layer, layer.outputs[0]):
                names.setdefault(name, port.name)
        names |= {port.name: port.name for port in self.inputs}
        found: dict[str, Array] = {}
        for name, value in inputs.items():
            if names.get(name, name) in found:
                raise ModelError(f"input {name!r} is given twice (allowed: one name of a tensor)")
            found[names.get(name, name)] = value
        return found

    def _run_in_openvino(self, inputs: Mapping[str, Array]) -> Run:
        start, names = time.perf_counter(), [port.name for port in self.outputs]
        fitted = fit_inputs(self.inputs, self._by_first_name(inputs))
        row = MODEL_NAMES["openvino"].load()
        with foreign_errors(ModelError, f"{self._file}: OpenVINO does not run it"):
            session = row.session(ModelSource(content=str(self._file)), LoadOptions())
            arrays = session.run(names, fitted)
        why = "the package openvino ran it, with the other layers of the file"
        layers = self.network.operations
        return Run(
            outputs=tuple(map(OutputArray, names, arrays)),
            seconds=time.perf_counter() - start,
            gather_nodes=0,
            remaining_nodes=len(layers),
            runtime="openvino",
            left=tuple((str(layer), why) for layer in layers if layer.type in OPERATOR_TYPES),
        )

    def check(self) -> tuple[Finding, ...]:
        """Return what is wrong with the model: its edges, attributes, constants and ports."""
        return Findings(check_network(self.network, self.constants))


def _source(caller: str, argument: str, value: object) -> Path | bytes:
    return bytes(value) if isinstance(value, Content) else file_path(caller, argument, value)


def _loaded(caller: str, model: FilePath | Content | Model) -> Model:
    return model if isinstance(model, Model) else Model.load(_source(caller, "model", model))


def run(model: FilePath | Content | Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run an OpenVINO IR and return its outputs by name.

    ndgather runs gather and scatter layers, constants and casts; a file with other layers runs in
    the package openvino, if that is installed.

    Parameters
    ----------
    model : Model, bytes, str or os.PathLike
        A loaded IR, the bytes of its XML, or the path of that file.
    inputs : mapping of str to array_like
        The inputs by a name of their tensor or of their layer; those of a bare layer by the names
        of its specification, such as ``"data"`` and ``"indices"``.

    Returns
    -------
    dict of str to array
        The outputs, in the order of the model; that of a bare layer is ``"output"``.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, is not an IR, has a layer that cannot run, or an input is missing
        or unknown.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input of the model or of a layer does not fit; the text names it.

    Examples
    --------
    >>> import numpy as np
    >>> from ndgather.models import openvino
    >>> layer = b'''<layer id="0" name="pick" type="GatherND" version="opset8"><input>
    ...     <port id="0" precision="FP32"><dim>2</dim><dim>2</dim></port>
    ...     <port id="1" precision="I64"><dim>-1</dim><dim>1</dim></port></input><output>
    ...     <port id="2" precision="FP32"><dim>-1</dim><dim>2</dim></port></output></layer>'''
    >>> data = np.array([[10, 11], [20, 21]], np.float32)
    >>> openvino.run(layer, {"data": data, "indices": [[1], [0]]})
    {'output': array([[20., 21.],
           [10., 11.]], dtype=float32)}
    """
    return {output.name: output.array for output in _loaded("run", model).run(inputs).outputs}


def check(model: FilePath | Content | Model) -> tuple[Finding, ...]:
    """Check an OpenVINO IR: its edges, attributes, constants and ports.

    Parameters
    ----------
    model : Model, bytes, str or os.PathLike
        A loaded IR, the bytes of its XML, or the path of that file.

    Returns
    -------
    tuple of Finding
        What is wrong, and where OpenVINO deviates from its specification; empty if there is
        nothing to report. A finding has `where`, `operator`, `rule`, `what`, `severity` and
        `runtimes`.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an IR.

    Examples
    --------
    >>> from ndgather.models import openvino
    >>> layer = b'''<layer id="0" name="pick" type="GatherND" version="opset8"><input>
    ...     <port id="0" precision="FP32"><dim>2</dim><dim>2</dim></port>
    ...     <port id="1" precision="I64"><dim>-1</dim><dim>1</dim></port></input><output>
    ...     <port id="2" precision="FP32"><dim>-1</dim><dim>2</dim></port></output></layer>'''
    >>> [finding.what for finding in openvino.check(layer.replace(b"FP32", b"FP16", 1))]
    ['output port 2 declares precision FP32; inferred FP16']
    """
    return _loaded("check", model).check()


class _GraphBuilder:
    """Gives every value of a network a unique name."""

    def __init__(self, network: Network, constants: Constants) -> None:
        self.network = network
        self.wiring = wire(network)
        for error in self.wiring.findings:
            raise ModelError(f"{error.where}: {error.what}")
        # Parameters and Results keep their order in the file, which is that of the model.
        self.first, self.last = map(network.of_type, ("Parameter", "Result"))
        self.constants_file = constants
        self.taken: set[str] = set()
        self.output_names: set[str] = set()
        self.values: dict[tuple[int, int], str] = {}
        self.inputs: list[GraphInput] = []
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.outputs: list[GraphOutput] = []

    def graph(self) -> Graph:
        inner = [x for x in self.wiring.order if x.type not in {"Parameter", "Result"}]
        self._each(check_ports, self.network.layers)
        self._each(self._add, (*self.first, *inner, *self.last))
        inputs, nodes, outputs = tuple(self.inputs), tuple(self.nodes), tuple(self.outputs)
        return Graph(self.network.name, inputs, self.constants, nodes, outputs)

    def ports(self) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """Return the inputs and the outputs, whatever layers are between them."""
        self._each(check_ports, (*self.first, *self.last))
        self._each(self._add, self.first)
        outputs = {self._output_name(layer): self._end(layer)[1] for layer in self.last}
        tensors = {name: port for port in outputs.values() for name in port.names}
        for name, port in outputs.items():  # OpenVINO would give one of the two for both
            if any(tensors.get(each, port) is not port for each in (name, *port.names)):
                raise ModelError(f"output {name!r} has a name of another (allowed: one of its own)")
        return (
            tuple(Port.of(item.name, item.type) for item in self.inputs),
            tuple(Port.of(name, port_type(port)) for name, port in outputs.items()),
        )

    def _each(self, step: Callable[[Layer], None], layers: Iterable[Layer]) -> None:
        for layer in layers:
            try:
                step(layer)
            except NdgatherError as error:
                error.args = (f"{layer} ({layer.type}): {error}",)
                raise

    def _end(self, layer: Layer) -> tuple[Layer, LayerPort]:
        """Return what feeds a Result."""
        return self.wiring.sources[layer.id, layer.inputs[0].id]

    def _output_name(self, layer: Layer) -> str:
        names = (*layer.output_names, *self._end(layer)[1].names, layer.name, f"result{layer.id}")
        name = next(name for name in names if name)
        if name in self.output_names and layer.name:
            name = layer.name
        return unique(name, self.output_names)

    def _add(self, layer: Layer) -> None:
        if layer.type == "Result":
            source, port = self._end(layer)
            self.outputs.append(
                GraphOutput(self._output_name(layer), self.values[source.id, port.id])
            )
            return
        (port,) = layer.outputs
        name = self.values[layer.id, port.id] = unique(_value_names(layer, port)[0], self.taken)
        if layer.type == "Parameter":
            self.inputs.append(GraphInput(name, parameter_type(layer)))
        elif layer.type == "Const":
            self.constants[name] = self.constants_file.read(layer)
        elif layer.type == "Convert":
            dtype = element_type(layer, "destination_type").dtype
            (value,) = self._sources(layer, ("input",))
            self.nodes.append(CastNode(layer.name or name, value, name, dtype))
        else:
            function = operator_of(layer)
            inputs = self._sources(layer, tuple(item.name for item in function.row.inputs))
            attributes = attributes_of(layer, function)
            title = layer.name or name
            self.nodes.append(OperatorNode(title, function.row, inputs, name, attributes))
        if self.network.snippet:
            self.outputs.append(GraphOutput("output", name))

    def _sources(self, layer: Layer, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values that feed a layer; those of a snippet become inputs of the graph."""
        if not self.network.snippet:
            sources = (self.wiring.sources[layer.id, port.id] for port in layer.inputs)
            return tuple(self.values[source.id, port.id] for source, port in sources)
        inputs = tuple(
            GraphInput(unique(name, self.taken), port_type(port))
            for name, port in zip(names, layer.inputs, strict=False)
        )
        self.inputs += inputs
        return tuple(item.name for item in inputs)


def _value_names(layer: Layer, port: LayerPort) -> tuple[str, ...]:
    """Return the names of a value: those of its port, then that of its layer."""
    names = (*port.names, layer.name)
    return tuple(dict.fromkeys(name for name in names if name)) or (f"layer{layer.id}",)


def is_installed() -> bool:
    return find_spec("openvino") is not None
