"""Comparison of the results of gather and scatter nodes in several runtimes."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial

import numpy as np

from ndgather.api import own_errors
from ndgather.messages import LOGGER, shown, subscript
from ndgather.models import Array, named_arrays
from ndgather.models.graph import fit_inputs
from ndgather.models.onnx.comparison.explanation import explain
from ndgather.models.onnx.comparison.report import Comparison, NodeComparison, NodeRun, RuntimeRun
from ndgather.models.onnx.files import Source, open_model
from ndgather.models.onnx.nodes import model_ports, names_read, title_of
from ndgather.models.onnx.runs import ForRuntimes, RunSettings
from ndgather.models.onnx.tracing import TracedModel, TracedNode, alike, first_difference, trace
from ndgather.runtimes.children import Answer, RuntimeProcess

Values = dict[str, Array]


@own_errors("compare")
def compare(
    model: Source,
    inputs: Mapping[str, Array],
    *,
    runtimes: Sequence[str] = ("onnxruntime", "openvino"),
    rtol: float = 1e-3,
    atol: float = 1e-5,
    threads: int | None = None,
    providers: ForRuntimes = (),
    libraries: ForRuntimes = (),
    timeout: float | None = None,
) -> Comparison:
    """Run a model in several runtimes and compare every gather and scatter node.

    Each runtime runs in a separate process. ndgather then recomputes each node from the inputs that
    the node received in the runtime, using the operator version that the model imports. The report
    shows whether the node itself returned a wrong result or only received different inputs.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        See `run`.
    inputs : mapping of str to array_like
        The inputs of the model by name. See `run` and `random_inputs`.
    runtimes : sequence of str
        ``"onnxruntime"``, ``"openvino"``, ``"reference"``, or the names of your own modules.
    rtol, atol : float
        Tolerances for floats from two runtimes. See `numpy.isclose`. The results of gather nodes
        must be bitwise equal to the results that the specification requires.
    threads
        See `run`.
    providers, libraries : sequence of str, or mapping of str to sequence of str
        See `run`. A mapping specifies a sequence for each runtime. A single sequence applies to all
        runtimes except the reference evaluator.
    timeout : float, default 600
        The time limit for each run in seconds. A run that exceeds it is terminated and reported as
        crashed.

    Returns
    -------
    Comparison
        A report on whether each node follows the specification in each runtime. If a node does not,
        the report contains the first element that differs, the indices that address this element,
        the rule that the runtime breaks, and a change of the model that makes all runtimes agree.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        The model cannot be read, an input is missing, or a runtime is unknown or not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> data = np.array([[10, 11], [20, 21]], np.float32)
    >>> report = onnx.compare(model, {"data": data, "rows": [[-1]]}, runtimes=["reference"])
    >>> report.same, report.nodes[0].runs[0].status
    (True, 'same')
    """
    settings = RunSettings(runtimes, rtol, atol, threads, providers, libraries, timeout)
    comparer = Comparer("compare", model, settings)
    return comparer.compare(named_arrays("compare", inputs))


class Comparer:
    """A traced model and the runtimes to compare. Error messages start with `caller`."""

    def __init__(self, caller: str, model: Source, settings: RunSettings) -> None:
        self.settings = settings.checked(caller)
        self.options = self.settings.load_options(caller)
        self.proto, self.folder = open_model(model, caller)
        self.ports, outputs = model_ports(self.proto)
        self.outputs = [port.name for port in outputs]
        self.traced = trace(deepcopy(self.proto), self.folder)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.outputs, *self.traced.names]))

    def start_process(self, runtime: str, model: TracedModel) -> RuntimeProcess:
        """Start a process that loads `model`, which may be a part of the whole model."""
        options, limit_s = self.options[runtime], self.settings.limit_s
        return RuntimeProcess(runtime, model.source(), options, limit_s=limit_s)

    def compare(self, inputs: Values) -> Comparison:
        fitted = fit_inputs(self.ports, inputs)
        runs = [TracedRun(self, name, fitted) for name in self.options]
        first = next((run.values for run in runs if run.values is not None), {})
        nodes = tuple(self._compare_node(node, runs, first) for node in self.traced.nodes)
        outputs = {run: list(self._differing_outputs(run, first)) for run in runs}
        origins = []
        for number, run in enumerate(runs):
            at_fault = any(node.runs[number].status not in {"same", "not run"} for node in nodes)
            name = (
                outputs[run][0][0] if outputs[run] else self._other_input(nodes, number, run, first)
            )
            if name and not at_fault:
                base = next(item for item in runs if item.values is first)
                origins.append(self._origin(name, base, run))
        return Comparison(
            runs=tuple(run.summary() for run in runs),
            nodes=nodes,
            outputs=tuple(item for differing in outputs.values() for item in differing),
            left=self.traced.untraced,
            origins=tuple(origins),
        )

    def difference(self, expected: Array, actual: Array) -> str:
        """Return how two arrays differ beyond tolerance, or an empty string."""
        strings = {expected.dtype.kind, actual.dtype.kind} <= set("OUST")
        if expected.shape != actual.shape or not (strings or expected.dtype == actual.dtype):
            types = [f"{array.dtype} {shown(array.shape)}" for array in (actual, expected)]
            return f"{types[0]}, not {types[1]}"
        at = first_difference(expected, actual, rtol=self.settings.rtol, atol=self.settings.atol)
        return "" if at is None else f"{subscript(at)} = {actual[at]}, not {expected[at]}"

    def _compare_node(
        self, node: TracedNode, traced_runs: Sequence[TracedRun], first: Values
    ) -> NodeComparison:
        node_runs = []
        for run in traced_runs:
            node_run, values = run.node_run(node), run.values or {}
            if node_run.status != "not run" and values is not first:
                differing = self._differing_inputs(node, first, values)
                node_run = replace(node_run, inputs_differ=any(differing))
            node_runs.append(node_run)
        op_node, row = node.op_node, node.op_node.operator().row
        reads, gives = tuple(op_node.node.input), op_node.node.output[0]
        runs = tuple(node_runs)
        return NodeComparison(op_node.where, str(row), row.source, reads, gives, runs)

    def _other_input(
        self, nodes: Sequence[NodeComparison], number: int, run: TracedRun, first: Values
    ) -> str | None:
        """Return the name of the first node input that differs, ignoring nodes in branches."""
        for node, traced in zip(nodes, self.traced.nodes, strict=True):
            if node.runs[number].inputs_differ and not traced.in_branch:
                return next(self._differing_inputs(traced, first, run.values or {}), None)
        return None

    def _differing_inputs(self, node: TracedNode, first: Values, values: Values) -> Iterator[str]:
        """Yield the names of the node inputs that differ from the inputs in the first runtime."""
        for name in node.reads:
            if name not in first or name not in values:
                continue
            pair = first[name], values[name]
            if self.difference(*(alike(pair) if node.in_branch else pair)):
                yield name

    def _differing_outputs(self, run: TracedRun, first: Values) -> Iterator[tuple[str, str]]:
        if not run.complete or run.values is first or run.values is None:
            return
        for name in self.outputs:
            expected, actual = first.get(name), run.values[name]
            if expected is not None and (how := self.difference(expected, actual)):
                yield name, f"{run.runtime} returns {how}"

    def _origin(self, output: str, first: TracedRun, run: TracedRun) -> tuple[str, str]:
        """Return the first node that causes a difference in `output`, and how it differs.

        Bisection works because the first n nodes contain this node if and only if they compute a
        value that differs and is read by a later node.
        """
        nodes = self.traced.part_for([output]).proto.graph.node
        last_read = {name: number for number, node in enumerate(nodes) for name in names_read(node)}
        last_read[output] = len(nodes)

        @cache
        def differing(count: int) -> tuple[str, str] | None:
            """Find a difference in the values that the first `count` nodes pass to later nodes."""
            names = [name for node in nodes[:count] for name in node.output if name]
            leaving = [name for name in names if last_read.get(name, -1) >= count]
            expected, actual = first.values_of(leaving), run.values_of(leaving)
            for name in leaving:
                known = name in expected and name in actual
                if known and (how := self.difference(expected[name], actual[name])):
                    return name, how
            return None

        if differing(len(nodes)) is None:
            what = f"no node before it differs if {run.runtime} runs these nodes alone"
            return f"output {output}", what
        counts = range(len(nodes) + 1)
        differs = bisect_left(counts, True, 1, key=lambda count: differing(count) is not None)
        how = differing(differs) or ("", "")
        space = "" if how[1].startswith("[") else " "
        return title_of(nodes[differs - 1]), f"{run.runtime} returns {space.join(how)}"


class TracedRun:
    """The values that a run of a model computed, and the node that failed, if any."""

    def __init__(self, model: Comparer, runtime: str, inputs: Values) -> None:
        self.runtime, self._model, self._inputs = runtime, model.traced, inputs
        self._process = partial(model.start_process, runtime)
        self.values: Values | None = None
        self.failed_node: TracedNode | None = None
        self.failure = Answer()
        self.version, self.answer = self._run_model(self._model, model.names)
        self.complete = self.values is not None
        level = logging.INFO if self.answer.crashed is None else logging.WARNING
        LOGGER.log(level, "%s %s: %s", runtime, self.version, self.answer.text or "ran")
        if not self.complete:
            self._find_failed_node()

    def _run_model(self, model: TracedModel, outputs: Sequence[str]) -> tuple[str, Answer]:
        with self._process(model) as process:
            answer = process.run(outputs, self._inputs)
            version = process.version
        if answer.values is not None:
            arrays = map(np.asarray, answer.values)
            self.values = {**self._inputs, **dict(zip(outputs, arrays, strict=True))}
        return version, answer

    def values_of(self, names: Sequence[str]) -> Values:
        """Run the part of the model that computes `names`, and return all results except lists."""
        part = self._model.part_for(names)
        with self._process(part) as process:
            values = process.run(part.names, self._inputs).values or ()
        return {
            name: np.asarray(value)
            for name, value in zip(part.names, values, strict=False)
            if isinstance(value, np.ndarray | np.generic)
        }

    def _run_part(self, nodes: Sequence[TracedNode], extra: Sequence[str] = ()) -> Answer:
        wanted = {name for node in nodes for name in node.outputs}
        part = self._model.part_for(wanted | set(extra))
        return self._run_model(part, part.names)[1] if part.names else Answer(values=[])

    def _find_failed_node(self) -> None:
        """Find the first gather or scatter node that fails in the runtime, using bisection."""
        nodes = self._model.nodes

        @cache
        def answer(count: int) -> Answer:
            return self._run_part(nodes[:count])

        counts = range(len(nodes) + 1)
        failing = bisect_left(counts, True, 1, key=lambda count: answer(count).values is None)
        if failing <= len(nodes):
            node, self.failure = nodes[failing - 1], answer(failing)
            if self._run_part(nodes[: failing - 1], node.reads).values is not None:
                self.values = {**self._inputs, **(self.values or {})}
                self.failed_node = node

    def summary(self) -> RuntimeRun:
        return RuntimeRun(self.runtime, self.version, self.answer.status, self.answer.text)

    def node_run(self, node: TracedNode) -> NodeRun:
        failed = self.failed_node is node
        check = node.check(self.values or {})
        if check is None or (check.actual is None and not failed):
            return NodeRun(runtime=self.runtime, status="not run")
        if check.same:
            return NodeRun(runtime=self.runtime, status="same", obeys=True)
        explanation = explain(check)
        if failed:
            allowed = check.refusal is None
            return NodeRun(
                runtime=self.runtime,
                status=self.failure.status,
                obeys=self.failure.crashed is None and not allowed,
                explanation=None if allowed else explanation,
                text=self.failure.text,
            )
        return NodeRun(
            runtime=self.runtime,
            status="differs" if explanation.decided else "open",
            obeys=False if explanation.decided else None,
            place=check.first,
            theirs=_value_text(check.actual, check.first),
            ours="refused" if check.expected is None else _value_text(check.expected, check.first),
            explanation=explanation,
        )


def _value_text(array: Array | None, position: tuple[int, ...] | None) -> str:
    if array is None:
        return ""
    if position is not None:
        return str(array[position])
    values = f": {array.tolist()}" if array.size <= 8 else ""
    return f"{array.dtype} {array.shape}{values}"
