"""The parts of large arrays that pictures omit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ndgather.array_call import Call, Kind
from ndgather.show.evaluate import chosen, evaluate, some_coordinates
from ndgather.show.scene import make_scene, with_gaps


@given(
    size=st.integers(0, 40),
    most=st.integers(1, 12),
    wanted=st.lists(st.integers(-3, 50), max_size=20),
)
def test_ends_and_wanted_coordinates_come_first(size, most, wanted):
    found = chosen(size, most, wanted)
    assert len(found) == min(size, most)
    assert list(found) == sorted(set(found))
    assert set(found) <= set(range(size))
    if size > most > 1:
        assert {0, size - 1} <= set(found)
        inner = [each for each in dict.fromkeys(wanted) if 0 < each < size - 1]
        assert set(inner[: most - 2]) <= set(found)


@given(coordinates=st.sets(st.integers(0, 9)), size=st.just(10))
def test_omitted_coordinates_become_gaps(coordinates, size):
    found = with_gaps(sorted(coordinates), size)
    expected = []
    for each in range(size):
        if each in coordinates:
            expected.append(each)
        elif not expected or expected[-1] is not None:
            expected.append(None)
    assert list(found) == expected
    assert with_gaps((), 0) == ()


@given(shape=st.lists(st.integers(0, 30), max_size=4), most=st.integers(1, 40))
def test_combinations_of_coordinates_are_limited(shape, most):
    found = some_coordinates(shape, most)
    assert int(np.prod([len(each) for each in found])) <= most
    assert [bool(each) for each in found] == [size > 0 for size in shape]


def test_huge_indices_are_not_read():
    indices = np.broadcast_to(np.int64(7), (10**6, 10**6))
    data = np.broadcast_to(np.float32(1), (10, 10**6))
    scene = make_scene(evaluate(Call("gather_elements", Kind.GATHER_ELEMENTS, data, indices)))
    assert scene.notes[-1].startswith("there are too many entries to check")
    starts = np.zeros((10**5, 2), int)
    call = Call("gather_windows", Kind.GATHER_WINDOWS, data, starts, window_shape=(10, 10**6))
    assert make_scene(evaluate(call)).error is None
