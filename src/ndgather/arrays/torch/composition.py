"""Gathers and scatters composed of torch's own functions, for any device and tensor class.

`ndgather.arrays.lowering` contains the algorithm, which calls the torch functions in this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ndgather import messages, reductions, windows
from ndgather.array_call import Call
from ndgather.arrays import lowering
from ndgather.arrays.torch import checks

# torch has few functions for these dtypes, so process their bits as signed integers.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view with the same bits in a dtype that torch's functions support."""
    if tensor.dtype == torch.bfloat16:
        return tensor
    tensor = checks.bits_of(tensor)
    return _viewed(tensor, _SIGNED.get(tensor.dtype, tensor.dtype))


def _viewed(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """View a tensor in a dtype. A tensor of this dtype is returned as is, with its gradient."""
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


class Steps(reductions.Steps):
    """The torch functions that `reductions.in_steps` calls, except for `scatter`."""

    cast, complex, real, imag, maximum = map(
        staticmethod, (torch.Tensor.to, torch.complex, torch.real, torch.imag, torch.clamp)
    )

    def start(self, updates: torch.Tensor, reduction: str) -> torch.Tensor:
        return torch.full_like(updates, checks.identity(updates.dtype, reduction))

    def counts(self, array: torch.Tensor, count: int) -> torch.Tensor:
        layout = torch.contiguous_format
        return torch.full_like(array, count, dtype=torch.int64, memory_format=layout)

    def wide(self, dtype: torch.dtype) -> tuple[str, Any]:
        if not dtype.is_floating_point:
            return "c" if dtype.is_complex else "i", torch.int64
        return "f", dtype if dtype.itemsize >= 4 else torch.float32

    def quotient(self, totals: torch.Tensor, counts: torch.Tensor, where: Any) -> torch.Tensor:
        if totals.dtype != torch.uint64:
            return super().quotient(totals, counts, where)
        # torch cannot divide uint64, and totals of 2**63 or more are negative as int64.
        # Dividing half of a total and doubling the quotient gives a result at most 1 too small.
        bits, counts = totals.view(torch.int64), counts.clamp(1)
        halves = ((bits >> 1) & windows.LARGEST) // counts * 2
        return (halves + (bits - halves * counts >= counts)).view(torch.uint64)


class TorchLibrary(Steps, lowering.Library):
    """The torch functions that `lowering` calls, for tensors on the device of data."""

    def __init__(self, data: torch.Tensor, caller: str = "") -> None:
        super().__init__(torch, data, device=data.device)
        self.caller = caller

    def integers(self, indices: torch.Tensor, modulus: int | None) -> torch.Tensor:
        if indices.dtype != torch.uint64:
            values = indices.to(torch.int64)
            return values if modulus is None else values.remainder(modulus)
        bits = indices.view(torch.int64)  # values of 2**63 or more become negative
        if modulus is None:
            return torch.where(bits < 0, windows.LARGEST, bits)
        beyond = torch.where(bits < 0, 2**64 % modulus, 0)
        return (bits.remainder(modulus) + beyond).remainder(modulus)

    def raise_if_any(self, outside: torch.Tensor, error: Callable[[Any], Exception]) -> bool:
        """Raise the error for the first flag that is set, unless data is on the meta device."""
        if outside.device.type != "meta" and bool(outside.any()):
            raise error(outside.reshape(-1).to(torch.uint8).argmax())
        return True

    def count(self, flags: torch.Tensor) -> torch.Tensor:
        return flags.sum()

    def clip(self, values: torch.Tensor, lowest: int, highest: int) -> torch.Tensor:
        return values.clamp(lowest, highest)

    def where(self, condition: torch.Tensor, true: Any, false: torch.Tensor) -> torch.Tensor:
        if isinstance(true, torch.Tensor):
            return _viewed(torch.where(condition, _bits(true), _bits(false)), false.dtype)
        return torch.where(condition, true, false)

    def full(self, shape: Any, element: Any) -> torch.Tensor:
        if not element and "-" not in str(element):  # all bits of 0 are 0 in every dtype
            return _viewed(_bits(self.data).new_zeros(tuple(shape)), self.data.dtype)
        return self.data.new_full(tuple(shape), element)

    def take(self, data: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return _viewed(_bits(data).index_select(1, numbers), data.dtype)

    def scatter(self, rows: torch.Tensor, updates: torch.Tensor, reduction: str) -> torch.Tensor:
        """Combine updates with the rows at `numbers`; an extra row receives dropped updates."""
        if not self.drops:
            return self._combine(rows, updates, reduction).contiguous()
        padded = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
        return self._combine(padded, updates, reduction)[:-1].contiguous()

    def _combine(self, rows: torch.Tensor, updates: torch.Tensor, reduction: str) -> torch.Tensor:
        numbers, row = self.numbers, reductions.ROWS[reduction]
        if reduction == "none":
            return self._replace(rows, updates)
        if rows.dtype == torch.bool:
            bits = rows.to(torch.int32), updates.to(torch.int32)
            return self._combine(*bits, row.of_bits) % 2 == 1
        if rows.dtype in _SIGNED:
            signed, lowest = _SIGNED[rows.dtype], torch.iinfo(_SIGNED[rows.dtype]).min
            moved = lowest if row.takes else 0  # flip the sign bit to keep the order
            bits = rows.view(signed) ^ moved, updates.view(signed) ^ moved
            return (self._combine(*bits, reduction) ^ moved).view(rows.dtype)
        if rows.dtype.is_floating_point and rows.dtype.itemsize == 1:  # torch cannot add float8
            return self._combine(rows.float(), updates.float(), reduction).to(rows.dtype)
        if row.added:
            return rows.index_add(0, numbers, updates, alpha=row.added)
        if not row.torch:
            raise messages.no_reduction(self.caller, reduction, "torch")
        return rows.scatter_reduce(0, numbers[:, None].expand(updates.shape), updates, row.torch)

    def _replace(self, rows: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        """Replace rows with their last updates, even if the device writes in arbitrary order."""
        if not len(updates):
            return rows.clone()
        last = self.numbers.new_full((len(rows),), -1)
        last = last.scatter_reduce(0, self.numbers, self.arange(len(updates)), "amax")
        taken = _bits(updates).index_select(0, last.clamp(min=0))
        return _viewed(torch.where((last >= 0)[:, None], taken, _bits(rows)), rows.dtype)


def run(call: Call) -> torch.Tensor:
    """Run a call with validated options on the device of its tensors."""
    checks.check_shapes(call)
    library = TorchLibrary(call.data, call.caller)
    shapes = call.data.shape, call.indices.shape
    if call.scatters:
        return lowering.scatter(call, library, *shapes)
    fill = 0 if call.fill_value is None else call.fill_value
    return lowering.gather(call, library, *shapes, fill)


def row_numbers(call: Call) -> tuple[int, torch.Tensor]:
    """Return the row count and each position's row. Out-of-bounds positions get the row count."""
    library, shapes = TorchLibrary(call.data), (call.data.shape, call.indices.shape)
    layout, numbers, outside = lowering.rows_of(call, library, *shapes)
    if outside is not None:
        numbers = torch.where(outside, layout.count, numbers)
    return layout.count, numbers
