"""The site: `make docs` builds it, without a network; a warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from ndgather.version import __version__

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

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
    "operator_pages",
    "pictures",
]

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["extensions", "templates"]
templates_path = ["templates"]

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings say more: shapes, and which values
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
default_role = "code"
pygments_style = "a11y-light"

html_theme = "pydata_sphinx_theme"
html_title = f"ndgather {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "ndgather"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
