"""Models of the first opsets, brought by onnx itself to the oldest that is known here.

Only these have operators that repeat an operand along axes by the attributes `axis` and
`broadcast`, and others with attributes that later versions lack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import version_converter

from ndgather.errors import conversion_errors
from ndgather.models.onnx.domains import opsets
from ndgather.models.onnx.version_steps import OLDEST
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from onnx import ModelProto


def from_oldest(model: ModelProto, opset: int | None) -> ModelProto:
    """Return a model that imports no opset older than `OLDEST`, where it is to have a newer one.

    Raises
    ------
    ModelError
        onnx cannot convert it, or the target is older while the model is not.
    """
    source = opsets(model.opset_import).get(DEFAULT_DOMAIN, OLDEST)
    if opset is None or opset == source:
        return model
    if opset < OLDEST:
        raise conversion_errors.not_converted_to(opset, OLDEST)
    if source >= OLDEST:
        return model
    try:
        converted = version_converter.convert_version(model, OLDEST)
    except Exception as error:  # it has errors of several kinds
        raise conversion_errors.invalid_result(error) from error
    for before, after in zip(model.graph.output, converted.graph.output, strict=True):
        after.CopyFrom(before)  # it forgets types, and declares values without any
    del converted.graph.value_info[:]
    return converted
