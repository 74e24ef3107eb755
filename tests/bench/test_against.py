"""Two builds are compared on equal arrays, and differences in results and times are detected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

STAND_IN = """
from time import sleep
def set_num_threads(count): pass
def gather_nd(data, indices):
    sleep({pause})
    return data[tuple(indices[..., j] for j in range(indices.shape[-1]))]{change}
"""


def stand_in(folder: Path, change: str = "", pause: float = 0.0) -> str:
    """Return a folder with another build of the package: a single function, in NumPy."""
    package = folder / "ndgather"
    package.mkdir()
    (package / "__init__.py").write_text(STAND_IN.format(change=change, pause=pause))
    return str(folder)


def test_equal_results_are_reported_without_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--case", "call-nd-4x4", "--case", "points-64MB", "--quick"]
    assert main(["--against", stand_in(tmp_path), *options]) == 0
    printed = capsys.readouterr().out
    assert f"there: {tmp_path}/ndgather/__init__.py\n" in printed
    assert [line.split() for line in printed.splitlines()[-2:]] == [
        ["call-nd-4x4", "same", "bytes"],
        ["points-64MB", "same", "bytes"],
    ]


@pytest.mark.parametrize("change", [" + 1", "[:-1]", ".astype('f8')"])
def test_different_result_fails(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stand_in(tmp_path, change)
    assert main(["--against", folder, "--case", "call-nd-4x4", "--quick"]) == 1
    assert "DIFFERENT ANSWERS" in capsys.readouterr().out


def test_functions_missing_in_the_other_build_are_omitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stand_in(tmp_path)
    assert main(["--against", folder, "--case", "call-gather-4x4", "--rounds", "1"]) == 0
    assert (
        "left out, not possible there: Unsupported: ndgather has no gather"
        in capsys.readouterr().out
    )


def test_ratio_above_one_means_faster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "new" / "ratios.json"
    options = ["--case", "call-nd-4x4", "--rounds", "2", "--threads", "1", "--json", str(saved)]
    assert main(["--against", stand_in(tmp_path, pause=1e-3), *options]) == 0
    content = json.loads(saved.read_text())
    (case,) = content["cases"]
    assert case["other_seconds"] > 1e-3 > case["own_seconds"]
    assert content["geometric_mean"] == pytest.approx(case["ratio"])
    assert case["ratio"] > 50
    assert "1 cases, geometric mean" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["no-such-revision", ""])
def test_invalid_build_is_refused(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--against", what or str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("python -m bench: error: ")
    assert (what or str(tmp_path)) in error


def test_crashed_build_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stand_in(tmp_path, change=" if __import__('os')._exit(7) else 0")
    assert main(["--against", folder, "--case", "call-nd-4x4", "--case", "points-L1"]) == 1
    assert capsys.readouterr().err.endswith(f"the process of {folder} ended with exit status 7\n")
