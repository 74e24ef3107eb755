"""Indices that change during a call, and `out` that shares memory with the arguments.

Another thread may change index values between any two lines of Python; here this happens at one
line after the other. The result is computed from the old or the new values, never a mix, or the
call raises an error of this package.
"""

import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, note, settings
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from ndgather.published import operator
from tests.definitions import reference
from tests.definitions.calls import assert_same_elements

PACKAGE = str(Path(ndgather.__file__).parent)
MOST_LINES = max(2, settings().max_examples // 12)  # at which values are changed
SHAPE = (6, 5)
OBJECT = np.dtype(object)


@contextmanager
def at_line(number, change):
    """Call `change` after some lines of the package have run; yield the number of lines."""
    count = [0]

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            count[0] += 1
            if count[0] == number:
                change()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def data_of(dtype, shape=SHAPE):
    return np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)


def indices_of(shape, sizes, rng, dtype=np.int64):
    """Return three index arrays: two in bounds, and one partly out of bounds."""
    good, other = (rng.integers(-np.array(sizes), sizes, shape).astype(dtype) for _ in range(2))
    bad, most = other.copy(), int(np.max(sizes))
    flat, step = bad.reshape(-1), shape[-1] if (shape[-1],) == np.shape(sizes) else 1
    flat[-1], flat[-1 - step] = most, -most - 1
    return good, other, bad


def in_memory(data, _):
    return data


def in_zarr(data, _):
    return zarr.create_array({}, data=data, chunks=(4, 3), compressors=None, zarr_format=2)


def mapped(data, folder):
    data.tofile(folder / "a.bin")
    return np.memmap(folder / "a.bin", data.dtype, "r+", shape=data.shape)


def cached(data, _):
    return ndgather.cached(in_zarr(data, _))


PLACES = {"memory": in_memory, "zarr": in_zarr, "map": mapped, "cached": cached}
# By name: a function of data and indices, the loops, and shape and bounds of the indices.
GATHERS = {
    "gather_nd": (ndgather.gather_nd, reference.gather_nd, (7, 2), SHAPE),
    "rows": (ndgather.gather_nd, reference.gather_nd, (7, 1), SHAPE[:1]),
    "gather": (
        partial(ndgather.gather, axis=1),
        partial(reference.gather, axis=1),
        (4,),
        SHAPE[1:],
    ),
    "gather_elements": (ndgather.gather_elements, reference.gather_elements, (3, 5), SHAPE[:1]),
}
for _mode in ("fill", "wrap"):
    GATHERS[f"gather_nd, {_mode}"] = (
        partial(ndgather.gather_nd, mode=_mode),
        partial(reference.gather_nd, mode=_mode),
        (7, 2),
        SHAPE,
    )
for _mode in ("raise", "clip", "fill", "wrap", "edge", "reflect", ("raise", "reflect")):
    GATHERS[f"windows, {_mode}"] = (
        partial(ndgather.gather_windows, window_shape=(3, 2), mode=_mode),
        partial(reference.gather_windows, window_shape=(3, 2), mode=_mode),
        (5, 2),
        (4, 4),
    )


def ranges(data, starts, mode):
    return ndgather.gather_ranges(data, starts, lengths=2, mode=mode)[0]


def loops_of_ranges(data, starts, mode):
    return reference.gather_ranges(data, starts, starts + 2, mode=mode)[0]


for _mode in ("raise", "fill", "clip"):
    _both = partial(ranges, mode=_mode), partial(loops_of_ranges, mode=_mode)
    GATHERS[f"ranges, {_mode}"] = (*_both, (6,), (5,))
SCATTERS = [
    ("none", True), ("add", False), ("mean", True), ("mean", False), ("min", False),
]  # fmt: skip


def outcome(call):
    try:
        return call()
    except (IndexError, IndexOutOfBoundsError) as error:
        return error


def check(make, call, loops, values, rng):
    """Change indices at some lines of a call: to values in bounds, out of bounds, and back.

    `make` returns new arguments, the last of which are the indices; `loops` returns the result.
    """
    good, other, bad = values
    for pair in ((good, other), (good, bad), (bad, good)):
        before, after = (outcome(lambda v=v: loops(v)) for v in pair)
        found, lines = changed_at(0, make, call, pair)
        assert_alike(found, before)
        numbers = range(1, lines + 1)
        for number in rng.choice(numbers, min(lines, MOST_LINES), replace=False).tolist():
            found, _ = changed_at(number, make, call, pair)
            assert is_alike(found, before) or is_alike(found, after), (
                f"changed at line {number} of {lines} from {pair[0]} to {pair[1]}: {found!r}"
            )


def changed_at(number, make, call, pair):
    """Return the result of a call with indices that change at a line, and its number of lines."""
    *rest, indices = make()
    indices[...] = pair[0]
    with at_line(number, lambda: np.copyto(indices, pair[1])) as count:
        try:
            result = call(*rest, indices)
        except IndexOutOfBoundsError as error:
            result = error
    return result, count[0]


def is_alike(found, expected):
    try:
        assert_alike(found, expected)
    except AssertionError:
        return False
    return True


def assert_alike(found, expected):
    if isinstance(expected, Exception):
        assert isinstance(found, IndexOutOfBoundsError)
    else:
        assert_same_elements(found, expected)


@pytest.mark.parametrize("dtype", ["f8", "O"])
@pytest.mark.parametrize("name", GATHERS)
def test_gathers_use_values_before_or_after_a_change(name, dtype):
    check_gather(name, dtype, "memory", None)


@pytest.mark.parametrize("place", ["zarr", "map", "cached"])
@pytest.mark.parametrize("name", GATHERS)
def test_stored_gathers_use_values_before_or_after_a_change(name, place, tmp_path):
    check_gather(name, "f8", place, tmp_path)


def check_gather(name, dtype, place, folder):
    call, loops, shape, sizes = GATHERS[name]
    rng = np.random.default_rng()
    good, other, bad = indices_of(shape, sizes, rng)
    if "ranges" in name or "windows" in name:
        good, other = good % sizes, other % sizes
    data = data_of(dtype)
    stored = PLACES[place](data, folder)
    check(
        lambda: (stored, np.empty_like(good)), call, partial(loops, data), (good, other, bad), rng
    )


def of_masked(data):
    return np.ma.masked_array(data, data % 2 == 0)


def filled(array):
    """Visible values, hidden values and the mask."""
    return np.stack([array.data, np.ma.getmaskarray(array)])


# Functions of data and indices that make several calls; other tests check their results.
COMPOSED = {
    "GatherND": (operator("GatherND"), (7, 2), SHAPE),
    "Gather": (lambda data, at: operator("Gather")(data, at, axis=1), (4,), SHAPE[1:]),
    "ScatterND": (
        lambda data, at: operator("ScatterND")(data, at, np.arange(7.0), reduction="max"),
        (7, 2),
        SHAPE,
    ),
    "masked": (lambda data, at: filled(ndgather.gather_nd(of_masked(data), at)), (7, 2), SHAPE),
    "masked, fill": (
        lambda data, at: filled(ndgather.gather_nd(of_masked(data), at, mode="fill")),
        (7, 2),
        SHAPE,
    ),
    "masked windows": (
        lambda data, at: filled(
            ndgather.gather_windows(of_masked(data), at, (3, 2), mode=("clip", "reflect"))
        ),
        (5, 2),
        (4, 4),
    ),
    "masked scatter": (
        lambda data, at: filled(ndgather.scatter_nd(of_masked(data), at, np.full(7, 2.0))),
        (7, 2),
        SHAPE,
    ),
    "gradient of windows": (
        lambda data, at: ndgather.vjp.gather_windows(
            data[:5, :4].reshape(5, 2, 2), SHAPE, at, (2, 2), mode=("wrap", "raise")
        ),
        (5, 2),
        (4, 4),
    ),
    "gradient of a scatter": (
        lambda data, at: np.concatenate(
            [each.ravel() for each in ndgather.vjp.scatter_nd(data, at)]
        ),
        (7, 2),
        SHAPE,
    ),
    "dask": (
        lambda data, at: ndgather.gather_windows(
            da.from_array(data, chunks=(3, 3)), at, (3, 2), mode=("edge", "wrap")
        ).compute(scheduler="synchronous"),
        (5, 2),
        (4, 4),
    ),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_multi_step_calls_use_values_before_or_after_a_change(name):
    call, shape, sizes = COMPOSED[name]
    rng = np.random.default_rng()
    good, other, bad = indices_of(shape, sizes, rng)
    if name not in ("GatherND", "Gather", "ScatterND", "masked", "masked, fill", "masked scatter"):
        good, other = good % sizes, other % sizes
    data = data_of("f8")
    values = good, other, bad
    check(lambda: (data.copy(), np.empty_like(good)), call, partial(call, data), values, rng)


@pytest.mark.parametrize(("reduction", "init"), SCATTERS)
@pytest.mark.parametrize("dtype", ["f8", ">i4", "O"])
@pytest.mark.parametrize("place", ["memory", "in place", "large", "zarr"])
def test_scatters_use_values_before_or_after_a_change(place, dtype, reduction, init):
    """`large`, with few touched rows, takes other paths than arrays with all rows touched."""
    if dtype == "O" and (reduction != "none" or place == "zarr"):
        return
    rng = np.random.default_rng()
    shape = (60, 5) if place == "large" else SHAPE
    good, other, bad = indices_of((7, 1), shape[:1], rng)
    data, updates = data_of(dtype, shape), data_of(dtype, (7, 5)) * 3
    options = {"reduction": reduction, "use_init_val": init}

    def call(given, indices):
        before = np.array(given[...])
        try:
            if place in ("memory", "large"):
                return ndgather.scatter_nd(given, indices, updates, **options)
            ndgather.scatter_nd(given, indices, updates, out=given, **options)
            return np.array(given[...])
        except IndexOutOfBoundsError:
            np.testing.assert_array_equal(given[...], before)
            raise

    check(
        lambda: (in_zarr(data, None) if place == "zarr" else data.copy(), np.empty_like(good)),
        call,
        lambda indices: reference.scatter_nd(data, indices, updates, reduction, use_init_val=init),
        (good, other, bad),
        rng,
    )


@st.composite
def placed(draw, memory, shape):
    """A view of a part of some memory, with any step."""
    count = int(np.prod(shape))
    step = draw(st.sampled_from([1, 1, 2, -1]))
    room = max(1, count * abs(step))
    first = draw(st.integers(0, max(0, min(40, len(memory) - room))))
    part = memory[first : first + room][::step][:count]
    return part.reshape(shape)


MODES = ("raise", "clip", "fill", "wrap", "edge", "reflect")
SOME = settings(max_examples=max(5, settings().max_examples // 4))


@pytest.mark.parametrize("place", ["memory", "objects", "zarr", "cached"])
@pytest.mark.parametrize("mode", MODES)
@SOME
@given(draws=st.data())
def test_windows_into_out_that_shares_memory(place, mode, draws):
    """`out` shares memory with data, the starts or both; a fill value is not needed."""
    memory = np.arange(400)
    objects = memory.astype(object) if place == "objects" else memory
    data = draws.draw(placed(objects, (5, 4)))
    depth = draws.draw(st.integers(1, 2))
    starts = draws.draw(placed(memory, (draws.draw(st.integers(0, 4)), depth)))
    out = draws.draw(placed(objects, (len(starts), *(3, 2)[:depth], *data.shape[depth:])))
    inside = mode == "raise" or draws.draw(st.booleans())
    near = st.integers(0, 2) if inside else st.integers(-6, 9)
    for position in np.ndindex(starts.shape):
        starts[position] = draws.draw(near)
    if mode == "raise" and ((starts < 0) | (starts > 2)).any():
        return
    options = {"mode": mode, "window_shape": (3, 2)[:depth]}
    if mode == "fill" and draws.draw(st.booleans()):
        options["fill_value"] = -7
    expected = reference.gather_windows(data.copy(), starts.copy(), **options)
    note(f"{options} {starts.tolist()} out {out.shape}")
    if place in ("zarr", "cached"):
        data = PLACES[place](data.copy(), None)
    assert ndgather.gather_windows(data, starts, **options, out=out) is out
    assert_same_elements(out, expected)


@pytest.mark.parametrize("place", ["memory", "objects", "zarr"])
@SOME
@given(draws=st.data())
def test_ranges_into_out_that_shares_memory(place, draws):
    memory = np.arange(400)
    objects = memory.astype(object) if place == "objects" else memory
    data = draws.draw(placed(objects, (5, 4)))
    lengths = draws.draw(st.lists(st.integers(0, 3), max_size=4))
    starts, stops = (draws.draw(placed(memory, (len(lengths),))) for _ in range(2))
    mode = draws.draw(st.sampled_from(["raise", "fill", "wrap", "clip"]))
    out = draws.draw(placed(objects, (sum(lengths), 4)))
    given_starts = [draws.draw(st.integers(0, 5 - length)) for length in lengths]
    starts[...] = given_starts
    stops[...] = starts + lengths
    if starts.tolist() != given_starts:  # these also share memory
        return
    options = {"mode": mode}
    if mode == "fill" and draws.draw(st.booleans()):
        options["fill_value"] = -7
    expected, _ = reference.gather_ranges(data.copy(), starts.copy(), stops.copy(), mode=mode)
    if place == "zarr":
        data = in_zarr(data.copy(), None)
    values, offsets = ndgather.gather_ranges(data, starts, stops, out=out, **options)
    assert values is out
    assert_same_elements(out, expected)
    assert offsets.tolist() == np.cumsum([0, *lengths]).tolist()


RECORD = np.dtype([("at", "i8"), ("what", "O")])


@pytest.mark.parametrize("function", ["scatter_nd", "scatter_elements", "gather_nd", "gather"])
@pytest.mark.parametrize("kind", ["objects", "records"])
@given(draws=st.data())
def test_references_into_out_that_shares_memory(function, kind, draws):
    """Objects and records with objects; the indices may be a field of `out`."""
    memory = np.array([(n % 5, f"{n}") for n in range(90)], RECORD)
    indices_memory = memory["at"]
    if kind == "objects":
        memory = np.array([f"{n}" for n in range(90)], object)
        indices_memory = np.arange(90) % 5
    count = draws.draw(st.integers(0, 5))
    data = draws.draw(placed(memory, (5,)))
    indices = draws.draw(placed(indices_memory, (count,)))
    indices = indices[:, np.newaxis] if function.endswith("_nd") else indices
    if function.startswith("scatter"):
        updates = draws.draw(placed(memory, (count,)))
        out = data if draws.draw(st.booleans()) else draws.draw(placed(memory, (5,)))
        arguments = [data, indices, updates]
    else:
        out = draws.draw(placed(memory, (count,)))
        arguments = [data, indices]
    expected = getattr(reference, function)(*(each.copy() for each in arguments))
    assert getattr(ndgather, function)(*arguments, out=out) is out
    assert out.tolist() == expected.tolist()


def test_results_do_not_share_memory_with_the_cache():
    """Callers may modify results and arguments."""
    values = np.arange(30.0).reshape(SHAPE)
    array = ndgather.cached(in_zarr(values.copy(), None))
    reads = (
        lambda: array[...],
        lambda: array[1:3, 2:4],
        lambda: array[:4, :3],
        lambda: array[[0, 1]],
        lambda: array[np.ones(SHAPE, bool)],
        lambda: np.asarray(array),
        lambda: ndgather.gather_nd(array, np.zeros((1, 0), int)),
        lambda: ndgather.gather(array, [0, 5]),
        lambda: ndgather.gather_windows(array, [[0, 0]], (4, 3)),
        lambda: ndgather.gather_ranges(array, [0], [4])[0],
        lambda: ndgather.gather_elements(array, np.zeros((1, 5), int)),
    )
    first = [read().copy() for read in reads]
    for _ in range(2):
        for read, expected in zip(reads, first, strict=True):
            found = read()
            np.testing.assert_array_equal(found, expected)
            found[...] = -1
    updates = np.full((1, 5), 50.0)
    ndgather.scatter_nd(array, [[2]], updates, out=array)
    updates[...] = -1
    np.testing.assert_array_equal(array[2], np.full(5, 50.0))


@pytest.mark.parametrize("layout", [{}, {"shards": (6, 6), "chunks": (3, 3)}, {"zarr_format": 2}])
@pytest.mark.parametrize("reduction", ["none", "add", "mean"])
def test_scatters_do_not_change_old_bytes_of_memory_stores(layout, reduction):
    """A copy of the store or a reader may share them."""
    store = zarr.storage.MemoryStore()
    values = np.arange(30.0).reshape(SHAPE)
    layout = {"chunks": (4, 3)} | layout
    array = zarr.create_array(store, data=values, compressors=None, **layout)
    held = {key: value.as_numpy_array() for key, value in store._store_dict.items()}
    before = {key: value.tobytes() for key, value in held.items()}
    ndgather.scatter_nd(array, [[0], [5], [0]], values[:3] + 50, reduction=reduction, out=array)
    assert {key: value.tobytes() for key, value in held.items()} == before
    expected = reference.scatter_nd(values, np.array([[0], [5], [0]]), values[:3] + 50, reduction)
    np.testing.assert_array_equal(array[...], expected)
