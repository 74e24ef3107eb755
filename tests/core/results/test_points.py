"""The core's functions for stored arrays refuse arguments that would lead out of bounds."""

import numpy as np
import pytest

from ndgather.array_call import Call, Kind, _core

DATA = np.broadcast_to(np.uint8(0), (10, 8))
INDICES = np.array([[0, 0], [9, 7], [-1, 3]])


def sort(steps=(4, 4), begin=0, places=None, positions=None, indices=INDICES):
    places = np.empty(3, np.uint32) if places is None else places
    positions = np.empty(3, np.uint32) if positions is None else positions
    given = Call("gather_nd", Kind.GATHER_ND, DATA, indices).arguments()
    return (*_core.sort_points(given, steps, begin, places, positions), places, positions)


def test_points_are_sorted_by_chunk():
    chunks, starts, places, positions = sort()
    assert chunks.tolist() == [0, 4, 5]  # a grid of 3 x 2 chunks
    assert starts.tolist() == [0, 1, 2]
    assert positions.tolist() == [0, 2, 1]
    assert places.tolist() == [0, (1 << 2) + 3, (1 << 2) + 3]


@pytest.mark.parametrize(
    "arguments",
    [
        {"steps": ()},
        {"steps": (4,)},
        {"steps": (0, 4)},
        {"steps": (-1, 4)},
        {"steps": (4, None)},
        {"steps": (np.array([0, 5]), 4)},
        {"steps": (np.array([0, 7, 5, 10]), 4)},
        {"steps": (np.array([1, 10]), 4)},
        {"steps": (np.array([0, 10], np.int32), 4)},
        {"steps": [4, 4]},
        {"begin": 1},
        {"begin": -1},
        {"places": np.empty(2, np.uint32)},
        {"places": np.empty(3, np.uint64)},
        {"places": np.empty(6, np.uint32)[::2]},
        {"places": [0, 0, 0]},
        {"positions": np.empty(4, np.uint32)},
        {"positions": np.empty(3, np.int64)},
        {"positions": None, "steps": 4},
    ],
)
def test_invalid_arguments_are_refused(arguments):
    with pytest.raises((ValueError, TypeError)):
        sort(**arguments)


def move(chunk, dense, places=(0, 5), positions=(0, 1), runs=((0,), (2,)), bits=(2, 2), block=9):
    starts, stops = (np.array(each, np.int64) for each in runs)
    places, positions = np.array(places, np.uint32), np.array(positions, np.uint32)
    _core.move_points(chunk, dense, bits, places, positions, block, starts, stops, None, None)


def test_points_are_moved():
    chunk, dense = np.arange(16.0).reshape(4, 4), np.zeros(3)
    move(chunk, dense)
    assert dense.tolist() == [0, 5, 0]
    chunk, dense = np.arange(48.0).reshape(4, 4, 3).transpose(1, 0, 2), np.zeros((3, 2, 2))[:, 0]
    move(chunk[..., 1:], dense)
    assert dense.tolist() == [[1, 2], [16, 17], [0, 0]]


@pytest.mark.parametrize(
    "arguments",
    [
        {"places": (0, 16)},
        {"places": (0, 15), "chunk": np.zeros((4, 3))},
        {"positions": (0, 3)},
        {"positions": (0, 2**32 - 1)},
        {"runs": ((-1,), (2,))},
        {"runs": ((0,), (3,))},
        {"runs": ((2,), (1,))},
        {"runs": ((0, 1), (2,))},
        {"places": (0,)},
        {"bits": (2,)},
        {"bits": (2, 2, 2)},
        {"bits": (-1, 2)},
        {"bits": (40, 40)},
        {"bits": (2, "x")},
        {"block": 0},
        {"dense": np.zeros(3, np.float32)},
        {"dense": np.broadcast_to(np.zeros(1), 3)},
        {"dense": np.zeros((3, 2)), "chunk": np.zeros((4, 4, 3))},
        {"dense": np.array([None] * 3), "chunk": np.full((4, 4), None)},
    ],
)
def test_out_of_bounds_moves_are_refused(arguments):
    arguments = {"chunk": np.zeros((4, 4)), "dense": np.zeros(3), **arguments}
    with pytest.raises((ValueError, TypeError)):
        move(**arguments)
