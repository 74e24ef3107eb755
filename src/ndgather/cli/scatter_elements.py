"""``ndgather scatter-elements``: update single elements along one axis."""

from __future__ import annotations

from typing import Any

from ndgather.cli.scatter_files import ScatterCommand
from ndgather.published.schema import Kind

COMMAND = ScatterCommand(
    kind=Kind.SCATTER_ELEMENTS,
    summary="update single elements along one axis",
    description="""\
Let UPDATES replace, or be combined with, single elements of DATA: each entry of
INDICES replaces the coordinate of its own position along one axis. UPDATES has
the shape of INDICES. Where places repeat, updates are applied in their order.
""",
    examples="""\
examples:
  ndgather scatter-elements scores.npy order.npy best.npy -o new.npy --axis 1
      scores (100, 20), order (100, 5) and best (100, 5) give new (100, 20)
""",
    has_axis=True,
)


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    COMMAND.add_to(commands)
