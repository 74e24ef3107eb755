"""Runs of ONNX models in a runtime, with the gather and scatter nodes checked by ndgather."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    TensorProto,
    ValueInfoProto,
    shape_inference,
)

from ndgather import messages
from ndgather.errors import ExtraMissingError, FileError, ModelError, NdgatherError, NotLoadedError
from ndgather.messages import LOGGER, did_you_mean, foreign_errors, listed, plural, reason, shown
from ndgather.models.arguments import (
    Array,
    file_path,
    instance,
    named_arrays,
    names,
    seconds,
    whole_number,
)
from ndgather.models.graph import NodeTime, OutputArray, Run, fit_inputs
from ndgather.models.onnx import files
from ndgather.models.onnx.inference import check_functions, without_functions
from ndgather.models.onnx.nodes import (
    OpNode,
    Scope,
    declaration,
    is_published,
    model_ports,
    names_read,
    nodes,
    nodes_within,
    op_nodes,
)
from ndgather.published.schema import Reduction, TensorType
from ndgather.runtimes.children import call_isolated
from ndgather.runtimes.runtime import MODEL_NAMES, LoadOptions, ModelSource, model_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ndgather.models.onnx.evaluator import Model
    from ndgather.models.onnx.files import Source
    from ndgather.runtimes.runtime import Runtime, Session

REFERENCE = "reference"
DEFAULT = "onnxruntime"


def load(
    model: Source,
    *,
    runtime: str | None = REFERENCE,
    accept_runtime: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
    profile: bool = False,
    in_place: bool = False,
) -> Model | RuntimeModel:
    """Load a model to be run many times; the arguments are those of `run`.

    With `profile`, `Run.nodes` of the first run has the time of every node in onnxruntime. With
    `in_place`, onnxruntime maps the large tensors of a model file where they are, which takes far
    less memory and time; the file must not be written to while the model is used.

    Returns
    -------
    Model or RuntimeModel
        It has its declared `inputs` and `outputs`, and a method `run`.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        As in `run`.
    """
    if runtime is not None:
        instance("load", "runtime", runtime, str, "the name of a runtime")
    chosen = runtime or (DEFAULT if find_spec(DEFAULT) is not None else REFERENCE)
    options = load_options("load", (chosen,), threads, providers, libraries)[chosen]
    not_loaded = ""
    if chosen != REFERENCE:
        options = replace(options, profile=profile)
        try:
            return RuntimeModel(model, chosen, options, accept=accept_runtime, in_place=in_place)
        except NotLoadedError as error:
            if runtime is not None or options.providers or options.libraries:
                raise
            not_loaded = str(error)
            LOGGER.warning("%s; it runs in %s", not_loaded, REFERENCE)
    from ndgather.models.onnx import evaluator  # noqa: PLC0415 - takes 20 MB

    if isinstance(model, ModelProto):
        loaded = evaluator.Model(model)
    else:
        loaded = evaluator.Model._load(model, "run")
    loaded.not_loaded = not_loaded
    return loaded


def run(
    model: Source,
    inputs: Mapping[str, Array],
    *,
    runtime: str | None = None,
    accept_runtime: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
    isolate: bool = False,
    timeout: float | None = None,
) -> dict[str, Array]:
    """Run an ONNX model and return its outputs by name.

    The model runs in onnxruntime if that is installed and loads the model, and otherwise in the
    reference evaluator of the `onnx` package, as on the command line. In the runtime
    ``"reference"``, gather and scatter nodes run in ndgather, and all others in the evaluator. In
    any other runtime all nodes run there; ndgather then computes every gather and scatter node
    again from its inputs, and compares the outputs: copies bit by bit, sums of floats up to the
    order of additions.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. Tensors that a file keeps in other
        files are looked for in its folder, and nowhere else.
    inputs : mapping of str to array_like
        The inputs of the model by name, with the dtypes and shapes that it declares. Inputs with
        a default in the model may be left out.
    runtime : str, optional
        ``"reference"``, ``"onnxruntime"``, ``"openvino"``, or a module of your own. The default
        is onnxruntime, and the reference evaluator where onnxruntime is not installed or does not
        load the model (unless providers or libraries are named).
    accept_runtime : bool, default False
        Continue if the output of a node in the runtime differs from that of its specification.
    threads : int, optional
        How many threads an operator of the runtime may use.
    providers : sequence of str
        Execution providers of onnxruntime, or the device of OpenVINO. Default: the CPU.
    libraries : sequence of str
        Paths of libraries of custom operators that the runtime is to load.
    isolate : bool, default False
        Run the model in a child process, as the command line does. Use it for models that you do
        not trust: a hostile model can crash a runtime, and with it the process. Starting the child
        takes a fraction of a second, and the inputs and outputs are copied.
    timeout : float, optional
        The limit of the run in seconds; the child process is then ended. It implies `isolate`.

    Returns
    -------
    dict of str to array
        The outputs, in the order of the model. A sequence of maps from classes to numbers, which
        classifiers return, becomes a matrix with a column for every class.

    Raises
    ------
    FileError
        The file cannot be read.
    ModelError
        It is not a valid ONNX model, an input is missing or unknown, or a node failed or its output
        in the runtime differs from that of its specification; the text names the node. With
        `isolate`, the runtime crashed; with `timeout`, the run took longer.
    ExtraMissingError
        The runtime is not installed.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input of the model or of a node does not fit; the text names it.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> data = np.array([[10, 11], [20, 21]], np.float32)
    >>> onnx.run(model, {"data": data, "rows": [[1], [-2]]})
    {'picked': array([[20., 21.],
           [10., 11.]], dtype=float32)}
    >>> onnx.run(model, {"data": data, "rows": [[2]]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ndgather.errors.IndexOutOfBoundsError: node GatherND of 'picked': ...
    """
    options = {
        "runtime": runtime,
        "accept_runtime": accept_runtime,
        "threads": threads,
        "providers": providers,
        "libraries": libraries,
    }
    if isolate or timeout is not None:
        limit_s = math.inf if timeout is None else seconds("run", "timeout", timeout)
        inputs = named_arrays("run", inputs)
        source = str(file_path("run", "model", model)) if isinstance(model, os.PathLike) else model
        kind, what = call_isolated(__name__, "run_once", (source, inputs, options), limit_s)
        if kind == "raised":
            raise what
        if kind == "crashed":
            path = source if isinstance(source, str) else files.IN_MEMORY
            raise ModelError(f"{path}: the process that ran it has ended: {what}")
        outputs: dict[str, Array] = what
        return outputs
    return run_once(model, inputs, options)


def run_once(
    model: Source, inputs: Mapping[str, Array], options: Mapping[str, Any]
) -> dict[str, Array]:
    """Load a model, run it, and return its outputs by name."""
    loaded = load(model, **options, in_place=True)
    return {output.name: output.array for output in loaded.run(inputs).outputs}


_FAILED_NODE = re.compile(r"while running (\w+) node\. Name:'([^']*)'")


class RuntimeModel:
    """An ONNX model in a runtime, which can be run many times.

    The inputs and outputs of its gather and scatter nodes are outputs of the model that the
    runtime loads, and ndgather computes every one of these nodes again.
    """

    def __init__(
        self,
        model: Source,
        runtime: str,
        options: LoadOptions,
        *,
        accept: bool = False,
        in_place: bool = False,
    ) -> None:
        start = time.perf_counter()
        self.runtime, self.not_loaded = runtime, ""
        self._accept, self._options = accept, options
        row = load_runtime(runtime)
        path = None
        if isinstance(model, str | os.PathLike):
            path = str(file_path("run", "model", model))
        self._path = path or files.IN_MEMORY
        if in_place and path is not None and row.maps_tensors:
            proto, folder = files.map_model(Path(path), "run")
        else:
            proto, folder = files.open_model(model, "run")
        if folder is not None:
            try:
                files.check_tensors(proto, folder)
            except FileError as error:
                raise FileError(f"{self._path}: {error}") from error
        self.inputs, self.outputs = model_ports(proto)
        self._count = sum(1 for _ in nodes(proto))
        with foreign_errors(NotLoadedError, f"{self._path}: its types cannot be inferred"):
            self._traced = trace(deepcopy(proto) if proto is model else proto, folder)
        self._adapter = row.load()
        with foreign_errors(NotLoadedError, f"{self._path}: {runtime} does not load it"):
            self._session: Session = self._adapter.session(self._traced.source(path), options)
        version = getattr(self._adapter, "version", str)()
        seconds = time.perf_counter() - start
        LOGGER.info("%s: loaded in %s %s, %.3f s", self._path, runtime, version, seconds)

    def run(
        self, inputs: Mapping[str, Array], *, progress: Callable[[int, int], object] | None = None
    ) -> Run:
        """Run the model; `progress` is called before and after, as all nodes run at once."""
        start = time.perf_counter()
        fitted = fit_inputs(self.inputs, named_arrays("run", inputs))
        outputs = [port.name for port in self.outputs]
        wanted = list(dict.fromkeys([*outputs, *self._traced.names]))
        if progress is not None:
            progress(0, self._count)
        try:
            computed = self._session.run(wanted, fitted)
        except MemoryError:
            raise
        except Exception as error:  # runtimes have errors of every kind
            raise self._explain(error, fitted) from error
        values = {**fitted, **dict(zip(wanted, computed, strict=True))}
        differences, compared = [], 0
        for node in self._traced.nodes:
            checked = node.check(values)
            compared += checked is not None
            if checked is not None and not checked.same:
                difference = self._difference(checked)
                if not self._accept:
                    raise difference
                differences.append(str(difference))
                LOGGER.warning("%s: accepted: %s", self._path, difference)
        if progress is not None:
            progress(self._count, self._count)
        arrays = {name: _output_array(name, values[name]) for name in outputs}
        seconds, count = time.perf_counter() - start, plural(self._count, "node")
        what = f"{count} ran in {self.runtime}, {plural(compared, 'node')} compared"
        LOGGER.info("%s: %s, %.3f s", self._path, what, seconds)
        times: Sequence[tuple[str, str, float, int]] = ()
        if self._options.profile and hasattr(self._session, "profile"):
            times = self._session.profile()
        return Run(
            outputs=tuple(OutputArray(name, array, None) for name, array in arrays.items()),
            seconds=seconds,
            own_nodes=compared,
            other_nodes=self._count - compared,
            runtime=self.runtime,
            differences=tuple(differences),
            left=self._traced.untraced,
            nodes=tuple(NodeTime(*node) for node in times),
        )

    def _difference(self, node: CheckedNode) -> Exception:
        """Return the error of a node whose output is not that of its specification."""
        if node.refusal is not None:
            return node.op_node.named(node.refusal)
        operator, actual, expected = node.op_node.operator().row, node.actual, node.expected
        assert actual is not None
        assert expected is not None
        if node.first is None:
            text = (
                f"{self.runtime} returns {actual.dtype} {shown(actual.shape)}, and {operator} "
                f"returns {expected.dtype} {shown(expected.shape)}"
            )
        else:
            position = ", ".join(map(str, node.first))
            text = (
                f"{self.runtime} returns output[{position}] = {actual[node.first]}, and {operator} "
                f"returns {expected[node.first]} (to continue with the result of the runtime: "
                "--accept-runtime, accept_runtime=True)"
            )
        return node.op_node.named(ModelError(text))

    def _explain(self, error: Exception, fitted: Mapping[str, Array]) -> Exception:
        """Return the error that the specification has for the node on which the runtime failed."""
        failed = _FAILED_NODE.findall(str(error))[-1:]
        candidates = [
            node
            for node in self._traced.nodes
            if [(node.op_node.node.op_type, node.op_node.node.name)] == failed
            and not node.in_branch
        ]
        for node in candidates:
            checked = node.check({**fitted, **self._inputs_of(node, fitted)})
            if checked is not None and checked.refusal is not None:
                return node.op_node.named(checked.refusal)
        names = [(node.op_type, node.name) for _, node in nodes(self._traced.proto)]
        if candidates and names.count(failed[0]) == 1:
            op_node = candidates[0].op_node
            return op_node.named(
                ModelError(
                    f"{self.runtime} raises an error where {op_node.operator().row} allows the "
                    f"inputs: {reason(error)}"
                )
            )
        return ModelError(f"{self._path}: {self.runtime} does not run it: {reason(error)}")

    def _inputs_of(self, node: TracedNode, fitted: Mapping[str, Array]) -> dict[str, Array]:
        """Compute the inputs of a node in the runtime; return none of them if that fails."""
        part = self._traced.up_to(filter(None, node.reads))
        if not part.names:
            return {}
        try:
            session = self._adapter.session(part.source(), self._options)
            return dict(zip(part.names, session.run(part.names, fitted), strict=True))
        except MemoryError:
            raise
        except Exception:
            return {}


def _output_array(name: str, value: object) -> Array:
    """Return an output as an array; a list of dicts with the same keys becomes a matrix."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        keys = list(value[0])
        if all(list(row) == keys for row in value):
            return np.array([[row[key] for key in keys] for row in value], np.float32)
    if not isinstance(value, np.ndarray | np.generic):
        raise messages.not_a_tensor("output", name, type(value).__name__)
    return np.asarray(value)


# Intermediate outputs


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A gather or scatter node, and the outputs of the model that have its inputs and its output.

    The outputs in `in_branch` are empty where the branch of the node did not run.
    """

    op_node: OpNode
    reads: tuple[str, ...]
    gives: str
    in_branch: frozenset[str]

    def check(self, values: Mapping[str, Array]) -> CheckedNode | None:
        """Compute the node again from its inputs in a run, and compare its outputs.

        Return None if the node did not run, or its inputs are not known.
        """
        actual = values.get(self.gives)
        if any(name not in values for name in self.in_branch):
            return None
        if actual is not None and self.gives in self.in_branch and set(actual.shape) == {0}:
            return None
        arrays = []
        for name, name_in_scope in zip(self.reads, self.op_node.node.input, strict=True):
            value = values.get(name)
            value = self.op_node.scope.constant(name_in_scope) if value is None else value
            if value is None:
                return None
            arrays.append(value)
        return check_node(self.op_node, arrays, None if actual is None else np.asarray(actual))


@dataclass(frozen=True, slots=True)
class TracedModel:
    """A model whose outputs include the inputs and outputs of its gather and scatter nodes.

    `names` are the added outputs. `untraced` are the nodes whose values cannot be outputs, and why.
    """

    proto: ModelProto
    names: tuple[str, ...]
    nodes: tuple[TracedNode, ...]
    untraced: tuple[tuple[str, str], ...]
    folder: str | None

    def source(self, path: str | None = None) -> ModelSource:
        """Return the source for a runtime: the file at `path`, unless outputs were added."""
        folder = self.folder if any(files.external_tensors(self.proto)) else None
        content = self.proto.SerializeToString() if path is None or self.names else path
        return ModelSource(content=content, folder=folder)

    def up_to(self, wanted: Iterable[str]) -> TracedModel:
        """Return the part of the model that computes `wanted`, which are its only outputs."""
        needed, kept = set(wanted), []
        computed = {name for node in self.proto.graph.node for name in node.output if name}
        outputs = tuple(name for name in needed if name in computed)
        for node in reversed(self.proto.graph.node):
            if not needed.isdisjoint(filter(None, node.output)):
                kept.append(node)
                needed |= names_read(node)
        proto = deepcopy(self.proto)
        del proto.graph.node[:], proto.graph.output[:]
        proto.graph.node.extend(reversed(kept))
        proto.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
        for tensor in self.proto.graph.initializer:
            if tensor.name not in needed:
                proto.graph.initializer.remove(tensor)
        return replace(self, proto=proto, names=outputs)


def trace(model: ModelProto, folder: str | None) -> TracedModel:
    """Add the inputs and outputs of the gather and scatter nodes to the outputs of a model.

    The model is changed in place, unless functions have such nodes; they are inlined in a copy.
    """
    check_functions(model)
    calls = (node for function in model.functions for node in function.node)
    if any(is_published(inner) for node in calls for inner in nodes_within(node)):
        model = without_functions(model)
    if any(op_node.scope.around for op_node in op_nodes(model, folder)):
        model = shape_inference.infer_shapes(model)  # a branch must declare its outputs
    outputs = _Outputs(model.graph)
    traced, untraced = [], []
    for op_node in list(op_nodes(model, folder)):
        try:
            traced.append(outputs.traced(op_node))
        except _NotTraceableError as error:
            untraced.append((op_node.where, str(error)))
    return TracedModel(model, tuple(outputs.added), tuple(traced), tuple(untraced), folder)


class _NotTraceableError(Exception):
    """The values of a node cannot be outputs of the model."""


class _Outputs:
    """The outputs that are added to a graph and to the branches in it."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._names = {output.name for output in graph.output}
        self._lifted: dict[tuple[int, str], str] = {}
        self.added: list[str] = []

    def traced(self, op_node: OpNode) -> TracedNode:
        if not isinstance(op_node.scope.outermost.body, GraphProto):  # onnx did not inline it
            raise _NotTraceableError("it is in a function that imports another opset")
        for loop in (node.op_type for node in reversed(op_node.scope.around)):
            if loop != "If":
                why = f"it is in the body of a {loop}, which computes a value in every iteration"
                raise _NotTraceableError(why)
        if not any(op_node.node.output):
            raise _NotTraceableError("it has no output")
        values = [
            self._output_of(op_node.scope, name)
            for name in (*op_node.node.input, op_node.node.output[0])
        ]
        *reads, gives = (name for name, _ in values)
        in_branch = frozenset(name for name, is_lifted in values if is_lifted)
        return TracedNode(op_node, tuple(reads), gives, in_branch)

    def _output_of(self, scope: Scope, name: str) -> tuple[str, bool]:
        """Return the output of the model that has a value, and whether it comes from a branch."""
        inner = scope.computing(name)
        if inner is None or scope.has_constant(name):
            return name, False  # an input of the model, or a value that it holds
        is_lifted, known = inner.outer is not None, inner.type_of(name)
        while inner.outer is not None:
            name = self._lift(inner, name, known)
            inner = inner.outer
        if name not in self._names:
            self._names.add(name)
            self.added.append(name)
            self._graph.output.add(name=name)
        return name, is_lifted

    def _lift(self, scope: Scope, name: str, known: TensorType) -> str:
        """Make a value of a branch an output of the If, and return the name that it has there."""
        key = (id(scope), name)
        if key in self._lifted:
            return self._lifted[key]
        if known.dtype is None:
            raise _NotTraceableError(f"the type of {name!r}, a value of its branch, is not known")
        # Some runtimes take no If whose values have an unknown rank.
        rank = len(known.shape) if isinstance(known.shape, tuple) else 0
        declared = declaration(TensorType(known.dtype, (None,) * rank if rank else None))
        outer = self._lifted[key] = f"{name}:{len(self._lifted)}:exposed"
        node, body, inside = scope.around[-1], scope.body, f"{outer}:inside"
        node.output.append(outer)
        body.node.add(op_type="Identity", input=[name], output=[inside])
        body.output.add(name=inside).type.CopyFrom(declared)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH and attribute.g != body:
                empty = f"{outer}:other"
                _add_empty(attribute.g, empty, declared.tensor_type.elem_type, max(rank, 1))
                attribute.g.output.add(name=empty).type.CopyFrom(declared)
        return outer


def _add_empty(graph: GraphProto, name: str, element_type: int, rank: int) -> None:
    """Add nodes that compute an empty tensor; OpenVINO changes constants that are empty."""
    flat = TensorProto(data_type=element_type, dims=[0])
    shape = TensorProto(data_type=TensorProto.INT64, dims=[rank], int64_data=[0] * rank)
    for part, tensor in ("flat", flat), ("shape", shape):
        attribute = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
        graph.node.add(op_type="Constant", output=[f"{name}:{part}"], attribute=[attribute])
    graph.node.add(op_type="Expand", input=[f"{name}:flat", f"{name}:shape"], output=[name])


# Checks of nodes that ran

_ORDERED = {Reduction.NONE.value, Reduction.MIN.value, Reduction.MAX.value}
_ROUNDINGS = 64  # units in the last place by which sums may differ for their order of additions


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """The output of a node in a runtime, `actual`, and that of its specification, `expected`.

    `expected` is None if the specification does not allow the call, for the reason `refusal`.
    `first` is the first element that differs, if both are arrays of one shape and dtype.
    """

    op_node: OpNode
    inputs: tuple[Array, ...]
    actual: Array | None
    expected: Array | None = None
    refusal: NdgatherError | None = None
    same: bool = False
    first: tuple[int, ...] | None = None


def check_node(op_node: OpNode, inputs: Sequence[Array], actual: Array | None) -> CheckedNode:
    """Compute a node by the version of its operator, and compare."""
    arrays, attributes = tuple(map(np.asarray, inputs)), op_node.attributes()
    try:
        expected = op_node.operator()(*arrays, **attributes)
    except NdgatherError as refusal:
        return CheckedNode(op_node, arrays, actual, refusal=refusal)
    same, first = False, None
    if actual is not None and expected.shape == actual.shape:
        strings = {expected.dtype.kind, actual.dtype.kind} <= set("OUST")
        if strings or expected.dtype == actual.dtype:
            rounds = attributes.get("reduction", "none") not in _ORDERED
            first = first_difference(expected, actual, rounds=rounds)
            same = first is None
    return CheckedNode(op_node, arrays, actual, expected, same=same, first=first)


def first_difference(
    expected: Array, actual: Array, *, rounds: bool = False, rtol: float = 0.0, atol: float = 0.0
) -> tuple[int, ...] | None:
    """Return the first position at which two arrays of one shape differ, or None.

    NaN equals NaN, and 0.0 differs from -0.0. With `rounds`, sums of floats may differ as much as
    another order of additions changes them; `rtol` and `atol` are those of `numpy.isclose`.
    """
    if (rounds or rtol or atol) and np.issubdtype(expected.dtype, np.inexact):
        if rounds:
            rtol = _ROUNDINGS * float(np.finfo(expected.dtype).eps)
            atol = rtol * float(np.abs(expected[np.isfinite(expected)]).max(initial=0))
        differs = ~np.isclose(expected, actual, rtol, atol, equal_nan=True)
    elif expected.dtype.kind in "OUST":
        differs = np.asarray(expected.astype(object) != actual.astype(object))
    else:
        bits = [
            np.ascontiguousarray(array)[..., None].view(np.uint8) for array in (expected, actual)
        ]
        differs = np.asarray((bits[0] != bits[1]).any(axis=-1))
        with np.errstate(invalid="ignore"):
            both_nan = (expected != expected) & (actual != actual)  # noqa: PLR0124 - NaN
            differs &= ~np.asarray(both_nan, bool)
    if not differs.any():
        return None
    return tuple(map(int, np.unravel_index(int(differs.argmax()), differs.shape)))


# Runtimes and their options


def load_runtime(name: str) -> Runtime:
    """Return the runtime of a name, which must be installed."""
    instance("load", "runtime", name, str, "the name of a runtime")
    try:
        runtime = model_runtime(name)
    except LookupError as error:
        known = list(MODEL_NAMES)
        raise ModelError(
            f"runtime = {name!r} is not known (allowed: {listed(known)}, or a module of yours)"
            f"{did_you_mean(name, known)}"
        ) from error
    if not runtime.installed:
        raise ExtraMissingError(
            f"runtime = {name!r} needs the package {runtime.module}, which is not installed "
            f"(install it with: pip install {runtime.module})"
        )
    return runtime


ForRuntimes: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]
"""For every runtime, or for those that are named."""


def load_options(
    caller: str, runtimes: Sequence[str], threads: object, providers: object, libraries: object
) -> dict[str, LoadOptions]:
    """Return the options of every runtime."""
    count = None if threads is None else whole_number(caller, "threads", threads, 1)
    able = [name for name in runtimes if name != REFERENCE] or runtimes
    options = {name: LoadOptions(threads=count) for name in runtimes}
    for argument, value in ("providers", providers), ("libraries", libraries):
        by_name = value
        if not isinstance(by_name, Mapping):
            by_name = dict.fromkeys(able, names(caller, argument, value))
        for name, item in by_name.items():
            if name not in runtimes:
                raise ModelError(
                    f"{caller}: {argument} names the runtime {name!r}, which is not one of those "
                    f"that run the model (allowed: {listed(runtimes)})"
                    f"{did_you_mean(name, runtimes)}"
                )
            texts = names(caller, f"{argument}[{name!r}]", item)
            if texts and name == REFERENCE:
                raise ModelError(
                    f"runtime = {REFERENCE!r} takes no providers or libraries, as {listed(texts)} "
                    "(allowed: a runtime that does)"
                )
            changes: dict[str, Any] = {argument: texts}
            options[name] = replace(options[name], **changes)
    return options
