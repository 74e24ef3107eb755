"""The cost of in-place calls and of gathers of references depends on the elements they address.

Cost is the number of allocated bytes, for data of two sizes. Results are compared with plain loops.
"""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import ndgather
from tests.definitions import reference

SIZES = (2**12, 2**20)
SPARE = 2**14  # tolerance in bytes between two equal calls
AT = np.array([[3], [5], [3]])
TEXT = np.dtypes.StringDType()
MISSING = np.dtypes.StringDType(na_object=None)


def peak(call):
    """Return the peak number of bytes that a call allocates, after a warm-up."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_does_not_grow(make):
    small, large = (peak(make(size)) for size in SIZES)
    assert large <= small + SPARE


REFERENCES = {
    "objects": lambda size: np.full(size, "x", object),
    "texts": lambda size: np.full(size, "abc", TEXT),
    "texts that may be missing": lambda size: np.full(
        size, "a", np.dtypes.StringDType(na_object=None)
    ),
    "records with objects": lambda size: np.zeros(size, [("a", "O"), ("b", "i4")]),
    "no bytes": lambda size: np.zeros(size, "V0"),
    "every second object": lambda size: np.full(2 * size, "x", object)[::2],
    "backwards": lambda size: np.full(size, "x", object)[::-1],
}
GATHERS = {
    "gather": lambda data, **options: ndgather.gather(data, AT[:, 0], **options),
    "gather_nd": lambda data, **options: ndgather.gather_nd(data, AT, **options),
    "gather_elements": lambda data, **options: ndgather.gather_elements(data, AT[:, 0], **options),
    "gather_windows": lambda data, **options: ndgather.gather_windows(data, AT, (2,), **options),
    "gather_ranges": lambda data, **options: ndgather.gather_ranges(
        data, AT[:, 0], lengths=2, **options
    ),
}


@pytest.mark.parametrize("make", REFERENCES.values(), ids=REFERENCES)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill"])
@pytest.mark.parametrize("name", GATHERS)
def test_gather_of_references(name, mode, make):
    def call(size):
        data = make(size)
        return lambda: GATHERS[name](data, mode=mode)

    assert_does_not_grow(call)


@pytest.mark.parametrize("make", REFERENCES.values(), ids=REFERENCES)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "drop"])
@pytest.mark.parametrize("name", ["scatter_nd", "scatter_elements"])
def test_scatter_of_references_in_place(name, mode, make):
    def call(size):
        data = make(size)
        updates = data[:3].copy()
        indices = AT if name == "scatter_nd" else AT[:, 0]
        return lambda: getattr(ndgather, name)(data, indices, updates, mode=mode, out=data)

    assert_does_not_grow(call)


NUMBERS = {
    "float64": np.dtype("f8"),
    "int16": np.dtype("i2"),
    "complex64": np.dtype("c8"),
    "another byte order": np.dtype(">f4"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}


@pytest.mark.parametrize("layout", ["C", "every second", "of a matrix"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "mean"])
@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("dtype", NUMBERS.values(), ids=NUMBERS)
def test_scatter_of_numbers_in_place(dtype, reduction, use_init_val, layout):
    def call(size):
        data = np.ones((size, 3), dtype)[:, 0] if layout == "of a matrix" else np.ones(size, dtype)
        data = data[::2] if layout == "every second" else data
        updates = np.full(3, 2, dtype)
        options = {"reduction": reduction, "use_init_val": use_init_val, "out": data}
        return lambda: ndgather.scatter_nd(data, AT, updates, **options)

    assert_does_not_grow(call)


OVERLAPS = {
    "updates that are data": lambda data: (data, AT, data[:3]),
    "updates backwards": lambda data: (data, AT, data[2::-1]),
    "indices that are data": lambda data: (data, data[:3, np.newaxis], data[:3].copy()),
    "one update for all": lambda data: (data, AT, np.broadcast_to(data[:1], 3)),
}


@pytest.mark.parametrize("reduction", ["none", "add", "max", "mean"])
@pytest.mark.parametrize("arguments", OVERLAPS.values(), ids=OVERLAPS)
def test_inputs_that_are_views_of_data(arguments, reduction):
    def call(size):
        data = np.arange(size)
        given = arguments(data)
        return lambda: ndgather.scatter_nd(*given, reduction=reduction, mode="wrap", out=data)

    assert_does_not_grow(call)
    data = np.arange(9)
    expected = reference.scatter_nd(*arguments(data.copy()), reduction, "wrap")
    ndgather.scatter_nd(*arguments(data), reduction=reduction, mode="wrap", out=data)
    np.testing.assert_array_equal(data, expected, strict=True)


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
@pytest.mark.parametrize("reduction", ["none", "add", "mean"])
def test_masked_arrays_in_place(reduction, hard):
    def call(size):
        data = np.ma.array(np.zeros(size), mask=np.arange(size) == 3, hard_mask=hard)
        updates = np.ma.array([1.0, 2, 3], mask=[0, 1, 0])
        return lambda: ndgather.scatter_nd(data, AT, updates, reduction=reduction, out=data)

    assert_does_not_grow(call)


def test_broadcast_arrays_are_not_copied():
    huge = np.broadcast_to(np.array("x", object), (2**20, 2**20))
    assert ndgather.gather_nd(huge, [[5, 7]]).tolist() == ["x"]
    assert ndgather.gather_nd(huge, [[2**20, 7]], mode="fill", fill_value="y").tolist() == ["y"]
    assert ndgather.gather_windows(huge, [[5, 7]], (1, 2)).tolist() == [[["x", "x"]]]
    texts = np.broadcast_to(np.array("x", TEXT), (2**20, 2**20))
    assert ndgather.gather_nd(texts, [[5, 7]]).tolist() == ["x"]
    assert ndgather.gather_ranges(texts[0], [5], [7])[0].tolist() == ["x", "x"]


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f8", ">i4", object])
@pytest.mark.parametrize("reduction", ["none", "add", "mean"])
def test_rows_of_every_depth_match_the_loops(depth, dtype, reduction):
    """Few updates copy rows, and many copy all of data."""
    if dtype is object and reduction != "none":
        return
    rng = np.random.default_rng(depth)
    for shape, count in (((40, 50), 3), ((3, 4), 9), ((0, 4), 0), ((5, 0), 2)):
        sizes = shape[:depth]
        if not all(sizes) and count:
            continue
        data = rng.integers(0, 9, shape).astype(dtype)
        indices = rng.integers(0, sizes, (count, depth)) if depth else np.zeros((count, 0), int)
        updates = rng.integers(0, 9, (count, *shape[depth:])).astype(dtype)
        for use_init_val in (True, False):
            wanted = reference.scatter_nd(data, indices, updates, reduction, "raise", use_init_val)
            options = {"reduction": reduction, "use_init_val": use_init_val}
            given = data.copy()
            result = ndgather.scatter_nd(given, indices, updates, **options)
            np.testing.assert_array_equal(result, wanted, strict=True)
            np.testing.assert_array_equal(given, data, strict=True)
            ndgather.scatter_nd(given, indices, updates, **options, out=given)
            np.testing.assert_array_equal(given, wanted, strict=True)
