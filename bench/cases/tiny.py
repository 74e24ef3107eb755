"""Tiny calls: what a call costs when there is hardly anything to gather."""

from __future__ import annotations

from functools import partial

from bench.case import Case

gather_nd = partial(Case, group="tiny", operator="gather_nd")
gather_elements = partial(Case, group="tiny", operator="gather_elements")
gather = partial(Case, group="tiny", operator="gather")
scatter_nd = partial(Case, group="tiny", operator="scatter_nd")

TINY = (
    gather_nd(
        "call-nd-4x4",
        "cost of one tiny gather_nd, as inside a Python loop over objects",
        (4, 4),
        (4, 2),
    ),
    gather_elements(
        "call-elements-4x4",
        "cost of one tiny gather_elements, as in a control loop or a game",
        (4, 4),
        (4, 4),
        axis=1,
    ),
    gather_nd(
        "call-nd-varied",
        "tiny calls whose shapes change every time: nothing kept from the last call helps",
        (4, 4),
        (4, 2),
        varied_shapes=True,
    ),
    gather_elements(
        "call-elements-varied",
        "ragged records, one tiny gather_elements each",
        (4, 4),
        (4, 4),
        axis=1,
        varied_shapes=True,
    ),
    gather("call-gather-4x4", "cost of picking a few rows of a tiny table", (4, 4), (4,)),
    gather_nd(
        "call-nd-4x4-out",
        "a tiny call in a loop that keeps its output buffer",
        (4, 4),
        (4, 2),
        output="given",
    ),
    scatter_nd("call-scatter-4x4", "cost of one tiny scatter_nd", (4, 4), (4, 2), reduction="add"),
    gather("labels-1024", "names of the labels of a batch of 1024 samples", (1000,), (1024,)),
    gather_nd("call-nd-1000", "a thousand lookups in a small table", (100, 100), (1000, 2)),
    gather_nd(
        "lidar-sweeps",
        "twenty thousand lidar returns looked up in an occupancy grid",
        (300, 300),
        (20_000, 2),
    ),
)
