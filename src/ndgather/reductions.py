"""The table of reductions that all adapters share, and multi-step reductions.

A reduction combines an element with an update. The core implements all reductions except ``mean``.

>>> from ndgather.reductions import ROWS, supported
>>> ROWS["mul"].start, ROWS["mul"].of_bits  # products start at 1; for bits, "and" is the minimum
(1, 'min')
>>> supported("c")  # complex numbers
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

_ONE = np.ones(1, np.int64)

Name: TypeAlias = Literal["none", "add", "sub", "mul", "min", "max", "mean"]


@dataclass(frozen=True, slots=True)
class Row:
    """One reduction. An empty name means that the library has no equivalent."""

    kinds: str  # letters of the supported kinds of numbers; see `dtypes.number_kind`
    start: Literal[0, 1, "least", "greatest"]  # the identity
    of_bits: str  # for booleans as 0 and 1, the reduction with the same result modulo 2
    # How gradients flow: unchanged ("moves"), divided by the number of terms ("counts"),
    # multiplied by other factors ("others"), or split among terms equal to the result ("equals").
    derivative: Literal["moves", "counts", "others", "equals"]
    ufunc: Any = None  # the NumPy function, which has the same name in TensorFlow
    sign: str = ""  # the infix operator in formulas, or "" for functions
    torch: str = ""  # name in `Tensor.scatter_reduce`
    tensorflow: str = ""  # name in `tf.math.unsorted_segment_...`
    added: int = 0  # 1 for add, -1 for sub, and 0 for all other reductions
    takes: Callable[[Any, Any], Any] | None = None  # whether an update replaces an element
    onnx: tuple[str, int] = ("", 0)  # the operator, and the first opset whose scatters support it


# The reductions are in the same order as in the core, which does not implement mean.
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
    """Return the reductions that a number kind supports. The kind of non-numeric dtypes is ""."""
    return tuple(n for n, row in ROWS.items() if n == "none" or (kind and kind in row.kinds))


def has_start(scatter: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` can represent the initial value of a scatter, which is 0 for sums."""
    is_sum = not scatter.use_init_val and ROWS[scatter.reduction].sign == "+"
    return not is_sum or dtype.itemsize > 1 or dtypes.hold_one(0, dtype) is not None


def in_one_step(reduction: str, use_init_val: bool) -> bool:
    return reduction == "none" or (use_init_val and reduction != "mean")


def byte_results(
    reduction: str, elements: Array, bytes_of: Callable[[Array], Array]
) -> NDArray[np.uint8]:
    """Return a table of results, with a row for each element and a column for each update.

    The array `elements` contains the numbers that the bytes 0 to 255 represent, and the function
    `bytes_of` rounds numbers to bytes.
    """
    row, code = ROWS[reduction], np.arange(256, dtype=np.uint8)
    old, update = elements[:, np.newaxis], elements[np.newaxis, :]
    with np.errstate(all="ignore"):
        if row.takes is None:
            result = bytes_of(row.ufunc(old, update))
        else:  # NaN wins, and an equal update does not replace the element
            a, b = old.astype(np.float64), update.astype(np.float64)
            taken = ~np.isnan(a) & (row.takes(b, a) | np.isnan(b))
            result = np.where(taken, code, code[:, np.newaxis])
    results = np.ascontiguousarray(result).reshape(-1)
    results.setflags(write=False)
    return results


def identity(dtype: np.dtype[Any] | dtypes.Numbers, reduction: str) -> Array:
    """Return the identity of a reduction, which leaves any element unchanged."""
    start = ROWS[reduction].start
    if isinstance(start, str):
        return dtypes.extremes(dtype)[int(start == "greatest"), ...]
    return np.array(bool(start)).astype(dtype if isinstance(dtype, np.dtype) else np.float64)


class Steps:
    """The operations of an array library that `in_steps` needs.

    ``scatter(data, updates, reduction)`` runs a single step and may modify data.
    ``start(updates, reduction)`` returns an array like updates, filled with the identity.
    ``counts(array, count)`` returns an integer array of the same shape, filled with `count`.
    ``wide(dtype)`` returns the kind of a dtype (i, f or c) and the dtype to use for divisions.
    `cast`, `complex`, `real`, `imag` and `maximum` are the library's own functions.
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
        return self.counts(updates, 1)

    def quotient(self, totals: Any, counts: Any, where: Any) -> Any:
        """Return ``totals / counts``, rounded once to the dtype of totals. Integers round down.

        The mask `where` is true for elements with updates. Elements without updates may be left
        unchanged.
        """
        kind, wide = self.wide(totals.dtype)
        if kind == "c":
            parts = self.real(totals), self.imag(totals)
            return self.complex(*(Steps.quotient(self, part, counts, where) for part in parts))
        divide, counts = floordiv if kind == "i" else truediv, self.maximum(counts, 1)
        return self.cast(divide(self.cast(totals, wide), self.cast(counts, wide)), totals.dtype)


def in_steps(library: Steps, data: Any, updates: Any, reduction: str, use_init_val: bool) -> Any:
    """Compute a mean, or a reduction that starts from its identity, using several scatters."""
    if not use_init_val and reduction != "none":
        data = library.scatter(data, library.start(updates, reduction), "none")
    if reduction != "mean":
        return library.scatter(data, updates, reduction)
    totals = library.scatter(data, updates, "add")
    first = int(use_init_val)
    counts = library.scatter(library.counts(data, first), library.ones(updates), "add")
    return library.quotient(totals, counts, counts > first)


@dataclass(frozen=True)
class InPlace(Steps):
    """Steps on NumPy arrays. `apply(data, updates, reduction)` runs a single scatter in place."""

    apply: Callable[[Array, Array, str], None]

    def scatter(self, data: Array, updates: Array, reduction: str) -> Array:
        self.apply(data, updates, reduction)
        return data

    def start(self, updates: Array, reduction: str) -> Array:
        return np.broadcast_to(identity(updates.dtype, reduction), updates.shape)

    def counts(self, array: Array, count: int) -> Array:
        return np.full(array.shape, count)

    def ones(self, updates: Array) -> Array:
        return np.ndarray(updates.shape, np.int64, _ONE, strides=(0,) * updates.ndim)

    def wide(self, dtype: np.dtype[Any]) -> tuple[str, Any]:
        kind = dtypes.number_kind(dtype)
        if kind == "i":
            return kind, np.uint64 if dtype.kind == "u" else np.int64
        return kind, np.longdouble if dtype.char == "g" else np.float64

    def quotient(self, totals: Array, counts: Array, where: Array) -> Array:
        """Divide elements that have updates, in place."""
        is_complex = dtypes.number_kind(totals.dtype) == "c"
        with np.errstate(all="ignore"):
            for part in (totals.real, totals.imag) if is_complex else (totals,):
                kind, wide = self.wide(part.dtype)
                divide = np.floor_divide if kind == "i" else np.divide
                divide(part, counts, part, where=where, dtype=wide, casting="unsafe")
        return totals
