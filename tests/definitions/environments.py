"""Floating-point environments: the rounding mode of a thread, and whether it flushes subnormals."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

_MXCSR = 28  # its offset in glibc's fenv_t on x86-64
ROUNDING = {"down": 0x400, "up": 0x800, "towards zero": 0xC00}  # from fenv.h
FLUSHING = {"flush to zero": 0x8000, "denormals are zero": 0x40, "both": 0x8040}  # MXCSR bits
ENVIRONMENTS = (*ROUNDING, *FLUSHING)

_LIBRARY = ctypes.CDLL(ctypes.util.find_library("m")) if sys.platform != "win32" else None


@contextmanager
def environment(name: str | None) -> Iterator[None]:
    """Set the environment of this thread temporarily; None leaves it unchanged."""
    if name is None:
        yield
        return
    before, changed = (ctypes.create_string_buffer(64) for _ in range(2))
    _LIBRARY.fegetenv(before)
    _LIBRARY.fegetenv(changed)
    try:
        if name in ROUNDING:
            _LIBRARY.fesetround(ROUNDING[name])
        else:
            (bits,) = struct.unpack_from("I", changed, _MXCSR)
            struct.pack_into("I", changed, _MXCSR, bits | FLUSHING[name])
            _LIBRARY.fesetenv(changed)
        yield
    finally:
        _LIBRARY.fesetenv(before)


def is_known() -> bool:
    """Return whether fenv_t of this machine contains the register that flushes subnormals."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def current() -> bytes:
    """Return the rounding mode of this thread, and the register without exception flags."""
    now = ctypes.create_string_buffer(64)
    _LIBRARY.fegetenv(now)
    (register,) = struct.unpack_from("I", now, _MXCSR)
    return struct.pack("II", register & ~0x3F, _LIBRARY.fegetround())


def draw_environment(random: Random, one_in: int = 6) -> str | None:
    """Return a non-default environment in one of several calls, if any is known."""
    if not is_known():
        return None
    return random.choice((*(None,) * (one_in - 1), random.choice(ENVIRONMENTS)))
