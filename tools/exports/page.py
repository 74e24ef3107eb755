"""The page about exporters: the nodes that they write and their results in every runtime."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.child_process import ROOT

from .snippets import Snippet, snippets

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "exporters.md"
RESULTS = Path(__file__).with_name("results.json")
TARGETS = ROOT / "tools" / "targets" / "table.md"

_FRAMEWORKS = {
    "torch": ("PyTorch", {"torch-torchscript": "TorchScript", "torch-dynamo": "torch.export"}),
    "tensorflow": ("TensorFlow", {"tf2onnx": "tf2onnx"}),
    "sklearn": ("scikit-learn", {"skl2onnx": "skl2onnx"}),
}
_COLUMNS = {
    "specification": "specification",
    "onnxruntime": "onnxruntime",
    "openvino": "OpenVINO",
    "openvino-1": "OpenVINO, 1 thread",
    "reference": "reference",
}
_WORDS = {
    "same": "same",
    "refused": "raises",
    "value": "a value",
    "other": "another value",
    "crashed": "crashes",
    "not loaded": "does not load",
}

_HEAD = """\
# What exporters write

Exporters translate a line of Python with a gather or scatter into ONNX nodes, which follow
different rules. This page lists the nodes that each exporter writes and the results for negative,
out-of-bounds and duplicate indices in the framework, the ONNX specification and each runtime.
`make exports EXPORTS=--page` writes this page.

"""
_OTHER_VALUES = """\
## Where the exported model is wrong

For these lines, conforming runtimes raise an error or return a value that differs from the
framework's. Make indices non-negative before the line (`i % n`), make the indices of sums unique,
or rewrite the line to export another operator.
"""
_NODES = """\
## Which nodes are written

The number after a node is its version. Default attributes, `axis` and gathers from the output of
Shape are omitted. If a model has no node with indices, other nodes are listed.
"""
_TARGETS = """
## What restricted targets support

[`ndgather convert --target`](guide/restricted-targets.md) rewrites gathers and scatters that a
runtime does not support. `python -m tools.targets` measures its effect on the PyTorch models above.
"""
_CASES = {
    "negative": """\
### Negative indices

Since version 11, ONNX operators accept negative indices. Many framework functions do not.
""",
    "outside": """\
### Out-of-bounds indices

One index equals the size of its axis, which ONNX defines as an error. A runtime that returns a
value has read or written zeros, another element, or memory outside the tensor. OpenVINO checks less
with one thread (`INFERENCE_NUM_THREADS`) than with several.
""",
    "repeated": """\
### Duplicate indices

All indices are 1. Without a reduction, ONNX does not define which update remains.
""",
    "valid": """\
### Valid indices

For scikit-learn, the models predict new rows. Values count as the same if they differ by at most
1e-4 of the largest value. OpenVINO does not support the domain ai.onnx.ml.
""",
}
_KEY = """\
## Results by indices

*Same* means that the result equals the framework's. *Another value* means that the two differ.
*A value* means that only the framework raises an error. *Specification* is the result of ndgather;
runtime results that differ from it are bold. *Reference* is the evaluator of the onnx package.
Wrong exports are listed above. Models that a runtime cannot load are listed only for valid indices.
"""
_ADJECTIVES = {
    "valid": "valid",
    "negative": "negative",
    "outside": "out of bounds",
    "repeated": "duplicate",
}
_MOST_LINES = 6  # of Python in a cell; for more, the cell counts the operators that are written
_DIFFERENCES = """\
## Where a runtime differs from the specification

[`ndgather compare`](guide/compare-runtimes.md) finds these differences and explains what to do.
[Operator pages](operators/index.md) contain the rules.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """The model of one snippet by one exporter and the outcome for one case of its inputs."""

    exporter: str
    reason: str
    snippet: Snippet
    nodes: list[str]
    outcome: dict[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.outcome[name] for name in ("itself", *_COLUMNS))

    @property
    def is_wrong(self) -> bool:
        """True if the framework returns a value but the specification requires another result."""
        itself, specification = self.words[:2]
        return itself != "refused" and specification != "same"

    @property
    def agrees(self) -> bool:
        itself = "refused" if self.outcome["itself"] == "refused" else "same"
        return all(self.outcome[name] == itself for name in _COLUMNS)

    @property
    def is_listed(self) -> bool:
        """True unless the outcome is correct or shown in the table of wrong exports."""
        _, specification, *runtimes = self.words
        return not self.agrees and not (self.is_wrong and {*runtimes} == {specification})


def page(results: dict[str, Any]) -> str:
    return "\n".join(_page(results)) + "\n"


def _page(results: dict[str, Any]) -> Iterator[str]:
    runtimes = ", ".join(f"{name} {version}" for name, version in results["runtimes"].items())
    yield f"{_HEAD}- Runtimes on the CPU: {runtimes}."
    for framework, exporters in _FRAMEWORKS.values():
        versions: dict[str, str] = {}
        for name in exporters:
            versions |= results["exporters"].get(name, {})
        if versions:
            packages = ", ".join(f"{name} {version}" for name, version in versions.items())
            yield f"- {framework}: {packages}."
    yield f"\n{_OTHER_VALUES}"
    yield from _wrong_exports(results)
    yield _NODES
    for package, (framework, exporters) in _FRAMEWORKS.items():
        yield f"### {framework}\n"
        yield from _table("line", *exporters.values())
        rows: dict[tuple[str, ...], list[str]] = {}
        for snippet in snippets(package):
            cells = [_nodes(results["exports"].get(f"{name}/{snippet.name}")) for name in exporters]
            if any(cells):
                rows.setdefault(tuple(cells), []).append(_code(snippet))
        yield from (_row("<br>".join(codes), *cells) for cells, codes in rows.items())
        yield ""
    yield _KEY
    not_loaded = {
        (export.exporter, export.snippet.name)
        for export in _exports(results, "valid")
        if "not loaded" in export.words
    }
    for case, text in _CASES.items():
        yield text
        omitted = set() if case == "valid" else not_loaded
        yield from _outcomes(list(_exports(results, case)), omitted)
    yield _DIFFERENCES
    yield from _differences(results)
    yield _TARGETS
    yield TARGETS.read_text(encoding="utf-8").strip()


def _exports(results: dict[str, Any], case: str) -> Iterator[_Export]:
    for package, (_, exporters) in _FRAMEWORKS.items():
        for snippet in snippets(package):
            for name, exporter in exporters.items():
                row = results["exports"].get(f"{name}/{snippet.name}", {})
                if case in row.get("cases", {}):
                    yield _Export(
                        exporter=exporter,
                        reason=snippet.reasons.get(name, ""),
                        snippet=snippet,
                        nodes=row["nodes"],
                        outcome=row["cases"][case],
                    )


def _wrong_exports(results: dict[str, Any]) -> Iterator[str]:
    yield from _table("line", "exporter", "indices", "result", "why")
    rows: dict[tuple[str, ...], list[str]] = {}
    for case in _CASES:
        for export in _exports(results, case):
            if export.is_wrong:
                raises = export.outcome["specification"] == "refused"
                effect, adjective = "error" if raises else "another value", _ADJECTIVES[case]
                row = (export.exporter, adjective, effect, export.reason)
                rows.setdefault(row, []).append(_code(export.snippet))
    yield from (_row("<br>".join(codes), *row) for row, codes in rows.items())
    yield ""


def _outcomes(exports: list[_Export], omitted: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the exports that differ from their framework, grouped by their outcomes."""
    rows: dict[tuple[str, ...], list[_Export]] = {}
    for export in exports:
        if export.is_listed and (export.exporter, export.snippet.name) not in omitted:
            rows.setdefault(export.words, []).append(export)
    agree = sum(export.agrees for export in exports)
    yield f"{agree} of {len(exports)} exports agree with their framework in every runtime.\n"
    if rows:
        yield from _table("framework", *_COLUMNS.values(), "exports")
    for (framework, specification, *runtimes), alike in rows.items():
        cells = [
            _WORDS[word] if word == specification else f"**{_WORDS[word]}**" for word in runtimes
        ]
        yield _row(_WORDS[framework], _WORDS[specification], *cells, _places(alike))
    if rows:
        yield ""


def _places(exports: list[_Export]) -> str:
    """Return the lines of some exports, or the number of exports by operator if there are many."""
    both = list(_FRAMEWORKS["torch"][1].values())
    codes: dict[str, list[str]] = {}
    for export in exports:
        codes.setdefault(_code(export.snippet), []).append(export.exporter)
    if len(codes) > _MOST_LINES:
        last = Counter(export.nodes[-1].partition(" ")[0] for export in exports)
        return f"{len(exports)}: {', '.join(f'{n} {name}' for name, n in last.most_common())}"
    return "<br>".join(
        f"{code} ({'both' if exporters == both else ', '.join(exporters)})"
        for code, exporters in codes.items()
    )


def _differences(results: dict[str, Any]) -> Iterator[str]:
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for case in _CASES:
        for export in _exports(results, case):
            for runtime, operator, status, rule in export.outcome.get("differences", []):
                if operator:
                    name = f"{_code(export.snippet)} ({export.exporter}, {_ADJECTIVES[case]})"
                    rows.setdefault((runtime, operator, status, rule), []).append(name)
    yield from _table("runtime", "operator", "outcome", "rule", "exports", "example")
    for (runtime, operator, status, rule), names in sorted(rows.items()):
        domain, _, name = operator.partition(" ")
        page = name.rpartition("-")[0].removesuffix("Update")
        anchor = f"{domain}-{name}".lower().replace(".", "-")
        link = f"[{name}](operators/{page}.md#{anchor})"
        count, version = str(len(set(names))), results["runtimes"][runtime]
        yield _row(f"{runtime} {version}", link, status, rule, count, names[0])


def _nodes(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if "refused" in row:
        return f"raises {row['refused'].partition(':')[0]}"
    return _counts(row["nodes"])


def _counts(nodes: list[str]) -> str:
    """Return the nodes with their numbers and without `axis`, which the line shows."""
    names = (re.sub(r" \(axis=-?\d+\)|axis=-?\d+, |, axis=-?\d+", "", node) for node in nodes)
    return ", ".join(
        f"{count} {name}" if count > 1 else name for name, count in Counter(names).items()
    )


def _code(snippet: Snippet) -> str:
    return f"`{'; '.join(snippet.python.strip().splitlines())}`"


def _table(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
