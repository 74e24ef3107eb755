"""Rows of the history, and counted instructions."""

from __future__ import annotations

import csv
import shutil
from typing import TYPE_CHECKING

import pytest

from bench import history, instructions
from bench.__main__ import main

from .test_against import stand_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which a test writes rows."""
    path = tmp_path / "history.csv"
    monkeypatch.setattr(history, "PATH", path)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_comparison_adds_a_row_with_machine_and_lowest_ratios(tmp_path: Path, rows: Path) -> None:
    folder = tmp_path / "slow"
    folder.mkdir()
    there = stand_in(folder, pause=0.001)
    options = ["--case", "call-nd-4x4", "--rounds", "1", "--history"]
    for _ in range(2):
        assert main(["--against", there, *options]) == 0
    first, second = read(rows)
    assert first["run"] == f"against {there}" == second["run"]
    assert first["processor"]
    assert first["caches"].endswith(" MiB")
    name, _, ratio = first["cases"].partition("=")
    assert name == "call-nd-4x4"
    assert float(ratio) > 10
    assert float(first["mean"]) == pytest.approx(float(ratio), rel=0.01)


def test_counts_add_a_row_without_a_machine(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"one": 1.5, "two": 20.25}
    monkeypatch.setattr(instructions, "count", lambda folder: counts if not folder else {})
    assert main(["--instructions", "--history"]) == 0
    (row,) = read(rows)
    assert (row["run"], row["processor"], row["mean"]) == ("instructions", "", "")
    assert row["cases"] == "one=1.50 two=20.25"


def test_counting_needs_valgrind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["--instructions"]) == 1
    assert "needs valgrind" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_same_build_has_the_same_counts() -> None:
    first, second = instructions.count(""), instructions.count("")
    assert list(first) == list(instructions.COUNTED)
    assert first == pytest.approx(second, rel=0.01)
    assert all(count > 1 for count in first.values())
