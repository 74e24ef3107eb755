"""The calls that the pages show: inputs as data, the same for every version of a kind.

Each example is run through the operator of the page when the page is made, so that one call
shows what each version does with it: a result here, an error there. An element of data tells
its place: 12 stands in row 1 and column 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ndgather.published.schema import Kind, Reduction

Nested: TypeAlias = int | tuple["Nested", ...]

_GRID: Nested = ((0, 1, 2), (10, 11, 12))
_CUBE: Nested = (((0, 1), (10, 11)), ((100, 101), (110, 111)))
_NO_COLUMNS: Nested = ((), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The inputs and the attributes of one example; None stands for what is not given."""

    title: str
    why: str
    data: Nested = _GRID
    indices: Nested
    updates: Nested | None = None
    axis: int | None = None
    batch_dims: int | None = None
    reduction: Reduction | None = None
    use_init_val: bool | None = None
    index_dtype: str = "int64"
    data_dtype: str = "int32"


_GATHER_ND = (
    Call(
        title="Single elements",
        why="Each tuple addresses a row and a column, so each gives one element.",
        indices=((0, 2), (1, 0)),
    ),
    Call(
        title="Whole slices",
        why="Tuples of one index address rows; the remaining column axis is copied whole.",
        indices=((1,), (0,)),
    ),
    Call(
        title="Indices of higher rank",
        why="All axes of indices but the last are axes of the result.",
        data=_CUBE,
        indices=(((0, 1),), ((1, 0),)),
    ),
    Call(
        title="One batch axis",
        why="The indices of 'Whole slices' again: row 0 of indices now addresses row 0 of data, "
        "and row 1 addresses row 1.",
        indices=((1,), (0,)),
        batch_dims=1,
    ),
    Call(
        title="Two batch axes",
        why="Each of the 2 x 2 batches has one tuple, which addresses its one remaining axis.",
        data=_CUBE,
        indices=(((0,), (1,)), ((1,), (0,))),
        batch_dims=2,
    ),
    Call(
        title="A negative index",
        why="Where negative indices are allowed, -1 is the last position along its axis.",
        indices=((-1, -1),),
    ),
    Call(
        title="An index out of bounds",
        why="Axis 0 of data has size 2, so 2 is out of bounds.",
        indices=((0, 1), (2, 0)),
    ),
    Call(
        title="An index out of bounds, and nothing to copy",
        why="The rows of data are empty, and so is the result; the index is checked all the same.",
        data=_NO_COLUMNS,
        indices=((5,),),
    ),
    Call(
        title="Indices of type int32",
        why="The version says which integer types indices may have.",
        indices=((0, 2), (1, 0)),
        index_dtype="int32",
    ),
    Call(
        title="Empty tuples",
        why="A tuple of length 0 addresses no axis; where it is allowed, it selects all of data.",
        indices=_NO_COLUMNS,
    ),
    Call(
        title="Batch axes of different sizes",
        why="Data has two batches, indices has one.",
        indices=((1,),),
        batch_dims=1,
    ),
)

_GATHER_ELEMENTS = (
    Call(
        title="Along axis 0",
        why="Each index replaces the row of its own position; the column stays the same.",
        indices=((1, 0, 1),),
        axis=0,
    ),
    Call(
        title="Along axis 1",
        why="Each index replaces the column of its own position; the row stays the same.",
        indices=((2, 0), (1, 1)),
        axis=1,
    ),
    Call(
        title="Fewer rows than data",
        why="Axis 1 is indexed; along axis 0, indices has size 1 and data has size 2.",
        indices=((2, 0),),
        axis=1,
    ),
    Call(
        title="More rows than data",
        why="Axis 1 is indexed; along axis 0, data has no row 2 to read.",
        indices=((0,), (0,), (0,)),
        axis=1,
    ),
    Call(
        title="A negative index",
        why="Where negative indices are allowed, -1 is the last position along its axis.",
        indices=((-1,), (-2,)),
        axis=1,
    ),
    Call(
        title="An index out of bounds",
        why="Axis 1 of data has size 3, so 3 is out of bounds.",
        indices=((0, 1), (3, 0)),
        axis=1,
    ),
    Call(
        title="Indices of type int8",
        why="The version says which integer types indices may have.",
        indices=((1, 0, 1),),
        axis=0,
        index_dtype="int8",
    ),
)

_GATHER = (
    Call(
        title="Rows",
        why="Indices list the rows to copy, in any order and with repetitions.",
        indices=(1, 0, 1),
        axis=0,
    ),
    Call(
        title="Columns",
        why="With axis 1 they list columns.",
        indices=(2, 0),
        axis=1,
    ),
    Call(
        title="A table of indices",
        why="The axes of indices take the place of the axis that is indexed.",
        indices=((0, 1), (1, 0)),
        axis=0,
    ),
    Call(
        title="A single index",
        why="Indices of rank 0 have no axes, so the indexed axis is removed.",
        indices=1,
        axis=0,
    ),
    Call(
        title="One batch axis",
        why="Row 0 of indices addresses row 0 of data, and row 1 addresses row 1.",
        indices=((2, 0), (1, 1)),
        axis=1,
        batch_dims=1,
    ),
    Call(
        title="A negative index",
        why="Where negative indices are allowed, -1 is the last position along its axis.",
        indices=(-1,),
        axis=0,
    ),
    Call(
        title="An index out of bounds",
        why="Axis 0 of data has size 2, so 2 is out of bounds.",
        indices=(0, 2),
        axis=0,
    ),
    Call(
        title="Indices of type int8",
        why="The version says which integer types indices may have.",
        indices=(1, 0, 1),
        axis=0,
        index_dtype="int8",
    ),
    Call(
        title="An axis that data does not have",
        why="Data has the axes 0 and 1.",
        indices=(1, 0),
        axis=2,
    ),
)

_SCATTER_ND = (
    Call(
        title="Single elements",
        why="Each tuple addresses a row and a column, and one update goes there.",
        indices=((0, 2), (1, 0)),
        updates=(7, 8),
    ),
    Call(
        title="Whole slices",
        why="Tuples of one index address rows, and each update is a row.",
        indices=((1,),),
        updates=((7, 8, 9),),
    ),
    Call(
        title="Updates that are added",
        why="Two updates address the same element: both are added.",
        indices=((0, 2), (0, 2), (1, 0)),
        updates=(5, 6, 7),
        reduction=Reduction.ADD,
    ),
    Call(
        title="The largest update",
        why="The original element takes part.",
        indices=((0, 2), (0, 2), (1, 0)),
        updates=(5, 6, 7),
        reduction=Reduction.MAX,
    ),
    Call(
        title="A negative index",
        why="Where negative indices are allowed, -1 is the last position along its axis.",
        indices=((-1, -1),),
        updates=(7,),
    ),
    Call(
        title="An index out of bounds",
        why="Axis 0 of data has size 2, so 2 is out of bounds.",
        indices=((0, 1), (2, 0)),
        updates=(7, 8),
    ),
    Call(
        title="Updates of another shape",
        why="Two tuples that address elements need two updates.",
        indices=((0, 2), (1, 0)),
        updates=(7, 8, 9),
    ),
    Call(
        title="Indices of type int32",
        why="The version says which integer types indices may have.",
        indices=((0, 2), (1, 0)),
        updates=(7, 8),
        index_dtype="int32",
    ),
)

_SCATTER_ELEMENTS = (
    Call(
        title="Along axis 0",
        why="Each index replaces the row of its own position; the column stays the same.",
        indices=((1, 0, 1),),
        updates=((7, 8, 9),),
        axis=0,
    ),
    Call(
        title="Along axis 1",
        why="Each index replaces the column of its own position; the row stays the same.",
        indices=((2, 0), (1, 2)),
        updates=((5, 6), (7, 8)),
        axis=1,
    ),
    Call(
        title="Updates that are added",
        why="Two updates address the same element: both are added.",
        indices=((2, 2), (1, 0)),
        updates=((5, 6), (7, 8)),
        axis=1,
        reduction=Reduction.ADD,
    ),
    Call(
        title="Updates without the original element",
        why="Only the updates are summed.",
        indices=((2, 2), (1, 0)),
        updates=((5, 6), (7, 8)),
        axis=1,
        reduction=Reduction.ADD,
        use_init_val=False,
    ),
    Call(
        title="The mean",
        why="The element that is there takes part, and the mean of integers is rounded down.",
        indices=((2, 2), (1, 0)),
        updates=((5, 6), (7, 8)),
        axis=1,
        reduction=Reduction.MEAN,
    ),
    Call(
        title="Fewer rows than data",
        why="Axis 1 is indexed; along axis 0, indices has size 1 and data has size 2.",
        indices=((2, 0),),
        updates=((7, 8),),
        axis=1,
    ),
    Call(
        title="A negative index",
        why="Where negative indices are allowed, -1 is the last position along its axis.",
        indices=((-1,), (-2,)),
        updates=((7,), (8,)),
        axis=1,
    ),
    Call(
        title="An index out of bounds",
        why="Axis 1 of data has size 3, so 3 is out of bounds.",
        indices=((0, 1), (3, 0)),
        updates=((5, 6), (7, 8)),
        axis=1,
    ),
    Call(
        title="Updates of another shape",
        why="Each index needs one update.",
        indices=((2, 0), (1, 2)),
        updates=((5,), (7,)),
        axis=1,
    ),
)

CALLS = {
    Kind.GATHER_ND: _GATHER_ND,
    Kind.GATHER_ELEMENTS: _GATHER_ELEMENTS,
    Kind.GATHER: _GATHER,
    Kind.SCATTER_ND: _SCATTER_ND,
    Kind.SCATTER_ELEMENTS: _SCATTER_ELEMENTS,
}
