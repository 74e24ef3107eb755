"""The floor: read and decode the chunks that a call touches, with two threads, nothing else."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .request import Request

_numcodecs: Any = import_module("numcodecs")

_THREADS = 2
_ENTRY_BYTES = 16  # of a shard's index: offset and size of an inner chunk
_CHECKSUM_BYTES = 4

_Piece = tuple["Path", int, int]  # file, offset, bytes


def prepare(request: Request, method: str) -> Callable[[], None]:
    del method
    pieces = list(_pieces(request))
    codec = _numcodecs.Zstd()

    def share(first: int) -> None:
        decoded = np.empty(request.chunk_bytes, np.uint8)
        for path, offset, count in pieces[first::_THREADS]:
            with path.open("rb", buffering=0) as file:
                codec.decode(os.pread(file.fileno(), count, offset), decoded)

    def run() -> None:
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(share, range(_THREADS)))

    return run


def _pieces(request: Request) -> list[_Piece]:
    """Return where the touched chunks lie."""
    chunks = request.touched()
    root = request.path / "c"
    if request.case.store != "sharded":
        paths = [root.joinpath(*map(str, chunk)) for chunk in chunks]
        return [(path, 0, path.stat().st_size) for path in paths]
    per_shard = request.size.shard // request.size.inner
    indexes: dict[Path, Any] = {}
    pieces = []
    for chunk in chunks:
        path = root.joinpath(*(str(number // per_shard) for number in chunk))
        if path not in indexes:
            indexes[path] = _shard_index(path, per_shard)
        offset, count = indexes[path][tuple(number % per_shard for number in chunk)]
        pieces.append((path, int(offset), int(count)))
    return pieces


def _shard_index(path: Path, per_shard: int) -> Any:
    shape = (per_shard,) * 3
    count = math.prod(shape) * _ENTRY_BYTES
    with path.open("rb") as file:
        file.seek(-count - _CHECKSUM_BYTES, os.SEEK_END)
        return np.frombuffer(file.read(count), "<u8").reshape(*shape, 2)
