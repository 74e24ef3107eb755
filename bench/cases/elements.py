"""One element for each index, along an axis."""

from __future__ import annotations

from functools import partial

from bench.case import Case

elements = partial(Case, group="elements", operator="gather_elements")

ELEMENTS = (
    elements(
        "elements-last",
        "take_along_axis after argsort of every row",
        (4096, 4096),
        (4096, 4096),
        axis=-1,
    ),
    elements(
        "elements-first",
        "the same along columns, whose stride is a power of two",
        (4096, 4096),
        (4096, 4096),
    ),
    elements("elements-first-odd", "columns of an array of odd size", (3001, 2999), (3001, 2999)),
    elements("elements-first-few", "five order statistics of each column", (4096, 4096), (5, 4096)),
    elements(
        "elements-middle",
        "reordering the time axis of a sensor x time x channel array",
        (64, 512, 256),
        (64, 512, 256),
        axis=1,
    ),
    elements(
        "elements-first-tall", "a few columns, a million rows each", (1 << 20, 8), (1 << 20, 8)
    ),
    elements(
        "elements-first-narrow",
        "36 features of 8000 patients, shuffled one by one for their importance",
        (8000, 36),
        (8000, 36),
    ),
    elements(
        "elements-cached",
        "one image row at a time: all in the cache",
        (256, 256),
        (256, 256),
        axis=-1,
    ),
    elements(
        "elements-by-columns",
        "sorting the columns of a table out of Fortran, R or MATLAB by their argsort",
        (2048, 2048),
        (2048, 2048),
        layout="transposed",
        index_layout="transposed",
    ),
    elements(
        "elements-mixed-order",
        "columns of an array in C order by an argsort that came out in Fortran order",
        (2000, 2000),
        (2000, 2000),
        index_layout="transposed",
    ),
    elements(
        "elements-reversed",
        "flipping an array along its columns",
        (4096, 2048),
        (4096, 2048),
        pattern="reversed",
    ),
    elements(
        "topk-scores",
        "language model: scores of the 50 best tokens of each position",
        (512, 32_000),
        (512, 50),
        axis=1,
    ),
    elements(
        "sensors-by-value",
        "two hours of one-second samples of 640 sensors, each sorted by itself",
        (7200, 640),
        (7200, 640),
    ),
    elements(
        "week-by-value",
        "a week of readings of each of 100,000 sensors in order of size, out of Fortran",
        (7, 100_000),
        (7, 100_000),
        layout="transposed",
        index_layout="transposed",
    ),
)
