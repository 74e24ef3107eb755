"""The layout of pictures: rows of planes, nested boxes, letters of entries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgather.array_call import Call, Kind, Mode
from ndgather.show.evaluate import State, evaluate
from ndgather.show.layout import (
    Group,
    Label,
    Line,
    Rect,
    panel_drawing,
    picture_drawing,
    text_width,
)
from ndgather.show.scene import make_scene


def drawn(call, number, widest_row=340.0):
    scene = make_scene(evaluate(call))
    return scene, panel_drawing(scene.panels[number], scene.entries, widest_row)


def test_planes_fill_rows_up_to_the_width():
    """A row exceeds the maximum width only if it has a single plane; no row starts with a gap."""
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
    # Two planes and the gap between them fit exactly; if there is less space, they wrap.
    two = 2 * step - 22
    for widest, columns in ((two, 2), (two - 0.01, 1), (1.0, 1), (step - 23, 1)):
        _, drawing = drawn(call, 0, widest)
        found = places(drawing)
        assert [x for x, _ in found[:columns]] == [x for x, _ in one_row[:columns]]
        assert found[0] == one_row[0], "a plane that is too wide begins where every first one does"
        assert len({x for x, _ in found}) == columns
        assert len({y for _, y in found}) == -(-len(headings) // columns)


def boxes(drawing):
    """Return the outlines of the boxes of all entries."""
    return {
        group.entry: next(shape for shape in group.shapes if isinstance(shape, Rect))
        for group in drawing.items
        if isinstance(group, Group)
    }


def test_overlapping_boxes_are_nested():
    """The second window shares a cell with the first, and the third shares a cell with it."""
    starts = [[0], [1], [3], [0]]
    call = Call("gather_windows", Kind.GATHER_WINDOWS, np.arange(6), starts, window_shape=(2,))
    _, drawing = drawn(call, 0)
    found = boxes(drawing)
    tops = [found[entry].y for entry in range(4)]
    assert tops[1] - tops[0] == 3.0  # around cells 1 and 2; cell 1 is in the first box
    assert tops[2] == tops[0]  # around cells 3 and 4, which are in no other box
    assert tops[3] - tops[0] == 6.0  # around cells 0 and 1; cell 1 is already in two boxes


@pytest.mark.parametrize("count", [1, 3, 4, 5, 7])
def test_a_cell_has_at_most_four_letters(count):
    call = Call("gather_nd", Kind.GATHER_ND, [10, 11, 12], [[1]] * count)
    _, drawing = drawn(call, 0)
    assert len(boxes(drawing)) == min(count, 4)
    labels = [each.text for each in drawing.items if isinstance(each, Label)]
    more = [text for text in labels if text.startswith("+")]
    assert more == ([f"+{count - 4}"] if count > 4 else [])


@pytest.mark.parametrize(
    ("mode", "start", "state"),
    [
        ((Mode.FILL, Mode.RAISE), [5, 0], State.ERROR),
        ((Mode.RAISE, Mode.FILL), [5, 0], State.ERROR),
        ("fill", [5, 0], State.FILLED),
        ((Mode.FILL, Mode.CLIP), [5, 0], State.FILLED),
        ("raise", [5, 0], State.ERROR),
    ],
)
def test_out_of_bounds_windows_are_filled_unless_an_axis_raises(mode, start, state):
    call = Call(
        "gather_windows", Kind.GATHER_WINDOWS, np.zeros((3, 3)), [start], window_shape=(1, 1)
    )
    scene = make_scene(evaluate(replace(call, mode=mode)))
    assert scene.entries[0].state is state


def test_out_of_bounds_updates_are_dropped_or_errors():
    call = Call("scatter_nd", Kind.SCATTER_ND, [1, 2], [[5]], [9])
    for mode, state in (("drop", State.DROPPED), ("raise", State.ERROR)):
        assert make_scene(evaluate(replace(call, mode=mode))).entries[0].state is state


CALLS = ("gather_nd", "gather", "gather_elements", "gather_windows", "scatter_nd")


@st.composite
def some_calls(draw):
    """Draw a call on a small or large array with duplicate and out-of-bounds entries."""
    function = draw(st.sampled_from(CALLS))
    shape = tuple(draw(st.lists(st.integers(1, 6) | st.just(40), min_size=1, max_size=4)))
    scale = draw(st.sampled_from([1, 10**6, -(10**8)]))
    data = np.arange(np.prod(shape)).reshape(shape) * scale
    count, options = draw(st.integers(0, 7)), {}
    depth = draw(st.integers(1, len(shape)))
    entry = draw(st.sampled_from([st.integers(0, 1), st.integers(-3, 5), st.integers(0, 45)]))
    if function in ("gather", "gather_elements"):
        indices = np.array(draw(st.lists(entry, min_size=count, max_size=count)), int)
        if function == "gather_elements":
            indices = np.broadcast_to(
                indices.reshape(-1, *[1] * (len(shape) - 1)), (count, *shape[1:])
            ).copy()
    else:
        indices = np.array(
            [[draw(entry) for _ in range(depth)] for _ in range(count)], int
        ).reshape(count, depth)
    if function == "gather_windows":
        options["window_shape"] = tuple(draw(st.integers(1, 3)) for _ in range(depth))
        options["mode"] = draw(st.sampled_from(["fill", "clip", "edge", "raise"]))
    elif function == "scatter_nd":
        options["updates"] = np.arange(count * np.prod(shape[depth:], dtype=int)).reshape(
            count, *shape[depth:]
        )
        options["mode"] = draw(st.sampled_from(["raise", "drop", "wrap"]))
    else:
        options["mode"] = draw(st.sampled_from(["raise", "fill", "wrap"]))
    return Call(function, Kind(function), data, indices, **options)


def extent(shape):
    """Return the left, top, right and bottom edges of a shape."""
    if isinstance(shape, Rect):
        return shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
    if isinstance(shape, Line):
        ends = sorted([shape.x, shape.x + shape.dx]), sorted([shape.y, shape.y + shape.dy])
        return ends[0][0], ends[1][0], ends[0][1], ends[1][1]
    wide = text_width(shape.text, shape.style)
    wide *= 0.9 if shape.style in ("note", "arrow") else 1  # proportional fonts
    left = shape.x - {"start": 0, "middle": wide / 2, "end": wide}[shape.anchor]
    return left, shape.y - 8, left + wide, shape.y


def overlap(one, other, slack=0.01):
    return (
        one[0] < other[2] - slack
        and other[0] < one[2] - slack
        and one[1] < other[3] - slack
        and other[1] < one[3] - slack
    )


def flat(drawing):
    for item in drawing.items:
        yield from item.shapes if isinstance(item, Group) else (item,)


@given(some_calls())
def test_shapes_and_texts_stay_within_their_bounds(call):
    scene = make_scene(evaluate(call))
    drawing = picture_drawing(scene)
    for shape in flat(drawing):
        left, top, right, bottom = extent(shape)
        assert left >= -0.01
        assert top >= -0.01
        assert right <= drawing.width + 0.01, shape
        assert bottom <= drawing.height + 0.01, shape
    texts = [each for each in flat(drawing) if isinstance(each, Label)]
    values = [extent(each) for each in texts if each.style in ("value", "bad")]
    cells = [extent(each) for each in flat(drawing) if getattr(each, "style", "") == "cell"]
    assert len(values) == len(cells)
    for value in values:
        [cell] = [cell for cell in cells if overlap(cell, value)]
        assert cell[0] <= value[0]
        assert value[2] <= cell[2]
    for number, text in enumerate(texts):
        for other in texts[:number]:
            assert not overlap(extent(text), extent(other), 1.0), (text, other)


@given(some_calls())
def test_boxes_surround_their_cells(call):
    """All four sides are inset by the nesting level of the box."""
    scene = make_scene(evaluate(call))
    for panel in scene.panels:
        drawing = panel_drawing(panel, scene.entries)
        cells = [each for each in drawing.items if getattr(each, "style", "") in ("cell", "absent")]
        groups = [each for each in drawing.items if isinstance(each, Group)]
        corners = {}
        for plane in panel.planes:
            places = [
                (row, column)
                for row, of_row in enumerate(plane.cells)
                for column, cell in enumerate(of_row)
                if cell is not None
            ]
            at = dict(zip(places, map(extent, cells[: len(places)]), strict=True))
            del cells[: len(places)]
            drawn = {}
            for box in plane.boxes:
                corner = box.rows[0], box.columns[0]
                drawn[corner] = drawn.get(corner, 0) + 1
                if drawn[corner] > 4:
                    continue
                group = groups.pop(0)
                assert group.entry == box.entry
                outline, chip = [each for each in group.shapes if isinstance(each, Rect)]
                left, top, right, bottom = extent(outline)
                first, last = at[corner], at[box.rows[1], box.columns[1]]
                inset = left - first[0]
                assert inset == pytest.approx(round(inset))
                assert round(inset) in (0, 3, 6, 9)
                assert (top, right, bottom) == pytest.approx(
                    (first[1] + inset, last[2] - inset, last[3] - inset)
                )
                of_chip = extent(chip)
                assert of_chip[1] < first[1] < of_chip[3]
                assert first[0] <= of_chip[0]
                assert of_chip[2] <= last[2]
                for other in corners.setdefault((id(plane), corner), []):
                    assert not overlap(of_chip, other)
                corners[id(plane), corner].append(of_chip)
        assert not cells
        assert not groups
        more = [each for each in drawing.items if getattr(each, "text", "").startswith("+")]
        for label in more:
            for chips in corners.values():
                assert not any(overlap(extent(label), chip) for chip in chips)
