"""What is installed, and on what machine: what a report of a bug has to say."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from ndgather.compiled import _core
from ndgather.settings import get_memory_limit, get_num_threads
from ndgather.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

# Packages whose arrays, files or runtimes this one works with.
_OPTIONAL = (
    "array-api-strict",
    "astropy",
    "dask",
    "defusedxml",
    "h5py",
    "jax",
    "jaxlib",
    "matplotlib",
    "ml_dtypes",
    "mlx",
    "ndonnx",
    "obstore",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "openvino",
    "pandas",
    "pint",
    "polars",
    "pyarrow",
    "scipy",
    "sparse",
    "tensorflow",
    "tensorstore",
    "torch",
    "xarray",
    "zarr",
)


def show_versions(file: TextIO | None = None) -> None:
    """Print what a report of a bug needs: versions, processor, threads.

    Packages are looked up, not imported, and only this package's own work is described.

    Parameters
    ----------
    file : text file, optional
        Where to print; standard output by default.

    Examples
    --------
    >>> import ndgather
    >>> ndgather.show_versions()  # doctest: +ELLIPSIS
    ndgather: ...
    python: ...
    """
    for name, value in _facts():
        print(f"{name}: {value}", file=file)


def _facts() -> Iterator[tuple[str, object]]:
    yield "ndgather", __version__
    yield "python", sys.version.replace("\n", " ")
    yield "system", platform.platform()
    yield "machine", platform.machine()
    yield "instruction set", _core.instruction_set()
    yield "threads", get_num_threads()
    yield "memory limit", f"{get_memory_limit()} bytes"
    for package in ("numpy", *_OPTIONAL):
        yield package, _version(package)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
