"""Operators with custom definitions, tested with a made-up operator that rolls rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ndgather import errors
from ndgather.published import Operator, operator
from ndgather.published.schema import Definition, Input, Role, TensorType


def infer_shapes(call):
    turns = call.axes.get(Role.INDICES)
    if turns is not None and not call.sizes.equate(turns.sizes[0], call.data.sizes[0]):
        raise errors.ShapeError(f"{call.caller}: turns do not fit (allowed: one a row)")
    return call.data


def compute(_, arrays, attributes):
    rows = arrays[Role.DATA]
    turns = arrays.get(Role.INDICES, np.ones(len(rows), int))
    sign = -1 if attributes["axis"] else 1
    return np.array([np.roll(row, sign * turn) for row, turn in zip(rows, turns, strict=True)])


GATHER = operator("Gather", version=13).row
ROLL = Operator(
    replace(
        GATHER,
        name="Roll",
        domain="made.up",
        since=1,
        inputs=(
            replace(GATHER.inputs[0], name="rows", lowest_rank=2),
            Input(
                name="turns",
                role=Role.INDICES,
                type_variable="I",
                types=("int64",),
                optional=True,
            ),
        ),
        definition=Definition(
            infer_shapes=infer_shapes, compute=compute, rules=(("shape", "any"),)
        ),
    )
)
ROWS = np.arange(6.0).reshape(2, 3)


def test_call_checks_types_and_shapes_and_computes():
    assert ROLL(ROWS, [1, 2]).tolist() == [[2, 0, 1], [4, 5, 3]]
    assert ROLL(ROWS, [1, 2], axis=1).tolist() == [[1, 2, 0], [5, 3, 4]]
    with pytest.raises(
        errors.DTypeError, match=r"made.up Roll-1: turns.dtype = int8 is not supported"
    ):
        ROLL(ROWS, np.array([1, 2], np.int8))
    with pytest.raises(errors.ShapeError, match=r"rows.shape = .* has rank 1"):
        ROLL(ROWS[0])
    with pytest.raises(errors.ShapeError, match="turns do not fit"):
        ROLL(ROWS, [1])


def test_optional_input_may_be_omitted_or_none():
    for inputs in [(ROWS,), (ROWS, None)]:
        assert ROLL(*inputs).tolist() == [[2, 0, 1], [5, 3, 4]]
    with pytest.raises(errors.AttributeValueError, match=r"0 inputs .*allowed: 1..2, rows, turns"):
        ROLL()


def test_types_are_inferred():
    known = TensorType("float32", ("N", 3))
    inferred = ROLL.infer(known, TensorType("int64", (2,)))
    assert inferred.outputs == (TensorType("float32", (2, 3)),)
    assert [(each.name, each.equals) for each in inferred.equalities] == [("N", 2)]
    assert ROLL.infer(known).inputs == (known, TensorType())
    assert ROLL.infer(known, None).outputs == (known,)


def test_operator_has_no_picture():
    with pytest.raises(errors.AttributeValueError, match=r"made.up Roll-1 is not a single call"):
        ROLL.show(ROWS)
