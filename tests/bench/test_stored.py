"""The suite of stored arrays: results of every method at reduced size, and its numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench import report as json_report
from bench.__main__ import main
from bench.stored import cases, field, measure, report

if TYPE_CHECKING:
    from pathlib import Path

CASES_TO_CHECK = ("points-1e6", "sharded-1e5", "rows", "windows", "scatter-1e6", "labels-1e6")


def test_results_agree(capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for name in CASES_TO_CHECK for word in ("--case", name)]
    assert main(["--suite", "stored", "--quick", *options]) == 0
    printed = capsys.readouterr().out
    assert "points-1e6   agree: floor ndgather zarr" in printed
    assert "ndgather:" not in printed


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> cases.Request:
    (case,) = cases.select(["sharded-1e5"])
    path = field.store(tmp_path_factory.mktemp("field"), case.store, field.REDUCED)
    return cases.Request(case=case, size=field.REDUCED, path=path)


def test_store_contains_the_field(request_of: cases.Request) -> None:
    zarr = pytest.importorskip("zarr")
    stored = zarr.open_array(str(request_of.path), mode="r")
    assert (stored.shards, stored.chunks) == ((32, 32, 32), (8, 8, 8))
    np.testing.assert_array_equal(
        stored[:, 5:7, 9], field.values(*np.ix_(range(64), [5, 6]), 9 * np.ones(1, int))
    )


def test_touched_chunks_contain_the_points(request_of: cases.Request) -> None:
    expected = sorted(
        {tuple(place // 8 for place in point) for point in request_of.indices.tolist()}
    )
    assert request_of.touched() == expected


def test_wrong_result_is_found(request_of: cases.Request) -> None:
    right = field.values(*request_of.indices.T)
    request_of.check(right)
    wrong = right.copy()
    wrong[-1] += 1 / 16
    for answer in (wrong, right[:-1], right.astype(np.float64)):
        with pytest.raises(AssertionError):
            request_of.check(answer)


def result(**changes: float) -> measure.Result:
    methods = (
        measure.Measured(method="floor", wall=(2.0, 1.0, 3.0), cpu=(4.0,), memory=1),
        measure.Measured(method="ndgather", wall=(2.1,), cpu=(4.0,), memory=150),
        measure.Measured(method="zarr", wall=(3.0,), cpu=(8.0,), memory=700),
        measure.Measured(method="dask", wall=(9.0,), cpu=(8.0,), memory=1200),
        measure.Measured(method="xarray", refusal="ImportError: no xarray"),
    )
    return measure.Result(case="points-1e7", methods=methods, **changes)


def test_result_is_compared_with_the_fastest_other_and_the_floor() -> None:
    one = result()
    assert one.own is not None
    assert one.floor is not None
    assert one.fastest_other is not None
    assert (one.own.memory, one.floor.wall_seconds, one.fastest_other.method) == (150, 2.0, "zarr")


def test_call_fails_if_it_is_wrong_or_uses_too_much_memory() -> None:
    assert not result().failed
    assert not result(allowed_bytes=150).failed
    assert result(allowed_bytes=149).failed
    wrong = measure.Measured(method="ndgather", refusal="AssertionError: wrong answer")
    assert measure.Result(case="rows", methods=(wrong,)).failed


def test_saved_run_can_be_read_and_makes_a_page(tmp_path: Path) -> None:
    run = report.Record(setting=report.setting(), results=(result(allowed_bytes=100),))
    json_report.write_json(asdict(run), tmp_path / "new" / "run.json")
    assert json_report.load(tmp_path / "new" / "run.json", report.Record) == run
    page = report.page(run, "A note.")
    assert "\n\nA note.\n\n| case |" in page
    assert "| `points-1e7` | 2.1 s* | 3 s* (zarr) | 2 s | 150 B | 700 B |" in page
    assert "| xarray | ImportError: no xarray |  |  |" in page
    assert "Limit for ndgather: 100 B" in page


def test_unknown_case_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--suite", "stored", "--case", "none"]) == 2
    assert "no case is named none" in capsys.readouterr().err
