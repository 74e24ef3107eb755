"""The reference evaluator of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx.reference import ReferenceEvaluator

from ndgather.runtimes.corrected_ops import CORRECTED
from ndgather.runtimes.runtime import model_with_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import Array, LoadOptions, ModelSource


def version() -> str:
    return onnx.__version__


class _Session:
    """A model in the evaluator, which has no threads and no devices to select."""

    def __init__(self, source: ModelSource, _options: LoadOptions) -> None:
        self._evaluator = ReferenceEvaluator(model_with_data(source), new_ops=list(CORRECTED))

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        return list(self._evaluator.run(list(names), dict(inputs)))


session = _Session
