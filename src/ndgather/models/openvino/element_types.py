"""The element types of OpenVINO IR: their names, and how they lie in a file of constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import constant_errors
from ndgather.models.graph.dtypes import dtype_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    """A type by the name of attributes, the name of ports, and the name of NumPy.

    `bits` is the width of an element in a file of constants, 0 where it has no fixed one.
    """

    name: str
    precision: str
    dtype: str
    bits: int


_ROWS = (
    ("boolean", "BOOL", "bool", 8),
    ("bf16", "BF16", "bfloat16", 16),
    ("f16", "FP16", "float16", 16),
    ("f32", "FP32", "float32", 32),
    ("f64", "FP64", "float64", 64),
    ("f4e2m1", "F4E2M1", "float4_e2m1fn", 4),
    ("f8e4m3", "F8E4M3", "float8_e4m3fn", 8),
    ("f8e5m2", "F8E5M2", "float8_e5m2", 8),
    ("f8e8m0", "F8E8M0", "float8_e8m0fnu", 8),
    ("i4", "I4", "int4", 4),
    ("i8", "I8", "int8", 8),
    ("i16", "I16", "int16", 16),
    ("i32", "I32", "int32", 32),
    ("i64", "I64", "int64", 64),
    ("u1", "U1", "uint1", 1),
    ("u2", "U2", "uint2", 2),
    ("u3", "U3", "uint3", 3),
    ("u4", "U4", "uint4", 4),
    ("u6", "U6", "uint6", 6),
    ("u8", "U8", "uint8", 8),
    ("u16", "U16", "uint16", 16),
    ("u32", "U32", "uint32", 32),
    ("u64", "U64", "uint64", 64),
    ("nf4", "NF4", "nf4", 4),
    ("string", "STRING", "string", 0),
)
ELEMENT_TYPES = tuple(
    ElementType(name=name, precision=precision, dtype=dtype, bits=bits)
    for name, precision, dtype, bits in _ROWS
)
# Constants of these are refused: their elements lie across bytes, in another order, or apart.
_WITHOUT_ARRAYS = frozenset({"nf4", "string", "u1", "u3", "u6"})
BY_NAME = {each.name: each for each in ELEMENT_TYPES}
BY_PRECISION = {each.precision: each for each in ELEMENT_TYPES}
BY_DTYPE = {each.dtype: each for each in ELEMENT_TYPES}


def stored_bytes(element: ElementType, shape: Sequence[int]) -> int:
    """Return how many bytes a constant takes; Python integers do not overflow."""
    count = 1
    for size in shape:
        count *= size
    return -(-count * element.bits // 8)


def array_from(element: ElementType, shape: tuple[int, ...], content: NDArray[np.uint8]) -> Array:
    """Return the constant that `content` holds, without a copy where none is needed."""
    if element.name in _WITHOUT_ARRAYS:
        raise constant_errors.constant_type(element.name)
    dtype = dtype_of(element.dtype)
    if element.bits < 8:
        return _unpacked(content, element.bits, dtype, shape)
    if element.dtype == "bool":
        return np.not_equal(content, 0).reshape(shape)
    stored = np.frombuffer(content, _little_endian(dtype)).reshape(shape)
    return stored.astype(dtype, copy=False)


def bytes_of(element: ElementType, array: Array) -> bytes:
    """Return what a file of constants holds for `array`."""
    if element.name in _WITHOUT_ARRAYS:
        raise constant_errors.constant_type(element.name)
    if element.bits < 8:
        return _packed(array, element.bits)
    return array.astype(_little_endian(array.dtype), copy=False).tobytes()


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype


def _unpacked(
    content: NDArray[np.uint8], bits: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    """Give each element a byte of its own; the first one lies in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((content[:, None] >> shifts) & np.uint8(2**bits - 1)).reshape(-1)
    codes = codes[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
    return codes.view(dtype)


def _packed(array: Array, bits: int) -> bytes:
    codes = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & np.uint8(2**bits - 1)
    each = 8 // bits
    padded = np.zeros(-(-codes.size // each) * each, np.uint8)
    padded[: codes.size] = codes
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    lanes = padded.reshape(-1, each) << shifts
    joined: NDArray[np.uint8] = np.bitwise_or.reduce(lanes, axis=1)
    return joined.tobytes()
