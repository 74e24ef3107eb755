"""The site. `make docs` builds it without a network; warnings are errors."""

from __future__ import annotations

import gc
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes

from ndgather import __version__

sys.path.insert(0, str(Path(__file__).parents[1]))  # has conformance/
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

if TYPE_CHECKING:
    from sphinx.application import Sphinx

gc.disable()  # pages live until the end: collecting garbage takes a sixth of the build

project = "ndgather"
author = "the ndgather authors"
project_copyright = "the ndgather authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "command_pages",
    "conformance_map",
    "operator_pages",
    "pictures",
    "redirects",
    "reference_entries",
    "target_pages",
]

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["design.md", "extensions", "templates"]  # the design is for contributors
templates_path = ["templates"]

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
myst_heading_slug_func = "docutils.nodes.make_id"  # links use the anchors of the pages

autodoc_typehints = "none"  # the docstrings also describe shapes and values
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
default_role = "code"
smartquotes = False  # in many places, -- is an option and "" is code
pygments_style = "a11y-light"

_BENCHMARKS = ("benchmarks", "benchmarks-cases", "benchmarks-stored")
WIDE = (*_BENCHMARKS, "conformance", "exporters", "kinds", "security")

html_baseurl = os.environ.get("SITE", "")  # set for a release: https://.../
html_favicon = "static/favicon.svg"
repository = os.environ.get("REPOSITORY", "").rstrip("/")  # set for a release: https://.../ndgather
html_context = {"default_mode": "auto", "repository": repository}
html_sidebars = {"**": ["site-nav.html"]}
html_theme = "pydata_sphinx_theme"
html_title = "ndgather: gather and scatter for Python"
html_short_title = f"ndgather {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_search_scorer = str(Path(__file__).parent / "extensions" / "search_scorer.js")
html_use_index = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": f"ndgather {__version__}"},
    "navbar_align": "left",
    "navbar_center": [],  # the pages are on the left
    "navbar_end": ["project-links", "theme-switcher"],
    "show_prev_next": True,
    # The last pattern that matches a page wins.
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in WIDE}},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


_PROSE = 40  # characters of a cell in a column of prose


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", _finish_page)
    app.connect("source-read", _with_repository)
    app.connect("doctree-read", _without_last_blank_line)
    app.connect("doctree-read", _mark_prose)


def _with_repository(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Insert the URLs of the repository and the site, which the environment of a release sets."""
    link = "[the repository](REPOSITORY)"
    known = link.replace("REPOSITORY", repository) if repository else "the repository"
    source[0] = source[0].replace(link, known)
    source[0] = source[0].replace("_static/social.png", f"{html_baseurl}_static/social.png")


_TEST = re.compile(
    r'<a class="reference download[^>]*( href="[^"]+")><span[^>]*>(test_\w+)</span></a>'
)


def _finish_page(
    _app: Sphinx, page: str, _template: str, context: dict[str, Any], _document: object
) -> None:
    """Shorten the title of the start page, and replace the names of tests by numbers."""
    if page == "index":
        context.update(title=html_title, docstitle="")
    if body := context.get("body"):
        runs = re.compile(rf"{_TEST.pattern}(?:,\s+{_TEST.pattern})*")
        context["body"] = runs.sub(_numbered, body)


def _numbered(run: re.Match[str]) -> str:
    tests = _TEST.findall(run[0])
    links = [
        f'<a{href} download title="{name}" aria-label="{name}">{number}</a>'
        for number, (href, name) in enumerate(tests, 1)
    ]
    return f'<span class="tests">test{"s" * (len(tests) > 1)} {" ".join(links)}</span>'


def _mark_prose(_app: Sphinx, document: nodes.document) -> None:
    """Mark table columns with prose, because their cells need a minimum width."""
    for table in document.findall(nodes.table):
        rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
        for column in zip(*rows, strict=False):
            is_names = column[0].astext() == "test"  # of which numbers remain
            if max(len(cell.astext()) for cell in column) > _PROSE and not is_names:
                for cell in column:
                    cell["classes"].append("prose")


def _without_last_blank_line(_app: Sphinx, document: nodes.document) -> None:
    """Remove the blank line at the end of a doctest."""
    for block in document.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")
        block.rawsource = text
        block.children = [nodes.Text(text)]
