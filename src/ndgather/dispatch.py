"""From the module of a type to the adapter that takes calls with arrays of this type.

Nothing is imported here but the one adapter that a call needs: whoever has such an array has
imported its package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from ndgather.array_call import Call

# By the name of a type, or of the package that it comes from. Where the arguments of a call have
# several adapters, the first of this list takes it: it knows those below.
_ADAPTERS = {
    "xarray": "ndgather.arrays.xarray",
    "dask": "ndgather.arrays.dask",
    "zarr": "ndgather.stored.zarr",
    "tensorstore": "ndgather.stored.tensorstore",
    "h5py": "ndgather.stored.hdf5",
    "numpy.memmap": "ndgather.stored.memory_map",
}
_RANKS = {module: rank for rank, module in enumerate(_ADAPTERS.values())}


class Adapter(Protocol):
    """What a module of the list has."""

    def run(self, call: Call) -> Any:
        """Carry out a call, whose options are checked."""


def adapter_name(value: object) -> str | None:
    """Return the name of the module that takes calls with `value`; None for the core."""
    for each in type(value).__mro__:
        package = each.__module__.partition(".")[0]
        found = _ADAPTERS.get(f"{each.__module__}.{each.__qualname__}", _ADAPTERS.get(package))
        if found is not None:
            return found
    return None


def adapter(call: Call) -> Adapter | None:
    """Return the module that takes `call`; None where all arguments are for the core."""
    names = map(adapter_name, (call.data, call.indices, call.updates, call.out))
    found = min(filter(None, names), key=_RANKS.__getitem__, default=None)
    return None if found is None else cast("Adapter", import_module(found))
