"""``python -m tools.nightly night|release|TASK...``: run targets of make one after the other.

A task runs even if the one before failed, with ``make --keep-going``. build/nightly gets the output
of each task, and a page with its time, exit status and last line.
"""

import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path("build/nightly")
SEED = os.environ.get("SEED", "")

# The target of a task and its variables, if it is not the target of that name alone.
TASKS: dict[str, tuple[str, ...]] = {
    "nightly-draws": (
        "test",
        "HYPOTHESIS_PROFILE=nightly",  # thousands of examples
        "PYTEST_FLAGS=-o faulthandler_timeout=3600",
    ),
    "nightly-frameworks": ("test-frameworks", "HYPOTHESIS_PROFILE=dev"),
    "nightly-runtimes": ("test-runtimes", "HYPOTHESIS_PROFILE=dev"),
    "nightly-borders": ("check-borders", "TIME=3600"),
    "nightly-fuzz": ("fuzz", "TIME=600"),
    "nightly-mutants": ("mutants", f"SAMPLE=300 {SEED}"),
}
NIGHT = (
    *("nightly-draws", "nightly-frameworks", "nightly-runtimes", "test-large", "test-xarray"),
    *("test-targets", "check-long", "check-asan", "check-tsan", "nightly-borders", "nightly-fuzz"),
    *("faults", "nightly-mutants", "check-portable"),
)
RELEASE = ("release-wheel", "test-wheels", "lint", "docs")


def run_task(task: str) -> tuple[int, str]:
    """Return the exit status of a task and the last line that it said."""
    target, *variables = TASKS.get(task, (task,))
    log = FOLDER / f"{task}.log"
    settings = dict(each.split("=", 1) for each in variables if each.startswith("HYPOTHESIS"))
    options = [each for each in variables if not each.startswith("HYPOTHESIS")]
    command = ["make", "--keep-going", target, *options]
    with log.open("wb") as file:
        done = subprocess.run(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **settings},
            check=False,
        )
    lines = log.read_text(errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith("make")]
    return done.returncode, said[-1][:150] if said else ""


def main(*words: str) -> int:
    tasks = [*words]
    if words in (("night",), ("release",)):
        tasks = [*(NIGHT if words == ("night",) else RELEASE)]
    for folder in (FOLDER, Path("build/reports")):
        shutil.rmtree(folder, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    lines = [f"{datetime.now(UTC):%Y-%m-%d %H:%M}, SEED={SEED}", "   s  rc  task"]
    print(*lines, sep="\n", flush=True)
    failed = 0
    for task in tasks:
        begun = time.monotonic()
        status, said = run_task(task)
        failed += status != 0
        lines.append(f"{time.monotonic() - begun:4.0f} {status:3}  {task}: {said}")
        print(lines[-1], flush=True)
        (FOLDER / "page.txt").write_text("\n".join([*lines, ""]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
