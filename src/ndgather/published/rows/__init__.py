"""What each specification says, as rows: one `OperatorVersion` per version of an operator.

A new version is a row in its module; a new specification is a module and a line here.
"""

from __future__ import annotations

from ndgather.published.rows import microsoft, onnx, openvino

DEFAULT_DOMAIN = onnx.DOMAIN
ALIASES = {**onnx.ALIASES}
ROWS = (*onnx.ROWS, *microsoft.ROWS, *openvino.ROWS)
