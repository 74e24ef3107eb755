"""The compiled core. Modules import it from here, so that one knows which of them may call it."""

from ndgather import _core

__all__ = ["_core"]
