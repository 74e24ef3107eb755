"""Execution of ONNX models in a runtime, with checks of the gather and scatter nodes."""

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
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from onnx import ModelProto

from ndgather import messages
from ndgather.api import own_errors
from ndgather.errors import ExtraMissingError, ModelError, NotLoadedError
from ndgather.messages import (
    LOGGER,
    did_you_mean,
    foreign_errors,
    listed,
    plural,
    reason,
    shown,
    subscript,
)
from ndgather.models import (
    Array,
    file_path,
    instance,
    named_arrays,
    names,
    seconds,
    tolerance,
    whole_number,
)
from ndgather.models.graph import HasPorts, OutputArray, Run, fit_inputs, leave_out_sequences
from ndgather.models.onnx import files
from ndgather.models.onnx.comparison.explanation import LOST_UPDATES, explain
from ndgather.models.onnx.files import Source
from ndgather.models.onnx.nodes import model_ports, nodes_in, repair
from ndgather.models.onnx.tracing import CheckedNode, TracedNode, trace
from ndgather.runtimes import MODEL_NAMES, Runtime, model_runtime
from ndgather.runtimes.children import LIMIT_S, call_isolated
from ndgather.runtimes.runtime import LoadOptions, Session

if TYPE_CHECKING:
    from ndgather.models.onnx.evaluator import Model

REFERENCE = "reference"
DEFAULT = "onnxruntime"


@own_errors("load")
def load(
    model: Source,
    *,
    runtime: str | None = REFERENCE,
    accept_runtime: bool = False,
    own_results: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
    in_place: bool = False,
) -> Model | RuntimeModel:
    """Load a model that will be run many times.

    See `run` for the other parameters.

    Parameters
    ----------
    runtime : str or None, default "reference"
        The runtime. If None, onnxruntime if it is installed, otherwise "reference".
    in_place : bool, default False
        Let onnxruntime memory-map the large tensors of the model file, which needs much less memory
        and time. The file must not change while the model is in use.

    Returns
    -------
    Model or RuntimeModel
        The loaded model, with its declared `inputs` and `outputs` and a method `run`.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        See `run`.
    """
    if runtime is not None:
        instance("load", "runtime", runtime, str, "the name of a runtime")
    chosen = runtime or (DEFAULT if find_spec(DEFAULT) is not None else REFERENCE)
    settings = RunSettings(
        runtimes=(chosen,), threads=threads, providers=providers, libraries=libraries
    )
    options = settings.load_options("load")[chosen]
    not_loaded = ""
    if chosen != REFERENCE:
        try:
            return RuntimeModel(
                model, chosen, options, accept=accept_runtime, own=own_results, in_place=in_place
            )
        except NotLoadedError as error:
            if runtime is not None or options.providers or options.libraries:
                raise
            not_loaded = str(error)
            LOGGER.warning("%s; falling back to %s", not_loaded, REFERENCE)
    from ndgather.models.onnx import evaluator  # noqa: PLC0415 - needs 20 MB

    if isinstance(model, ModelProto):
        loaded = evaluator.Model(model)
    else:
        proto = files.load_model(model, "run")
        path = os.fspath(model) if isinstance(model, str | os.PathLike) else files.IN_MEMORY
        loaded = evaluator.Model(proto, path)
    loaded.not_loaded = not_loaded
    return loaded


@own_errors("run")
def run(
    model: Source,
    inputs: Mapping[str, Array],
    *,
    runtime: str | None = None,
    accept_runtime: bool = False,
    own_results: bool = False,
    threads: int | None = None,
    providers: Sequence[str] = (),
    libraries: Sequence[str] = (),
    isolate: bool = False,
    timeout: float | None = None,
) -> dict[str, Array]:
    """Run an ONNX model and return its outputs by name.

    In the runtime ``"reference"``, ndgather runs the gather and scatter nodes, and the reference
    evaluator of the `onnx` package runs all other nodes. Any other runtime runs all nodes. ndgather
    then recomputes each gather and scatter node from its inputs and compares the outputs. Copied
    elements must be bitwise equal, whereas sums of floats may differ by rounding errors.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its serialized bytes, or the path of its file. External tensors must be
        in the folder of the file.
    inputs : mapping of str to array_like
        The inputs of the model by name, with the declared dtypes and shapes. Inputs with a default
        in the model are optional.
    runtime : str, optional
        ``"reference"``, ``"onnxruntime"``, ``"openvino"``, or the name of your own module. The
        default is onnxruntime. If onnxruntime is not installed or cannot load the model, the
        reference evaluator is used, unless `providers` or `libraries` are given.
    accept_runtime : bool, default False
        Continue with the runtime's result if it differs from the specification of a node.
    own_results : bool, default False
        Continue with the result of ndgather if the runtime's result of a gather or scatter differs
        from its specification. The remaining nodes are then run again.
    threads : int, optional
        The number of threads that the runtime may use for one operator.
    providers : sequence of str
        Execution providers of onnxruntime, or the device of OpenVINO. The default is the CPU.
    libraries : sequence of str
        Paths of custom operator libraries for the runtime to load.
    isolate : bool, default False
        Run the model in a child process, as the command line does. Use this option for untrusted
        models, because a malicious model can crash the process. Starting a child process takes a
        fraction of a second, and inputs and outputs are copied.
    timeout : float, optional
        The time limit of the run in seconds, after which the child process is terminated. This
        implies `isolate`.

    Returns
    -------
    dict of str to array
        The outputs in the order of the model. A sequence of maps from classes to numbers, which
        classifiers return, becomes a matrix with one column per class.

    Raises
    ------
    FileError
        The file cannot be read.
    ModelError
        The model is not valid, an input is missing or unknown, a node failed, or the runtime's
        result differs from the specification of a node; the message names the node. Also raised if
        the child process crashed or exceeded the time limit.
    ExtraMissingError
        The runtime is not installed.
    ShapeError, DTypeError, IndexOutOfBoundsError
        An input of the model or of a node is not valid; the message names it.

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
        "own_results": own_results,
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
    loaded = load(model, **options, in_place=True)
    return {output.name: output.array for output in loaded.run(inputs).outputs}


_FAILED_NODE = re.compile(r"while running (\w+) node\. Name:'([^']*)'")


class RuntimeModel(HasPorts):
    """An ONNX model that is loaded in a runtime and can be run many times.

    The runtime loads a copy of the model that also outputs the inputs and outputs of gather and
    scatter nodes, so that ndgather can recompute these nodes.
    """

    def __init__(
        self,
        model: Source,
        runtime: str,
        options: LoadOptions,
        *,
        accept: bool = False,
        own: bool = False,
        in_place: bool = False,
    ) -> None:
        start = time.perf_counter()
        self.runtime, self.not_loaded = runtime, ""
        self._accept, self._own, self._options = accept, own, options
        row = load_runtime(runtime)
        path = None
        if isinstance(model, str | os.PathLike):
            path = str(file_path("run", "model", model))
        self._path = path or files.IN_MEMORY
        proto, folder = files.map_model(model, "run", checked=True)
        if path is not None and not (in_place and row.maps_tensors):
            files.read_mapped_tensors(proto, Path(path))
        self.inputs, self.outputs = model_ports(proto)
        with foreign_errors(NotLoadedError, f"{self._path}: types cannot be inferred"):
            self._traced = trace(deepcopy(proto) if proto is model else proto, folder)
        self._count = self._traced.node_count
        self._adapter = row.load()
        with foreign_errors(NotLoadedError, f"{self._path}: {runtime} cannot load it"):
            self._session: Session = self._adapter.session(self._traced.source(path), options)
        version = getattr(self._adapter, "version", str)()
        seconds = time.perf_counter() - start
        LOGGER.info("%s: loaded in %s %s, %.3f s", self._path, runtime, version, seconds)

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model, and compare each gather and scatter result with ndgather's."""
        start = time.perf_counter()
        fitted = fit_inputs(self.inputs, named_arrays("run", inputs))
        outputs = [port.name for port in self.outputs]
        wanted = list(dict.fromkeys([*outputs, *self._traced.names]))
        session, own = self._session, dict[str, Array]()
        differences: list[str] = []
        while True:
            values = self._values(session, [x for x in wanted if x not in own], {**fitted, **own})
            compared, replaced = 0, None
            for node in self._traced.nodes:
                checked = node.check(values)
                compared += checked is not None
                if checked is None or checked.same:
                    continue
                difference = self._difference(checked)
                if self._own and not node.in_branch and checked.expected is not None:
                    replaced = own[node.gives] = checked.expected
                elif not self._accept:
                    raise difference
                if str(difference) not in differences:
                    differences.append(str(difference))
                    LOGGER.warning("%s: accepted: %s", self._path, difference)
                if replaced is not None:
                    break
            if replaced is None:
                break
            if not set(wanted).difference(own):
                values = {**fitted, **own}
                break
            what = f"{self._path}: {self.runtime} cannot load the remaining nodes"
            with foreign_errors(ModelError, what):
                session = self._adapter.session(
                    self._traced.with_inputs(own).source(), self._options
                )
        tables = {name: _as_matrix(values[name]) for name in outputs}
        tensors = leave_out_sequences(self._path, tables).items()
        arrays = {name: _output_array(name, value) for name, value in tensors}
        seconds, count = time.perf_counter() - start, plural(self._count, "node")
        what = f"{count} ran in {self.runtime}, {plural(compared, 'node')} compared"
        LOGGER.info("%s: %s, %.3f s", self._path, what, seconds)
        return Run(
            outputs=tuple(OutputArray(name, array) for name, array in arrays.items()),
            seconds=seconds,
            gather_nodes=compared,
            remaining_nodes=self._count - compared,
            runtime=self.runtime,
            differences=tuple(differences),
            left=self._traced.untraced,
        )

    def _values(
        self, session: Session, wanted: list[str], inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        try:
            computed = session.run(wanted, inputs)
        except MemoryError:
            raise
        except Exception as error:  # The exceptions of runtimes have no common base class.
            raise self._explain(error, inputs) from error
        return {**inputs, **dict(zip(wanted, computed, strict=True))}

    def _difference(self, node: CheckedNode) -> Exception:
        if node.refusal is not None:
            later = node.op_node.repairing_opset(node.refusal)
            if later is not None:
                how = repair(node.op_node.node, later)
                node.refusal.args = (
                    f"{node.refusal} (to repair it: {how}; to continue with the result of the "
                    "runtime: --accept-runtime, accept_runtime=True)",
                )
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
            why = explain(node)
            lost = f"; {why.text}: {why.advice}" if why.rule == LOST_UPDATES else ""
            text = (
                f"{self.runtime} returns output{subscript(node.first)} = {actual[node.first]}, and "
                f"{operator} returns {expected[node.first]}{lost} (to continue with the result of "
                "the runtime: --accept-runtime, accept_runtime=True; with that of ndgather: "
                "--own-results, own_results=True)"
            )
        return node.op_node.named(ModelError(text))

    def _explain(self, error: Exception, fitted: Mapping[str, Array]) -> Exception:
        """Return ndgather's error for the node that failed, or an error that quotes `error`."""
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
        names = [(node.op_type, node.name) for node in nodes_in(self._traced.proto)]
        if candidates and names.count(failed[0]) == 1:
            op_node = candidates[0].op_node
            return op_node.named(
                ModelError(
                    f"{self.runtime} raises an error although {op_node.operator().row} allows the "
                    f"inputs: {reason(error)}"
                )
            )
        return ModelError(f"{self._path}: {self.runtime} cannot run it: {reason(error)}")

    def _inputs_of(self, node: TracedNode, fitted: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of a node, computed in the runtime, or an empty dict on failure."""
        part = self._traced.part_for(filter(None, node.reads))
        if not part.names:
            return {}
        try:
            session = self._adapter.session(part.source(), self._options)
            return dict(zip(part.names, session.run(part.names, fitted), strict=True))
        except MemoryError:
            raise
        except Exception:
            return {}


def _as_matrix(value: object) -> object:
    """Convert a list of dicts with equal keys to a matrix, or return any other value unchanged."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        keys = list(value[0])
        if all(list(row) == keys for row in value):
            return np.array([[row[key] for key in keys] for row in value], np.float32)
    return value


def _output_array(name: str, value: object) -> Array:
    if not isinstance(value, np.ndarray | np.generic):
        raise messages.not_a_tensor("output", name, type(value).__name__)
    array = np.asarray(value)
    # On Linux, onnxruntime returns `long long`, for which NumPy would print "dtype=int64".
    return array.view(array.dtype.str) if array.dtype.kind in "iu" else array


# Runtimes and their options


def load_runtime(name: str) -> Runtime:
    """Return the runtime with this name, or raise an error if it is unknown or not installed."""
    instance("load", "runtime", name, str, "the name of a runtime")
    try:
        runtime = model_runtime(name)
    except LookupError as error:
        known = list(MODEL_NAMES)
        raise ModelError(
            f"runtime = {name!r} is unknown (allowed: {listed(known)}, or your own module)"
            f"{did_you_mean(name, known)}"
        ) from error
    if not runtime.installed:
        raise ExtraMissingError(
            f"runtime = {name!r} needs the package {runtime.module}, which is not installed "
            f"(install it with: pip install {runtime.module})"
        )
    return runtime


ForRuntimes: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]
"""Strings for all runtimes, or a mapping from the name of a runtime to its strings."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The options of runs and comparisons. See `compare`."""

    runtimes: Sequence[str]
    rtol: float = 0.0
    atol: float = 0.0
    threads: int | None = None
    providers: ForRuntimes = ()
    libraries: ForRuntimes = ()
    timeout: float | None = None

    def checked(self, caller: str) -> Self:
        """Return a validated copy, or raise an error if an option is invalid."""
        runtimes = names(caller, "runtimes", self.runtimes)
        if not runtimes:
            raise ModelError(f"{caller}: runtimes is empty (allowed: the names of runtimes)")
        for name in runtimes:
            load_runtime(name)
        return replace(
            self,
            runtimes=runtimes,
            rtol=tolerance(caller, "rtol", self.rtol),
            atol=tolerance(caller, "atol", self.atol),
            timeout=None if self.timeout is None else seconds(caller, "timeout", self.timeout),
        )

    @property
    def limit_s(self) -> float:
        return LIMIT_S if self.timeout is None else self.timeout

    def load_options(self, caller: str) -> dict[str, LoadOptions]:
        count = None if self.threads is None else whole_number(caller, "threads", self.threads, 1)
        able = [name for name in self.runtimes if name != REFERENCE] or self.runtimes
        options = {name: LoadOptions(threads=count) for name in self.runtimes}
        for argument in ("providers", "libraries"):
            by_name = getattr(self, argument)
            if not isinstance(by_name, Mapping):
                by_name = dict.fromkeys(able, by_name) if names(caller, argument, by_name) else {}
            for name, item in by_name.items():
                if name not in self.runtimes:
                    raise ModelError(
                        f"{caller}: {argument} names the runtime {name!r}, which does not run the "
                        f"model (allowed: {listed(self.runtimes)})"
                        f"{did_you_mean(name, self.runtimes)}"
                    )
                texts = names(caller, f"{argument}[{name!r}]", item)
                if texts and name == REFERENCE:
                    raise ModelError(
                        f"runtime = {REFERENCE!r} does not support {argument} = {listed(texts)} "
                        f"(allowed: another runtime)"
                    )
                changes: dict[str, Any] = {argument: texts}
                options[name] = replace(options[name], **changes)
        return options
