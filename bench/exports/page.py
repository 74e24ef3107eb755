"""The page about exporters: what they write for a line of Python, and what runtimes make of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .lines import Line, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "exporters.md"
RESULTS = Path(__file__).with_name("results.json")

_FRAMEWORKS = {
    "torch": ("PyTorch", {"torch-torchscript": "TorchScript", "torch-dynamo": "torch.export"}),
    "tensorflow": ("TensorFlow", {"tf2onnx": "tf2onnx"}),
    "sklearn": ("scikit-learn", {"skl2onnx": "skl2onnx"}),
}
_COLUMNS = ("itself", "specification", "onnxruntime", "openvino", "reference")
_WORDS = {
    "same": "same", "refused": "refuses", "value": "**a value**", "other": "**another value**",
    "crashed": "**crashes**", "not loaded": "does not load",
}  # fmt: skip

_LEAD = """\
# What exporters write

A line of Python that gathers or scatters becomes nodes of ONNX, which have rules of their own. This
page shows which nodes each exporter writes for which line, and what becomes of indices that are
negative, past the end or repeated: in the framework, by the specification of ONNX, and in each
runtime.

`make exports-page` exports every line, runs the models and writes this page and the results that it
is made of, `bench/exports/results.json`. The lines and the shapes of their inputs stand in
`bench/exports/lines.toml`.

"""
_CASES = {
    "negative": (
        "Negative indices",
        "The last entries count from the end, as -1 for the last row. Gather, GatherElements, "
        "GatherND, ScatterElements and ScatterND of ONNX take that since version 11; frameworks do "
        "not at every line.",
    ),
    "outside": (
        "Indices past the end",
        "One entry is the size of its axis. The specification of ONNX makes that an error. A "
        "runtime that gives a value has read or written something else: zeros, another element, or "
        "memory that is not the tensor's.",
    ),
    "repeated": (
        "Repeated indices",
        "All entries are 1. Gathers read an element twice. With a reduction every update counts; "
        "without one ONNX leaves open which update stays, and so may frameworks.",
    ),
    "valid": (
        "Valid indices",
        "Indices within their axes, and for scikit-learn what its models predict. Values are the "
        "same if they are within 1e-4 of the largest one.",
    ),
}  # fmt: skip
_KEY = """\
*same*: the value that the framework itself gives. **another value**: not that. **a value**: the
framework refuses, and this does not. *Specification* is what the nodes come to by the operators of
ndgather.
"""
_PARTS = """\
## Where a runtime parts from the specification

What `ndgather compare` says of these models. The page of an operator, which `ndgather doc` prints
too, has its rules; [models that misbehave](guide/models-that-misbehave.md) says what to do.
"""


def page(found: dict[str, Any]) -> str:
    return "\n".join(_page(found)) + "\n"


def _page(found: dict[str, Any]) -> Iterator[str]:
    yield _LEAD + _versions(found)
    yield "## Which nodes are written\n"
    for package, (framework, exporters) in _FRAMEWORKS.items():
        yield f"### {framework}\n"
        yield from _table("line", *exporters.values())
        for line in lines(package):
            cells = [_nodes(found["exports"].get(f"{name}/{line.name}")) for name in exporters]
            if any(cells):
                yield _row(_code(line), *cells)
        yield ""
    for case, (title, text) in _CASES.items():
        yield f"## {title}\n"
        yield f"{text}\n"
        yield from _case(found, case)
    yield _PARTS
    yield from _parting(found)


def _versions(found: dict[str, Any]) -> str:
    runtimes = ", ".join(f"{name} {version}" for name, version in found["runtimes"].items())
    told = [f"- Runtimes: {runtimes} (reference: the evaluator of onnx), on the CPU."]
    for name, versions in found["exporters"].items():
        told.append(
            f"- {name}: " + ", ".join(f"{each} {versions[each]}" for each in versions) + "."
        )
    return "\n".join(told) + "\n"


def _exports(found: dict[str, Any], case: str) -> Iterator[tuple[str, str, Line, dict[str, Any]]]:
    """Yield framework, exporter, line and outcome of each export that has a case."""
    for package, (framework, exporters) in _FRAMEWORKS.items():
        for line in lines(package):
            for name, exporter in exporters.items():
                row = found["exports"].get(f"{name}/{line.name}", {})
                if case in row.get("cases", {}):
                    yield framework, exporter, line, row["cases"][case]


def _case(found: dict[str, Any], case: str) -> Iterator[str]:
    """Yield the exports on which not all agree; a line is one row where they are alike."""
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    count = parting = 0
    for _, exporter, line, outcome in _exports(found, case):
        count += 1
        words = tuple(outcome[each] for each in _COLUMNS)
        if (
            len(set(words[1:])) == 1
            and words[1] in {"same", "refused"}
            and (words[1] == "same" or words[0] == "refused")
        ):
            continue
        parting += 1
        rows.setdefault((_code(line), words), []).append(exporter)
    if not rows:
        yield f"All {count} exports do in every runtime what their framework does.\n"
        return
    yield (
        f"{count - parting} of {count} exports do in every runtime what their framework does.\n"
        + ("The others:\n")
    )
    yield from _table("line", "exporter", "framework", *_COLUMNS[1:])
    for (line_text, words), exporters in rows.items():
        itself = "refuses" if words[0] == "refused" else "a value"
        shown = [_WORDS[each] for each in words[1:]]
        yield _row(line_text, ", ".join(exporters), itself, *shown)
    yield ""
    yield _KEY


def _parting(found: dict[str, Any]) -> Iterator[str]:
    grouped: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in _CASES:
        for framework, _, line, outcome in _exports(found, case):
            for runtime, operator, status, rule in outcome.get("parts", []):
                key = (runtime, operator, f"{status}: {rule}" if rule else status)
                grouped.setdefault(key, {})[f"{_code(line)} ({framework}, {case})"] = None
    yield from _table("runtime", "operator", "what", "seen at")
    for (runtime, operator, what), seen in sorted(grouped.items()):
        domain, _, name = operator.partition(" ")
        linked = f"[{name}](operators/{domain}-{name}.rst)" if operator else "none of these"
        yield _row(
            f"{runtime} {found['runtimes'][runtime]}",
            linked,
            what or "other nodes",
            ", ".join(seen),
        )


def _nodes(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if "refused" in row:
        return f"refuses: {row['refused']}".replace("|", "\\|")
    counts = Counter(row["nodes"])
    return ", ".join(
        f"{count} {name}" if count > 1 else name for name, count in counts.items()
    ) or "none of indices"  # fmt: skip


def _code(line: Line) -> str:
    return f"`{'; '.join(line.python.strip().splitlines())}`"


def _table(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
