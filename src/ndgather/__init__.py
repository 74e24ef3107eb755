"""N-d gather and scatter exactly as each published specification says, fast."""

from ndgather import errors, settings, vjp
from ndgather.api import gather, gather_elements, gather_nd, scatter_elements, scatter_nd
from ndgather.settings import (
    get_memory_limit,
    get_num_threads,
    release_memory,
    set_memory_limit,
    set_num_threads,
)

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "errors",
    "gather",
    "gather_elements",
    "gather_nd",
    "get_memory_limit",
    "get_num_threads",
    "release_memory",
    "scatter_elements",
    "scatter_nd",
    "set_memory_limit",
    "set_num_threads",
    "vjp",
]

settings.apply_defaults()
