"""Entries that strides of 0 repeat are looked at once, and counted as often as they are there."""

from __future__ import annotations

import numpy as np
import pytest

import ndgather

ENTRIES = np.array([[0, 1, 5], [2, 7, 1]])


def broadcasts() -> list[tuple[np.ndarray, int]]:
    """Indices with repeated entries, and how many axes of data each tuple names."""
    return [
        (np.broadcast_to(ENTRIES[:, None, :, None, None], (2, 4, 3, 5, 1)), 1),
        (np.broadcast_to(ENTRIES[None, :, :, None], (7, 2, 3, 2)), 2),
        (np.broadcast_to(ENTRIES[:, :, None], (2, 3, 6))[:, ::-1, :1], 1),
        (np.broadcast_to(ENTRIES[1, 1], (3, 4, 2)), 2),
    ]


@pytest.mark.parametrize(("indices", "depth"), broadcasts())
def test_first_bad_entry_and_count_are_those_of_the_whole_array(
    indices: np.ndarray, depth: int
) -> None:
    bad = [at for at in np.ndindex(indices.shape) if indices[at] > 2]
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(np.zeros((3,) * depth), indices)
    assert caught.value.position == bad[0]
    assert caught.value.value == indices[bad[0]]
    assert caught.value.count == len(bad)


def test_more_entries_than_could_be_looked_at_one_by_one() -> None:
    data = np.zeros((3, 0))
    inside = np.broadcast_to(np.int64(2), (2**59, 1))
    assert ndgather.gather_nd(data, inside).shape == (2**59, 0)
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(data, np.broadcast_to(np.int64(3), (2**59, 1)))
    assert caught.value.position == (0, 0)
    assert caught.value.count == 2**59
