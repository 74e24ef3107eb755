"""The table of benchmark cases: sound, reproducible, and each answered as plain loops answer it."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from math import expm1, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bench.case import LINE_BYTES, Case
from bench.cases import CASES, GROWTH, select
from bench.measure import check
from bench.peers import ORACLE, OWN, PEERS

from ndgather import reference

if TYPE_CHECKING:
    from collections.abc import Callable

REDUCED_ELEMENTS = 1000

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def plain_loop(case: Case, data: Any, indices: Any, updates: Any) -> Any:
    """Return the answer of the defining loops, scatters included."""
    if not case.is_scatter:
        options = {"batch_dims": case.batch_dims} if case.batch_dims else {}
        options |= {} if case.has_tuples else {"axis": case.axis}
        function: Callable[..., Any] = getattr(reference, case.operator)
        return function(data, indices, **options)
    combine: dict[str, Callable[[Any, Any], Any]] = {
        "none": lambda _, new: new,
        "add": lambda old, new: old + new,
        "max": max,
    }
    result = data.copy()
    for p in np.ndindex(indices.shape[:-1] if case.has_tuples else indices.shape):
        if case.has_tuples:
            place: Any = tuple(indices[p])
        else:
            axis = case.axis % data.ndim
            place = (*p[:axis], indices[p], *p[axis + 1 :])
        result[place] = combine[case.reduction](result[place], updates[p])
    return result


def test_forty_cases_with_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 40
    assert len(set(names)) == len(names)


@every_case
def test_says_who_makes_such_a_call(case: Case) -> None:
    assert len(case.why) > 20
    assert case.why != case.name


@every_case
def test_reasons_are_not_copied(case: Case) -> None:
    assert [other.name for other in CASES if other.why == case.why] == [case.name]


def test_table_covers_what_it_promises() -> None:
    operators = {"gather_nd", "gather_elements", "gather", "scatter_nd", "scatter_elements"}
    assert {case.operator for case in CASES} == operators
    assert {case.index_dtype for case in CASES} == {"int32", "int64"}
    tuples = [case for case in CASES if case.operator == "gather_nd"]
    assert {case.index_shape[-1] for case in tuples} == {1, 2, 3, 4, 5}
    assert {case.batch_dims for case in tuples} == {0, 1, 2, 3}
    assert {case.item_bytes for case in CASES} == {1, 2, 4, 8, 16}
    assert {case.size_class for case in CASES} == {"L1", "L2", "L3", "memory", "1 GB+"}
    patterns = {"random", "sorted", "reversed", "repeated", "unique", "warped"}
    assert {case.pattern for case in CASES} == patterns
    layouts = {"C", "transposed", "every second row", "every second column"}
    assert {case.layout for case in CASES} == layouts
    assert {case.index_layout for case in CASES} == {"C", "transposed"}
    assert {case.output for case in CASES} == {"new", "given", "data"}


def threshold(name: str) -> float:
    """Return the value of a constant that the core's rules compare with."""
    core = Path(__file__).parents[2] / "core"
    files = ("choose.cpp", "choose.h", "copy.h", "memory.h", "offsets.h")
    text = "".join((core / file).read_text() for file in files)
    found = re.search(rf"\b{name} = (?:Size|std::size_t)?{{?([0-9'.]+)}}?(?: << ([0-9]+))?;", text)
    assert found, f"no constant {name}"
    return float(found[1].replace("'", "")) * 2 ** int(found[2] or 0)


def nanoseconds(case: Case) -> float:
    """Return the estimate that the core makes of single elements in a near cache."""
    return case.lookups * (1 + 0.5 * len(case.indexed_axes) + case.item_bytes / 16)


RULES = {
    "few in one run": (
        ("draws-small", "draws-larger"),
        lambda case: case.lookups,
        lambda: threshold("kFewOfOneRun") + 1,
    ),
    "few in runs": (
        ("draws-of-runs", "draws-of-longer-runs"),
        lambda case: case.lookups,
        lambda: threshold("kFewPositions") + 1,
    ),
    "few bytes": (
        ("draws-of-256B", "draws-of-260B"),
        lambda case: case.output_bytes,
        lambda: threshold("kFewBytes") + 1,
    ),
    "threads awake": (
        ("threads-none", "threads-awake"),
        nanoseconds,
        lambda: threshold("kThreadsFromAwake"),
    ),
    "threads": (
        ("threads-awake", "threads-woken"),
        nanoseconds,
        lambda: threshold("kThreadsFrom"),
    ),
    "slices cut": (
        ("frames-few", "frames-many"),
        lambda case: case.lookups,
        lambda: 2 * 16,
    ),
    "near places": (
        ("points-near", "points-not-near"),
        lambda case: case.reach_bytes,
        lambda: threshold("kNear") + 1,
    ),
    "held from call to call": (
        ("indices-held", "indices-asked-for"),
        lambda case: 8 * case.lookups + case.output_bytes + case.data_bytes,
        lambda: threshold("kAskedAhead"),
    ),
    "pool of results": (
        ("result-small", "result-pooled"),
        lambda case: case.output_bytes,
        lambda: threshold("kLarge"),
    ),
    "near columns": (
        ("order-near-columns", "order-tall-columns"),
        lambda case: case.data_shape[0] * LINE_BYTES,
        lambda: threshold("kNearColumn") + 1,
    ),
    "size for tiles": (
        ("tiles-small", "tiles-large-enough"),
        lambda case: case.lookups,
        lambda: threshold("kTilesFrom"),
    ),
    "columns of indices for tiles": (
        ("tiles-of-three", "tiles-of-seven"),
        lambda case: case.index_shape[0],
        lambda: threshold("kTileRowsFrom"),
    ),
    "columns of indices that are looked at together": (
        ("tiles-joined", "tiles-apart"),
        lambda case: case.index_shape[0] * 16,
        lambda: threshold("kJoinedPlaces") + 1,
    ),
    "slices packed": (
        ("slices-seldom", "slices-often"),
        lambda case: case.index_shape[0],
        lambda: threshold("kLooksToPackAlone") * 2000,
    ),
    "packed by one thread": (
        ("packed-alone", "packed-shared"),
        lambda case: (
            case.data_bytes / 2
            + case.output_bytes / 16
            + 5.5 * (case.data_shape[0] + case.index_shape[0])
        ),
        lambda: threshold("kHandedOver"),
    ),
    "long slices": (
        ("scatter-slices-short", "scatter-slices-long"),
        lambda case: case.data_shape[-1],
        lambda: threshold("kLongSlice"),
    ),
    "repeated runs": (
        ("columns-few-enough", "columns-one-too-many"),
        lambda case: case.index_shape[0],
        lambda: threshold("kBlock") + 1,
    ),
    "slices split": (
        ("slices-whole", "slices-split"),
        lambda case: case.data_bytes,
        lambda: threshold("kSplitFrom"),
    ),
    "slices of part of a line": (
        ("slices-of-sevens", "slices-of-nines"),
        lambda case: max(part for part in range(1, 17) if case.data_shape[-1] % part == 0),
        lambda: LINE_BYTES / 4 / 2,
    ),
    "slices of part of a line written to": (
        ("scatter-slices-of-threes", "scatter-slices-of-fives"),
        lambda case: max(part for part in range(1, 17) if case.data_shape[-1] % part == 0),
        lambda: threshold("kFewOfLine"),
    ),
    "slices of whole lines": (
        ("slices-of-57", "slices-of-48"),
        lambda case: (case.slice_bytes - 1) % LINE_BYTES + 1,
        lambda: LINE_BYTES,
    ),
    "height of bands": (
        ("bands-tallest", "bands-too-tall"),
        lambda case: case.data_shape[0] * threshold("kBandBytes"),
        lambda: threshold("kBandBuffer") + 1,
    ),
    "looks at bands": (
        ("bands-few-looks", "bands-enough-looks"),
        lambda case: case.index_shape[0],
        lambda: 4096 // 2,
    ),
    "short runs": (
        ("runs-short", "runs-longer"),
        lambda case: case.index_shape[1],
        lambda: threshold("kShortRun") + 1,
    ),
    "rows of bands": (
        ("bands-few-rows", "bands-more-rows"),
        lambda case: case.data_shape[0],
        lambda: threshold("kFewRows") + 1,
    ),
    "size for bands of few rows": (
        ("bands-few-narrow-rows", "bands-few-rows"),
        lambda case: case.data_bytes,
        lambda: threshold("kFewRowsFrom"),
    ),
    "bands past the caches": (
        ("bands-through-caches", "bands-past-caches"),
        lambda case: case.output_bytes,
        lambda: threshold("kStreamedBands"),
    ),
    "size for bands": (
        ("bands-small", "bands-large-enough"),
        lambda case: case.data_bytes,
        lambda: threshold("kBandsFrom"),
    ),
    "strips of scatters": (
        ("scatter-strips-two", "scatter-strips-four"),
        lambda case: case.data_bytes / case.data_shape[0],
        lambda: threshold("kStripFrom") * 2 * 2,
    ),
    "size for bands of scatters": (
        ("scatter-bands-small", "scatter-bands-large-enough"),
        lambda case: case.data_bytes,
        lambda: threshold("kScatterBandsFrom"),
    ),
    "bands apart": (
        ("bands-apart", "bands-side-by-side"),
        lambda case: case.data_bytes,
        lambda: threshold("kApart"),
    ),
    "scatter of rows by place": (
        ("scatter-rows-few", "scatter-rows-more"),
        lambda case: case.data_shape[0],
        lambda: threshold("kRowsFrom"),
    ),
    "updates shared where no place is repeated": (
        ("scatter-rows-188B", "scatter-rows-192B"),
        lambda case: case.slice_bytes,
        lambda: threshold("kMarkedRow"),
    ),
    "size for updates shared where no place is repeated": (
        ("scatter-slots-few", "scatter-slots-more"),
        lambda case: case.data_bytes,
        lambda: threshold("kMarkedFrom"),
    ),
    "sums shared where no place is repeated": (
        ("scatter-add-rows-252B", "scatter-add-rows-256B"),
        lambda case: case.slice_bytes,
        lambda: threshold("kMarkedSumRow"),
    ),
    "size for sums shared where no place is repeated": (
        ("scatter-add-slots-few", "scatter-add-slots-more"),
        lambda case: case.data_bytes,
        lambda: threshold("kMarkedSumsFrom"),
    ),
    "short updates shared where no place is repeated": (
        ("scatter-rows-60B", "scatter-rows-64B"),
        lambda case: case.slice_bytes,
        lambda: threshold("kLine"),
    ),
    "size for short updates shared where no place is repeated": (
        ("scatter-nodes-fit", "scatter-nodes-spill"),
        lambda case: case.lookups * case.slice_bytes,
        lambda: threshold("kApart"),
    ),
    "rows past the caches": (
        ("rows-4000B", "rows-4KB"),
        lambda case: case.slice_bytes,
        lambda: threshold("kStreamedRow"),
    ),
    "rows out of a cache past the caches": (
        ("rows-480B-cached", "rows-512B-cached"),
        lambda case: case.slice_bytes,
        lambda: threshold("kStreamedNearRow"),
    ),
    "data that a cache holds": (
        ("rows-512B-cached", "rows-512B-spill"),
        lambda case: case.data_bytes,
        lambda: threshold("kStreamedFrom") / 2 + 1,
    ),
    "updates past the caches": (
        ("scatter-rows-960B", "scatter-rows-1KB"),
        lambda case: case.slice_bytes,
        lambda: threshold("kStreamedUpdate"),
    ),
    "rows past the caches, line by line": (
        ("rows-480B-spill", "rows-512B-spill"),
        lambda case: case.slice_bytes,
        lambda: threshold("kLinedRow"),
    ),
    "rows out of a cache past the caches, line by line": (
        ("rows-156B-cached", "rows-160B-cached"),
        lambda case: case.slice_bytes,
        lambda: threshold("kLinedNearRow"),
    ),
    "updates past the caches, line by line": (
        ("scatter-rows-480B", "scatter-rows-512B"),
        lambda case: case.slice_bytes,
        lambda: threshold("kLinedUpdate"),
    ),
    "results past the caches, line by line": (
        ("clips-fit", "clips-spill"),
        lambda case: (
            case.output_bytes + case.data_bytes * -expm1(-case.output_bytes / case.data_bytes)
        ),
        lambda: threshold("kLinedFrom"),
    ),
    "elements past the caches": (
        ("elements-8B", "elements-16B"),
        lambda case: case.item_bytes,
        lambda: threshold("kStreamedElement") + 1,
    ),
    "large results past the caches": (
        ("records-fit", "records-spill"),
        lambda case: case.output_bytes,
        lambda: threshold("kStreamedFrom"),
    ),
    "scatter of so many bytes of rows by place": (
        ("scatter-rows-64000B", "scatter-rows-96KB"),
        lambda case: case.data_bytes,
        lambda: threshold("kRowBytesFrom"),
    ),
    "scatter of cut rows": (
        ("scatter-rows-16000B", "scatter-rows-16KB"),
        lambda case: case.slice_bytes,
        lambda: threshold("kSlicePartFrom") * 2,
    ),
}


@pytest.mark.parametrize(("names", "measured", "least"), RULES.values(), ids=RULES)
def test_cases_stand_close_on_both_sides_of_each_rule(
    names: tuple[str, str], measured: Callable[[Case], float], least: Callable[[], float]
) -> None:
    below, beyond = (measured(case) for name in names for case in select([name]))
    assert below < least() <= beyond
    assert beyond <= 10 * below


def test_every_case_of_the_rules_is_one_of_a_pair() -> None:
    pairs = {name for names, _, _ in RULES.values() for name in names}
    assert {case.name for case in select(groups=["rules"])} == pairs


def test_every_group_has_a_title_in_the_chart() -> None:
    pytest.importorskip("matplotlib")
    titled = import_module("bench.chart").GROUP_TITLES
    assert {case.group for case in CASES} <= set(titled)


def test_growth_spans_six_decades_of_four_kinds() -> None:
    assert len({case.group for case in GROWTH}) == 4
    for group in {case.group for case in GROWTH}:
        sizes = [prod(case.gathered_shape) for case in GROWTH if case.group == group]
        assert sizes == sorted(sizes)
        assert sizes[-1] / sizes[0] >= 6e5
        for decade, size in enumerate(sizes, 1):
            assert size == pytest.approx(10**decade, rel=0.6)


def test_select_matches_names_and_groups() -> None:
    assert [case.name for case in select(["points-1GB"])] == ["points-1GB"]
    assert {case.group for case in select(groups=["foundation"])} == {"foundation"}
    assert select(["no such case"]) == ()


def test_cases_are_selected_by_any_of_several_patterns() -> None:
    assert [case.name for case in select(["threads-*", "points-1GB", "points-1*"])] == [
        case.name for case in CASES if case.name.startswith(("threads-", "points-1"))
    ]
    assert {case.group for case in select(groups=["cal*", "foundation"])} == {"call", "foundation"}


@every_case
def test_arrays_fit_the_stated_shapes(case: Case) -> None:
    for variant in case.reduced(REDUCED_ELEMENTS).variants():
        arrays = variant.arrays()
        assert arrays.data.shape == variant.data_shape
        assert arrays.data.dtype == variant.dtype
        assert arrays.indices.shape == variant.index_shape
        assert arrays.indices.dtype == variant.index_dtype
        if arrays.updates is not None:
            assert arrays.updates.shape == variant.gathered_shape
            assert arrays.updates.dtype == variant.dtype
        if arrays.out is not None:
            assert arrays.out.shape == variant.output_shape
        assert (variant.layout == "C") == arrays.data.flags.c_contiguous
        assert (variant.index_layout == "C") == arrays.indices.flags.c_contiguous
        sizes = [variant.data_shape[axis] for axis in variant.indexed_axes]
        values = arrays.indices if variant.has_tuples else arrays.indices[..., None]
        assert values.min() >= 0
        np.testing.assert_array_less(values.max(axis=tuple(range(values.ndim - 1))), sizes)


@every_case
def test_same_seed_same_arrays(case: Case) -> None:
    small = case.reduced(REDUCED_ELEMENTS)
    np.testing.assert_array_equal(small.arrays().data, small.arrays().data, strict=True)
    np.testing.assert_array_equal(small.arrays().indices, small.arrays().indices, strict=True)


@every_case
def test_reduced_keeps_the_kind(case: Case) -> None:
    small = case.reduced(REDUCED_ELEMENTS)
    shapes = {"data_shape": case.data_shape, "index_shape": case.index_shape}
    assert replace(small, **shapes) == case
    assert max(prod(small.data_shape), prod(small.gathered_shape)) <= 8**5
    if case.has_tuples:
        assert small.index_shape[-1] == case.index_shape[-1]


@every_case
def test_oracle_agrees_with_plain_loops(case: Case) -> None:
    small = case.reduced(REDUCED_ELEMENTS)
    for variant in small.variants()[::9]:
        for name, bind in ORACLE.prepare(variant, 1).items():
            arrays = variant.arrays()
            expected = plain_loop(variant, arrays.data, arrays.indices, arrays.updates)
            call = bind(variant, arrays)
            np.testing.assert_array_equal(
                call.answer(call.run()), expected, err_msg=name, strict=True
            )


@every_case
def test_own_answer_is_right_or_the_function_is_missing(case: Case) -> None:
    refusals, failed = check(case.reduced(REDUCED_ELEMENTS), [OWN], threads=2)
    assert not failed, refusals


def test_peers_have_names_of_their_own() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def case_of(**changes: Any) -> Case:
    """Return a small case; a slice is one row of 16 float32, which is one cache line."""
    row = Case(
        name="row",
        why="made up",
        group="none",
        operator="gather_nd",
        data_shape=(100, 16),
        index_shape=(10, 1),
        pattern="unique",
    )
    return replace(row, **changes)


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        pytest.param({}, 10 * 8 + 10 * LINE_BYTES + 10 * 64, id="rows"),
        pytest.param(
            {"data_shape": (10, 80)}, 10 * 8 + 10 * 5 * LINE_BYTES + 10 * 320, id="wide rows"
        ),
        pytest.param({"index_dtype": "int32"}, 10 * 4 + 2 * 10 * 64, id="int32 indices"),
        pytest.param(
            {"index_shape": (1600, 2), "pattern": "reversed"},
            1600 * 16 + 100 * LINE_BYTES + 1600 * 4,
            id="every element",
        ),
        pytest.param(
            {"pattern": "repeated", "index_shape": (5000, 1), "data_shape": (1, 16)},
            5000 * 8 + LINE_BYTES + 5000 * 64,
            id="one place",
        ),
        pytest.param(
            {"operator": "gather_elements", "axis": 0, "index_shape": (100, 16)},
            1600 * 8 + 100 * LINE_BYTES + 1600 * 4,
            id="a line is counted once",
        ),
        pytest.param({"layout": "every second row"}, 10 * 8 + 2 * 10 * 64, id="rows apart"),
        pytest.param(
            {"layout": "transposed", "data_shape": (16, 100), "index_shape": (16, 1)},
            16 * 8 + 100 * LINE_BYTES + 1600 * 4,
            id="columns as rows",
        ),
        pytest.param(
            {"operator": "scatter_nd", "output": "data"},
            10 * 8 + 10 * 64 + 2 * 10 * LINE_BYTES,
            id="scatter in place",
        ),
        pytest.param(
            {"operator": "scatter_nd"}, 10 * 8 + 10 * 64 + 2 * 6400, id="scatter of a copy"
        ),
    ],
)
def test_bytes_moved(changes: dict[str, Any], moved: int) -> None:
    assert case_of(**changes).bytes_moved == moved
