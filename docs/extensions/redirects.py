"""Write a page at each old URL that redirects to the new URL of its content."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.published import operators

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

MOVED = {
    "design": "project/index.html",
    "guide/index": "index.html",
    "guide/models-that-misbehave": "guide/compare-runtimes.html",
    "guide/torch-and-jax": "guide/torch.html",
    "project/contributing": "project/index.html",
    "reference/commands/completion": "reference/command-line.html",
    "reference/commands/doc": "operators/index.html",
    "reference/commands/draw": "reference/pictures.html",
    "reference/commands/gather": "reference/functions.html",
    "reference/commands/gather-elements": "reference/functions.html",
    "reference/commands/gather-nd": "reference/functions.html",
    "reference/commands/gather-ranges": "reference/functions.html",
    "reference/commands/ops": "operators/index.html",
    "reference/commands/scatter-elements": "reference/functions.html",
    "reference/commands/scatter-nd": "reference/functions.html",
    "reference/index": "reference/functions.html",
    "reference/testing": "conformance-cases.html",
}
_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={0}"><link rel="canonical" href="{0}">
<p>This page is now <a href="{0}">here</a>.</p></html>
"""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        for old, new in (*MOVED.items(), *_entries(app), *_operators()):
            page = Path(app.outdir, f"{old}.html")
            page.parent.mkdir(exist_ok=True)
            way = posixpath.relpath(new, posixpath.dirname(old) or ".")
            page.write_text(_PAGE.format(way), encoding="utf-8")


def _entries(app: Sphinx) -> Iterator[tuple[str, str]]:
    """Yield redirects for reference entries that used to have separate pages."""
    objects = app.env.domains.python_domain.objects
    for name, entry in objects.items():
        if entry.objtype in ("function", "class", "exception", "data") and not entry.aliased:
            old = f"reference/generated/{name}"
            if entry.docname != old and entry.docname.startswith("reference/"):
                yield old, f"{entry.docname}.html#{name}"


def _operators() -> Iterator[tuple[str, str]]:
    """Yield redirects for operator versions that used to have separate pages."""
    first = {op.row.kind: op.name for op in reversed(operators())}
    for kind, name in first.items():
        yield f"operators/{name}-compared", f"operators/{name}.html"
        for op in operators():
            if op.row.kind is kind and op.row.definition is None:
                anchor = f"{op.domain}-{op.name}-{op.version}"
                yield (
                    f"operators/{anchor}",
                    f"operators/{name}.html#{anchor.lower().replace('.', '-')}",
                )
