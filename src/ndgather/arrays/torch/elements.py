"""Tensors as arrays of the core: NumPy's own types, or bits of one width with an arithmetic.

NumPy has no bfloat16, no float8 and no complex number of two float16. A copy needs their width
alone; to compute, the core knows bfloat16, and takes a table of all pairs for types of one byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ndgather import reductions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTEGERS = (*_SIGNED, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_NUMPY = {
    each: torch.empty(0, dtype=each).numpy().dtype
    for each in (
        *INTEGERS,
        torch.bool,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}
_FLOATS = {torch.bfloat16} | {
    value
    for name, value in vars(torch).items()
    if name.startswith("float8_") and isinstance(value, torch.dtype)
}


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any] | None:
    """Return NumPy's type for the elements; None where it has none."""
    return _NUMPY.get(dtype)


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a type that NumPy has, with the same bits in the same memory."""
    return tensor if tensor.dtype in _NUMPY else tensor.view(_BITS[tensor.itemsize])


def array_of(tensor: torch.Tensor) -> Array:
    """Return an array that shares the memory of a tensor, conj and neg views resolved."""
    tensor = bits_of(tensor.detach().resolve_conj().resolve_neg())
    array: Array = tensor.numpy()
    return array


def tensor_of(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of `dtype` that shares the memory of an array of its bits."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def meaningful(dtype: torch.dtype) -> tuple[str, ...]:
    """Return the reductions that have a meaning for elements of `dtype`."""
    alike = np.dtype(np.float32) if dtype in _FLOATS else _NUMPY.get(dtype, np.dtype("V1"))
    return reductions.meaningful(alike)


def for_core(dtype: torch.dtype, reduction: str) -> Array | str | None:
    """Return what the core has to be told to compute with the bits of `dtype`."""
    if dtype in _NUMPY or reduction == "none":
        return None
    return "bfloat16" if dtype == torch.bfloat16 else table(dtype, reduction)


@lru_cache(maxsize=64)
def table(dtype: torch.dtype, reduction: str) -> NDArray[np.uint8]:
    """Return the byte of the result for the byte of an old value (row) and of an update (column).

    In min and max a NaN wins and the old value is kept where both are equal.
    """
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    wide = every.to(torch.float32)  # holds each sum, difference and product to the last bit needed
    old, update = wide[:, None], wide[None, :]
    if reduction in ("min", "max"):
        wins = update < old if reduction == "min" else update > old
        takes = ~old.isnan() & (wins | update.isnan())
        result = torch.where(
            takes, every.view(torch.uint8)[None, :], every.view(torch.uint8)[:, None]
        )
    else:
        combine = {"add": torch.add, "sub": torch.sub, "mul": torch.mul}[reduction]
        result = combine(old, update).to(dtype).view(torch.uint8)
    results: NDArray[np.uint8] = result.contiguous().numpy().reshape(-1)
    results.setflags(write=False)
    return results


def identity(dtype: torch.dtype, reduction: str) -> Any:
    """Return the number that a reduction starts from where no element takes part."""
    if reduction not in ("min", "max"):
        return int(reduction == "mul")
    if dtype == torch.bool:
        return reduction == "min"
    if dtype in INTEGERS:
        bounds = torch.iinfo(dtype)
        return bounds.max if reduction == "min" else bounds.min
    if dtype.itemsize > 1:
        return float("inf") if reduction == "min" else float("-inf")
    wide = torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32)
    numbers = wide[~wide.isnan()]
    return float(numbers.max() if reduction == "min" else numbers.min())
