"""Pages of operators: what a version says, examples that are run, and how versions differ."""

from ndgather.pages import formats
from ndgather.pages.catalog import operator_page, operator_table

__all__ = ["FORMATS", "operator_page", "operator_table"]

#: The formats that a page can be written in.
FORMATS = formats.FORMATS
