"""Directives for reference pages.

``entries`` documents several public names, given on separate lines, after a list of links to them.
``from-source`` documents a function or class from its source, without importing its module, which
may need a library that is not installed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils.parsers.rst import directives
from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.docutils import SphinxDirective

import ndgather

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

# Public methods that are meant only for other modules of the package.
_INTERNAL = {
    "ndgather.ChunkCache": "array_info, clear_array, abandon, read, missing, change",
    "ndgather.array_call.Call": "named, run, arguments, repeatable",
}
_HOME = Path(ndgather.__file__).parent


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("entries", Entries)
    app.add_directive("from-source", FromSource)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Entries(SphinxDirective):
    """Document each name of the content by its docstring."""

    has_content = True
    option_spec: ClassVar = {"brief": directives.flag}  # only the summary lines of functions

    def run(self) -> list[nodes.Node]:
        lines = [", ".join(f":py:obj:`{_short(name)} <{name}>`" for name in self.content)]
        for name in self.content:
            module, _, attribute = name.rpartition(".")
            found = getattr(importlib.import_module(module), attribute)
            kind = "function" if inspect.isroutine(found) else "data"
            if inspect.isclass(found):
                kind = "exception" if issubclass(found, BaseException) else "class"
            if kind == "function" and "brief" in self.options:
                summary = (inspect.getdoc(found) or "").partition("\n")[0]
                lines += [
                    "",
                    f".. py:function:: {name}{inspect.signature(found)}",
                    "",
                    f"   {summary}",
                ]
                continue
            lines += ["", f".. auto{kind}:: {name}"]
            if kind in ("class", "exception"):
                lines += ["   :members:", "   :special-members: __call__"]
            if name in _INTERNAL:
                lines += [f"   :exclude-members: {_INTERNAL[name]}"]
        return self.parse_text_to_nodes("\n".join(lines))


def _short(name: str) -> str:
    """Return a name without the package and well-known subpackages."""
    return name.removeprefix("ndgather.").removeprefix("testing.").removeprefix("models.")


class FromSource(SphinxDirective):
    """Document a function or class constructor by the docstring in the source file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        found = _statement(name)
        text = ast.get_docstring(found) or ""
        if isinstance(found, ast.ClassDef):
            found = next(
                each
                for each in found.body
                if isinstance(each, ast.FunctionDef) and each.name == "__init__"
            )
        given = (*found.args.args, *found.args.kwonlyargs)
        arguments = ", ".join(each.arg for each in given if each.arg != "self")
        lines = NumpyDocstring(text, self.config, what="function").lines()
        indented = (f"   {line}" for line in lines)
        entry = "\n".join((f".. py:function:: {name}({arguments})", "", *indented, ""))
        return self.parse_text_to_nodes(entry)


def _statement(name: str) -> ast.FunctionDef | ast.ClassDef:
    _, *packages, wanted = name.split(".")
    home = _HOME.joinpath(*packages)
    (found,) = (
        statement
        for file in sorted(home.glob("*.py")) or [home.with_suffix(".py")]
        for statement in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) and statement.name == wanted
    )
    return found
