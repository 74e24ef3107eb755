"""``python -m tools.nightly night|rest|release|TASK...``: run make targets one after another.

A task runs even if the previous task failed, with ``make --keep-going``. At night, two tasks run at
a time after the tasks of `FIRST`. build/nightly contains the output of each task, and a page with
its time, exit status and last line. After `LONGEST` seconds the run ends and stops the current
tasks. ``rest`` runs the tasks of a night that have not passed on the current commit, according to
the page of the last run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path("build/nightly")
PAGE = FOLDER / "page.txt"
SEED = os.environ.get("SEED", "")
LONGEST = 4 * 3600

# The target and the variables of a task, unless its name is the target.
TASKS: dict[str, tuple[str, ...]] = {
    "nightly-draws": (
        "test",
        "HYPOTHESIS_PROFILE=nightly",  # 500 examples each
        "PYTEST_FLAGS=-o faulthandler_timeout=3600",
    ),
    "nightly-frameworks": ("test-frameworks", "HYPOTHESIS_PROFILE=dev"),
    "nightly-runtimes": ("test-runtimes", "HYPOTHESIS_PROFILE=dev"),
    "nightly-borders": ("check-borders", "TIME=600"),
    "nightly-fuzz": ("fuzz", "TIME=300"),
    "nightly-mutants": ("mutants", f"SAMPLE=30 {SEED}"),
}
# These build the environments of the others, or use two processors.
FIRST = ("nightly-environments", "nightly-draws")
# The longest first, so that the last pair ends at about the same time.
PAIRED = (
    *("faults", "check-asan", "nightly-mutants", "check-long", "nightly-fuzz", "check-tsan"),
    *("nightly-frameworks", "nightly-borders", "check-portable", "nightly-runtimes"),
    *("test-targets", "test-xarray", "test-large"),
)
RELEASE = ("release-wheel", "test-wheels", "lint", "docs")


class Task:
    """A running target of make."""

    def __init__(self, name: str) -> None:
        target, *variables = TASKS.get(name, (name,))
        settings = dict(each.split("=", 1) for each in variables if each.startswith("HYPOTHESIS"))
        options = [each for each in variables if not each.startswith("HYPOTHESIS")]
        self.name, self.begun, self.log = name, time.monotonic(), FOLDER / f"{name}.log"
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                ["make", "--keep-going", target, *options],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **settings},
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def outcome(self) -> tuple[int, str]:
        """Return the exit status (124 if it was stopped) and a row of the page."""
        seconds = time.monotonic() - self.begun
        status = self.process.wait()
        lines = self.log.read_text(errors="replace").splitlines()
        said = [line for line in lines if line and not line.startswith("make")]
        last = said[-1][:150] if said else ""
        if status == -signal.SIGKILL:
            status, last = 124, f"stopped after {seconds:.0f} s"
        return status, f"{seconds:4.0f} {status:3}  {self.name}: {last}"


def run_tasks(tasks: Sequence[str], at_a_time: int, end: float) -> Iterator[tuple[int, str]]:
    """Run tasks until `end`, some at a time, and yield the outcome of each when it ends."""
    waiting, running = [*tasks], list[Task]()
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                if time.monotonic() < end:
                    running.append(Task(waiting.pop(0)))
                else:
                    yield 124, f"{0:4} 124  {waiting.pop(0)}: not begun"
            time.sleep(0.05)
            for task in [*running]:
                if time.monotonic() > end:
                    task.kill()
                if task.process.poll() is not None:
                    running.remove(task)
                    yield task.outcome()
    finally:
        for task in running:
            task.kill()


def describe_commit() -> str:
    """Return the commit of the working tree, or a unique name if there are changes."""
    command = ["git", "describe", "--always", "--dirty=+"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return said if said and not said.endswith("+") else f"{said or 'no commit'} {time.time():.0f}"


def passed_tasks(commit: str) -> list[re.Match[str]]:
    """Return the rows of the tasks that passed on a commit, from the page of the last run."""
    text = PAGE.read_text() if PAGE.exists() else ""
    rows = re.finditer(r"^ *(\d+)   0  (\S+): .*$", text, re.MULTILINE)
    return [*rows] if f", {commit}, " in text.partition("\n")[0] else []


def main(*words: str) -> int:
    night = words in (("night",), ("rest",))
    first, paired = (FIRST, PAIRED) if night else (RELEASE if words == ("release",) else words, ())
    commit = describe_commit()
    passed = passed_tasks(commit) if words == ("rest",) else []
    if not passed:
        for folder in (FOLDER, Path("build/reports")):
            shutil.rmtree(folder, ignore_errors=True)
        FOLDER.mkdir(parents=True)
    lines = [f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {commit}, SEED={SEED}", "   s  rc  task"]
    lines += [row[0] for row in passed]
    print(*lines, sep="\n", flush=True)
    failed, begun = 0, time.monotonic()
    for tasks, at_a_time in ((first, 1), (paired, 2)):
        left = [task for task in tasks if task not in [row[2] for row in passed]]
        for status, row in run_tasks(left, at_a_time, begun + LONGEST):
            failed += status != 0
            lines.append(row)
            print(row, flush=True)
            seconds = time.monotonic() - begun
            PAGE.write_text("\n".join([*lines, f"{seconds:4.0f} s in this run", ""]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
