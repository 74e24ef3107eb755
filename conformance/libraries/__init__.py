"""The libraries that the cases are run in, each through a module that calls it.

Such an adapter has ``version()`` and ``run_case(case)``, which returns an array or raises;
`CannotExpressError` if the library has no such call. It may have ``kind_of(error)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

ONNX, MICROSOFT, OPENVINO, NDGATHER = "ai.onnx", "com.microsoft", "openvino", "ndgather"
EVERY_DOMAIN = (ONNX, MICROSOFT, OPENVINO, NDGATHER)


class CannotExpressError(Exception):
    """A library has no such call; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One library.

    `module` must be installed; `adapter` calls it. An `idiom` implements no version of a published
    operator, so the rules of a version do not apply to it.
    """

    name: str
    module: str
    adapter: str
    domains: tuple[str, ...] = EVERY_DOMAIN
    idiom: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Any:
        return import_module(self.adapter)


LIBRARIES = (
    Library(name="ndgather", module="ndgather", adapter=f"{__name__}.with_ndgather"),
    Library(name="numpy", module="numpy", adapter=f"{__name__}.with_numpy", idiom=True),
    Library(name="torch", module="torch", adapter=f"{__name__}.with_torch", idiom=True),
    Library(
        name="onnxruntime",
        module="onnxruntime",
        adapter=f"{__name__}.with_onnxruntime",
        domains=(ONNX, MICROSOFT),
    ),
    Library(
        name="onnx.reference",
        module="onnx",
        adapter=f"{__name__}.with_onnx_reference",
        domains=(ONNX,),
    ),
    Library(
        name="openvino",
        module="openvino",
        adapter=f"{__name__}.with_openvino",
        domains=(ONNX, OPENVINO),
    ),
)


def library(name: str) -> Library:
    """Return the library with this name, or the one that a module adapts.

    Raises
    ------
    LookupError
        There is no such library and no such module.
    """
    for known in LIBRARIES:
        if known.name == name:
            return known
    if _is_module(name):
        return Library(name=name, module=name, adapter=name)
    names = ", ".join(known.name for known in LIBRARIES)
    raise LookupError(f"{name!r} is neither a library ({names}) nor the module of an adapter")


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def arrays_of(case: Case) -> dict[str, Array]:
    """Return the inputs of a case."""
    try:
        return {name: tensor.array() for name, tensor in case.inputs.items()}
    except ModuleNotFoundError as missing:
        raise CannotExpressError(f"needs {missing.name}") from missing
