"""What there is to know of a runtime before it is loaded.

Its module has a row ``RUNTIME``, and the functions ``version() -> str`` and ``run(call) -> array``,
where a call is an `OperatorCall`. ``run`` raises `CannotExpressError` where the runtime has no such
call, before it makes one; any other exception is a refusal by the runtime. The module may have
``kind_of(error) -> str`` if the runtime tells kinds of refusals apart. What the module adapts is
imported when it is first needed, so that the row can be read where it is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ndgather.published.rows import microsoft, onnx, openvino

OWN_FUNCTIONS = "ndgather"
"""The domain of the functions of this package, which have no version."""

EVERY_DOMAIN = (onnx.DOMAIN, microsoft.DOMAIN, openvino.DOMAIN, OWN_FUNCTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One runtime.

    Attributes
    ----------
    module : str
        What has to be installed.
    adapter : str
        The module that makes its calls.
    domains : tuple of str
        The domains of the operators that it implements.
    runs_models : bool
        Whether its module runs whole ONNX models too: see `whole_model`.
    maps_tensors : bool
        Whether it maps the tensors that a model has in files, and so takes less memory for these.
    idiom : bool
        Whether it is asked for the same work by functions of its own: it implements no version
        of a published operator, so the rules of a version do not apply to it.
    """

    name: str
    module: str
    adapter: str
    domains: tuple[str, ...]
    runs_models: bool = False
    maps_tensors: bool = False
    idiom: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Any:
        """Import and return the adapter."""
        return import_module(self.adapter)
