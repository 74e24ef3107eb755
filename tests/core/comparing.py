"""What tests of calls compare, and the numbers of threads that they use."""

from contextlib import contextmanager

import ndgather
from tests.definitions.calls import element_bytes, moves_as_bytes

WRITEABLE_LAYOUTS = ("C", "negative strides", "every second", "unaligned", "mixed")
WRITEABLE_LAYOUTS += ("rows apart",) * 2 + ("F",) * 3  # slices that consist of several runs


@contextmanager
def threads(count):
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(count)
    try:
        yield
    finally:
        ndgather.set_num_threads(before)


def contents(array):
    """Return everything that can change in an array, for comparison before and after."""
    if moves_as_bytes(array.dtype):
        return element_bytes(array)
    return list(array.flat) if array.dtype.char == "T" else list(map(id, array.flat))


#: The classes that `classes_of` finds in many calls of every function.
ALWAYS = (
    *("negative", "one element", "swapped data", "swapped indices", "8 bytes unsigned"),
    *("C", "F", "gaps", "backwards", "repeated", "indices C", "indices not C", "axis of size 0"),
)


def classes_of(call):
    """Return the names of the classes that a random call belongs to."""
    data, indices = call.data, call.indices
    yield from map(str, call.options.values())
    yield data.dtype.kind
    steps = [step for size, step in zip(data.shape, data.strides, strict=True) if size > 1]
    flags = {
        "negative": indices.dtype.kind == "i" and (indices < 0).any(),
        "one element": data.size == 1,
        "swapped data": not data.dtype.isnative,
        "swapped indices": not indices.dtype.isnative,
        "8 bytes unsigned": indices.dtype.kind == "u" and indices.itemsize == 8,
        "C": data.flags.c_contiguous and len(steps) > 1,
        "F": data.flags.f_contiguous and len(steps) > 1,
        "gaps": bool(steps) and min(map(abs, steps)) > data.itemsize,
        "backwards": min(steps, default=0) < 0,
        "repeated": 0 in steps,
        "indices C": indices.flags.c_contiguous,
        "indices not C": not indices.flags.c_contiguous,
        "axis of size 0": 0 in data.shape,
    }
    yield from (name for name, is_so in flags.items() if is_so)
