"""Operators that the reference evaluator of onnx gets wrong, as their text says.

Up to opset 13 it takes BatchNormalization for training wherever `momentum` is given, and it takes
the spatial axes of GlobalMaxPool for those of four axes, whatever their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_batch_normalization import BatchNormalization_14

from ndgather.errors import run_errors

Array = NDArray[Any]

_TRAINING_BY_ATTRIBUTE = 14  # the version from which `training_mode` says it
_TEST_BY_OUTPUTS = 7  # the version from which the number of outputs says it
_WITHOUT_SPATIAL = 9  # the version from which `spatial` is gone
_EPSILON = 1e-5


class BatchNormalization(BatchNormalization_14):
    """``scale * (x - mean) / sqrt(var + epsilon) + bias`` for each channel, by given mean and var.

    Training, where mean and variance are those of `x`, is refused up to opset 13.
    """

    op_domain = ""

    def _run(  # type: ignore[override]  # onnx leaves it untyped
        self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, **attributes: Any
    ) -> tuple[Array, ...]:
        given = {each.name: each for each in self.onnx_node.attribute}
        opset = self.run_params["opsets"][self.domain]
        if opset >= _TRAINING_BY_ATTRIBUTE:
            outputs: tuple[Array, ...] = super()._run(x, scale, bias, mean, var, **attributes)  # type: ignore[no-untyped-call]
            return outputs
        if opset >= _TEST_BY_OUTPUTS:
            trains = sum(map(bool, self.onnx_node.output)) > 1
        else:
            trains = "is_test" not in given or given["is_test"].i == 0
        if trains:
            raise run_errors.trains("BatchNormalization", opset)
        epsilon = given["epsilon"].f if "epsilon" in given else _EPSILON
        by_channel = (-1, *(1,) * (x.ndim - 2))
        if opset < _WITHOUT_SPATIAL and "spatial" in given and given["spatial"].i == 0:
            by_channel = x.shape[1:]  # each element of a channel has its own
        scale, bias, mean, var = (each.reshape(by_channel) for each in (scale, bias, mean, var))
        y = scale * ((x - mean) / np.sqrt(var + var.dtype.type(epsilon))) + bias
        return (y.astype(x.dtype),)


class GlobalMaxPool(OpRun):
    """The largest element of each channel: the maximum over every axis after the first two."""

    op_domain = ""

    def _run(self, x: Array, **_defaults: object) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


CORRECTED: tuple[type[OpRun], ...] = (BatchNormalization, GlobalMaxPool)
