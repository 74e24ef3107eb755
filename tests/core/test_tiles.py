"""Large gathers with the result in another order than the indices: nothing tells them apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError

TILES_FROM = 1 << 8  # elements, as in core/choose.cpp, and
TILE_FROM = 4  # indices of a column
JOINED = 2048 // 16  # indices of columns of four bytes that are looked at together
BAD = -(10**6)

shapes = pytest.mark.parametrize(
    "shape",
    [
        (251, 263),  # no multiples of the sides of a tile
        (256, 256),
        (16, 16),
        (TILE_FROM, TILES_FROM // TILE_FROM),
        (TILE_FROM - 1, 100_003),
        (TILE_FROM + 13, 4001),
        (JOINED, 999),
        (JOINED + 1, 999),
        (4001, 17),
        (4099, 20),
        (3, 200, 120),
        (200, 3, 120),
        (60, 50, 70),
    ],
)


def drawn(shape: tuple[int, ...], dtype: str, index_dtype: str, axis: int) -> list[np.ndarray]:
    """Return data that differ from their neighbours, and indices of every sign."""
    random = np.random.default_rng(len(shape))
    values = np.resize(np.arange(251), shape).astype(dtype)
    low = 0 if np.dtype(index_dtype).kind == "u" else -shape[axis]
    high = min(shape[axis], np.iinfo(index_dtype).max + 1)
    low = max(low, np.iinfo(index_dtype).min)
    return [values, random.integers(low, high, shape, index_dtype)]


def looked_up(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Return what the equation of the operator gives, one index value along `axis` at a time."""
    result = np.empty(indices.shape, data.dtype)
    others = [slice(None)] * data.ndim
    grid = list(np.ogrid[tuple(slice(1 if d == axis else n) for d, n in enumerate(indices.shape))])
    for step in range(indices.shape[axis]):
        others[axis] = slice(step, step + 1)
        grid[axis] = indices[tuple(others)].astype(np.int64)
        result[tuple(others)] = data[tuple(grid)]
    return result


@shapes
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16", "S3"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_indices_in_fortran_order(shape, dtype, order, threads):
    for axis in range(len(shape)):
        data, indices = drawn(shape, dtype, "i8", axis)
        expected = looked_up(data, indices, axis)
        data, indices = np.asarray(data, order=order), np.asfortranarray(indices)
        result = ndgather.gather_elements(data, indices, axis)
        np.testing.assert_array_equal(result, expected, strict=True)


@shapes
def test_result_in_fortran_order(shape, threads):
    for axis in range(len(shape)):
        data, indices = drawn(shape, "f4", "i8", axis)
        out = np.empty(shape, "f4", order="F")
        ndgather.gather_elements(data, indices, axis, out=out)
        np.testing.assert_array_equal(out, looked_up(data, indices, axis), strict=True)


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
def test_a_bad_entry_is_named_and_nothing_is_written(rows, place, threads):
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


@settings(max_examples=30, deadline=None)
@given(
    st.integers(TILE_FROM, 700),
    st.integers(0, 90),
    st.integers(0, 1),
    st.permutations(range(3)),
    st.booleans(),
)
def test_parts_of_larger_arrays(rows, more, axis, order, reverse):
    """Data, indices and result are parts of arrays with axes in any order."""
    shape = (2, rows, (1 << 16) // (2 * rows) + 1 + more)

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
def test_more_threads_than_bands(shape, threads):
    data, indices = drawn(shape, "f8", "i8", 0)
    result = ndgather.gather_elements(data, np.asfortranarray(indices), 0)
    np.testing.assert_array_equal(result, looked_up(data, indices, 0), strict=True)


@pytest.mark.parametrize(("batches", "count"), [(300, 260), (9, 9000), (9000, 9)])
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_batches_side_by_side(batches, count, width, mode, threads):
    """Each batch looks into its own data, and the result has the batches next to each other."""
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


def test_indices_that_repeat():
    indices = np.broadcast_to(np.arange(800)[::8], (5000, 100))
    data = np.random.default_rng(0).standard_normal((5000, 100)).astype("f4")
    result = ndgather.gather_elements(data, indices, 0)
    np.testing.assert_array_equal(result, looked_up(data, indices, 0), strict=True)
