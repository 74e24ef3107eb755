"""Published operators, with a row of data for each version of an operator.

`schema` defines the types of the rows. Each module in `rows` contains the rows of one
specification.
`inference` infers types and shapes from rows, and `callables` turns rows into operators.
"""

from __future__ import annotations

from functools import lru_cache

from ndgather import messages
from ndgather.api import own_errors
from ndgather.arguments import as_integer
from ndgather.errors import AttributeValueError, DTypeError
from ndgather.messages import did_you_mean, shown_value
from ndgather.published.callables import Operator
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN, ROWS

__all__ = ["Operator", "operator", "operators"]

_OPERATORS = tuple(Operator(row) for row in ROWS)


@own_errors("operators")
def operators(name: str | None = None, domain: str | None = None) -> tuple[Operator, ...]:
    """Return all operators, optionally filtered by name or domain.

    Parameters
    ----------
    name, domain : str, optional
        See `operator`.

    Returns
    -------
    tuple of Operator
        The versions of each operator, oldest first.

    Examples
    --------
    >>> import ndgather
    >>> [op.version for op in ndgather.operators("GatherND", "openvino")]
    [5, 8]
    """
    if name is not None:
        name = _string("operators", "name", name)
    if domain is not None:
        domain = _string("operators", "domain", domain)
        domain = ALIASES.get(domain, domain)
    return tuple(op for op in _OPERATORS if name in {None, op.name} and domain in {None, op.domain})


@own_errors("operator")
def operator(
    name: str,
    *,
    domain: str = DEFAULT_DOMAIN,
    version: int | None = None,
    opset: int | None = None,
) -> Operator:
    """Return a version of an operator, as a callable object.

    Parameters
    ----------
    name : str
        The name of the operator, e.g. ``"GatherND"``.
    domain : str, default "ai.onnx"
        The specification: ``"ai.onnx"`` (also ``""``), ``"com.microsoft"`` or ``"openvino"``.
    version : int, optional
        The version of the operator, which is the first opset with this specification. By
        default, the newest version is returned.
    opset : int, optional
        An opset of the domain, as an alternative to `version`: the version of the operator that
        the opset contains is returned.

    Returns
    -------
    Operator
        The operator.

    Raises
    ------
    AttributeValueError
        The operator, version or opset does not exist, or both `version` and `opset` are given.
    DTypeError
        `name` or `domain` is not a string, or `version` or `opset` is not an integer.
    CallError
        `version` is given by position.

    Examples
    --------
    >>> import numpy as np
    >>> import ndgather
    >>> op = ndgather.operator("GatherND")
    >>> op
    operator('GatherND', domain='ai.onnx', version=13)
    >>> op(np.array([10, 11, 12]), np.array([[2], [-3]]))
    array([12, 10])
    >>> ndgather.operator("Gather", opset=12)
    operator('Gather', domain='ai.onnx', version=11)
    >>> ndgather.operator("GatherND", version=14)
    Traceback (most recent call last):
    ...
    ndgather.errors.AttributeValueError: operator: version = 14 has no ai.onnx GatherND \
(allowed: 11, 12, 13)
    """
    name, domain = _string("operator", "name", name), _string("operator", "domain", domain)
    version = None if version is None else as_integer("operator", "version", version)
    opset = None if opset is None else as_integer("operator", "opset", opset)
    known = _by_version(name, domain)
    if not known:
        names = sorted({op.name for op in operators(domain=domain)})
        if not names:
            domains = sorted({op.domain for op in operators()})
            raise messages.unknown_choice("operator", "domain", domain, domains)
        raise AttributeValueError(
            f"operator: name = {name!r} is unknown in domain {domain!r} (allowed: "
            f"{', '.join(names)}){did_you_mean(name, names)}"
        )
    if version is not None and opset is not None:
        raise AttributeValueError(
            f"operator: version = {shown_value(version)} and opset = {shown_value(opset)} "
            f"are both given (allowed: one of them)"
        )
    if version is not None and version not in known:
        raise AttributeValueError(
            f"operator: version = {shown_value(version, str)} has no {domain} {name} (allowed: "
            f"{', '.join(map(str, sorted(known)))})"
        )
    if opset is not None and opset < min(known):
        raise AttributeValueError(
            f"operator: opset = {shown_value(opset, str)} has no {domain} {name} (allowed: "
            f"at least {min(known)})"
        )
    if version is None:
        version = max(since for since in known if opset is None or since <= opset)
    return known[version]


@lru_cache(maxsize=256)
def _by_version(name: str, domain: str) -> dict[int, Operator]:
    return {op.version: op for op in operators(name, domain)}


def _string(caller: str, option: str, value: object) -> str:
    if not isinstance(value, str):
        raise DTypeError(
            f"{caller}: {option} = {shown_value(value)} is not a string (allowed: a string)"
        )
    return str.__str__(value)
