"""ONNX models that can be run: what goes in and comes out, and their results."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnx
from numpy.typing import NDArray

from ndgather.errors import NdgatherError, onnx_errors, run_errors
from ndgather.log import LOGGER, counted
from ndgather.models.entry_checks import instance, named_arrays
from ndgather.models.graph.evaluation import finished
from ndgather.models.graph.ports import Port, Run, fit_inputs
from ndgather.models.onnx.domains import with_one_name
from ndgather.models.onnx.external_tensors import refuse_tensors
from ndgather.models.onnx.function_sizes import refuse_unbounded
from ndgather.models.onnx.model_files import IN_MEMORY, loaded
from ndgather.models.onnx.type_protos import dtype_of_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ndgather.models.entry_checks import Content, FilePath
    from ndgather.models.onnx.onnx_evaluation import Evaluator

Array = NDArray[Any]


class Model:
    """An ONNX model that can be run many times.

    Parameters
    ----------
    proto : ModelProto
        The model in memory. `Model.load` reads a file, or the bytes of one.
    path : str, default "model"
        What errors call the model.

    Attributes
    ----------
    inputs, outputs : tuple of Port
        What the model declares: names, dtypes and shapes.
    not_loaded : str
        Why the runtime that was to run it did not load it; empty where none was to.

    Raises
    ------
    ModelError, FileError
        Its functions call themselves, or it keeps tensors in files that are not known.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> [str(port) for port in onnx.Model(model).inputs]
    ['data float32 (N, 2)', 'rows int64 (M, 1)']
    """

    def __init__(self, proto: onnx.ModelProto, path: str = IN_MEMORY) -> None:
        instance("Model", "proto", proto, onnx.ModelProto, "a model")
        refuse_tensors(proto)
        refuse_unbounded(proto)
        self.not_loaded = ""
        self._path = path
        self._proto = proto
        self.inputs, self.outputs = model_ports(proto)

    @classmethod
    def load(cls, path: FilePath | Content) -> Self:
        """Read and check a model.

        Parameters
        ----------
        path : str, os.PathLike or bytes
            The path of a file, or what such a file holds.

        Returns
        -------
        Model

        Raises
        ------
        FileError, ModelError
            The file cannot be read, or is not a valid ONNX model.
        """
        return cls._load(path, "Model.load")

    @classmethod
    def _load(cls, path: FilePath | Content, caller: str) -> Self:
        proto = loaded(path, caller)
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else IN_MEMORY
        try:
            onnx.checker.check_model(proto if name is IN_MEMORY else name)
        except (onnx.checker.ValidationError, ValueError) as error:
            raise onnx_errors.invalid_model(name, error) from error
        return cls(proto, name)

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Run:
        """Run the model.

        Parameters
        ----------
        inputs : mapping of str to array_like
            The inputs by their names; see `run`.
        progress : callable, optional
            Is called after each node with the numbers of nodes that ran and in all.

        Returns
        -------
        Run
            `outputs`, each with its name, array and time; the time of all nodes; and how many of
            them ran in ndgather and elsewhere.

        Raises
        ------
        ModelError
            An input is missing or unknown, or a node failed; the text names the node.
        ShapeError, DTypeError, IndexOutOfBoundsError
            An input, or what a node was given, does not fit; the text names it.
        """
        # Not above: the evaluator of onnx takes 20 MB, which a runtime does without.
        from ndgather.models.onnx.onnx_evaluation import Evaluator, tally  # noqa: PLC0415

        fitted = fit_inputs(self.inputs, named_arrays("run", inputs))
        try:
            evaluator = Evaluator(with_one_name(self._proto))
        except Exception as error:  # whatever the evaluator finds it cannot do
            raise run_errors.cannot_run(self._path, error) from error
        if progress is not None:
            _report(evaluator, progress)
        names = [port.name for port in self.outputs]
        counts = Counter[bool]()
        token = tally.set(counts)
        try:
            with np.errstate(all="ignore"):  # a NaN or an infinity is a value, as in a runtime
                values = evaluator.run(names, fitted)
        except (NdgatherError, MemoryError):
            raise
        except Exception as error:  # an output that no node gives, or a node that it cannot call
            raise run_errors.cannot_run(self._path, error) from error
        finally:
            tally.reset(token)
        outputs = [
            (name, name, _tensor(name, value)) for name, value in zip(names, values, strict=True)
        ]
        run = finished(evaluator.steps, outputs, own_nodes=counts[True], other_nodes=counts[False])
        LOGGER.info(
            "%s: %s ran in ndgather and %s in the reference evaluator, %.3f s",
            self._path,
            counted(run.own_nodes, "node"),
            counted(run.other_nodes, "node"),
            run.seconds,
        )
        return run


def _report(evaluator: Evaluator, progress: Callable[[int, int], object]) -> None:
    """Have each node of the main graph say that it ran."""
    done, total = itertools.count(1), len(evaluator.steps)
    for step in evaluator.steps:
        step.ended = lambda: progress(next(done), total)


def model_ports(proto: onnx.ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return what a model declares of its inputs and outputs."""
    initial = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(_port(info, initial) for info in proto.graph.input)
    return inputs, tuple(_port(info, set(), "output") for info in proto.graph.output)


def _port(info: onnx.ValueInfoProto, initial: set[str], role: str = "input") -> Port:
    kind = info.type.WhichOneof("value")
    if role == "input" and kind not in {"tensor_type", None}:
        raise run_errors.not_a_tensor(role, info.name, kind.removesuffix("_type"))
    tensor = info.type.tensor_type
    shape = tuple(_size(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    dtype = dtype_of_number(tensor.elem_type, info.name) if tensor.elem_type else None
    return Port(name=info.name, dtype=dtype, shape=shape, optional=info.name in initial)


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    """Return a declared size; one below 0 says that it is not known."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else "?"
    return dim.dim_param or "?"


def _tensor(name: str, value: object) -> Array:
    if not isinstance(value, np.ndarray):
        raise run_errors.not_a_tensor("output", name, type(value).__name__)
    return value
