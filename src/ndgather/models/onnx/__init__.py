"""Run, check and convert ONNX models and infer their types.

ndgather handles gather and scatter nodes, and the `onnx` package handles all other nodes.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ndgather import messages

if find_spec("onnx") is None:
    raise messages.extra_missing("onnx", "onnx")

from ndgather.models.onnx.files import save
from ndgather.models.onnx.inference import infer
from ndgather.models.onnx.nodes import implementation
from ndgather.models.onnx.random_inputs import random_inputs
from ndgather.models.onnx.runs import load, run

if TYPE_CHECKING:
    from ndgather.models.onnx.checks import check
    from ndgather.models.onnx.comparison.comparer import compare
    from ndgather.models.onnx.comparison.counterexamples import Counterexample, search
    from ndgather.models.onnx.comparison.report import Comparison
    from ndgather.models.onnx.conversion_report import Conversion, RewrittenNode
    from ndgather.models.onnx.converter import conversion, convert
    from ndgather.models.onnx.evaluator import Model, reference_ops

__all__ = [
    "Comparison",
    "Conversion",
    "Counterexample",
    "Model",
    "RewrittenNode",
    "check",
    "compare",
    "conversion",
    "convert",
    "implementation",
    "infer",
    "load",
    "random_inputs",
    "reference_ops",
    "run",
    "save",
    "search",
]

# Public names that are imported on first use, because the evaluator of onnx needs 20 MB of memory
_LATER = {
    name: module
    for module, names in {
        "onnx.checks": ("check",),
        "onnx.comparison.comparer": ("compare",),
        "onnx.comparison.report": ("Comparison",),
        "onnx.converter": ("conversion", "convert"),
        "onnx.comparison.counterexamples": ("Counterexample", "search"),
        "onnx.evaluator": ("Model", "reference_ops"),
        "onnx.conversion_report": ("Conversion", "RewrittenNode"),
    }.items()
    for name in names
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"ndgather.models.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
