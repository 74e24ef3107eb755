"""What a comparison found, as text, as data and as one page of HTML."""

from __future__ import annotations

import html
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ndgather.errors.texts import one_line
from ndgather.show import style_sheet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto

    from ndgather.models.onnx.compared import Comparison, NodeComparison, NodeRun


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
