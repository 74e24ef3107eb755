"""The rules of a row as labelled texts: ranks, shapes, index values, duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.pages import words
from ndgather.pages.document import Text, prose
from ndgather.published.schema import (
    BatchRule,
    Duplicates,
    Kind,
    OffAxisRule,
    OperatorVersion,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_BY_TUPLE = {Kind.GATHER_ND, Kind.SCATTER_ND}
_BY_ELEMENT = {Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS}


def rules(row: OperatorVersion) -> tuple[tuple[str, Text], ...]:
    """Return the rules that a call has to follow, and the shape of its result."""
    return tuple((label, prose(text)) for label, text in _rules(row))


def _rules(row: OperatorVersion) -> Iterator[tuple[str, str]]:
    batched = row.batch_rule is not BatchRule.NONE
    yield "ranks", _ranks(row)
    if batched:
        yield "batch axes", words.BATCH[row.batch_rule]
    if row.kind in _BY_TUPLE:
        most = "r - b" if batched else "r"
        yield "tuples", f"`k` indices each: `{row.lowest_depth} <= k <= {most}`"
    if row.off_axis_rule is not OffAxisRule.FREE:
        yield "sizes of indices", words.OFF_AXIS[row.off_axis_rule]
    if row.kind.scatters:
        yield "shape of updates", _updates(row)
    yield "shape of the result", _result(row)
    yield "index values", words.NEGATIVE[row.index_rule.negative]
    yield "indices out of bounds", words.OUTSIDE[row.index_rule.outside]
    if row.duplicates is not Duplicates.NOT_APPLICABLE:
        yield "duplicate indices", words.DUPLICATES[row.duplicates]


def _ranks(row: OperatorVersion) -> str:
    lowest = {each.role: each.lowest_rank for each in row.inputs}
    data = f"`data` has rank `r >= {lowest[Role.DATA]}`"
    if row.kind in _BY_ELEMENT:
        return f"{data}, `indices` have the same rank"
    text = f"{data}, `indices` have rank `q >= {lowest[Role.INDICES]}`"
    return text if row.batch_rule is BatchRule.NONE else f"{text}, `b` is `batch_dims`"


def _updates(row: OperatorVersion) -> str:
    if row.kind in _BY_ELEMENT:
        return "`indices.shape`"
    text = "`indices.shape[:-1] + data.shape[k:]`"
    return f"{text}; {words.ONE_ELEMENT_UPDATES[True]}" if row.one_element_updates else text


def _result(row: OperatorVersion) -> str:
    if row.kind.scatters:
        return "`data.shape`"
    if row.kind is Kind.GATHER_ELEMENTS:
        return "`indices.shape`"
    batched = row.batch_rule is not BatchRule.NONE
    if row.kind is Kind.GATHER:
        taken, less = ("indices.shape[b:]", " - b") if batched else ("indices.shape", "")
        shape = f"data.shape[:axis] + {taken} + data.shape[axis+1:]"
        return f"`{shape}`, of rank `r - 1 + q{less}`"
    after, less = ("b+k", " - b - k") if batched else ("k", " - k")
    shape = f"indices.shape[:-1] + data.shape[{after}:]"
    text = f"`{shape}`, of rank `q - 1 + r{less}`"
    if row.batch_rule is BatchRule.FUSED:
        return f"{text}; where `b > 1`, its first `b` axes become one"
    return text
