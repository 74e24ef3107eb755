"""Compare two builds of ndgather case by case, on equal arrays, with one process per build.

The builds take turns. A turn is an untimed call followed by several samples, of which the shortest
counts. A round is a turn of both builds, in an order that changes from round to round. Other work
on a shared machine only adds time, so the slowest quarter of the turns is ignored, and rounds are
added as long as the even and the odd rounds give different ratios.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tarfile
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tools.child_process import ROOT, ChildError, ChildProcess

from .child import SAMPLE_SECONDS
from .report import geometric_mean, seconds_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case

BUILDS = ROOT / "build" / "against"
_SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "core", "src")
_AGREEMENT = 0.03
_MOST_ROUNDS = 2  # times the requested rounds
_TINY_SECONDS = 10e-6
_PROCESSES = 3
_PROCESSES_OF_TINY = 5
_WORST = 12
_NOT_THERE = "left out, not possible there"
_LIMITS = (0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The times of a call in each build, one per round."""

    name: str
    other_turns: tuple[float, ...]
    own_turns: tuple[float, ...]

    @property
    def other_seconds(self) -> float:
        return _typical(self.other_turns)

    @property
    def own_seconds(self) -> float:
        return _typical(self.own_turns)

    @property
    def ratio(self) -> float:
        """Ratio of the other build's time to this build's: above 1 if this build is faster."""
        return self.other_seconds / self.own_seconds


def _typical(seconds: Sequence[float]) -> float:
    """Return the mean of the fastest three quarters."""
    return mean(sorted(seconds)[: max(len(seconds) * 3 // 4, 1)])


class _Builds(ExitStack):
    """The processes of the build in `folder` and of the current build.

    Their environments have different sizes, which also changes the address of the stack.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.names = (folder, "the build here")
        self.processes = []
        for argument in (folder, ""):
            space = {"NDGATHER_BENCH_SPACE": " " * random.randrange(4096)}
            child = ChildProcess("bench.child", argument, environment=space)
            self.processes.append(self.enter_context(child))

    def ask(self, side: int, *request: Any) -> Any:
        self.processes[side].send(*request)
        try:
            return self._receive(side)
        except ChildError as error:
            raise ValueError(f"{self.names[side]}: {error}") from None

    def _receive(self, side: int) -> Any:
        try:
            return self.processes[side].receive()
        except ChildError as error:
            if error.ended:
                raise ValueError(f"the process of {self.names[side]} {error}") from None
            raise

    def prepare(self, case: Case, threads: int) -> list[float] | str:
        """Return the approximate time of a call in both builds, or why they cannot be compared."""
        for process in self.processes:
            process.send("prepare", case, threads)
        replies: list[Any] = []
        for side in (0, 1):
            try:
                replies.append(self._receive(side))
            except ChildError as error:
                replies.append(error)
        there, here = replies
        if isinstance(here, ChildError):
            return f"FAILED here: {here}"
        if isinstance(there, ChildError):
            return f"{_NOT_THERE}: {there}"
        return [there[1], here[1]] if there[0] == here[0] else "DIFFERENT ANSWERS"

    def time(self, case: Case, trials: Sequence[float], rounds: int) -> Comparison:
        calls = len(case.variants())
        numbers = [max(int(SAMPLE_SECONDS / (calls * seconds)), 1) for seconds in trials]
        turns: tuple[list[float], list[float]] = ([], [])
        for done in range(_MOST_ROUNDS * rounds):
            if done >= rounds and _agree(*turns):
                break
            for side in (0, 1) if done % 2 else (1, 0):
                turns[side].append(self.ask(side, "turn", numbers[side]))
        return Comparison(name=case.name, other_turns=tuple(turns[0]), own_turns=tuple(turns[1]))


def build(what: str) -> Path:
    """Return a folder with an importable ndgather: an installed package, sources or a revision.

    A revision or a source tree is built once, and again if its files change. Raise ValueError if
    the folder or revision does not exist, or if it does not build.
    """
    path = Path(what).expanduser().resolve()
    if (path / "ndgather" / "__init__.py").is_file():
        return path
    if (path / "pyproject.toml").is_file():
        return _installed(_digest(path), path)
    if path.is_dir():
        raise ValueError(f"{what}: neither an installed ndgather nor its source tree")
    sha = git("rev-parse", "--verify", "--quiet", f"{what}^{{commit}}").decode().strip()
    return _installed(sha, None)


def _installed(name: str, source: Path | None) -> Path:
    """Return the folder of a build of `source`, or of the commit `name` if there is no source."""
    target = BUILDS / name
    if target.is_dir():
        return target
    print(f"building {source or name[:12]} into {target}", flush=True)
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=BUILDS) as temporary,
        nullcontext(source) if source else TemporaryDirectory() as tree,
    ):
        if not source:
            with tarfile.open(fileobj=BytesIO(git("archive", name))) as archive:
                archive.extractall(tree, filter="data")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--target", f"{temporary}/installed"]
        command += ["--config-settings", f"build-dir={temporary}/build", str(tree)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"{source or name[:12]} does not build:\n{done.stderr.strip()}")
        Path(temporary, "installed").rename(target)
    return target


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        revision = arguments[-1].removesuffix("^{commit}")
        raise ValueError(f"no folder and no revision of {ROOT}: {revision}")
    return done.stdout


def _digest(tree: Path) -> str:
    """Return a hash of the sources in `tree`."""
    digest = blake2b(digest_size=20)
    for top in _SOURCES:
        paths = sorted((tree / top).rglob("*")) if (tree / top).is_dir() else [tree / top]
        for path in paths:
            if path.is_file() and path.suffix not in (".pyc", ".so"):
                digest.update(f"{path.relative_to(tree)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def compare(
    what: str,
    cases: Sequence[Case],
    threads: int,
    rounds: int,
    *,
    answers_only: bool,
    path: Path | None,
) -> tuple[int, list[Comparison]]:
    """Compare `what` (a revision or a folder) with this build and print the table.

    Return the exit status (0, or 1 if a result differed or this build failed) and the comparisons.
    Raise ValueError if `what` does not exist or does not build, or if a process ends.
    """
    folder = str(build(what))
    done: list[Comparison] = []
    started = perf_counter()
    wrong = 0
    with _Builds(folder) as builds:
        print(f"there: {builds.ask(0, 'where')}\nhere:  {builds.ask(1, 'where')}\n")
        print(f"{'case':28}  {'there':>9}  {'here':>9}  there/here", flush=True)
        for case in cases:
            trials = builds.prepare(case, threads)
            if isinstance(trials, str):
                wrong += not trials.startswith(_NOT_THERE)
                print(f"{case.name:28}  {trials}", flush=True)
            elif answers_only:
                print(f"{case.name:28}  same bytes", flush=True)
            else:
                first = builds.time(case, trials, rounds)
                for side in (0, 1):
                    builds.ask(side, "forget")  # the next processes create the same arrays
                count = _PROCESSES_OF_TINY if min(trials) < _TINY_SECONDS else _PROCESSES
                done.append(_in_more_processes(first, case, folder, threads, rounds, count))
                there, here = done[-1].other_seconds, done[-1].own_seconds
                times = f"{seconds_text(there):>9}  {seconds_text(here):>9}"
                print(f"{case.name:28}  {times}  {done[-1].ratio:10.3f}", flush=True)
    if done:
        print(f"\n{summary(done)}\nin {perf_counter() - started:.0f} s")
    if path:
        _save(path, what, threads, done)
    return (1 if wrong else 0), done


def _in_more_processes(
    first: Comparison, case: Case, folder: str, threads: int, rounds: int, count: int
) -> Comparison:
    """Time a call in `count` pairs of processes in total.

    The addresses of the code, the stack and the arrays of a process change a time by 10 %.
    """
    comparison = first
    for _ in range(count - 1):
        with _Builds(folder) as builds:
            trials = builds.prepare(case, threads)
            if isinstance(trials, str):
                raise ValueError(f"{case.name}: {trials}, but not in the process before")
            more = builds.time(case, trials, max(rounds // 2, 1))
        comparison = replace(
            comparison,
            other_turns=comparison.other_turns + more.other_turns,
            own_turns=comparison.own_turns + more.own_turns,
        )
    return comparison


def _agree(other: Sequence[float], own: Sequence[float]) -> bool:
    """Return whether the even and the odd rounds have similar ratios."""
    if len(own) < 2:
        return True
    even, odd = (_typical(other[first::2]) / _typical(own[first::2]) for first in (0, 1))
    return abs(even - odd) <= _AGREEMENT * odd


def summary(done: Sequence[Comparison]) -> str:
    """Return the mean, the worst cases, and the number of slower cases."""
    ratios = [one.ratio for one in done]
    below = [f"{sum(ratio < limit for ratio in ratios)} below {limit}" for limit in _LIMITS]
    return (
        f"{len(done)} cases, geometric mean {mean_ratio(done):.3f}"
        f" (above 1: faster here), {', '.join(below)}\n"
        f"least: {', '.join(f'{one.name} {one.ratio:.2f}' for one in least(done, _WORST))}"
    )


def mean_ratio(done: Sequence[Comparison]) -> float:
    return geometric_mean([one.ratio for one in done])


def least(done: Sequence[Comparison], count: int) -> list[Comparison]:
    """Return the cases with the lowest ratios, in increasing order."""
    return sorted(done, key=lambda one: one.ratio)[:count]


def _save(path: Path, what: str, threads: int, done: Sequence[Comparison]) -> None:
    derived = ("other_seconds", "own_seconds", "ratio")
    content = {
        "against": what,
        "threads": threads,
        "geometric_mean": mean_ratio(done) if done else None,
        "cases": [asdict(one) | {name: getattr(one, name) for name in derived} for one in done],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
