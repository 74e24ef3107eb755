"""What is said of models that were measured: which run, how well, and which do not."""

import pytest
from bench.models.report import not_run_of, refused_of, row, summary, wrong_of


def made(**changed):
    return {
        "run": "1e-06", "compared": 3, "left": 0, "nodes": 9, "ratio": 1.5, "more_s": 0.25,
        "peaks_mib": [120.0, 100.0], "findings": [], "infer": "yes", "compare": "same",
        "convert": {"21": "0e+00", "18": "2e-04", "13": "ModelError: no"}, **changed,
    }  # fmt: skip


def test_a_model_is_one_line():
    assert row("swift.onnx", made()).split() == [
        "swift.onnx", "9", "3", "0", "1e-06", "1.50", "1.20", "same",
        "0e+00,", "2e-04,", "ModelError:", "no",
    ]  # fmt: skip
    assert row("swift.onnx", made(left=1)).split()[2] == "3-1"
    assert row("x", {"run": "no end within 600 s"}).split(maxsplit=1) == [
        "x",
        "no end within 600 s",
    ]
    assert row("x", {"onnxruntime": "Fail: y"}).split(maxsplit=1) == ["x", "onnxruntime: Fail: y"]


def test_a_model_that_onnxruntime_runs_alone_is_not_run():
    not_run, refused = {"run": "ModelError: no"}, {"onnxruntime": "Fail: no"}
    assert not_run_of([made(), not_run, refused]) == [not_run]


def test_models_that_check_or_infer_refuses_are_counted():
    bad = [made(findings="ModelError: no"), made(infer="ShapeError: no")]
    assert refused_of([made(), *bad, {"run": "no end within 600 s"}]) == bad
    assert "models that check or infer refuses: 2" in summary([made(), *bad])


@pytest.mark.parametrize(("off", "wrong"), [("1e-04", 0), ("2e-04", 1), ("nan", 1), ("random", 0)])
def test_outputs_that_are_off_are_wrong_where_they_are_not_random(off, wrong):
    assert len(wrong_of([made(run=off)])) == wrong


def test_the_summary_counts_what_converts_and_takes_median_and_worst():
    slow = made(ratio=4.0, more_s=1.5, peaks_mib=[300.0, 100.0], compare="onnxruntime differs at y")
    text = summary([made(), made(), slow, {"onnxruntime": "Fail: no"}])
    assert "4 models; onnxruntime runs 3, and 3 of these are run" in text
    assert "time over onnxruntime's, with loading: median 1.50, at most 4.00, 1.500 s more" in text
    assert "peak memory over onnxruntime's: median 1.20, at most 3.00, 200 MiB more" in text
    assert "converted, with the same outputs: 3 to 21\n" in text
    assert text.endswith("a node or a runtime parts from the rest: 1")


def test_times_alone_say_nothing_of_conversions():
    said = made()
    for name in ("findings", "infer", "compare", "convert"):
        del said[name]
    assert "converted" not in summary([said])
    assert row("x", said).split() == ["x", "9", "3", "1e-06", "1.50", "1.20"]
