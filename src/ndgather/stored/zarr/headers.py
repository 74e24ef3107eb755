"""How many bytes compressed bytes say that they hold, by the headers of their formats.

A codec that decodes into memory leaves the rest of it as it was, so what is held has to fill it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[Any]  # of uint8

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
_ZSTD_SIZE_BYTES = (0, 2, 4, 8)
_BLOSC_HEADER_BYTES = 16
_GZIP_LEAST_BYTES = 18


def zstd_size(stored: Bytes) -> int | None:
    """Return the size of the first frame (RFC 8878, 3.1.1.1); None where it is not told.

    The codec checks that the frame has this size, and refuses more frames than memory is for.
    """
    head = stored[:18].tobytes()
    if len(head) < 6 or not head.startswith(_ZSTD_MAGIC):
        return None
    flags = head[4]
    single = flags >> 5 & 1
    start = 5 + (not single) + _ZSTD_DICTIONARY_BYTES[flags & 3]
    count = _ZSTD_SIZE_BYTES[flags >> 6] or single
    if count == 0 or len(head) < start + count:
        return None
    return int.from_bytes(head[start : start + count], "little") + 256 * (count == 2)


def blosc_size(stored: Bytes) -> int:
    """Return the size in the header of Blosc, whose decoder trusts what the header says.

    Raises
    ------
    ValueError
        The compressed bytes end before the header says that they do.
    """
    head = stored[:_BLOSC_HEADER_BYTES].tobytes()
    compressed = int.from_bytes(head[12:16], "little")
    if not _BLOSC_HEADER_BYTES <= compressed <= stored.size:
        raise ValueError(f"Blosc: ends after {stored.size} of {compressed} bytes")
    return int.from_bytes(head[4:8], "little")


def lz4_size(stored: Bytes) -> int | None:
    """Return the size that numcodecs writes before a block of LZ4."""
    head = stored[:4].tobytes()
    return int.from_bytes(head, "little") if len(head) == 4 else None


def gzip_size(stored: Bytes) -> int | None:
    """Return the size of the last member (RFC 1952, 2.3.1), the only one as a rule.

    The codec checks it, and refuses more than memory is for.
    """
    return (
        int.from_bytes(stored[-4:].tobytes(), "little")
        if stored.size >= _GZIP_LEAST_BYTES
        else None
    )


SIZES: dict[str, Callable[[Bytes], int | None]] = {
    "zstd": zstd_size,
    "blosc": blosc_size,
    "lz4": lz4_size,
    "gzip": gzip_size,
}
