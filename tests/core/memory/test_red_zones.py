"""No byte outside data, indices and out is read or written."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import element_bytes

ZONE = 256  # bytes on both sides
POISON = 0xA5
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 129, 257, 1024)
COUNTS = (1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 127, 128, 129, 200, 257, 1000)

GUARDED = Path(__file__).with_name("guard_pages.py")


class RedZone:
    """Memory for one array, surrounded by a pattern."""

    def __init__(self, size, shift=0):
        self.begin = ZONE + shift
        self.end = self.begin + size
        self.memory = np.full(self.end + ZONE, POISON, np.uint8)

    def array(self, shape, dtype):
        return np.ndarray(shape, dtype, self.memory.data, self.begin)

    def check(self):
        for outside in (self.memory[: self.begin], self.memory[self.end :]):
            np.testing.assert_array_equal(outside, np.full_like(outside, POISON), strict=True)


def zoned(values, shift):
    values = np.ascontiguousarray(values)
    zone = RedZone(values.nbytes, shift)
    array = zone.array(values.shape, values.dtype)
    zone.memory[zone.begin : zone.end] = np.frombuffer(values.tobytes(), np.uint8)
    return zone, array


def run_in_zones(function, data, indices, *options, shift=0, **more):
    """Make a call with all arrays in red zones, and return the bytes of the result."""
    call = getattr(ndgather, function)
    plain = call(data, indices, *options, **more)
    zones, arrays = zip(*(zoned(values, shift) for values in (data, indices, plain)), strict=True)
    inputs = [element_bytes(array) for array in arrays[:2]]
    out = arrays[2]
    zones[2].memory[zones[2].begin : zones[2].end] = 0x5A
    call(arrays[0], arrays[1], *options, out=out, **more)
    for zone in zones:
        zone.check()
    assert [element_bytes(array) for array in arrays[:2]] == inputs
    assert element_bytes(out) == element_bytes(plain)
    return element_bytes(out)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shift", [0, 1, 8])
def test_rows_of_every_width(width, shift):
    random = np.random.default_rng(width)
    for rows, count in itertools.product((1, 7, 300), COUNTS):
        data = random.integers(0, 160, (rows, width), np.uint8)
        indices = random.integers(-rows, rows, (count, 1))
        found = run_in_zones("gather_nd", data, indices, shift=shift)
        assert found == data[indices[:, 0]].tobytes()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("index_dtype", ["i1", "u2", "i4", "i8"])
def test_elements_of_every_width(width, index_dtype):
    random = np.random.default_rng(width)
    for count in COUNTS:
        data = np.ndarray((11, 9), f"V{width}", random.integers(0, 160, (99, width), np.uint8).data)
        indices = random.integers(0, (11, 9), (count, 2)).astype(index_dtype)
        found = run_in_zones("gather_nd", data, indices, shift=count % 9)
        assert found == data[tuple(indices.T)].tobytes()


@pytest.mark.parametrize("shape", [(3,), (40, 33), (5, 6, 7), (300, 260), (2, 300, 129)])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 24])
def test_gather_elements_along_every_axis(shape, width):
    random = np.random.default_rng(width)
    stored = random.integers(0, 160, (int(np.prod(shape)), width), np.uint8)
    data = np.ndarray(shape, f"V{width}", stored.data)
    for axis in range(len(shape)):
        taken = list(shape)
        taken[axis] += 5
        taken[axis - 1] -= len(shape) > 1
        indices = random.integers(0, shape[axis], taken)
        grid = list(np.indices(taken, sparse=True))
        grid[axis] = indices
        found = run_in_zones("gather_elements", data, indices, axis, shift=axis)
        assert found == data[tuple(grid)].tobytes()


@pytest.mark.parametrize("mode", ["wrap", "clip", "fill"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 12, 16, 40, 200, 5000])
def test_far_out_of_bounds_indices_access_no_other_memory(mode, width):
    random = np.random.default_rng(width)
    data = random.integers(0, 160, (9, 5, width), np.uint8)
    values = random.integers(-(2**63), 2**63 - 1, (130, 2))
    values[::3] = random.integers(-20, 20, (44, 2))
    run_in_zones("gather_nd", data, values, mode=mode, shift=3)
    run_in_zones("gather", data, values[:, 0], 1, mode=mode)
    run_in_zones("gather_elements", data, values[:5, 0].reshape(1, 5, 1), mode=mode)


@pytest.mark.parametrize("place", [0, 1, 500, 999])
def test_error_writes_nothing(place):
    data = np.arange(300 * 4, dtype=np.int32).reshape(300, 4)
    indices = np.zeros((1000, 1), np.int64)
    indices[place] = 300
    zone, out = zoned(np.full((1000, 4), 7, np.int32), 4)
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather_nd(data, indices, out=out)
    zone.check()
    np.testing.assert_array_equal(out, np.full((1000, 4), 7, np.int32), strict=True)


def test_gaps_of_a_strided_out_are_not_written():
    whole = np.full((41, 67), 99, np.int16)
    data, indices = np.arange(500, dtype=np.int16), np.arange(20 * 22).reshape(20, 22)
    desired = whole.copy()
    desired[1:40:2, 65:0:-3] = data[indices]
    ndgather.gather(data, indices, out=whole[1:40:2, 65:0:-3])
    np.testing.assert_array_equal(whole, desired, strict=True)


def in_child(lines):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", str(GUARDED)],
        input="\n".join(map(json.dumps, lines)) + "\n",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def guarded_calls():
    """Draw shapes, dtypes and layouts; the dtypes cover all ways to copy an element."""
    shapes = (
        ("gather_nd", (7, 5), (9, 2), 0),
        ("gather_nd", (100, 3), (130, 1), 0),
        ("gather_nd", (4, 6, 3), (4, 50, 1), 1),
        ("gather_nd", (3, 4, 2, 3), (129, 3), 0),
        ("gather_nd", (5,), (1, 1), 0),
        ("gather_elements", (60, 50), (60, 49), 0),
        ("gather_elements", (20, 90), (20, 100), 1),
        ("gather", (6, 40, 3), (33,), 1),
        ("gather", (90, 17), (3, 50), 0),
        ("gather", (30, 2), (21,), 0),
        ("gather", (30, 4), (22,), 0),
        ("gather", (30, 3, 8), (23,), 0),
        ("gather", (30, 64), (24,), 0),
    )
    dtypes = [f"V{width}" for width in (1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 33, 64, 70, 128, 300)]
    beside = (
        itertools.cycle(turn)
        for turn in (
            ("i1", "i8", "u4", "u1", "i4", "i2", "u8"),
            ("C", "backwards", "gaps", "every second"),
        )
    )
    rows = zip(itertools.product(shapes, dtypes, (True, False)), *beside, strict=False)
    for (shape, dtype, end), index_dtype, layout in rows:
        function, data, indices, option = shape
        yield [function, data, indices, dtype, index_dtype, option, layout, end, 2]


LARGE_GUARDED = (
    ["gather_nd", (5000, 100), (3000, 1), "u1", "i8", 0, "C", True, 2],
    ["gather_nd", (120, 100, 120), (70_000, 3), "f4", "i4", 0, "C", True, 2],
    ["gather_nd", (300, 1 << 12), (700, 1), "u1", "i2", 0, "C", True, 4],
    ["gather_nd", (3, 1 << 20), (40, 1), "u1", "i8", 0, "C", True, 2],
    ["gather_nd", (3, 1 << 20), (40, 1), "u1", "i8", 0, "C", False, 1],
    ["gather_elements", (100, 900), (100, 900), "i8", "i1", 0, "C", True, 2],
    ["gather_elements", (100, 3000), (120, 2999), "f4", "i1", 0, "C", True, 2],
    ["gather_elements", (120, 3001), (126, 3001), "i2", "i1", 0, "C", False, 1],
    ["gather_elements", (600, 100), (600, 100), "c16", "i8", 0, "C", True, 2],
    ["gather", (100, 200, 50), (77,), "f4", "i8", 1, "C", True, 2],
)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as Linux has it")
@pytest.mark.parametrize("lines", [list(guarded_calls()), LARGE_GUARDED], ids=["small", "large"])
def test_no_page_beyond_an_array_is_accessed(lines):
    child = in_child(lines)
    assert child.returncode == 0, child.stdout[-400:] + child.stderr[-2000:]
    assert child.stdout.splitlines()[-1] == "done"


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as Linux has it")
def test_guard_pages_are_effective():
    child = in_child([["read_beyond"]])
    assert child.returncode < 0
    assert "done" not in child.stdout
