"""Pictures of calls on pages: ``picture`` draws a call, and a function's page its first example.

The content of the directive is Python, whose last line is a picture; `np`, `ndgather` and `show`
are there. It is run when the page is read, so a call that is wrong fails the build.
"""

from __future__ import annotations

import ast
import doctest
from typing import TYPE_CHECKING, Any

import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import ndgather
from ndgather import show

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from ndgather.show import Picture

DRAWN = {name: f"show.{name}" for name in show.__all__ if name != "Picture"}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", PictureDirective)
    app.connect("autodoc-process-docstring", _add_first_example, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class PictureDirective(SphinxDirective):
    """Draw what the last line of the content is."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", _drawn("\n".join(self.content)).to_html(), format="html")]


def _drawn(code: str) -> Picture:
    *before, last = ast.parse(code).body
    names: dict[str, Any] = {"np": np, "ndgather": ndgather, "show": show}
    exec(compile(ast.Module(before, []), "<picture>", "exec"), names)
    expression = ast.Expression(last.value)  # type: ignore[attr-defined]
    picture: Picture = eval(compile(expression, "<picture>", "eval"), names)
    return picture


def _add_first_example(
    _app: Sphinx, what: str, name: str, _object: object, _options: object, lines: list[str]
) -> None:
    module, _, function = name.rpartition(".")
    if what != "function" or module != "ndgather" or function not in DRAWN:
        return
    code = _first_call(function, "\n".join(lines))
    place = lines.index("Parameters")
    lines[place:place] = [".. picture::", "", *(f"   {line}" for line in code), ""]


def _first_call(function: str, docstring: str) -> list[str]:
    """Return the lines of the examples up to the first call, which is replaced by its picture."""
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(docstring):
        for statement in ast.parse(example.source).body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(function):
                    node.func = ast.parse(DRAWN[function], mode="eval").body
                    return [*lines, *ast.unparse(node).splitlines()]
            lines += ast.unparse(statement).splitlines()
    raise ValueError(f"{function}: no example calls it")
