"""The specifications, with an `OperatorVersion` for each version of an operator.

To add a version, add a row to a module. To add a specification, add a module and a line here.
"""

from __future__ import annotations

from ndgather.published.rows import microsoft, onnx, openvino

DEFAULT_DOMAIN = onnx.DOMAIN
ALIASES = {**onnx.ALIASES}
ROWS = (*onnx.ROWS, *microsoft.ROWS, *openvino.ROWS)
