"""``ndgather scatter-nd``: update the elements or slices at index tuples."""

from __future__ import annotations

from typing import Any

from ndgather.cli.scatter_files import ScatterCommand
from ndgather.published.schema import Kind

COMMAND = ScatterCommand(
    kind=Kind.SCATTER_ND,
    summary="update the elements or slices at index tuples",
    description="""\
Let UPDATES replace, or be combined with, elements or slices of DATA. The last
axis of INDICES holds index tuples of length k, which address the first k axes
of DATA. UPDATES has the shape INDICES.shape[:-1] + DATA.shape[k:]. Where tuples
repeat, updates are applied in their order.
""",
    examples="""\
examples:
  ndgather scatter-nd map.npy cells.npy heights.npy -o new.npy
      map (344, 403), cells (1000, 2) and heights (1000,) give new (344, 403)
  ndgather scatter-nd counts.npy cells.npy ones.npy --in-place --reduction add
      a histogram: cells that repeat are added up
  ndgather scatter-nd era.zarr/t2m points.npy values.npy --in-place
      reads and writes only the chunks in which there are points
""",
)


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    COMMAND.add_to(commands)
