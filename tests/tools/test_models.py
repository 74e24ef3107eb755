"""Rows and the summary of measured models: which run, which fail, and which are wrong."""

import pytest

from tools.models.report import failed_checks, failed_runs, row, summary, wrong_runs


def measurement(**changed):
    return {
        "run": "1e-06", "compared": 3, "left": 0, "nodes": 9, "ratio": 1.5, "more_s": 0.25,
        "peaks_mib": [120.0, 100.0], "findings": [], "infer": "yes", "compare": "same",
        "convert": {"21": "0e+00", "18": "2e-04", "13": "ModelError: no"}, **changed,
    }  # fmt: skip


def test_each_model_is_one_line():
    assert row("swift.onnx", measurement()).split() == [
        "swift.onnx", "9", "3", "0", "1e-06", "1.50", "1.20", "same",
        "0e+00,", "2e-04,", "ModelError:", "no",
    ]  # fmt: skip
    assert row("swift.onnx", measurement(left=1)).split()[2] == "3-1"
    assert row("x", {"run": "ended by SIGKILL"}).split(maxsplit=1) == ["x", "ended by SIGKILL"]
    assert row("x", {"onnxruntime": "Fail: y"}).split(maxsplit=1) == ["x", "onnxruntime: Fail: y"]


def test_models_for_onnxruntime_alone_are_not_run():
    fails_here, fails_everywhere = {"run": "ModelError: no"}, {"onnxruntime": "Fail: no"}
    assert failed_runs([measurement(), fails_here, fails_everywhere]) == [fails_here]


def test_models_refused_by_check_or_infer_are_counted():
    bad = [measurement(findings="ModelError: no"), measurement(infer="ShapeError: no")]
    assert failed_checks([measurement(), *bad, {"run": "ended by SIGKILL"}]) == bad
    assert "models that check or infer refuses: 2" in summary([measurement(), *bad])


@pytest.mark.parametrize(
    ("error", "count"), [("1e-04", 0), ("2e-04", 1), ("nan", 1), ("random", 0)]
)
def test_different_outputs_are_wrong_unless_random(error, count):
    assert len(wrong_runs([measurement(run=error)])) == count


def test_summary_has_counts_median_and_worst():
    slow = measurement(
        ratio=4.0, more_s=1.5, peaks_mib=[300.0, 100.0], compare="onnxruntime differs at y"
    )
    text = summary([measurement(), measurement(), slow, {"onnxruntime": "Fail: no"}])
    assert "4 models; onnxruntime runs 3, and ndgather runs 3 of these" in text
    assert "time over onnxruntime's, with loading: median 1.50, at most 4.00, 1.500 s more" in text
    assert "peak memory over onnxruntime's: median 1.20, at most 3.00, 200 MiB more" in text
    assert "converted, with the same outputs: 3 to 21\n" in text
    assert text.endswith("a node that differs from its specification: 1")


def test_rows_with_only_times_have_no_conversions():
    times_only = measurement()
    for name in ("findings", "infer", "compare", "convert"):
        del times_only[name]
    assert "converted" not in summary([times_only])
    assert row("x", times_only).split() == ["x", "9", "3", "1e-06", "1.50", "1.20"]
