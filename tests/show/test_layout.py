"""Where the parts of a picture lie: rows of planes, boxes in boxes, letters of entries."""

from dataclasses import replace

import numpy as np
import pytest

from ndgather.array_call import Call, Kind
from ndgather.show.evaluate import State, evaluate
from ndgather.show.layout import Group, Label, Rect, panel_drawing
from ndgather.show.scene import make_scene


def drawn(call, number, widest_row=340.0):
    scene = make_scene(evaluate(call))
    return scene, panel_drawing(scene.panels[number], scene.entries, widest_row)


def test_planes_stand_side_by_side_as_many_as_fit():
    """A row is never wider than it may be, unless one plane alone is; none begins with a gap."""
    cube = np.arange(60).reshape(5, 3, 4)
    call = Call("gather_nd", Kind.GATHER_ND, cube, [[0, 0, 0]])
    scene, wide = drawn(call, 0, 10_000.0)
    headings = [plane.heading for plane in scene.panels[0].planes]
    assert len(headings) > 2

    def places(drawing):
        labels = [each for each in drawing.items if isinstance(each, Label)]
        return [(each.x, each.y) for each in labels if each.text in headings]

    one_row = places(wide)
    step = one_row[1][0] - one_row[0][0]
    assert {y for _, y in one_row} == {one_row[0][1]}
    # Two planes and the gap between them fit exactly; a hair less, and each has a row of its own.
    two = 2 * step - 22
    for widest, columns in ((two, 2), (two - 0.01, 1), (1.0, 1), (step - 23, 1)):
        _, drawing = drawn(call, 0, widest)
        found = places(drawing)
        assert [x for x, _ in found[:columns]] == [x for x, _ in one_row[:columns]]
        assert found[0] == one_row[0], "a plane that is too wide begins where every first one does"
        assert len({x for x, _ in found}) == columns
        assert len({y for _, y in found}) == -(-len(headings) // columns)


def boxes(drawing):
    """Return the outline of the box of each entry."""
    return {
        group.entry: next(shape for shape in group.shapes if isinstance(shape, Rect))
        for group in drawing.items
        if isinstance(group, Group)
    }


def test_a_box_is_inside_of_all_that_share_a_cell_with_it():
    """The second window shares one cell with the first, and the third one with the second."""
    starts = [[0], [1], [3], [0]]
    call = Call("gather_windows", Kind.GATHER_WINDOWS, np.arange(6), starts, window_shape=(2,))
    _, drawing = drawn(call, 0)
    found = boxes(drawing)
    tops = [found[entry].y for entry in range(4)]
    assert tops[1] - tops[0] == 3.0  # around cells 1 and 2, of which one is in the first box
    assert tops[2] == tops[0]  # around cells 3 and 4, which no other box has
    assert tops[3] - tops[0] == 6.0  # around cells 0 and 1: cell 1 is in two boxes already


@pytest.mark.parametrize("count", [1, 3, 4, 5, 7])
def test_four_entries_of_one_cell_have_letters_and_the_others_a_number(count):
    call = Call("gather_nd", Kind.GATHER_ND, [10, 11, 12], [[1]] * count)
    _, drawing = drawn(call, 0)
    assert len(boxes(drawing)) == min(count, 4)
    labels = [each.text for each in drawing.items if isinstance(each, Label)]
    more = [text for text in labels if text.startswith("+")]
    assert more == ([f"+{count - 4}"] if count > 4 else [])


@pytest.mark.parametrize(
    ("mode", "start", "state"),
    [
        ("fill,raise", [5, 0], State.ERROR),
        ("raise,fill", [5, 0], State.ERROR),
        ("fill", [5, 0], State.FILLED),
        ("fill,clip", [5, 0], State.FILLED),
        ("raise", [5, 0], State.ERROR),
    ],
)
def test_a_window_outside_is_filled_only_where_no_axis_raises(mode, start, state):
    call = Call(
        "gather_windows", Kind.GATHER_WINDOWS, np.zeros((3, 3)), [start], window_shape=(1, 1)
    )
    scene = make_scene(evaluate(replace(call, mode=mode)))
    assert scene.entries[0].state is state


def test_an_update_outside_is_dropped_or_an_error():
    call = Call("scatter_nd", Kind.SCATTER_ND, [1, 2], [[5]], [9])
    for mode, state in (("drop", State.DROPPED), ("raise", State.ERROR)):
        assert make_scene(evaluate(replace(call, mode=mode))).entries[0].state is state
