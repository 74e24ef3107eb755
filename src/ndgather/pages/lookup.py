"""From what somebody typed to an operator: names in any case, domains that go without saying."""

from __future__ import annotations

from ndgather import errors
from ndgather.dialects import ALIASES, DEFAULT_DOMAIN
from ndgather.operators import Operator, operator, operators


def find(
    name: str, *, domain: str | None = None, version: int | None = None, opset: int | None = None
) -> Operator:
    """Return the operator of that name, as `operator` does.

    Capitals, hyphens and underscores in the name do not matter. Without a domain it is the
    default one, if it has the name, or the one domain that has it.

    Raises
    ------
    AttributeValueError
        There is no such operator.
    """
    found = [each for each in operators(domain=domain) if _key(each.name) == _key(name)]
    domains = list(dict.fromkeys(each.domain for each in found))
    if domain is None:
        domain = domains[0] if len(domains) == 1 else DEFAULT_DOMAIN
    spelled = found[0].name if found else name
    return operator(spelled, domain=domain, version=version, opset=opset)


def select(name: str | None, domain: str | None) -> tuple[Operator, ...]:
    """Return every operator of a name, of a domain, or of both.

    Raises
    ------
    AttributeValueError
        There is none.
    """
    found = tuple(
        each for each in operators(domain=domain) if name is None or _key(each.name) == _key(name)
    )
    if not found:
        known = sorted({each.name for each in operators(domain=domain)})
        raise errors.unknown_operator(name or "", domain or "", known)
    return found


def counterpart(here: Operator, place: str) -> Operator:
    """Return what ``[DOMAIN:]VERSION`` names, seen from `here`: its like of that version.

    In a domain where nothing has the name of `here`, it is what does the same.

    Raises
    ------
    AttributeValueError, DTypeError
        There is no such operator, or the version is no number.
    """
    domain, colon, version = place.rpartition(":")
    if not version.isdecimal():
        raise errors.option_not_integer("doc", "version to compare with", version)
    domain = ALIASES.get(domain, domain) if colon else here.domain
    names = {each.name for each in operators(domain=domain) if each.row.kind is here.row.kind}
    name = here.name if here.name in names or not names else min(names)
    return operator(name, domain=domain, version=int(version))


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()
