"""The reference evaluator of ONNX: a model of one node."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.published.rows import onnx
from ndgather.runtimes.one_node import model_of
from ndgather.runtimes.runtime import Runtime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.runtimes.operator_call import OperatorCall

RUNTIME = Runtime(
    name="onnx.reference",
    module="onnx",
    adapter=__name__,
    domains=(onnx.DOMAIN,),
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
