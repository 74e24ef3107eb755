"""``ndgather gather``: copy whole slices along one axis."""

from __future__ import annotations

from typing import Any

from ndgather.cli.gather_files import GatherCommand
from ndgather.published.schema import Kind


def _shape(
    data: tuple[int, ...], indices: tuple[int, ...], axis: int = 0, batch_dims: int = 0
) -> tuple[int, ...]:
    axis += len(data) if axis < 0 else 0
    batch_dims += len(indices) if batch_dims < 0 else 0
    return data[:axis] + indices[batch_dims:] + data[axis + 1 :]


COMMAND = GatherCommand(
    kind=Kind.GATHER,
    summary="copy whole slices along one axis",
    description="""\
Copy slices of DATA along one axis: INDICES say which. The result has the shape
of DATA with that axis replaced by the axes of INDICES.
""",
    examples="""\
examples:
  ndgather gather embeddings.npy tokens.npy -o vectors.npy
      embeddings (32000, 256) and tokens (4, 128) give vectors (4, 128, 256)
""",
    shape=_shape,
    options=("axis", "batch_dims"),
)


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    COMMAND.add_to(commands)
