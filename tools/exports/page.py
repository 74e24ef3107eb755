"""The page about exporters: the nodes that they write, and what every runtime does with them."""

from __future__ import annotations

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

Exporters translate a line of Python that gathers or scatters into nodes of ONNX, which have rules
of their own. This page shows the nodes that each exporter writes for a line, and the results for
indices that are negative, past the end or repeated: in the framework itself, by the specification
of ONNX, and in each runtime. `make exports EXPORTS=--page` exports every line, runs the models and
writes this page.

"""
_OTHER_VALUES = """\
## Where the exported model is wrong

The framework returns a value, and a conforming runtime returns a different value for the exported
nodes, or an error. No runtime can correct that. In the framework, make indices positive before the
line (`i % n`), and the indices of sums unique; or write the line so that another operator is
exported.
"""
_NODES = """\
## Which nodes are written

The nodes with their versions, and with attributes that are not the default in parentheses. Gathers
from shapes are omitted. If a model has no node with indices, the row lists its other nodes.
"""
_TARGETS = """
## What restricted targets take

[`ndgather convert --target`](guide/restricted-targets.md) rewrites gathers and scatters for
runtimes that take only some of them. These tables count nodes of the models above that PyTorch
exported. After `make exports`, `build/runtimes/bin/python -m tools.targets` measures them, and
`make exports EXPORTS=--from-results` writes them here.
"""
_CASES = {
    "negative": """\
## Negative indices

The last entries count from the end: -1 is the last row. Gather, GatherElements, GatherND,
ScatterElements and ScatterND of ONNX accept such indices since version 11; frameworks do not accept
them in every function.
""",
    "outside": """\
## Indices past the end

One entry is the size of its axis. The specification of ONNX makes that an error. A runtime that
returns a value has read or written something else: zeros, another element, or memory that does not
belong to the tensor. OpenVINO with one thread (`INFERENCE_NUM_THREADS`) checks less than with
several threads.
""",
    "repeated": """\
## Repeated indices

All entries are 1. A gather reads an element as often as its index occurs. With a reduction every
update counts; without a reduction the specification does not define which update remains.
""",
    "valid": """\
## Valid indices

Indices within their axes; for scikit-learn, the predictions of a model for new rows. Values are the
same if they differ by at most 1e-4 of the largest value. OpenVINO has no conversion rule for the
operators of ai.onnx.ml and the functions that skl2onnx writes.
""",
}
_KEY = """\
*Same* is the value of the framework itself, *another value* differs from it, and *a value* is
returned where the framework raises. *Specification* is the result of the nodes by ndgather's
operators; runtimes that differ from it are bold. *Reference* is the evaluator of the onnx package.
"""
_DIFFERENCES = """\
## Where a runtime differs from the specification

The output of `ndgather compare` for these models. The [page of an operator](operators/index.md)
has its rules; [ONNX models](guide/models.md#compare-runtimes) explains what to do.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """The model of one snippet by one exporter, and the outcome of one case of its inputs."""

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
        """Whether the framework returns a value, and the specification requires another result."""
        itself, specification = self.words[:2]
        return itself != "refused" and specification != "same"

    @property
    def agrees(self) -> bool:
        itself = "refused" if self.outcome["itself"] == "refused" else "same"
        return all(self.outcome[name] == itself for name in _COLUMNS)


def page(results: dict[str, Any]) -> str:
    return "\n".join(_page(results)) + "\n"


def _page(results: dict[str, Any]) -> Iterator[str]:
    runtimes = ", ".join(f"{name} {version}" for name, version in results["runtimes"].items())
    yield f"{_HEAD}- Runtimes, on the CPU: {runtimes}."
    for exporter, versions in results["exporters"].items():
        packages = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield f"- {exporter}: {packages}."
    yield f"\n{_OTHER_VALUES}"
    yield from _wrong_exports(results)
    yield _NODES
    for package, (framework, exporters) in _FRAMEWORKS.items():
        yield f"### {framework}\n"
        yield from _table("line", *exporters.values())
        for snippet in snippets(package):
            cells = [_nodes(results["exports"].get(f"{name}/{snippet.name}")) for name in exporters]
            if any(cells):
                yield _row(_code(snippet), *cells)
        yield ""
    for case, text in _CASES.items():
        yield text
        yield from _outcomes(list(_exports(results, case)))
    yield _KEY
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
    yield from _table("line", "exporter", "indices", "the nodes", "what is written", "why")
    for case in _CASES:
        for export in _exports(results, case):
            if export.is_wrong:
                raises = export.outcome["specification"] == "refused"
                effect = "raise" if raises else "another value"
                nodes, code = _counts(export.nodes), _code(export.snippet)
                yield _row(code, export.exporter, case, effect, nodes, export.reason)
    yield ""


def _outcomes(exports: list[_Export]) -> Iterator[str]:
    """Yield the exports that differ from their framework: a row for all with the same outcomes."""
    both = list(_FRAMEWORKS["torch"][1].values())
    rows: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for export in exports:
        if not export.agrees:
            codes = rows.setdefault(export.words, {})
            codes.setdefault(_code(export.snippet), []).append(export.exporter)
    agree = sum(export.agrees for export in exports)
    yield f"{agree} of {len(exports)} exports behave in every runtime as in their framework.\n"
    if rows:
        yield from _table("framework", *_COLUMNS.values(), "exports")
    for (framework, specification, *runtimes), codes in rows.items():
        cells = [
            _WORDS[word] if word == specification else f"**{_WORDS[word]}**" for word in runtimes
        ]
        places = [
            f"{code} ({'both' if exporters == both else ', '.join(exporters)})"
            for code, exporters in codes.items()
        ]
        yield _row(_WORDS[framework], _WORDS[specification], *cells, "<br>".join(places))
    yield ""


def _differences(results: dict[str, Any]) -> Iterator[str]:
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for case in _CASES:
        for export in _exports(results, case):
            for runtime, operator, status, rule in export.outcome.get("differences", []):
                if operator:
                    name = f"{_code(export.snippet)} ({export.exporter}, {case})"
                    rows.setdefault((runtime, operator, status, rule), []).append(name)
    yield from _table("runtime", "operator", "what it does", "rule", "exports", "such as")
    for (runtime, operator, status, rule), names in sorted(rows.items()):
        domain, _, name = operator.partition(" ")
        page = name.rpartition("-")[0].removesuffix("Update")
        anchor = f"{domain}-{name}".lower().replace(".", "-")
        link = f"[{name}](operators/{page}.md#{anchor})"
        count, examples = str(len(set(names))), "<br>".join(names[:2])
        yield _row(f"{runtime} {results['runtimes'][runtime]}", link, status, rule, count, examples)


def _nodes(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if "refused" in row:
        error, _, _ = row["refused"].partition("  [Caused by")
        return f"raises: {error}".replace("|", "\\|")
    return _counts(row["nodes"])


def _counts(nodes: list[str]) -> str:
    return ", ".join(
        f"{count} {name}" if count > 1 else name for name, count in Counter(nodes).items()
    )


def _code(snippet: Snippet) -> str:
    return f"`{'; '.join(snippet.python.strip().splitlines())}`"


def _table(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
