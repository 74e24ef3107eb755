"""Pages as text in any format: the functions behind the commands ``ops`` and ``doc``."""

from __future__ import annotations

from ndgather.pages.formats import TERMINAL, render
from ndgather.pages.lookup import counterpart, find, select
from ndgather.pages.operator_page import operator_document
from ndgather.pages.operator_table import table_document


def operator_table(
    name: str | None = None,
    domain: str | None = None,
    *,
    format: str = TERMINAL,
    width: int = 80,
    color: bool = False,
) -> str:
    """Return a table of the operator versions of a name, of a domain, or of all.

    Parameters
    ----------
    name, domain : str, optional
        What to show.
    format : {"text", "md", "rst", "html", "json"}
    width : int
        How long a line of the format text may be.
    color : bool
        Whether the format text has escape sequences for colours.

    Raises
    ------
    AttributeValueError
        There is no such operator, domain or format.
    """
    document = table_document(select("ops", name, domain))
    return render("ops", document, format=format, width=width, color=color)


def operator_page(
    name: str,
    domain: str | None = None,
    version: int | None = None,
    *,
    opset: int | None = None,
    diff: str | None = None,
    format: str = TERMINAL,
    width: int = 80,
    color: bool = False,
) -> str:
    """Return the page of one operator version; its examples are run now.

    Parameters
    ----------
    name : str
        Capitals, hyphens and underscores do not matter.
    domain : str, optional
        The specification it is from; it may be left out where that is clear.
    version, opset : int, optional
        The version that brought it, or the newest that this opset has; the newest of all
        without either.
    diff : str, optional
        A version to compare with, ``"12"``, also of another domain, ``"openvino:8"``.
    format : {"text", "md", "rst", "html", "json"}
    width : int
        How long a line of the format text may be.
    color : bool
        Whether the format text has escape sequences for colours.

    Raises
    ------
    AttributeValueError
        There is no such operator, version or format.

    Examples
    --------
    >>> from ndgather import pages
    >>> for line in pages.operator_page("GatherND", diff="12").splitlines()[-4:]:
    ...     print(line)
    Differences from ai.onnx GatherND-12
      rule           ai.onnx GatherND-13  ai.onnx GatherND-12
      -------------  -------------------  -------------------
      types of data  also bfloat16        none of these
    """
    operator = find("doc", name, domain=domain, version=version, opset=opset)
    other = None if diff is None else counterpart("doc", operator, diff)
    document = operator_document(operator, other)
    return render("doc", document, format=format, width=width, color=color)
