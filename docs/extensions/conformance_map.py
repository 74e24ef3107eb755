"""The map on the conformance page: a column of colored cells and the details of each case.

The arguments of ``conformance`` are the names of the libraries. Each line of its content has the
name of a case and a symbol for each library. A separate script has the rule, source and call of
each case, which site.js shows if the URL names the case.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance_calls import call
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from conformance import Case, load
from ndgather.published import operators

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sphinx.application import Sphinx
    from sphinx.config import Config

# The symbols of conformance.report, with a CSS class and a text for each.
VERDICTS = {
    "✓": ("right", "right"),
    "≠": ("wrong", "returns a wrong value"),
    "!": ("accepts", "accepts a forbidden call"),
    "✗": ("refuses", "raises for a valid call"),
    "☠": ("crash", "crashes or hangs"),
    "·": ("cannot", "has no such call"),
}
_CONTROL = """\
<p class="conf-filter"><label><input type="checkbox" id="only-different">
only where they differ</label></p>
"""


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("conformance", ConformanceMap)
    app.connect("config-inited", _write_cases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class ConformanceMap(SphinxDirective):
    """Insert the map."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        libraries = self.arguments[0].split()
        found = dict(line.split(" ") for line in self.content)
        groups: dict[str, list[Case]] = {}
        for case in load():
            groups.setdefault(str(case.operator), []).append(case)
        drawn = (_group(title, cases, found, libraries) for title, cases in groups.items())
        parts = [_CONTROL, *drawn]
        parts.append('<script src="_static/conformance-cases.js"></script>')
        return [nodes.raw("", "\n".join(parts), format="html")]


def _group(
    title: str, cases: Sequence[Case], found: Mapping[str, str], libraries: Sequence[str]
) -> str:
    names = "".join(f"<span>{name}</span>" for name in libraries)
    columns = "".join(_column(case, found[case.name], libraries) for case in cases)
    return (
        f'<section class="conf-group"><h3 class="conf-title">{html.escape(title)}</h3>'
        f'<div class="conf-row"><div class="conf-names" aria-hidden="true">{names}</div>'
        f'<div class="conf-cells">{columns}</div></div></section>'
    )


def _column(case: Case, symbols: str, libraries: Sequence[str]) -> str:
    cells = "".join(f'<i class="v-{VERDICTS[symbol][0]}"></i>' for symbol in symbols)
    wrong = [
        f"{name} {VERDICTS[symbol][1]}"
        for name, symbol in zip(libraries, symbols, strict=True)
        if symbol not in "✓·"
    ]
    text = html.escape(
        f"{case.name}: must be {case.expected}; {', '.join(wrong) or 'all are right'}"
    )
    differs = " data-differs" if wrong else ""
    return (
        f'<a id="{case.name}" href="#{case.name}" data-verdicts="{symbols}" title="{text}" '
        f'aria-label="{text}"{differs}>{cells}</a>'
    )


def _write_cases(app: Sphinx, config: Config) -> None:
    folder = Path(app.doctreedir) / "conformance"
    folder.mkdir(parents=True, exist_ok=True)
    cases = {case.name: _details(case) for case in load()}
    verdicts = {symbol: words for symbol, (_, words) in VERDICTS.items()}
    text = f"globalThis.conformance = {json.dumps({'cases': cases, 'verdicts': verdicts})};\n"
    (folder / "conformance-cases.js").write_text(text, encoding="utf-8")
    config.html_static_path.append(str(folder))


def _details(case: Case) -> dict[str, Any]:
    rule = f"“{case.rule.text}”" if case.rule.quoted else case.rule.text
    details = {"must be": str(case.expected), "rule": rule, "source": case.rule.source}
    details |= {"call": call(case)} | ({"seen": case.report} if case.report else {})
    families = {op.row.kind: op.name for op in reversed(operators())}
    for op in operators():
        if (op.domain, op.name, op.version) == (
            case.operator.domain,
            case.operator.name,
            case.operator.version,
        ):
            anchor = str(op.row).lower().replace(" ", "-").replace(".", "-")
            details["page"] = f"operators/{families[op.row.kind]}.html#{anchor}"
    return details
