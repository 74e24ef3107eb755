"""The interface between ndgather and the adapters of runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import DTypeError, ExtraMissingError

Array = NDArray[Any]

STRING = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """The path or bytes of an ONNX model, and the folder that contains its external data."""

    content: str | bytes
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options for loading a model in a runtime, by default on the CPU."""

    threads: int | None = None  # number of threads per operator, or None for the runtime's default
    providers: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()  # paths of custom operator libraries


class Session(Protocol):
    """A loaded model."""

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
        """Return the values of the outputs that `names` lists, in the same order."""
        ...


@cache
def dtype_named(name: str) -> np.dtype[Any]:
    """Return the NumPy or ml_dtypes dtype called `name`, or dtype object for strings."""
    if name == STRING:
        return np.dtype(object)
    with suppress(TypeError):
        return np.dtype(name)
    if find_spec("ml_dtypes") is None:
        raise ExtraMissingError(
            f"dtype = {name} needs the package ml_dtypes, which is not installed "
            f"(install it with: pip install ml_dtypes)"
        )
    types = import_module("ml_dtypes")
    if not hasattr(types, name):
        raise DTypeError(f"dtype = {name!r} is not known (allowed: dtypes of NumPy and ml_dtypes)")
    dtype: np.dtype[Any] = np.dtype(getattr(types, name))
    return dtype


def model_with_data(source: ModelSource) -> Any:
    """Return the model after loading its external tensors."""
    import onnx  # noqa: PLC0415 - slow, and an extra

    if isinstance(source.content, str):
        return onnx.load(source.content)
    model = onnx.load_from_string(source.content)
    if source.folder is not None:
        onnx.external_data_helper.load_external_data_for_model(model, source.folder)
    return model
