"""The table of benchmark cases is valid and reproducible, and results equal plain loops."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.case import LINE_BYTES, Case
from bench.cases import CASES, select
from bench.measure import check
from bench.peers import ORACLE, OWN, PEERS
from tests.definitions import reference

if TYPE_CHECKING:
    from collections.abc import Callable

REDUCED_ELEMENTS = 1000

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def plain_loop(case: Case, data: Any, indices: Any, updates: Any) -> Any:
    """Return the result of the defining loops, including scatters."""
    if not case.is_scatter:
        options: dict[str, Any] = {"batch_dims": case.batch_dims} if case.batch_dims else {}
        options |= {"mode": case.mode} if case.mode != "raise" else {}
        options |= {} if case.has_tuples else {"axis": case.axis}
        function: Callable[..., Any] = getattr(reference, case.operator)
        return function(data, indices, **options)
    combine: dict[str, Callable[[Any, Any], Any]] = {
        "none": lambda _, new: new,
        "add": lambda old, new: old + new,
        "mul": lambda old, new: old * new,
        "min": min,
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


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert 0 < len(names) <= 110
    assert len(set(names)) == len(names)


@every_case
def test_cases_have_an_example(case: Case) -> None:
    assert len(case.why) > 20
    assert case.why != case.name


@every_case
def test_examples_are_unique(case: Case) -> None:
    assert [other.name for other in CASES if other.why == case.why] == [case.name]


def test_table_covers_all_kinds_of_calls() -> None:
    operators = {"gather_nd", "gather_elements", "gather", "scatter_nd", "scatter_elements"}
    assert {case.operator for case in CASES} == operators
    signed, unsigned = {"int8", "int16", "int32", "int64"}, {"uint8", "uint16", "uint32"}
    assert {case.index_dtype for case in CASES} == signed | unsigned
    tuples = [case for case in CASES if case.operator == "gather_nd"]
    assert {case.index_shape[-1] for case in tuples} == {1, 2, 3, 4, 5}
    assert {case.batch_dims for case in tuples} == {0, 1, 2, 3}
    kinds = {np.dtype(case.dtype).kind for case in CASES}
    assert kinds == {"b", "u", "i", "f", "c", "U"}
    assert {"float16", "float32", "float64"} <= {case.dtype for case in CASES}
    assert {case.size_class for case in CASES} == {"L1", "L2", "L3", "memory", "1 GB+"}
    patterns = {"random", "sorted", "reversed", "repeated", "unique", "warped"}
    assert {case.pattern for case in CASES} == patterns
    layouts = {"C", "transposed", "every second row", "every second column"}
    assert {case.layout for case in CASES} == layouts
    assert {case.index_layout for case in CASES} == {"C", "transposed"}
    assert {case.mode for case in CASES} == {"raise", "clip", "wrap"}
    assert {case.reduction for case in CASES} == {"none", "add", "mul", "min", "max"}
    assert {case.output for case in CASES} == {"new", "out", "data"}


def test_select_matches_names_and_groups() -> None:
    assert [case.name for case in select(["points-1GB"])] == ["points-1GB"]
    assert {case.group for case in select(groups=["points"])} == {"points"}
    assert select(["no such case"]) == ()


def test_cases_are_selected_by_any_of_several_patterns() -> None:
    assert [case.name for case in select(["topk-*", "points-1GB", "points-1*"])] == [
        case.name for case in CASES if case.name.startswith(("topk-", "points-1"))
    ]
    assert {case.group for case in select(groups=["tin*", "rows"])} == {"tiny", "rows"}


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
        if variant.mode != "raise":
            sizes = [size + size // 8 for size in sizes]
        np.testing.assert_array_less(values.max(axis=tuple(range(values.ndim - 1))), sizes)


@every_case
def test_same_seed_same_arrays(case: Case) -> None:
    small = case.reduced(REDUCED_ELEMENTS)
    np.testing.assert_array_equal(small.arrays().data, small.arrays().data, strict=True)
    np.testing.assert_array_equal(small.arrays().indices, small.arrays().indices, strict=True)


@every_case
def test_reduced_case_keeps_its_kind(case: Case) -> None:
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
def test_ndgather_is_correct_or_lacks_the_function(case: Case) -> None:
    refusals, failed = check(case.reduced(REDUCED_ELEMENTS), [OWN], threads=2)
    assert not failed, refusals


def test_library_names_are_unique() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def case_of(**changes: Any) -> Case:
    """Return a small case; a slice is a row of 16 float32, which is one cache line."""
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
            10 * 8 + 10 * 64 + 10 * LINE_BYTES,
            id="scatter of whole lines in place",
        ),
        pytest.param(
            {"operator": "scatter_nd", "output": "data", "reduction": "add"},
            10 * 8 + 10 * 64 + 2 * 10 * LINE_BYTES,
            id="scatter in place that reduces",
        ),
        pytest.param(
            {"operator": "scatter_nd"}, 10 * 8 + 10 * 64 + 2 * 6400, id="scatter of a copy"
        ),
    ],
)
def test_bytes_moved(changes: dict[str, Any], moved: int) -> None:
    assert case_of(**changes).bytes_moved == moved
