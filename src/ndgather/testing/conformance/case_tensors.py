"""The tensors of the corpus: JSON records that become NumPy arrays.

A record has a ``dtype`` and one of

``values``
    nested lists; complex numbers are strings such as ``"1-2j"``;
``bits``
    the bytes of each element as a hexadecimal number, for what JSON cannot write;
``arange``
    ``[start, step]``: the element at position `k` in C order is ``start + step * k``, taken modulo
    ``modulo`` if that is given;
``full``
    one value for all elements.

``shape`` is needed where `values` do not show it. ``except`` replaces single elements:
``[[position in C order, value], ...]``. ``layout`` says how the array lies in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.runtimes.array_types import dtype_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One record of the corpus."""

    record: Mapping[str, Any]

    @property
    def dtype(self) -> str:
        return str(self.record["dtype"])

    def array(self) -> Array:
        """Return the values as a new array in the layout that the record asks for.

        Raises
        ------
        ModuleNotFoundError
            NumPy alone has no such type, and `ml_dtypes` is not installed.
        """
        array = self._values(dtype_named(self.dtype))
        if "shape" in self.record:
            array = array.reshape(tuple(self.record["shape"]))
        for position, value in self.record.get("except", ()):
            array.reshape(-1)[position] = value
        return _LAYOUTS[self.record.get("layout", "C")](array)

    def _values(self, dtype: np.dtype[Any]) -> Array:
        record = self.record
        if "bits" in record:
            width = dtype.itemsize
            elements = (int(digits, 16).to_bytes(width, "little") for digits in record["bits"])
            stored = np.frombuffer(b"".join(elements), f"<u{width}")
            native: Array = stored.astype(f"=u{width}")
            return native.view(dtype)
        if "arange" in record:
            start, step = record["arange"]
            steps = np.arange(int(np.prod(record["shape"], dtype=np.int64)))
            values: Array = start + step * steps
            return (values % record["modulo"] if "modulo" in record else values).astype(dtype)
        if "full" in record:
            return np.full(record["shape"], record["full"], dtype)
        if dtype.kind == "c":
            return np.array(record["values"], object).astype(dtype)
        return np.array(record["values"], dtype)


def _reversed(array: Array) -> Array:
    back = (slice(None, None, -1),) * array.ndim
    return np.ascontiguousarray(array[back])[back]


def _every_second(array: Array) -> Array:
    room = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    room[..., ::2] = array
    return room[..., ::2]


def _repeated(array: Array) -> Array:
    return np.broadcast_to(array[..., :1], array.shape)


def _unaligned(array: Array) -> Array:
    memory = bytearray(array.nbytes + 1)
    moved: Array = np.ndarray(array.shape, array.dtype, memory, 1)
    moved[...] = array
    return moved


def _big_endian(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder(">"))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


_LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda array: array,
    "F": np.asfortranarray,
    "reversed": _reversed,
    "every second": _every_second,
    "repeated": _repeated,
    "unaligned": _unaligned,
    "big-endian": _big_endian,
    "read-only": _read_only,
}
