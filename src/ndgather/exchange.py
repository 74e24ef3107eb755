"""Register array types of other libraries in the core, and select adapters for calls.

`accept` registers a type that implements the DLPack C exchange API through its attribute
``__dlpack_c_exchange_api__``. The core reads the memory of registered arrays directly and creates
results of the same type. Adapters register their library's types when they are imported and handle
the calls that the core refuses.

An adapter is a module, or any other object, with a function ``run(call)``. The class attribute
``__ndgather_adapter__`` selects the adapter. Without the attribute, the adapter is an entry of
``_ADAPTERS`` or, for classes with ``__array_namespace__`` (the array API standard), the module
`ndgather.arrays.standard`. Adapters are imported only when needed.

Arguments without an adapter are converted to NumPy arrays, unless they are lazy, sparse or on
another device.

To support your own array class, write::

    class Tensor:
        __ndgather_adapter__ = "your_package.gathering"  # or an object with run(call)

The function ``run`` receives an `array_call.Call` and returns the result. The caller has validated
only the arguments `memory`, `progress` and `executor`. To compute the result, ``run`` may replace
the arrays with NumPy arrays and pass the call to `ndgather.api.run`. Subclasses inherit
``__ndgather_adapter__`` unless they set it to None.
"""

from __future__ import annotations

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
    """Let the core accept arrays of exactly this type.

    The core leaves a call to the adapter if a function below reports active gradients, tracing or
    lazy negation, or raises an exception. The functions run in every call, so functions implemented
    in C are preferable. Function results are converted to `bool`.

    Parameters
    ----------
    kind : type
        The type. Subclasses are not included.
    gradient : str, optional
        The name of the attribute that is true if an array requires a gradient. This attribute and
        the next three functions are used only for float and complex arrays.
    records : function without arguments, optional
        Returns whether gradients are being recorded; by default always true.
    record : function, optional
        Runs a call that the core would accept if it had no gradient. Receives the arguments of the
        call as an object with attributes such as `kind`, `data` and `indices`. May return
        NotImplemented to leave the call to the adapter.
    negated, conjugated : function, optional
        Receive an array and return whether its memory holds the negated, or conjugated, elements.
    transforms : functions without arguments, or tuples ``(namespace, name, value)``
        A function returns whether operations are currently traced, transformed or redirected. A
        tuple names a variable, as in ``vars(module)``, and its value while they are not.
    written : function, optional
        Called with `out` after it was written.
    whole_bytes : tuple, optional
        For libraries that exchange sub-byte integers as bytes: the values of ``array.dtype`` that
        are true 8-bit integers. Other values are left to the adapter.

    Returns
    -------
    bool
        False if the type does not implement a version of the exchange API that the core supports.
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


# Maps a type of data to a refusal rule and a handler of the refused arguments.
# If the rule causes a refusal, the handler is tried before a `Call` is built.
TAKEN_UP: dict[type, tuple[str, Callable[..., Any]]] = {}

_STANDARD = "__array_namespace__"  # an attribute of array API classes

# Maps the names of types, modules and packages to adapters.
# If the arguments have several adapters, the first adapter in this table handles the call.
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
    "several steps": "ndgather.arrays.rows",  # no type has this name
    _STANDARD: "ndgather.arrays.standard",
    "cupy.ndarray": "ndgather.arrays.standard",  # has no __array_namespace__
}

ROWS = _ADAPTERS["several steps"]  # for NumPy arrays that the core cannot handle in one step

# Arrays of frameworks are converted to NumPy arrays if data belongs to another library.
_FRAMEWORKS = {_ADAPTERS[name] for name in ("jax", "tensorflow", "torch", _STANDARD)}

_RANKS = {module: rank for rank, module in enumerate(_ADAPTERS.values())}


class Adapter(Protocol):
    """An object that runs calls on the arrays of a library."""

    def run(self, call: Call) -> Any: ...


class Store(Adapter, Protocol):
    """A module that opens a package's stored arrays. See `ndgather.stored.chunks`."""

    def reader(self, array: Any) -> Any: ...

    def writer(self, array: Any) -> Any: ...

    def run_ranges(self, call: Call, reader: Any, ranges: Any) -> Any:
        """Gather ranges, which must be in bounds, from a stored array."""


def store_of(value: object) -> Store | None:
    """Return the store that opens `value`, or None if `value` is not a stored array."""
    name = adapter_name(type(value))
    module = None if name is None else import_module(name)
    return cast("Store", module) if hasattr(module, "writer") else None


def opened(call: Call, argument: str = "data") -> Any:
    """Open the stored array of a call for reading or, in a scatter, for writing."""
    if isinstance(call.data, str | PathLike):
        raise text_not_opened(call.caller, argument, fspath(call.data))
    name = adapter_name(type(call.data))
    module = None if name is None else import_module(name)
    open_array = getattr(module, "writer" if call.scatters else "reader", None)

    def not_stored(error: Exception | None) -> DTypeError:  # a group or a closed file, for example
        return DTypeError(
            f"{call.caller}: {argument} = {type(call.data).__name__} object is not a stored array, "
            f"or is not writeable (allowed: a zarr, tensorstore or h5py array, a memory map, or a "
            f"lazy DataArray: xarray.open_dataset(path, chunks=None)[name])"
        )

    if open_array is None:
        raise not_stored(None)
    with converted_errors(not_stored):
        return open_array(call.data)


def _name_of_adapter(cls: type) -> str | None:
    """Return the module name of a type's adapter, or None if the core handles the type."""
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
    """Return the adapter for a call with these arguments, or None if the core handles the call."""
    found = _adapter_of(*map(type, arguments))
    return module_named(found) if isinstance(found, str) else found


@lru_cache(maxsize=256)
def _adapter_of(*types: type) -> Adapter | str | None:
    """Return the adapter, or its module name, for arguments of these types."""
    for cls in types:
        if (named := getattr(cls, "__ndgather_adapter__", None)) is not None:
            return cast("Adapter | str", named)
    return min(filter(None, map(adapter_name, types)), key=_RANKS.__getitem__, default=None)


def is_of_another_library(value: object, data: object) -> bool:
    """Return whether `value` or `data` belongs to a framework and the other to another library.

    Labeled arrays and classes that name an adapter are excluded because their adapters handle
    arrays of other libraries.
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


# Unlike `sys.modules`, the cache has no modules that another thread is still importing.
module_named: Callable[[str], Any] = lru_cache(maxsize=None)(import_module)
