"""In-memory arrays that are read in chunks of any shape, like stored arrays."""

import threading
from dataclasses import dataclass, field

import numpy as np

from ndgather.stored.chunks import Grid
from tests.definitions.calls import element_bytes, moves_as_bytes


@dataclass
class CutArray:
    """A reader that records its reads and can be made to fail."""

    values: np.ndarray
    grid: Grid
    in_flight: int = 1
    name: str = "cut"
    fails_at: tuple[int, ...] | None = None
    reads: list = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def chunk_bytes(self):
        return int(np.prod(self.grid.largest, dtype=object)) * self.values.itemsize

    stored_bytes = chunk_bytes

    def read(self, chunk, buffers):
        with self.lock:
            self.reads.append(chunk)
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            if chunk == self.fails_at:
                raise ValueError("a damaged chunk")
            part = self.values[(..., *self.grid.box(chunk))]
            if not moves_as_bytes(part.dtype):
                return part.copy()
            memory = buffers.decoded(part.nbytes)
            memory[:] = np.frombuffer(element_bytes(part), np.uint8)
            return memory.view(part.dtype).reshape(part.shape) if part.nbytes else part.copy()
        finally:
            with self.lock:
                self.at_once -= 1
