"""The instrument itself: wrong answers are caught, numbers mean what they say, files read back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from bench import measure as bench_measure
from bench import page, processors, report
from bench.__main__ import main
from bench.case import Arrays, Case
from bench.limits import Limit, Machine
from bench.measure import Result, Timing, check, measure
from bench.peer import Call, Idioms, Peer
from bench.peers import ORACLE

import ndgather

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
    """A peer whose one way to make the call is given."""

    make: Callable[[Arrays], Any]

    def prepare(self, case: Case, threads: int) -> Idioms:
        del case, threads
        return {"made up": lambda _, arrays: Call(run=lambda: self.make(arrays))}


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
def test_a_wrong_peer_is_named_and_not_timed(make: Callable[[Arrays], Any], reason: str) -> None:
    result = measure(
        CASE, [peer("good", right), peer("bad", make)], 1, rounds=2, machine=Machine(threads=1)
    )
    assert [timing.peer for timing in result.timings] == ["good"]
    assert result.refusals == {"bad": reason}


def test_an_output_left_from_another_peer_is_no_answer() -> None:
    def fill(arrays: Arrays) -> Any:
        assert arrays.out is not None
        arrays.out[...] = right(arrays)
        return arrays.out

    case = replace(CASE, output="given")
    refusals, _ = check(case, [peer("good", fill), peer("idle", lambda arrays: arrays.out)], 1)
    assert refusals == {"idle": "wrong answer"}


def test_an_update_in_place_starts_from_the_data_every_time() -> None:
    def add(arrays: Arrays) -> Any:
        assert arrays.updates is not None
        for row, update in zip(arrays.indices[:, 0], arrays.updates, strict=True):
            arrays.data[row] += update
        return arrays.data

    case = replace(CASE, operator="scatter_nd", reduction="add", output="data")
    refusals, _ = check(case, [peer("first", add), peer("second", add)], 1)
    assert refusals == {}


@pytest.mark.parametrize(
    ("patience", "rounds", "free"), [(9.0, 3, 1.0), (0.0, 2, 0.5)], ids=["patient", "impatient"]
)
def test_a_disturbed_round_is_repeated(
    monkeypatch: pytest.MonkeyPatch, patience: float, rounds: int, free: float
) -> None:
    # Before and after each round; the second is disturbed while it lasts.
    seconds = [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0]
    monkeypatch.setattr(processors, "at_once", lambda _threads: seconds.pop(0))
    made: list[float] = []

    def count(_ready: object) -> list[float]:
        made.append(len(made) + 1.0)
        return made[-1:]

    monkeypatch.setattr(bench_measure, "_round", count)
    machine = Machine(threads=1)
    machine.processors.patience = patience
    result = measure(CASE, [peer("good", right)], 1, rounds=2, machine=machine)
    assert len(made) == rounds
    assert result.timings[0].samples == (1.0, float(rounds))
    assert result.free == free


def test_varied_shapes_are_timed_per_call() -> None:
    calls = []

    def count(arrays: Arrays) -> Any:
        calls.append(arrays.data.shape)
        return right(arrays)

    case = replace(CASE, varied_shapes=True)
    result = measure(case, [peer("peer", count)], 1, rounds=1, machine=Machine(threads=1))
    assert len(set(calls)) == len(case.variants()) == 64
    assert result.bytes_moved == case.bytes_moved // 64


def timing(name: str, seconds: float) -> Timing:
    return Timing(peer=name, idiom="made up", samples=(seconds, seconds, 10 * seconds))


def result(own: float, **others: float) -> Result:
    seconds = {"ndgather": own, **others}
    return Result(
        case=CASE,
        timings=tuple(timing(name, each) for name, each in seconds.items()),
        alone=None,
        refusals={"jax": "not installed"},
        failed=False,
        bytes_moved=1000,
        limit=Limit(copy_seconds=1.0, read_seconds=1.5, alone_seconds=3.0),
        memory_bound=True,
        free=1.0,
    )


def record(*results: Result) -> report.Record:
    return report.record(report.setting([ORACLE], 2), results, Machine(threads=2))


def test_ratio_is_to_the_fastest_other() -> None:
    one = result(2.0, numpy=5.0, torch=3.0)
    assert one.ratio == 1.5
    assert one.fastest_peer is not None
    assert one.fastest_peer.peer == "torch"


def test_limit_is_the_slower_of_its_parts() -> None:
    one = result(2.0)
    assert one.limit_fraction == 0.75
    assert one.limit.set_by == "random reads"
    assert one.ratio is None


def test_a_case_we_cannot_do_has_no_ratio() -> None:
    one = replace(result(1.0, numpy=2.0), timings=result(1.0, numpy=2.0).timings[1:])
    assert one.ratio is None
    assert one.limit_fraction is None


def scaled(name: str, threads: float, alone: float, limit: float = 3.0) -> Result:
    one = result(threads, numpy=9.0)
    return replace(
        one,
        case=replace(CASE, name=name),
        alone=timing("ndgather", alone),
        limit=replace(one.limit, alone_seconds=limit),
    )


def test_scaling_is_from_one_thread_to_all() -> None:
    one = scaled("case", 2.0, 3.0)
    assert one.scaling == 1.5
    assert one.limit.scaling == 2.0
    assert result(2.0).scaling is None


def test_the_limit_on_one_thread_is_the_slower_of_its_parts() -> None:
    machine = Machine(threads=2)
    case = replace(CASE, data_shape=(1 << 20, 4), index_shape=(1 << 20, 1))
    machine.copy_bytes_per_second = {1 << bits: (1e9, 2e9) for bits in range(30)}
    copied = machine.limit(replace(case, pattern="sorted"))
    assert copied.alone_seconds == 2 * copied.seconds == case.bytes_moved / 1e9
    pytest.importorskip("numba", reason="random reads are measured with it")
    machine.read_seconds[1 << 24, 16, 1 << 20] = (3e-7, 1e-7)
    read = machine.limit(case)
    assert read.alone_seconds == pytest.approx(3 * read.seconds)
    assert read.scaling == pytest.approx(3)


def test_our_own_calls_are_also_timed_on_one_thread() -> None:
    def slower_alone(arrays: Arrays) -> Any:
        sleep(4e-3 if ndgather.get_num_threads() == 1 else 1e-3)
        return right(arrays)

    own = Stand(name="ndgather", module="numpy", threads="as given", make=slower_alone)
    before = ndgather.get_num_threads()
    try:
        ndgather.set_num_threads(3)
        one = measure(CASE, [own, ORACLE], 2, rounds=2, machine=Machine(threads=2))
        assert one.scaling is not None
        assert one.scaling > 2
        assert one.alone is not None
        assert one.alone.peer == "ndgather"
        assert [each.peer for each in one.timings] == ["ndgather", "numpy"]
        alone = measure(CASE, [own], 1, rounds=1, machine=Machine(threads=1))
        assert (alone.alone, alone.scaling) == (None, None)
    finally:
        ndgather.set_num_threads(before)


def test_page_says_where_threads_bring_what_the_limit_gains() -> None:
    run = record(
        scaled("twice", 2.0, 4.0),
        scaled("hardly", 2.0, 2.8),
        scaled("bound", 2.0, 2.2, limit=2.0),
        scaled("worse", 2.0, 1.5, limit=2.0),
        result(1.0),
    )
    text = page.text(run, {})
    assert (
        "In 2 cases the limit is at least 1.7 times as fast with up to 2 threads as with one"
        " (geometric mean 2.00); there ndgather is 1.67 times as fast, and in 1 of them at"
        " least 1.7 times as fast. The others: `hardly` (1.40 of 2.00)." in text
    )
    assert "Threads cost more than a tenth in 1 of 4: `worse` (0.75)." in text
    assert "| 1.40 of 2.00 | made up for this test |" in text
    summary = report.summary(run)
    assert "as fast with 2 threads, of 2 whose limit is: hardly 1.40 of 2.00" in summary
    assert "slower by more than a tenth with 2 threads: worse 0.75" in summary


def test_page_says_where_threads_bring_nothing_to_any_limit() -> None:
    run = record(scaled("bound", 2.0, 2.2, limit=2.0))
    assert "There is no case in which the limit is at least 1.7 times as fast" in page.text(run, {})


def test_page_of_one_thread_says_nothing_of_scaling() -> None:
    run = record(result(2.0, numpy=3.0))
    run = replace(run, setting=replace(run.setting, threads=1))
    assert "as with one" not in page.text(run, {})
    assert "slower by" not in report.summary(run)


def test_summary_names_what_misses_its_target() -> None:
    text = report.summary(record(result(2.0, numpy=1.0), result(4.0, numpy=32.0)))
    assert "2 cases, geometric mean 2.00, least 0.50" in text
    assert "slower than the fastest peer: case 0.50" in text
    assert "below 70% of the limit: case 38%" in text


def test_saved_results_read_back(tmp_path: Path) -> None:
    machine = Machine(threads=2)
    machine.copy_bytes_per_second[1024] = (1e9, 2e9)
    machine.read_seconds[4096, 4, 1024] = (2e-9, 1e-9)
    run = report.record(report.setting([ORACLE], 2), [scaled("a", 2.0, 3.0)], machine)
    report.save(run, tmp_path / "new" / "run.json")
    assert report.load(tmp_path / "new" / "run.json") == run


def test_page_names_what_is_slower_and_what_is_far_from_which_limit() -> None:
    slow = replace(result(4.0, numpy=1.0), case=replace(CASE, name="slow"))
    near = result(1.5, numpy=4.0)
    text = page.text(record(slow, near), {})
    assert "Another library is faster on 1: `slow` (0.25)." in text
    assert "Of 2 cases beyond the last-level cache, 1 reach 70% of the limit." in text
    assert "with what sets the limit: `slow` (38%, random reads)." in text
    assert "By operator, with the number of cases: `gather_nd` 0.82 (2)." in text


def test_page_says_how_much_memory_leaves_to_win() -> None:
    # The least possible time is 1.5; what is faster than that sets the limit itself.
    run = record(result(2.0, numpy=3.0), result(0.5, numpy=4.0), result(1.0))
    text = page.text(run, {})
    assert "the fastest other library takes **4.00 times** as long as memory allows" in text


def test_page_names_cases_measured_while_processors_were_not_free() -> None:
    free = result(2.0, numpy=3.0)
    assert "were not free" not in page.text(record(free), {})
    text = page.text(record(free, replace(free, free=0.55)), {})
    assert "In 1 of 2 cases the processors were not free in every round" in text
    assert f"`{CASE.name}` (55%)" in text


def test_page_says_where_when_and_how_to_repeat() -> None:
    run = record(result(2.0, numpy=3.0))
    text = page.text(run, {})
    for part in (run.setting.processor, run.setting.date, run.setting.versions["numpy"]):
        assert part in text
    assert "python -m bench --load run.json --page docs/benchmarks.md" in text


def test_parts_of_a_run_are_joined() -> None:
    first, second = (
        record(result(2.0)),
        record(replace(result(3.0), case=replace(CASE, name="other"))),
    )
    second = replace(
        second,
        setting=replace(first.setting, date="9999"),
        copy_speeds=((1024, (1e9,)),),
        read_seconds=((4096, 4, 1024, (2e-9,)),),
    )
    run = report.joined([second, first])
    assert run.results == (*second.results, *first.results)
    assert run.copy_speeds == second.copy_speeds
    assert run.read_seconds == second.read_seconds
    assert run.setting.date == f"{first.setting.date} to 9999"


def test_parts_that_do_not_belong_together_are_refused() -> None:
    one = record(result(2.0))
    other = replace(one, setting=replace(one.setting, threads=7))
    with pytest.raises(ValueError, match="differ in machine, versions or threads"):
        report.joined([one, other])
    with pytest.raises(ValueError, match="case is in 2 of the runs"):
        report.joined([one, one])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"setting": {"date": ""}}', None])
def test_a_file_that_is_no_run_is_refused(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    assert main(["--load", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("python -m bench: error: ")
    assert str(path) in error


def test_a_peer_needs_all_its_packages() -> None:
    whole = Peer(name="whole", module="numpy", threads="one")
    half = replace(whole, needs=("no_such_package",))
    assert (whole.installed, whole.missing) == (True, ())
    assert (half.installed, half.missing) == (False, ("no_such_package",))


def test_page_shows_every_case_and_every_refusal(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the chart is drawn with it")
    one = result(2.0, numpy=3.0)
    other = replace(one, case=replace(CASE, name="other"))
    page.write(record(one, other), tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| `case` | 1 kB | 3 s | 450% | 1.50 | 75% | - | made up for this test |" in text
    assert "- jax, not installed: `case`, `other`\n" in text
    assert "](page.svg)" in text
    assert "](page-libraries.svg)" in text
    for name in ("page.svg", "page-libraries.svg"):
        assert "<svg" in (tmp_path / name).read_text()


def test_quick_run_checks_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--case", "call-nd-4x4", "--peer", "numpy"]) == 0
    assert "agree: ndgather numpy" in capsys.readouterr().out


def test_full_run_saves_where_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    options = ["--case", "call-nd-4x4", "--peer", "numpy", "--rounds", "1", "--threads", "1"]
    assert main([*options, "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "call-nd-4x4" in printed
    assert main(["--load", str(path)]) == 0
    assert "1 cases" in capsys.readouterr().out


def test_no_such_case_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "no such case", "--case", "nor this"]) == 2
    assert "no such case or nor this" in capsys.readouterr().err


def test_groups_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--group", "axis", "--group", "tiny", "--case", "*palette*"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["palette"]
    assert main(["--list", "--group", "tiny", "--group", "axis", "--case", "call-*varied"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["call-nd-varied", "call-elements-varied"]
