"""OpenVINO IR: read, checked, run and written.

A file is a whole network (``.xml`` with its ``.bin`` of constants) or a bare ``<layer>``.
"""

from ndgather.models.openvino.ir_model import Model, check, run
from ndgather.models.openvino.ir_writing import write

__all__ = ["Model", "check", "run", "write"]
