"""A gather from memory whose pages arrive slowly, like a mapped file on a slow disk.

``python -m tests.core.threads.slow_pages WHAT COUNT`` prints how long another thread was blocked
(``gil``) or when Ctrl-C arrived (``signal``), in seconds. Pages are served by userfaultfd.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import mmap
import os
import signal
import struct
import sys
import threading
import time

import numpy as np

import ndgather

PAGE = 4096
DELAY = 0.0005  # seconds per page
# Linux x86-64 constants: the system call, its commands, and the missing-page event.
USERFAULTFD, API, REGISTER, COPY, MISSING = 323, 0xC018AA3F, 0xC020AA00, 0xC028AA03, 0x12


def open_faults() -> int:
    """Return a userfaultfd descriptor, or raise OSError if the system does not provide one."""
    found = ctypes.CDLL(None, use_errno=True).syscall(USERFAULTFD, os.O_CLOEXEC)
    if found < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    fcntl.ioctl(found, API, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
    return found


def serve(faults: int) -> None:
    """Serve one page after another, in a process that shares no Python objects with its parent."""
    source = mmap.mmap(-1, PAGE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(source))
    while len(message := os.read(faults, 32)) == 32:
        (page,) = struct.unpack_from("Q", message, 16)
        if message[0] == MISSING:
            time.sleep(DELAY)
            filled = struct.pack("QQQQq", page & ~(PAGE - 1), at, PAGE, 0, 0)
            fcntl.ioctl(faults, COPY, bytearray(filled))


def longest_gap(call: threading.Thread) -> float:
    """Return the longest time this thread was blocked while another ran a call."""
    ticks = [time.monotonic()]
    call.start()
    while call.is_alive():
        time.sleep(0.001)
        ticks.append(time.monotonic())
    return max(after - before for before, after in itertools.pairwise(ticks))


def main(what: str, count: int) -> None:
    faults = open_faults()
    memory = mmap.mmap(-1, count * PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fcntl.ioctl(faults, REGISTER, bytearray(struct.pack("QQQQ", first, count * PAGE, 1, 0)))
    child = os.fork()
    if child == 0:
        serve(faults)
        os._exit(0)
    data = np.frombuffer(memory, np.float32)
    indices = np.random.default_rng(0).permutation(count) * (PAGE // 4)
    try:
        if what == "gil":
            print(longest_gap(threading.Thread(target=ndgather.gather, args=(data, indices))))
            return
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = time.monotonic()
        try:
            ndgather.gather(data, indices)
        except KeyboardInterrupt:
            print(time.monotonic() - start - 0.2)
    finally:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
