"""Checks of the indices that torch's own operators read, before they read them."""

from ndgather.arrays.torch.checked.block import check_program as check_program
from ndgather.arrays.torch.checked.block import checked_indices

__all__ = ["checked_indices"]
