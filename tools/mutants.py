"""``python -m tools.mutants COUNT [SEED]``: change one expression of the package, and test.

The changes are those of mutmut, drawn by the seed, by default the number of the day, from all
modules but the adapters of frameworks. Each is made in a copy of the package, for which the tests
that name most of its module run, and then those of its folder, until one fails. A change that no
test notices is printed as a difference.
"""

import difflib
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mutmut.mutation.file_mutation import create_mutations, deep_replace

PACKAGE = Path("src/ndgather")
COPY = Path("build/mutants/changed/ndgather")
FRAMEWORKS = ("torch", "jax", "tensorflow")

# The first that matches is the part of the package; each line from the quickest tests on.
TESTS = {
    "arrays/dask": ("tests/arrays",),
    "arrays": ("tests/arrays", "tests/cli"),
    "stored": ("tests/stored", "tests/arrays/test_xarray_stored.py", "tests/cli"),
    "models": ("tests/models", "tests/cli"),
    "runtimes": ("tests/models", "tests/cli"),
    "published": ("tests/operators", "tests/models", "tests/docs"),
    "testing": ("tests/operators", "tests/docs"),
    "show": ("tests/show", "tests/docs", "tests/cli"),
    "pages": ("tests/docs", "tests/cli"),
    "cli": ("tests/cli", "tests/models", "tests/docs"),
    "": ("tests/core", "tests/operators", "tests/arrays", "tests/stored"),
}
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--tb=line", "--no-header")
FIRST = 4  # files of tests, before all of their folder
SECONDS = 900


def drawn(random_: random.Random) -> tuple[Path, str]:
    """Return a file of the package, and its text with one change."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if not {*path.parts} & {*FRAMEWORKS}]
    while True:
        (path,) = random_.choices(files, [each.stat().st_size for each in files])
        module, mutations, *_ = create_mutations(str(path), path.read_text())
        if mutations:
            change = random_.choice(mutations)
            changed: Any = deep_replace(module, change.original_node, change.mutated_node)
            return path, changed.code


def related(path: Path, folders: tuple[str, ...]) -> list[str]:
    """Return the files of tests that name most of what a module defines, then their folders."""
    names = {path.stem, path.stem.removesuffix("s")}
    names |= {*re.findall(r"^ *(?:def|class) (\w+)", path.read_text(), re.MULTILINE)}
    files = [file for folder in folders for file in Path(folder).rglob("test_*.py")]
    found = {
        file: len(names & {*re.findall(r"\w+", f"{file} {file.read_text()}")}) for file in files
    }
    return [*map(str, sorted(files, key=lambda file: -found[file])[:FIRST]), *folders]


def outcome(path: Path, text: str, most: int) -> str:
    """Return the test that fails with a changed file, or nothing."""
    inside = path.relative_to(PACKAGE)
    tests = next(TESTS[part] for part in TESTS if str(inside).startswith(part))
    environment = os.environ | {
        "PYTHONPATH": str(COPY.parent.resolve()),
        "HYPOTHESIS_PROFILE": "short",
        "CI": "true",
    }
    ordered = related(path, tests)
    (COPY / inside).write_text(text)
    try:
        for part in (ordered[:FIRST], *([each] for each in ordered[FIRST:][:most])):
            command = [sys.executable, "-m", "pytest", *OPTIONS, *part]
            ended = subprocess.run(
                command,
                env=environment,
                timeout=SECONDS,
                check=False,
                capture_output=True,
                text=True,
            )
            if ended.returncode:
                lines = [line for line in ended.stdout.splitlines() if "FAILED" in line]
                return lines[0] if lines else f"exit status {ended.returncode}"
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    finally:
        shutil.copyfile(path, COPY / inside)
    return ""


def main(count: str, seed: str = "", folders: str = "9") -> None:
    number = int(seed or time.time() // 86_400)
    random_ = random.Random(number)
    core = importlib.util.find_spec("ndgather._core")
    assert core is not None
    assert core.origin is not None
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(PACKAGE, COPY, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(core.origin, COPY)
    survived = 0
    for _ in range(int(count)):
        path, text = drawn(random_)
        noticed = outcome(path, text, int(folders))
        survived += not noticed
        print(f"{path}: {noticed or 'NOT NOTICED'}", flush=True)
        if not noticed:
            before, after = path.read_text().splitlines(), text.splitlines()
            print(*difflib.unified_diff(before, after, lineterm="", n=1), sep="\n", flush=True)
    print(f"seed {number}: {count} changes, {survived} not noticed")


if __name__ == "__main__":
    main(*sys.argv[1:])
