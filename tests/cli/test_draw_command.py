"""``ndgather draw``: pictures in files and in the terminal."""

import numpy as np
import pytest

from ndgather import show


def test_a_picture_is_that_of_the_function(ndgather, folder):
    outcome = ndgather("draw gather-nd data.npy indices.npy -o picture.svg")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
    expected = show.gather_nd(np.load("data.npy"), np.load("indices.npy"))
    assert (folder / "picture.svg").read_text("utf-8") == expected.to_svg()
    ndgather("draw gather-nd data.npy indices.npy -o dark.svg --theme dark")
    assert (folder / "dark.svg").read_text("utf-8") == expected.to_svg("dark")
    ndgather("draw gather-nd data.npy indices.npy -o picture.png")
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_file_it_is_text(ndgather, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    outcome = ndgather("draw gather-nd data.npy indices.npy")
    assert outcome.out.startswith("gather_nd(data, indices)\n\ndata  int16 (3, 4)  ")
    assert "101 a" in outcome.out


def test_a_call_that_fails_is_drawn(ndgather):
    outcome = ndgather("draw gather-nd data.npy bad.npy")
    assert outcome.status == 0
    assert "gather_nd: indices[1, 1] = 9 is outside axis 1" in outcome.out


def test_every_function_and_its_options(ndgather, folder):
    np.save("columns.npy", np.array([[3, 0, 1, 0]]))
    np.save("starts.npy", np.array([[0, 1], [2, 3]]))
    np.save("updates.npy", np.array([7, 8, 9], np.int16))
    np.save("row.npy", np.array([[7, 8, 9, 5]], np.int16))
    np.savez("both.npz", starts=np.array([[0, 1]]))
    for line, said in (
        ("gather-elements data.npy columns.npy --axis 0 --mode clip", "mode='clip'"),
        ("gather data.npy columns.npy --axis -1 --batch-dims 0", "axis=-1"),
        ("gather-windows data.npy starts.npy --window 2,2 --mode fill --fill-value 9", "9 b"),
        ("gather-windows data.npy both.npz:starts --window 2,2", "(2, 2)"),
        ("gather-windows data.npy starts.npy --window 2,2 --mode edge,wrap", "edge,wrap"),
        ("scatter-nd data.npy indices.npy updates.npy --reduction add", "108 a"),
        ("scatter-nd data.npy indices.npy updates.npy --reduction add --no-init-val", "7 a"),
        ("scatter-elements data.npy columns.npy row.npy --mode drop", "3→drop"),
    ):
        outcome = ndgather(f"draw {line}")
        assert (outcome.status, outcome.err) == (0, "")
        assert said in outcome.out


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("gather-nd data.npy indices.npy -o a.gif", 2, "'a.gif' does not end in .svg or .png"),
        ("gather-windows data.npy indices.npy --window 2,x", 2, "not a list of whole numbers"),
        ("gather-windows data.npy indices.npy", 1, "gather_windows: window_shape is missing"),
        ("gather-nd data.npy indices.npy --axis 1", 1, "gather_nd: axis = 1 is not an argument"),
        ("gather-nd data.npy none.npy", 1, "none.npy"),
        ("scatter-nd data.npy indices.npy", 1, "scatter_nd: updates is missing"),
        ("gather-nd data.npy indices.npy -o none/a.svg", 1, "No such file or directory"),
    ],
)
def test_what_does_not_fit_is_said(ndgather, line, status, text):
    outcome = ndgather(f"draw {line}")
    assert outcome.status == status
    assert text.lower() in outcome.err.lower()
