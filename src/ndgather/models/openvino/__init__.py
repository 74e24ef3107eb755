"""Read, check and run OpenVINO IR.

A file holds a network (``.xml``, with its constants in a ``.bin`` file) or a bare ``<layer>``.
"""

from ndgather.models.openvino.model import Model, check, run

__all__ = ["Model", "check", "run"]


def __dir__() -> list[str]:
    return __all__
