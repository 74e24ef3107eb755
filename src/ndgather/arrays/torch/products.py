"""The product of all other updates of an element: how a product changes with one of its factors.

Updates are sorted by the row that they name, and products are made from both ends of each run of
equal rows, in steps that double. Nothing is divided, so that zeros are factors like all others,
and the result can be differentiated again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ndgather.arrays.torch.places import places

if TYPE_CHECKING:
    from ndgather.array_call import Call


def of_the_others(call: Call) -> torch.Tensor:
    """Return, for each update of a scatter, the product of the other updates of its element."""
    checked = replace(call, mode="wrap") if call.mode == "raise" else call
    named = places(checked)
    numbers = named.numbers.reshape(-1)
    if named.inside is not None:
        numbers = torch.where(named.inside.reshape(-1), numbers, named.count)
    order = torch.argsort(numbers, stable=True)
    rows = numbers[order]
    factors = call.updates.reshape(len(numbers), -1)[order]
    others = _before(factors, rows) * _before(factors.flip(0), rows.flip(0)).flip(0)
    back = torch.empty_like(order).scatter(0, order, torch.arange(len(order), device=order.device))
    return others[back].reshape(call.updates.shape)


def _before(factors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the product of the factors before each one in its run of equal rows."""
    product = _shifted(factors, rows, 1)
    reach = 1
    while reach < len(rows):
        product = product * _shifted(product, rows, reach)
        reach *= 2
    return product


def _shifted(factors: torch.Tensor, rows: torch.Tensor, by: int) -> torch.Tensor:
    """Return the factor that stands `by` before each one; 1 where that is of another row."""
    moved = torch.cat([torch.ones_like(factors[:by]), factors[:-by]])
    same = torch.cat([torch.zeros_like(rows[:by]).bool(), rows[by:] == rows[:-by]])
    return torch.where(same[:, None], moved, 1)
