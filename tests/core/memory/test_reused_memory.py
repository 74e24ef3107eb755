"""Memory of freed large results is reused, but never for two results at a time."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ndgather
from ndgather.errors import AttributeValueError, DTypeError

MIB = 1 << 20
ROW = np.arange(256, dtype=np.uint8)


@pytest.fixture(autouse=True)
def _limit_as_before():
    before = ndgather.get_memory_limit()
    ndgather.release_memory()
    yield
    ndgather.set_memory_limit(before)
    ndgather.release_memory()


def result(value, size=4 * MIB):
    """Return a result of `size` bytes filled with `value`."""
    return ndgather.gather(ROW, np.full(size, value, np.uint8))


def test_living_results_never_share_memory():
    ndgather.set_memory_limit(64 * MIB)
    random = np.random.default_rng(0)
    living = {}
    for step in range(200):
        size = int(random.choice([MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 5, 4 * MIB]))
        living[step % 7] = (result(step % 251, size), step % 251)
        for array, value in living.values():
            assert array[0] == array[-1] == array[array.size // 2] == value
    for array, value in living.values():
        np.testing.assert_array_equal(array, np.full(array.size, value, np.uint8), strict=True)


def test_view_keeps_the_memory_of_its_result():
    ndgather.set_memory_limit(64 * MIB)
    view = result(3)[5:100]
    others = [result(value) for value in range(4, 10)]
    np.testing.assert_array_equal(view, np.full(95, 3, np.uint8), strict=True)
    assert len(others) == 6


def test_freed_memory_is_kept_up_to_the_limit():
    ndgather.set_memory_limit(64 * MIB)
    del_me = result(1)
    assert ndgather.release_memory() == 0
    del del_me
    assert 4 * MIB <= ndgather.release_memory() < 8 * MIB
    assert ndgather.release_memory() == 0
    many = [result(1) for _ in range(30)]
    del many
    assert 32 * MIB <= ndgather.release_memory() <= 64 * MIB


def test_limit_of_zero_keeps_nothing():
    ndgather.set_memory_limit(0)
    assert ndgather.get_memory_limit() == 0
    for value in range(5):
        assert result(value)[-1] == value
    assert ndgather.release_memory() == 0


def test_lower_limit_releases_memory_immediately():
    ndgather.set_memory_limit(64 * MIB)
    many = [result(1) for _ in range(8)]
    del many
    ndgather.set_memory_limit(10 * MIB)
    assert ndgather.release_memory() <= 10 * MIB


def test_results_may_be_resized_and_pickled():
    array = result(9)
    again = pickle.loads(pickle.dumps(array))
    array.resize(6 * MIB, refcheck=False)
    np.testing.assert_array_equal(array[: 4 * MIB], again, strict=True)
    assert not array[4 * MIB :].any()
    array.resize(100, refcheck=False)
    np.testing.assert_array_equal(array, np.full(100, 9, np.uint8), strict=True)


def test_stale_values_are_never_visible():
    """A result in reused memory is fully overwritten, including filled elements."""
    ndgather.set_memory_limit(64 * MIB)
    stale = result(255)
    del stale
    indices = np.full(4 * MIB, 300, np.int16)
    indices[::1000] = 7
    fresh = ndgather.gather(ROW, indices, mode="fill")
    desired = np.zeros(4 * MIB, np.uint8)
    desired[::1000] = 7
    np.testing.assert_array_equal(fresh, desired, strict=True)


def test_error_releases_the_memory():
    ndgather.set_memory_limit(64 * MIB)
    indices = np.zeros(4 * MIB, np.int16)
    indices[-1] = 300
    for _ in range(20):
        with pytest.raises(IndexError):
            ndgather.gather(ROW, indices)
    assert ndgather.release_memory() < 8 * MIB


def test_many_threads_allocate_and_free():
    ndgather.set_memory_limit(32 * MIB)

    def work(value):
        for _ in range(30):
            array = result(value, 2 * MIB)
            np.testing.assert_array_equal(array, np.full(2 * MIB, value, np.uint8), strict=True)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.plain
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read as Linux tells it")
def test_memory_of_the_process_stays_flat():
    """Many small calls of each kind, errors included, and some that use pooled memory."""
    code = """
import mmap, numpy as np, ndgather
large = np.arange(300_000.0).reshape(300, 1000)
objects = np.array([object(), "text", None], object)
strings = np.array(["long " * 20] * 10, np.dtypes.StringDType())
def once(data, rows):
    ndgather.gather_nd(data, rows)
    ndgather.gather_elements(data, rows)
    ndgather.gather(objects, [0, 1, 200], mode="fill", fill_value="x")
    ndgather.gather(strings, [0, -1], mode="wrap")
    ndgather.gather_nd([[1, 2]], [[0]], out=np.zeros((1, 2), int))
    for bad in ([[300]], [[0.5]], [[0, 0, 0]]):
        try:
            ndgather.gather_nd(data, bad)
        except ndgather.errors.NdgatherError:
            pass
def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * mmap.PAGESIZE // 1024
def used(data, times):
    rows = np.zeros((len(data), 1), np.int64)
    for _ in range(100):
        once(data, rows)
    before = resident()
    for _ in range(times):
        once(data, rows)
    return resident() - before
print(used(large[:3, :4].copy(), 8_000), used(large, 300))
"""
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert child.returncode == 0, child.stderr
    small, large = map(int, child.stdout.split())  # KiB
    assert small < 400, "more than 50 bytes a call are lost"
    assert large < 2048, "a large result is lost"


@pytest.mark.parametrize("limit", [-1, 2**63])
def test_limits_out_of_range_are_refused(limit):
    with pytest.raises(AttributeValueError, match=f"limit = {limit} is out of range"):
        ndgather.set_memory_limit(limit)


@pytest.mark.parametrize("limit", [1.5, "1", None])
def test_non_integer_limits_are_refused(limit):
    with pytest.raises(DTypeError, match="not an integer"):
        ndgather.set_memory_limit(limit)
