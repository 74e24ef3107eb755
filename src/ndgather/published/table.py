"""Every operator that is known, and how one is found by name, domain, version and opset."""

from __future__ import annotations

from ndgather.errors import operator_errors
from ndgather.published.callables import Operator
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN, ROWS

_OPERATORS = tuple(Operator(row) for row in ROWS)


def operators(name: str | None = None, domain: str | None = None) -> tuple[Operator, ...]:
    """Return every operator of the table, or those of a name, of a domain, or of both."""
    if domain is not None:
        domain = ALIASES.get(domain, domain)
    return tuple(
        each for each in _OPERATORS if name in {None, each.name} and domain in {None, each.domain}
    )


def operator(
    name: str,
    *,
    domain: str = DEFAULT_DOMAIN,
    version: int | None = None,
    opset: int | None = None,
) -> Operator:
    """Return one version of an operator.

    Parameters
    ----------
    name : str
        The name of the operator, such as ``"GatherND"``.
    domain : str
        The specification it is from.
    version : int, optional
        The version that brought it. Without it the newest is returned.
    opset : int, optional
        The newest version that this version of the domain has.

    Raises
    ------
    AttributeValueError
        There is no such operator.
    """
    found = {each.version: each for each in operators(name, domain)}
    if not found:
        known = sorted({each.name for each in operators(domain=domain)})
        raise operator_errors.unknown_operator(name, domain, known)
    if version is not None and opset is not None:
        raise operator_errors.version_and_opset(version, opset)
    if version is not None and version not in found:
        raise operator_errors.unknown_version(name, domain, "version", version, sorted(found))
    if opset is not None and opset < min(found):
        raise operator_errors.unknown_version(name, domain, "opset", opset, sorted(found)[:1])
    if version is None:
        version = max(each for each in found if opset is None or each <= opset)
    return found[version]
