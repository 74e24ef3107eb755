"""Who is asked: one row per library. A new one is a row here and a module that adapts it.

An adapter has ``version() -> str`` and ``run(case) -> array``. It raises `CannotExpressError`
where the library has no such call, before it makes one; any other exception is a refusal of the
library. It may have ``kind_of(error) -> str`` if the library tells kinds of refusals apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ndgather.published.rows import microsoft, onnx, openvino

if TYPE_CHECKING:
    from ndgather.testing.conformance.cases import Case

NATIVE = "ndgather"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One library.

    Attributes
    ----------
    module : str
        What has to be installed.
    adapter : str
        The module that makes its calls.
    domains : tuple of str
        The domains of the operators that it implements.
    idiom : bool
        Whether it is asked for the same work in its own words: it implements no version of a
        published operator, so the rules of a version do not bind it.
    """

    name: str
    module: str
    adapter: str
    domains: tuple[str, ...]
    idiom: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Any:
        """Import and return the adapter."""
        return import_module(self.adapter)

    def why_not(self, case: Case) -> str | None:
        """Return why the library cannot be asked a case at all, or None."""
        if case.operator.domain not in self.domains:
            return f"has no operators of {case.operator.domain}"
        if self.idiom and case.rule.of_version:
            return "implements no version of a published operator"
        return None


_EVERY_DOMAIN = (onnx.DOMAIN, microsoft.DOMAIN, openvino.DOMAIN, NATIVE)

PEERS = (
    Peer(
        name="ndgather",
        module="ndgather",
        adapter=f"{__package__}.with_ndgather",
        domains=_EVERY_DOMAIN,
    ),
    Peer(
        name="numpy",
        module="numpy",
        adapter=f"{__package__}.with_numpy",
        domains=_EVERY_DOMAIN,
        idiom=True,
    ),
    Peer(
        name="torch",
        module="torch",
        adapter=f"{__package__}.with_torch",
        domains=_EVERY_DOMAIN,
        idiom=True,
    ),
    Peer(
        name="onnxruntime",
        module="onnxruntime",
        adapter=f"{__package__}.with_onnxruntime",
        domains=(onnx.DOMAIN, microsoft.DOMAIN),
    ),
    Peer(
        name="onnx.reference",
        module="onnx",
        adapter=f"{__package__}.with_onnx_reference",
        domains=(onnx.DOMAIN,),
    ),
    Peer(
        name="openvino",
        module="openvino",
        adapter=f"{__package__}.with_openvino",
        domains=(onnx.DOMAIN, openvino.DOMAIN),
    ),
)


def peer_named(name: str) -> Peer:
    """Return the row of a name, or one for an adapter that is given by its module.

    Raises
    ------
    LookupError
        There is no such row, and no such module.
    """
    for peer in PEERS:
        if peer.name == name:
            return peer
    if "." in name and _is_module(name):
        return Peer(name=name, module=name, adapter=name, domains=_EVERY_DOMAIN)
    known = ", ".join(peer.name for peer in PEERS)
    raise LookupError(f"{name!r} is neither a peer ({known}) nor the module of an adapter")


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package that it would be in
        return False
