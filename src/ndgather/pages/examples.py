"""The calls that the pages show: inputs as data, the same for every version of a kind.

Each example is run through the operator of the page when the page is made, so that one call
shows what each version does with it: a result here, an error there. An element of data tells
its place: 12 stands in row 1 and column 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.errors import NdgatherError
from ndgather.published.rows import DEFAULT_DOMAIN, openvino
from ndgather.published.schema import Kind, Reduction, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ndgather.published import Operator
    from ndgather.published.schema import OperatorVersion
    from ndgather.show import Picture


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


Option: TypeAlias = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that a call ended in."""

    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """What one operator made of one call: `result` or `failure`.

    `tensors` are the inputs that are arrays, `options` all that is given by its name.
    """

    made_by: Operator
    tensors: tuple[tuple[str, NDArray[Any]], ...]
    options: tuple[tuple[str, Option], ...]
    result: NDArray[Any] | None
    failure: Failure | None

    @property
    def operator(self) -> str:
        """The name of the operator, with its domain and version."""
        return str(self.made_by.row)

    def picture(self) -> Picture:
        """Draw the call.

        Raises
        ------
        NdgatherError
            An argument is not one of the operator.
        """
        return self.made_by.show(*(array for _, array in self.tensors), **dict(self.options))

    @property
    def call(self) -> str:
        """The call as it is written in Python."""
        given = [name for name, _ in self.tensors]
        given += [f"{name}={value!r}" for name, value in self.options]
        return f"op({', '.join(given)})"

    def agrees(self, other: Run) -> bool:
        """Whether both came to the same result, or both to the same kind of error."""
        if self.result is None or other.result is None:
            mine, others = self.failure, other.failure
            return mine is not None and others is not None and mine.type == others.type
        return self.result.dtype == other.result.dtype and np.array_equal(self.result, other.result)


def run(call: Call, operator: Operator) -> Run:
    """Run one example."""
    row = operator.row
    options = _options(call, row)
    tensors = [
        ("data", np.array(call.data, call.data_dtype)),
        ("indices", np.array(call.indices, call.index_dtype)),
    ]
    if call.updates is not None:
        tensors.append(("updates", np.array(call.updates, call.data_dtype)))
    result = failure = None
    try:
        result = operator(*(array for _, array in tensors), **dict(options))
    except NdgatherError as error:
        failure = Failure(type=type(error).__name__, text=str(error))
    return Run(
        made_by=operator,
        tensors=tuple(tensors),
        options=options,
        result=result,
        failure=failure,
    )


def applies(call: Call, row: OperatorVersion) -> bool:
    """Whether `row` has the attributes that the example gives, and the word for its reduction."""
    reduction = row.attribute("reduction")
    words = {each.reduction for each in reduction.choices} if reduction is not None else set()
    return (
        (call.batch_dims is None or row.attribute("batch_dims") is not None)
        and (call.use_init_val is None or row.attribute("use_init_val") is not None)
        and (call.reduction is None or call.reduction in words)
    )


def _options(call: Call, row: OperatorVersion) -> tuple[tuple[str, Option], ...]:
    """Return what is given by name; an axis goes where the row wants it, tensor or attribute."""
    reduction = None if call.reduction is None else call.reduction.value
    attribute = row.attribute("reduction")
    if attribute is not None:
        words = {each.reduction: each.word for each in attribute.choices}
        reduction = None if call.reduction is None else words.get(call.reduction, reduction)
    given: tuple[tuple[str, Option | None], ...] = (
        (Role.AXIS.value, call.axis),
        ("batch_dims", call.batch_dims),
        ("reduction", reduction),
        ("use_init_val", call.use_init_val),
    )
    return tuple((name, value) for name, value in given if value is not None)


_SQUARE: Nested = ((0, 1), (2, 3))
_COUNTED_CUBE: Nested = (((0, 1), (2, 3)), ((4, 5), (6, 7)))
_PAIR: Nested = ((1, 2), (3, 4))
_TWELVES: Nested = (
    ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12)),
    ((13, 14, 15, 16), (17, 18, 19, 20), (21, 22, 23, 24)),
)

_SLICES_OF_RANK_1 = Call(
    title="Example 4",
    why="The same two tuples on an axis more, which the result has too.",
    data=_COUNTED_CUBE,
    indices=(((0, 1),), ((1, 0),)),
)
_TUPLES = (
    Call(
        title="Example 1",
        why="Tuples as long as the rank of data: elements.",
        data=_SQUARE,
        indices=((0, 0), (1, 1)),
    ),
    Call(
        title="Example 2",
        why="Tuples of one index: rows.",
        data=_SQUARE,
        indices=((1,), (0,)),
    ),
    Call(
        title="Example 3",
        why="Tuples of two into three axes: rows of the last axis.",
        data=_COUNTED_CUBE,
        indices=((0, 1), (1, 0)),
    ),
    _SLICES_OF_RANK_1,
    Call(
        title="Example 5",
        why="One tuple for each of two batches.",
        data=_COUNTED_CUBE,
        indices=((1,), (0,)),
        batch_dims=1,
    ),
    replace(_SLICES_OF_RANK_1, title="Example 4 in float32", data_dtype="float32"),
)

_BATCHES = (
    Call(
        title="Example 1",
        why="Tuples as long as the rank of data: elements.",
        data=_PAIR,
        indices=((0, 0), (1, 0)),
    ),
    Call(title="Example 2", why="Tuples of one index: rows.", data=_PAIR, indices=((1,), (0,))),
    Call(
        title="Example 3",
        why="The same tuples on an axis more.",
        data=_PAIR,
        indices=(((1,),), ((0,),)),
    ),
    Call(
        title="Example 4",
        why="One tuple for each row, which is a batch.",
        data=_PAIR,
        indices=((1,), (0,)),
        batch_dims=1,
    ),
    Call(
        title="Example 5",
        why="One tuple for each of two batches, and a row from each.",
        data=_TWELVES,
        indices=((1,), (0,)),
        batch_dims=1,
    ),
    Call(
        title="Example 6",
        why="Two batch axes, so six batches; an element from each.",
        data=_TWELVES,
        indices=((((1,),), ((0,),), ((2,),)), (((0,),), ((2,),), ((2,),))),
        batch_dims=2,
    ),
    Call(
        title="Example 7",
        why="Three batch axes, so four batches.",
        data=((((1, 2, 3, 4), (5, 6, 7, 8)), ((9, 10, 11, 12), (13, 14, 15, 16))),),
        indices=((((1,), (0,)), ((3,), (2,))),),
        batch_dims=3,
    ),
)

_ELEMENTS = (
    Call(
        title="Example 1",
        why="Columns by their number, row by row.",
        data=_PAIR,
        indices=((0, 0), (1, 0)),
        axis=1,
    ),
    Call(
        title="Example 2",
        why="Rows by their number, column by column; fewer rows than data.",
        data=((1, 2, 3), (4, 5, 6), (7, 8, 9)),
        indices=((1, 2, 0), (2, 0, 0)),
        axis=0,
    ),
)

TEXT_EXAMPLES = {
    "ai.onnx GatherElements-11": _ELEMENTS,
    "ai.onnx GatherElements-13": _ELEMENTS,
    "ai.onnx GatherND-11": _TUPLES,
    "ai.onnx GatherND-12": _TUPLES,
    "ai.onnx GatherND-13": _TUPLES,
    "com.microsoft GatherND-1": _TUPLES,
    "openvino GatherND-8": _BATCHES,
}


# The layers of a text: the shapes of data and indices, and `batch_dims`.
TEXT_LAYERS = {
    "openvino GatherND-8": (
        ((1000, 256, 10, 15), (25, 125, 3), 0),
        ((30, 2, 100, 35), (30, 2, 3, 1), 2),
        ((1, 64, 64, 320), (1, 64, 64, 1, 1), 3),
    )
}


_PRECISIONS = {"int8": "I8", "int32": "I32", "int64": "I64"}


def in_a_model(run: Run) -> tuple[str, ...]:
    """Return the lines that write a call as a node or a layer."""
    return tuple(_layer(run) if run.made_by.domain == openvino.DOMAIN else _node(run))


def _node(run: Run) -> Iterator[str]:
    row = run.made_by.row
    yield "node = onnx.helper.make_node("
    yield f'    "{row.name}",'
    yield f"    inputs={_listed(each.name for each in row.inputs)},"
    yield f"    outputs={_listed(each.name for each in row.outputs)},"
    yield from (f"    {name}={_quoted(value)}," for name, value in run.options)
    if row.domain != DEFAULT_DOMAIN:
        yield f'    domain="{row.domain}",'
    yield ")"


def _layer(run: Run) -> Iterator[str]:
    row, axis = run.made_by.row, run.made_by.row.input(Role.AXIS)
    yield f'<layer id="2" name="{row.name}" type="{row.name}" version="opset{row.since}">'
    written = [f'{name}="{_in_xml(value)}"' for name, value in run.options if name in _names(row)]
    if written:
        yield f"    <data {' '.join(written)}/>"
    ports = [(_PRECISIONS[each.dtype.name], each.shape) for _, each in run.tensors]
    if axis is not None:
        ports.append(("I64", ()))
    yield "    <input>"
    for number, port in enumerate(ports):
        yield _port(number, *port)
    yield "    </input>"
    if run.result is not None:
        yield "    <output>"
        yield _port(len(ports), _PRECISIONS[run.result.dtype.name], run.result.shape)
        yield "    </output>"
    yield "</layer>"


def _names(row: OperatorVersion) -> set[str]:
    return {each.name for each in row.attributes}


def _in_xml(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _port(number: int, precision: str, shape: tuple[int, ...]) -> str:
    sizes = "".join(f"<dim>{size}</dim>" for size in shape)
    return f'        <port id="{number}" precision="{precision}">{sizes}</port>'


def _listed(names: Iterator[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(value: Option) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
