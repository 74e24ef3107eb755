"""The libraries that run the cases, and their adapters.

An adapter is a module with the functions ``version()`` and ``run_case(case)``, which returns an
array or raises an error, and optionally ``kind_of(error)``. ``run_case`` raises
`CannotExpressError` if the library does not support the call.
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
    """The library does not support such a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library.

    `module` must be installed, and `adapter` is the module that calls it. If `idiom` is true, the
    library implements no published operator, so version-specific rules do not apply to it.
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
    """Return the library with this name, or the library of an adapter module.

    Raises
    ------
    LookupError
        There is neither a library nor a module with this name.
    """
    for known in LIBRARIES:
        if known.name == name:
            return known
    if _is_module(name):
        return Library(name=name, module=name, adapter=name)
    names = ", ".join(known.name for known in LIBRARIES)
    raise LookupError(f"{name!r} is neither a library ({names}) nor an adapter module")


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
