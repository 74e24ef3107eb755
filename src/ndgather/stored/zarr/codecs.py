"""From the stored bytes of a chunk to its values: known codecs of zarr, in reused memory.

Chunks with any other codec are read as ``z[...]`` reads them.
"""

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
from ndgather.stored.chunks import Buffers

Bytes: TypeAlias = Array  # of uint8

_KINDS = "biufcmM"  # of dtypes whose values are their bytes
_CHECKSUM_BYTES = 4
_MAGIC = {"zstd": b"\x28\xb5\x2f\xfd", "gzip": b"\x1f\x8b"}  # the first bytes
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after the first byte of a frame without values
_BLOSC_HEADER_BYTES = 16
_GZIP_LEAST_BYTES = 18
_SMALL_BYTES = 2**17  # decoded: numcodecs allocates them faster than it checks reused memory
# Codecs of zarr that decode without options; and the names of known codecs of numcodecs.
_SIMPLE: dict[type, Any] = {
    zarr.codecs.ZstdCodec: numcodecs.Zstd(),
    zarr.codecs.BloscCodec: numcodecs.Blosc(),
    zarr.codecs.GzipCodec: numcodecs.GZip(),
}
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


def _check_kind(head: bytes, codec: str) -> None:
    if not head.startswith(_MAGIC[codec]):
        raise ValueError(f"the chunk is not {codec}, which the metadata of the array says")


def _zstd_size(stored: Bytes) -> int | None:
    """Return the size in the header of the first frame (RFC 8878, 3.1.1.1), if it has one."""
    head = stored[:18].tobytes()
    if head[1:4] == _ZSTD_SKIPPABLE:
        return None
    _check_kind(head, "zstd")
    if len(head) < 6:
        return None
    flags = head[4]
    single = flags >> 5 & 1
    start = 5 + (not single) + (0, 1, 2, 4)[flags & 3]  # after the window and the dictionary
    count = (0, 2, 4, 8)[flags >> 6] or single
    if count == 0 or len(head) < start + count:
        return None
    return int.from_bytes(head[start : start + count], "little") + 256 * (count == 2)


def _blosc_size(stored: Bytes) -> int:
    """Return the size in the header, whose compressed size is checked: the decoder may crash."""
    head = stored[:_BLOSC_HEADER_BYTES].tobytes()
    compressed = int.from_bytes(head[12:16], "little")
    if not _BLOSC_HEADER_BYTES <= compressed <= stored.size:
        raise ValueError(f"Blosc: ends after {stored.size} of {compressed} bytes")
    return int.from_bytes(head[4:8], "little")


def _lz4_size(stored: Bytes) -> int | None:
    """Return the size that numcodecs writes before a block."""
    return int.from_bytes(stored[:4].tobytes(), "little") if stored.size >= 4 else None


def _gzip_size(stored: Bytes) -> int | None:
    """Return the size at the end of the last member (RFC 1952, 2.3.1), often the only one."""
    _check_kind(stored[:2].tobytes(), "gzip")
    if stored.size < _GZIP_LEAST_BYTES:
        return None
    return int.from_bytes(stored[-4:].tobytes(), "little")


# Sizes after decoding; the decoders check them.
_SIZES: dict[str, Callable[[Bytes], int | None]] = {
    "zstd": _zstd_size,
    "blosc": _blosc_size,
    "lz4": _lz4_size,
    "gzip": _gzip_size,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One codec from bytes to bytes."""

    decode: Callable[..., Any]
    size_of: Callable[[Bytes], int | None] | None  # None: it cannot decode into reused memory
    size: int | None  # after decoding, if it is the same for every chunk


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the chunks of one array, which all have one shape as they are stored."""

    dtype: np.dtype[Any]
    stored_dtype: np.dtype[Any]  # with the byte order of the store
    stored_shape: tuple[int, ...]
    axes: tuple[int, ...]  # of `stored_shape`, in the order of the axes of the array
    steps: tuple[Step, ...]
    bytes: int  # of all values

    def decode(self, stored: Bytes, buffers: Buffers) -> Array:
        """Return the values of a chunk, valid until `buffers` are used again."""
        buffers.acquire_permit()
        for step in self.steps:
            stored = _decoded(step, stored, buffers)
        if stored.size != self.bytes:
            raise _wrong_size(stored.size, self.bytes)
        values = stored.view(self.stored_dtype)
        if self.stored_dtype != self.dtype:
            native = buffers.memory("native", self.bytes).view(self.dtype)
            np.copyto(native, values)
            values = native
        return values.reshape(self.stored_shape).transpose(self.axes)


def _decoded(step: Step, stored: Bytes, buffers: Buffers) -> Bytes:
    size, expected = step.size_of(stored) if step.size_of else None, step.size
    if size is not None and expected is not None and size > expected:
        raise _wrong_size(size, expected)
    # A smaller size may be that of one of several frames or members, which one codec decodes.
    if size is None or size != expected or size <= _SMALL_BYTES:
        decoded = step.decode(stored)
        if isinstance(decoded, np.ndarray):
            return decoded.reshape(-1, order="A").view(np.uint8)
        return np.frombuffer(decoded, np.uint8)
    memory = buffers.decoded(size)
    step.decode(stored, memory)
    return memory


def _wrong_size(size: int, expected: int) -> ValueError:
    return ValueError(f"the chunk holds {size} bytes, and not the {expected} that it should")


def v3_decoder(
    codecs: Iterable[Codec], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Decoder | None:
    """Return the decoder for chunks of zarr format 3, or None if a codec is not known."""
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
    """Return the decoder for chunks of zarr format 2, or None if a codec is not known."""
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
    """Return the steps of decoding, from codecs in the order of encoding; None is not known."""
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
    """Return the codec of numcodecs for a codec of zarr format 3, or None if it is not known."""
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
    """Whether a codec of either format is known to give back all elements as they were."""
    v2 = hasattr(codec, "get_config")
    options = codec.get_config() if v2 else configuration(codec)
    name = str(options["id"] if v2 else codec.to_dict()["name"]).removeprefix("numcodecs.")
    if isinstance(codec, zarr.codecs.ShardingCodec):
        return all(is_lossless(each, dtype) for each in codec.codecs)
    if name == "delta":  # the differences of integers wrap; format 3 takes them in native order
        kinds = {np.dtype(options.get(each, dtype)) for each in ("dtype", "astype")}
        return dtype.kind in "iu" and kinds == {dtype} and (v2 or dtype.isnative)
    of_bytes = isinstance(codec, BytesBytesCodec) or name in _LOSSLESS
    return of_bytes or (name == "packbits" and dtype.kind == "b")


def configuration(codec: Codec) -> dict[str, Any]:
    """Return the options of a codec as in metadata."""
    options: Any = codec.to_dict().get("configuration")
    return options or {}


def _is_of(codec: Any, *packages: str) -> bool:
    return type(codec).__module__.partition(".")[0] in packages


def _check_crc32c(stored: Bytes) -> Bytes:
    """Return all but the checksum at the end, which is checked."""
    values, checksum = stored[:-_CHECKSUM_BYTES], stored[-_CHECKSUM_BYTES:].tobytes()
    if google_crc32c.value(values).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        raise ValueError("the checksum CRC32C is not that of the bytes")
    return values
