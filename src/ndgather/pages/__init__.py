"""Pages of operators: what a version says, examples that are run, and how versions differ."""

from __future__ import annotations

from ndgather import messages
from ndgather.pages import rule_texts
from ndgather.pages.document import (
    FORMATS,
    Code,
    Document,
    FieldList,
    Paragraph,
    Section,
    Table,
    render,
)
from ndgather.pages.operator_page import operator_document
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN

__all__ = ["FORMATS", "operator_page", "operator_table"]


def select(caller: str, name: str | None, domain: str | None) -> tuple[Operator, ...]:
    """Return every operator of a name, of a domain, of both, or of neither.

    Capitals, hyphens and underscores in the name do not matter.
    """
    in_domain = operators(domain=domain)
    if not in_domain:
        domains = list(dict.fromkeys(op.domain for op in operators()))
        raise messages.unknown_choice(caller, "domain", domain, domains)
    matches = tuple(op for op in in_domain if name is None or _key(op.name) == _key(name))
    if not matches:
        names = list(dict.fromkeys(op.name for op in in_domain))
        raise messages.unknown_choice(caller, "name", name, names)
    return matches


def find(
    caller: str,
    name: str,
    *,
    domain: str | None = None,
    version: int | None = None,
    opset: int | None = None,
) -> Operator:
    """Return `operator`; without a domain, of the default one or else the first that has it."""
    matches = select(caller, name, domain)
    domains = [op.domain for op in matches]
    domain = DEFAULT_DOMAIN if DEFAULT_DOMAIN in domains else domains[0]
    return operator(matches[0].name, domain=domain, version=version, opset=opset)


def counterpart(caller: str, here: Operator, wanted: str) -> Operator:
    """Return the operator of the kind of `here` that ``VERSION`` or ``DOMAIN:VERSION`` names."""
    known: dict[str, Operator] = {}
    for op in operators():
        if op.row.is_like(here.row):
            prefix = "" if op.domain == here.domain else f"{op.domain}:"
            known[f"{prefix}{op.version}"] = op
    domain, colon, version = wanted.rpartition(":")
    domain = ALIASES.get(domain, domain) if colon else here.domain
    key = version if domain == here.domain else f"{domain}:{version}"
    if key not in known:
        raise messages.unknown_choice(caller, "diff", wanted, list(known))
    return known[key]


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def operator_table(
    name: str | None = None, domain: str | None = None, *, format: str = "md", width: int = 80
) -> str:
    """Return a table of the operator versions of a name, of a domain, or of all.

    Parameters
    ----------
    name, domain : str, optional
        What to show.
    format : {"md", "json"}
    width : int
        How long a line of Markdown may be; 0 is no limit.

    Raises
    ------
    AttributeValueError
        There is no such operator, domain or format.
    """
    matches = select("ops", name, domain)
    first = matches[0]
    rows = tuple(
        (
            op.domain,
            f"`{op.name}`",
            str(op.version),
            rule_texts.NEGATIVE_IN_SHORT[op.row.index_rule.negative],
            rule_texts.OUTSIDE_IN_SHORT[op.row.index_rule.outside],
            ", ".join(attribute.name for attribute in op.row.attributes),
        )
        for op in matches
    )
    columns = (
        ("since", "the version of the domain that introduced it"),
        ("index", "the values that an index may have on an axis of size s"),
        (
            "others",
            "what other values do; where the text leaves that undefined, this package raises an "
            "error",
        ),
    )
    lead = (
        Paragraph(
            "Each line is one version of one operator. Its page has the rules, examples that were "
            "run, and the errors of the published text:"
        ),
        Code((f"ndgather doc {first.name} --domain {first.domain} --version {first.version}",)),
    )
    titles = ("domain", "operator", "since", "index", "others", "attributes")
    section = Section(f"{len(matches)} versions", (Table(titles, rows), FieldList(columns)))
    document = Document("Operators", lead, (section,))
    return render("ops", document, format=format, width=width)


def operator_page(
    name: str,
    domain: str | None = None,
    version: int | None = None,
    *,
    opset: int | None = None,
    diff: str | None = None,
    format: str = "md",
    width: int = 80,
) -> str:
    """Return the page of one operator version; its examples are run now.

    Parameters
    ----------
    name : str
        Capitals, hyphens and underscores do not matter.
    domain : str, optional
        The specification it is from; it may be left out where that is clear.
    version, opset : int, optional
        The version that introduced it, or the newest that this opset has; the newest of all
        without either.
    diff : str, optional
        A version to compare with, ``"12"``, also of another domain, ``"openvino:8"``.
    format : {"md", "json"}
    width : int
        How long a line of Markdown may be; 0 is no limit. Tables that are too wide are written as
        lists.

    Raises
    ------
    AttributeValueError
        There is no such operator, version or format.

    Examples
    --------
    >>> from ndgather import pages
    >>> for line in pages.operator_page("GatherND", diff="12").splitlines()[-5:]:
    ...     print(line)
    ## Differences from ai.onnx GatherND-12
    <BLANKLINE>
    | rule            | ai.onnx GatherND-13 | ai.onnx GatherND-12 |
    | --------------- | ------------------- | ------------------- |
    | types of `data` | also `bfloat16`     | none of these       |
    """
    here = find("doc", name, domain=domain, version=version, opset=opset)
    there = None if diff is None else counterpart("doc", here, diff)
    return render("doc", operator_document(here, there), format=format, width=width)
