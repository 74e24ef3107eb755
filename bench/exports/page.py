"""The page about exporters: what they write for a line of Python, and what runtimes make of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .lines import Line, lines
from .page_texts import CASES, KEY, LEAD, OTHER_VALUES, PARTS, WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = Path(__file__).parents[2] / "docs" / "exporters.md"
RESULTS = Path(__file__).with_name("results.json")

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
    "refused": "refuses",
    "value": "a value",
    "other": "another value",
    "crashed": "crashes",
    "not loaded": "does not load",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """One line written by one exporter, and what came of one case of its inputs."""

    exporter: str
    line: Line
    nodes: list[str]
    outcome: dict[str, Any]

    @property
    def why(self) -> str:
        names = {
            shown: name for _, all_of in _FRAMEWORKS.values() for name, shown in all_of.items()
        }
        return self.line.why.get(names[self.exporter], "")

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.outcome[each] for each in ("itself", *_COLUMNS))

    @property
    def changed(self) -> bool:
        """Whether the framework gives a value, and the nodes by their specification another."""
        refuses = self.outcome["itself"] == "refused"
        return not refuses and self.outcome["specification"] != "same"

    @property
    def agrees(self) -> bool:
        itself = "refused" if self.outcome["itself"] == "refused" else "same"
        return all(self.outcome[each] == itself for each in _COLUMNS)


def page(found: dict[str, Any]) -> str:
    return "\n".join(_page(found)) + "\n"


def _page(found: dict[str, Any]) -> Iterator[str]:
    yield LEAD + _versions(found)
    yield OTHER_VALUES
    yield from _changed(found)
    yield WRITTEN
    for package, (framework, exporters) in _FRAMEWORKS.items():
        yield f"### {framework}\n"
        yield from _table("line", *exporters.values())
        for line in lines(package):
            cells = [_written(found["exports"].get(f"{name}/{line.name}")) for name in exporters]
            if any(cells):
                yield _row(_code(line), *cells)
        yield ""
    for case, text in CASES.items():
        yield text
        yield from _case(found, case)
    yield KEY
    yield PARTS
    yield from _parting(found)


def _versions(found: dict[str, Any]) -> str:
    runtimes = ", ".join(f"{name} {version}" for name, version in found["runtimes"].items())
    exporters = [
        f"- {name}: {', '.join(f'{each} {version}' for each, version in versions.items())}."
        for name, versions in found["exporters"].items()
    ]
    return "\n".join([f"- Runtimes, on the CPU: {runtimes}.", *exporters, ""])


def _exports(found: dict[str, Any], case: str) -> Iterator[_Export]:
    for package, (_, exporters) in _FRAMEWORKS.items():
        for line in lines(package):
            for name, exporter in exporters.items():
                row = found["exports"].get(f"{name}/{line.name}", {})
                if case in row.get("cases", {}):
                    yield _Export(
                        exporter=exporter,
                        line=line,
                        nodes=row["nodes"],
                        outcome=row["cases"][case],
                    )


def _changed(found: dict[str, Any]) -> Iterator[str]:
    yield from _table("line", "exporter", "indices", "the nodes", "what is written", "why")
    for case in CASES:
        for each in _exports(found, case):
            if each.changed:
                does = "refuse" if each.outcome["specification"] == "refused" else "another value"
                nodes = _counted(each.nodes)
                yield _row(_code(each.line), each.exporter, case, does, nodes, each.why)
    yield ""


def _case(found: dict[str, Any], case: str) -> Iterator[str]:
    """Yield what is not as in the framework: a row for all exports that come out alike."""
    exports = list(_exports(found, case))
    grouped: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for each in exports:
        if not each.agrees:
            grouped.setdefault(each.words, {}).setdefault(_code(each.line), []).append(
                each.exporter
            )
    agree = sum(each.agrees for each in exports)
    yield f"{agree} of {len(exports)} exports do in every runtime what their framework does.\n"
    if grouped:
        yield from _table("framework", *_COLUMNS.values(), "exports")
    for words, where in grouped.items():
        itself = "refuses" if words[0] == "refused" else "a value"
        spec = words[1]
        shown = [_WORDS[each] if each == spec else f"**{_WORDS[each]}**" for each in words[1:]]
        yield _row(itself, *shown, "<br>".join(_places(where.items())))
    yield ""


def _places(where: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    both = list(_FRAMEWORKS["torch"][1].values())
    for code, exporters in where:
        yield f"{code} ({'both' if exporters == both else ', '.join(exporters)})"


def _parting(found: dict[str, Any]) -> Iterator[str]:
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for case in CASES:
        for each in _exports(found, case):
            for runtime, operator, status, rule in each.outcome.get("parts", []):
                if operator:
                    name = f"{_code(each.line)} ({each.exporter}, {case})"
                    grouped.setdefault((runtime, operator, status, rule), []).append(name)
    yield from _table("runtime", "operator", "what it does", "rule", "exports", "such as")
    for (runtime, operator, status, rule), names in sorted(grouped.items()):
        domain, _, name = operator.partition(" ")
        linked = f"[{name}](operators/{domain}-{name}.rst)"
        version = found["runtimes"][runtime]
        count = str(len(set(names)))
        yield _row(f"{runtime} {version}", linked, status, rule, count, "<br>".join(names[:2]))


def _written(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if "refused" in row:
        text, _, _ = row["refused"].partition("  [Caused by")
        return f"refuses: {text}".replace("|", "\\|")
    return _counted(row["nodes"])


def _counted(nodes: list[str]) -> str:
    return ", ".join(
        f"{count} {name}" if count > 1 else name for name, count in Counter(nodes).items()
    )


def _code(line: Line) -> str:
    return f"`{'; '.join(line.python.strip().splitlines())}`"


def _table(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
