"""The suite of stored arrays: every method's answer at reduced size, and what its numbers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from bench.__main__ import main
from bench.stored import cases, field, measure, table
from bench.stored.request import Request

if TYPE_CHECKING:
    from pathlib import Path

CASES_TO_CHECK = ("points-1e6", "sharded-1e5", "rows", "windows", "scatter-1e6", "labels-1e6")


def test_answers_agree(capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for name in CASES_TO_CHECK for word in ("--case", name)]
    assert main(["--suite", "stored", "--quick", *options]) == 0
    printed = capsys.readouterr().out
    assert "points-1e6   agree: floor ndgather zarr" in printed
    assert "ndgather:" not in printed


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> Request:
    (case,) = cases.select(["sharded-1e5"])
    path = field.store(tmp_path_factory.mktemp("field"), case.store, field.REDUCED)
    return Request(case=case, size=field.REDUCED, path=path)


def test_a_store_holds_the_field(request_of: Request) -> None:
    zarr = pytest.importorskip("zarr")
    stored = zarr.open_array(str(request_of.path), mode="r")
    assert (stored.shards, stored.chunks) == ((32, 32, 32), (8, 8, 8))
    np.testing.assert_array_equal(
        stored[:, 5:7, 9], field.values(*np.ix_(range(64), [5, 6]), 9 * np.ones(1, int))
    )


def test_touched_chunks_are_those_of_the_points(request_of: Request) -> None:
    expected = sorted(
        {tuple(place // 8 for place in point) for point in request_of.indices.tolist()}
    )
    assert request_of.touched() == expected


def test_a_wrong_answer_is_found(request_of: Request) -> None:
    right = field.values(*request_of.indices.T)
    request_of.check(right)
    wrong = right.copy()
    wrong[-1] += 1 / 16
    for answer in (wrong, right[:-1], right.astype(np.float64)):
        with pytest.raises(AssertionError):
            request_of.check(answer)


def results() -> measure.Result:
    (case,) = cases.select(["points-1e7"])
    methods = [
        measure.Measured(method="floor", wall=(2.0, 1.0, 3.0), cpu=(4.0,), memory=1),
        measure.Measured(method="ndgather", wall=(2.1,), cpu=(4.0,), memory=150),
        measure.Measured(method="zarr", wall=(3.0,), cpu=(8.0,), memory=700),
        measure.Measured(method="dask", wall=(9.0,), cpu=(8.0,), memory=1200),
        measure.Measured(method="xarray", refusal="ImportError: no xarray"),
    ]
    return measure.judged(case, methods, {"formula": 100.0})


def test_conditions_are_judged_by_medians_and_the_best_of_the_others() -> None:
    verdicts = [
        (each.condition, round(each.reached, 3), each.passed) for each in results().verdicts
    ]
    assert verdicts == [
        ("wall <= 1.1 floor", 1.05, True),
        ("wall <= 0.65 best", 0.7, False),
        ("memory <= 1 formula", 1.5, False),
        ("memory <= 0.167 dask", 0.125, True),
    ]


def test_a_run_reads_back_and_makes_a_page(tmp_path: Path) -> None:
    setting = table.setting()
    table.save(setting, [results()], tmp_path / "new" / "run.json")
    assert table.load(tmp_path / "new" / "run.json") == (setting, [results()])
    page = table.page(setting, [results()])
    assert "- 2 of 4 conditions hold.\n" in page
    assert "- Short of theirs are `points-1e7` wall <= 0.65 best (0.7)" in page
    assert "| `points-1e7` | wall <= 1.1 floor | 1.05 | pass |" in page
    assert "| xarray | ImportError: no xarray |  |  |" in page


def test_no_such_case_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--suite", "stored", "--case", "none"]) == 2
    assert "no case is named none" in capsys.readouterr().err
