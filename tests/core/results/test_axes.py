"""Axis roles in Python agree with the core: both find the same element."""

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

import ndgather
from ndgather.array_call import Call, Kind
from ndgather.axes import Axes


@st.composite
def gathers(draw):
    """Draw a non-empty gather of any kind from data with distinct elements."""
    kind = draw(st.sampled_from(["gather_nd", "gather_elements", "gather", "gather_windows"]))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    rank, options = len(shape), {}
    lead = draw(st.lists(st.integers(1, 3), max_size=2))
    if kind == "gather_elements":
        axis = draw(st.integers(-rank, rank - 1))
        sizes = [draw(st.integers(1, size)) for size in shape]
        sizes[axis] = draw(st.integers(1, 3))
        options, ends = {"axis": axis}, np.full(sizes, shape[axis])
    elif kind == "gather":
        axis = draw(st.integers(0, rank - 1))
        batch = draw(st.integers(0, axis))
        sizes = (*shape[:batch], *lead)
        negative = bool(batch) and draw(st.booleans())
        options["axis"] = axis - rank * draw(st.booleans())
        options["batch_dims"] = batch - len(sizes) * negative
        if batch and batch == len(sizes):
            options["batch_dims"] = batch
        ends = np.full(sizes, shape[axis])
    else:
        batch = draw(st.integers(0, rank)) if kind == "gather_nd" else 0
        depth = draw(st.integers(0, rank - batch))
        ends = np.broadcast_to(shape[batch : batch + depth], (*shape[:batch], *lead, depth)).astype(
            int
        )
        if kind == "gather_windows":
            window = [draw(st.integers(1, size)) for size in shape[:depth]]
            options["window_shape"] = tuple(window)
            ends = ends - window + 1
        else:
            options["batch_dims"] = batch
    indices = np.random.default_rng(draw(st.integers(0, 99))).integers(0, ends)
    return kind, np.arange(np.prod(shape)).reshape(shape), np.asarray(indices), options


@given(gathers())
def test_axis_roles_agree_with_the_core(drawn):
    kind, data, indices, options = drawn
    event(kind)
    result = getattr(ndgather, kind)(data, indices, **options)
    axes = Axes.of(Call(kind, Kind(kind), None, None, **options), data.ndim, indices.shape)
    for place in np.ndindex(result.shape):
        position = [place[axis] for axis in axes.positions]
        values = np.atleast_1d(indices[tuple(position)])
        at = dict(zip(axes.points, axes.point(position, values), strict=True))
        for axis, within in zip(axes.indexed, axes.window, strict=False):
            at[axis] += place[within]
        at |= {a: place[d] for a, d in zip(axes.slices, axes.dense_slices, strict=True)}
        assert result[place] == data[tuple(at[axis] for axis in range(data.ndim))]
    view = axes.dense_view(result)
    assert view.shape[: len(axes.positions)] == indices.shape[: len(axes.positions)]


@given(gathers())
def test_values_by_role_are_in_axis_order(drawn):
    kind, data, indices, options = drawn
    result = getattr(ndgather, kind)(data, indices, **options)
    axes = Axes.of(Call(kind, Kind(kind), None, None, **options), data.ndim, indices.shape)
    by_role = [[data.shape[axis] for axis in each] for each in (axes.points, axes.slices)]
    assert axes.in_data(*by_role) == data.shape
    window = options.get("window_shape", ())
    sizes = indices.shape[: len(axes.positions)]
    assert axes.in_dense(sizes, window, by_role[1]) == result.shape
    assert sorted((*axes.aligned, *axes.indexed, *axes.slices)) == [*range(data.ndim)]
