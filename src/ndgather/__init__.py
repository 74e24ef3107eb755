"""Fast N-d gather and scatter that follow the published specifications exactly."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ndgather import errors, messages
from ndgather.api import (
    gather,
    gather_elements,
    gather_nd,
    gather_ranges,
    gather_windows,
    own_errors,
    scatter_elements,
    scatter_nd,
)
from ndgather.arguments import as_integer
from ndgather.array_call import _core as _core
from ndgather.errors import AttributeValueError

if TYPE_CHECKING:
    from typing import TextIO

    from ndgather import show, vjp
    from ndgather.arrays.torch.checked import checked_indices
    from ndgather.published import Operator, operator, operators
    from ndgather.published.schema import RankAtLeast, TensorType
    from ndgather.stored import ChunkCache, cached

__all__ = [
    "ChunkCache",
    "Operator",
    "RankAtLeast",
    "TensorType",
    "__version__",
    "cached",
    "checked_indices",
    "errors",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_ranges",
    "gather_windows",
    "get_memory_limit",
    "get_num_threads",
    "operator",
    "operators",
    "release_memory",
    "scatter_elements",
    "scatter_nd",
    "set_memory_limit",
    "set_num_threads",
    "show",
    "show_versions",
    "vjp",
]

__version__ = "0.3.0"

# Public names that are imported on first use, to keep ``import ndgather`` fast.
_LATER = {
    "show": "show",
    "vjp": "vjp",
    "Operator": "published",
    "operator": "published",
    "operators": "published",
    "RankAtLeast": "published.schema",
    "TensorType": "published.schema",
    "ChunkCache": "stored",
    "cached": "stored",
    "checked_indices": "arrays.torch.checked",
}

_KEPT_AT_MOST = 256 << 20
_SHARE_OF_MEMORY = 16


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - as slow as importing the package

    if name not in _LATER:
        meant = messages.name_here("function", name)
        hint = f"; write {meant}" if meant else messages.did_you_mean(name, __all__)
        raise AttributeError(f"module 'ndgather' has no attribute {name!r}{hint}")
    try:
        module = import_module(f"ndgather.{_LATER[name]}")
    except ModuleNotFoundError as error:
        raise messages.extra_missing(f"{error.name}", f"{error.name}") from None
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


@own_errors("get_num_threads")
def get_num_threads() -> int:
    """Return the maximum number of threads per call."""
    return _core.get_num_threads()


@own_errors("set_num_threads")
def set_num_threads(count: int) -> None:
    """Set the maximum number of threads per call, including the calling thread.

    Results do not depend on this setting, and small calls are never split. The default is the
    environment variable ``NDGATHER_NUM_THREADS`` if set, otherwise the number of processors that
    the CPU affinity and control group make available to the process.

    Parameters
    ----------
    count : int
        The number of threads, from 1 to 1024.

    Raises
    ------
    AttributeValueError
        If `count` is out of range.

    Examples
    --------
    >>> import ndgather
    >>> before = ndgather.get_num_threads()
    >>> ndgather.set_num_threads(1)
    >>> ndgather.get_num_threads()
    1
    >>> ndgather.set_num_threads(before)
    """
    count = as_integer("set_num_threads", "count", count)
    if not 1 <= count <= 1024:
        raise messages.option_out_of_range("set_num_threads", "count", count, 1, 1024, "threads")
    _core.set_num_threads(count)


@own_errors("get_memory_limit")
def get_memory_limit() -> int:
    """Return the maximum amount of freed memory that is kept for reuse, in bytes."""
    return _core.get_memory_limit()


@own_errors("set_memory_limit")
def set_memory_limit(limit: int) -> None:
    """Set the maximum amount of freed memory that is kept for reuse.

    Page faults in a large new array take as long as the gather that fills the array. When a result
    of at least 1 MiB is freed, its memory is kept for later results of similar size. The default is
    the environment variable ``NDGATHER_MEMORY_LIMIT`` if set, otherwise the smaller of 256 MiB and
    1/16 of the machine's memory.

    Parameters
    ----------
    limit : int
        The maximum size in bytes. 0 disables reuse.

    Raises
    ------
    AttributeValueError
        If `limit` is negative.
    """
    limit = as_integer("set_memory_limit", "limit", limit)
    if not 0 <= limit < 2**63:
        raise messages.option_out_of_range(
            "set_memory_limit", "limit", limit, 0, 2**63 - 1, "bytes"
        )
    _core.set_memory_limit(limit)


@own_errors("release_memory")
def release_memory() -> int:
    """Release all memory that is kept for reuse.

    Returns
    -------
    int
        The number of bytes released.
    """
    return _core.release_memory()


def _apply_defaults() -> None:
    """Set the number of threads and the memory limit from the environment or the machine."""
    threads = _from_environment("NDGATHER_NUM_THREADS")
    set_num_threads(min(_usable_processors(), 1024) if threads is None else threads)
    limit = _from_environment("NDGATHER_MEMORY_LIMIT")
    set_memory_limit(min(_KEPT_AT_MOST, _memory() // _SHARE_OF_MEMORY) if limit is None else limit)


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise AttributeValueError(
            f"ndgather: environment[{name}] = {text!r} is not an integer (allowed: an integer)"
        ) from None


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, *_quotas("/proc/self/cgroup", "/sys/fs/cgroup"), count))


def _quotas(membership: str | os.PathLike[str], root: str | os.PathLike[str]) -> list[int]:
    """Return how many CPUs this process's control groups and their parents allow, rounded up.

    Each line of `membership` has the form ``number:controllers:path``, with a path below `root`.
    Version 2 groups store limits in ``cpu.max``, version 1 groups in ``cpu.cfs_quota_us`` and
    ``cpu.cfs_period_us``.
    """
    limits = []
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = f"{root}/cpu" if controllers else f"{root}"
        names = [name for name in path.split("/") if name]
        for depth in range(len(names), -1, -1):
            group = "/".join((top, *names[:depth]))
            if controllers:
                numbers = [_read(f"{group}/cpu.cfs_quota_us"), _read(f"{group}/cpu.cfs_period_us")]
            else:
                numbers = _read(f"{group}/cpu.max").split()
            if len(numbers) == 2 and all(number.strip().isdigit() for number in numbers):
                quota, period = map(int, numbers)
                limits.append(max(1, -(-quota // period)))
    return limits


def _read(path: str | os.PathLike[str]) -> str:
    try:
        with open(path) as file:  # noqa: PTH123 - importing pathlib takes 3 ms
            return file.read()
    except OSError:
        return ""


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _KEPT_AT_MOST * _SHARE_OF_MEMORY


# The optional packages that `show_versions` lists.
_OPTIONAL = (
    *("array-api-strict", "dask", "defusedxml", "h5netcdf", "h5py", "imagecodecs"),
    *("jax", "jaxlib", "ml_dtypes", "mlx", "ndonnx", "obstore", "onnx"),
    *("onnxruntime", "onnxscript", "openvino", "pandas", "polars", "pyarrow", "rasterio", "scipy"),
    *("sparse", "tensorflow", "tensorflow-cpu", "tensorstore", "tifffile", "torch", "tqdm"),
    *("triton", "xarray", "zarr"),
)


@own_errors("show_versions")
def show_versions(file: TextIO | None = None) -> None:
    """Print the information needed in a bug report: versions, processor and settings.

    Package versions are read from metadata, without importing the packages.

    Parameters
    ----------
    file : text file, optional
        The file to print to. The default is standard output.

    Examples
    --------
    >>> import ndgather
    >>> ndgather.show_versions()  # doctest: +ELLIPSIS
    ndgather: ...
    python: ...
    """
    import platform  # noqa: PLC0415 - slow, like the next import
    from importlib import metadata  # noqa: PLC0415

    facts: dict[str, object] = {
        "ndgather": __version__,
        "python": sys.version.replace("\n", " "),
        "system": platform.platform(),
        "machine": platform.machine(),
        "instruction set": _core.instruction_set(),
        "threads": get_num_threads(),
        "memory limit": f"{get_memory_limit()} bytes",
    }
    for package in ("numpy", *_OPTIONAL):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    for name, value in facts.items():
        print(f"{name}: {value}", file=file)


_apply_defaults()
