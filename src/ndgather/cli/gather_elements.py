"""``ndgather gather-elements``: copy single elements along one axis."""

from __future__ import annotations

from typing import Any

from ndgather.cli.gather_files import GatherCommand
from ndgather.published.schema import Kind

COMMAND = GatherCommand(
    kind=Kind.GATHER_ELEMENTS,
    summary="copy single elements along one axis",
    description="""\
Copy single elements of DATA: each entry of INDICES replaces the coordinate of
its own position along one axis. The result has the shape of INDICES.
""",
    examples="""\
examples:
  ndgather gather-elements scores.npy order.npy -o best.npy --axis 1
      scores (100, 20) and order (100, 5), from argsort, give best (100, 5)
""",
    options=("axis",),
)


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    COMMAND.add_to(commands)
