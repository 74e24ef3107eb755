"""Check objects of libraries without an adapter before converting them to NumPy arrays.

Objects are refused if the conversion would lose masks, units or nulls, or might round numbers
because columns have different dtypes. Sparse arrays, lazy arrays and arrays on other devices are
refused because their conversion would be costly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from ndgather import messages
from ndgather.dtypes import Array
from ndgather.errors import DTypeError, ShapeError
from ndgather.messages import listed, plural

# Packages that define tables, and attributes that identify the tables of other packages.
_TABLES = ("pandas", "polars", "pyarrow")
_OF_COLUMNS = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
_TAKEN_AS = ("indices", "starts", "stops", "lengths", "updates", "update")
# Maps the dtype names of columns to NumPy's names if the names differ.
_NAMES = {"boolean": "bool", "halffloat": "float16", "float": "float32", "double": "float64"}
# An array with an attribute in MEANINGS may have a unit or custom arithmetic.
# A class with an attribute in RULES may restrict the values that a scatter can write.
MEANINGS = ("unit", "units", "__array_ufunc__")
RULES = (*MEANINGS, "__array_finalize__", "__array_function__", "__array_wrap__", "__setitem__")
# NumPy can convert objects that have at least one of these attributes.
_CONVERTED = ("__array__", "__array_interface__", "__array_struct__", "__len__", "__float__")
_OF_ARRAYS = ("shape", "dtype", *_CONVERTED[:3], "__dlpack__")
_MOST_AXES = 64
_ELEMENTS = {int, float, complex, bool, str, bytes, type(None)}
# Maps each costly conversion method to the kind of arrays that have the method.
_COSTLY = {"todense": "sparse", "toarray": "sparse", "to_dense": "sparse", "compute": "lazy"}
_INDICES = ("indices", "starts")
_BASIC = {slice, type(None), type(...)}  # the types used in basic indexing
# For each library, functions that stack, broadcast and convert, and an argument for the last axis.
_STACKS = {
    "dask": ("da.stack", "da.broadcast_arrays", "da.asarray", "axis=-1"),
    "jax": ("jnp.stack", "jnp.broadcast_arrays", "jnp.asarray", "axis=-1"),
    "numpy": ("np.stack", "np.broadcast_arrays", "np.asarray", "axis=-1"),
    "tensorflow": ("tf.stack", "np.broadcast_arrays", "tf.convert_to_tensor", "axis=-1"),
    "torch": ("torch.stack", "torch.broadcast_tensors", "torch.as_tensor", "dim=-1"),
}
ON_HOST = (1, 3, 11)  # DLPack device types for CPU memory, including memory pinned for CUDA or ROCm


def check(caller: str, argument: str, value: object, depth: int = 0) -> None:
    """Raise DTypeError if NumPy cannot convert `value` without losing information.

    Table columns are allowed as indices and updates. See `column_values`.
    """
    kind = type(value)
    if kind in _BASIC and argument in _INDICES:
        raise messages.basic_indexing(caller, argument, value)
    if kind is np.ndarray or issubclass(kind, np.generic) or kind in _ELEMENTS:
        return
    if issubclass(kind, list | tuple):
        elements = cast("Sequence[object]", value)
        types = {*map(type, elements)}
        of_indices = argument in _INDICES
        if depth < _MOST_AXES and (not types <= _ELEMENTS or (of_indices and types & _BASIC)):
            for element in elements:
                check(caller, argument, element, depth + 1)
    elif is_table(value):
        if depth or argument not in _TAKEN_AS:
            raise messages.table(caller, argument, value)
    elif is_of_netcdf4(value):  # np.asarray drops its mask
        raise messages.of_netcdf4(caller, argument, value)
    elif any(hasattr(kind, name) for name in _CONVERTED) and (has_mask(value) or has_rules(value)):
        if has_mask(value):
            raise messages.masked_array(caller, argument)
        raise messages.rules_lost(caller, argument, value)
    elif (costly := _costly_conversion(value)) is not None:
        raise messages.costly_conversion(caller, argument, value, *costly)
    elif hasattr(kind, "untyped_storage"):
        why = "has no memory that NumPy may read"
        with messages.converted_errors(
            lambda _: messages.not_an_array(caller, argument, value, why)
        ):
            check_storage(caller, argument, value)


def is_listed(value: object) -> bool:
    """Return whether `value` is a list or an array with at least one axis."""
    try:
        return isinstance(value, list | tuple) or (is_array(value) and np.ndim(value) > 0)  # type: ignore[arg-type]
    except MemoryError:
        raise
    except Exception:  # methods of `value` may raise any exception
        return False


def argwhere(name: str, library: str) -> str:
    """Return code that computes the index tuples of a mask."""
    if library == "dask":
        return f"np.argwhere({name}.compute())"  # da.argwhere returns an unknown shape
    if library in ("numpy", "torch", "jax"):
        return f"{_STACKS[library][0].partition('.')[0]}.argwhere({name})"
    if library == "tensorflow":
        return f"tf.where({name})"
    return f"{library}.stack({library}.nonzero({name}), axis=-1)"


def stacked_rows(value: object, name: str) -> str | None:
    """Return code that stacks lists of JAX, TensorFlow or torch arrays, otherwise None."""
    items = value if isinstance(value, list | tuple) else []
    is_nested = all(isinstance(item, list | tuple) for item in items)
    parts = [*chain.from_iterable(items)] if is_nested else items
    arrays = [part for part in parts if is_array(part)]
    library = library_of(arrays)
    if library not in ("jax", "tensorflow", "torch"):
        return None
    shapes = {tuple(getattr(part, "shape", ())) for part in parts}
    if len(shapes) > 1 or len({"bool" in str(getattr(part, "dtype", "")) for part in parts}) > 1:
        return None
    stack, convert = _STACKS[library][0], _STACKS[library][2]
    row = "row" if is_nested else name
    row = row if len(arrays) == len(parts) else f"[*map({convert}, {row})]"
    return f"{stack}([{stack}({row}) for row in {name}])" if is_nested else f"{stack}({row})"


def library_of(values: Iterable[object]) -> str:
    """Return the name of the first library other than NumPy among `values`, or "numpy"."""
    for value in values:
        for base in type(value).__mro__:
            package = base.__module__.partition(".")[0].replace("jaxlib", "jax")
            if package in _STACKS and package != "numpy":
                return package
        if hasattr(value, "__array_namespace__") and not isinstance(value, np.ndarray):
            return str(value.__array_namespace__().__name__)
    return "numpy"


def stacked(
    items: Sequence[object], name: str, data: object, names: Sequence[str] = ()
) -> str | None:
    """Return code that converts a tuple of index arrays, one for each axis, to index tuples.

    The code refers to the tuple as `name` and to the arrays as `names`, if given. The result is
    None unless the items are arrays, numbers or lists that can be broadcast.
    """
    if not all(
        isinstance(item, int | float | np.number | list | tuple | range) or is_array(item)
        for item in items
    ):
        return None
    try:
        dtypes = [*map(_name_of_dtype, items)]
        if any("bool" in dtype for dtype in dtypes):
            names = names or [f"{name}[{number}]" for number in range(len(items))]
            return _stacked_masks(items, names, data)
        shapes = {tuple(np.shape(cast("Any", item))) for item in items}
        np.broadcast_shapes(*shapes)
        library, beside = library_of(items), library_of([data])
        if library != "dask" and beside not in ("numpy", library):
            library = "numpy"  # all libraries accept NumPy indices
        is_mixed = library != "numpy" and any(library_of([item]) != library for item in items)
    except MemoryError:
        raise
    except Exception:  # array methods may raise any exception
        return None
    own = (f"{library}.{function}" for function in ("stack", "broadcast_arrays", "asarray"))
    stack, broadcast, convert, axis = _STACKS.get(library, (*own, "axis=-1"))
    if is_mixed:
        name = f"[*map({convert}, {name})]"
    if len(shapes) > 1:
        name = f"{broadcast}(*{name})"
    text = f"{stack}({name}, {axis})"
    if library == "dask" and beside != "numpy":
        text += ".compute()"
    stays_integer = len({*dtypes}) == 1 or "uint64" not in dtypes
    is_whole = stays_integer and all("int" in dtype for dtype in dtypes)
    return text if is_whole else whole(text, library)


def _stacked_masks(items: Sequence[Any], names: Sequence[str], data: object) -> str | None:
    """Return code that converts index arrays, including masks, to index tuples.

    As in NumPy indexing, a mask is equivalent to the index arrays that ``np.nonzero`` returns.
    """
    library = library_of(items)
    if library not in ("jax", "torch") or library_of([data]) not in ("numpy", library):
        library = "numpy"
    stack, broadcast, convert, axis = _STACKS[library]
    parts = []
    for item, name in zip(items, names, strict=True):
        is_lazy, is_own = library_of([item]) == "dask", library_of([item]) == library
        part = f"{name}.compute()" if is_lazy else name
        part = part if is_own or library == "numpy" else f"{convert}({part})"
        is_mask = "bool" in _name_of_dtype(item)
        if is_mask and not np.ndim(item):
            return None
        parts.append(f"*{stack.partition('.')[0]}.where({part})" if is_mask else part)
    arrays = parts[0][1:] if len(parts) == 1 else f"{broadcast}({', '.join(parts)})"
    return f"{stack}({arrays}, {axis})"


def _name_of_dtype(item: object) -> str:
    dtype = getattr(item, "dtype", None)
    return str(np.asarray(item).dtype if dtype is None else dtype).rpartition(".")[2].lower()


def whole(name: str, library: str) -> str:
    """Return code that converts an array of whole floats to integers."""
    if library == "torch":
        return f"{name}.long()"
    if library == "tensorflow":
        return f"tf.cast({name}, tf.int64)"
    if library not in _STACKS:
        return f"{library}.astype({name}, {library}.int64)"
    is_array = library != "numpy" or "(" in name  # a name that is not a call may refer to a list
    return f"{name}.astype(int)" if is_array else f"np.asarray({name}).astype(int)"


def column(name: str, indices: object) -> str:
    """Return code that converts 1-d indices to index tuples of length 1."""
    library = library_of([indices])
    if library == "torch" and cast("Any", indices).device.type != "cpu":
        return f"torch.as_tensor({name}, device=data.device)[:, None]"
    convert = _STACKS[library if library in ("jax", "torch") else "numpy"][2]
    return f"{convert}({name})[:, None]"


def has_mask(value: object) -> bool:
    return _has(value, "mask")


def has_rules(value: object, names: tuple[str, ...] = MEANINGS) -> bool:
    """Return whether `value` has a unit or is an array subclass that overrides NumPy's behavior."""
    packages = ("numpy", "jax")  # during tracing, JAX replaces NumPy arrays with its own subclass
    own = [b for b in type(value).__mro__ if b.__module__.partition(".")[0] not in packages]
    of_array = isinstance(value, np.ndarray)
    return any(
        (of_array and any(name in vars(base) for base in own[:-1]))
        if name.startswith("__")
        else _has(value, name)
        for name in names
    )


def _has(value: object, name: str) -> bool:
    """Return whether an attribute exists and is not None. Fields of records do not count."""
    if not hasattr(type(value), name) and name not in getattr(value, "__dict__", ()):
        return False
    return getattr(value, name, None) is not None


def is_table(value: object) -> bool:
    """Return whether `value` is a table, a column or an array of a table package."""
    kind = type(value)
    if any(hasattr(kind, name) for name in _OF_COLUMNS):
        return True
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    known = not packages.isdisjoint(_TABLES)
    return known and (hasattr(kind, "__array__") or hasattr(kind, "shape"))


def is_array(value: object) -> bool:
    """Return whether `value` has its own dtype, unlike a number or a list."""
    kind = type(value)
    if issubclass(kind, np.generic | list | tuple | str | bytes) or kind in _ELEMENTS:
        return False
    if kind is np.ndarray or any(hasattr(kind, name) for name in _OF_ARRAYS) or is_table(value):
        return True
    try:
        memoryview(value).release()  # type: ignore[arg-type]  # or it raises
    except (TypeError, BufferError, ValueError):
        return False
    return True


def column_values(caller: str, argument: str, value: object) -> Array:
    """Convert columns that share a NumPy number dtype and contain no nulls to an array."""
    table: Any = value
    with messages.converted_errors(lambda _: messages.table(caller, argument, value)):
        if hasattr(table, "get_columns"):
            columns = table.get_columns()
        elif hasattr(table, "num_columns"):
            columns = table.columns
        else:
            split = hasattr(table, "iloc") and table.ndim == 2
            columns = [table.iloc[:, n] for n in range(table.shape[1])] if split else [table]
        dtypes = [each.dtype if hasattr(each, "dtype") else each.type for each in columns]
        names = {str(dtype).lower().removesuffix("[pyarrow]") for dtype in dtypes}
        nulls = sum(map(_null_count, columns, dtypes))
        values = np.asarray(table)
    known = {values.dtype.name} == {_NAMES.get(name, name) for name in names} or not columns
    if nulls or not known or values.dtype.kind not in "biuf":
        what = plural(nulls, "null") if nulls else f"the dtypes {listed(map(str, dtypes))}"
        raise DTypeError(
            f"{caller}: {argument} = {type(value).__name__} object has {what} (allowed: one dtype "
            f"of integers, booleans or floats of NumPy for all columns, without nulls)"
        )
    return values


def _null_count(column: Any, dtype: object) -> int:
    if isinstance(dtype, np.dtype):
        return 0  # NaN is not a null
    count = getattr(column, "null_count", getattr(column, "isna", 0))
    return int(np.sum(count() if callable(count) else count))


def check_storage(caller: str, argument: str, tensor: Any) -> None:
    """Raise ShapeError if a torch tensor's storage was resized below the size of the tensor."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in pairs)
    tensor.untyped_storage().data_ptr()  # raises an error for tensors without memory
    held = tensor.untyped_storage().nbytes()
    if tensor.numel() and (last + 1) * tensor.element_size() > held:
        raise ShapeError(
            f"{caller}: {argument}.shape = {messages.shown(tensor.shape)} is more than the {held} "
            f"bytes of its storage hold (allowed: a tensor whose storage was not resized)"
        )


def is_of_netcdf4(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "netCDF4"


def _costly_conversion(value: object) -> tuple[str, str] | None:
    """Describe `value` and its conversion, or return None if NumPy can view its memory."""
    for method, what in _COSTLY.items():
        # Even dense torch tensors have the method to_dense.
        if hasattr(type(value), method) and getattr(value, "is_sparse", True):
            return what, f"{method}()"
    device = device_of(value)
    return None if device in (None, *ON_HOST) else ("on another device", "copy to the CPU")


def device_of(value: Any) -> int | None:
    """Return the DLPack device type of an array, or None if the array does not report a device."""
    if not hasattr(type(value), "__dlpack_device__"):
        return None
    try:
        return int(value.__dlpack_device__()[0])
    except MemoryError:
        raise
    except Exception:  # the library may raise any exception
        return None
