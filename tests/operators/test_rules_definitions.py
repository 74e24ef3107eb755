"""The rules of operators with custom definitions, and their results compared with plain loops."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgather import RankAtLeast, errors
from ndgather.published import Operator, operator
from ndgather.published.schema import TensorType, type_of
from tests.operators import loops

UPDATE = operator("ScatterUpdate", domain="openvino", version=3)
CACHE = operator("TensorScatter", version=24)
SLICE = operator("SliceScatter", domain="openvino", version=15)
TREE = operator("GatherTree", domain="openvino", version=1)
BLOCKS = operator("GatherBlockQuantized", domain="com.microsoft", version=1)

sides = st.integers(1, 4)


def values(draw, shape, dtype="float32"):
    """Return an array of random values that depend only on the drawn seed."""
    seed = draw(st.integers(0, 2**16))
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def same(op, inputs, wanted, **named):
    """Run an operator, and compare the result with the type inferred from types alone."""
    np.testing.assert_array_equal(op(*inputs, **named), wanted, strict=True)
    types = [None if each is None else type_of(np.asarray(each)) for each in inputs]
    assert op.infer(*types, **named).outputs == (type_of(wanted),)


@pytest.mark.parametrize(
    ("op", "inputs", "changed"),
    [
        (UPDATE, [np.zeros((4, 3)), np.array([1]), np.ones((1, 3)), 0], 1),
        (CACHE, [np.zeros((1, 4)), np.ones((1, 1)), np.array([1]), {"axis": 1}], 2),
        (SLICE, [np.zeros(4), np.ones(2), *map(np.array, ([0], [2], [1]))], 3),
    ],
)
@pytest.mark.parametrize("bad", [-1, 10**9])
def test_values_changed_after_validation_are_not_read(op, inputs, changed, bad):
    """Another thread may write to them at any time."""
    *inputs, named = inputs if isinstance(inputs[-1], dict) else (*inputs, {})
    inputs[changed] = inputs[changed].copy()
    wanted = op(*inputs, **named)

    def infer_shapes(call):
        result = op.row.definition.infer_shapes(call)
        inputs[changed][:] = bad
        return result

    row = replace(op.row, definition=replace(op.row.definition, infer_shapes=infer_shapes))
    np.testing.assert_array_equal(Operator(row)(*inputs, **named), wanted)
    assert inputs[changed].tolist() == [bad]


# ScatterUpdate-3


@st.composite
def scatter_updates(draw):
    shape = tuple(draw(st.lists(sides, min_size=1, max_size=3)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    along = axis % len(shape)
    taken = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    count = int(np.prod(taken))
    places = draw(st.lists(st.integers(0, shape[along] - 1), min_size=count, max_size=count))
    indices = np.array(places, draw(st.sampled_from(["int8", "uint64", "int32"]))).reshape(taken)
    updates = values(draw, shape[:along] + taken + shape[along + 1 :])
    return values(draw, shape), indices, updates, axis


@given(scatter_updates())
def test_scatter_update_matches_its_formula(call):
    same(UPDATE, call, loops.scatter_update(*call))


def test_scatter_update_refuses():
    data, updates = np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)
    for bad in (-1, 3):
        with pytest.raises(errors.IndexOutOfBoundsError, match=rf"indices\[0\] = {bad} .*0..2"):
            UPDATE(data, [bad], updates, 1)
    with pytest.raises(errors.ShapeError, match=r"updates.shape = \(2, 1\) .*\(1, 3\)"):
        UPDATE(data, [0], updates, 0)
    with pytest.raises(errors.AttributeValueError, match=r"axis = 2 is out of range"):
        UPDATE(data, [0], updates, 2)
    with pytest.raises(errors.DTypeError, match=r"data.dtype = bool is not supported"):
        UPDATE(data.astype(bool), [0], updates.astype(bool), 1)
    with pytest.raises(errors.ShapeError, match=r"data.shape = \(\) has rank 0"):
        UPDATE(np.float32(1), 0, np.float32(1), 0)


@pytest.mark.parametrize("axis", [[np.nan], ["0"], True])
@pytest.mark.parametrize("declared", [None, "int64"])
def test_axis_value_must_be_an_integer(axis, declared):
    with pytest.raises(errors.DTypeError, match=r"axis.dtype = .* is not supported"):
        UPDATE.infer(*[TensorType()] * 3, TensorType(declared), constants={"axis": axis})


def test_scatter_update_is_inferred():
    data, indices = TensorType("float32", ("N", "C", 5)), TensorType("int32", (2, "K"))
    updates = TensorType(None, RankAtLeast((7,)))
    inferred = UPDATE.infer(data, indices, updates, axis=1)
    assert inferred.outputs == (TensorType("float32", (7, "C", 5)),)
    assert inferred.inputs[2] == TensorType("float32", (7, 2, "K", 5))
    assert UPDATE.infer(data, indices, TensorType()).inputs[2].shape == (None,) * 4
    with pytest.raises(errors.ShapeError, match="updates"):
        UPDATE.infer(data, indices, TensorType(None, (7,)))
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"= 5 .*axis 2"):
        UPDATE.infer(data, TensorType(), TensorType(), axis=2, constants={"indices": [5]})


# TensorScatter-24


@st.composite
def tensor_scatters(draw):
    shape = tuple(draw(st.lists(sides, min_size=2, max_size=4)))
    axis = draw(st.integers(1, len(shape) - 1))
    size, count = shape[axis], draw(st.integers(0, shape[axis]))
    mode = draw(st.sampled_from(["linear", "circular"]))
    starts = st.integers(0, size - count)
    if mode == "circular":
        starts = st.integers(-9, 2**40) | st.sampled_from([2**63 - 1, 2**63 - 2, -(2**63)])
    first = draw(st.none() | st.lists(starts, min_size=shape[0], max_size=shape[0]))
    dtype = draw(st.sampled_from(["float32", "int8", "bfloat16", "U2", "complex64", "int4"]))
    dtype = getattr(ml_dtypes, dtype, dtype)
    update = values(draw, (*shape[:axis], count, *shape[axis + 1 :]), dtype)
    named = {"mode": mode, "axis": draw(st.sampled_from([axis, axis - len(shape)]))}
    return values(draw, shape, dtype), update, None if first is None else np.array(first), named


@given(tensor_scatters())
def test_tensor_scatter_matches_its_specification(call):
    *arrays, named = call
    same(CACHE, arrays, loops.tensor_scatter(*arrays, **named), **named)


@pytest.mark.parametrize("size", range(1, 8))
def test_circular_starts_may_be_any_int64(size):
    """A row behind the greatest start must not count from the least one."""
    ends = np.array([2**63 - 1, 2**63 - size, -(2**63), 1 - 2**63])
    cache, update = np.zeros((4, size, 1)), np.arange(1.0, 4 * size + 1).reshape(4, size, 1)
    for count in range(size + 1):
        call = cache, update[:, :count], ends
        same(CACHE, call, loops.tensor_scatter(*call, mode="circular"), mode="circular")


def test_tensor_scatter_refuses():
    cache, update = np.zeros((2, 3, 1)), np.zeros((2, 2, 1))
    for bad in (-1, 2):
        text = rf"\[1\] = {bad} .*allowed: 0..1"
        with pytest.raises(errors.IndexOutOfBoundsError, match=text) as caught:
            CACHE(cache, update, [0, bad])
        error = caught.value
        assert (error.position, error.value, error.axis) == ((1,), bad, 1)
        assert (error.size, error.count) == (3, 1)
    for axis in (0, -3):
        with pytest.raises(errors.AttributeValueError, match=rf"axis = {axis} is the batch axis"):
            CACHE(cache, update, axis=axis)
    with pytest.raises(errors.AttributeValueError, match=r"axis = 3 is out of range"):
        CACHE(cache, update, axis=3)
    with pytest.raises(errors.AttributeValueError, match=r"mode = 'ring' .*'linear', 'circular'"):
        CACHE(cache, update, mode="ring")
    with pytest.raises(errors.ShapeError, match=r"update.shape\[1\] = 3 is longer than"):
        CACHE(update, cache)
    with pytest.raises(errors.ShapeError, match=r"update.shape = \(2, 2, 2\)"):
        CACHE(cache, np.zeros((2, 2, 2)))
    with pytest.raises(errors.ShapeError, match=r"different rank"):
        CACHE(cache, update[0])
    with pytest.raises(errors.ShapeError, match=r"write_indices.shape = \(1,\) .*\(2,\)"):
        CACHE(cache, update, [0])
    with pytest.raises(errors.DTypeError, match=r"write_indices.dtype = int32"):
        CACHE(cache, update, np.zeros(2, np.int32))


def test_tensor_scatter_does_not_truncate_strings():
    result = CACHE(np.array([["a", "b"]]), np.array([["cd"]]), axis=1)
    assert result.tolist() == [["cd", "b"]]
    for cache, update in ((b"a", "cd"), ("a", b"cd")):
        with pytest.raises(errors.DTypeError, match=r"update\.dtype = .* differs from data"):
            CACHE(np.array([[cache, cache]]), np.array([[update]]), axis=1)


def test_optional_input_may_be_none():
    cache, update = np.zeros((2, 3)), np.ones((2, 1))
    assert CACHE(cache, update, write_indices=None, axis=1)[:, 0].tolist() == [1, 1]
    with pytest.raises(errors.AttributeValueError, match=r"1 input given"):
        CACHE(cache, axis=1)


def test_tensor_scatter_is_inferred():
    cache = TensorType("float16", ("N", "H", "S", 64))
    inferred = CACHE.infer(cache, TensorType(None, (None, 8, "T", None)), None)
    assert inferred.outputs == (TensorType("float16", ("N", 8, "S", 64)),)
    assert inferred.inputs[1].shape == ("N", 8, "T", 64)
    assert CACHE.infer(TensorType(), TensorType()).outputs[0].dtype is None
    batches = (TensorType(None, RankAtLeast((size,))) for size in (5, 6))
    with pytest.raises(errors.ShapeError, match=r"update\.shape = \(6, .*allowed: \(5, \.\.\.\)"):
        CACHE.infer(*batches)
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"write_indices\[0\] = 7"):
        CACHE.infer(
            TensorType(None, (1, 8, 4)),
            TensorType(None, (1, 2, 4)),
            constants={"write_indices": [7]},
        )


# SliceScatter-15


@st.composite
def slice_scatters(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(0, len(shape)))]
    named = draw(st.booleans())
    axes = list(axes) if named else list(range(len(axes)))
    limits = st.integers(-6, 6) | st.sampled_from([2**31 - 1, -(2**31)])
    start, stop = ([draw(limits) for _ in axes] for _ in range(2))
    step = [draw(st.integers(-3, 3).filter(bool)) for _ in axes]
    taken = [slice(None)] * len(shape)
    for axis, *numbers in zip(axes, start, stop, step, strict=True):
        taken[axis] = slice(*numbers)
    data = values(draw, shape)
    updates = values(draw, data[tuple(taken)].shape)
    arrays = [np.array(each, np.int64) for each in (start, stop, step)]
    signed = [axis - draw(st.sampled_from([0, len(shape)])) for axis in axes]
    return data, updates, *arrays, *([np.array(signed, np.int64)] if named else [])


@given(slice_scatters())
def test_slice_scatter_writes_elements_in_order(call):
    same(SLICE, call, loops.slice_scatter(*call))


def test_slice_scatter_refuses():
    data, column = np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)
    for updates in (np.zeros((2, 2), np.float32), np.zeros((1, 1), np.float32)):
        with pytest.raises(errors.ShapeError, match=r"updates.shape = .*allowed: \(2, 1\)"):
            SLICE(data, updates, [0], [1], [1], [1])
    with pytest.raises(errors.AttributeValueError, match=r"step = \[0\] has a 0"):
        SLICE(data, column, [0], [1], [0], [1])
    with pytest.raises(errors.AttributeValueError, match=r"axes = \[1, -1\] names an axis twice"):
        SLICE(data, column, [0, 0], [1, 1], [1, 1], [1, -1])
    with pytest.raises(errors.AttributeValueError, match=r"axes = 2 is out of range"):
        SLICE(data, column, [0], [1], [1], [2])
    with pytest.raises(errors.ShapeError, match=r"stop.shape = \(2,\) .*allowed: \(1,\)"):
        SLICE(data, column, [0], [1, 1], [1])
    with pytest.raises(errors.ShapeError, match=r"more axes than data"):
        SLICE(data, column, [0] * 3, [1] * 3, [1] * 3)
    with pytest.raises(errors.AttributeValueError, match=r"4 inputs given \(allowed: 5..6"):
        SLICE(data, column, [0], [1])


def test_slice_scatter_is_inferred():
    data, limits = TensorType("float32", ("N", 9)), [TensorType("int32", (1,))] * 3
    known = {"start": [0], "stop": [5], "step": [2], "axes": [1]}
    inferred = SLICE.infer(data, TensorType(), *limits, TensorType(), constants=known)
    assert inferred.outputs == (data,)
    assert inferred.inputs[1] == TensorType("float32", ("N", 3))
    assert SLICE.infer(data, TensorType(), *limits).inputs[1].shape == (None, 9)
    assert SLICE.infer(data, TensorType(), *[TensorType()] * 3).outputs == (data,)


# GatherTree-1


@st.composite
def gather_trees(draw):
    steps, batches, beams = draw(st.tuples(st.integers(0, 4), st.integers(0, 3), sides))
    shape = (steps, batches, beams)
    count = steps * batches * beams
    parents = draw(st.lists(st.integers(0, beams - 1), min_size=count, max_size=count))
    lengths = draw(st.lists(st.integers(-1, 6), min_size=batches, max_size=batches))
    parents, time = np.array(parents, int).reshape(shape), np.arange(steps)[:, np.newaxis]
    unread = (time == 0) | (time >= np.array(lengths, int))  # any number may be there
    parents[unread] = draw(st.sampled_from([parents[unread], -1, beams]))
    dtype = draw(st.sampled_from(["int32", "float32", "int64"]))
    arrays = values(draw, shape) % 5, parents, np.array(lengths), 3
    return tuple(np.array(array, dtype) for array in arrays)


@given(gather_trees())
def test_gather_tree_matches_the_pseudocode(call):
    same(TREE, call, loops.gather_tree(*call))


def test_gather_tree_refuses():
    ids = np.zeros((2, 1, 3), np.int32)
    parents, three = ids.copy(), np.array([3], np.int32)
    parents[1, 0, 2] = 3
    parents[1, 0, 1] = -2
    text = r"parent_ids\[1, 0, 1\] = -2 is not a beam"
    with pytest.raises(errors.IndexOutOfBoundsError, match=text) as caught:
        TREE(ids, parents, three, np.int32(0))
    error = caught.value
    assert (error.position, error.value, error.axis) == ((1, 0, 1), -2, 2)
    assert (error.size, error.count) == (3, 2)
    assert TREE(ids, parents, np.array([1], np.int32), np.int32(0)).shape == ids.shape  # not read
    with pytest.raises(errors.ShapeError, match=r"end_token.shape = \(1,\)"):
        TREE(ids, ids, three, np.array([0], np.int32))
    with pytest.raises(errors.ShapeError, match=r"max_seq_len.shape = \(2,\) .*\(1,\)"):
        TREE(ids, ids, np.array([1, 1], np.int32), np.int32(0))
    with pytest.raises(errors.ShapeError, match=r"step_ids.shape = .*allowed: \(\?, \?, \?\)"):
        TREE(ids[None], ids, three, np.int32(0))
    with pytest.raises(errors.DTypeError, match=r"end_token.dtype = int64 differs"):
        TREE(ids, ids, three, np.int64(0))
    half = np.array([1.5], np.float32)
    with pytest.raises(errors.DTypeError, match=r"max_seq_len has values that are not integers"):
        TREE(ids.astype("f"), ids.astype("f"), half, np.float32(0))


@pytest.mark.parametrize(("dtype", "steps"), [("int8", 130), ("uint8", 300), ("float16", 2049)])
def test_type_may_be_too_narrow_for_the_number_of_steps(dtype, steps):
    ids, parents = np.ones((steps, 1, 1), dtype), np.zeros((steps, 1, 1), dtype)
    last = np.array([2050 if dtype == "float16" else 127], dtype)
    found = TREE(ids, parents, last, np.array(0, dtype))
    np.testing.assert_array_equal(found, loops.gather_tree(ids, parents, last, 0), strict=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gather_tree_refuses_non_finite_numbers(bad):
    ids, count = np.zeros((2, 1, 3), np.float32), np.array([2], np.float32)
    with pytest.raises(errors.DTypeError, match=r"max_seq_len has values that are not integers"):
        TREE(ids, ids, count * np.float32(bad), np.float32(0))
    with pytest.raises(errors.DTypeError, match=r"parent_ids has values that are not integers"):
        TREE(ids, ids + np.float32(bad), count, np.float32(0))


@pytest.mark.parametrize(
    ("dtype", "bad"), [("float32", 2**100), ("float32", -(2**100)), ("uint64", 2**64 - 1)]
)
def test_parents_may_be_far_out_of_range(dtype, bad):
    ids, count = np.zeros((2, 1, 3), dtype), np.array([2], dtype)
    with pytest.raises(errors.IndexOutOfBoundsError, match=rf"parent_ids\[1, 0, 0\] = {bad} is no"):
        TREE(ids, np.full_like(ids, bad), count, np.array(0, dtype))


def test_gather_tree_is_inferred():
    known = TensorType(None, ("T", "N", None))
    inferred = TREE.infer(
        known, TensorType("int32", (8, None, 4)), TensorType(), TensorType(None, ())
    )
    assert inferred.outputs == (TensorType("int32", (8, "N", 4)),)
    assert inferred.inputs[2].shape == ("N",)


# GatherBlockQuantized-1


@st.composite
def quantized(draw):
    """Draw a call with uint8, int4, uint4 or 8-bit floats."""
    dtype = draw(st.sampled_from(["uint8", "int4", "uint4", "float8_e4m3fn"]))
    packed = dtype == "uint8"
    rank = draw(st.integers(2 if packed else 1, 3))
    shape = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    blocks = rank - 1 if packed else draw(st.integers(0, rank - 1))
    along = 0 if packed else draw(st.integers(0, rank - 1))
    shape[blocks] = draw(st.sampled_from([4, 16, 20, 40]))
    bits, block = draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from([16, 32]))
    factor = 8 // bits if packed else 1
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if packed:
        data = rng.integers(0, 256, shape).astype(np.uint8)
    else:
        low = -8 if dtype == "int4" else 0
        data = rng.integers(low, low + 16, shape).astype(getattr(ml_dtypes, dtype))
    count = -(-shape[blocks] * factor // block)
    of_blocks = [*shape[:blocks], count, *shape[blocks + 1 :]]
    scale_type = draw(st.sampled_from(["float32", "float16", "bfloat16"]))
    scales = rng.standard_normal(of_blocks).astype(getattr(ml_dtypes, scale_type, scale_type))
    size = shape[along]
    taken = draw(st.lists(st.integers(1, 3), max_size=2))
    indices = rng.integers(-size - 1, size + 1, taken)
    points = None
    if draw(st.booleans()) and dtype != "float8_e4m3fn":
        of_blocks[blocks] = -(-count // factor)
        points = rng.integers(0, 256 if packed else 8, of_blocks).astype(data.dtype)
    named = {
        "bits": bits if packed else 4,
        "block_size": block,
        "gather_axis": along - draw(st.sampled_from([0, rank])),
        "quantize_axis": blocks - draw(st.sampled_from([0, rank])),
    }
    return (data, indices, scales, points), named


@given(quantized())
def test_gather_block_quantized_matches_its_specification(call):
    arrays, named = call
    same(BLOCKS, arrays, loops.gather_block_quantized(*arrays, **named), **named)


def test_floats_have_one_block_or_broadcast_scales():
    data = np.arange(6).reshape(2, 3).astype(ml_dtypes.float8_e5m2)
    found = BLOCKS(data, [1, -2], np.array([[2.0], [4.0]], np.float32), block_size=0)
    assert found.tolist() == [[12, 16, 20], [0, 2, 4]]
    found = BLOCKS(data, [1], np.array([[2.0]], np.float32), block_size=0)
    assert found.tolist() == [[6, 8, 10]]


def test_block_may_be_larger_than_any_array():
    data, scales = np.ones((2, 16), ml_dtypes.int4), np.ones((2, 1), np.float32)
    assert BLOCKS(data, [0], scales, block_size=2**63).tolist() == [[1] * 16]


def test_blocks_of_the_highest_ranks():
    data, scales = np.full((*[1] * 63, 8), 0x98, np.uint8), np.ones((*[1] * 63, 1), np.float32)
    found = BLOCKS(data, 0, scales, quantize_axis=63, block_size=16)
    np.testing.assert_array_equal(found, np.tile(np.float32([0, 1]), (*[1] * 62, 8)))
    with pytest.raises(errors.ShapeError, match=r"would have rank 65 \(allowed: at most 64\)"):
        BLOCKS(data, [[0]], scales, quantize_axis=63, block_size=16)


def test_gather_block_quantized_refuses():
    data, scales = np.zeros((2, 16), np.uint8), np.ones((2, 1), np.float32)
    points = np.zeros((2, 1), np.uint8)
    for bad, bits in ((0, 8), (8, 8), (24, 8)):
        with pytest.raises(errors.AttributeValueError, match=rf"block_size = {bad} is not"):
            BLOCKS(data, [0], scales, bits=bits, block_size=bad)
    with pytest.raises(errors.AttributeValueError, match=r"bits = 3 .*allowed: 2, 4, 8"):
        BLOCKS(data, [0], scales, bits=3, block_size=16)
    with pytest.raises(errors.AttributeValueError, match=r"bits = 8 .*int4 \(allowed: 4\)"):
        BLOCKS(data.astype(ml_dtypes.int4), [0], scales, bits=8, block_size=16)
    for axes in ({"gather_axis": 1, "quantize_axis": 0}, {"gather_axis": 1}, {"quantize_axis": 0}):
        with pytest.raises(errors.AttributeValueError, match=r"gather_axis = .* not supported"):
            BLOCKS(data, [0], scales, bits=8, block_size=16, **axes)
    with pytest.raises(errors.ShapeError, match=r"scales.shape = \(2, 1\) .*\(2, 2\)"):
        BLOCKS(data, [0], scales, bits=4, block_size=16)
    with pytest.raises(errors.ShapeError, match=r"zero_points.shape = \(1, 1\) .*\(2, 1\)"):
        BLOCKS(data, [0], scales, points[:1], bits=8, block_size=16)
    eighths = data.astype(ml_dtypes.float8_e4m3fn)
    with pytest.raises(errors.AttributeValueError, match=r"zero_points are given for data of fl"):
        BLOCKS(eighths, [0], scales, points.astype(eighths.dtype), block_size=16)
    with pytest.raises(errors.ShapeError, match=r"scales.shape = \(1, 1\) .*\(2, 1\)"):
        BLOCKS(data, [0], scales[:1], bits=8, block_size=16)


def test_gather_block_quantized_is_inferred():
    data, scales = TensorType("uint8", ("V", 128)), TensorType("float16", (None, None))
    inferred = BLOCKS.infer(data, TensorType("int64", ("N", 7)), scales)
    assert inferred.outputs == (TensorType("float16", ("N", 7, 256)),)
    assert inferred.inputs[2] == TensorType("float16", ("V", 2))
    assert inferred.inputs[3] == TensorType()
    points = BLOCKS.infer(data, TensorType("int64", (7,)), scales, TensorType()).inputs[3]
    assert points == TensorType("uint8", ("V", 1))
    for size in ("K", None, 1):  # scales of floats may be broadcast
        scale = TensorType("float32", (size, 2))
        floats = TensorType("float8_e4m3fn", (4, 32))
        inferred = BLOCKS.infer(floats, TensorType("int64", (7,)), scale, block_size=16)
        assert inferred.inputs[2] == scale
        assert inferred.equalities == ()
    unknown = BLOCKS.infer(TensorType(None, ("V", 128)), TensorType(None, (7,)), scales)
    assert unknown.outputs == (TensorType("float16", (7, None)),)
