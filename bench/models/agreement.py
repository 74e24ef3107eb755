"""How far the outputs of two runs of a model are apart."""

from __future__ import annotations

from typing import Any

import numpy as np


def off(ours: list[Any], theirs: list[Any]) -> float:
    """Return how far outputs are off, in parts of the largest value of each."""
    worst = 0.0
    for one, given in zip(ours, theirs, strict=True):
        maps = isinstance(given, list)  # of a classifier: a row for each
        other = np.array([list(each.values()) for each in given]) if maps else given
        if one.dtype.kind not in "biuf":
            worst = max(worst, float(not np.array_equal(one, other)))
            continue
        wide = [each.astype(np.float64) for each in (one, other)]
        scale = float(np.nanmax(np.abs(wide[1]), initial=0)) or 1.0
        both = np.isnan(wide[0]) & np.isnan(wide[1])
        worst = max(
            worst, float(np.abs(np.where(both, 0, wide[0] - wide[1])).max(initial=0)) / scale
        )
    return worst
