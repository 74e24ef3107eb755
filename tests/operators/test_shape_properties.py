"""Inference and calls agree, for every row of the table."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

import ndgather
from ndgather import errors
from ndgather.array_call import Kind
from ndgather.published import operators
from ndgather.published.inference import infer
from ndgather.published.schema import (
    Attribute,
    AttributeRange,
    AttributeType,
    BatchRule,
    IndexRule,
    Input,
    OffAxisRule,
    OperatorVersion,
    Output,
    Outside,
    RankAtLeast,
    Role,
    TensorType,
)
from tests.definitions import reference

OF_THE_CORE = tuple(op for op in operators() if op.row.definition is None)
EVERY = pytest.mark.parametrize("op", OF_THE_CORE, ids=lambda op: str(op.row))
GATHERS = tuple(op for op in OF_THE_CORE if not op.row.kind.scatters)
EVERY_GATHER = pytest.mark.parametrize("op", GATHERS, ids=lambda op: str(op.row))
BY_TUPLE = {Kind.GATHER_ND, Kind.SCATTER_ND}


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """The input shapes of a call, in order, and its options."""

    tensors: tuple
    named: dict


@st.composite
def calls(draw, row):
    """Draw shapes and options for `row` that are valid more often than not."""
    side = st.integers(0, 3) if draw(st.integers(0, 3)) == 0 else st.integers(1, 3)
    lowest_rank = row.input(Role.DATA).lowest_rank if row.domain == "ndgather" else 1
    data = tuple(draw(st.lists(side, min_size=lowest_rank, max_size=4)))
    named = {}
    batch_dims = 0
    axis = draw(st.integers(0, max(len(data) - 1, 0)))
    attribute = row.attribute("batch_dims")
    if attribute is not None and draw(st.booleans()):
        highest = {
            AttributeRange.BATCH_BELOW_RANKS: len(data) - 1,
            AttributeRange.BATCH_UP_TO_AXIS: axis,
        }
        batch_dims = draw(st.integers(0, highest[attribute.range]))
        named["batch_dims"] = batch_dims
    if row.kind in BY_TUPLE:
        depth = draw(st.integers(row.lowest_depth, len(data) - batch_dims))
        lead = (*data[:batch_dims], *draw(st.lists(side, max_size=2)))
        indices = (*lead, depth)
        updates = (*lead, *data[depth:])
    elif row.kind is Kind.GATHER:
        indices = (*data[:batch_dims], *draw(st.lists(side, max_size=2)))
        updates = ()
        if "batch_dims" in named:
            named["batch_dims"] = draw(st.sampled_from([batch_dims, batch_dims - len(indices)]))
    else:
        smaller = draw(st.booleans())
        indices = tuple(
            draw(side) if at == axis else draw(st.integers(0, size)) if smaller else size
            for at, size in enumerate(data)
        )
        updates = indices
    if row.attribute("axis") or row.input(Role.AXIS):
        named["axis"] = draw(st.sampled_from([axis, axis - len(data)]))
    tensors = [data, indices, *([updates] if row.kind.scatters else [])]
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(tensors) - 1))
        tensors[at] = tuple(draw(st.lists(side, max_size=4)))
    if draw(st.integers(0, 9)) == 0 and named:
        name = draw(st.sampled_from(sorted(named)))
        named[name] = draw(st.integers(-5, 5))
    return Shapes(tensors=tuple(tensors), named=named)


def inferred(op, tensors, named):
    try:
        return op.infer_shape(*tensors, **named)
    except errors.NdgatherError as refusal:
        return refusal


def arrays(call):
    """Return distinct data, indices that are in bounds if possible, and updates."""
    data = np.arange(np.prod(call.tensors[0], dtype=int), dtype=np.int32).reshape(call.tensors[0])
    indices = np.zeros(call.tensors[1], np.int64)
    return data, indices, *(np.ones(shape, np.int32) for shape in call.tensors[2:])


@EVERY
@given(data=st.data())
def test_call_has_the_inferred_shape_or_raises(op, data):
    call = data.draw(calls(op.row))
    expected = inferred(op, call.tensors, call.named)
    tensors = arrays(call)
    note(f"{call}: {expected}")
    if isinstance(expected, errors.NdgatherError):
        event("refused")
        with pytest.raises(type(expected)):
            op(*tensors, **call.named)
        return
    event("accepted")
    first, second = op(*tensors, **call.named), op(*tensors, **call.named)
    assert first.shape == expected
    np.testing.assert_array_equal(second, first, strict=True)


@EVERY_GATHER
@given(data=st.data())
def test_result_matches_the_loops(op, data):
    call = data.draw(calls(op.row))
    assume(not isinstance(inferred(op, call.tensors, call.named), errors.NdgatherError))
    row = op.row
    values, indices = arrays(call)
    options = dict(call.named)
    first = options.get("batch_dims", 0) if row.kind in BY_TUPLE else options.get("axis", 0)
    lowest = -1 if row.index_rule.negative else 0
    spread = 0 if row.index_rule.raises else 1
    for at in np.ndindex(indices.shape):
        size = values.shape[first + at[-1] if row.kind in BY_TUPLE else first]
        low, high = lowest * (size + spread), size - 1 + spread
        indices[at] = data.draw(st.integers(low, max(low, high)))
    mode = "raise" if row.index_rule.raises else "fill"
    expected = getattr(reference, row.kind.value)(values, indices, **options, mode=mode)
    actual = op(values, indices, **options)
    np.testing.assert_array_equal(actual, expected.reshape(actual.shape), strict=True)


def row_of(kind, data_rank, indices_rank, **ranges):
    """Return the rules of a public function as a row that does not check element types."""
    ranks = {Role.DATA: data_rank, Role.INDICES: indices_rank}
    ranks |= {Role.UPDATES: 0} if kind.scatters else {}
    along = "axis" in ranges and kind is not Kind.GATHER
    return OperatorVersion(
        name=kind.value,
        domain="ndgather",
        since=1,
        kind=kind,
        inputs=tuple(
            Input(name=role.value, role=role, type_variable=role.value, types=(), lowest_rank=rank)
            for role, rank in ranks.items()
        ),
        outputs=(Output(name="output", type_variable="data"),),
        index_rule=IndexRule(negative=True, outside=Outside.RAISE),
        attributes=tuple(
            Attribute(name=name, type=AttributeType.INT, range=allowed, default=0)
            for name, allowed in ranges.items()
        ),
        batch_rule=BatchRule.EQUAL,
        off_axis_rule=OffAxisRule.AT_MOST if along else OffAxisRule.FREE,
        summary="",
        formula="",
        source="",
    )


AXIS, UP_TO_AXIS = AttributeRange.AXIS, AttributeRange.BATCH_UP_TO_AXIS
FUNCTIONS = (
    row_of(Kind.GATHER_ND, 1, 1, batch_dims=AttributeRange.BATCH_BELOW_RANKS),
    row_of(Kind.GATHER_ELEMENTS, 1, 1, axis=AXIS),
    row_of(Kind.GATHER, 1, 0, axis=AXIS, batch_dims=UP_TO_AXIS),
    row_of(Kind.SCATTER_ND, 0, 1),
    row_of(Kind.SCATTER_ELEMENTS, 1, 1, axis=AXIS),
)
EVERY_FUNCTION = pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.name)


@EVERY_FUNCTION
@settings(max_examples=3 * settings.default.max_examples)
@given(data=st.data())
def test_core_and_inference_agree(row, data):
    call = data.draw(calls(row))
    if row.kind is Kind.GATHER_ND:  # the function also takes data without other axes
        assume(call.named.get("batch_dims", 0) < len(call.tensors[0]))
    tensors = arrays(call)
    types = [TensorType(None, shape) for shape in call.tensors]
    options = {each.name: each.default for each in row.attributes} | call.named
    try:
        expected = infer(row, types, options).outputs[0].shape
    except errors.NdgatherError as refusal:
        expected = refusal
    function = getattr(ndgather, row.name)
    note(f"{call}: {expected}")
    if isinstance(expected, errors.NdgatherError):
        event("refused")
        with pytest.raises(errors.NdgatherError):
            function(*tensors, **call.named)
        return
    event("accepted")
    assert function(*tensors, **call.named).shape == expected


def admits(shape, sizes):
    """Return whether `shape`, with unknown sizes, is compatible with `sizes`."""
    if shape is None:
        return True
    first = shape.first if isinstance(shape, RankAtLeast) else shape
    if len(sizes) < len(first) or (isinstance(shape, tuple) and len(sizes) > len(first)):
        return False
    return all(
        not isinstance(dim, int) or dim == size for dim, size in zip(first, sizes, strict=False)
    )


@EVERY
@given(data=st.data())
def test_inference_with_fewer_known_sizes_stays_correct(op, data):
    call = data.draw(calls(op.row))
    whole = inferred(op, call.tensors, call.named)
    assume(not isinstance(whole, errors.NdgatherError))
    tensors = []
    for tensor in call.tensors:
        dims = tuple(data.draw(st.sampled_from([size, f"s{size}", None])) for size in tensor)
        keep = data.draw(st.integers(0, len(dims)))
        tensors.append(data.draw(st.sampled_from([dims, dims, RankAtLeast(dims[:keep]), None])))
    named = dict(call.named)
    if op.row.input(Role.AXIS) and data.draw(st.booleans()):
        del named["axis"]
    partial = inferred(op, tensors, named)
    note(f"{call} {tensors} {named}: {whole} {partial}")
    assert not isinstance(partial, errors.NdgatherError)
    assert admits(partial, whole)
    found = op.infer(*(TensorType(None, each) for each in tensors), **named)
    for learnt, sizes in zip(found.inputs, call.tensors, strict=False):
        assert admits(learnt.shape, sizes)
    for each in found.equalities:
        assert each.equals == int(each.name[1:]) or each.equals == each.name


@EVERY
@settings(max_examples=min(40, settings.default.max_examples))
@given(data=st.data())
def test_accepted_unknown_sizes_have_a_valid_call(op, data):
    call = data.draw(calls(op.row))
    unknown = []
    tensors = []
    for tensor in call.tensors:
        dims = list(tensor)
        for at in range(len(dims)):
            if len(unknown) < 3 and data.draw(st.booleans()):
                name = data.draw(st.sampled_from("xyz"))
                unknown += [name] if name not in unknown else []
                dims[at] = name
        tensors.append(tuple(dims))
    partial = inferred(op, tensors, call.named)
    note(f"{tensors} {call.named}: {partial}")

    def runs(values):
        sizes = dict(zip(unknown, values, strict=True))
        whole = [tuple(sizes.get(dim, dim) for dim in tensor) for tensor in tensors]
        return not isinstance(inferred(op, whole, call.named), errors.NdgatherError)

    some_call_runs = any(runs(each) for each in itertools.product(range(5), repeat=len(unknown)))
    event(f"runs: {some_call_runs}")
    assert some_call_runs is not isinstance(partial, errors.NdgatherError)
