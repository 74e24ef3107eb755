"""The reference evaluator of ONNX."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndgather.runtimes.runtime import model_with_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource


def version() -> str:
    return str(import_module("onnx").__version__)


class _Session:
    """A model in the evaluator, which has no threads and no devices to select."""

    def __init__(self, source: ModelSource, _options: LoadOptions) -> None:
        model = model_with_data(source)
        corrected = import_module("ndgather.runtimes.corrected_ops").CORRECTED
        evaluator = import_module("onnx.reference").ReferenceEvaluator
        self._evaluator = evaluator(model, new_ops=list(corrected))

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        values: list[Any] = self._evaluator.run(list(names), dict(inputs))
        return values


session = _Session
