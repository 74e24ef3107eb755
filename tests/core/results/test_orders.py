"""Arrays in C and in Fortran order, mixed: the core walks them in memory order."""

from itertools import product

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import assert_same_elements

SHAPES = ((150, 140), (7, 300), (300, 7), (20, 9, 140), (140, 3, 20))
ORDERS = tuple("".join(orders) for orders in product("CF", repeat=3))

BAD = -(10**6)

shapes_and_axes = pytest.mark.parametrize(
    ("shape", "axis"), [(shape, axis) for shape in SHAPES for axis in range(len(shape))]
)


def arrays(shape, axis, orders):
    """Return data, indices with many duplicates, and updates, each in its own memory order."""
    random = np.random.default_rng(axis)
    size = shape[axis]
    parts = (
        random.standard_normal(shape).astype("f4"),
        random.integers(-size, size, shape) // 3,
        random.standard_normal(shape).astype("f4"),
    )
    return [np.asarray(part, order=order) for part, order in zip(parts, orders, strict=True)]


def one_after_the_other(data, indices, updates, axis, add):
    """Return the result of the loop in the specification, step by step along `axis`."""
    result = data.copy()
    others = np.ogrid[tuple(slice(1 if d == axis else n) for d, n in enumerate(data.shape))]
    for step in range(indices.shape[axis]):
        place = list(others)
        place[axis] = np.take(indices, [step], axis)
        update = np.take(updates, [step], axis)
        result[tuple(place)] = result[tuple(place)] + update if add else update
    return result


@shapes_and_axes
@pytest.mark.parametrize("orders", ORDERS)
def test_gathers_and_updates_in_any_order(shape, axis, orders, threads):
    data, indices, updates = arrays(shape, axis, orders)
    others = np.ogrid[tuple(map(slice, shape))]
    expected = data[tuple(indices if d == axis else others[d] for d in range(len(shape)))]
    assert_same_elements(ndgather.gather_elements(data, indices, axis), expected)
    out = np.empty_like(updates, order="K")
    ndgather.gather_elements(data, indices, axis, out=out)
    assert_same_elements(out, expected)
    reduction = ("none", "add")[(ORDERS.index(orders) + threads) % 2]
    expected = one_after_the_other(data, indices, updates, axis, reduction == "add")
    options = {"reduction": reduction}
    assert_same_elements(
        ndgather.scatter_elements(data, indices, updates, axis, **options), expected
    )
    ndgather.scatter_elements(data, indices, updates, axis, **options, out=data)
    assert_same_elements(data, expected)


@pytest.mark.parametrize("shape", [(150, 140), (7, 300), (300, 7)])
@pytest.mark.parametrize("depth", [1, 2])
def test_tuples_keep_the_order_of_indices(shape, depth, threads):
    random = np.random.default_rng(depth)
    sizes = (6, 5)
    data = random.standard_normal(sizes[:depth]).astype("f4")
    columns = np.stack([random.integers(-size, size, shape) for size in sizes[:depth]], axis=-1)
    updates = np.asfortranarray(random.standard_normal(shape).astype("f4"))
    expected = data.copy()
    for position in np.ndindex(shape):
        expected[tuple(columns[position])] += updates[position]
    for indices in (columns, np.asfortranarray(columns)):
        assert_same_elements(ndgather.scatter_nd(data, indices, updates, reduction="add"), expected)
        gathered = data[tuple(np.moveaxis(columns, -1, 0))]
        assert_same_elements(ndgather.gather_nd(data, indices), gathered)


@shapes_and_axes
@pytest.mark.parametrize("order", ["C", "F"])
def test_first_bad_entry_follows_the_order_of_indices(shape, axis, order, threads):
    data, indices, _ = arrays(shape, axis, ("C", order, "C"))
    first = (1, *(size - 1 for size in shape[1:]))
    second = (2, *(0 for _ in shape[1:]))  # comes before the first in Fortran order
    for entry in (first, second):
        indices[entry] = shape[axis] + entry[0]
    place = ", ".join(map(str, first))
    for out in (None, data.copy()):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather_elements(data, indices, axis, out=out)
        assert f"indices[{place}] = {shape[axis] + 1} is outside" in str(caught.value)


large = pytest.mark.parametrize(
    "shape",
    [(251, 263), (256, 256), (3, 10_003), (17, 4001), (4099, 20), (3, 200, 120), (60, 50, 70)],
)


def drawn(shape: tuple[int, ...], dtype: str, index_dtype: str, axis: int) -> list[np.ndarray]:
    """Return data whose neighbors differ, and indices of every sign."""
    random = np.random.default_rng(len(shape))
    values = np.resize(np.arange(251), shape).astype(dtype)
    low = 0 if np.dtype(index_dtype).kind == "u" else -shape[axis]
    high = min(shape[axis], np.iinfo(index_dtype).max + 1)
    low = max(low, np.iinfo(index_dtype).min)
    return [values, random.integers(low, high, shape, index_dtype)]


def looked_up(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Return the result of the operator's equation, one index along `axis` at a time."""
    result = np.empty(indices.shape, data.dtype)
    others = [slice(None)] * data.ndim
    grid = list(np.ogrid[tuple(slice(1 if d == axis else n) for d, n in enumerate(indices.shape))])
    for step in range(indices.shape[axis]):
        others[axis] = slice(step, step + 1)
        grid[axis] = indices[tuple(others)].astype(np.int64)
        result[tuple(others)] = data[tuple(grid)]
    return result


@large
@pytest.mark.parametrize("order", ["C", "F"])
def test_indices_in_fortran_order(shape, order, threads):
    for number, axis in product(range(4), range(len(shape))):
        if (number + axis + threads) % 2:
            continue
        data, indices = drawn(shape, ("u1", "f8", "c16", "S3")[number], "i8", axis)
        expected = looked_up(data, indices, axis)
        data, indices = np.asarray(data, order=order), np.asfortranarray(indices)
        for out in (None, np.empty(shape, data.dtype, order="F")):
            result = ndgather.gather_elements(data, indices, axis, out=out)
            np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("index_dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_every_type_of_indices(index_dtype, threads):
    data, indices = drawn((261, 270), "f4", index_dtype, 0)
    result = ndgather.gather_elements(data, np.asfortranarray(indices), 0)
    np.testing.assert_array_equal(result, looked_up(data, indices, 0), strict=True)


@pytest.mark.parametrize("mode", ["clip", "wrap", "fill"])
@pytest.mark.parametrize("rows", [5, 100, 270])
def test_modes(rows, mode, threads):
    data, indices = drawn((rows, 261), "f4", "i8", 0)
    indices[::5, ::7] = BAD
    places = np.clip(indices, 0, rows - 1) if mode == "clip" else indices % rows
    expected = looked_up(data, places, 0)
    options = {"mode": mode}
    if mode == "fill":
        options["fill_value"] = -1
        expected[::5, ::7] = -1
    result = ndgather.gather_elements(data, np.asfortranarray(indices), 0, **options)
    np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("place", [(0, 0), (17, 5), (269, 260), (256, 259)])
@pytest.mark.parametrize("rows", [18, 270])
def test_bad_entry_is_named_and_nothing_is_written(rows, place, threads):
    data, indices = drawn((rows, 261), "f4", "i8", 0)
    place = place[0] % rows, place[1]
    indices[place] = rows
    out = np.full((rows, 261), 7, "f4")
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_elements(data, np.asfortranarray(indices), 0, out=out)
    assert f"indices[{place[0]}, {place[1]}] = {rows} is outside" in str(caught.value)
    np.testing.assert_array_equal(out, np.full((rows, 261), 7, "f4"), strict=True)
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather_elements(data, np.asfortranarray(indices), 0)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize(("rows", "columns", "axis"), [(5, 4001, 0), (300, 131, 1), (600, 61, 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_parts_of_larger_arrays(rows, columns, axis, order, reverse):
    """Data, indices and result are parts of arrays with permuted axes."""
    shape = (2, rows, columns)

    def part(values):
        whole = np.zeros([values.shape[d] + 3 for d in order], values.dtype)
        view = np.moveaxis(whole, range(3), order)[1:-2, 2:-1, 1:-2]
        view = view[:, ::-1] if reverse else view
        view[...] = values
        return view

    data, indices = drawn(shape, "f4", "i4", axis)
    expected = looked_up(data, indices, axis)
    for out in (None, part(np.zeros(shape, "f4")), np.empty(shape, "f4", order="F")):
        result = ndgather.gather_elements(data, part(indices), axis, out=out)
        np.testing.assert_array_equal(result, expected, strict=True)
    result = ndgather.gather_elements(part(data), part(indices), axis)
    np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("threads", [8], indirect=True)
@pytest.mark.parametrize("shape", [(4001, 20), (20, 4001), (300, 300), (70, 60, 50)])
def test_many_threads(shape, threads):
    data, indices = drawn(shape, "f8", "i8", 0)
    result = ndgather.gather_elements(data, np.asfortranarray(indices), 0)
    np.testing.assert_array_equal(result, looked_up(data, indices, 0), strict=True)


@pytest.mark.parametrize(("batches", "count"), [(300, 260), (9, 9000), (9000, 9)])
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_batches_side_by_side(batches, count, width, mode, threads):
    """Each batch has its own data, and the batches are adjacent in the result."""
    random = np.random.default_rng(width)
    data = random.standard_normal((batches, 50, width)).astype("f4")
    indices = random.integers(-50, 50, (batches, count, 1))
    expected = data[np.arange(batches)[:, None], indices[..., 0]]
    options = {"mode": mode}
    if mode == "fill":
        indices[::3, ::5] = BAD
        expected[::3, ::5] = 4
        options["fill_value"] = 4
    out = np.empty((count, batches, width), "f4").transpose(1, 0, 2)
    ndgather.gather_nd(data, indices, 1, **options, out=out)
    np.testing.assert_array_equal(out, expected, strict=True)
    out[...] = 0
    ndgather.gather(data, indices[..., 0], 1, batch_dims=1, **options, out=out)
    np.testing.assert_array_equal(out, expected, strict=True)


def test_duplicate_indices():
    indices = np.broadcast_to(np.arange(800)[::8], (5000, 100))
    data = np.random.default_rng(0).standard_normal((5000, 100)).astype("f4")
    result = ndgather.gather_elements(data, indices, 0)
    np.testing.assert_array_equal(result, looked_up(data, indices, 0), strict=True)


def test_updates_along_the_first_axis_of_long_rows(threads):
    """Rows of a page are far apart: columns are packed and copied back."""
    random = np.random.default_rng(1)
    data = random.integers(0, 99, (2048, 1024), dtype="i4")
    indices = random.integers(-2048, 2048, (1200, 1024))
    updates = random.integers(0, 99, indices.shape, dtype="i4")
    expected = data.copy()
    np.add.at(expected, (indices, np.arange(1024)), updates)
    result = ndgather.scatter_elements(data, indices, updates, 0, reduction="add")
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("number", "dtype", "index_dtype"),
    [
        (number, *dtypes)
        for number, dtypes in enumerate(
            [
                *product(("u1", "i2", "f4", "f8", "c16"), ["i8"]),
                *product(["f4"], ("i4", "u2", "spread")),
            ]
        )
    ],
)
@pytest.mark.parametrize("pair", [("raise", "wrap"), ("clip", "fill")])
def test_lookups_along_the_first_axis_of_long_rows(number, dtype, pair, index_dtype, threads):
    """Columns are packed; 8 MiB of floats bypass the caches where they fill whole lines."""
    mode, item = pair[(number + threads) % 2], np.dtype(dtype).itemsize
    rows, columns, count = 600, 4096 // item, 2100 if item in (4, 8) else 500
    random = np.random.default_rng(rows)
    data = random.integers(0, 99, (rows, columns)).astype(dtype)
    indices = random.integers(0, rows, (count, columns))
    indices[::7, ::5] = rows if mode != "raise" else rows - 1
    at = {"wrap": indices % rows, "fill": indices % rows}.get(mode, indices.clip(0, rows - 1))
    expected = data[at, np.arange(columns)]
    options = {"mode": mode}
    if mode == "fill":
        expected[indices == rows] = 7
        options["fill_value"] = 7
    if index_dtype == "spread":
        indices = np.repeat(indices, 2, axis=1)[:, ::2]
    else:
        indices = indices.astype(index_dtype)
    result = ndgather.gather_elements(data, indices, 0, **options)
    np.testing.assert_array_equal(result, expected, strict=True)
    memory = np.zeros(64 + item + expected.nbytes, "u1")
    line = -memory.ctypes.data % 64
    for start in (line, line + item):
        out = memory[start : start + expected.nbytes].view(dtype).reshape(expected.shape)
        ndgather.gather_elements(data, indices, 0, **options, out=out)
        np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("width", [3, 100, 117])
def test_rows_in_fortran_order(width, dtype, threads):
    """Elements of a row are far apart: parts of several rows are moved at a time."""
    random = np.random.default_rng(width)
    data = np.asfortranarray(random.integers(0, 9, (1024, width)).astype(dtype))
    indices = random.integers(-1024, 1024, (700, 1))
    indices[::5] = BAD
    kept = indices[:, 0] != BAD
    expected = np.zeros((700, width), dtype)
    expected[kept] = data[indices[kept, 0]]
    result = ndgather.gather_nd(data, indices, mode="fill")
    np.testing.assert_array_equal(result, expected, strict=True)
    updates = random.integers(0, 9, (700, width)).astype(dtype)
    expected = data.copy()
    np.add.at(expected, indices[kept, 0], updates[kept])
    ndgather.scatter_nd(data, indices, updates, reduction="add", mode="drop", out=data)
    np.testing.assert_array_equal(data, expected, strict=True)
