"""Functions that check and run OpenVINO IR models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

from ndgather.errors import ModelError, NdgatherError
from ndgather.messages import in_node, input_shape, listed, quoted
from ndgather.models import Array, Content, FilePath, file_path, instance, named_arrays
from ndgather.models.graph import OutputArray, Port, Run, fit_inputs, unique
from ndgather.models.graph.diagnostics import Finding, Findings
from ndgather.models.graph.evaluation import converted
from ndgather.models.openvino.layers import (
    KNOWN_TYPES,
    Constants,
    attributes_of,
    check_network,
    check_ports,
    element_type,
    infer_types,
    operator_of,
    parameter_bounds,
    parameter_type,
    port_type,
)
from ndgather.models.openvino.reading import Layer, LayerPort, Limits, Network, read, wire
from ndgather.published.schema import TensorType

_Key: TypeAlias = tuple[int, int]
"""A value, identified by the ids of a layer and an output port."""


class Model:
    """An OpenVINO IR or a bare layer. Use `Model.load` to read a file.

    Parameters
    ----------
    network : Network
        The layers and edges of the XML file.
    constants : Constants
        The file that stores the constants.
    """

    def __init__(self, network: Network, constants: Constants) -> None:
        instance("Model", "network", network, Network, "the network of an IR")
        instance("Model", "constants", constants, Constants, "a file of constants")
        self.network = network
        self.constants = constants

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
            The path of the XML file, or its content.
        constants : str or os.PathLike, optional
            The file that stores the constants. By default, the ``.bin`` file beside the XML file.
        limits : Limits, optional
            The maximum file size, nesting depth, and number of elements and layers.

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
        return cls(read(source, limits), Constants(path=beside))

    @cached_property
    def _program(self) -> _Program:
        for layer in self.network.layers:
            if layer.type not in KNOWN_TYPES:
                of = f" of {quoted(layer.version)}" if layer.version else ""
                raise ModelError(
                    f"{layer}: type = {quoted(layer.type)}{of} is not supported (allowed: "
                    f"{listed(KNOWN_TYPES)}; openvino.Core().compile_model of the openvino package "
                    "runs any)"
                )
        return _Program(self.network, self.constants)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the model, with names, dtypes and shapes."""
        return tuple(Port.of(name, known) for name, (_, known) in self._program.inputs.items())

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the model, with names, dtypes and shapes."""
        types = infer_types(self.network, self.constants)
        return tuple(Port.of(name, types[key]) for name, key in self._program.outputs.items())

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model and return its outputs and duration. See `models.openvino.run`."""
        start, arrays = time.perf_counter(), named_arrays("run", inputs)
        program, parameters = self._program, self.network.of_type("Parameter")
        fitted = fit_inputs(self.inputs, self._by_first_name(arrays))
        # `fit_inputs` does not check ranges of sizes, because `Port` cannot represent a range.
        for layer, name in zip(parameters, program.inputs, strict=False):
            shape = fitted[name].shape
            for size, (low, high) in zip(shape, parameter_bounds(layer) or (), strict=False):
                if size < low or (high is not None and size > high):
                    sizes = [text.strip() for text in layer.attributes["shape"].split(",")]
                    raise input_shape(name, shape, sizes)
        outputs = program.run(fitted)
        return Run(
            outputs=tuple(OutputArray(name, array) for name, array in outputs.items()),
            seconds=time.perf_counter() - start,
            gather_nodes=len(program.steps),
            remaining_nodes=0,
        )

    def _by_first_name(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return `inputs` with tensor and layer names replaced by the first name of each input."""
        names: dict[str, str] = {}
        for layer, port in zip(self.network.of_type("Parameter"), self.inputs, strict=False):
            for name in _value_names(layer, layer.outputs[0]):
                names.setdefault(name, port.name)
        names |= {port.name: port.name for port in self.inputs}
        found: dict[str, Array] = {}
        for name, value in inputs.items():
            if names.get(name, name) in found:
                raise ModelError(f"input {name!r} is given twice (allowed: one name per tensor)")
            found[names.get(name, name)] = value
        return found

    def check(self) -> tuple[Finding, ...]:
        """Check the edges, attributes, constants and ports. See the function `check`."""
        return Findings(check_network(self.network, self.constants))


def _source(caller: str, argument: str, value: object) -> Path | bytes:
    return bytes(value) if isinstance(value, Content) else file_path(caller, argument, value)


def _loaded(caller: str, model: FilePath | Content | Model) -> Model:
    return model if isinstance(model, Model) else Model.load(_source(caller, "model", model))


def run(model: FilePath | Content | Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run an OpenVINO IR and return its outputs by name.

    ndgather runs gather and scatter layers, constants and casts. To run files with other layers,
    use the openvino package.

    Parameters
    ----------
    model : Model, bytes, str or os.PathLike
        A loaded IR, the path of its XML file, or the content of that file as bytes.
    inputs : mapping of str to array_like
        The inputs by the name of a tensor or layer. For a bare layer, use the names in the
        specification of the operator, such as ``"data"`` and ``"indices"``.

    Returns
    -------
    dict of str to array
        The outputs, in the order of the model. The output of a bare layer is called ``"output"``.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, is not an IR, or has a layer that is not supported, or an input
        is missing or unknown.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input of the model or of a layer is invalid; the error names it.

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
    """Check the edges, attributes, constants and ports of an OpenVINO IR.

    Parameters
    ----------
    model : Model, bytes, str or os.PathLike
        A loaded IR, the path of its XML file, or the content of that file as bytes.

    Returns
    -------
    tuple of Finding
        Errors of the model, and calls for which OpenVINO deviates from its specification. Each
        finding has the attributes `where`, `operator`, `rule`, `what`, `severity` and `runtimes`.

    Raises
    ------
    FileError, ModelError
        The file cannot be read or is not an IR.

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


class _Step(NamedTuple):
    """A step that computes a value. `title` is the operator name in error messages."""

    layer: Layer
    title: str
    compute: Callable[..., Array]
    reads: tuple[_Key, ...]
    gives: _Key


class _Program:
    """A network as a sequence of steps. `inputs` and `outputs` map unique names to values."""

    def __init__(self, network: Network, constants: Constants) -> None:
        self.network, self.wiring = network, wire(network)
        for error in self.wiring.findings:
            raise ModelError(f"{error.where}: {error.what}")
        self.inputs: dict[str, tuple[_Key, TensorType]] = {}
        self.outputs: dict[str, _Key] = {}
        self.steps: list[_Step] = []
        self._constants = constants
        self._values: dict[_Key, Array] = {}
        self._taken: set[str] = set()
        # The inputs and outputs are in the order of the Parameter and Result layers in the file.
        first, last = map(network.of_type, ("Parameter", "Result"))
        inner = [x for x in self.wiring.order if x.type not in {"Parameter", "Result"}]
        _visit(network.layers, check_ports)
        _visit((*first, *inner, *last), self._add)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        values = self._values | {self.inputs[name][0]: array for name, array in inputs.items()}
        for step in self.steps:
            try:
                values[step.gives] = step.compute(*(values[key] for key in step.reads))
            except Exception as error:
                name = _value_names(step.layer, step.layer.outputs[0])[0]
                raise in_node(error, step.layer.name or name, step.title) from error
        return {name: values[key] for name, key in self.outputs.items()}

    def _add(self, layer: Layer) -> None:
        if layer.type == "Result":
            source, port = self.wiring.sources[layer.id, layer.inputs[0].id]
            names = (*layer.output_names, *port.names, layer.name, f"result{layer.id}")
            name = next(name for name in names if name)
            name = layer.name if name in self.outputs and layer.name else name
            self.outputs[unique(name, {*self.outputs})] = (source.id, port.id)
            return
        (port,) = layer.outputs
        key = (layer.id, port.id)
        if layer.type == "Parameter":
            name = unique(_value_names(layer, port)[0], self._taken)
            self.inputs[name] = key, parameter_type(layer)
        elif layer.type == "Const":
            self._values[key] = self._constants.read(layer)
        elif layer.type == "Convert":
            dtype = element_type(layer, "destination_type").dtype
            reads = self._reads(layer, ("input",))
            compute = partial(converted, name=dtype)
            self.steps.append(_Step(layer, f"conversion to {dtype}", compute, reads, key))
        else:
            function = operator_of(layer)
            reads = self._reads(layer, tuple(item.name for item in function.row.inputs))
            compute = partial(function, **attributes_of(layer, function))
            self.steps.append(_Step(layer, str(function.row), compute, reads, key))
        if self.network.snippet:
            self.outputs["output"] = key

    def _reads(self, layer: Layer, names: tuple[str, ...]) -> tuple[_Key, ...]:
        """Return the values that a layer reads. The values of a bare layer become model inputs."""
        if not self.network.snippet:
            sources = (self.wiring.sources[layer.id, port.id] for port in layer.inputs)
            return tuple((source.id, port.id) for source, port in sources)
        keys = []
        for name, port in zip(names, layer.inputs, strict=False):
            keys.append((layer.id, port.id))
            self.inputs[unique(name, self._taken)] = keys[-1], port_type(port)
        return tuple(keys)


def _visit(layers: Iterable[Layer], step: Callable[[Layer], None]) -> None:
    """Call `step` with each layer, adding the name of the layer to errors."""
    for layer in layers:
        try:
            step(layer)
        except NdgatherError as error:
            error.args = (f"{layer} ({layer.type}): {error}",)
            raise


def _value_names(layer: Layer, port: LayerPort) -> tuple[str, ...]:
    """Return the names of an output port, followed by the name of the layer."""
    names = (*port.names, layer.name)
    return tuple(dict.fromkeys(name for name in names if name)) or (f"layer{layer.id}",)
