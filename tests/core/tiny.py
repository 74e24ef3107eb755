"""A pytest plugin for the core with tiny limits.

Each test uses a different number of threads, and calls of the functions for stored arrays and
ranges that cross a limit are counted.
"""

import itertools
from collections import Counter

import numpy as np

import ndgather
from ndgather.array_call import _core

THREADS = itertools.cycle((1, 2, 3, 7))
CROSSED = Counter()


def count(border, crossed):
    CROSSED[border] += bool(crossed)


def sorted_points(given, answer):
    _, steps, _, _, positions = given
    count("points in several tiles", len(positions) > 4)
    count("chunks of different lengths", any(isinstance(step, np.ndarray) for step in steps))
    if isinstance(answer, tuple) and len(answer) == 2 and len(answer[0]):
        count("chunks sorted by several digits", answer[0].max() - answer[0].min() >= 4)


def moved_points(given, _):
    starts, stops = given[6:8]
    count("points of one chunk in several tiles", len(stops) and (stops - starts).max() > 4)


def looked_up(_, answer):
    missing = isinstance(answer, tuple) and len(answer) == 2
    count("chunks that are not in the table", missing)
    count("as many of them as are listed, or more", missing and len(answer[0]) == 2)


def made_table(_, answer):
    count("more chunks than a table has", answer is None)


def count_ranges(nbytes):
    count("ranges in several tasks", nbytes >= 32 and ndgather.get_num_threads() > 1)


def copied_ranges(given, _):
    _, axis, _, lengths, _, out = given
    count_ranges(lengths.sum() * out.nbytes // max(out.shape[axis], 1))


def gathered_ranges(_, answer):
    count_ranges(0 if answer is None else answer[0].nbytes)


WATCHED = {
    "sort_points": sorted_points,
    "move_points": moved_points,
    "look_up": looked_up,
    "chunk_table": made_table,
    "copy_ranges": copied_ranges,
    "gather_ranges": gathered_ranges,
}


def watched(function, look):
    def call(*given):
        answer = function(*given)
        look(given, answer)
        return answer

    return call


def pytest_configure():
    for name, look in WATCHED.items():
        setattr(_core, name, watched(getattr(_core, name), look))


def pytest_runtest_setup():
    ndgather.set_num_threads(next(THREADS))


def pytest_terminal_summary(terminalreporter):
    for border, calls in CROSSED.items():
        terminalreporter.write_line(f"{calls:8}  {border}")
