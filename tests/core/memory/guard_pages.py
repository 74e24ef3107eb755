"""Arrays next to inaccessible pages; run as a script, it succeeds or crashes.

Each buffer ends at the last byte before such a page or begins at the first byte after one, so
accessing a single byte beyond an array kills the process. Standard input lists the tasks as one
JSON list per line. The script prints each line before running it, so the last line printed caused
the crash.
"""

import ctypes
import json
import mmap
import sys

import numpy as np

import ndgather

PAGE = mmap.PAGESIZE
NO_ACCESS = 0
LIBC = ctypes.CDLL(None, use_errno=True)


class GuardedMemory:
    """Accessible pages between two inaccessible pages."""

    def __init__(self, size):
        self.pages = -(-max(size, 1) // PAGE)
        self.map = mmap.mmap(-1, (self.pages + 2) * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for page in (0, self.pages + 1):
            address = ctypes.c_void_p(self.start + page * PAGE)
            if LIBC.mprotect(address, ctypes.c_size_t(PAGE), NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")

    def array(self, shape, dtype, strides, end):
        """Return an array at the beginning or the end of the accessible memory."""
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        below, above = -sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        used = below + above + np.dtype(dtype).itemsize
        offset = PAGE + (self.pages * PAGE - used if end else 0) + below
        return np.ndarray(shape, dtype, self.map, offset, strides)


KEEP = []


def guarded(values, layout, end):
    """Return a copy of `values` in memory that is guarded on one side."""
    values = np.asarray(values)
    width = values.dtype.itemsize
    gap = {"gaps": width + 3, "every second": 2 * width}.get(layout, width)
    strides = []
    for size in reversed(values.shape):
        strides.insert(0, -gap if layout == "backwards" else gap)
        gap *= size
    memory = GuardedMemory(gap + 8 * width)
    KEEP.append(memory)
    array = memory.array(values.shape, values.dtype, strides, end)
    array[...] = values
    return array


def call(function, data_shape, indices_shape, dtype, index_dtype, option, layout, end, threads):
    ndgather.set_num_threads(threads)
    random = np.random.default_rng(len(KEEP))
    width = np.dtype(dtype).itemsize
    stored = random.integers(0, 256, (int(np.prod(data_shape)), width), np.uint8)
    plain = np.ndarray(data_shape, dtype, stored.data)
    if function == "gather_nd":
        sizes = np.array(data_shape[option : option + indices_shape[-1]])
    else:
        sizes = np.array(data_shape[option])
    values = random.integers(0, sizes, indices_shape)
    values.flat[: values.shape[-1]] = 0  # the first and the last element of each axis
    values.flat[-values.shape[-1] :] = sizes - 1
    values = np.where(random.integers(0, 2, values.shape), values, values - sizes)
    values = (
        np.maximum(values, np.iinfo(index_dtype).min) if index_dtype[0] == "i" else values % sizes
    )
    data, indices = guarded(plain, layout, end), guarded(values.astype(index_dtype), layout, end)
    run = getattr(ndgather, function)
    desired = run(plain.copy(), values.astype(np.int64), option)
    kept, packed = guarded(desired, layout, end), guarded(desired, "C", end)
    for out in (kept, packed):
        out[...] = np.zeros((), dtype)
    for result in (run(data, indices, option, out=out) for out in (None, kept, packed)):
        if result.tobytes() != desired.tobytes():
            raise AssertionError("wrong result")
    outside = indices.copy()
    outside.flat[-1] = np.iinfo(index_dtype).max
    for mode in ("clip", "wrap", "fill"):
        run(data, guarded(outside, layout, end), option, mode=mode, out=kept)
    try:
        run(data, guarded(outside, layout, end), option, out=kept)
    except ndgather.errors.IndexOutOfBoundsError:
        pass
    else:
        raise AssertionError("no error")
    del data, indices, kept, packed, out, result
    for memory in KEEP:
        memory.map = None
    KEEP.clear()


def read_beyond():
    """Show that guard pages are effective: this does not return."""
    array = guarded(np.zeros(8, np.uint8), "C", True)
    longer = np.lib.stride_tricks.as_strided(array, (9,), (1,))
    print(longer.sum())


if __name__ == "__main__":
    for line in sys.stdin:
        print(line, end="", flush=True)
        arguments = json.loads(line)
        if arguments == ["read_beyond"]:
            read_beyond()
        else:
            call(*arguments)
    print("done", flush=True)
