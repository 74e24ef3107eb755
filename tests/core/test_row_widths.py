"""Rows of every width are reduced alike, whatever pieces they are worked on in."""

import numpy as np
import pytest

from ndgather import scatter_nd


def product(old, update):
    """The product; of complex numbers by the plain formula, each step rounded."""
    if old.dtype.kind != "c":
        return old * update
    result = np.empty_like(old)
    result.real = old.real * update.real - old.imag * update.imag
    result.imag = old.real * update.imag + old.imag * update.real
    return result


REDUCED = {
    "add": np.add,
    "sub": np.subtract,
    "mul": product,
    "max": np.maximum,
}


def row_by_row(data, places, updates, reduction):
    """The loop of the specification."""
    result = data.copy()
    for place, update in zip(places, updates, strict=True):
        result[place] = REDUCED[reduction](result[place], update)
    return result


def numbers(rng, shape, char):
    """Numbers that are no zeros, with an imaginary part where there is one."""
    if char in "bHil":
        return rng.integers(1, 100, shape).astype(char)
    parts = (rng.integers(80, 120, shape) / 99 for _ in range(2))
    real, imaginary = (part.astype(char.lower()) for part in parts)
    return real if char.islower() else (real + 1j * imaginary).astype(char)


@pytest.mark.parametrize("reduction", REDUCED)
@pytest.mark.parametrize("char", "bHilefdgFDG")
def test_rows_of_every_width(char, reduction):
    """Up to 70 elements, in rows that begin anywhere on a line; more than one update for most."""
    if char in "FDG" and reduction == "max":
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(3)
    for width in (*range(1, 71), 127, 128, 129, 255, 256, 257, 300):
        shape, count = (5, width), 12
        data, updates = (numbers(rng, (n, width), char) for n in (5, count))
        bytes_before = int(rng.integers(0, 8)) * data.itemsize
        room = np.zeros(bytes_before + data.nbytes, np.uint8)
        shifted = room[bytes_before:].view(data.dtype).reshape(shape)
        shifted[...] = data
        places = rng.integers(0, 5, count)
        scatter_nd(shifted, places[:, np.newaxis], updates, reduction=reduction, out=shifted)
        expected = row_by_row(data, places, updates, reduction)
        np.testing.assert_array_equal(shifted, expected, f"rows of {width}")
