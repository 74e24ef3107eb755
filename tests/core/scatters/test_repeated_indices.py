"""Indices that repeat one entry 2**59 times are checked once if nothing is copied."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import assert_same_elements

CALLS = {
    "gather_nd": "ndgather.gather_nd(np.zeros((3, 0)), repeat({}, (2**59, 1)))",
    "gather_nd, several axes": (
        "ndgather.gather_nd(np.zeros((3, 0)), repeat({}, (2**20, 2**20, 2**19, 1)))"
    ),
    "gather_nd, two columns": "ndgather.gather_nd(np.zeros((3, 3, 0)), repeat({}, (2**58, 2)))",
    "gather_nd, other entries too": (
        "ndgather.gather_nd(np.zeros((3, 0)), repeat([[[0]], [[{}]]], (2, 2**58, 1)))"
    ),
    "gather": "ndgather.gather(np.zeros((0, 3)), repeat({}, (2**59,)), 1)",
    "gather, in int8": "ndgather.gather(np.zeros((0, 3)), repeat({}, (2**59,), np.int8), 1)",
    "scatter_nd": (
        "ndgather.scatter_nd(np.zeros((3, 0)), repeat({}, (2**59, 1)), np.zeros((2**59, 0)))[:1]"
    ),
    "scatter_nd, in place": (
        "ndgather.scatter_nd(e, repeat({}, (2**59, 1)), np.zeros((2**59, 0)), out=e)[:1]"
    ),
    "ONNX GatherND": "ndgather.operator('GatherND')(np.zeros((3, 0)), repeat({}, (2**59, 1)))",
    "ONNX Gather": ("ndgather.operator('Gather')(np.zeros((0, 3)), repeat({}, (2**59,)), axis=1)"),
}
SCRIPT = """
import json, sys
import numpy as np, ndgather
def repeat(value, shape, dtype=np.int64):
    return np.broadcast_to(np.array(value, dtype), shape)
e = np.zeros((3, 0))
for name, call in json.load(sys.stdin).items():
    print(name, flush=True)
    result = eval(call.format(2))
    try:
        eval(call.format(99))
    except IndexError as error:
        print(json.dumps([result.size, error.value, error.count, error.position]), flush=True)
"""


@pytest.fixture(scope="module")
def answers():
    """Return the output of a child process, which has a minute; the last named call was running."""
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = child.stdout.splitlines()
    return dict(zip(lines[::2], map(json.loads, lines[1::2]), strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_repeated_entries_are_checked_and_counted(answers, name):
    size, value, count, position = answers[name]
    assert size == 0
    assert value == 99
    later = name.endswith("other entries too")
    assert count == (2**58 if later else 2**59)
    assert position == ([1, 0, 0] if later else [0] * len(position))


ENTRIES = np.array([[0, 1, 5], [2, 7, 1]])


def broadcasts() -> list[tuple[np.ndarray, int]]:
    """Draw indices with repeated entries, and the number of axes that each tuple indexes."""
    return [
        (np.broadcast_to(ENTRIES[:, None, :, None, None], (2, 4, 3, 5, 1)), 1),
        (np.broadcast_to(ENTRIES[None, :, :, None], (7, 2, 3, 2)), 2),
        (np.broadcast_to(ENTRIES[:, :, None], (2, 3, 6))[:, ::-1, :1], 1),
        (np.broadcast_to(ENTRIES[1, 1], (3, 4, 2)), 2),
    ]


@pytest.mark.parametrize(("indices", "depth"), broadcasts())
def test_first_bad_entry_and_count_match_the_whole_array(indices: np.ndarray, depth: int) -> None:
    bad = [at for at in np.ndindex(indices.shape) if indices[at] > 2]
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(np.zeros((3,) * depth), indices)
    assert caught.value.position == bad[0]
    assert caught.value.value == indices[bad[0]]
    assert caught.value.count == len(bad)


def test_too_many_entries_to_check_individually() -> None:
    data = np.zeros((3, 0))
    inside = np.broadcast_to(np.int64(2), (2**59, 1))
    assert ndgather.gather_nd(data, inside).shape == (2**59, 0)
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(data, np.broadcast_to(np.int64(3), (2**59, 1)))
    assert caught.value.position == (0, 0)
    assert caught.value.count == 2**59


BAD = 10**6
SHAPES = [(700, 40), (3, 5, 300), (30, 2, 7, 9), (2000, 3)]
COUNTS = [1, 3, 100, 255, 256, 257]

tables = pytest.mark.parametrize("shape", SHAPES, ids=str)
counts = pytest.mark.parametrize("count", COUNTS)


def columns(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Return the result by definition, column by column; 0 for an out-of-bounds index."""
    size = data.shape[axis]
    moved = np.moveaxis(data, axis, 0)
    picked = [moved[i] if -size <= i < size else np.zeros_like(moved[0]) for i in indices]
    return np.ascontiguousarray(np.moveaxis(np.stack(picked), 0, axis))


@tables
@counts
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_columns_of_tables(shape: tuple[int, ...], count: int, dtype: str, threads: int) -> None:
    random = np.random.default_rng(count)
    data = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    for table in (data, np.asfortranarray(data), np.repeat(data, 2, axis=0)[::2]):
        for axis in range(1, len(shape)):
            indices = random.integers(-shape[axis], shape[axis], count)
            expected = columns(data, indices, axis)
            assert_same_elements(ndgather.gather(table, indices, axis), expected)
            room = np.zeros([2 * n for n in expected.shape], dtype)
            out = room[(slice(None, None, 2),) * expected.ndim]
            ndgather.gather(table, indices, axis, out=out)
            assert_same_elements(np.ascontiguousarray(out), expected)


@tables
@counts
def test_bad_entries_among_them(shape: tuple[int, ...], count: int, threads: int) -> None:
    data = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    axis = len(shape) - 1
    for bad in {0, count // 2, count - 1}:
        indices = np.arange(count) % shape[axis]
        indices[bad] = BAD
        result = ndgather.gather(data, indices, axis, mode="fill")
        assert_same_elements(result, columns(data, indices, axis))
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather(data, indices, axis)
        assert caught.value.position == (bad,)


@tables
@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_other_modes(shape: tuple[int, ...], mode: str, threads: int) -> None:
    data = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    indices = np.arange(-40, 40, 3)
    result = ndgather.gather(data, indices, 1, mode=mode)
    size = shape[1]
    inside = indices % size if mode == "wrap" else indices.clip(0, size - 1)
    assert_same_elements(result, columns(data, inside, 1))


@pytest.mark.parametrize("count", [64, 100, 255, 256, 257])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_rows_of_fortran_arrays_replaced(count: int, reduction: str, threads: int) -> None:
    """The elements of all rows follow each other, with the same indices."""
    random = np.random.default_rng(count)
    data = np.asfortranarray(random.integers(0, 99, (50, 3, 40)))
    updates = np.asfortranarray(random.integers(0, 99, (count, 3, 40)))
    indices = random.integers(-50, 50, (count, 1))
    indices[3] = BAD
    expected = data.copy()
    for p in range(count):
        if p != 3:
            old = expected[indices[p, 0]] if reduction == "add" else 0
            expected[indices[p, 0]] = old + updates[p]
    result = ndgather.scatter_nd(data, indices, updates, reduction=reduction, mode="drop", out=data)
    assert result is data
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_broadcast_indices_match_materialized_indices(axis: int, mode: str, order: str) -> None:
    random = np.random.default_rng(axis)
    data = np.asarray(random.integers(0, 99, (30, 20, 7, 5)), order=order)
    bad = 10 * (mode != "raise")
    values = random.integers(-data.shape[axis] - bad, data.shape[axis] + bad, (25, 18, 1, 1))
    expanded = np.broadcast_to(values, (25, 18, 6, 5))
    written = expanded.copy()
    result = ndgather.gather_elements(data, expanded, axis, mode=mode)
    np.testing.assert_array_equal(result, ndgather.gather_elements(data, written, axis, mode=mode))
    updates = np.asarray(random.integers(0, 99, expanded.shape), order=order)
    options = {"axis": axis, "mode": "drop" if mode == "fill" else mode}
    for reduction in ("none", "add", "max"):
        np.testing.assert_array_equal(
            ndgather.scatter_elements(data, expanded, updates, reduction=reduction, **options),
            ndgather.scatter_elements(data, written, updates, reduction=reduction, **options),
        )


def test_bad_entries_of_broadcast_indices_are_all_counted() -> None:
    expanded = np.broadcast_to(np.array([[1], [9], [2]]), (3, 4))
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_elements(np.zeros((3, 4)), expanded, 0)
    assert caught.value.position == (1, 0)
    assert caught.value.count == 4
