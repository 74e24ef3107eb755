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
    """Load a model to be run many times; the arguments are those of `run`.

    With `in_place`, onnxruntime maps the large tensors of a model file where they are, which takes
    far less memory and time; the file must not be written to while the model is used.

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
            LOGGER.warning("%s; it runs in %s", not_loaded, REFERENCE)
    from ndgather.models.onnx import evaluator  # noqa: PLC0415 - takes 20 MB

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
    own_results : bool, default False
        Continue with the result of ndgather, in a run of the nodes after it, where a gather or
        scatter of the runtime differs from its specification.
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
    """Load a model, run it, and return its outputs by name."""
    loaded = load(model, **options, in_place=True)
    return {output.name: output.array for output in loaded.run(inputs).outputs}


_FAILED_NODE = re.compile(r"while running (\w+) node\. Name:'([^']*)'")


class RuntimeModel(HasPorts):
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
        with foreign_errors(NotLoadedError, f"{self._path}: its types cannot be inferred"):
            self._traced = trace(deepcopy(proto) if proto is model else proto, folder)
        self._count = self._traced.node_count
        self._adapter = row.load()
        with foreign_errors(NotLoadedError, f"{self._path}: {runtime} does not load it"):
            self._session: Session = self._adapter.session(self._traced.source(path), options)
        version = getattr(self._adapter, "version", str)()
        seconds = time.perf_counter() - start
        LOGGER.info("%s: loaded in %s %s, %.3f s", self._path, runtime, version, seconds)

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Run the model, and compare its gather and scatter nodes with their specifications."""
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
            with foreign_errors(ModelError, f"{self._path}: {self.runtime} does not load its rest"):
                session = self._adapter.session(self._traced.after(own).source(), self._options)
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
        """Return the inputs and what a session computes of them."""
        try:
            computed = session.run(wanted, inputs)
        except MemoryError:
            raise
        except Exception as error:  # runtimes have errors of every kind
            raise self._explain(error, inputs) from error
        return {**inputs, **dict(zip(wanted, computed, strict=True))}

    def _difference(self, node: CheckedNode) -> Exception:
        """Return the error of a node whose output is not that of its specification."""
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
        names = [(node.op_type, node.name) for node in nodes_in(self._traced.proto)]
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


def _as_matrix(value: object) -> object:
    """Return a list of dicts with the same keys as a matrix, and any other value as it is."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        keys = list(value[0])
        if all(list(row) == keys for row in value):
            return np.array([[row[key] for key in keys] for row in value], np.float32)
    return value


def _output_array(name: str, value: object) -> Array:
    if not isinstance(value, np.ndarray | np.generic):
        raise messages.not_a_tensor("output", name, type(value).__name__)
    array = np.asarray(value)
    # On Linux, onnxruntime returns `long long`, which NumPy prints as dtype=int64.
    return array.view(array.dtype.str) if array.dtype.kind in "iu" else array


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


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How runtimes run a model, and by how much their floats may differ; `compare` says more."""

    runtimes: Sequence[str]
    rtol: float = 0.0
    atol: float = 0.0
    threads: int | None = None
    providers: ForRuntimes = ()
    libraries: ForRuntimes = ()
    timeout: float | None = None

    def checked(self, caller: str) -> Self:
        """Return settings of installed runtimes, with tolerances and a limit of time."""
        runtimes = names(caller, "runtimes", self.runtimes)
        if not runtimes:
            raise ModelError(f"{caller}: runtimes is empty (allowed: the names of one or more)")
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
                        f"{caller}: {argument} names the runtime {name!r}, which is not one of "
                        f"those that run the model (allowed: {listed(self.runtimes)})"
                        f"{did_you_mean(name, self.runtimes)}"
                    )
                texts = names(caller, f"{argument}[{name!r}]", item)
                if texts and name == REFERENCE:
                    raise ModelError(
                        f"runtime = {REFERENCE!r} takes no providers or libraries, as "
                        f"{listed(texts)} (allowed: a runtime that does)"
                    )
                changes: dict[str, Any] = {argument: texts}
                options[name] = replace(options[name], **changes)
        return options
