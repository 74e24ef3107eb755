"""The arrays of the cases; each value is a function of its position, so results can be checked."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pathlib import Path

Array = NDArray[Any]

_LEVEL = 3  # compression level of zstd
_NOISE_BITS = 4  # like measured values, neighbors differ
_TO_TOP = np.uint32(32 - _NOISE_BITS)
_NOISE = np.float32(1 << _NOISE_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The side lengths of arrays, shards and chunks, all of which are cubes."""

    side: int
    chunk: int
    shard: int
    inner: int
    target: int  # side length of the target of a scatter
    share: int  # divides the number of points, rows and windows of a case

    def count(self, count: int) -> int:
        return max(count // self.share, 20)


FULL = Size(side=1024, chunk=128, shard=256, inner=32, target=512, share=1)
REDUCED = Size(side=64, chunk=16, shard=32, inner=8, target=32, share=2000)


def values(*coordinates: Array) -> NDArray[np.float32]:
    """Return a slope with four bits of noise; zstd compresses it to a third."""
    i, j, k = (axis.astype(np.uint32) for axis in coordinates)
    noise = _mixed((i << np.uint32(20)) + (j << np.uint32(10)) + k) >> _TO_TOP
    slope = (i * np.uint32(2) + j + k).astype(np.float32)
    return slope + noise.astype(np.float32) / _NOISE


def _mixed(number: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Hash integers so that each bit depends on all bits of the argument."""
    number = number ^ (number >> np.uint32(16))
    number *= np.uint32(0x7FEB352D)
    number ^= number >> np.uint32(15)
    number *= np.uint32(0x846CA68B)
    number ^= number >> np.uint32(16)
    return number


def store(folder: Path, name: str, size: Size) -> Path:
    """Return the path of a zarr array; create it if it does not exist."""
    path = folder / f"{name}-{size.side}.zarr"
    if not path.exists():
        part = path.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        _write(part, name, size)
        part.rename(path)
    return path


def _write(path: Path, name: str, size: Size) -> None:
    import zarr  # noqa: PLC0415 - the floor does not need it
    from zarr.codecs import ZstdCodec  # noqa: PLC0415

    side = size.target if name == "target" else size.side
    unit, chunk = (size.shard, size.inner) if name == "sharded" else (size.chunk, size.chunk)
    array: Any = zarr.create_array(
        str(path),
        shape=(side,) * 3,
        chunks=(chunk,) * 3,
        shards=(unit,) * 3 if unit != chunk else None,
        dtype="float32",
        compressors=ZstdCodec(level=_LEVEL),
    )

    def write(starts: tuple[int, ...]) -> None:
        ranges = [np.arange(start, start + unit) for start in starts]
        array[tuple(slice(start, start + unit) for start in starts)] = values(*np.ix_(*ranges))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, product(range(0, side, unit), repeat=3)))
