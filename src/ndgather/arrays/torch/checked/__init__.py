"""Index checks that run before torch's own operators."""

from ndgather.arrays.torch.checked.block import check_program as check_program
from ndgather.arrays.torch.checked.block import checked_indices

__all__ = ["checked_indices"]
