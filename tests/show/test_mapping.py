"""The entries in pictures match the plain loops of the definitions."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from ndgather.array_call import Call, Kind, Mode
from ndgather.show.evaluate import State, evaluate, resolve_entries
from ndgather.show.scene import make_scene, written
from tests.definitions import reference
from tests.definitions.strategies import calls

NOTHING = -1
GATHERS = ("gather_nd", "gather_elements", "gather")
SCATTERS = ("scatter_nd", "scatter_elements")
WITHOUT_ERROR = {"raise": "fill", "drop": "fill"}


def numbers_by_loops(function, shape, indices, options):
    """Return the number of the element of data that each element copies, or NOTHING."""
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    names = ("axis", "batch_dims")
    kept = {name: value for name, value in options.items() if name in names}
    mode = options.get("mode", "raise")
    loops = getattr(reference, function.replace("scatter", "gather"))
    with_mode = {"mode": WITHOUT_ERROR.get(mode, mode), "fill_value": NOTHING}
    if mode in ("wrap", "clip") and 0 in shape:
        with_mode["mode"] = "fill"  # wrap is impossible on an empty axis
    return loops(numbers, indices, **kept, **with_mode)


def assert_sources(call, numbers):
    """Check that each element of each drawn entry has the same source as in the loops."""
    found = resolve_entries(call, numbers.shape)
    shape = call.data.shape
    for entry in found.entries:
        for place in itertools.product(*entry.dense):
            source = found.source(entry, place)
            number = NOTHING if source is None else np.ravel_multi_index(source, shape)
            assert number == numbers[place], (entry, place)
            if source is not None:
                inside = zip(entry.data, source, strict=True)
                assert all(at in each for each, at in inside), (entry, source)
    return found


@pytest.mark.parametrize("function", GATHERS)
@given(data=st.data())
def test_gather_entries_match_plain_loops(function, data):
    drawn = data.draw(calls(function))
    note(str(drawn))
    call = Call(function, Kind(function), drawn.data, drawn.indices, **drawn.options)
    numbers = numbers_by_loops(function, drawn.data.shape, drawn.indices, drawn.options)
    found = assert_sources(call, numbers)
    event(f"{len(found.entries)} entries" if len(found.entries) < 3 else "more entries")


@pytest.mark.parametrize("function", SCATTERS)
@given(data=st.data())
def test_scatter_entries_match_plain_loops(function, data):
    drawn = data.draw(calls(function))
    note(str(drawn))
    call = Call(function, Kind(function), drawn.data, drawn.indices, drawn.updates, **drawn.options)
    numbers = numbers_by_loops(function, drawn.data.shape, drawn.indices, drawn.options)
    assert_sources(call, numbers)


@given(drawn=calls("gather_windows"))
def test_windows_match_plain_loops(drawn):
    note(str(drawn))
    mode, window = drawn.options["mode"], drawn.options["window_shape"]
    numbers = np.arange(drawn.data.size).reshape(drawn.data.shape)
    numbers = reference.gather_windows(numbers, drawn.indices, window, mode, NOTHING)
    kind, mode = "gather_windows", mode if isinstance(mode, str) else tuple(mode)
    call = Call(kind, Kind(kind), drawn.data, drawn.indices, mode=mode, window_shape=window)
    assert_sources(call, numbers)


def test_window_starts_may_exceed_int64():
    starts, kind = np.array([2**63], np.uint64), "gather_windows"
    call = Call(kind, Kind(kind), np.array([False]), starts, mode="fill", window_shape=(0,))
    assert_sources(call, np.empty(0, int))
    starts, data = np.array([[2**63 - 1], [2**64 - 1]], np.uint64), np.arange(3)
    call = Call(kind, Kind(kind), data, starts, mode="wrap", window_shape=(2,))
    assert_sources(
        call, np.array([[(start + w) % 3 for w in (0, 1)] for start in (2**63 - 1, 2**64 - 1)])
    )
    for mode, expected in (("edge", [[2, 2], [2, 2]]), ("reflect", [[1, 0], [1, 2]])):
        starts = np.array([[2**63 - 1], [2**64 - 3]], np.uint64)
        assert_sources(replace(call, indices=starts, mode=mode), np.array(expected))


def cells_of(panel):
    """Yield the drawn positions of an array with their cells."""
    for plane in panel.planes:
        head = plane.heading.partition("[")[2].rstrip("]")
        lead = [int(each) for each in head.split(", ")] if head else []
        for row, cells in zip(plane.rows, plane.cells, strict=True):
            for column, cell in zip(plane.columns, cells, strict=True):
                if cell is not None:
                    yield (*lead, *(int(each) for each in (row, column) if each)), cell


@pytest.mark.parametrize("function", GATHERS)
@given(data=st.data())
def test_cells_show_the_elements(function, data):
    drawn = data.draw(calls(function))
    note(str(drawn))
    call = Call(function, Kind(function), drawn.data, drawn.indices, **drawn.options)
    evaluation = evaluate(call)
    scene = make_scene(evaluation)
    for place, cell in cells_of(scene.panels[0]):
        assert cell.text == written(drawn.data[place])
    if evaluation.error is None:
        for place, cell in cells_of(scene.panels[-1]):
            assert cell.text == written(evaluation.result[place])
    else:
        assert all(not cell.text for _, cell in cells_of(scene.panels[-1]))
    event("error" if evaluation.error else "value")


@pytest.mark.parametrize("function", SCATTERS)
@given(data=st.data())
def test_cells_show_the_elements_of_a_scatter(function, data):
    drawn = data.draw(calls(function))
    note(str(drawn))
    call = Call(function, Kind(function), drawn.data, drawn.indices, drawn.updates, **drawn.options)
    evaluation = evaluate(call)
    *_, updates, result = make_scene(evaluation).panels
    for place, cell in cells_of(updates):
        assert cell.text == written(drawn.updates[place])
    for place, cell in cells_of(result):
        expected = "" if evaluation.result is None else written(evaluation.result[place])
        assert cell.text == expected


def boxed(panel, number):
    """Return the positions of a panel in the box of an entry."""
    places = set()
    for plane in panel.planes:
        head = plane.heading.partition("[")[2].rstrip("]")
        lead = [int(each) for each in head.split(", ")] if head else []
        for box in plane.boxes:
            if box.entry != number:
                continue
            for row in range(box.rows[0], box.rows[1] + 1):
                for column in range(box.columns[0], box.columns[1] + 1):
                    at = (plane.rows[row], plane.columns[column])
                    places.add((*lead, *(int(each) for each in at if each)))
    return places


def test_boxes_surround_the_addressed_elements():
    cube = np.arange(24).reshape(2, 3, 4)
    call = Call("gather_nd", Kind.GATHER_ND, cube, [[1, 0], [0, -1]])
    data, indices, result = make_scene(evaluate(call)).panels
    assert boxed(data, 0) == {(1, 0, s) for s in range(4)}
    assert boxed(data, 1) == {(0, 2, s) for s in range(4)}
    assert boxed(result, 1) == {(1, s) for s in range(4)}
    assert [cell.text for cell in indices.planes[0].cells[1]] == ["0", "-1→2"]


@pytest.mark.parametrize(
    ("mode", "value", "text", "state"),
    [
        ("raise", 7, "7", State.ERROR),
        ("raise", -1, "-1→1", State.PLAIN),
        ("wrap", 7, "7→1", State.PLAIN),
        ("clip", 7, "7→1", State.PLAIN),
        ("clip", -1, "-1→0", State.PLAIN),
        ("fill", 7, "7→fill", State.FILLED),
    ],
)
def test_normalized_values_are_shown(mode, value, text, state):
    call = Call("gather_nd", Kind.GATHER_ND, [[10, 11, 12], [20, 21, 22]], [[value, 0]], mode=mode)
    scene = make_scene(evaluate(call))
    first = scene.panels[1].planes[0].cells[0][0]
    assert (first.text, first.state, scene.entries[0].state) == (text, state, state)


def test_negative_batch_dims_are_normalized():
    data, indices = np.arange(12).reshape(2, 6), np.array([[5, 0], [1, -1]])
    call = Call("gather", Kind.GATHER, data, indices, axis=1, batch_dims=-1)
    numbers = reference.gather(data, indices, 1, -1)
    assert_sources(call, numbers)


@pytest.mark.parametrize("rank", range(1, 5))
def test_panels_are_the_same_for_negative_batch_dims(rank):
    """Such a number counts from the rank of indices, which may differ from that of data."""
    data = np.arange(2**rank).reshape((2,) * rank)
    for of_indices in range(1, 4):
        indices = np.zeros((2,) * of_indices, int)
        for axis, batch in itertools.product(range(rank), range(of_indices)):
            if batch > axis or batch - of_indices < -rank:
                continue
            calls = [
                Call("gather", Kind.GATHER, data, indices, axis=axis, batch_dims=dims)
                for dims in (batch, batch - of_indices)
            ]
            front, back = (make_scene(evaluate(call)) for call in calls)
            assert front.panels == back.panels, (axis, batch, of_indices)


def test_negative_values_may_be_out_of_bounds():
    call = Call("ours", Kind.GATHER_ND, [10, 11], [[-1], [0]], negative=False)
    scene = make_scene(evaluate(call))
    assert [entry.state for entry in scene.entries] == [State.ERROR, State.PLAIN]
    assert "indices[0, 0] = -1" in scene.error


def test_the_first_out_of_bounds_entry_is_always_drawn():
    indices = np.zeros((1000, 1), int)
    indices[777] = 5
    scene = make_scene(evaluate(Call("gather_nd", Kind.GATHER_ND, [1, 2, 3], indices)))
    refused = [entry for entry in scene.entries if entry.state is State.ERROR]
    assert [entry.sentence for entry in refused] == ["indices[777] = (5,) is out of bounds"]


def test_notes_give_the_order_of_updates():
    arguments = ("scatter_nd", Kind.SCATTER_ND, [1, 2, 3], [[1], [0], [1]], [10, 20, 30])
    for options, said in (
        ({}, "result[1]: a, then c; the last one stays"),
        ({"reduction": "add"}, "result[1]: data[1] + a + c"),
        ({"reduction": "mul", "use_init_val": False}, "result[1]: a * c"),
        ({"reduction": "mean"}, "result[1]: (data[1] + a + c) / 3"),
        ({"reduction": "max"}, "result[1]: max(data[1], a, c)"),
    ):
        scene = make_scene(evaluate(Call(*arguments, **options)))
        assert [note for note in scene.notes if note.startswith("result[")] == [said]
    many = [[1]] * 500
    scene = make_scene(evaluate(Call("scatter_nd", Kind.SCATTER_ND, [1, 2, 3], many, [7] * 500)))
    assert scene.notes == ("updates that are not drawn may have the same targets",)
    *_, updates, result = make_scene(evaluate(Call(*arguments))).panels
    assert [box.replaced for box in updates.planes[0].boxes] == [True, False, False]
    assert [box.entry for box in result.planes[0].boxes if box.columns == (1, 1)] == [0, 2]


def test_a_dropped_update_is_not_crossed_out():
    arguments = ("scatter_nd", Kind.SCATTER_ND, [1, 2], [[5], [6], [0]], [10, 20, 30])
    *_, updates, _ = make_scene(evaluate(Call(*arguments, mode="drop"))).panels
    assert [box.replaced for box in updates.planes[0].boxes] == [False, False, False]


def test_a_moved_window_has_a_note():
    window = Call("gather_windows", Kind.GATHER_WINDOWS, [1, 2, 3], [[5]], window_shape=(2,))
    scene = make_scene(evaluate(replace(window, mode="clip")))
    assert scene.notes == ("5 is clipped: it is 1",)
    square = replace(window, data=[[1, 2], [3, 4]], indices=[[5, 1]], window_shape=(1, 1))
    scene = make_scene(evaluate(replace(square, mode=(Mode.CLIP, Mode.WRAP))))
    assert scene.notes == ("5 is clipped: it is 1",)
