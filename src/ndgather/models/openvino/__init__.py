"""OpenVINO IR: read, checked and run.

A file is a whole network (``.xml`` with its ``.bin`` of constants) or a bare ``<layer>``.
"""

from ndgather.models.openvino.model import Model, check, run

__all__ = ["Model", "check", "run"]


def __dir__() -> list[str]:
    return __all__
