"""The examples of the published texts, by the versions whose text has them."""

from __future__ import annotations

from dataclasses import replace

from ndgather.pages.examples import Call, Nested

_SQUARE: Nested = ((0, 1), (2, 3))
_CUBE: Nested = (((0, 1), (2, 3)), ((4, 5), (6, 7)))
_PAIR: Nested = ((1, 2), (3, 4))
_TWELVES: Nested = (
    ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12)),
    ((13, 14, 15, 16), (17, 18, 19, 20), (21, 22, 23, 24)),
)

_SLICES_OF_RANK_1 = Call(
    title="Example 4",
    why="The same two tuples on an axis more, which the result has too.",
    data=_CUBE,
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
        data=_CUBE,
        indices=((0, 1), (1, 0)),
    ),
    _SLICES_OF_RANK_1,
    Call(
        title="Example 5",
        why="One tuple for each of two batches.",
        data=_CUBE,
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
