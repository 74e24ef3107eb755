"""The reductions of a scatter: a row for each, which all adapters read, and those in several steps.

A reduction says what becomes of an element and an update. The core carries out all but ``mean``.

>>> from ndgather.reductions import ROWS, supported
>>> ROWS["mul"].start, ROWS["mul"].of_bits  # a product starts from 1; "and" is the least of bits
(1, 'min')
>>> supported("c")  # of complex numbers
('none', 'add', 'sub', 'mul', 'mean')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import floordiv, truediv
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather import dtypes
from ndgather.dtypes import Array

Name: TypeAlias = Literal["none", "add", "sub", "mul", "min", "max", "mean"]

_QUOTIENTS = 2**12  # that are computed at a time


@dataclass(frozen=True, slots=True)
class Row:
    """What one reduction is; a name of another library is empty where it has none."""

    kinds: str  # of the numbers that have it, as `dtypes.number_kind` has them
    start: Literal[0, 1, "least", "greatest"]  # combined with an element it gives that element
    of_bits: str  # what it is for booleans that are 0 and 1, if the result is taken modulo 2
    # What changes of data and updates do: move as these do, are divided by how many there are, are
    # multiplied by the others of their element, or are shared by those that equal the result.
    derivative: Literal["moves", "counts", "others", "equals"]
    ufunc: Any = None  # NumPy's, of an element and an update; TensorFlow's has its name
    sign: str = ""  # between the terms of a formula; none: it is written as a function
    torch: str = ""  # as `Tensor.scatter_reduce` calls it
    tensorflow: str = ""  # as `tf.math.unsorted_segment_...` calls it
    added: int = 0  # times this an update is added to its element; 0: it is not
    takes: Callable[[Any, Any], Any] | None = None  # whether an update replaces an element
    onnx: tuple[str, int] = ("", 0)  # the operator of two numbers, and the first opset of scatters


# In the order of the core, which has no mean.
#             kinds   start   bits    derivative  ufunc  sign  torch  tensorflow
ROWS = {
    "none": Row("bifc", 0, "none", "moves", onnx=("", 1)),
    "add": Row("bifc", 0, "max", "moves", np.add, "+", added=1, onnx=("Add", 16)),
    "sub": Row("bifc", 0, "add", "moves", np.subtract, "-", added=-1),
    "mul": Row("bifc", 1, "min", "others", np.multiply, "*", "prod", "prod", onnx=("Mul", 16)),
    "min": Row(
        *("bif", "greatest", "min", "equals", np.minimum, "", "amin", "min"),
        takes=np.less,
        onnx=("Min", 18),
    ),
    "max": Row(
        *("bif", "least", "max", "equals", np.maximum, "", "amax", "max"),
        takes=np.greater,
        onnx=("Max", 18),
    ),
    "mean": Row("ifc", 0, "", "counts", None, "+"),
}


@cache
def supported(kind: str) -> tuple[str, ...]:
    """Return the reductions of a kind of number, or of other elements for ""."""
    return tuple(n for n, row in ROWS.items() if n == "none" or (kind and kind in row.kinds))


def has_start(scatter: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has what a scatter starts from: a sum without initial values, from 0."""
    is_sum = not scatter.use_init_val and ROWS[scatter.reduction].sign == "+"
    return not is_sum or dtype.itemsize > 1 or dtypes.hold_one(0, dtype) is not None


def in_one_step(reduction: str, use_init_val: bool) -> bool:
    """Whether a scatter is one step of the core, and not several."""
    return reduction == "none" or (use_init_val and reduction != "mean")


def byte_results(
    reduction: str, elements: Array, bytes_of: Callable[[Array], Array]
) -> NDArray[np.uint8]:
    """Return the byte of the result for the byte of an element (row) and of an update (column).

    `elements` are those from byte 0 to byte 255, as numbers; `bytes_of` rounds numbers to bytes.
    """
    row, code = ROWS[reduction], np.arange(256, dtype=np.uint8)
    old, update = elements[:, np.newaxis], elements[np.newaxis, :]
    with np.errstate(all="ignore"):
        if row.takes is None:
            result = bytes_of(row.ufunc(old, update))
        else:  # a NaN wins, and of equal elements the old one stays
            a, b = old.astype(np.float64), update.astype(np.float64)
            taken = ~np.isnan(a) & (row.takes(b, a) | np.isnan(b))
            result = np.where(taken, code, code[:, np.newaxis])
    results = np.ascontiguousarray(result).reshape(-1)
    results.setflags(write=False)
    return results


def identity(dtype: np.dtype[Any] | dtypes.Numbers, reduction: str) -> Array:
    """Return the identity of a reduction: combined with an element, it gives that element."""
    start = ROWS[reduction].start
    if isinstance(start, str):
        return dtypes.extremes(dtype)[int(start == "greatest"), ...]
    return np.array(bool(start)).astype(dtype if isinstance(dtype, np.dtype) else np.float64)


class Steps:
    """What `in_steps` needs of a library of arrays.

    A library has functions of its own for `cast`, `complex`, `real`, `imag` and `maximum`, and four
    methods: ``scatter(data, updates, reduction)`` is one step, which may change data;
    ``start(updates, reduction)`` is an array like updates, filled with the identity;
    ``counts(array, count)`` are integers of its shape, all equal to `count`; and ``wide(dtype)`` is
    the kind of a dtype, i, f or c, and the dtype in which it is divided.
    """

    cast: ClassVar[Any]
    complex: ClassVar[Any]
    real: ClassVar[Any]
    imag: ClassVar[Any]
    maximum: ClassVar[Any]
    scatter: Any
    start: Any
    counts: Any
    wide: Any

    def ones(self, updates: Any) -> Any:
        """Return integers of the shape of `updates`, all 1."""
        return self.counts(updates, 1)

    def quotient(self, totals: Any, counts: Any, where: Any) -> Any:
        """Return ``totals / counts`` in the dtype of totals: rounded once, integers down.

        `where` is where counts are more than the first; the rest may be divided by 1.
        """
        kind, wide = self.wide(totals.dtype)
        if kind == "c":
            parts = self.real(totals), self.imag(totals)
            return self.complex(*(Steps.quotient(self, part, counts, where) for part in parts))
        divide, counts = floordiv if kind == "i" else truediv, self.maximum(counts, 1)
        return self.cast(divide(self.cast(totals, wide), self.cast(counts, wide)), totals.dtype)


def in_steps(library: Steps, data: Any, updates: Any, reduction: str, use_init_val: bool) -> Any:
    """Reduce by several scatters: to a mean, or from the identity of the reduction."""
    if not use_init_val and reduction != "none":
        data = library.scatter(data, library.start(updates, reduction), "none")
    if reduction != "mean":
        return library.scatter(data, updates, reduction)
    totals = library.scatter(data, updates, "add")
    first = int(use_init_val)
    counts = library.scatter(library.counts(data, first), library.ones(updates), "add")
    return library.quotient(totals, counts, counts > first)


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(real.shape, np.result_type(real, np.complex64))
    result.real, result.imag = real, imag
    return result


@dataclass(frozen=True)
class InPlace(Steps):
    """Arrays of NumPy, which `apply(data, updates, reduction)` changes by one scatter."""

    apply: Callable[[Array, Array, str], None]

    cast, complex = staticmethod(np.ndarray.astype), staticmethod(_complex)
    real, imag, maximum = staticmethod(np.real), staticmethod(np.imag), np.maximum

    def scatter(self, data: Array, updates: Array, reduction: str) -> Array:
        self.apply(data, updates, reduction)
        return data

    def start(self, updates: Array, reduction: str) -> Array:
        return np.broadcast_to(identity(updates.dtype, reduction), updates.shape)

    def counts(self, array: Array, count: int) -> Array:
        return np.full(array.shape, count)

    def ones(self, updates: Array) -> Array:
        return np.broadcast_to(np.int64(1), updates.shape)

    def wide(self, dtype: np.dtype[Any]) -> tuple[str, Any]:
        kind = dtypes.number_kind(dtype)
        if kind == "i":
            return kind, np.uint64 if dtype.kind == "u" else np.int64
        return kind, np.longdouble if dtype.char == "g" else np.float64

    def quotient(self, totals: Array, counts: Array, where: Array) -> Array:
        """Divide some at a time, in place, and leave the rest as it is."""
        writes: Any = [["readwrite"], ["readonly"], ["readonly"]]
        flags: Any = ["external_loop", "buffered", "zerosize_ok"]
        blocks = np.nditer([totals, counts, where], flags, writes, buffersize=_QUOTIENTS)
        with blocks, np.errstate(all="ignore"):
            for total, count, some in blocks:
                total[some] = super().quotient(total[some], count[some], None)
        return totals
