"""The benchmark itself: wrong results are detected, numbers are correct, files can be read."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench import limits, page, report
from bench.__main__ import main
from bench.case import Arrays, Case
from bench.limits import Limit, Lines, Machine
from bench.measure import BusyError, Result, Timing, check, measure
from bench.peers import ORACLE, Call, Idioms, Peer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CASE = Case(
    name="case",
    why="made up for this test",
    group="tiny",
    operator="gather_nd",
    data_shape=(9, 5),
    index_shape=(7, 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand(Peer):
    """A library with the given way to make the call."""

    make: Callable[[Arrays], Any]

    def prepare(self, case: Case, threads: int) -> Idioms:
        del case, threads
        return {"made up": lambda _, arrays: Call(run=lambda: self.make(arrays))}

    def use_threads(self, threads: int) -> None:
        del threads


def peer(name: str, make: Callable[[Arrays], Any]) -> Peer:
    return Stand(name=name, module="numpy", threads="one", make=make)


def right(arrays: Arrays) -> Any:
    return arrays.data[arrays.indices[:, 0]]


def raises(arrays: Arrays) -> Any:
    raise MemoryError(f"{arrays.data.shape}\n  of no use")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda arrays: right(arrays) + 1, "wrong answer", id="values"),
        pytest.param(lambda arrays: right(arrays)[:-1], "wrong answer", id="shape"),
        pytest.param(lambda arrays: right(arrays).astype("f8"), "wrong answer", id="dtype"),
        pytest.param(raises, "MemoryError: (9, 5) of no use", id="error"),
    ],
)
def test_wrong_library_is_named_and_not_timed(make: Callable[[Arrays], Any], reason: str) -> None:
    result = measure(
        CASE,
        [peer("good", right), peer("bad", make)],
        1,
        rounds=2,
        machine=Machine(threads=1),
        quiet=False,
    )
    assert [timing.peer for timing in result.timings] == ["good"]
    assert result.refusals == {"bad": reason}


def test_occasionally_wrong_result_is_wrong() -> None:
    calls = []

    def loses_an_update(arrays: Arrays) -> Any:
        calls.append(1)
        return right(arrays) + (len(calls) == 5)

    assert check(CASE, [peer("racy", loses_an_update)], 1)[0] == {"racy": "wrong answer"}


def test_busy_machine_is_not_measured() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as busy:
        for _ in range(3 * report.usable_processors()):
            process = busy.enter_context(subprocess.Popen(spin))
            busy.callback(process.kill)
        with pytest.raises(BusyError, match=r"the machine is busy: in each of 25 turns threads of"):
            measure(CASE, [peer("peer", right)], 1, rounds=20, machine=Machine(threads=1))


def test_single_thread_counts_if_it_is_faster() -> None:
    used = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Slower(Stand):
        """A library that is slower with more threads."""

        def use_threads(self, threads: int) -> None:
            used[:] = [threads]

        def prepare(self, case: Case, threads: int) -> Idioms:
            self.use_threads(threads)
            return Stand.prepare(self, case, threads)

    def waits(arrays: Arrays) -> Any:
        sleep(used[0] * 1e-2)
        return right(arrays)

    one = Slower(name="slower", module="numpy", make=waits)
    (timing,) = measure(CASE, [one], 3, rounds=2, machine=Machine(threads=1), quiet=False).timings
    assert timing.idiom == "made up, one thread"


def test_no_page_is_written_if_times_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, path = record(*[result(2.0, numpy=3.0)] * 3), tmp_path / "page.md"
    report.save(run, tmp_path / "run.json")
    assert main(["--load", str(tmp_path / "run.json"), "--page", str(path)]) == 1
    assert "no page: 3 of 3 cases spread more than 10%" in capsys.readouterr().err
    assert not path.exists()


def test_run_for_a_page_ends_if_too_many_times_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = []

    def spreads(case: Case, *_: Any, **__: Any) -> Any:
        measured.append(case.name)
        return result(2.0, numpy=3.0)

    monkeypatch.setattr("bench.__main__.measure", spreads)
    path, saved = tmp_path / "page.md", tmp_path / "run.json"
    chosen = ["--case", "call-*", "--peer", "numpy"]
    assert main(["--page", str(path), "--json", str(saved), *chosen]) == 1
    assert "no page: 1 of 8 cases spread more than 10%" in capsys.readouterr().err
    assert measured == ["call-nd-4x4"]
    assert [one.case.name for one in report.load(saved, report.Record).results] == ["case"]
    assert not path.exists()


def test_page_of_a_noisy_run_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--page", str(tmp_path / "page.md"), "--noisy"]) == 1
    assert "no page: turns that other work disturbed count" in capsys.readouterr().err


@pytest.mark.parametrize("reach", [128, 4096, 1 << 20])
def test_random_lines_are_in_bounds(reach: int) -> None:
    loops = pytest.importorskip("bench.loops", reason="numba measures the machine")
    words = np.zeros(reach // 8 + 8, np.uint64)
    words[reach // 8 :] = 1  # a line past the end
    first = np.arange(1, 9, dtype=np.uint64).reshape(2, 4) << np.uint64(40)
    seen = loops.read_chains(words, limits.line_shift(reach), first, 5000)
    assert seen == loops.read_chains(np.zeros_like(words), limits.line_shift(reach), first, 5000)


def test_output_of_another_library_is_not_a_result() -> None:
    def fill(arrays: Arrays) -> Any:
        assert arrays.out is not None
        arrays.out[...] = right(arrays)
        return arrays.out

    case = replace(CASE, output="out")
    refusals, _ = check(case, [peer("good", fill), peer("idle", lambda arrays: arrays.out)], 1)
    assert refusals == {"idle": "wrong answer"}


def test_update_in_place_starts_from_data_every_time() -> None:
    def add(arrays: Arrays) -> Any:
        assert arrays.updates is not None
        for row, update in zip(arrays.indices[:, 0], arrays.updates, strict=True):
            arrays.data[row] += update
        return arrays.data

    case = replace(CASE, operator="scatter_nd", reduction="add", output="data")
    refusals, _ = check(case, [peer("first", add), peer("second", add)], 1)
    assert refusals == {}


def test_varied_shapes_are_timed_per_call() -> None:
    calls = []

    def count(arrays: Arrays) -> Any:
        calls.append(arrays.data.shape)
        return right(arrays)

    case = replace(CASE, varied_shapes=True)
    result = measure(
        case, [peer("peer", count)], 1, rounds=1, machine=Machine(threads=1), quiet=False
    )
    assert len(set(calls)) == len(case.variants()) == 64
    assert result.bytes_moved == case.bytes_moved // 64


def timing(name: str, seconds: float) -> Timing:
    return Timing(peer=name, idiom="made up", samples=(seconds, seconds, 10 * seconds))


def result(own: float, **others: float) -> Result:
    seconds = {"ndgather": own, **others}
    return Result(
        case=CASE,
        timings=tuple(timing(name, each) for name, each in seconds.items()),
        refusals={"torch": "not installed"},
        failed=False,
        bytes_moved=1000,
        limit=Limit(copy_seconds=1.0, read_seconds=1.5),
        memory_bound=True,
    )


def record(*results: Result) -> report.Record:
    return report.record(report.setting([ORACLE], 2), results, Machine(threads=2))


def test_ratio_uses_the_fastest_other_library() -> None:
    one = result(2.0, numpy=5.0, torch=3.0)
    assert one.ratio == 1.5
    assert one.fastest_peer is not None
    assert one.fastest_peer.peer == "torch"


def test_limit_is_the_longer_of_its_parts() -> None:
    one = result(2.0)
    assert one.limit_fraction == 0.75
    assert one.limit.set_by == "random reads"
    assert one.ratio is None


def test_unsupported_case_has_no_ratio() -> None:
    one = replace(result(1.0, numpy=2.0), timings=result(1.0, numpy=2.0).timings[1:])
    assert one.ratio is None
    assert one.limit_fraction is None


def test_summary_names_cases_that_miss_their_target() -> None:
    text = report.summary(record(result(2.0, numpy=1.0), result(4.0, numpy=32.0)))
    assert "takes 2.00 times as long as ndgather (geometric mean), from 0.50 to 8.0 times." in text
    assert "The fastest of numpy, torch, onnxruntime and openvino takes 2.00 times as long." in text
    assert "Another library is faster in 1 of 2 cases." in text
    assert "Cases in which another library is faster (ratio): case (0.50)." in text
    assert "case (75%, random reads), case (38%, random reads)." in text


def test_saved_results_can_be_read(tmp_path: Path) -> None:
    machine = Machine(threads=2)
    machine.copy_bytes_per_second[1024] = (1e9, 2e9)
    machine.line_seconds[4096] = Lines(latency=9e-8, in_flight=9.5, seconds=(2e-9, 1e-9))
    run = report.record(report.setting([ORACLE], 2), [result(2.0, numpy=3.0)], machine)
    report.save(run, tmp_path / "new" / "run.json")
    assert report.load(tmp_path / "new" / "run.json", report.Record) == run


def test_page_names_slower_cases_and_cases_far_from_the_limit() -> None:
    slow = replace(result(4.0, numpy=1.0), case=replace(CASE, name="slow"))
    near = result(1.5, numpy=4.0)
    text = page.text(record(slow, near), "picture.svg", "cases.md")
    assert "Cases in which another library is faster (ratio): slow (0.25)." in text
    assert "1 of 2 cases that exceed the last-level cache reach 85% of the limit" in text
    assert "Cases below 85% of the limit (share, what sets the limit): slow (38%, random" in text
    assert "Mean ratio by operator (number of cases): gather_nd 0.82 (2)." in text


def test_page_opens_with_every_library_and_examples() -> None:
    text = page.text(record(result(2.0, numpy=1.0), result(4.0, numpy=32.0)), "picture.svg", "")
    assert "| numpy | 2 | **2.00** | 0.50 | 8.0 | 1 |" in text.partition("![")[0]
    assert "- *made up for this test* (`case`): numpy 1 s, ndgather 2 s." in text


def test_libraries_for_one_kind_of_call_have_their_own_table() -> None:
    special = replace(result(2.0, numpy=3.0, scipy=4.0), case=replace(CASE, name="special"))
    run = record(result(2.0, numpy=3.0), result(2.0, numpy=3.0), special)
    tables, _, apart = page.cases_text(run, "page.md").partition("## Libraries for one kind of")
    assert "| `special` | 1 kB |" in tables
    assert "scipy" not in tables
    assert "| `special` | 2 s | 4 s |" in apart


def test_page_says_where_and_when_it_was_measured() -> None:
    run = record(result(2.0, numpy=3.0))
    text = page.text(run, "picture.svg", "cases.md")
    for part in (run.setting.processor, run.setting.date, run.setting.versions["numpy"]):
        assert part in text
    assert "python -m bench --load run.json --page docs/benchmarks.md" in text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"setting": {"date": ""}}', None])
def test_invalid_run_file_is_refused(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    assert main(["--load", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("python -m bench: error: ")
    assert str(path) in error


def test_library_needs_all_its_packages() -> None:
    whole = Peer(name="whole", module="numpy", threads="one")
    half = replace(whole, needs=("no_such_package",))
    assert (whole.installed, whole.missing) == (True, ())
    assert (half.installed, half.missing) == (False, ("no_such_package",))


def test_pages_show_every_case_and_refusal(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the chart is drawn with it")
    one = result(2.0, numpy=3.0)
    other = replace(one, case=replace(CASE, name="other"))
    page.write(record(one, other), tmp_path / "page.md")
    cases = (tmp_path / "page-cases.md").read_text()
    assert "| `case` | 1 kB | 3 s | 450% | 1.50 | 75% | made up for this test |" in cases
    assert "- torch: not installed (`case`, `other`)\n" in cases
    text = (tmp_path / "page.md").read_text()
    assert "](page.svg)" in text
    assert "](page-cases.md)" in text
    assert "<svg" in (tmp_path / "page.svg").read_text()


def test_quick_run_checks_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--case", "call-nd-4x4", "--peer", "numpy"]) == 0
    assert "agree: ndgather numpy" in capsys.readouterr().out


def test_full_run_is_saved_to_the_given_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    options = [
        "--case",
        "call-nd-4x4",
        "--peer",
        "numpy",
        "--rounds",
        "1",
        "--threads",
        "1",
        "--noisy",
    ]
    assert main([*options, "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "call-nd-4x4" in printed
    assert main(["--load", str(path), "--page", str(tmp_path / "page.md")]) == 1
    assert "no page: turns that other work disturbed count" in capsys.readouterr().err
    assert main(["--load", str(path)]) == 0
    assert "1 cases;" in capsys.readouterr().out


def test_unknown_case_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "no such case", "--case", "nor this"]) == 2
    assert "no such case or nor this" in capsys.readouterr().err


def test_groups_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--group", "axis", "--group", "tiny", "--case", "*palette*"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["palette"]
    assert main(["--list", "--group", "tiny", "--group", "axis", "--case", "call-*varied"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["call-nd-varied", "call-elements-varied"]


def test_chart_line_meets_its_bar():
    for ratios in ([2.0, 40.0], [0.5, 3.0, 3.0, 100.0], [1.0, 1.0, 1.0, 1.0]):
        low, high = page.middle_half(ratios)
        assert min(ratios) <= low <= high <= max(ratios)
    low, high = page.middle_half([2.0, 32.0])  # the geometric mean is 8
    assert (low, high) == pytest.approx((4.0, 16.0))
