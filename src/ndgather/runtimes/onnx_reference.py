"""The reference evaluator of ONNX: a model of one node, and whole models."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import onnx
from ndgather.runtimes.runtime import Runtime, model_of, model_with_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.runtimes.runtime import LoadOptions, ModelSource, OperatorCall

Array = NDArray[Any]

RUNTIME = Runtime(
    name="onnx.reference",
    module="onnx",
    adapter=__name__,
    domains=(onnx.DOMAIN,),
    runs_models=True,
)


@cache
def _onnx() -> Any:
    return import_module("onnx")


@cache
def _reference() -> Any:
    return import_module("onnx.reference")


def version() -> str:
    return str(_onnx().__version__)


def run(call: OperatorCall) -> NDArray[Any]:
    model, arrays = model_of(call)
    return np.asarray(_reference().ReferenceEvaluator(model).run(None, arrays)[0])


class _Session:
    """A whole model in the evaluator, which has no threads and no devices to choose."""

    def __init__(self, source: ModelSource) -> None:
        model = model_with_data(source)
        corrected = import_module("ndgather.runtimes.corrected_ops").CORRECTED
        self._evaluator = _reference().ReferenceEvaluator(model, new_ops=list(corrected))

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        answer: list[Any] = self._evaluator.run(list(names), dict(inputs))
        return answer


def session(source: ModelSource, _options: LoadOptions) -> _Session:
    """Load a whole model."""
    return _Session(source)
