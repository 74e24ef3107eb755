"""``python -m tools.nightly night|rest|release|TASK...``: run make targets one after another.

A task runs even if the previous task failed, with ``make --keep-going``. build/nightly contains the
output of each task, and a page with its time, exit status and last line. After `LONGEST` seconds
the run ends and stops the current task. ``rest`` runs the tasks of a night that have not passed on
the current commit, according to the page of the last run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
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
NIGHT = (
    *("nightly-draws", "nightly-frameworks", "nightly-runtimes", "test-large", "test-xarray"),
    *("test-targets", "check-long", "check-asan", "check-tsan", "nightly-borders", "nightly-fuzz"),
    *("faults", "nightly-mutants", "check-portable"),
)
RELEASE = ("release-wheel", "test-wheels", "lint", "docs")


def run_task(task: str, seconds: float) -> tuple[int, str]:
    """Return the exit status of a task (124 if it took too long) and its last line of output."""
    target, *variables = TASKS.get(task, (task,))
    log = FOLDER / f"{task}.log"
    settings = dict(each.split("=", 1) for each in variables if each.startswith("HYPOTHESIS"))
    options = [each for each in variables if not each.startswith("HYPOTHESIS")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["make", "--keep-going", target, *options],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **settings},
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return 124, f"stopped after {seconds:.0f} s"
    lines = log.read_text(errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith("make")]
    return status, said[-1][:150] if said else ""


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
    lists: dict[tuple[str, ...], tuple[str, ...]]
    lists = {("night",): NIGHT, ("rest",): NIGHT, ("release",): RELEASE}
    tasks = lists.get(words, words)
    commit = describe_commit()
    passed = passed_tasks(commit) if words == ("rest",) else []
    if not passed:
        for folder in (FOLDER, Path("build/reports")):
            shutil.rmtree(folder, ignore_errors=True)
        FOLDER.mkdir(parents=True)
    lines = [f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {commit}, SEED={SEED}", "   s  rc  task"]
    lines += [row[0] for row in passed]
    print(*lines, sep="\n", flush=True)
    seconds, failed, begun = sum(int(row[1]) for row in passed), 0, time.monotonic()
    for task in tasks:
        if task in [row[2] for row in passed]:
            continue
        started = time.monotonic()
        left = LONGEST - (started - begun)
        status, said = run_task(task, left) if left > 0 else (124, "not begun")
        failed += status != 0
        took = round(time.monotonic() - started)
        seconds += took
        lines.append(f"{took:4} {status:3}  {task}: {said}")
        print(lines[-1], flush=True)
        PAGE.write_text("\n".join([*lines, f"{seconds:4} s in all", ""]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
