"""Which index is out of bounds: positions that torch reads, checked before it reads them."""

from ndgather.arrays.torch.checked.block import check_program as check_program
from ndgather.arrays.torch.checked.block import checked_indices

__all__ = ["checked_indices"]
