"""``ndgather gather``: copy whole slices along one axis."""

from __future__ import annotations

from typing import Any

from ndgather.cli.gather_files import GatherCommand
from ndgather.published.schema import Kind

COMMAND = GatherCommand(
    kind=Kind.GATHER,
    summary="copy whole slices along one axis",
    description="""\
Copy the slices of DATA that INDICES select along one axis. The result has the
shape of DATA with that axis replaced by the axes of INDICES.
""",
    examples="""\
examples:
  ndgather gather embeddings.npy tokens.npy -o vectors.npy
      embeddings (32000, 256) and tokens (4, 128) give vectors (4, 128, 256)
""",
    options=("axis", "batch_dims"),
)


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    COMMAND.add_to(commands)
