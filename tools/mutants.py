"""``python -m tools.mutants COUNT [SEED] [TESTS] [FIRST]``: change an expression, and test.

The changes are those of mutmut, drawn by the seed, by default the number of the day, from all
modules but the kernels for a GPU. Each is made in a copy of the package, for which the tests
run that share most rare words with it, until one fails. A change that not one of so many TESTS
notices is printed as a difference. They run in forks of this process, which has imported what is
slow to import.
"""

import ast
import difflib
import importlib
import importlib.util
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import Any

import pytest
from mutmut.mutation.file_mutation import create_mutations, deep_replace

PACKAGE = Path("src/ndgather")
COPY = Path("build/mutants/changed/ndgather")
KERNELS = "*kernels.py"  # and their tests, which need a GPU or an interpreter
SLOW_IMPORTS = (
    *("hypothesis", "xarray", "dask.array", "zarr", "h5py", "scipy", "onnx.reference", "torch"),
)

# The first that matches is the part of the package, whose tests are in these folders.
TESTS = {
    "arrays/dask": ("tests/arrays",),
    **{
        f"arrays/{name}": ("tests/frameworks",)
        for name in ("standard", "lowering", "torch", "jax", "tensorflow")
    },
    "cli/checked": ("tests/frameworks",),
    "arrays": ("tests/arrays", "tests/cli"),
    "stored": ("tests/stored", "tests/arrays", "tests/cli"),
    "models": ("tests/models", "tests/cli"),
    "runtimes": ("tests/models", "tests/cli"),
    "published": (
        "tests/operators",
        "tests/conformance",
        "tests/core",
        "tests/models",
        "tests/docs",
    ),
    "stations": ("tests/cli",),
    "show": ("tests/show", "tests/docs", "tests/cli"),
    "cli": ("tests/cli", "tests/models", "tests/docs"),
    "": ("tests/core", "tests/operators", "tests/arrays", "tests/stored"),
}
OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--tb=line", "--no-header"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
TOGETHER = (10, 20)  # tests that one process runs: most changes fail in the first
SLOW = {
    "subprocess",
    "multiprocessing",
    "distributed",
}  # words of files with slow tests; so are drawn examples
SLOWER, ELSEWHERE = 0.25, 0.5  # they run later, as if they shared so much less
SECONDS = 600  # that it may take


def drawn(random_: random.Random) -> tuple[Path, str]:
    """Return a file of the package, and its text with one change."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.match(KERNELS)]
    while True:
        (path,) = random_.choices(files, [each.stat().st_size for each in files])
        module, mutations, *_ = create_mutations(str(path), path.read_text())
        if mutations:
            change = random_.choice(mutations)
            changed: Any = deep_replace(module, change.original_node, change.mutated_node)
            return path, changed.code


@dataclass(frozen=True)
class Test:
    """A function of a file of tests, with all of its parameters."""

    address: str
    words: frozenset[str]
    of_file: frozenset[str]


@cache
def tests_in(folder: str) -> list[Test]:
    """Return the tests in a folder."""
    found = []
    for file in sorted(Path(folder).rglob("test_*.py")):
        if file.match(KERNELS):
            continue
        text = file.read_text()
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                source = "\n".join(lines[first - 1 : node.end_lineno])
                found.append(Test(f"{file}::{node.name}", _words(source), _words(f"{file} {text}")))
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-zA-Z_]{3,}", text))


def _changed_function(before: str, after: str) -> str:
    """Return the text of the function that differs, or all if none does."""
    lines = before.splitlines()
    pairs = enumerate(zip_longest(lines, after.splitlines()), 1)
    at = next((number for number, (one, other) in pairs if one != other), 0)
    inside = [
        node
        for node in ast.walk(ast.parse(before))
        if isinstance(node, ast.FunctionDef) and node.lineno <= at <= (node.end_lineno or 0)
    ]
    if not inside:
        return before
    outer = min(inside, key=lambda node: node.lineno)
    return "\n".join(lines[outer.lineno - 1 : outer.end_lineno])


def related(path: Path, text: str) -> list[str]:
    """Return the tests of a change: first those that share most rare words with it."""
    inside = str(path.relative_to(PACKAGE))
    folders = next(TESTS[part] for part in TESTS if inside.startswith(part))
    tests = [test for folder in folders for test in tests_in(folder)]
    counts = Counter(word for test in tests for word in test.words)
    of_files = Counter(word for test in tests for word in test.of_file)
    before = path.read_text()
    function, module = _words(_changed_function(before, text)), _words(f"{path} {before}")

    def likeness(test: Test) -> float:
        shared = sum(1 / counts[word] for word in function & test.words)
        shared += sum(1 / of_files[word] for word in module & test.of_file)
        is_near = test.address.startswith(folders[0])
        is_quick = test.of_file.isdisjoint(SLOW) and "given" not in test.words
        return shared * (1 if is_near else ELSEWHERE) * (1 if is_quick else SLOWER)

    return [test.address for test in sorted(tests, key=likeness, reverse=True)]


def _run(copy: Path, output: Any, tests: Sequence[str]) -> None:
    os.setsid()
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    sys.path.insert(0, str(copy.parent.resolve()))
    os.environ |= {
        "PYTHONPATH": sys.path[0],
        "HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "quick"),
        "CI": "true",
    }
    os._exit(pytest.main([*OPTIONS, *tests]))


def failed(copy: Path, tests: Sequence[str]) -> str:
    """Return the first of some tests that fails with a copy of the package, or nothing."""
    with tempfile.TemporaryFile("w+") as output:
        child = multiprocessing.get_context("fork").Process(target=_run, args=(copy, output, tests))
        child.start()
        child.join(SECONDS)
        if child.exitcode is None:
            os.killpg(child.ident or 0, signal.SIGKILL)
            child.join()
            return f"not done after {SECONDS} s"
        output.seek(0)
        lines = [line for line in output if line.startswith(("FAILED", "ERROR"))]
    if child.exitcode == pytest.ExitCode.USAGE_ERROR:  # files that are skipped whole have no tests
        there = [test for test in tests if not any(f"{test}\n" in line for line in lines)]
        if there and len(there) < len(tests):
            return failed(copy, there)
    status = f"exit status {child.exitcode}" if child.exitcode else ""
    return lines[0].strip() if lines else status


def parts_of(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    start = 0
    for count in chain(TOGETHER, repeat(TOGETHER[-1])):
        if start >= len(tests):
            return
        yield tests[start : start + count]
        start += count


def outcome(path: Path, text: str, most: int, copy: Path = COPY) -> str:
    """Return the test that fails with a changed file, or nothing."""
    tests = related(path, text)[:most]
    changed = copy / path.relative_to(PACKAGE)
    changed.write_text(text)
    try:
        return next(filter(None, (failed(copy, part) for part in parts_of(tests))), "")
    finally:
        shutil.copyfile(path, changed)


def prepare(copy: Path = COPY) -> None:
    """Copy the package with its core, and import what its tests import from elsewhere."""
    found = importlib.util.find_spec("ndgather")
    assert found is not None
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for folder in found.submodule_search_locations or ():
        for core in Path(folder).glob("_core.*so"):
            shutil.copy(core, copy)
    for name in SLOW_IMPORTS:
        with suppress(ImportError):
            importlib.import_module(name)
    assert "ndgather" not in sys.modules, "forks have to import the copy"


def main(count: str, seed: str = "", most: str = "30", first: str = "0") -> None:
    seed = seed or str(int(time.time() // 86_400))
    random_ = random.Random(int(seed))
    prepare()
    survived = 0
    for number in range(int(count)):
        path, text = drawn(random_)
        if number < int(first):  # of a run that was ended
            continue
        noticed = outcome(path, text, int(most))
        survived += not noticed
        print(f"{path}: {noticed or 'NOT NOTICED'}", flush=True)
        if not noticed:
            before, after = path.read_text().splitlines(), text.splitlines()
            print(*difflib.unified_diff(before, after, lineterm="", n=1), sep="\n", flush=True)
    print(f"seed {seed}: {count} changes, {survived} not noticed")


if __name__ == "__main__":
    main(*sys.argv[1:])
