"""Where the threads of a call run: off the caller's processor, and where they are allowed to."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ndgather

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="wants Linux and two processors",
)


def others() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()} - {
        threading.get_native_id()
    }


def shared_calls() -> None:
    """Make calls that two threads share, some of which find the second asleep."""
    data = np.arange(1_000_000, dtype=np.float32)
    indices = np.arange(0, 1_000_000, 3)[::-1, np.newaxis]
    for _ in range(5):
        time.sleep(0.002)
        np.testing.assert_array_equal(ndgather.gather_nd(data, indices), data[indices[:, 0]])


def kept_off(processor: int, allowed: set[int]) -> bool:
    shared_calls()
    return any(os.sched_getaffinity(task) == allowed - {processor} for task in others())


def test_threads_are_kept_off_the_caller_and_in_what_others_allow() -> None:
    before, allowed = ndgather.get_num_threads(), os.sched_getaffinity(0)
    ndgather.set_num_threads(2)
    try:
        shared_calls()
        for processor in sorted(allowed)[:2]:
            os.sched_setaffinity(0, {processor})  # of this thread alone
            # A caller that slept has let them go; on a busy machine most do.
            assert any(kept_off(processor, allowed) for _ in range(1000))
        last = max(allowed)
        for task in others():
            os.sched_setaffinity(task, {last})  # as taskset --all-tasks does
        for processor in sorted(allowed)[:2]:
            os.sched_setaffinity(0, {processor})
            shared_calls()
        assert all(os.sched_getaffinity(task) == {last} for task in others())
    finally:
        for task in others() | {0}:
            os.sched_setaffinity(task, allowed)
        ndgather.set_num_threads(before)
