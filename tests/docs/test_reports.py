"""Reports of test runs: tests skipped in all runs, and why; and the report of a night."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests import reports
from tools import nightly

LIGHT = """
    <testsuites><testsuite name="pytest">
    <testcase classname="tests.a" name="test_here" time="0.1" />
    <testcase classname="tests.a" name="test_both[1]"><skipped type="pytest.skip"
      message="no torch">tests/a.py:3: no torch</skipped></testcase>
    <testcase classname="tests.a" name="test_never"><skipped type="pytest.skip"
      message="no room">tests/a.py:9: no room</skipped></testcase>
    <testcase classname="tests.a" name="test_expected"><skipped type="pytest.xfail" message="" />
    </testcase>
    <testcase classname="" name="tests.b"><skipped type="pytest.skip" message="collection skipped">
      ('tests/b.py', 1, "Skipped: could not import 'torch'")</skipped></testcase>
    <testcase classname="" name="tests.c"><skipped type="pytest.skip" message="collection skipped">
      ('tests/c.py', 1, "Skipped: could not import 'cupy'")</skipped></testcase>
    </testsuite></testsuites>
"""
FULL = """
    <testsuites><testsuite name="pytest">
    <testcase classname="tests.a" name="test_both[1]" time="0.1" />
    <testcase classname="tests.b" name="test_there" time="0.1" />
    <testcase classname="tests.xarray_suite.engine_tests.TestNetcdf" name="test_x"><skipped
      type="pytest.skip" message="of its own">x</skipped></testcase>
    </testsuite></testsuites>
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "light.xml").write_text(dedent(LIGHT))
    (tmp_path / "full.xml").write_text(dedent(FULL))
    return tmp_path


def test_test_skipped_in_one_run_may_run_in_another(folder):
    ran, failed, left_out = reports.read(folder)

    assert {name for _, name in ran if name} == {"test_here", "test_both[1]", "test_there"}
    assert failed == set()
    assert left_out == {
        ("tests.a", "test_never"): "no room",
        ("tests.c", ""): "could not import 'cupy'",
    }


def test_skip_reasons_must_be_allowed(folder, monkeypatch, capsys):
    monkeypatch.setattr(reports, "PAGES", ())
    monkeypatch.setattr(reports, "ALLOWED", ("no .*",))
    with pytest.raises(SystemExit, match=r"left out: tests\.c::.*could not import 'cupy'$"):
        reports.main(folder)
    assert "    1 no room\n" in capsys.readouterr().out

    monkeypatch.setattr(reports, "ALLOWED", ("no .*", "could not import 'cupy'"))
    with pytest.raises(SystemExit) as end:
        reports.main(folder)
    assert end.value.code == 0


def test_failure_in_any_run_is_a_failure(folder):
    text = FULL.replace(
        'name="test_there" time="0.1" />', 'name="test_there"><failure /></testcase>'
    )
    (folder / "full.xml").write_text(dedent(text))
    assert reports.read(folder)[1] == {("tests.b", "test_there")}


def test_tests_named_on_a_page_must_run(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("[test_one](tests/a.py), [test_two](tests/a.py)")
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    ran = {("tests.a", "test_one[case]"), ("tests.b", "test_two")}
    assert reports.not_run("page.md", ran) == ["tests.a::test_two"]


def test_address_matches_the_report():
    assert reports.address("tests/a.py::test_here") == ("tests.a", "test_here")
    case = "tests/a_b/c.py::TestD::test_e[x.py::y-[z]]"
    assert reports.address(case) == ("tests.a_b.c.TestD", "test_e[x.py::y-[z]]")
    assert reports.address("README.md::README.md") == ("README.md", "README.md")


# Tasks of a night; the last one kills the shell that runs them.
TASKS = """
right: ; @echo 3 passed
wrong: ; @echo 1 failed; false
two: wrong right
cut: ; @kill -9 $$(cut -d ' ' -f 4 /proc/$$PPID/stat)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux and make")
@pytest.mark.parametrize(
    ("tasks", "fails", "page"),
    [
        ("right", False, ["0  right: 3 passed"]),
        ("wrong right", True, ["2  wrong: 1 failed", "0  right: 3 passed"]),
        ("two", True, ["2  two: 3 passed"]),  # targets after a failed one run too
        ("right cut right", True, ["0  right: 3 passed"]),
    ],
)
def test_nightly_runs_every_task_and_fails_if_one_fails(tmp_path, tasks, fails, page):
    (tmp_path / "Makefile").write_text(TASKS)
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    outside["PYTHONPATH"] = str(reports.ROOT)
    command = [sys.executable, "-m", "tools.nightly", *tasks.split()]
    ended = subprocess.run(command, cwd=tmp_path, env=outside, check=False, capture_output=True)
    assert (ended.returncode != 0) == fails
    text = (tmp_path / "build/nightly/page.txt").read_text()
    assert re.findall(r"^ *\d+ +(\d+  .*)$", text, re.MULTILINE) == page


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux and make")
def test_nightly_rest_runs_tasks_that_have_not_passed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nightly, "FIRST", ("right",))
    monkeypatch.setattr(nightly, "PAIRED", ("wrong",))
    monkeypatch.setattr(nightly, "describe_commit", lambda: "abc")
    (tmp_path / "Makefile").write_text(TASKS.replace("echo 3", "echo x >> times; echo 3"))
    for each in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        monkeypatch.delenv(each, raising=False)
    page = Path("build/nightly/page.txt")
    for word, times in (("night", 1), ("rest", 1), ("night", 2)):
        assert nightly.main(word) == 1
        rows = re.findall(r"^ *\d+ +(\d+  .*)$", page.read_text(), re.MULTILINE)
        assert rows == ["0  right: 3 passed", "2  wrong: 1 failed"]
        assert Path("times").read_text() == "x\n" * times
    monkeypatch.setattr(nightly, "describe_commit", lambda: "def")
    nightly.main("rest")
    assert Path("times").read_text() == "x\n" * 3
    monkeypatch.setattr(nightly, "LONGEST", 0.1)
    Path("Makefile").write_text("right: ; @sleep 60\nwrong: ; @true\n")
    assert nightly.main("night") == 1
    assert "124  right: stopped after" in page.read_text()
    assert "124  wrong: not begun" in page.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux and make")
def test_two_tasks_of_a_night_run_at_a_time(tmp_path, monkeypatch):
    # "one" and "two" end only if both run; "first" and "last" fail if another task runs.
    monkeypatch.chdir(tmp_path)
    wait = "for _ in $$(seq 1200); do [ -e {} ] && exit; sleep 0.05; done; false"
    Path("Makefile").write_text(f"""
first last: ; @mkdir alone; sleep 0.3; rmdir alone
one: ; @mkdir one; [ ! -e alone ] || exit 1; {wait.format("two")}
two: ; @mkdir two; [ ! -e alone ] || exit 1; {wait.format("one")}
three: ; @echo 3 passed
""")
    monkeypatch.setattr(nightly, "FIRST", ("first", "last"))
    monkeypatch.setattr(nightly, "PAIRED", ("one", "two", "three"))
    assert nightly.main("night") == 0
    rows = re.findall(
        r"^ *\d+ +(\d+)  (\w+): (.*)$", Path("build/nightly/page.txt").read_text(), re.MULTILINE
    )
    assert rows[:2] == [("0", "first", ""), ("0", "last", "")]
    assert sorted(rows[2:]) == [("0", "one", ""), ("0", "three", "3 passed"), ("0", "two", "")]
