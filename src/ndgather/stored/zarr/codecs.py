"""Decoders for the chunks of zarr arrays whose codecs are all known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import google_crc32c
import numcodecs  # type: ignore[import-untyped]
import numpy as np
import zarr.codecs
from zarr.abc.codec import BytesBytesCodec, Codec

from ndgather.array_call import Array
from ndgather.stored.chunks import Buffers, wrong_size

Bytes: TypeAlias = Array  # of uint8

_KINDS = "biufcmM"  # kinds of dtypes whose elements have the same bytes in memory and in the store
_CHECKSUM_BYTES = 4
_MAGIC = {"zstd": b"\x28\xb5\x2f\xfd", "gzip": b"\x1f\x8b"}  # the first bytes of a frame
_BLOSC_HEADER_BYTES = 16
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # bytes 1 to 3 of a skippable frame
_GZIP_LEAST_BYTES = 18
# The zarr codecs that need no options for decoding.
_SIMPLE: dict[type, Any] = {
    zarr.codecs.ZstdCodec: numcodecs.Zstd(),
    zarr.codecs.BloscCodec: numcodecs.Blosc(),
    zarr.codecs.GzipCodec: numcodecs.GZip(),
}
# The names of numcodecs codecs that convert bytes to bytes; all of them are lossless.
_NAMES_OF_BYTES = frozenset(
    (
        *("zstd", "blosc", "lz4", "gzip", "zlib", "bz2", "lzma", "shuffle"),
        *("crc32", "crc32c", "adler32", "fletcher32"),
    )
)
_NAMES = _NAMES_OF_BYTES.union(
    ("delta", "fixedscaleoffset", "astype", "bitround", "quantize", "packbits")
)
_LOSSLESS = _NAMES_OF_BYTES.union(
    (
        *("bytes", "transpose", "base64", "pcodec"),
        *("vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2"),
    )
)
_SMALL_BYTES = 2**17  # up to this size, decoding into newly allocated memory is faster


def _check_kind(head: bytes, codec: str) -> None:
    if not head.startswith(_MAGIC[codec]):
        raise ValueError(f"the chunk is not compressed with {codec}, the codec of the array")


def _zstd_size(stored: Bytes) -> int | None:
    """Return the content size in the header of the first frame (RFC 8878, 3.1.1.1), if known."""
    head = stored[:18].tobytes()
    if head[1:4] == _ZSTD_SKIPPABLE:
        return None
    _check_kind(head, "zstd")
    if len(head) < 6:
        return None
    flags = head[4]
    single = flags >> 5 & 1
    start = 5 + (not single) + (0, 1, 2, 4)[flags & 3]  # skips optional header fields
    count = (0, 2, 4, 8)[flags >> 6] or single
    if count == 0 or len(head) < start + count:
        return None
    return int.from_bytes(head[start : start + count], "little") + 256 * (count == 2)


def _blosc_size(stored: Bytes) -> int:
    """Return the decoded size, after checking the compressed size to protect the decoder."""
    head = stored[:_BLOSC_HEADER_BYTES].tobytes()
    compressed = int.from_bytes(head[12:16], "little")
    if not _BLOSC_HEADER_BYTES <= compressed <= stored.size:
        raise ValueError(f"Blosc: ends after {stored.size} of {compressed} bytes")
    return int.from_bytes(head[4:8], "little")


def _lz4_size(stored: Bytes) -> int | None:
    """Return the decoded size, which numcodecs writes in front of the block."""
    return int.from_bytes(stored[:4].tobytes(), "little") if stored.size >= 4 else None


def _gzip_size(stored: Bytes) -> int | None:
    """Return the decoded size of the last (and usually only) gzip member (RFC 1952, 2.3.1)."""
    _check_kind(stored[:2].tobytes(), "gzip")
    if stored.size < _GZIP_LEAST_BYTES:
        return None
    return int.from_bytes(stored[-4:].tobytes(), "little")


# Functions that return the decoded size of a chunk, which the decoders verify.
_SIZES: dict[str, Callable[[Bytes], int | None]] = {
    "zstd": _zstd_size,
    "blosc": _blosc_size,
    "lz4": _lz4_size,
    "gzip": _gzip_size,
}


@dataclass(frozen=True, slots=True)
class Step:
    """A decoding step that converts bytes to bytes."""

    decode: Callable[..., Any]
    size_of: Callable[[Bytes], int | None] | None  # None if decoding cannot reuse a buffer
    expected_size: int | None


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder for the chunks of an array, which are all stored with the same shape."""

    dtype: np.dtype[Any]
    stored_dtype: np.dtype[Any]  # the dtype with the stored byte order
    stored_shape: tuple[int, ...]
    axes: tuple[int, ...]  # the axes of `stored_shape` in the order of the array's axes
    steps: tuple[Step, ...]
    bytes: int  # decoded size

    def decode(self, stored: Bytes, buffers: Buffers) -> Array:
        """Return the values of a chunk, which are valid until `buffers` is used again."""
        buffers.acquire_permit()
        for step in self.steps:
            stored = _decoded(step, stored, buffers)
        if stored.size != self.bytes:
            raise wrong_size(stored.size, self.bytes)
        values = stored.view(self.stored_dtype)
        if self.stored_dtype != self.dtype:
            native = buffers.memory("native", self.bytes).view(self.dtype)
            np.copyto(native, values)
            values = native
        return values.reshape(self.stored_shape).transpose(self.axes)


def _decoded(step: Step, stored: Bytes, buffers: Buffers) -> Bytes:
    size, expected = step.size_of(stored) if step.size_of else None, step.expected_size
    if size is not None and expected is not None and size > expected:
        raise wrong_size(size, expected)
    # A size below the expected size may mean several frames, which are decoded together.
    if size is None or size != expected or size <= _SMALL_BYTES:
        decoded = step.decode(stored)
        if isinstance(decoded, np.ndarray):
            return decoded.reshape(-1, order="A").view(np.uint8)
        return np.frombuffer(decoded, np.uint8)
    memory = buffers.decoded(size)
    step.decode(stored, memory)
    return memory


def v3_decoder(
    codecs: Iterable[Codec], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Decoder | None:
    """Return the decoder for chunks of zarr format 3, or None if a codec is unknown."""
    axes = tuple(range(len(shape)))
    rest = list(codecs)
    while rest and type(rest[0]) is zarr.codecs.TransposeCodec:
        axes = tuple(axes[axis] for axis in configuration(rest.pop(0))["order"])
    if dtype.kind not in _KINDS or not rest or type(rest[0]) is not zarr.codecs.BytesCodec:
        return None
    endian = configuration(rest.pop(0)).get("endian")
    count = prod(shape) * dtype.itemsize
    steps = _steps(map(_v3_codec, rest), count)
    if steps is None:
        return None
    stored_dtype = dtype.newbyteorder(endian) if endian else dtype
    stored_shape = tuple([shape[axis] for axis in axes])
    inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return Decoder(dtype, stored_dtype, stored_shape, inverse, steps, count)


def v2_decoder(metadata: Any, dtype: np.dtype[Any]) -> Decoder | None:
    """Return the decoder for chunks of zarr format 2, or None if a codec is unknown."""
    codecs = [*(metadata.filters or ()), *filter(None, (metadata.compressor,))]
    shape = tuple(metadata.chunks)
    count = prod(shape) * dtype.itemsize
    known = all(_is_of(codec, "numcodecs") and codec.codec_id in _NAMES for codec in codecs)
    steps = _steps(codecs, count) if known else None
    if dtype.kind not in _KINDS or steps is None:
        return None
    axes = tuple(range(len(shape)))
    if metadata.order == "F":
        shape, axes = shape[::-1], axes[::-1]
    return Decoder(dtype, dtype, shape, axes, steps, count)


def _steps(codecs: Iterable[Any], size: int) -> tuple[Step, ...] | None:
    """Return the decoding steps for codecs in encoding order, or None if a codec is None."""
    steps: list[Step] = []
    known_size: int | None = size
    for codec in codecs:
        if codec is None:
            return None
        if codec is _check_crc32c:
            steps.append(Step(codec, None, None))
            known_size = None if known_size is None else known_size + _CHECKSUM_BYTES
        else:
            decode = numcodecs.zstd.decompress if codec.codec_id == "zstd" else codec.decode
            steps.append(Step(decode, _SIZES.get(codec.codec_id), known_size))
            known_size = None
    return tuple(reversed(steps))


def _v3_codec(codec: Codec) -> Any:
    """Return the numcodecs equivalent of a zarr format 3 codec, or None if there is none."""
    if type(codec) is zarr.codecs.Crc32cCodec:
        return _check_crc32c
    if type(codec) in _SIMPLE:
        return _SIMPLE[type(codec)]
    prefix, _, name = str(codec.to_dict()["name"]).rpartition("numcodecs.")
    ours = _is_of(codec, "zarr", "numcodecs") and isinstance(codec, BytesBytesCodec)
    if prefix or not ours or name not in _NAMES:
        return None
    return numcodecs.get_codec({"id": name, **configuration(codec)})


def is_lossless(codec: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether a codec of either format is known to be lossless."""
    v2 = hasattr(codec, "get_config")
    options = codec.get_config() if v2 else configuration(codec)
    name = str(options["id"] if v2 else codec.to_dict()["name"]).removeprefix("numcodecs.")
    if isinstance(codec, zarr.codecs.ShardingCodec):
        return all(is_lossless(each, dtype) for each in codec.codecs)
    if name == "delta":  # lossless for integers; format 3 also requires native byte order
        kinds = {np.dtype(options.get(each, dtype)) for each in ("dtype", "astype")}
        return dtype.kind in "iu" and kinds == {dtype} and (v2 or dtype.isnative)
    of_bytes = isinstance(codec, BytesBytesCodec) or name in _LOSSLESS
    return of_bytes or (name == "packbits" and dtype.kind == "b")


def configuration(codec: Codec) -> dict[str, Any]:
    options: Any = codec.to_dict().get("configuration")
    return options or {}


def _is_of(codec: Any, *packages: str) -> bool:
    return type(codec).__module__.partition(".")[0] in packages


def _check_crc32c(stored: Bytes) -> Bytes:
    """Check and remove the checksum at the end."""
    values, checksum = stored[:-_CHECKSUM_BYTES], stored[-_CHECKSUM_BYTES:].tobytes()
    if google_crc32c.value(values).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        raise ValueError("the CRC32C checksum does not match")
    return values
