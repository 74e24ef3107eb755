"""Masked arrays: values by the definition, masks by the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgather
from ndgather.errors import AttributeValueError, DTypeError
from tests.definitions import reference

DATA = np.ma.array([[1, 2, 3], [4, 5, 6]], mask=[[0, 1, 0], [0, 0, 1]], fill_value=99)
MODES = ("raise", "wrap", "clip", "fill")


def assert_masked(actual, values, mask):
    assert type(actual) is np.ma.MaskedArray
    np.testing.assert_array_equal(actual.data, values, strict=True)
    np.testing.assert_array_equal(np.ma.getmaskarray(actual), mask, strict=True)


@st.composite
def masked_arrays(draw, shape):
    numbers = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape)
    flags = draw(st.lists(st.booleans(), min_size=numbers.size, max_size=numbers.size))
    mask = draw(st.sampled_from([np.ma.nomask, np.array(flags, bool).reshape(shape)]))
    return np.ma.array(numbers.astype(draw(st.sampled_from(["i4", "f8", ">f4"]))), mask=mask)


@st.composite
def calls(draw):
    """Draw data and index tuples, some of them out of bounds."""
    data = draw(masked_arrays((3, 4)))
    depth = draw(st.integers(1, 2))
    sizes = data.shape[:depth]
    rows = draw(st.lists(st.tuples(*(st.integers(-s, s) for s in sizes)), max_size=5))
    return data, np.array(rows, np.int64).reshape(len(rows), depth)


@given(call=calls(), mode=st.sampled_from(MODES), fill_value=st.sampled_from([None, 7]))
def test_gathers_gather_the_mask(call, mode, fill_value):
    data, indices = call
    options = {"mode": mode} | ({"fill_value": fill_value} if mode == "fill" else {})
    try:
        values = reference.gather_nd(data.data, indices, mode=mode, fill_value=fill_value or 0)
    except IndexError:
        with pytest.raises(IndexError):
            ndgather.gather_nd(data, indices, **options)
        return
    mask = reference.gather_nd(
        np.ma.getmaskarray(data), indices, mode=mode, fill_value=fill_value is None
    )
    assert_masked(ndgather.gather_nd(data, indices, **options), values, mask)


@given(
    call=calls(),
    draw=st.data(),
    reduction=st.sampled_from(["none", "add", "sub", "mul", "min", "max", "mean"]),
    use_init_val=st.booleans(),
)
def test_scatters_scatter_the_mask(call, draw, reduction, use_init_val):
    data, indices = call
    updates = draw.draw(masked_arrays((len(indices), *data.shape[indices.shape[1] :])))
    updates = updates.astype(data.dtype)
    options = {"mode": "drop", "reduction": reduction, "use_init_val": use_init_val}
    actual = ndgather.scatter_nd(data, indices, updates, **options)
    values = reference.scatter_nd(data.data, indices, updates.data, **options)
    masks = (np.ma.getmaskarray(data), indices, np.ma.getmaskarray(updates))
    # A reduced mask is true if any mask of a duplicate index is.
    mask_of = "none" if reduction == "none" else "max"
    mask = reference.scatter_nd(*masks, **options | {"reduction": mask_of})
    assert_masked(actual, values, mask)


def test_every_function_keeps_the_mask():
    rows, places = [[1], [0]], [[1, 0, 1]]
    values, mask = DATA.data, DATA.mask
    picked = ([[1, 0, 1]], [0, 1, 2])
    assert_masked(ndgather.gather(DATA, [1]), values[[1]], mask[[1]])
    assert_masked(ndgather.gather_elements(DATA, places), values[picked], mask[picked])
    assert_masked(ndgather.gather_windows(DATA, rows, (1,)), values[rows], mask[rows])
    updates = np.ma.array([[7, 8, 9]], mask=[[1, 0, 0]])
    scattered = ndgather.scatter_elements(DATA, places, updates)
    assert_masked(scattered, [[1, 8, 3], [7, 5, 9]], np.array([[0, 0, 0], [1, 0, 0]], bool))


def test_other_attributes_of_masked_arrays_are_kept():
    class Flagged(np.ma.MaskedArray):
        pass

    assert ndgather.gather(DATA, [1]).fill_value == 99
    assert type(ndgather.gather(DATA.view(Flagged), [1])) is Flagged
    assert ndgather.gather(np.ma.array([1, 2]), [1]).mask is np.ma.nomask
    records = np.ma.array([(1, 2.0), (3, 4.0)], dtype="i4, f8", mask=[(0, 1), (1, 0)])
    assert ndgather.gather(records, [1, 0]).mask.tolist() == [(True, False), (False, True)]
    filled = ndgather.gather(records, [9], mode="fill")
    assert filled.mask.tolist() == [(True, True)]


def test_in_place_and_into_out():
    data = DATA.copy()
    assert ndgather.scatter_nd(data, [[0, 1]], [8], out=data) is data
    assert_masked(data, [[1, 8, 3], [4, 5, 6]], np.array([[0, 0, 0], [0, 0, 1]], bool))
    out = np.ma.zeros((1, 3), int)
    assert ndgather.gather(DATA, [0], out=out) is out
    assert_masked(out, [[1, 2, 3]], DATA.mask[:1])


def test_losing_a_mask_is_refused():
    with pytest.raises(DTypeError, match=r"^gather: out = array without a mask would lose the"):
        ndgather.gather(DATA, [0], out=np.zeros((1, 3), int))
    with pytest.raises(DTypeError, match=r"^scatter_nd: updates = masked array would lose its"):
        ndgather.scatter_nd(DATA.data, [[0, 1]], np.ma.array([8]))
    with pytest.raises(DTypeError, match=r"^gather_windows: starts = masked array would lose"):
        ndgather.gather_windows(DATA, np.ma.array([[0]]), (1,))


def test_published_operators_keep_the_mask():
    gather, scatter = (ndgather.operator(name, version=13) for name in ("GatherND", "ScatterND"))
    rows = np.array([[1], [0]])
    assert_masked(gather(DATA, rows), DATA.data[[1, 0]], DATA.mask[[1, 0]])
    updates = np.ma.array([[7, 8, 9]], mask=[[1, 0, 0]])
    expected = np.array([[0, 1, 0], [1, 0, 0]], bool)
    assert_masked(scatter(DATA, rows[:1], updates), [[1, 2, 3], [7, 8, 9]], expected)


@given(
    call=calls(),
    draw=st.data(),
    reduction=st.sampled_from(["none", "add", "sub", "mul", "min", "max", "mean"]),
    use_init_val=st.booleans(),
    into=st.sampled_from(["a new array", "data", "a hard array", "a soft array"]),
)
def test_hard_masks_protect_elements_from_scatters(call, draw, reduction, use_init_val, into):
    data, indices = call
    data.harden_mask()
    updates = draw.draw(masked_arrays((len(indices), *data.shape[indices.shape[1] :])))
    updates = updates.astype(data.dtype)
    options = {"mode": "drop", "reduction": reduction, "use_init_val": use_init_val}
    values = reference.scatter_nd(data.data, indices, updates.data, **options)
    hidden = np.ma.getmaskarray(data).copy()
    masks = (hidden, indices, np.ma.getmaskarray(updates))
    mask = reference.scatter_nd(
        *masks, **options | {"reduction": "none" if reduction == "none" else "max"}
    )
    values[hidden] = data.data[hidden]
    out = {"a new array": None, "data": data}.get(into, np.ma.masked_all_like(data))
    if into == "a soft array":
        out.soften_mask()
    result = ndgather.scatter_nd(data, indices, updates, **options, out=out)
    assert out is None or result is out
    assert_masked(result, values, mask | hidden)
    assert result.hardmask == (into != "a soft array")


@pytest.mark.parametrize("mode", MODES)
def test_gathers_into_arrays_with_hard_masks(mode):
    data = np.ma.array([1.0, 2, 3], mask=[1, 0, 0], hard_mask=True)
    expected = ndgather.gather(data, [1, 2, 0], mode=mode)
    out = np.ma.array([5.0, 5, 5], mask=True, hard_mask=True)
    assert ndgather.gather(data, [1, 2, 0], mode=mode, out=out) is out
    assert_masked(out, expected.data, np.ma.getmaskarray(expected))
    assert out.hardmask


def test_unwritable_masks_are_refused_before_values_are_written():
    data = np.ma.array([1.0, 2, 3], mask=[1, 0, 0])
    np.ma.getmask(data).setflags(write=False)
    for out in (data, np.ma.array([0.0, 0, 0], mask=np.ma.getmask(data), copy=False)):
        before = out.data.copy()
        with pytest.raises(AttributeValueError, match=r"^scatter_nd: out is read-only"):
            ndgather.scatter_nd(np.ma.array([1.0, 2, 3]), [[0]], [9.0], out=out)
        np.testing.assert_array_equal(out.data, before)
    fields = np.ma.array([(1, 2.0)], dtype="i4, f8", mask=[(0, 1)], hard_mask=True)
    with pytest.raises(DTypeError, match=r"hard mask of fields.*write data\.soften_mask\(\)$"):
        ndgather.scatter_nd(fields, [[0]], fields)


def test_overlapping_masks_and_indices_are_read_before_they_change():
    memory = np.array([1.0, 0, 2, 0])
    data = np.ma.array(memory, mask=[0, 1, 0, 0], copy=False)
    ndgather.scatter_nd(data, [[0], [2]], data[1:3], out=data)
    assert_masked(data, [0.0, 0, 2, 0], np.array([1, 1, 0, 0], bool))
    numbers = np.ma.array(np.array([1, 2, 0]), mask=[0, 0, 1])
    ndgather.scatter_nd(numbers, numbers.data[:2, None], [7, 8], out=numbers)
    assert_masked(numbers, [1, 7, 8], np.array([0, 0, 0], bool))
