"""The runner: verdicts, libraries in child processes, the command and the page.

Only the command runs other libraries; these tests replace them with stand-ins.
"""

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from conformance import Outcome, Verdict, judge, load
from conformance.__main__ import main
from conformance.libraries import LIBRARIES, Library, library
from conformance.report import as_markdown
from conformance.runner import LibraryFailedError, run_apart, run_here
from conformance.verdicts import refused, result

pytest.importorskip("ml_dtypes")  # for cases with narrow dtypes

CASES = load()
BY_NAME = {case.name: case for case in CASES}
OWN = library("ndgather")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


# verdicts

VALUE = BY_NAME["onnx-GatherND-13/example-1"]
FORBIDDEN = BY_NAME["onnx-GatherND-13/outside/one-past"]
OPEN = BY_NAME["openvino-GatherND-8/outside/one-past"]
NUMBERS = BY_NAME["openvino-GatherND-8/outside/next-row"]
CHOICE = BY_NAME["onnx-ScatterND-18/duplicates/none"]
NAN = BY_NAME["onnx-GatherND-13/bits/float32-signalling-nan"]


@pytest.mark.parametrize(
    ("case", "outcome", "verdict"),
    [
        (VALUE, result(np.array([0, 3])), Verdict.RIGHT),
        (VALUE, result(np.array([0, 4])), Verdict.WRONG_VALUE),
        (VALUE, result(np.array([0, 3], np.int32)), Verdict.WRONG_VALUE),
        (VALUE, result(np.array([[0, 3]])), Verdict.WRONG_VALUE),
        (VALUE, refused(ValueError("no")), Verdict.REFUSES),
        (VALUE, Outcome(what="crashed", text="SIGSEGV"), Verdict.CRASH),
        (VALUE, Outcome(what="unable", text="has none"), Verdict.CANNOT),
        (FORBIDDEN, refused(RuntimeError("no")), Verdict.RIGHT),
        (FORBIDDEN, refused(IndexError("no"), "index"), Verdict.RIGHT),
        (FORBIDDEN, refused(TypeError("no"), "type"), Verdict.WRONG_VALUE),
        (FORBIDDEN, result(np.zeros((1, 3), np.int64)), Verdict.ACCEPTS),
        (OPEN, refused(RuntimeError("no")), Verdict.RIGHT),
        (OPEN, result(np.array([[10, 0]], np.float32)), Verdict.RIGHT),
        (OPEN, result(np.array([[10, 7]], np.float32)), Verdict.WRONG_VALUE),
        (NUMBERS, result(np.array([11], np.int32)), Verdict.RIGHT),
        (NUMBERS, result(np.array([5], np.int32)), Verdict.WRONG_VALUE),  # 5 is only an index
        (OPEN, Outcome(what="crashed", text="SIGSEGV"), Verdict.CRASH),
        (CHOICE, result(np.array([1, 8, 3], np.float32)), Verdict.RIGHT),
        (CHOICE, result(np.array([1, 9, 3], np.float32)), Verdict.RIGHT),
        (CHOICE, result(np.array([1, 17, 3], np.float32)), Verdict.WRONG_VALUE),
        (NAN, result(np.array([np.nan], np.float32)), Verdict.WRONG_VALUE),
    ],
)
def test_outcomes_have_the_right_verdicts(case, outcome, verdict):
    found, reason = judge(case, outcome)
    assert found is verdict
    assert bool(reason) == (verdict is not Verdict.RIGHT)


@pytest.mark.parametrize(
    "outcome",
    [
        result(np.zeros((0, 3), np.float32)),
        result(np.array(["a", ""], object)),
        result(np.arange(3, dtype=">i4")),
        refused(ValueError("x" * 1000), "shape"),
        Outcome(what="crashed", text="SIGABRT"),
    ],
)
def test_outcomes_survive_serialization(outcome):
    assert pickle.loads(pickle.dumps(outcome)) == outcome


def test_strings_are_equal_in_every_dtype():
    texts = ["a", "", "\u00e9"]
    arrays = [np.array(texts, kind) for kind in ("U", "O", np.dtypes.StringDType())]
    stored = [text.encode() for text in texts]
    arrays += [np.array(stored, kind) for kind in ("S", "O")]
    assert {result(array) for array in arrays} == {result(arrays[0])}
    assert result(arrays[0]).elements == tuple(texts)


def test_byte_order_does_not_affect_results():
    assert result(np.arange(3, dtype=">i4")) == result(np.arange(3, dtype="<i4"))


# processes

STAND_IN = """
    import os, time
    from conformance.libraries import with_ndgather
    from conformance.libraries import CannotExpressError

    before = []

    def version():
        return "9.9"

    def run_case(case):
        print("noise")
        before.append(case.name)
        if case.name.endswith("example-2"):
            os.abort()
        if case.name.endswith("example-3") and len(before) > 1:
            os.abort()  # only after other cases, as if an earlier case had caused it
        if case.name.endswith("example-4"):
            time.sleep(60)
        if case.name.endswith("example-5"):
            raise CannotExpressError("has no batches")
        return with_ndgather.run_case(case)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    def make(text):
        folder = tmp_path / "stand_in"
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "adapter.py").write_text(dedent(text))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(str(tmp_path))
        for name in ("stand_in", "stand_in.adapter"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return library("stand_in.adapter")

    return make


def test_later_cases_run_after_a_crash_or_hang(stand_in):
    cases = [BY_NAME[f"onnx-GatherND-13/example-{number}"] for number in (1, 3, 2, 4, 5)]
    column = run_apart(stand_in(STAND_IN), cases, limit_s=1.0)
    assert column.version == "9.9"
    assert [answer.verdict for answer in column.answers] == [
        Verdict.RIGHT,
        Verdict.RIGHT,
        Verdict.CRASH,
        Verdict.CRASH,
        Verdict.CANNOT,
    ]
    assert column.answers[2].reason == "ended by SIGABRT"
    assert column.answers[3].reason == "no end within 1 s"


def test_a_library_that_does_not_start_is_an_error(stand_in):
    with pytest.raises(LibraryFailedError, match="not today"):
        run_apart(stand_in("raise RuntimeError('not today')"), CASES[:2])


def test_version_rules_do_not_apply_to_idioms():
    numpy = library("numpy")
    case = BY_NAME["onnx-GatherND-13/types/indices-int32"]
    assert run_here(numpy, [case]).answers[0].verdict is Verdict.CANNOT
    strict = replace(numpy, idiom=False)
    assert run_here(strict, [case]).answers[0].verdict is Verdict.ACCEPTS


def test_libraries_do_not_run_operators_of_others():
    native = BY_NAME["native-gather/scalar"]
    other = Library(name="x", module="numpy", adapter=LIBRARIES[0].adapter, domains=())
    assert run_here(other, [native]).answers[0].verdict is Verdict.CANNOT


# the command and the page


def test_the_command_prints_verdicts_and_writes_json(capsys, tmp_path):
    path = tmp_path / "answers.json"
    case = "onnx-GatherND-13/batch/one-in-"
    arguments = ["--peer", "numpy", "--peer", "ndgather", "--json", str(path)]
    arguments += ["--case", f"{case}[a-d]*", "--case", f"{case}i*"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["numpy", "ndgather"]
    assert printed[1].split() == ["onnx-GatherND-13/batch/one-in-data", "!", "✓"]
    assert f"2 cases; numpy {np.__version__}" in printed[-1]
    written = json.loads(path.read_text("utf-8"))
    assert written["peers"][0]["totals"]["accepts the forbidden"] == 2
    assert written["cases"][0]["verdicts"]["ndgather"] == {"verdict": "right", "reason": ""}


def test_the_command_prints_the_reasons_for_a_single_library(capsys):
    assert main(["--peer", "numpy", "--case", "onnx-GatherND-13/batch/one-in-data"]) == 0
    assert "returns int64 (2,): [0, 0]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--case", "nothing-*", "--case", "no"], "error: no case matches 'nothing-*' or 'no'"),
        (["--peer", "nobody"], "nobody"),
        (["--peer", "no.such.adapter"], "no.such.adapter"),
    ],
)
def test_invalid_command_lines_are_errors(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "error:" in printed
    assert words in printed


def test_cases_are_loaded_by_patterns():
    assert load("onnx-GatherND-13/batch/one-in-data") == load("onnx-GatherND-13/batch/one-in-d*")
    assert {case.name.split("-")[0] for case in load("onnx-*", "native-*")} == {"onnx", "native"}
    assert load("nothing") == ()


def test_the_page_has_every_case_and_our_column_is_right():
    page = PAGE.read_text("utf-8")
    rows = as_markdown([run_here(OWN, CASES)], machine="any").splitlines()
    found = [line for line in rows if line.endswith(" \N{CHECK MARK}")]
    assert [line for line in found if f"\n{line}" not in page] == []
    assert len(found) == len(CASES)
    assert f"\n{len(CASES)} calls" in page
