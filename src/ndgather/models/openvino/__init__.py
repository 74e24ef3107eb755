"""OpenVINO IR: read, checked, run and written.

A file is a whole network (``.xml`` with its ``.bin`` of constants) or a bare ``<layer>``.
"""

from ndgather.models.openvino.model import Model, check, run
from ndgather.models.openvino.writing import write

__all__ = ["Model", "check", "run", "write"]


def __dir__() -> list[str]:
    return __all__
