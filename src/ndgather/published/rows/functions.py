"""What the functions for arrays allow, in the terms of the rows: no specification but our own.

Inference applies these rows to shapes before there is a call, such as when a file for the result
is made. The core has the same rules for the calls themselves. Element types are left to the core.
"""

from __future__ import annotations

from ndgather.published.schema import (
    Attribute,
    AttributeRange,
    AttributeType,
    BatchRule,
    IndexRule,
    Input,
    Kind,
    OffAxisRule,
    OperatorVersion,
    Output,
    Outside,
    Role,
)


def _input(role: Role, lowest_rank: int) -> Input:
    return Input(
        name=role.value, role=role, type_variable=role.value, types=(), lowest_rank=lowest_rank
    )


def _option(name: str, allowed: AttributeRange) -> Attribute:
    return Attribute(name=name, type=AttributeType.INT, range=allowed, default=0)


_AXIS = _option("axis", AttributeRange.AXIS)


def _row(
    kind: Kind,
    data_rank: int,
    indices_rank: int,
    *attributes: Attribute,
    off_axis_rule: OffAxisRule = OffAxisRule.FREE,
) -> OperatorVersion:
    inputs = (_input(Role.DATA, data_rank), _input(Role.INDICES, indices_rank))
    return OperatorVersion(
        name=kind.value,
        domain="ndgather",
        since=1,
        kind=kind,
        inputs=(*inputs, _input(Role.UPDATES, 0)) if kind.scatters else inputs,
        outputs=(Output(name="output", type_variable=Role.DATA.value),),
        index_rule=IndexRule(negative=True, outside=Outside.RAISE),
        attributes=attributes,
        batch_rule=BatchRule.EQUAL,
        off_axis_rule=off_axis_rule,
        summary="",
        formula="",
        source=f"help(ndgather.{kind.value})",
    )


FUNCTIONS = {
    row.kind: row
    for row in (
        _row(
            Kind.GATHER_ND,
            0,
            1,
            _option("batch_dims", AttributeRange.BATCH_BEFORE_TUPLES),
        ),
        _row(Kind.GATHER_ELEMENTS, 1, 1, _AXIS, off_axis_rule=OffAxisRule.AT_MOST),
        _row(Kind.GATHER, 1, 0, _AXIS, _option("batch_dims", AttributeRange.BATCH_UP_TO_AXIS)),
        _row(Kind.SCATTER_ND, 0, 1),
        _row(Kind.SCATTER_ELEMENTS, 1, 1, _AXIS, off_axis_rule=OffAxisRule.AT_MOST),
    )
}
