"""The walk of a gather: pieces of each chunk are copied, here or by the workers of an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.log import LOGGER, counted
from ndgather.stored import executor_walk
from ndgather.stored.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader
    from ndgather.stored.pieces import Piece
    from ndgather.stored.steps import Steps


def copy_pieces(
    call: Call,
    reader: Reader,
    steps: Steps,
    pieces_of: Callable[[int, Chunk], list[Piece]],
) -> None:
    """Read the chunk of each step and copy its pieces.

    Raises
    ------
    StoredArrayError
        A chunk could not be read.
    """

    def use(step: int, chunk: Chunk, values: Array) -> None:
        for piece in pieces_of(step, chunk):
            piece.copy(values)

    if call.executor is None:
        walk(call, reader, len(steps), steps.chunk, use)
    else:
        executor_walk.walk(call, reader, len(steps), steps.chunk, pieces_of)
    LOGGER.info("%s: %s of %s read", call.caller, counted(len(steps), "chunk"), reader.name)
