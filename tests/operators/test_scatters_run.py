"""Scatter operators: the published examples, and random calls compared with plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgather import errors
from ndgather.array_call import Kind
from ndgather.published import operator, operators
from ndgather.published.schema import Reduction, Role

SCATTERS = tuple(op for op in operators() if op.row.kind.scatters and op.row.definition is None)
EVERY = pytest.mark.parametrize("op", SCATTERS, ids=lambda op: str(op.row))
ND_15 = operator("ScatterNDUpdate", domain="openvino", version=15)
ELEMENTS_12 = operator("ScatterElementsUpdate", domain="openvino", version=12)
COMBINED = {
    Reduction.NONE: lambda old, new: new,
    Reduction.ADD: lambda old, new: old + new,
    Reduction.SUB: lambda old, new: old - new,
    Reduction.MUL: lambda old, new: old * new,
    Reduction.MIN: min,
    Reduction.MAX: max,
}


def place(row, indices, position, axis):
    if row.kind is Kind.SCATTER_ND:
        return tuple(indices[position])
    return (*position[:axis], indices[position], *position[axis + 1 :])


def scattered(row, data, indices, updates, axis, reduction):
    """Return the result by definition, one update at a time."""
    out = data.copy()
    lead = indices.shape[:-1] if row.kind is Kind.SCATTER_ND else indices.shape
    for position in np.ndindex(lead):
        at = place(row, indices, position, axis)
        slice_shape = out[at].shape
        for inner in np.ndindex(slice_shape):
            target = (*at, *inner) if slice_shape else at
            new = updates[(*position, *inner)]
            out[target] = COMBINED[reduction](out[target], new)
    return out


@st.composite
def calls(draw, row):
    """Draw a valid call; updates are small integers, so that any order is exact."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    if row.kind is Kind.SCATTER_ND:
        depth = draw(st.integers(0, len(shape)))
        lead = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
        indices = np.zeros((*lead, depth), np.int64)
        sizes = shape[:depth]
        updates = (*lead, *shape[depth:])
    else:
        indices = np.zeros([draw(st.integers(0, size)) for size in shape], np.int64)
        sizes = (shape[axis],)
        updates = indices.shape
    for at in np.ndindex(indices.shape):
        size = sizes[at[-1]] if row.kind is Kind.SCATTER_ND else sizes[0]
        lowest = -size if row.index_rule.negative else 0
        indices[at] = draw(st.integers(lowest, size - 1))
    attribute = row.attribute("reduction")
    words = [] if attribute is None else [c for c in attribute.choices if c.word != "mean"]
    choice = draw(st.sampled_from(words)) if words else None
    data = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    values = draw(
        st.lists(st.integers(-3, 3), min_size=int(np.prod(updates)), max_size=int(np.prod(updates)))
    )
    return data, indices, np.array(values, np.int64).reshape(updates), axis, choice


@EVERY
@given(data=st.data())
def test_result_matches_the_loops(op, data):
    values, indices, updates, axis, choice = data.draw(calls(op.row))
    named = {}
    if op.row.kind is not Kind.SCATTER_ND:
        named["axis"] = axis
    if choice is not None:
        named["reduction"] = choice.word
    reduction = Reduction.NONE if choice is None else choice.reduction
    expected = scattered(op.row, values, indices, updates, axis, reduction)
    before = values.copy()
    np.testing.assert_array_equal(op(values, indices, updates, **named), expected, strict=True)
    np.testing.assert_array_equal(values, before, strict=True)


@EVERY
def test_out_of_bounds_raises_even_if_undefined(op):
    named = {} if op.row.kind is Kind.SCATTER_ND else {"axis": 0}
    data, updates = np.zeros(4), np.ones(2)
    for value in (4, -5, 2**32):
        indices = np.array([0, value])
        if op.row.kind is Kind.SCATTER_ND:
            indices = indices.reshape(2, 1)
        with pytest.raises(errors.IndexOutOfBoundsError) as caught:
            op(data, indices, updates, **named)
        assert caught.value.value == value
        assert data.tolist() == [0, 0, 0, 0]


@EVERY
def test_negative_indices_follow_the_row(op):
    named = {} if op.row.kind is Kind.SCATTER_ND else {"axis": 0}
    indices = np.array([-1])
    if op.row.kind is Kind.SCATTER_ND:
        indices = indices.reshape(1, 1)
    if op.row.index_rule.negative:
        assert op(np.zeros(3), indices, np.ones(1), **named).tolist() == [0, 0, 1]
        return
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"allowed: 0\.\.2\)"):
        op(np.zeros(3), indices, np.ones(1), **named)


@pytest.mark.parametrize(
    ("reduction", "function"),
    [("sum", np.logical_or), ("sub", np.logical_xor), ("prod", np.logical_and)],
)
def test_scatter_nd_update_15_bool_reductions(reduction, function):
    data, updates = np.array([False, False, True, True]), np.array([False, True, False, True])
    found = ND_15(data, np.arange(4).reshape(4, 1), updates, reduction=reduction)
    np.testing.assert_array_equal(found, function(data, updates), strict=True)


def test_scatter_nd_update_accepts_one_element_for_rank_0():
    for version in (3, 15):
        op = operator("ScatterNDUpdate", domain="openvino", version=version)
        for updates in (np.array(7), np.array([7]), np.array([[7]])):
            assert op(np.arange(3), np.array([1]), updates).tolist() == [0, 7, 2]


def test_scatter_elements_update_12_examples():
    data = np.array([2, 3, 4, 6])
    updates = np.array([10, 20, 30, 40, 70, 60])
    indices = np.array([1, 0, 0, -2, -1, 2])
    found = ELEMENTS_12(data, indices, updates, 0, reduction="sum")
    np.testing.assert_array_equal(found, [52, 13, 104, 76])
    found = ELEMENTS_12(data, indices % 4, updates, 0, reduction="sum", use_init_val=False)
    np.testing.assert_array_equal(found, [50, 10, 100, 70])
    indices, updates = np.array([[1, 1], [0, 3]]), np.array([[11, 12], [13, 14]])
    found = ELEMENTS_12(np.ones((3, 4), int), indices, updates, 1, reduction="sum")
    np.testing.assert_array_equal(found, [[1, 24, 1, 1], [14, 1, 1, 15], [1, 1, 1, 1]])
    found = ELEMENTS_12(np.full((3, 4), 2), indices, updates, 1, reduction="prod")
    np.testing.assert_array_equal(found, [[2, 264, 2, 2], [26, 2, 2, 28], [2, 2, 2, 2]])


def test_scatter_elements_update_12_mean_of_integers_rounds_down():
    found = ELEMENTS_12(np.array([-1, 5]), [0, 0], np.array([-1, -2]), 0, reduction="mean")
    np.testing.assert_array_equal(found, [-2, 5])


@EVERY
def test_index_types_by_row(op):
    types = op.row.input(Role.INDICES).types
    named = {} if op.row.kind is Kind.SCATTER_ND else {"axis": 0}
    for dtype in ("int8", "int32", "int64", "uint64"):
        indices = np.zeros((1, 1) if op.row.kind is Kind.SCATTER_ND else (1,), dtype)
        if dtype in types:
            assert op(np.zeros(2), indices, np.ones(1), **named).tolist() == [1, 0]
            continue
        with pytest.raises(errors.DTypeError, match="indices"):
            op(np.zeros(2), indices, np.ones(1), **named)


def test_undefined_reduction_error_names_the_version():
    scatter = operator("ScatterND", version=18)
    with pytest.raises(errors.DTypeError) as refused:
        scatter(np.zeros(2, np.complex64), [[0]], np.ones(1, np.complex64), reduction="max")
    assert str(refused.value) == (
        "ai.onnx ScatterND-18: reduction = 'max' is not defined for data.dtype = complex64 "
        "(allowed: 'none', 'add', 'mul')"
    )
