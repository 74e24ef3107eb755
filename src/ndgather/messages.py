"""Error messages that several modules share and functions that format parts of messages.

Messages have the form ``<function>: <argument>[<where>] = <value> <problem> (<what is allowed>)``.
Functions that return an exception do not raise it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    ExtraMissingError,
    FileError,
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
    ShapeError,
    one_line,
)

Shape: TypeAlias = Sequence[object]  # sizes may be symbolic

LOGGER = logging.getLogger("ndgather")
LOGGER.addHandler(logging.NullHandler())

_LONGEST_VALUE = 200
_LONGEST_QUOTE = 40
_LONGEST_REASON = 10_000  # maximum length of another library's message
_FILE = r"[\w.+-]+\.(?:cc|cpp|cu|h|hpp):\d+:? ?"
_LINE = rf"/?(?:[\w.+-]+/)+{_FILE}"
_PLACES_IN_CODE = re.compile(
    rf"Exception from {_LINE}|Check '.*?' failed at {_LINE}"  # OpenVINO
    r"|While validating node '[^']*' with friendly_name '[^']*': "
    r"|FrontEnd API failed with \w+: Model wasn't fully converted\. Failed .*? log: -- "
    r"| Summary: -- Conversion is failed for: .*"
    rf"|/onnxruntime_src{_LINE}"
    r"[^(]*\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with .*?\])? ?"  # followed by a function
    rf"|(?<= Status Message: ){_FILE}\w+ "
    rf"|{_LINE}(?:\w+: Assertion `.*?` failed: )?"  # onnx
)
_PATHS_IN_CODE = re.compile(rf"(?: at | from )?{_LINE}")

# Maps our names to the names that other libraries use, for hints.
ELSEWHERE = {
    "argument": {
        "data": "input params a arr operand tensor",
        "indices": "index",
        "updates": "src source value values v",
        "axis": "dim",
        "reduction": "reduce",
        "use_init_val": "include_self",
        "fill_value": "default_value",
    },
    "function": {
        "ndgather.gather": "take index_select embedding",
        "ndgather.gather_elements": "take_along_axis take_along_dim",
        "ndgather.gather_nd": "vindex",
        "ndgather.scatter_elements": "scatter scatter_reduce put_along_axis",
        "ndgather.scatter_elements(..., reduction='add')": "scatter_add",
        "ndgather.scatter_nd": "index_put tensor_scatter_nd_update",
        "ndgather.scatter_nd(..., reduction='add')": (
            "add_at bincount index_add segment_sum tensor_scatter_nd_add"
        ),
        "ndgather.checked_indices": "checked",
        "import ndgather.arrays.xarray, and array.ndgather.sel": "sel isel xarray",
        "from ndgather.models import onnx": "check compare convert infer load models onnx run",
    },
    "choice": {  # reductions and modes
        "none": "assign overwrite replace set update =",
        "add": "sum plus + +=",
        "sub": "subtract minus - -=",
        "mul": "multiply times prod product * *=",
        "min": "minimum amin",
        "max": "maximum amax",
        "mean": "average avg",
        "raise": "promise_in_bounds",
    },
}

# Hints that must be correct for every call that violates the corresponding rule.
TUPLES = "index tuples are on the last axis, as argwhere returns them"
SLICES = "to index whole slices, use gather or scatter_nd"
BATCH_AXES = "batch axes come before axis"
NO_BROADCAST = "updates are not broadcast"
ORDERS = {
    "gather": "the order is data, indices, axis; torch.gather is gather_elements",
    "gather_elements": "the order is data, indices, axis",
    "scatter_elements": "the order is data, indices, updates, axis",
}


def shown(shape: Shape) -> str:
    """Format a shape on one line, as NumPy does. Sizes may be names, and unknown sizes are "?"."""
    texts = ("?" if size is None else str(size) for size in shape)
    sizes = (text if text.isprintable() else repr(text) for text in texts)
    return f"({', '.join(sizes)}{',' if len(shape) == 1 else ''})"


def subscript(position: Iterable[int]) -> str:
    """Format the position of an element as a subscript, which is empty for scalars."""
    numbers = ", ".join(map(str, position))
    return f"[{numbers}]" if numbers else ""


def shown_value(value: object, write: Callable[[object], str] = repr) -> str:
    """Format a value on a single, short line. If `write` fails, format the type instead."""
    try:
        text = " ".join(write(value).split())
    except MemoryError:
        raise
    except Exception:
        return f"{type(value).__name__} object"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def quoted(text: str) -> str:
    """Quote text from a file, shortened to a single line."""
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}...")


def plain(text: str) -> str:
    """Return text from a file, quoted unless the text is short and printable."""
    return text if text.isprintable() and len(text) <= _LONGEST_QUOTE else quoted(text)


def reason(error: BaseException) -> str:
    """Return the message of an error on a single, short line."""
    if isinstance(error, OSError) and error.strerror:  # netCDF stores the message in errno
        return str(error.strerror if isinstance(error.errno, int) else error.args[0]).lower()
    return shortened(str(error)) or type(error).__name__


def shortened(text: str) -> str:
    """Return another library's message on a single, short line, without source locations."""
    text = text.partition("\n\nDebug source:")[0]  # obstore appends Rust debug output
    if len(text) > _LONGEST_REASON:  # keep the beginning and the end of long messages
        half = _LONGEST_REASON // 2
        text = f"{text[:half]} ... {text[-half:]}"
    whole = " ".join(text.split())
    rest = _PLACES_IN_CODE.sub("", whole).strip() or _PATHS_IN_CODE.sub("", whole).strip()
    return one_line(rest or whole)


def similar(name: object, known: Iterable[object]) -> str | None:
    """Return the name in `known` that is most similar to `name`, ignoring case, or None.

    Names that differ only in the version, like ``openvino:8`` and ``openvino:9``, are not similar.
    """
    if not isinstance(name, str):
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - would slow down every import

    domain, colon, _ = name.casefold().partition(":")
    names = {str(each).casefold(): str(each) for each in known}
    close = get_close_matches(name.casefold(), names, 1)
    return next((names[key] for key in close if not (colon and key.startswith(domain + ":"))), None)


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return an error-message suffix that suggests a similar name, or an empty string."""
    meant = similar(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def name_here(kind: str, name: str) -> str | None:
    """Return our equivalent of a name from another library, or None."""
    return next((own for own, names in ELSEWHERE[kind].items() if name in names.split()), None)


def not_an_array(
    caller: str,
    argument: str,
    value: object,
    why: str,
    allowed: str = "an array, a number or nested lists of numbers",
) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object {why} (allowed: {allowed})"
    )


def basic_indexing(caller: str, argument: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {shown_value(value)} is basic indexing (allowed: integers); "
        f"index data by slices, None and ... first, then call {caller} with the result"
    )


def separate_indices(caller: str, name: str, count: int, hint: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = tuple of {plural(count, 'array')} would not select the same "
        f"elements as in NumPy indexing (allowed: one array of integers){hint}"
    )


def no_index_tuples(caller: str, name: str, value: object) -> ShapeError:
    return ShapeError(
        f"{caller}: {name} = {shown_value(value)} does not give the length of an index tuple "
        f"(allowed: an array of integers); for no tuples of length k, write "
        f"np.empty((0, k), int)"
    )


def elements_change(caller: str, argument: str, value: object, dtype: object) -> DTypeError:
    hint = "; write numpy.array(data, object), for NumPy alone" if argument == "data" else ""
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object would become an array of {dtype}, "
        f"which changes some of its elements (allowed: elements of one kind){hint}"
    )


def costly_conversion(
    caller: str, argument: str, value: object, what: str, conversion: str
) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is {what} and is not converted "
        f"implicitly (allowed: an array in CPU memory, for example by {conversion})"
    )


def of_netcdf4(caller: str, argument: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is from netCDF4, and its missing "
        f"values would become numbers (allowed: {argument}[...], a masked array; for values "
        f"that are read chunk by chunk, xarray.open_dataset(path)[name], or "
        f"h5py.File(path)[name] as they are stored)"
    )


def text_not_opened(caller: str, argument: str, path: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {shown_value(path)} is not opened automatically (allowed: an "
        f"array, opened by the library that reads it)"
    )


def table(caller: str, argument: str, value: object) -> DTypeError:
    kind = type(value)
    return DTypeError(
        f"{caller}: {argument} = {kind.__name__} object is from "
        f"{kind.__module__.partition('.')[0]}, whose columns and tables are not accepted (allowed: "
        f"an array, such as numpy.asarray({argument}) of columns of one NumPy dtype without nulls)"
    )


def rules_lost(caller: str, argument: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object has a unit or custom arithmetic, "
        f"which would be lost (allowed: a plain array in the intended unit)"
    )


def masked_array(caller: str, argument: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = masked array would lose its mask (allowed: a plain array with "
        f"its masked elements filled)"
    )


def fill_value_lost(caller: str, value: object, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: fill_value = {shown_value(value)} cannot be represented in data.dtype = "
        f"{dtype} (allowed: one value of that type)"
    )


def fill_value_unused(caller: str, mode: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: fill_value is given, but mode = {shown_value(mode)} does not use it "
        f"(allowed: mode='fill')"
    )


def updates_dtype(caller: str, updates: object, data: object, name: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {updates} differs from data.dtype = {data} (allowed: {data})"
    )


def update_lost(caller: str, update: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {update} cannot be represented in data.dtype = {dtype} (allowed: values of "
        f"that type, floats may be rounded)"
    )


def reduction_type(
    caller: str, reduction: str, dtype: object, supported: Sequence[str]
) -> DTypeError:
    return DTypeError(
        f"{caller}: reduction = {reduction!r} is not defined for data.dtype = {dtype} "
        f"(allowed: {', '.join(map(repr, supported))})"
    )


def no_reduction(caller: str, reduction: str, library: str) -> DTypeError:
    return DTypeError(
        f"{caller}: reduction = {reduction!r} is not supported by {library} on this device "
        f"(allowed: arrays in CPU memory)"
    )


def cotangent_dtype(caller: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: cotangent.dtype = {dtype} cannot be summed (allowed: integers, floats "
        f"and complex numbers)"
    )


def out_not_an_array(caller: str, out: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out = {type(out).__name__} object is not an array (allowed: a NumPy array)"
    )


def out_of_another_library(caller: str, out: object, data: object) -> DTypeError:
    own = type(data).__name__ if hasattr(type(data), "__array__") else "NumPy"
    return DTypeError(
        f"{caller}: out = {type(out).__name__} object does not belong to the library of data "
        f"(allowed: an array of that library, {own})"
    )


def unknown_values(caller: str, argument: str, value: object, why: str, convert: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object {why}, and data belongs to "
        f"another library (allowed: data from the library of {argument}); write {convert}(data)"
    )


def out_dtype(caller: str, out: object, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: out.dtype = {out} differs from data.dtype = {data} (allowed: {data})"
    )


def out_read_only(caller: str) -> AttributeValueError:
    return AttributeValueError(f"{caller}: out is read-only (allowed: a writeable array)")


def out_shape(caller: str, out: Shape, result: Shape) -> ShapeError:
    return ShapeError(
        f"{caller}: out.shape = {shown(out)} differs from the shape of the result "
        f"(allowed: {shown(result)})"
    )


def result_too_large(caller: str, shape: Shape) -> MemoryError:
    return MemoryError(f"{caller}: the result of shape {shown(shape)} does not fit in memory")


def index_out_of_bounds(
    caller: str,
    position: tuple[int, ...],
    value: int,
    axis: int,
    size: int,
    lowest: int,
    count: int,
    total: int,
    *,
    window: Sequence[int] | None = None,
) -> IndexOutOfBoundsError:
    """Return the error for the first of `count` out-of-bounds indices or starts."""
    where, name = str(position)[1:-1].rstrip(","), "indices"
    allowed = f"allowed: {lowest}..{size - 1}" if size else "the axis is empty"
    what = "is outside"
    if window is not None:
        name, what = "starts", f"makes a window of size {window[axis]} extend past"
        allowed = f"allowed: {lowest}..{size - window[axis]}"
    others = f"; {count} of {total} entries of {name} are out of bounds" if count > 1 else ""
    return IndexOutOfBoundsError(
        f"{caller}: {name}[{where}] = {value} {what} axis {axis} of data, which has size {size} "
        f"({allowed}){others}",
        position=position,
        value=value,
        axis=axis,
        size=size,
        count=count,
    )


def option_out_of_range(
    caller: str, option: str, value: object, lowest: int, highest: int, why: str, hint: str = ""
) -> AttributeValueError:
    allowed = f"{lowest}..{highest}" if lowest <= highest else "nothing"
    return AttributeValueError(
        f"{caller}: {option} = {shown_value(value, str)} is out of range for {why} "
        f"(allowed: {allowed}){hint and f'; {hint}'}"
    )


def option_not_integer(caller: str, option: str, value: object, hint: str = "") -> DTypeError:
    return DTypeError(
        f"{caller}: {option} = {shown_value(value)} is not an integer (allowed: an integer)"
        f"{hint and f'; {hint}'}"
    )


def unknown_choice(
    caller: str, option: str, value: object, choices: Sequence[str]
) -> AttributeValueError:
    word = value if isinstance(value, str) else getattr(value, "__name__", "")  # such as np.add
    lower = str.lower(word)
    meant = name_here("choice", lower) or lower
    hint = f"; write {meant!r}" if meant in choices else did_you_mean(value, choices)
    return AttributeValueError(
        f"{caller}: {option} = {shown_value(value)} is unknown "
        f"(allowed: {', '.join(map(repr, choices))}){hint}"
    )


def rank_too_low(
    caller: str, argument: str, shape: Shape, lowest: int, hint: str = ""
) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} has rank {len(shape)} "
        f"(allowed: rank {lowest} or more){hint and f'; {hint}'}"
    )


def depth_unknown(caller: str, argument: str) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape[-1], the length of an index tuple, is not known "
        f"(allowed: a known size)"
    )


def too_many_axes(caller: str, name: str, rank: int, highest: int) -> ShapeError:
    return ShapeError(
        f"{caller}: {name} has {rank} axes, more than an array can have "
        f"(allowed: at most {highest})"
    )


def ranks_differ(caller: str, data: Shape, indices: Shape, hint: str = "") -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape = {shown(indices)} has rank {len(indices)}, but data.shape = "
        f"{shown(data)} has rank {len(data)} (allowed: the same rank){hint and f'; {hint}'}"
    )


def batch_sizes_differ(caller: str, axis: int, data: Shape, indices: Shape) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape[{axis}] = {indices[axis]} differs from data.shape[{axis}] = "
        f"{data[axis]}: batch axes must be equal in data {shown(data)} and indices "
        f"{shown(indices)} (allowed: {data[axis]})"
    )


def index_too_deep(
    caller: str,
    data: Shape,
    indices: Shape,
    batch_dims: int,
    hint: str = "",
    lowest: int = 0,
    most: int | None = None,
) -> ShapeError:
    most = len(data) - batch_dims if most is None else most
    left = f" after {batch_dims} batch axes" if batch_dims else ""
    return ShapeError(
        f"{caller}: indices.shape[-1] = {indices[-1]} is more than the {most} axes that data "
        f"{shown(data)} has{left}; indices.shape = {shown(indices)} (allowed: "
        f"{lowest}..{most}){hint and f'; {hint}'}"
    )


def longer_off_axis(caller: str, axis: int, along: int, data: Shape, indices: Shape) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.shape[{axis}] = {indices[axis]} is more than data.shape[{axis}] = "
        f"{data[axis]}: indices {shown(indices)} may be larger than data {shown(data)} only "
        f"on axis {along} (allowed: 0..{data[axis]})"
    )


def updates_do_not_fit(
    caller: str, updates: Shape, expected: Shape, name: str = "updates", hint: str = ""
) -> ShapeError:
    return ShapeError(
        f"{caller}: {name}.shape = {shown(updates)} does not match indices and data "
        f"(allowed: {shown(expected)}){hint and f'; {hint}'}"
    )


def windows_do_not_fit(caller: str, data: Shape, starts: Shape, window: Shape) -> ShapeError:
    allowed = (
        f"0..{len(data)}" if len(window) > len(data) else f"{len(window)}, as window_shape has"
    )
    return ShapeError(
        f"{caller}: starts.shape[-1] = {starts[-1]} does not match window_shape = {shown(window)} "
        f"and data {shown(data)}; starts.shape = {shown(starts)} (allowed: {allowed}); {TUPLES}"
    )


def window_too_large(caller: str, axis: int, data: Shape, window: Shape) -> ShapeError:
    return ShapeError(
        f"{caller}: window_shape[{axis}] = {window[axis]} is more than data.shape[{axis}] = "
        f"{data[axis]}: no window fits (allowed: 0..{data[axis]}, or mode='fill')"
    )


def argument_kind(caller: str, argument: str, value: object, what: str, allowed: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is not {what} (allowed: {allowed})"
    )


@contextmanager
def converted_errors(convert: Callable[[Exception], Exception]) -> Iterator[None]:
    """Replace errors of other libraries with ``convert(error)`` in a ``with`` block."""
    try:
        yield
    except (NdgatherError, MemoryError):
        raise
    except Exception as error:
        raise convert(error) from error


@contextmanager
def foreign_errors(kind: type[NdgatherError], text: str) -> Iterator[None]:
    """Replace errors of other libraries with errors of type `kind` in a ``with`` block."""
    with converted_errors(lambda error: kind(f"{text}: {reason(error)}")):
        yield


def extra_missing(package: str, extra: str) -> ExtraMissingError:
    return ExtraMissingError(
        f"this needs the package {package}, which is not installed "
        f"(install it with: pip install 'ndgather[{extra}]')"
    )


def reader_missing(place: str, package: str | None) -> ExtraMissingError:
    """Return the error for a missing package that is needed to read a file."""
    name = place.lower()
    if name.endswith((".tif", ".tiff")):
        return extra_missing(package or "rasterio", "geotiff")
    if ".zarr" in name or "://" in name:
        return extra_missing(package or "zarr", "xarray,zarr")
    return extra_missing(package or "h5netcdf", "stores")


def need(package: str, extra: str) -> None:
    """Raise ExtraMissingError if a package is not installed or cannot be imported."""
    with foreign_errors(ExtraMissingError, f"the package {package} cannot be imported"):
        if find_spec(package) is None:
            raise extra_missing(package, extra)
        import_module(package)


def core_missing(error: ImportError) -> ImportError:
    """Return the error for a core that cannot be imported."""
    from importlib import metadata  # noqa: PLC0415 - as slow as loading the core

    numpy = metadata.version("numpy")
    if int(numpy.partition(".")[0]) < 2:
        return ImportError(
            f"ndgather: NumPy = {numpy} is too old (allowed: 2.2 or newer); write pip "
            f"install 'numpy>=2.2'"
        )
    return ImportError(
        f"ndgather: the core cannot be loaded: {one_line(str(error))} (allowed: one that is "
        f"compiled for this Python); write pip install . in a clone"
    )


def unreadable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be read: {reason(error)}")


def unwritable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be written: {reason(error)}")


def not_of_its_kind(path: object, kind: str, error: BaseException | None = None) -> FileError:
    why = f": {reason(error)}" if error else ""
    return FileError(f"{path}: is not a complete {kind} file{why}")


def not_storable(path: object, what: str, kind: str) -> FileError:
    return FileError(f"{path}: cannot be written: {what} cannot be stored in a {kind} file")


def unknown_suffix(path: object, suffixes: Iterable[str]) -> FileError:
    return FileError(f"{path}: unknown file type (allowed: {listed(suffixes)})")


def tensor_elsewhere(name: str) -> FileError:
    return FileError(
        f"constant {name!r}: cannot be read: it is in another file, and the folder of the model "
        f"is not known (allowed: the path of the model)"
    )


def in_node(error: Exception, name: str, op_type: str, output: str = "") -> Exception:
    """Return `error` with the name of its node, or of the node's first output, before the message.

    MemoryError and errors of this package are modified in place.
    """
    place = f"node {op_type} of {output!r}" if output else f"node {op_type} without a name"
    if name:
        place = f"node {name!r} ({op_type})"
    if isinstance(error, NdgatherError | MemoryError):
        error.args = (f"{place}: {error}",)
        return error
    return ModelError(f"{place}: {reason(error)}")


def input_shape(name: str, shape: Shape, declared: Shape) -> ShapeError:
    return ShapeError(
        f"input {name!r}: shape = {shown(shape)} does not match the model "
        f"(allowed: {shown(declared)})"
    )


def not_a_tensor(role: str, name: str, what: str) -> ModelError:
    return ModelError(f"{role} {name!r} is a {what} (allowed: a tensor)")


def only_onnx(option: str) -> ModelError:
    return ModelError(f"{option} is not supported for OpenVINO IR (allowed: an ONNX model)")


def cannot_become(row: object, target: object, why: str) -> ModelError:
    return ModelError(f"{row} cannot become {target}: {why}")
