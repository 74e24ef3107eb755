"""A long call in the main thread stops soon after a signal handler raises, as for Ctrl-C.

The calls would run for minutes: their indices and updates are small arrays viewed with strides that
let entries share memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import ndgather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOON = 0.2  # seconds until the signal
# Under ThreadSanitizer, calls and the pieces between signal checks take twenty times
# as long.
LATEST = SOON + (20.0 if "libtsan" in os.environ.get("LD_PRELOAD", "") else 1.0)
SIDE = 1 << 20

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="needs a timer that sends signals"
)


class RungError(Exception):
    """Raised by the signal handler."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def raise_it(number: int, frame: object) -> None:
        raise RungError

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, SOON)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(request.param)
    yield
    ndgather.set_num_threads(before)


def endless(values: np.ndarray, *more: int) -> np.ndarray:
    """Return 2**40 distinct rows in the memory of 2**21."""
    step = values.itemsize
    return as_strided(values, (SIDE, SIDE, *more), (step, step, *(0,) * len(more)))


def assert_left_soon(call: Callable[[], object], error: type[Exception] = RungError) -> None:
    start = time.monotonic()
    with pytest.raises(error):
        call()
    assert time.monotonic() - start < LATEST


@pytest.mark.usefixtures("alarm", "threads")
class TestLeftSoon:
    # Created before the alarm is set: under a sanitizer, this takes longer than the alarm.
    indices = np.zeros(2 * SIDE, np.int64)
    bad = indices.copy()
    bad[0] = 8
    updates = np.ones(2 * SIDE, np.float32)

    def test_gather_into_a_new_array(self) -> None:
        data = np.arange(8, dtype=np.uint8)
        # The result fits in memory: 2 GiB, of which little is ever written.
        some = as_strided(self.indices, (1 << 11, SIDE, 1), (8, 8, 0))

        def gathers() -> None:
            for _ in range(100):
                ndgather.gather_nd(data, some)

        assert_left_soon(gathers)

    def test_scatter_into_a_new_array(self) -> None:
        data = np.zeros(8, np.float32)
        assert_left_soon(
            lambda: ndgather.scatter_nd(
                data, endless(self.indices, 1), endless(self.updates), reduction="add"
            )
        )

    def test_check_before_an_empty_result(self) -> None:
        data = np.zeros((8, 0), np.float32)
        assert_left_soon(lambda: ndgather.gather_nd(data, endless(self.indices, 1)))

    def test_check_before_a_scatter_in_place_keeps_the_destination(self) -> None:
        data = np.arange(8, dtype=np.float32)
        assert_left_soon(
            lambda: ndgather.scatter_nd(
                data, endless(self.indices, 1), endless(self.updates), out=data
            )
        )
        np.testing.assert_array_equal(data, np.arange(8, dtype=np.float32), strict=True)

    def test_search_for_the_first_bad_entry(self) -> None:
        data = np.zeros(8, np.float32)
        assert_left_soon(
            lambda: ndgather.scatter_nd(data, endless(self.bad, 1), endless(self.updates))
        )


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_in_place_stops_before_writing_or_not_at_all(reduction: str) -> None:
    rng = np.random.default_rng(0)
    count = 2 * SIDE
    indices, updates = rng.integers(SIDE, size=(count, 1)), np.ones(count, np.float32)
    data = np.zeros(SIDE, np.float32)

    def scatter() -> None:
        ndgather.scatter_nd(data, indices, updates, reduction=reduction, out=data)

    def raise_it(number: int, frame: object) -> None:
        raise RungError

    threads = ndgather.get_num_threads()
    ndgather.set_num_threads(2)
    before = signal.signal(signal.SIGALRM, raise_it)
    try:
        start = time.monotonic()
        scatter()
        took = time.monotonic() - start
        expected = data.copy()
        for part in range(1, 21):
            data[...] = 0
            try:
                signal.setitimer(signal.ITIMER_REAL, took * part / 20)
                scatter()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except RungError:
                pass
            if data.any():
                np.testing.assert_array_equal(data, expected, strict=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ndgather.set_num_threads(threads)


def test_returning_handler_does_not_stop_the_call(threads: None) -> None:
    rings: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rings.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        indices = as_strided(np.zeros(2 * SIDE, np.int64), (1 << 9, SIDE, 1), (8, 8, 0))
        updates = as_strided(np.ones(2 * SIDE, np.int64), (1 << 9, SIDE), (8, 8))
        result = ndgather.scatter_nd(np.zeros(2, np.int64), indices, updates, reduction="add")
        end = time.monotonic()
    finally:
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(result, np.array([1 << 29, 0]), strict=True)
    assert rings, "the handler had to wait for the end of the call"
    assert rings[0] < end


def test_signal_does_not_stop_a_call_in_another_thread() -> None:
    results: list[np.ndarray] = []

    def work() -> None:
        indices = as_strided(np.zeros(2 * SIDE, np.int64), (1 << 9, SIDE, 1), (8, 8, 0))
        updates = as_strided(np.ones(2 * SIDE, np.int64), (1 << 9, SIDE), (8, 8))
        results.append(
            ndgather.scatter_nd(np.zeros(2, np.int64), indices, updates, reduction="add")
        )

    def raise_it(number: int, frame: object) -> None:
        raise RungError

    before = signal.signal(signal.SIGALRM, raise_it)
    worker = threading.Thread(target=work)
    try:
        worker.start()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(RungError):  # immediately, in the main thread
            time.sleep(5)
        worker.join()
    finally:
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(results[0], np.array([1 << 29, 0]), strict=True)


# A shell makes background programs ignore Ctrl-C, and Python keeps this setting.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, ndgather
from numpy.lib.stride_tricks import as_strided
side = 1 << 20
data = np.arange(8.0)
indices = as_strided(np.zeros(2 * side, np.int64), (side, side, 1), (8, 8, 0))
updates = as_strided(np.ones(2 * side), (side, side), (8, 8))
print("begun", flush=True)
try:
    ndgather.scatter_nd(data, indices, updates, reduction="add")
except KeyboardInterrupt:
    print("interrupted", data.tolist())
"""


def test_ctrl_c_stops_a_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "begun\n"
            time.sleep(SOON)
            program.send_signal(signal.SIGINT)
            start = time.monotonic()
            text, _ = program.communicate(timeout=30)
        finally:
            program.kill()
    assert text == f"interrupted {np.arange(8.0).tolist()}\n"
    assert program.returncode == 0
    assert time.monotonic() - start < LATEST


def assert_right_in_a_forked_child(
    call: Callable[[], object], is_right: Callable[[], bool]
) -> None:
    """Make a call during which a signal handler forks; check the result in both processes."""
    children: list[int] = []

    def fork(number: int, frame: object) -> None:
        children.append(os.fork())

    before = signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        call()
    finally:
        signal.signal(signal.SIGALRM, before)
        right = is_right()
        if children == [0]:
            os._exit(0 if right else 1)
    assert right
    (child,) = children
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_child_forked_before_writing_runs_the_call_once(threads: None) -> None:
    data = np.zeros(8, np.int64)
    once = np.random.default_rng(0).integers(8, size=SIDE + 512)
    indices = as_strided(once, (512, SIDE, 1), (8, 8, 0))  # slow to check
    updates = np.broadcast_to(np.int64(1), (512, SIDE))
    assert_right_in_a_forked_child(
        lambda: ndgather.scatter_nd(data, indices, updates, reduction="add", out=data),
        lambda: int(data.sum()) == 512 * SIDE,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_child_forked_by_a_signal_handler_finishes_the_call(threads: None) -> None:
    data = np.arange(251, dtype=np.uint8)
    once = np.random.default_rng(0).integers(1 << 40, size=SIDE)  # far out of bounds: slow to wrap
    indices = as_strided(once, (128, SIDE), (0, 8))
    expected = data[once % 251]
    results: list[np.ndarray] = []
    ndgather.release_memory()  # which could reuse the memory of this result
    assert_right_in_a_forked_child(
        lambda: results.append(ndgather.gather(data, indices, mode="wrap")),
        lambda: bool((results[0] == expected).all()),
    )
