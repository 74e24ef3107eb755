"""Pages as text in any format: the functions behind the commands ``ops`` and ``doc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import option_errors
from ndgather.pages import document
from ndgather.pages.document import (
    Code,
    Document,
    Facts,
    Paragraph,
    Section,
    Table,
    Text,
    code,
    plain,
    prose,
)
from ndgather.pages.formats import TERMINAL, render
from ndgather.pages.operator_page import operator_document
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.published.schema import OperatorVersion


_COLUMNS = (
    ("since", plain("the version of the domain that brought it")),
    ("index", plain("the values that an index may have on an axis of size s")),
    (
        "others",
        plain(
            "what other values come to; where the text leaves that undefined, this package "
            "raises an error"
        ),
    ),
)


def table_document(operators: Sequence[Operator]) -> Document:
    """Return a page with one line for each of `operators`."""
    first = operators[0]
    return Document(
        title="Operators",
        lead=(
            Paragraph(
                plain(
                    "Each line is one version of one operator. Its page has the rules, "
                    "examples that were run, and the errors of the published text:"
                )
            ),
            Code((f"ndgather doc {first.name} --domain {first.domain} --version {first.version}",)),
        ),
        sections=(
            Section(
                title=f"{len(operators)} versions",
                blocks=(
                    Table(
                        titles=(
                            "domain",
                            "operator",
                            "since",
                            "index",
                            "others",
                            "attributes",
                        ),
                        rows=tuple(_row(each.row) for each in operators),
                    ),
                    Facts(_COLUMNS),
                ),
            ),
        ),
    )


def _row(row: OperatorVersion) -> tuple[Text, ...]:
    return (
        plain(row.domain),
        code(row.name),
        plain(str(row.since)),
        prose(document.NEGATIVE_IN_SHORT[row.index_rule.negative]),
        plain(document.OUTSIDE_IN_SHORT[row.index_rule.outside]),
        plain(", ".join(each.name for each in row.attributes)),
    )


def select(caller: str, name: str | None, domain: str | None) -> tuple[Operator, ...]:
    """Return every operator of a name, of a domain, of both, or of neither.

    Capitals, hyphens and underscores in the name do not matter.

    Raises
    ------
    AttributeValueError
        There is none.
    """
    within = operators(domain=domain)
    if not within:
        domains = list(dict.fromkeys(each.domain for each in operators()))
        raise option_errors.unknown_choice(caller, "domain", domain, domains)
    found = tuple(each for each in within if name is None or _key(each.name) == _key(name))
    if not found:
        names = list(dict.fromkeys(each.name for each in within))
        raise option_errors.unknown_choice(caller, "name", name, names)
    return found


def find(
    caller: str,
    name: str,
    *,
    domain: str | None = None,
    version: int | None = None,
    opset: int | None = None,
) -> Operator:
    """Return the operator of that name, as `operator` does.

    Without a domain it is the default one if that has the name, else the first that has it.

    Raises
    ------
    AttributeValueError
        There is no such operator.
    """
    found = select(caller, name, domain)
    domains = [each.domain for each in found]
    domain = DEFAULT_DOMAIN if DEFAULT_DOMAIN in domains else domains[0]
    return operator(found[0].name, domain=domain, version=version, opset=opset)


def counterpart(caller: str, here: Operator, wanted: str) -> Operator:
    """Return what ``VERSION`` or ``DOMAIN:VERSION`` names.

    It is what does the same as `here`, whatever its name.

    Raises
    ------
    AttributeValueError
        There is no such operator; the text lists those there are.
    """
    known: dict[str, Operator] = {}
    for each in operators():
        if each.row.kind is here.row.kind:
            prefix = "" if each.domain == here.domain else f"{each.domain}:"
            known[f"{prefix}{each.version}"] = each
    domain, colon, version = wanted.rpartition(":")
    domain = ALIASES.get(domain, domain) if colon else here.domain
    spelled = version if domain == here.domain else f"{domain}:{version}"
    if spelled not in known:
        raise option_errors.unknown_choice(caller, "diff", wanted, list(known))
    return known[spelled]


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


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
