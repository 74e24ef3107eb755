"""Rows of every width are reduced alike, whatever pieces they are worked on in."""

import numpy as np
import pytest

from ndgather import scatter_nd

REDUCED = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}


def row_by_row(data, places, updates, reduction):
    """The loop of the specification."""
    result = data.copy()
    for place, update in zip(places, updates, strict=True):
        result[place] = REDUCED[reduction](result[place], update)
    return result


@pytest.mark.parametrize("reduction", REDUCED)
@pytest.mark.parametrize("char", "bHilefdgFD")
def test_rows_of_every_width(char, reduction):
    """Up to 70 elements, in rows that begin anywhere on a line; more than one update for most."""
    if char in "FD" and reduction == "max":
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(3)
    for width in (*range(1, 71), 127, 128, 129, 255, 256, 257, 300):
        shape, count = (5, width), 12
        data, updates = (
            np.rint(4 * rng.standard_normal((n, width))).astype(char) for n in (5, count)
        )
        if char in "efdgFD":
            data, updates = data / data.dtype.type(3), updates / updates.dtype.type(3)
        bytes_before = int(rng.integers(0, 8)) * data.itemsize
        room = np.zeros(bytes_before + data.nbytes, np.uint8)
        shifted = room[bytes_before:].view(data.dtype).reshape(shape)
        shifted[...] = data
        places = rng.integers(0, 5, count)
        scatter_nd(shifted, places[:, np.newaxis], updates, reduction=reduction, out=shifted)
        expected = row_by_row(data, places, updates, reduction)
        np.testing.assert_array_equal(shifted, expected, f"rows of {width}")
