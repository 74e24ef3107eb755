"""Read, check and run OpenVINO IR.

An ``.xml`` file contains a bare ``<layer>``, or a network whose constants are in a ``.bin`` file.
"""

from ndgather.models.openvino.model import Model, check, run

__all__ = ["Model", "check", "run"]


def __dir__() -> list[str]:
    return __all__
