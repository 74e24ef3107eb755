"""N-d gather and scatter exactly as each published specification says, fast."""

from typing import TYPE_CHECKING

from ndgather import errors, settings
from ndgather.api import (
    gather,
    gather_elements,
    gather_nd,
    gather_windows,
    scatter_elements,
    scatter_nd,
)
from ndgather.settings import (
    get_memory_limit,
    get_num_threads,
    release_memory,
    set_memory_limit,
    set_num_threads,
)
from ndgather.version import __version__

if TYPE_CHECKING:
    from ndgather import show, vjp
    from ndgather.published import Operator, operator, operators
    from ndgather.published.schema import RankAtLeast, TensorType
    from ndgather.settings import show_versions

__all__ = [
    "Operator",
    "RankAtLeast",
    "TensorType",
    "__version__",
    "errors",
    "gather",
    "gather_elements",
    "gather_nd",
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

# What is imported only when it is asked for: an import of the package stays about as short as one
# of NumPy.
_LATER = {
    "show_versions": "settings",
    "Operator": "published",
    "operator": "published",
    "operators": "published",
    "RankAtLeast": "published.schema",
    "TensorType": "published.schema",
}


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - costs as much as the package

    if name in ("show", "vjp"):
        return import_module(f"ndgather.{name}")
    if name in _LATER:
        return getattr(import_module(f"ndgather.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ndgather' has no attribute {name!r}")


settings.apply_defaults()
