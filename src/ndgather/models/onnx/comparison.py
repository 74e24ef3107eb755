"""One model in several runtimes: which gather or scatter node differs, and which one is right."""

from __future__ import annotations

import logging
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import DTypeError, IndexOutOfBoundsError, ModelError, NdgatherError, one_line
from ndgather.messages import LOGGER, shown
from ndgather.models.arguments import Array, named_arrays, names, seconds, tolerance
from ndgather.models.graph import fit_inputs
from ndgather.models.graph.diagnostics import rule_of
from ndgather.models.graph.evaluation import index_places
from ndgather.models.onnx.files import open_model
from ndgather.models.onnx.nodes import model_ports
from ndgather.models.onnx.runs import (
    TracedNode,
    first_difference,
    load_options,
    load_runtime,
    trace,
)
from ndgather.published.schema import Kind
from ndgather.runtimes.children import LIMIT_S, Answer, RuntimeProcess
from ndgather.show import style_sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import ModelProto

    from ndgather.models.onnx.files import Source
    from ndgather.models.onnx.runs import CheckedNode, ForRuntimes, TracedModel
    from ndgather.show import Picture

Values = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule of the specification that decides what a node returns.

    `advice` is a change of the model with which every runtime returns the same; `indices` are the
    index values that address the element. `decided` is False if the specification leaves the value
    open.
    """

    rule: str
    text: str
    advice: str
    indices: str = ""
    decided: bool = True


@dataclass(frozen=True, slots=True)
class RuntimeRun:
    """The outcome of the whole model in a runtime: "ran", "refused" or "crashed"."""

    runtime: str
    version: str
    status: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One node in one runtime."""

    runtime: str
    # "same" as the specification; "differs"; "open" if the specification leaves the difference
    # open; "refused" or "crashed" at this node; "not run".
    status: str
    obeys: bool | None = None  # whether the runtime follows the specification; None if it is open
    inputs_differ: bool = False  # from those in the first runtime
    place: tuple[int, ...] | None = None  # of the first element that differs:
    theirs: str = ""  # its value in the runtime,
    ours: str = ""  # and that of the specification
    ruling: Explanation | None = None  # the rule that decides
    text: str = ""  # of an error or a crash
    # The result of the specification for the same inputs, if the node differs.
    picture: Picture | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """One gather or scatter node in every runtime."""

    where: str
    operator: str
    source: str
    reads: tuple[str, ...]
    gives: str
    runs: tuple[NodeRun, ...]

    @property
    def same(self) -> bool:
        return all(run.status in {"same", "not run"} and not run.inputs_differ for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of `compare`.

    Attributes
    ----------
    runs : tuple of RuntimeRun
        The outcome of the whole model in every runtime.
    nodes : tuple of NodeComparison
        The gather and scatter nodes, in the order of the model.
    outputs : tuple of (str, str)
        The outputs that differ from those of the first runtime, and how.
    left : tuple of (str, str)
        The nodes that cannot be compared, and why.
    """

    runs: tuple[RuntimeRun, ...]
    nodes: tuple[NodeComparison, ...]
    outputs: tuple[tuple[str, str], ...]
    left: tuple[tuple[str, str], ...]

    @property
    def same(self) -> bool:
        ran = all(run.status == "ran" for run in self.runs)
        return ran and not self.outputs and all(node.same for node in self.nodes)


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

    Every runtime runs in a separate process. Every node is computed again, by the version of its
    operator that the model imports, from the inputs that it had in the runtime. This shows whether
    the node itself returns a wrong result or only received other inputs.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As in `run`.
    inputs : mapping of str to array_like
        The inputs of the model by their names; see `run` and `random_inputs`.
    runtimes : sequence of str
        ``"onnxruntime"``, ``"openvino"``, ``"reference"``, or modules of your own.
    rtol, atol : float
        By how much floats of two runtimes may differ, as in `numpy.isclose`. The results of gather
        nodes are compared with their specification bit by bit.
    threads
        As in `run`.
    providers, libraries : sequence of str, or mapping of a runtime to a sequence of str
        As in `run`: for every runtime except the reference evaluator, or for the named ones.
    timeout : float, default 600
        The limit in seconds of every run in a runtime. A run that takes longer is ended, and
        reported as crashed.

    Returns
    -------
    Comparison
        For every node and runtime, whether the result is that of the specification. If it is not:
        the first element that differs, the indices that address it, the rule that decides, and a
        change of the model with which all runtimes agree.

    Raises
    ------
    FileError, ModelError, ExtraMissingError
        The model cannot be read, an input is missing, or a runtime is not known or not installed.

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
    comparer = Comparer(
        "compare", model, runtimes, rtol, atol, threads, providers, libraries, timeout
    )
    return comparer.compare(named_arrays("compare", inputs))


class Comparer:
    """A model with traced nodes, and the runtimes that are compared.

    The arguments are those of `compare`; `caller` is the public function to name in errors.
    """

    def __init__(
        self,
        caller: str,
        model: Source,
        runtimes: object,
        rtol: object,
        atol: object,
        threads: object,
        providers: object,
        libraries: object,
        timeout: object,
    ) -> None:
        checked = names(caller, "runtimes", runtimes)
        if not checked:
            raise ModelError(f"{caller}: runtimes is empty (allowed: the names of one or more)")
        for name in checked:
            load_runtime(name)
        self._rtol, self._atol = tolerance(caller, "rtol", rtol), tolerance(caller, "atol", atol)
        self.limit_s = LIMIT_S if timeout is None else seconds(caller, "timeout", timeout)
        self.options = load_options(caller, checked, threads, providers, libraries)
        self.proto, self.folder = open_model(model, caller)
        self.ports, outputs = model_ports(self.proto)
        self.outputs = [port.name for port in outputs]
        self.traced = trace(deepcopy(self.proto), self.folder)
        self.names = list(dict.fromkeys([*self.outputs, *self.traced.names]))

    def compare(self, inputs: Values) -> Comparison:
        fitted = fit_inputs(self.ports, inputs)
        runs = [TracedRun(self, name, fitted) for name in self.options]
        first = next((run.values for run in runs if run.values is not None), {})
        return Comparison(
            runs=tuple(run.summary() for run in runs),
            nodes=tuple(self._compare_node(node, runs, first) for node in self.traced.nodes),
            outputs=tuple(self._differing_outputs(runs, first)),
            left=self.traced.untraced,
        )

    def differ(self, first: Array, second: Array) -> bool:
        """Return whether dtypes or shapes differ, or elements differ by more than is allowed."""
        if first.shape != second.shape or first.dtype != second.dtype:
            return True
        return first_difference(first, second, rtol=self._rtol, atol=self._atol) is not None

    def _compare_node(
        self, node: TracedNode, traced_runs: Sequence[TracedRun], first: Values
    ) -> NodeComparison:
        node_runs = []
        for run in traced_runs:
            node_run, values = run.node_run(node), run.values or {}
            if node_run.status != "not run" and values is not first:
                shared = [name for name in node.reads if name in first and name in values]
                differ = any(self.differ(first[name], values[name]) for name in shared)
                node_run = replace(node_run, inputs_differ=differ)
            node_runs.append(node_run)
        op_node, row = node.op_node, node.op_node.operator().row
        reads, gives = tuple(op_node.node.input), op_node.node.output[0]
        runs = tuple(node_runs)
        return NodeComparison(op_node.where, str(row), row.source, reads, gives, runs)

    def _differing_outputs(
        self, runs: Sequence[TracedRun], first: Values
    ) -> Iterator[tuple[str, str]]:
        for run in runs:
            if not run.complete or run.values is first or run.values is None:
                continue
            for name in self.outputs:
                expected, actual = first.get(name), run.values[name]
                if expected is None or not self.differ(expected, actual):
                    continue
                types = [f"{array.dtype} {shown(array.shape)}" for array in (actual, expected)]
                text = f"{types[0]}, not {types[1]}"
                if types[0] == types[1]:
                    at = first_difference(expected, actual, rtol=self._rtol, atol=self._atol)
                    assert at is not None
                    text = f"[{', '.join(map(str, at))}] = {actual[at]}, not {expected[at]}"
                yield name, f"{run.runtime} returns {text}"


class TracedRun:
    """One run of a model in one runtime: its values, and the node at which the runtime stopped."""

    def __init__(self, model: Comparer, runtime: str, inputs: Values) -> None:
        self.runtime, self._model, self._inputs = runtime, model.traced, inputs
        self._options, self._limit_s = model.options[runtime], model.limit_s
        self.values: Values | None = None
        self.failed_node: TracedNode | None = None
        self.failure = Answer()
        self.version, self.answer = self._run(self._model, model.names)
        self.complete = self.values is not None
        level = logging.INFO if self.answer.crashed is None else logging.WARNING
        LOGGER.log(level, "%s %s: %s", runtime, self.version, self.answer.text or "ran")
        if not self.complete:
            self._find_failed_node()

    def _run(self, model: TracedModel, outputs: Sequence[str]) -> tuple[str, Answer]:
        source, limit_s = model.source(), self._limit_s
        with RuntimeProcess(self.runtime, source, self._options, limit_s=limit_s) as process:
            answer = process.run(outputs, self._inputs)
            version = process.version
        if answer.values is not None:
            arrays = map(np.asarray, answer.values)
            self.values = {**self._inputs, **dict(zip(outputs, arrays, strict=True))}
        return version, answer

    def _run_part(self, nodes: Sequence[TracedNode], extra: Sequence[str] = ()) -> Answer:
        """Run the part of the model that computes `nodes` and the values `extra`."""
        wanted = {name for node in nodes for name in (*node.reads, node.gives)}
        part = self._model.up_to(wanted | set(extra))
        return self._run(part, part.names)[1] if part.names else Answer(values=[])

    def _find_failed_node(self) -> None:
        """Find the first gather or scatter node at which the runtime fails, by bisection."""
        nodes = self._model.nodes
        running, failing = 0, len(nodes) + 1  # numbers of nodes with which it runs, and fails
        while failing - running > 1:
            middle = (running + failing) // 2
            answer = self._run_part(nodes[:middle])
            if answer.values is not None:
                running = middle
            else:
                failing, self.failure = middle, answer
        if failing <= len(nodes):
            node = nodes[failing - 1]
            if self._run_part(nodes[:running], node.reads).values is not None:
                self.values = {**self._inputs, **(self.values or {})}
                self.failed_node = node

    def summary(self) -> RuntimeRun:
        return RuntimeRun(self.runtime, self.version, self.answer.status, self.answer.text)

    def node_run(self, node: TracedNode) -> NodeRun:
        """Return the outcome of a node."""
        failed, check = self.failed_node is node, node.check(self.values or {})
        if check is None or (check.actual is None and not failed):
            return NodeRun(runtime=self.runtime, status="not run")
        if check.same:
            return NodeRun(runtime=self.runtime, status="same", obeys=True)
        op_node, explanation, picture = check.op_node, explain(check), None
        with suppress(NdgatherError):
            picture = op_node.operator().show(*check.inputs, **op_node.attributes())
        if failed:
            allowed = check.refusal is None
            return NodeRun(
                runtime=self.runtime,
                status=self.failure.status,
                obeys=self.failure.crashed is None and not allowed,
                ruling=None if allowed else explanation,
                text=self.failure.text,
                picture=picture,
            )
        return NodeRun(
            runtime=self.runtime,
            status="differs" if explanation.decided else "open",
            obeys=False if explanation.decided else None,
            place=check.first,
            theirs=_value_text(check.actual, check.first),
            ours="refused" if check.expected is None else _value_text(check.expected, check.first),
            ruling=explanation,
            picture=picture,
        )


def _value_text(array: Array | None, position: tuple[int, ...] | None) -> str:
    if array is None:
        return ""
    if position is not None:
        return str(array[position])
    values = f": {array.tolist()}" if array.size <= 8 else ""
    return f"{array.dtype} {array.shape}{values}"


_DEFINITIONS = {
    Kind.GATHER_ND: "output[p] = data[indices[p]]",
    Kind.GATHER_ELEMENTS: "output[p] = data[p with indices[p] on axis]",
    Kind.GATHER: "output[a, i, b] = data[a, indices[i], b]",
    Kind.SCATTER_ND: "output[indices[p]] = updates[p], all else is data",
    Kind.SCATTER_ELEMENTS: "output[p with indices[p] on axis] = updates[p], all else is data",
}
_DUPLICATES = Explanation(
    rule="duplicates",
    text="two indices address one element, and which update it keeps is not defined",
    advice="make the indices unique, or give the node a reduction",
    decided=False,
)
_NEGATIVE = Explanation(
    rule="negative index",
    text="a negative index counts from the end of its axis",
    advice="add the size first: Where(indices < 0, indices + size, indices)",
)
_WIDE_INTEGERS = Explanation(
    rule="wide integers",
    text="elements keep all 64 bits",
    advice="keep values below 2**31, or gather floats or two halves",
)
_WIDE_FLOATS = Explanation(
    rule="wide floats",
    text="elements keep all 64 bits, and the runtime computes in float32",
    advice="Cast to float32, so that every runtime computes the same",
)
_NAN = Explanation(
    rule="NaN",
    text="the specification does not define min and max of NaN",
    advice="replace NaN before the node",
    decided=False,
)


def explain(node: CheckedNode) -> Explanation:
    """Return the rule that decides about a node whose output is not that of its specification."""
    row, attributes = node.op_node.operator().row, node.op_node.attributes()
    refusal, expected = node.refusal, node.expected
    if isinstance(refusal, IndexOutOfBoundsError):
        return Explanation(
            rule="index range",
            text=f"an index out of range is an error: {refusal}",
            advice="clip the indices to their axis before the node, or select with Where after it",
        )
    if refusal is not None:
        advice = "make the shapes fit before the node"
        if isinstance(refusal, DTypeError):
            advice = "Cast to a type that the version takes, or import a newer opset"
        return Explanation(rule_of(refusal, "model"), str(refusal), advice)
    if node.first is None or node.actual is None or expected is None:
        form = None if expected is None else (str(expected.dtype), expected.shape)
        return Explanation(
            rule="result",
            text=f"the result has the type of data and the shape that follows: {form}",
            advice="declare the shape of the output, and Reshape or Cast after the node",
        )
    places = index_places(row, attributes, node.inputs, node.first)
    reduction = attributes.get("reduction", "none")
    value = expected[node.first]
    with np.errstate(over="ignore"):
        narrow = np.float32(value) if value.dtype == np.float64 else None
    has_nan = any(
        array.dtype.kind == "f" and bool(np.isnan(array).any())
        for array in (node.inputs[0], node.inputs[-1])
    )
    if row.kind.scatters and len(places) > 1 and reduction == "none":
        rule = _DUPLICATES
    elif any(index < 0 for _, values in places for index in values):
        rule = _NEGATIVE
    elif expected.dtype in {np.dtype(np.int64), np.dtype(np.uint64)} and abs(int(value)) >= 2**31:
        rule = _WIDE_INTEGERS
    elif narrow is not None and (
        np.float32(node.actual[node.first]) == narrow or not np.isfinite(narrow)
    ):
        rule = _WIDE_FLOATS
    elif row.kind.scatters and reduction in {"min", "max"} and has_nan:
        rule = _NAN
    else:
        advice = "report it to the runtime with the inputs of this node"
        rule = Explanation("definition", _DEFINITIONS[row.kind], advice)
    indices = "; ".join(
        f"indices[{', '.join(map(str, at))}] = {values[0] if len(values) == 1 else list(values)}"
        for at, values in places
    )
    return replace(rule, indices=indices)


def to_json(comparison: Comparison) -> dict[str, Any]:
    report = {"same": comparison.same, **asdict(comparison)}
    for node in report["nodes"]:
        for run in node["runs"]:
            del run["picture"]
    return report


def to_text(comparison: Comparison) -> str:
    """Return the runtimes, the nodes that differ and the number of the others, line by line."""
    lines = [
        f"{run.runtime} {run.version}: {run.status}{': ' if run.text else ''}{run.text}"
        for run in comparison.runs
    ]
    for node in comparison.nodes:
        if not node.same:
            lines += ["", f"{node.where} ({node.operator}, {node.source})"]
            lines += (f"  {run.runtime}: {_outcome(run)}" for run in node.runs)
            lines += (f"  {name}: {text}" for name, text in _explanation(node))
    *details, summary = _last_lines(comparison)
    return "\n".join(map(one_line, [*lines, *details, "", summary]))


def _last_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the outputs that differ, the nodes that cannot be compared, and the counts."""
    for name, difference in comparison.outputs:
        yield f"output {name}: {difference}"
    for node, why in comparison.left:
        yield f"not compared: {node}, because {why}"
    same = [node for node in comparison.nodes if node.same]
    ran = sum(all(run.status != "not run" for run in node.runs) for node in same)
    other = "other " if len(same) < len(comparison.nodes) else ""
    nodes, are = ("node", "is") if ran == 1 else ("nodes", "are")
    rest = f"; {len(same) - ran} did not run in every one" if ran < len(same) else ""
    yield f"{ran} {other}gather or scatter {nodes} {are} the same in every runtime{rest}."


def _explanation(node: NodeComparison) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of the lines under a node that differs."""
    explanation = next((run.ruling for run in node.runs if run.ruling is not None), None)
    if explanation is not None:
        none = "none of them"
        if any(run.status == "not run" for run in node.runs):
            none = "none of those that ran it"
        yield "rule", f"{explanation.rule}: {explanation.text}"
        yield "followed by", ", ".join(run.runtime for run in node.runs if run.obeys) or none
        yield "instead", explanation.advice


def _outcome(run: NodeRun) -> str:
    """Return the outcome of a node in a runtime, in one line."""
    parts = [run.status]
    if run.inputs_differ:
        parts = [f"{run.status} for the inputs it received, which already differ"]
    refused = run.ours == "refused"
    if run.place is not None:
        at = ", ".join(map(str, run.place))
        parts.append(f"output[{at}] = {run.theirs}, and the specification requires {run.ours}")
    elif run.theirs:
        required = "requires an error" if refused else f"requires {run.ours}"
        parts.append(f"returns {run.theirs}, and the specification {required}")
    if run.ruling is not None and run.ruling.indices:
        parts.append(run.ruling.indices)
    if run.text:
        parts.append(run.text)
    return "; ".join(parts)


def to_html(comparison: Comparison, model: ModelProto, title: str) -> str:
    """Return a self-contained page with every node that differs, in the graph around it."""
    runs = (
        f"<tr><td>{escape(run.runtime)}</td><td>{escape(run.version)}</td>"
        f"<td>{escape(run.status)} {escape(run.text)}</td></tr>"
        for run in comparison.runs
    )
    differing = (node for node in comparison.nodes if not node.same)
    page = files("ndgather.models.onnx").joinpath("comparison.html").read_text("utf-8")
    return Template(page).substitute(
        title=escape(title),
        style_of_pictures=style_sheet(),
        runs="".join(runs),
        nodes="".join(part for node in differing for part in _node_html(node, model)),
        lines="".join(f"<p>{escape(line)}</p>" for line in _last_lines(comparison)),
    )


def _node_html(node: NodeComparison, model: ModelProto) -> Iterator[str]:
    yield f"<h2>{escape(node.where)}</h2><p>{escape(node.operator)} "
    yield f'(<a href="{escape(node.source)}">its specification</a>)</p>'
    # The nodes that compute its inputs, the node, and those that read its output.
    producers = {name: proto for proto in model.graph.node for name in proto.output}
    before = [
        f"{producers[name].op_type} → {name}" if name in producers else name for name in node.reads
    ]
    after = [proto.op_type for proto in model.graph.node if node.gives in proto.input]
    yield '<div class="graph">'
    yield f"<div>{''.join(f'<span>{escape(text)}</span>' for text in before)}</div>→"
    yield f'<div><span class="it">{escape(node.operator.split(" ", 1)[-1])}</span></div>→<div>'
    yield from (f"<span>{escape(text)}</span>" for text in after or [f"output {node.gives}"])
    yield "</div></div><table>"
    for run in node.runs:
        colour = {True: "good", False: "bad", None: ""}[run.obeys]
        yield f'<tr><td>{escape(run.runtime)}</td><td class="{colour}">'
        yield f"{escape(_outcome(run))}</td></tr>"
    yield "</table>"
    picture = next((run.picture for run in node.runs if run.picture is not None), None)
    if picture is not None:
        yield picture.to_html(style=False)
    lines = [f"<b>{name}</b>: {escape(text)}" for name, text in _explanation(node)]
    yield f"<p>{'<br>'.join(lines)}</p>"
