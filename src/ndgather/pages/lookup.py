"""Find an operator by what a person types: names in any case, the domain optional."""

from __future__ import annotations

from ndgather.errors import option_errors
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN


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
