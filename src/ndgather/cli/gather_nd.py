"""``ndgather gather-nd``: copy the elements or slices at index tuples."""

from __future__ import annotations

from typing import Any

from ndgather.cli.gather_files import GatherCommand
from ndgather.published.schema import Kind

COMMAND = GatherCommand(
    kind=Kind.GATHER_ND,
    summary="copy the elements or slices at index tuples",
    description="""\
Copy elements or slices of DATA. The last axis of INDICES holds index tuples of
length k, which address the first k axes of DATA after the batch axes. The
result has the shape INDICES.shape[:-1] + DATA.shape[batch_dims + k:].
""",
    examples="""\
examples:
  ndgather gather-nd dem.npy points.npy -o heights.npy
      dem (344, 403) and points (1000, 2) give heights (1000,)
  ndgather gather-nd images.npy frames.npy -o picked.npy --batch-dims 1
      images (8, 30, 64, 64) and frames (8, 5, 1) give picked (8, 5, 64, 64)
  ndgather gather-nd s3://bucket/era.zarr/t2m points.npy -o values.npy --dry-run
      how many chunks and bytes would be read
""",
    options=("batch_dims",),
)


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    COMMAND.add_to(commands)
