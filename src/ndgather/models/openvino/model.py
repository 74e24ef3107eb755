"""An IR as a model: what goes in and comes out, what is wrong with it, and its results."""

from __future__ import annotations

import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ndgather.errors import FileError, ModelError, file_errors
from ndgather.errors.run_errors import input_shape
from ndgather.errors.texts import reason
from ndgather.models.arguments import Content, file_path, instance, named_arrays
from ndgather.models.graph import Port, Run, fit_inputs, value_types
from ndgather.models.graph.calls import dtype_of, evaluate
from ndgather.models.openvino.checks import check_network
from ndgather.models.openvino.layers import graph_of, layer_names, parameter_bounds
from ndgather.models.openvino.reading import Constants, Limits, Network, read
from ndgather.models.tensors.tensor_files import replace_file
from ndgather.published.schema import RankAtLeast, TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.models.arguments import FilePath
    from ndgather.models.graph import Array, Graph
    from ndgather.models.graph.diagnostics import Finding


class Model:
    """An OpenVINO IR, or a bare layer of one; `Model.load` reads it.

    Parameters
    ----------
    network : Network
        What the XML says.
    constants : Constants
        Where its constants are.

    Raises
    ------
    DTypeError
        An argument is of another type.
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
        """Read an IR.

        Parameters
        ----------
        path : str, os.PathLike or bytes
            The path of the XML, or what that file holds.
        constants : str or os.PathLike, optional
            The file of constants; without it the ``.bin`` beside the XML.
        limits : Limits, optional
            The largest size, depth and number of elements and layers to read.

        Returns
        -------
        Model
        """
        return cls._load("Model.load", "path", path, constants, limits)

    @classmethod
    def _load(
        cls,
        caller: str,
        argument: str,
        path: object,
        constants: object = None,
        limits: Limits | None = None,
    ) -> Self:
        """Read an IR for `caller`, whose `argument` is `path`."""
        source = bytes(path) if isinstance(path, Content) else file_path(caller, argument, path)
        beside = None if constants is None else file_path(caller, "constants", constants)
        if beside is None and isinstance(source, Path):
            beside = source.parent / f"{source.stem}.bin"
        if limits is None:
            limits = Limits()
        instance(caller, "limits", limits, Limits, "a set of limits")
        return cls(read(source, limits), Constants(path=beside))

    @property
    def graph(self) -> Graph:
        """The graph that the network is."""
        if self._graph is None:
            self._graph = graph_of(self.network, self.constants)
        return self._graph

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The names, dtypes and shapes of the inputs."""
        return tuple(_port(each.name, each.type) for each in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The names, dtypes and shapes of the outputs."""
        types = value_types(self.graph)
        return tuple(_port(each.name, types[each.value]) for each in self.graph.outputs)

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model.

        Parameters
        ----------
        inputs : mapping of str to array_like
            The inputs by a name of their tensor or of their layer.

        Returns
        -------
        Run
            `outputs`, each with its name, array and time; and the time of all layers.

        Raises
        ------
        ModelError
            An input is missing or unknown, or a layer is of another type.
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
    """Run an OpenVINO IR of gather and scatter layers and return its outputs by name.

    Parameters
    ----------
    model : Model, bytes, str or os.PathLike
        An IR that is loaded, the bytes of its XML, or the path of that file.
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
        The file cannot be read, is not an IR, has a layer of another type, or an input is missing
        or unknown.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input, or what a layer was given, does not fit; the text names it.

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
    loaded = model if isinstance(model, Model) else Model._load("run", "model", model)
    return {output.name: output.array for output in loaded.run(inputs).outputs}


def check(model: FilePath | Content | Model) -> tuple[Finding, ...]:
    """Check an OpenVINO IR: its edges, attributes, constants and ports.

    Parameters
    ----------
    model : Model, bytes, str or os.PathLike
        An IR that is loaded, the bytes of its XML, or the path of that file.

    Returns
    -------
    tuple of Finding
        What is wrong, and what OpenVINO does otherwise than its specification says; empty where
        nothing was found. A finding has `where`, `operator`, `rule`, `what`, `severity` and
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
    loaded = model if isinstance(model, Model) else Model._load("check", "model", model)
    return loaded.check()


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


_NO_NODES = frozenset({"Const", "Parameter", "Result"})


def is_installed() -> bool:
    return find_spec("openvino") is not None


def write_converted(source: Path, target: Path, constants: Path) -> tuple[int, tuple[Finding, ...]]:
    """Have OpenVINO write an IR of a model file, and check each gather and scatter layer of it.

    Floats stay as wide as they are. Both files take their places whole, or neither does.

    Returns
    -------
    int, tuple of Finding
        How many layers there are, and what the check found.
    """
    openvino = import_module("openvino")
    try:
        converted = openvino.convert_model(str(source))
    except Exception as error:  # of its frontend, of any kind
        raise ModelError(
            f"{source}: the converter of OpenVINO refuses it: {reason(error)}"
        ) from error
    if not target.parent.is_dir():
        raise FileError(f"{target}: cannot be written: there is no folder {target.parent}")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ndgather-") as folder:
        made = Path(folder) / "model.xml"
        try:
            openvino.save_model(converted, str(made), compress_to_fp16=False)
        except Exception as error:
            raise file_errors.unwritable(target, error) from error
        weights = made.with_suffix(".bin")
        weights.touch()
        model = Model.load(made)
        replace_file((constants, weights.replace), (target, made.replace))
    layers = sum(each.type not in _NO_NODES for each in model.network.layers)
    return layers, Model.load(target, constants).check()
