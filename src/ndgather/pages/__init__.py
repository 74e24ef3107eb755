"""Pages of operators: what a version says, examples that are run, and how versions differ."""

from ndgather.pages.catalog import operator_page, operator_table
from ndgather.pages.writers import FORMATS  #: The formats of a page.

__all__ = ["FORMATS", "operator_page", "operator_table"]
