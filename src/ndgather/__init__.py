"""N-d gather and scatter exactly as each published specification says, fast."""

from typing import TYPE_CHECKING

from ndgather import errors, settings
from ndgather.api import (
    gather,
    gather_elements,
    gather_nd,
    gather_ranges,
    gather_windows,
    scatter_elements,
    scatter_nd,
)
from ndgather.settings import (
    __version__,
    get_memory_limit,
    get_num_threads,
    release_memory,
    set_memory_limit,
    set_num_threads,
    show_versions,
)

if TYPE_CHECKING:
    from ndgather import show, vjp
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

# Imported on first use, so that an import of the package takes about as long as one of NumPy.
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
}


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - costs as much as the package

    if name not in _LATER:
        raise AttributeError(f"module 'ndgather' has no attribute {name!r}")
    module = import_module(f"ndgather.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


settings.apply_defaults()
