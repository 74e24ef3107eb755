"""Every runtime that is known. A new one is a module beside this one, and its name here."""

from __future__ import annotations

from importlib.util import find_spec

from ndgather.runtimes import ndgather, numpy, onnx_reference, onnxruntime, openvino, torch
from ndgather.runtimes.runtime import EVERY_DOMAIN, Runtime

RUNTIMES = (
    ndgather.RUNTIME,
    numpy.RUNTIME,
    torch.RUNTIME,
    onnxruntime.RUNTIME,
    onnx_reference.RUNTIME,
    openvino.RUNTIME,
)


def runtime_named(name: str) -> Runtime:
    """Return the runtime of a name, or one for an adapter that is given by its module.

    Raises
    ------
    LookupError
        No runtime has that name, and there is no such module.
    """
    for runtime in RUNTIMES:
        if runtime.name == name:
            return runtime
    if "." in name and _is_module(name):
        return Runtime(name=name, module=name, adapter=name, domains=EVERY_DOMAIN)
    known = ", ".join(runtime.name for runtime in RUNTIMES)
    raise LookupError(f"{name!r} is neither a runtime ({known}) nor the module of an adapter")


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # the package that it would be in is not there
        return False


MODEL_NAMES = {
    "reference" if runtime is onnx_reference.RUNTIME else runtime.name: runtime
    for runtime in RUNTIMES
    if runtime.runs_models
}
"""The runtimes that run whole models, by the names that people give them."""


def model_runtime(name: str) -> Runtime:
    """Return the runtime of a name, which runs whole models.

    Raises
    ------
    LookupError
        No such runtime is known.
    """
    if name in MODEL_NAMES:
        return MODEL_NAMES[name]
    if "." in name and _is_module(name):
        return Runtime(name=name, module=name, adapter=name, domains=EVERY_DOMAIN, runs_models=True)
    raise LookupError(name)
