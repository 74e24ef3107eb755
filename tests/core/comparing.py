"""What tests of calls compare, and with how many threads they make them."""

from contextlib import contextmanager

import ndgather
from tests.definitions.calls import element_bytes, moves_as_bytes

WRITEABLE_LAYOUTS = ("C", "F", "negative strides", "every second", "unaligned", "mixed")


@contextmanager
def threads(count):
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(count)
    try:
        yield
    finally:
        ndgather.set_num_threads(before)


def contents(array):
    """Everything that can change in an array, to compare before and after."""
    if moves_as_bytes(array.dtype):
        return element_bytes(array)
    return list(array.flat) if array.dtype.char == "T" else list(map(id, array.flat))
