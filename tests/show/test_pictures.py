"""Pictures as SVG, HTML and text."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import dask.array
import h5py
import numpy as np
import pytest
import xarray
import zarr
from hypothesis import event, given, settings
from hypothesis import strategies as st

import ndgather
from ndgather import show
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
)
from tests.definitions.draws import DATA_DTYPES, distinct

ROOT = Path(__file__).parents[2]
GRID = np.array([[10, 11, 12], [20, 21, 22]])
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 200_000


def parsed(picture):
    """Parse the SVG file, and check that all tags of the HTML are closed."""
    open_tags = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert "id" not in dict(attrs), "two pictures on a page would have it twice"
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    checker = Checker()
    checker.feed(picture.to_html())
    checker.close()
    assert not open_tags
    return ET.fromstring(picture.to_svg())


@given(data=st.data())
@settings(max_examples=min(60, settings.default.max_examples))
def test_files_are_well_formed_for_any_type(data):
    dtype = data.draw(st.sampled_from(DATA_DTYPES))
    array = distinct((2, 3), dtype)
    picture = show.gather_nd(array, [[0, 2], [1, 0]])
    tree = parsed(picture)
    assert picture.error is None
    assert next(each.text for each in tree.iter(f"{SVG}title")) == "gather_nd(data, indices)"
    assert str(picture).startswith("gather_nd(data, indices)\n")
    event(dtype.kind)


def test_texts_are_escaped():
    evil = "</text><script>alert(1)</script>&\x00\x1b[2J"
    for array in (
        np.array([evil, "b"]),
        np.array([evil.encode(), b"b"]),
        np.array([[evil], "b"], object),
    ):
        picture = show.gather_nd(array, [[0]])
        parsed(picture)
        for text in (picture.to_svg(), picture.to_html()):
            assert "<script" not in text
            assert "\x00" not in text
        assert "\x1b" not in str(picture)
    picture = show.gather_nd(GRID, [[0]], mode="</title><script>")
    parsed(picture)
    assert "<script" not in picture.to_svg() + picture.to_html()


def test_text_fits_the_terminal_width(monkeypatch):
    picture = show.gather_nd(GRID, [[0, 2], [1, 0]])
    monkeypatch.setenv("COLUMNS", "100")
    assert str(picture) == repr(picture) == picture.to_text(100)
    monkeypatch.setenv("COLUMNS", "50")
    narrow = str(picture).splitlines()
    assert max(map(len, narrow)) <= 50
    assert len(narrow) > len(picture.to_text(100).splitlines())


def test_equal_calls_give_equal_files():
    first, second = (show.gather_nd(GRID, [[0, 2], [1, 0]]) for _ in range(2))
    assert first.to_svg() == second.to_svg()
    assert first.to_html() == second.to_html()
    assert first._repr_html_() == first.to_html()


def test_an_error_is_drawn_with_its_sentence():
    picture = show.gather_nd(GRID, [[0, 2], [7, 0]])
    with pytest.raises(IndexOutOfBoundsError) as raised:
        ndgather.gather_nd(GRID, [[0, 2], [7, 0]])
    assert str(picture.error) == str(raised.value)
    text = "".join(parsed(picture).itertext()) + picture.to_html()
    assert text.count(str(raised.value)) >= 2
    assert str(raised.value) in picture.to_text(200)


REFUSED = {
    "too long tuples": (lambda: show.gather_nd(GRID, [[0, 1, 2]]), ShapeError),
    "floats": (lambda: show.gather_nd(GRID, [[0.5, 1.5]]), DTypeError),
    "booleans": (lambda: show.gather_nd(GRID, [[True, False]]), DTypeError),
    "batch_dims": (lambda: show.gather_nd(GRID, [[0, 1]], batch_dims=5), AttributeValueError),
    "mode": (lambda: show.gather_nd(GRID, [[0, 1]], mode="guess"), AttributeValueError),
    "mode and a negative index": (
        lambda: show.gather_nd(GRID, [[-1, 1]], mode="guess"),
        AttributeValueError,
    ),
    "axis": (lambda: show.gather_elements(GRID, [[0]], axis=2), AttributeValueError),
    "large windows": (lambda: show.gather_windows(GRID, [[0, 0]], (3, 3)), ShapeError),
    "windows outside": (lambda: show.gather_windows(GRID, [[1, 2]], (2, 2)), IndexOutOfBoundsError),
    "updates shape": (lambda: show.scatter_nd(GRID, [[0, 1]], [1, 2]), ShapeError),
    "updates dtype": (lambda: show.scatter_nd(GRID, [[0, 1]], [1.5]), DTypeError),
    "reduction": (
        lambda: show.scatter_nd(GRID, [[0, 1]], [1], reduction="xor"),
        AttributeValueError,
    ),
    "empty axis": (lambda: show.gather_elements(np.zeros((0, 2)), [[0, 0]]), IndexOutOfBoundsError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_every_refused_call_is_drawn(name):
    call, error = REFUSED[name]
    picture = call()
    assert type(picture.error) is error
    assert str(picture.error)[:40] in "".join(parsed(picture).itertext())
    assert "data  " in str(picture)


def test_arguments_that_are_not_arrays_are_errors():
    with pytest.raises(DTypeError, match="gather_nd: data = "):
        show.gather_nd(object(), [[0]])
    with pytest.raises(CallError, match="gather_nd: indices is missing"):
        show.gather_nd(GRID)
    with pytest.raises(ShapeError, match="window_shape"):
        show.gather_windows(GRID, [[0]], None)


EMPTY = {
    "a number": lambda: show.gather_nd(np.float16(1.5), np.zeros((2, 0), int)),
    "no entries": lambda: show.gather_nd(GRID, np.zeros((0, 2), int)),
    "no rows": lambda: show.gather_nd(np.zeros((0, 3)), np.zeros((0, 1), int)),
    "rows without elements": lambda: show.gather_nd(np.zeros((2, 0)), [[1]]),
    "one index": lambda: show.gather(GRID, 1),
    "no indices": lambda: show.gather(GRID, [], axis=1),
    "whole windows": lambda: show.gather_windows(GRID, np.zeros((2, 0), int), ()),
    "no updates": lambda: show.scatter_nd(GRID, np.zeros((0, 2), int), []),
    "updates of a number": lambda: show.scatter_nd(
        np.array(5), np.zeros((2, 0), int), [1, 2], reduction="add"
    ),
    "thirty axes": lambda: show.gather_nd(np.zeros((1,) * 30), [[0]]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_and_rank_0_arrays_are_drawn(name):
    picture = EMPTY[name]()
    assert picture.error is None
    parsed(picture)


def test_entries_are_focusable_and_labeled():
    picture = show.gather_nd(GRID, [[0, 2], [1, 0]])
    tree = parsed(picture)
    focused = [each for each in tree.iter() if each.get("tabindex") == "0"]
    assert [each.get("aria-label") for each in focused] == [
        "indices[0] = (0, 2): result[0] is data[0, 2]",
        "indices[1] = (1, 0): result[1] is data[1, 0]",
    ]
    names = [each.get("class") for each in tree.iter(f"{SVG}g")]
    assert sum("n-k0" in (name or "").split() for name in names) == 3  # source, tuple, result
    description = tree.find(f"{SVG}desc").text
    assert "a: indices[0] = (0, 2): result[0] is data[0, 2]" in description


shapes = st.lists(st.sampled_from([1, 2, 3, 7, 40, 1000]), min_size=1, max_size=5)


@given(
    shape=shapes,
    count=st.sampled_from([1, 30, 1000, 40_000]),
    seed=st.integers(0, 99),
    data=st.data(),
)
@settings(max_examples=min(40, settings.default.max_examples))
def test_pictures_are_small(shape, count, seed, data):
    rng = np.random.default_rng(seed)
    array = np.broadcast_to(np.float64(-1.2345678e-200), tuple(shape))
    depth = data.draw(st.integers(1, len(shape)))
    kind = data.draw(st.sampled_from(["gather_nd", "gather", "gather_windows"]))
    if kind == "gather_nd":
        entries = np.stack([rng.integers(0, size, count) for size in shape[:depth]], axis=-1)
        picture = show.gather_nd(array, entries)
    elif kind == "gather":
        picture = show.gather(array, rng.integers(0, shape[0], (count // 10 + 1, 10)))
    else:
        window = tuple(rng.integers(1, size + 1) for size in shape[:depth])
        picture = show.gather_windows(array, np.zeros((count, depth), int), window)
    assert picture.error is None
    assert len(picture.to_svg().encode()) < MOST_BYTES
    assert len(picture.to_html().encode()) < MOST_BYTES
    parsed(picture)


def test_large_arrays_show_entries_and_corners():
    array = np.arange(1_000_000).reshape(1000, 1000)
    indices = np.full((5000, 2), 417)
    text = show.gather_nd(array, indices).to_text(100)
    assert "6 of 5,000 entries" in text
    assert "417417 a b c" in text
    assert "999999" in text  # the last corner


def test_long_axes_show_the_addressed_positions():
    array = np.arange(40 * 30 * 30).reshape(40, 30, 30)
    text = show.gather_nd(array, [[7, 20, 3], [9, 5, 21]]).to_text(100)
    first, second = text.partition("data[7]")[2].partition("data[9]")[::2]
    assert "6903 a" in first
    assert "8271 b" in second
    assert [line.split()[0] for line in first.splitlines()[2:6]] == ["0", "…", "20", "…"]


class Unreadable(zarr.storage.MemoryStore):
    """A store whose chunks must not be read."""

    async def get(self, key, prototype, byte_range=None):
        assert "c/" not in key, "a chunk is read"
        return await super().get(key, prototype, byte_range)


def test_a_stored_array_is_not_read():
    stored = zarr.create_array(Unreadable(), shape=(100, 100), chunks=(10, 10), dtype="f4")
    picture = show.gather_nd(stored, [[3, 4], [5, 6], [99, 99]])
    text = picture.to_text(200)
    assert "the call reads 2 of 100 chunks" in text
    assert "nothing was read or computed" in text
    parsed(picture)
    bad = show.gather_nd(stored, [[3, 4], [100, 6]])
    assert isinstance(bad.error, IndexOutOfBoundsError)
    scattered = show.scatter_nd(stored, [[3, 4]], np.float32([1.0]))
    assert scattered.error is None
    windows = show.gather_windows(stored, [[8, 8]], (4, 4))
    assert "the call reads 4 of 100 chunks" in windows.to_text(200)


def test_a_small_stored_array_is_drawn_whole(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", data=GRID, chunks=(1, 3))
        text = show.gather_nd(stored, [[0, 2], [1, -3]]).to_text(200)
    assert "12 a" in text


FLOATS = {  # up to six digits, or four if the text would be too long without an integer part
    0.1: "0.1",
    1 / 3: "0.333333",
    -1 / 3: "-0.3333",
    123456.7: "123457.0",
    -123456.7: "-123457.0",
    -1234.567: "-1234.57",
    1e6: "1.000e+06",
    -0.0001: "-1.000e-04",
    0.0: "0.0",
}


@pytest.mark.parametrize("value", FLOATS)
def test_floats_have_few_digits(value):
    text = show.gather_nd(np.array([value]), [[0]]).to_text(200)
    assert re.search(rf"(?m)^{re.escape(FLOATS[value])} a ", text), text


COMBINED = {  # with and without the initial value
    "none": ("a, then b; the last one stays", "a, then b; the last one stays"),
    "add": ("data[0] + a + b", "a + b"),
    "sub": ("data[0] - a - b", "0 - a - b"),
    "mul": ("data[0] * a * b", "a * b"),
    "min": ("min(data[0], a, b)", "min(a, b)"),
    "max": ("max(data[0], a, b)", "max(a, b)"),
    "mean": ("(data[0] + a + b) / 3", "(a + b) / 2"),
}


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", COMBINED)
def test_notes_explain_combined_updates(reduction, use_init_val):
    options = {"reduction": reduction, "use_init_val": use_init_val}
    picture = show.scatter_nd(np.arange(3.0), [[0], [0]], [1.0, 2.0], **options)
    lines = [" ".join(line.split()) for line in picture.to_text(200).splitlines()]
    assert f"result[0]: {COMBINED[reduction][not use_init_val]}" in lines


def test_rows_of_index_tuples_are_labeled():
    rows = [[[0, 1], [2, 3]], [[1, 1], [0, 0]]]
    text = show.gather_nd(np.arange(12).reshape(3, 4), rows).to_text(200)
    for letter, position in zip("abcd", np.ndindex(2, 2), strict=True):
        one, other = rows[position[0]][position[1]]
        label = re.escape(str([*position]))
        assert re.search(rf"{label} +{one} {letter} +{other} {letter}\b", text), text


def test_a_memory_map_is_drawn_in_part(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(10_000.0).reshape(100, 100))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    picture = show.gather_nd(mapped, [[3, 4], [99, 0]])
    assert picture.error is None
    assert "304.0 a" in picture.to_text(200)
    assert "indices[0, 1] = 400 is outside axis 1" in str(show.gather_nd(mapped, [[3, 400]]).error)


def test_lazy_arrays_are_not_computed():
    def fail(block):
        raise AssertionError("a block is computed")

    lazy = dask.array.zeros((40, 40), chunks=(10, 20)).map_blocks(fail, meta=np.zeros((0, 0)))
    for data in (lazy, xarray.DataArray(lazy, dims=("lat", "lon"))):
        text = show.gather_nd(data, [[3, 4], [39, 0]]).to_text(200)
        assert "the call reads 2 of 8 chunks" in text
        assert "nothing was read or computed" in text
    assert "indices[0, 0] = 40 is outside axis 0" in str(show.gather_nd(lazy, [[40, 0]]).error)


def test_labeled_and_masked_arrays_are_drawn():
    named = xarray.DataArray(GRID, dims=("<b>", "x"))
    assert "12 a" in str(show.gather_nd(named, [[0, 2]]))
    points = xarray.DataArray([[0, 2]], dims=("points", "axes"))
    values = xarray.DataArray([7], dims="points")
    assert "7 a" in str(show.scatter_nd(named, points, values))
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    picture = show.gather_nd(masked, [[1], [2]])
    assert picture.error is None
    assert "-- a" in str(picture)
    assert "3 b" in str(picture)


def test_operators_draw_their_calls():
    op = ndgather.operator("GatherND", version=13)
    picture = op.show(GRID, np.array([[0, 2], [1, 0]]))
    assert picture.to_text(100).startswith("ai.onnx GatherND-13(data, indices)\n")
    refused = op.show(GRID, np.array([[0, 2]], np.int32))
    with pytest.raises(DTypeError) as raised:
        op(GRID, np.array([[0, 2]], np.int32))
    assert str(refused.error) == str(raised.value)
    old = ndgather.operator("GatherND", domain="openvino", version=5)
    joined = old.show(np.zeros((2, 2, 3)), np.zeros((2, 2, 1), np.int64), batch_dims=2)
    assert "the shape of its result is (4,)" in str(joined)
    gather = ndgather.operator("Gather", domain="openvino", version=8)
    assert "5→fill" in str(gather.show(GRID, np.array([5, 0]), 1))
    with pytest.raises(AttributeValueError):
        op.show(GRID)


def test_save_writes_svg_files(tmp_path):
    picture = show.scatter_nd([1, 2, 3], [[1], [1]], [10, 20])
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text("utf-8") == picture.to_svg()
    with pytest.raises(AttributeValueError, match=r"save: path = .*a\.png.* \(allowed: .*\.svg"):
        picture.save(tmp_path / "a.png")
    with pytest.raises(AttributeValueError, match="save: theme = 'blue'"):
        picture.save(tmp_path / "a.svg", theme="blue")
    with pytest.raises(AttributeValueError, match="to_svg: theme"):
        picture.to_svg("blue")


def test_the_readme_picture_is_up_to_date():
    picture = show.gather_nd(GRID, [[0, 2], [1, -3]])
    assert (ROOT / "docs" / "gather_nd.svg").read_text("utf-8") == picture.to_svg()


def test_a_theme_has_no_rules_for_the_other():
    picture = show.gather_nd(GRID, [[0, 2]])
    assert "prefers-color-scheme" in picture.to_svg()
    light, dark = picture.to_svg("light"), picture.to_svg("dark")
    assert "prefers-color-scheme" not in light + dark
    assert light != dark


def test_show_is_imported_lazily():
    code = (
        "import sys, ndgather; before = 'ndgather.show' in sys.modules; "
        "ndgather.show.gather_nd([1, 2], [[1]]).to_svg(); "
        "print(before, 'ndgather.published' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "False", "False"]


@pytest.mark.parametrize("rows", [[[2], [0]], [[1]], [[0], [1], [2], [0]]])
def test_panels_wrap_only_if_they_exceed_the_width(rows):
    picture = ndgather.show.gather_nd([10, 11, 12], rows)
    wide = picture.to_text(width=200)
    width = max(map(len, wide.splitlines()))
    assert picture.to_text(width=width) == wide
    narrow = picture.to_text(width=width - 1)
    assert len(narrow.splitlines()) > len(wide.splitlines())


def test_entries_have_distinct_letters():
    letters = [*"abcdefghijklmnopqrstuvwxyz", "aa", "ab", "ac", "ad"]
    lines = show.gather(np.arange(3), np.zeros((30, 1), int)).to_text(width=200).splitlines()
    found = [word for line in lines for word in line.split() if word in letters]
    assert [*dict.fromkeys(found)] == letters


@pytest.mark.parametrize("places", [4, 5, 6])
def test_positions_of_several_updates_are_listed_or_counted(places):
    rows = np.repeat(np.arange(places), 2)[:, None]
    text = show.scatter_nd(np.zeros(7), rows, np.ones(2 * places), reduction="add").to_text()
    named = text.count("]: data[") + text.count("]: (data[")
    assert named == 4
    assert ("other places with several updates" in text) == (places > 4)
    if places > 4:
        assert f"and {places - 4} other places" in text


def test_a_result_without_values_marks_fills_and_errors():
    lazy = dask.array.arange(3, chunks=3)
    filled = show.gather(lazy, [0, 9], mode="fill").to_text(width=100).splitlines()
    assert filled[4].endswith(". a  fill b")
    failed = show.gather(np.arange(3), [0, 9]).to_text(width=100).splitlines()
    assert failed[5].endswith(". a  ✗ b")
