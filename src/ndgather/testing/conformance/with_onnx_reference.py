"""The reference evaluator of ONNX: a model of one node."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.testing.conformance.one_node import model_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.testing.conformance.cases import Case


@cache
def _onnx() -> Any:
    return import_module("onnx")


@cache
def _reference() -> Any:
    return import_module("onnx.reference")


def version() -> str:
    return str(_onnx().__version__)


def run(case: Case) -> NDArray[Any]:
    model, arrays = model_of(case)
    return np.asarray(_reference().ReferenceEvaluator(model).run(None, arrays)[0])
