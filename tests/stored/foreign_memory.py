"""Fill allocated memory with a pattern, so that uninitialized bytes are detected."""

import ctypes
import mmap
from contextlib import contextmanager, suppress

import numpy as np
import pytest

PATTERN = 0xA5
_M_PERTURB = -6  # glibc: malloc fills with the inverted byte, free with the byte itself
_EMPTY, _EMPTY_LIKE = np.empty, np.empty_like


def _filled(array):
    if not array.dtype.hasobject:
        ctypes.memset(array.ctypes.data, PATTERN, array.nbytes)
    return array


class _Mapped(mmap.mmap):
    def __new__(cls, descriptor, length, *arguments, **options):
        pages = super().__new__(cls, descriptor, length, *arguments, **options)
        if descriptor == -1:
            pages[:] = bytes([PATTERN]) * length
        return pages


@contextmanager
def foreign_memory():
    """Make NumPy, C and C++ allocate memory filled with the pattern."""
    perturb = None
    with suppress(AttributeError):
        perturb = ctypes.CDLL(None).mallopt
        perturb(_M_PERTURB, PATTERN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", lambda *a, **b: _filled(_EMPTY(*a, **b)))
        patch.setattr(np, "empty_like", lambda *a, **b: _filled(_EMPTY_LIKE(*a, **b)))
        patch.setattr(mmap, "mmap", _Mapped)
        try:
            yield
        finally:
            if perturb is not None:
                perturb(_M_PERTURB, 0)
