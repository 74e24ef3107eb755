"""Draw calls on pages: with the directive ``picture``, and for the first example of functions.

The content of the directive is Python code whose last line evaluates to a picture; `np`, `ndgather`
and `show` are imported. It runs when Sphinx reads the page, so an invalid call fails the build. The
call is also written below the picture; the option ``of`` replaces this text.
"""

from __future__ import annotations

import ast
import doctest
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

import example_pictures
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import ndgather
from ndgather import show
from ndgather.array_call import Call

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

    from ndgather.show import Picture

_OTHER = "example_pictures"
_SHOWN = [name for name in show.__all__ if name not in ("Picture", "style_sheet")]

# Functions and methods -> the function that draws a call, given the same arguments.
DRAWN = {
    **{f"ndgather.{name}": f"show.{name}" for name in _SHOWN},
    **{f"ndgather.vjp.{name}": f"{_OTHER}.vjp.{name}" for name in vars(example_pictures.vjp)},
    "ndgather.models.onnx.run": f"{_OTHER}.onnx_run",
    "ndgather.models.onnx.compare": f"{_OTHER}.onnx_run",
    "ndgather.models.openvino.run": f"{_OTHER}.openvino_run",
    "ndgather.stored.estimate": f"{_OTHER}.estimate",
    "ndgather.arrays.xarray.Accessor.sel": f"{_OTHER}.sel",
    "ndgather.arrays.xarray.Accessor.isel": f"{_OTHER}.isel",
    "ndgather.arrays.xarray.Accessor.add_at": f"{_OTHER}.add_at",
}
OPERATORS = {
    f"ndgather.{name}" for name in ("operator", "Operator", "Operator.__call__", "Operator.show")
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", PictureDirective)
    app.add_directive("playground", PlaygroundDirective)
    app.connect("config-inited", _write_style_sheet)
    app.connect("autodoc-process-docstring", _add_first_example, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class PictureDirective(SphinxDirective):
    """Insert the picture that the last line of the content evaluates to."""

    has_content = True
    option_spec: ClassVar = {"of": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        picture, fields = _drawn(code)
        call = self.options.get("of", code.replace("show.", "ndgather.").replace(".show(", "("))
        block = nodes.literal_block(call, call, language="python", classes=["ndg-call"])
        drawn = [nodes.raw("", picture.to_html(style=False), format="html"), block]
        if fields:
            up = "../" * self.env.docname.count("/")
            address = f"{up}playground.html#{urlencode(fields)}"
            link = f'<a href="{html.escape(address)}">Open in the playground</a>'
            drawn.append(nodes.raw("", f'<p class="ndg-open">{link}</p>', format="html"))
        return drawn


_LARGEST = 100  # the maximum number of elements of an array in a link
_OPTIONS = ["axis", "batch_dims", "mode", "fill_value", "reduction", "use_init_val", "window_shape"]
_PLAYGROUND = Path(__file__).with_name("playground.html")


class PlaygroundDirective(SphinxDirective):
    """Insert the playground."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(_PLAYGROUND))
        return [nodes.raw("", _PLAYGROUND.read_text(encoding="utf-8"), format="html")]


def _write_style_sheet(app: Sphinx, config: Config) -> None:
    """Write the style sheet of all pictures."""
    folder = Path(app.doctreedir) / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pictures.css").write_text(show.style_sheet(), encoding="utf-8")
    config.html_static_path.append(str(folder))
    config.html_css_files.append("pictures.css")


def _drawn(code: str) -> tuple[Picture, dict[str, str]]:
    """Return the picture on the last line, with the playground fields for its call."""
    *before, last = ast.parse(code).body
    names: dict[str, Any] = {"np": np, "ndgather": ndgather, "show": show, _OTHER: example_pictures}
    exec(compile(ast.Module(before, []), "<picture>", "exec"), names)
    expression: ast.expr = last.value  # type: ignore[attr-defined]
    picture: Picture = eval(compile(ast.Expression(expression), "<picture>", "eval"), names)
    return picture, _playground_fields(picture._call)


def _playground_fields(call: Call | None) -> dict[str, str]:
    """Return the playground fields for a call; empty if the playground does not support it."""
    if call is None or (not call.negative and (np.asarray(call.indices) < 0).any()):
        return {}
    fields = {"function": call.kind}
    for name in ("data", "indices", "updates") if call.scatters else ("data", "indices"):
        array = np.asarray(getattr(call, name))
        if array.size > _LARGEST or array.dtype.kind not in "iufb":
            return {}
        if array.dtype.kind == "f":  # use the shortest representation, like NumPy
            array = np.array([float(str(value)) for value in array.flat]).reshape(array.shape)
        fields[name] = repr(array.tolist())
    default = Call("", "", None, None)
    for name in _OPTIONS:
        value = getattr(call, name)
        if value is not None and str(value) != str(getattr(default, name)):
            fields[name] = str(value)
    if isinstance(call.mode, tuple):
        fields |= {"mode": "axes", "modes": ",".join(call.mode)}
    return fields


def _add_first_example(
    _app: Sphinx, _what: str, name: str, _object: object, _options: object, lines: list[str]
) -> None:
    if name in DRAWN or name in OPERATORS:
        call, code = _first_call(name, "\n".join(lines))
        place = lines.index("Parameters")
        drawn = [".. picture::", f"   :of: {call}", "", *(f"   {line}" for line in code), ""]
        if name.startswith("ndgather.vjp."):
            drawn = ["The positions that the first example addresses, drawn as a call:", "", *drawn]
        lines[place:place] = drawn


def _first_call(name: str, docstring: str) -> tuple[str, list[str]]:
    """Return the first call of the examples, and the code up to it, modified to draw the call."""
    lines: list[str] = []
    operators: set[str] = set()
    for example in doctest.DocTestParser().get_examples(docstring):
        for statement in ast.parse(example.source).body:
            for node in ast.walk(statement):
                call = ast.unparse(node) if isinstance(node, ast.Call) else ""
                if call and _draws(name, node, operators):
                    return call.replace("\n", " "), [*lines, *ast.unparse(node).splitlines()]
            lines += ast.unparse(statement).splitlines()
            if isinstance(statement, ast.Assign) and "operator(" in ast.unparse(statement.value):
                operators.add(ast.unparse(statement.targets[0]))
    raise ValueError(f"{name}: no example calls it")


def _draws(name: str, call: ast.Call, operators: set[str]) -> bool:
    """Modify a call of the function `name` to draw it; return whether `call` is such a call."""
    written = ast.unparse(call.func)
    if name in OPERATORS:
        if written in operators:
            call.func = ast.Attribute(call.func, "show", ast.Load())
        return written.removesuffix(".show") in operators
    if written.rpartition(".")[2] != name.rpartition(".")[2]:
        return False
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Attribute):
        receiver = call.func.value  # `array.ndgather`, or a module
        if receiver.attr == "ndgather":
            call.args.insert(0, receiver.value)
    call.func = ast.parse(DRAWN[name], mode="eval").body
    return True
