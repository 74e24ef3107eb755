"""Arrays of other libraries: types that the core takes like NumPy's, and adapters for the rest.

`accept` names a type that offers the exchange of DLPack in C, by its attribute
``__dlpack_c_exchange_api__``: the core reads the memory of the arguments, and makes its result an
object of the type. An adapter accepts the types of its library when it is imported, and takes the
calls that the core refuses.

An adapter is a module, or any object, with a function ``run(call)``. Adapters are looked up in this
order, and only the one that a call needs is imported:

1. the attribute ``__ndgather_adapter__`` of a class;
2. the packages and types listed below;
3. for a class with ``__array_namespace__``, of the array API standard, `ndgather.arrays.standard`.

Other arguments are converted to NumPy arrays, except those of a device, and lazy or sparse ones.

To carry out calls with a class of your own, write::

    class Tensor:
        __ndgather_adapter__ = "your_package.gathering"  # or an object with run(call)

``run`` gets an `array_call.Call` with the arguments as they were passed, with `memory`, `progress`
and `executor` checked, and returns the result. It may replace the arrays in the call by NumPy
arrays and pass it to `ndgather.api.run`. Subclasses inherit the attribute, unless they set it to
None.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from ndgather.array_call import Call, _core
from ndgather.errors import DTypeError
from ndgather.messages import converted_errors, shown_value, text_not_opened

__all__ = ["accept"]

Transform: TypeAlias = Callable[[], object] | tuple[dict[str, object], str, object]


def accept(
    kind: type,
    *,
    gradient: str | None = None,
    records: Callable[[], object] = lambda: True,
    record: Callable[..., object] | None = None,
    negated: Callable[[Any], object] | None = None,
    conjugated: Callable[[Any], object] | None = None,
    transforms: tuple[Transform, ...] = (),
    written: Callable[[Any], object] | None = None,
    whole_bytes: tuple[object, ...] | None = None,
) -> bool:
    """Let the core run calls with arrays of exactly this type.

    It does not if gradients, tracing or lazy negation are active (see the parameters).

    The core calls these functions in every call, so functions of C are best. Results count as by
    `bool`; after an exception the adapter takes the call.

    Parameters
    ----------
    kind : type
        Subclasses are not accepted with it.
    gradient : str, optional
        The attribute of an array that is true if it takes part in a gradient. It is read for arrays
        of floats and complex numbers, and the next three functions are called for these.
    records : function of nothing, optional
        Whether gradients are recorded now; by default always.
    record : function of the arguments of a call, optional
        Makes a call that the core would take, were it not for a gradient. The arguments have
        attributes: `kind`, `data`, `indices` and so on. If it returns NotImplemented, the adapter
        takes the call.
    negated, conjugated : function of an array, optional
        Whether the numbers in memory are the negatives, or the conjugates, of the elements.
    transforms : functions of nothing, or tuples ``(namespace, name, value)``
        Whether operations are traced, transformed or redirected now; or a variable of a module, as
        in ``vars(module)``, and the object that it is if they are not.
    written : function of an array, optional
        Is called with `out` after it was written.
    whole_bytes : tuple, optional
        For libraries that exchange integers of less than a byte as integers of a byte: the values
        of ``array.dtype`` for integers of a byte. The adapter takes the others.

    Returns
    -------
    bool
        False if the type offers no exchange of a version that the core knows.
    """
    for transform in transforms:
        given: Any = transform
        if isinstance(given, tuple) and not (len(given) == 3 and isinstance(given[0], dict)):
            raise DTypeError(
                f"exchange.accept: transforms = {shown_value(given)} is not a transform "
                f"(allowed: functions, tuples of a dict, a name and a value)"
            )
    if record is not None:
        TAKEN_UP[kind] = "gradient", record
    return _core.accept_exchange(
        kind, gradient, records, negated, conjugated, transforms, written, whole_bytes
    )


# By type of data: a rule of the core, and a function of the arguments that is tried before a `Call`
# is made, if the core refuses a call by this rule. It returns NotImplemented to decline.
TAKEN_UP: dict[type, tuple[str, Callable[..., Any]]] = {}

ROWS = "rows"  # calls on NumPy arrays that the core cannot make in a single step
_STANDARD = "__array_namespace__"  # classes of the array API standard

# By the name of a type, of its module, or of its package. If the arguments of a call have several
# adapters, the first in this list takes it: it knows those below.
_ADAPTERS = {
    "xarray": "ndgather.arrays.xarray",
    "dask": "ndgather.arrays.dask",
    "jax": "ndgather.arrays.jax",
    "jaxlib": "ndgather.arrays.jax",
    "tensorflow": "ndgather.arrays.tensorflow",
    "torch": "ndgather.arrays.torch",
    "ndgather.stored.cache.cached_array": "ndgather.stored.cache.cached_array",
    "zarr": "ndgather.stored.zarr",
    "tensorstore": "ndgather.stored.tensorstore",
    "h5py": "ndgather.stored.hdf5",
    "numpy.memmap": "ndgather.stored.memory_map",
    "numpy.ma": "ndgather.arrays.masked",
    "numpy.ma.core": "ndgather.arrays.masked",
    "numpy.ndarray": "ndgather.arrays.subclasses",
    ROWS: "ndgather.arrays.rows",
    _STANDARD: "ndgather.arrays.standard",
    "cupy.ndarray": "ndgather.arrays.standard",  # whose arrays do not name their library
}

# Beside data of another library, arrays of these become NumPy arrays, or the call is refused.
_FRAMEWORKS = {_ADAPTERS[name] for name in ("jax", "tensorflow", "torch", _STANDARD)}

_RANKS = {module: rank for rank, module in enumerate(_ADAPTERS.values())}


class Adapter(Protocol):
    """What carries out calls with arrays of some types."""

    def run(self, call: Call) -> Any: ...


class Store(Adapter, Protocol):
    """What opens the stored arrays of a package; see `ndgather.stored.chunks`."""

    def reader(self, array: Any) -> Any: ...

    def writer(self, array: Any) -> Any: ...

    def run_ranges(self, call: Call, reader: Any, ranges: Any) -> Any:
        """Return the values of ranges that are inside of the array of a reader."""


def store_of(value: object) -> Store | None:
    """Return what opens a stored array, or None for others."""
    name = adapter_name(type(value))
    module = None if name is None else import_module(name)
    return cast("Store", module) if hasattr(module, "writer") else None


def opened(call: Call, argument: str = "data") -> Any:
    """Return the reader, or for a scatter the writer, of the stored array of a call."""
    if isinstance(call.data, str | PathLike):
        raise text_not_opened(call.caller, argument, fspath(call.data))
    name = adapter_name(type(call.data))
    module = None if name is None else import_module(name)
    open_array = getattr(module, "writer" if call.scatters else "reader", None)

    def not_stored(error: Exception | None) -> DTypeError:  # a group, a dataset of a closed file
        return DTypeError(
            f"{call.caller}: {argument} = {type(call.data).__name__} object is not stored, or not "
            f"writeable (allowed: an array of zarr, tensorstore or h5py, a memory map, or a "
            f"DataArray that is read lazily: xarray.open_dataset(path, chunks=None)[name])"
        )

    if open_array is None:
        raise not_stored(None)
    with converted_errors(not_stored):
        return open_array(call.data)


def _name_of_adapter(cls: type) -> str | None:
    """Return the name of the adapter for values of a type, or None for the core."""
    if cls is np.ndarray or issubclass(cls, np.generic):
        return None
    for base in cls.__mro__:
        module = base.__module__
        for name in (f"{module}.{base.__qualname__}", module, module.partition(".")[0]):
            if name in _ADAPTERS:
                return _ADAPTERS[name]
    return _ADAPTERS[_STANDARD] if hasattr(cls, _STANDARD) else None


adapter_name: Callable[[Any], str | None] = lru_cache(maxsize=256)(_name_of_adapter)


def adapter(*arguments: object) -> Adapter | None:
    """Return the adapter for calls with these arguments, or None if the core takes them all."""
    types = [*map(type, arguments)]
    for cls in types:
        named = getattr(cls, "__ndgather_adapter__", None)
        if named is not None:
            return cast("Adapter", import_module(named) if isinstance(named, str) else named)
    module = min(filter(None, map(adapter_name, types)), key=_RANKS.__getitem__, default=None)
    if module is None:
        return None
    found: Any = sys.modules.get(module) or import_module(module)
    return found  # type: ignore[no-any-return]  # a module with a function run


def is_of_another_library(value: object, data: object) -> bool:
    """Return whether two arguments are of two libraries, at least one of which is a framework.

    Classes that name an adapter and labelled arrays are not: their adapters decide.
    """
    types = type(value), type(data)
    if value is None or types[0] is types[1]:
        return False
    of_value, own = map(adapter_name, types)
    if of_value in (None, own) or _ADAPTERS["xarray"] in (of_value, own):
        return False
    if any(getattr(cls, "__ndgather_adapter__", None) is not None for cls in types):
        return False
    return of_value in _FRAMEWORKS or own in _FRAMEWORKS


def adapter_named(name: str) -> Adapter:
    """Return the adapter that the table lists under a name."""
    return cast("Adapter", import_module(_ADAPTERS[name]))
