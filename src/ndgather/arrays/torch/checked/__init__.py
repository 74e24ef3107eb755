"""Which index is out of bounds: positions that torch reads, checked before it reads them."""

from ndgather.arrays.torch.checked.block import check_program, checked_indices

__all__ = ["check_program", "checked_indices"]
