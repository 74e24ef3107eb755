"""What a runtime is asked for a whole model: where the model is, and how it is to be loaded.

The module of a runtime that runs whole models has ``session(source, options) -> Session``; its row
says so by `Runtime.runs_models`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """An ONNX model: the path of its file or its bytes, and the folder of its other files."""

    content: str | bytes
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a runtime loads a model.

    Attributes
    ----------
    threads : int or None
        How many threads one operator may use; None leaves it to the runtime.
    providers : tuple of str
        Execution providers of onnxruntime, or the device of OpenVINO; empty for the CPU.
    libraries : tuple of str
        Paths of libraries of custom operators.
    profile : bool
        Whether the time of each node is wanted, as the session's `profile` gives it where it has
        that.
    """

    threads: int | None = None
    providers: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    profile: bool = False


class Session(Protocol):
    """A model that is loaded."""

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        """Return the values of `names`, which the model gives as outputs, in their order."""
        ...
