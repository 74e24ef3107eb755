"""One model in several runtimes: which gather or scatter node differs, and who is right."""

from __future__ import annotations

import html
import logging
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError, runtime_errors
from ndgather.errors.texts import bearable, one_line
from ndgather.models.arguments import named_arrays, names, tolerance
from ndgather.models.graph import fit_inputs
from ndgather.models.graph.calls import index_places
from ndgather.models.graph.diagnostics import rule_of
from ndgather.models.onnx.files import opened
from ndgather.models.onnx.model import first_difference, judged, model_ports
from ndgather.models.onnx.runs import ExposedNode, exposed, load_runtime, options_by_runtime, up_to
from ndgather.published.schema import Kind
from ndgather.runtimes.children import Answer, RuntimeProcess
from ndgather.settings import LOGGER
from ndgather.show import style_sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import ModelProto

    from ndgather.models.onnx.files import Source
    from ndgather.models.onnx.model import JudgedNode
    from ndgather.models.onnx.nodes import OpNode
    from ndgather.models.onnx.runs import ExposedModel, ForRuntimes
    from ndgather.published.schema import OperatorVersion
    from ndgather.runtimes.runtime import LoadOptions
    from ndgather.show import Picture


_WIDE = 2**31
_DEFINITIONS = {
    Kind.GATHER_ND: "output[p] = data[indices[p]]",
    Kind.GATHER_ELEMENTS: "output[p] = data[p with indices[p] on axis]",
    Kind.GATHER: "output[a, i, b] = data[a, indices[i], b]",
    Kind.SCATTER_ND: "output[indices[p]] = updates[p], all else is data",
    Kind.SCATTER_ELEMENTS: "output[p with indices[p] on axis] = updates[p], all else is data",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The rule that decides, in a short name and in words.

    Attributes
    ----------
    advice : str
        What to write instead, so that every runtime gives the same.
    indices : str
        The index values that lead to the element; empty where none do.
    decided : bool
        False where the specification leaves open what the value is.
    """

    rule: str
    text: str
    advice: str
    indices: str = ""
    decided: bool = True


def ruling(row: OperatorVersion, attributes: Mapping[str, Any], node: JudgedNode) -> Ruling:
    """Return what decides about a node whose value is not that of its specification."""
    refusal = node.refusal
    if isinstance(refusal, IndexOutOfBoundsError):
        return Ruling(
            rule="index range",
            text=f"an index out of range is an error: {refusal}",
            advice="clip the indices to their axis before the node, or choose by Where afterwards",
        )
    if refusal is not None:
        advice = "make the shapes fit before the node"
        if isinstance(refusal, DTypeError):
            advice = "Cast to a type that the version takes, or import a newer opset"
        return Ruling(rule=rule_of(refusal, "model"), text=str(refusal), advice=advice)
    if node.first is None or node.theirs is None or node.ours is None:
        return Ruling(
            rule="result",
            text=f"the result has the type of data and the shape that follows: "
            f"{None if node.ours is None else (str(node.ours.dtype), node.ours.shape)}",
            advice="declare the shape of the output, and Reshape or Cast after the node",
        )
    places = index_places(row, attributes, node.inputs, node.first)
    shown = "; ".join(
        f"indices[{', '.join(map(str, at))}] = {values[0] if len(values) == 1 else list(values)}"
        for at, values in places
    )
    return _about_value(row, attributes, node, places, shown)


def _about_value(
    row: OperatorVersion,
    attributes: Mapping[str, Any],
    node: JudgedNode,
    places: list[tuple[tuple[int, ...], tuple[int, ...]]],
    shown: str,
) -> Ruling:
    assert node.ours is not None
    assert node.first is not None
    reduction = attributes.get("reduction", "none")
    if row.kind.scatters and len(places) > 1 and reduction == "none":
        return Ruling(
            rule="duplicates",
            text="two indices name one element, and which update stays is not defined",
            advice="make the indices unique, or give the node a reduction",
            indices=shown,
            decided=False,
        )
    if any(value < 0 for _, values in places for value in values):
        return Ruling(
            rule="negative index",
            text="a negative index counts from the end of its axis",
            advice="add the size first: Where(indices < 0, indices + size, indices)",
            indices=shown,
        )
    value = node.ours[node.first]
    if node.ours.dtype.kind in "iu" and node.ours.dtype.itemsize == 8 and abs(int(value)) >= _WIDE:
        return Ruling(
            rule="wide integers",
            text="elements keep all 64 bits",
            advice="keep values below 2**31, or gather floats or two halves",
            indices=shown,
        )
    if value.dtype == np.float64 and node.theirs is not None:
        with np.errstate(over="ignore"):
            narrow = np.float32(value)
        if np.float32(node.theirs[node.first]) == narrow or not np.isfinite(narrow):
            return Ruling(
                rule="wide floats",
                text="elements keep all 64 bits, and the runtime computes in float32",
                advice="Cast to float32, so that every runtime computes alike",
                indices=shown,
            )
    if row.kind.scatters and reduction in {"min", "max"} and _any_nan(node):
        return Ruling(
            rule="NaN",
            text="the text does not say what min and max make of NaN",
            advice="replace NaN before the node",
            indices=shown,
            decided=False,
        )
    return Ruling(
        rule="definition",
        text=_DEFINITIONS[row.kind],
        advice="report it to the runtime with the inputs of this node",
        indices=shown,
    )


def _any_nan(node: JudgedNode) -> bool:
    return any(
        each.dtype.kind == "f" and bool(np.isnan(each).any())
        for each in (node.inputs[0], node.inputs[-1])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRun:
    """How a runtime ran the whole model: "ran", "refused" or "crashed", and the text."""

    runtime: str
    version: str
    status: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One node in one runtime.

    Attributes
    ----------
    status : str
        ``"same"`` as the specification; ``"differs"``; ``"open"`` where it differs in what the
        specification leaves open; ``"refused"`` or ``"crashed"`` at this node; ``"not run"``.
    obeys : bool or None
        Whether the runtime did what the specification says; None where that is open.
    inputs_differ : bool
        Whether what the node read differs from what it read in the first runtime.
    place : tuple of int or None
        The first element that differs, and `theirs` and `ours` its two values.
    ruling : Ruling or None
        What decides.
    text : str
        Of a refusal or a crash.
    picture : Picture or None
        Where it differs: what the specification gives for what the node read.
    """

    runtime: str
    status: str
    obeys: bool | None = None
    inputs_differ: bool = False
    place: tuple[int, ...] | None = None
    theirs: str = ""
    ours: str = ""
    ruling: Ruling | None = None
    text: str = ""
    picture: Picture | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
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
        return all(
            each.status in {"same", "not run"} and not each.inputs_differ for each in self.runs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    runs : tuple of RuntimeRun
        How each runtime ran the model as a whole.
    nodes : tuple of NodeComparison
        Its gather and scatter nodes, in their order.
    outputs : tuple of (str, str)
        The outputs that differ from those of the first runtime, and how.
    left : tuple of (str, str)
        Nodes that cannot be looked into, and why.
    """

    runs: tuple[RuntimeRun, ...]
    nodes: tuple[NodeComparison, ...]
    outputs: tuple[tuple[str, str], ...]
    left: tuple[tuple[str, str], ...]

    @property
    def same(self) -> bool:
        ran = all(each.status == "ran" for each in self.runs)
        return ran and not self.outputs and all(node.same for node in self.nodes)


Array = NDArray[Any]
Values = dict[str, Array]


class ObservedRun:
    """One runtime: the values that it gave, and the node at which it stopped."""

    def __init__(
        self,
        model: ExposedModel,
        runtime: str,
        names: Sequence[str],
        inputs: Values,
        options: LoadOptions,
    ) -> None:
        self.runtime, self._model, self._options = runtime, model, options
        self._inputs = inputs
        self.stopped_at: ExposedNode | None = None
        self.stop = Answer()
        self.values: Values | None = None
        self.version, self.answer = self._ask(model, list(dict.fromkeys([*names, *model.names])))
        level = logging.INFO if self.answer.crashed is None else logging.WARNING
        how = self.answer.crashed or self.answer.refused or "ran"
        LOGGER.log(level, "%s %s: %s", runtime, self.version, bearable(how))
        if self.values is None:
            self.whole = False
            self._find_stop()
        else:
            self.whole = True

    def _ask(self, model: ExposedModel, names: Sequence[str]) -> tuple[str, Answer]:
        with RuntimeProcess(self.runtime, model.source(), self._options) as process:
            answer = process.run(names, self._inputs)
            version = process.version
        if answer.values is not None:
            self.values = {
                **self._inputs,
                **{
                    name: np.asarray(value)
                    for name, value in zip(names, answer.values, strict=True)
                },
            }
        return version, answer

    def _find_stop(self) -> None:
        """Find the first node of ours whose value the runtime does not give."""
        nodes = self._model.nodes
        done, failing = 0, len(nodes) + 1  # how many nodes it gives, and does not give
        while failing - done > 1:
            middle = (done + failing) // 2
            if middle > len(nodes):
                break
            wanted = {name for node in nodes[:middle] for name in (*node.reads, node.gives)}
            part = up_to(self._model, wanted)
            answer = self._ask(part, part.names)[1]
            if answer.values is None:
                failing, self.stop = middle, answer
            else:
                done = middle
        if failing <= len(nodes):
            node = nodes[failing - 1]
            wanted = {name for each in nodes[:done] for name in (*each.reads, each.gives)}
            part = up_to(self._model, wanted | set(node.reads))
            if self._ask(part, part.names)[1].values is not None or not part.names:
                self.values = {**self._inputs, **(self.values or {})}
                self.stopped_at = node

    def summary(self) -> RuntimeRun:
        status, text = "ran", ""
        if not self.whole and self.answer.crashed is not None:
            status, text = "crashed", self.answer.crashed
        elif not self.whole:
            status, text = "refused", self.answer.refused or ""
        return RuntimeRun(
            runtime=self.runtime,
            version=self.version,
            status=status,
            text=bearable(text),
        )


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
) -> Comparison:
    """Run a model in several runtimes and compare every gather and scatter node.

    Each runtime runs in a process of its own. What a node read there is computed again by the
    version of its operator that the model imports, so that it is told apart whether a node goes
    wrong itself or was given other inputs.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file.
    inputs : mapping of str to array_like
        The inputs of the model by their names; see `run` and `random_inputs`.
    runtimes : sequence of str
        ``"onnxruntime"``, ``"openvino"``, ``"reference"``, or modules of your own.
    rtol, atol : float
        How far floats of two runtimes may be apart, as in `numpy.isclose`. Values of gather nodes
        are compared with their specification bit by bit.
    threads
        As in `run`.
    providers, libraries : sequence of str, or mapping of a runtime to a sequence of str
        As in `run`: for every runtime but the reference evaluator, or for those that are named.

    Returns
    -------
    Comparison
        For each node and runtime whether it gave what its specification says, and if not the first
        element, the indices that lead there, the rule that decides and what to write instead.

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
    >>> found = onnx.compare(model, {"data": data, "rows": [[-1]]}, runtimes=["reference"])
    >>> found.same, found.nodes[0].runs[0].status
    (True, 'same')
    """
    runtimes = checked_runtimes("compare", runtimes)
    rtol, atol = tolerance("compare", "rtol", rtol), tolerance("compare", "atol", atol)
    options = options_by_runtime("compare", runtimes, threads, providers, libraries)
    proto, folder = opened(model, "compare")
    copy = type(proto)()
    copy.CopyFrom(proto)
    ports, results = model_ports(copy)
    fitted = fit_inputs(ports, named_arrays("compare", inputs))
    looked = exposed(copy, folder)
    wanted = [port.name for port in results]
    found = [ObservedRun(looked, name, wanted, fitted, options[name]) for name in runtimes]
    base = next((each.values for each in found if each.values is not None), {})
    return Comparison(
        runs=tuple(each.summary() for each in found),
        nodes=tuple(_node(node, found, base, rtol, atol) for node in looked.nodes),
        outputs=tuple(_outputs(wanted, found, base, rtol, atol)),
        left=looked.left,
    )


def checked_runtimes(caller: str, runtimes: object) -> tuple[str, ...]:
    """Return the names of runtimes, which have to be there."""
    found = names(caller, "runtimes", runtimes)
    if not found:
        raise runtime_errors.no_runtimes(caller)
    for name in found:
        load_runtime(name)
    return found


def _node(
    node: ExposedNode,
    found: Sequence[ObservedRun],
    base: Values,
    rtol: float,
    atol: float,
) -> NodeComparison:
    row = node.op_node.operator().row
    runs = []
    for each in found:
        run = _node_run(node, each)
        if run.status != "not run" and each.values is not base:
            run = replace(run, inputs_differ=_inputs_differ(node, each, base, rtol, atol))
        runs.append(run)
    return NodeComparison(
        where=node.op_node.where,
        operator=str(row),
        source=row.source,
        reads=tuple(node.op_node.node.input),
        gives=node.op_node.node.output[0],
        runs=tuple(runs),
    )


def _node_run(node: ExposedNode, run: ObservedRun) -> NodeRun:
    """Return what one runtime made of one node."""
    known = run.values or {}
    stopped = run.stopped_at is node
    has_all = all(name in known for name in node.in_branch)
    inputs = node.inputs(known) if has_all else None
    theirs = known.get(node.gives)
    if inputs is None or (theirs is None and not stopped):
        return NodeRun(runtime=run.runtime, status="not run")
    op_node = node.op_node
    row, attributes = op_node.operator().row, op_node.attributes()
    made = judged(op_node, inputs, None if stopped else theirs)
    if made.same:
        return NodeRun(runtime=run.runtime, status="same", obeys=True)
    if stopped:
        crashed = run.stop.crashed is not None
        text = bearable(run.stop.crashed or run.stop.refused or "")
        allowed = made.refusal is None
        return NodeRun(
            runtime=run.runtime,
            status="crashed" if crashed else "refused",
            obeys=not crashed and not allowed,
            ruling=None if allowed else ruling(row, attributes, made),
            text=text,
            picture=_picture(op_node, made),
        )
    decided = ruling(row, attributes, made)
    place = made.first
    return NodeRun(
        runtime=run.runtime,
        status="differs" if decided.decided else "open",
        obeys=False if decided.decided else None,
        place=place,
        theirs=_shown(made.theirs, place),
        ours="refused" if made.ours is None else _shown(made.ours, place),
        ruling=decided,
        picture=_picture(op_node, made),
    )


def _picture(op_node: OpNode, made: JudgedNode) -> Picture | None:
    with suppress(NdgatherError):
        return op_node.operator().show(*made.inputs, **op_node.attributes())
    return None


def _shown(array: Array | None, place: tuple[int, ...] | None) -> str:
    if array is None:
        return ""
    if place is not None:
        return str(array[place])
    if array.size <= 8:
        return f"{array.dtype} {array.shape}: {array.tolist()}"
    return f"{array.dtype} {array.shape}"


def _inputs_differ(
    node: ExposedNode, run: ObservedRun, base: Values, rtol: float, atol: float
) -> bool:
    for name in node.reads:
        one, other = base.get(name), (run.values or {}).get(name)
        if one is not None and other is not None and values_differ(one, other, rtol, atol):
            return True
    return False


def values_differ(one: Array, other: Array, rtol: float, atol: float) -> bool:
    """Return whether two arrays are not alike, or an element differs by more than is allowed."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    return first_difference(one, other, rtol=rtol, atol=atol) is not None


def _outputs(
    wanted: Sequence[str], found: Sequence[ObservedRun], base: Values, rtol: float, atol: float
) -> list[tuple[str, str]]:
    differing = []
    for run in found:
        if not run.whole or run.values is base or run.values is None:
            continue
        for name in wanted:
            one, other = base.get(name), run.values[name]
            if one is None or not values_differ(one, other, rtol, atol):
                continue
            forms = [runtime_errors.form(each.dtype, each.shape) for each in (other, one)]
            if forms[0] != forms[1]:
                differing.append((name, f"{run.runtime} gives {forms[0]}, not {forms[1]}"))
                continue
            at = first_difference(one, other, rtol=rtol, atol=atol)
            assert at is not None
            where = ", ".join(map(str, at))
            differing.append((name, f"{run.runtime} gives [{where}] = {other[at]}, not {one[at]}"))
    return differing


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return what `json.dump` writes."""
    found = {"same": comparison.same, **asdict(comparison)}
    for node in found["nodes"]:
        for run in node["runs"]:
            del run["picture"]
    return found


def to_text(comparison: Comparison) -> str:
    """Return the runtimes, the nodes that differ and a count of the others, line by line."""
    lines = [
        f"{run.runtime} {run.version}: {run.status}{': ' if run.text else ''}{run.text}"
        for run in comparison.runs
    ]
    for node in comparison.nodes:
        if not node.same:
            lines += ["", f"{node.where} ({node.operator}, {node.source})", *_node_lines(node)]
    lines += [f"output {name}: {how}" for name, how in comparison.outputs]
    lines += [f"not compared: {node}, for {why}" for node, why in comparison.left]
    return "\n".join(map(one_line, [*lines, "", _rest(comparison)]))


def _rest(comparison: Comparison) -> str:
    """Count the nodes that nothing else is said about."""
    rest = [node for node in comparison.nodes if node.same]
    ran = [node for node in rest if all(run.status != "not run" for run in node.runs)]
    other = "other " if len(rest) < len(comparison.nodes) else ""
    nodes, are = ("node", "is") if len(ran) == 1 else ("nodes", "are")
    text = f"{len(ran)} {other}gather or scatter {nodes} {are} the same in every runtime"
    missed = len(rest) - len(ran)
    return f"{text}; {missed} did not run in every one." if missed else f"{text}."


def _node_lines(node: NodeComparison) -> Iterator[str]:
    ruling = next((run.ruling for run in node.runs if run.ruling is not None), None)
    for run in node.runs:
        yield f"  {run.runtime}: {said(run)}"
    if ruling is not None:
        yield f"  rule: {ruling.rule}: {ruling.text}"
        yield f"  obeyed by: {_obeying(node)}"
        yield f"  instead: {ruling.advice}"


def _obeying(node: NodeComparison) -> str:
    all_ran = all(run.status != "not run" for run in node.runs)
    none = "none of them" if all_ran else "none of those that ran it"
    return ", ".join(run.runtime for run in node.runs if run.obeys) or none


def said(run: NodeRun) -> str:
    """Say in one line what a runtime made of a node."""
    parts = [run.status]
    if run.inputs_differ:
        parts = [f"{run.status} for what it read; its inputs already differ"]
    if run.place is not None:
        where = ", ".join(map(str, run.place))
        parts.append(f"output[{where}] = {run.theirs}, and the specification gives {run.ours}")
    elif run.theirs:
        parts.append(f"gives {run.theirs}, and the specification {_gives(run)}")
    if run.ruling is not None and run.ruling.indices:
        parts.append(run.ruling.indices)
    if run.text:
        parts.append(run.text)
    return "; ".join(parts)


def _gives(run: NodeRun) -> str:
    return "refuses" if run.ours == "refused" else f"gives {run.ours}"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: left; }
td { border-top: 1px solid #ddd; vertical-align: top; } code { background: #f4f4f4; }
.bad { color: #a00; } .good { color: #060; }
.graph { display: flex; align-items: center; gap: .8em; margin: 1em 0; }
.graph div { display: flex; flex-direction: column; gap: .4em; }
.graph span { border: 1px solid #888; border-radius: 4px; padding: .2em .6em; }
.graph .it { border: 2px solid #a00; font-weight: bold; }
"""


def to_html(comparison: Comparison, model: ModelProto, title: str) -> str:
    """Return one page that needs no other file: each finding, and the graph around its node."""
    parts = [f"<h1>{_e(title)}</h1><table><tr><th>runtime</th><th>version</th><th>it</th></tr>"]
    parts += [
        f"<tr><td>{_e(run.runtime)}</td><td>{_e(run.version)}</td>"
        f"<td>{_e(run.status)} {_e(run.text)}</td></tr>"
        for run in comparison.runs
    ]
    parts.append("</table>")
    for node in comparison.nodes:
        if not node.same:
            parts += _node_html(node, model)
    for name, how in comparison.outputs:
        parts.append(f"<p>output <code>{_e(name)}</code>: {_e(how)}</p>")
    for where, why in comparison.left:
        parts.append(f"<p>not compared: <code>{_e(where)}</code>, for {_e(why)}</p>")
    parts.append(f"<p>{_e(_rest(comparison))}</p>")
    return (
        '<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f"<title>{_e(title)}</title>"
        f"<style>{_STYLE}{style_sheet()}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _node_html(node: NodeComparison, model: ModelProto) -> Iterator[str]:
    yield f"<h2>{_e(node.where)}</h2><p>{_e(node.operator)} "
    yield f'(<a href="{_e(node.source)}">its text</a>)</p>'
    yield from _graph_html(node, model)
    yield "<table>"
    for run in node.runs:
        colour = {True: "good", False: "bad"}.get(run.obeys) if run.obeys is not None else ""
        yield f'<tr><td>{_e(run.runtime)}</td><td class="{colour}">{_e(said(run))}</td></tr>'
    yield "</table>"
    picture = next((run.picture for run in node.runs if run.picture is not None), None)
    if picture is not None:
        yield picture.to_html(style=False)
    ruling = next((run.ruling for run in node.runs if run.ruling is not None), None)
    if ruling is not None:
        yield f"<p><b>{_e(ruling.rule)}</b>: {_e(ruling.text)}<br>"
        yield f"obeyed by: {_e(_obeying(node))}<br>instead: {_e(ruling.advice)}</p>"


def _graph_html(node: NodeComparison, model: ModelProto) -> Iterator[str]:
    """Draw the nodes that make what a node reads, the node, and those that read what it gives."""
    makers = {name: each for each in model.graph.node for name in each.output}
    before = [f"{makers[name].op_type} → {name}" if name in makers else name for name in node.reads]
    after = [each.op_type for each in model.graph.node if node.gives in each.input]
    columns = [before, [node.operator.split(" ", 1)[-1]], after or [f"output {node.gives}"]]
    yield '<div class="graph">'
    for number, column in enumerate(columns):
        yield "→<div>" if number else "<div>"
        kind = ' class="it"' if number == 1 else ""
        yield "".join(f"<span{kind}>{_e(text)}</span>" for text in column) + "</div>"
    yield "</div>"


def _e(text: str) -> str:
    return html.escape(text)
