"""The reference evaluator of ONNX: a model of one node."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.testing.conformance.one_node import model_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.testing.conformance.cases import Case

_onnx: Any = import_module("onnx")
_reference: Any = import_module("onnx.reference")


def version() -> str:
    return str(_onnx.__version__)


def run(case: Case) -> NDArray[Any]:
    model, arrays = model_of(case)
    return np.asarray(_reference.ReferenceEvaluator(model).run(None, arrays)[0])
