"""``python -m tools.mutants COUNT [SEED] [SECONDS] [FIRST]``: change an expression, and test.

mutmut makes random changes in all modules except the GPU kernels; the default seed is the number of
the day. Each change is made in a copy of the package, and the tests that call the changed function
run until one fails, for about SECONDS, fast and specific tests first. ``build/mutants/calls.json``
maps tests to the functions they call; the first run records it, which takes some minutes. If no
test calls the function (constants, code in child processes), the tests run that share most rare
words with it. Tests run in forks of this process, which has imported slow modules. Undetected
changes are printed as diffs, and a table of the changes in each part of the package ends the
output.
"""

import ast
import difflib
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
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

# The first match is the part of the package, whose tests are in these folders.
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
TOGETHER = 3.0, 20.0  # seconds of tests per process: most changes fail in the first process
UNKNOWN = 1.0  # assumed seconds of a test that was not recorded
SLOW = {
    "subprocess",
    "multiprocessing",
    "distributed",
}  # words in files of slow tests
SLOWER, ELSEWHERE = 0.25, 0.5  # they run later, as if they shared fewer words
LONGEST = 600  # seconds after which a change counts as an endless loop
CALLS = Path("build/mutants/calls.json")
EXAMPLES = 2  # parameters of a test that are recorded


class Recorder:
    """A pytest plugin that records the functions of the package that each test calls."""

    def __init__(self) -> None:
        self.codes: dict[int, Any] = {}
        self.known: dict[int, str] = {}
        self.calls: defaultdict[str, set[str]] = defaultdict(set)
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.counts: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = []
        for item in items:
            name = _test_function(item.nodeid)
            self.counts[name] += 1
            if self.counts[name] <= EXAMPLES:
                kept.append(item)
        items[:] = kept

    def _note(self, frame: Any, event: str, _: object) -> None:
        if event == "call":
            self.codes[id(frame.f_code)] = frame.f_code

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        self.codes = {}
        begun = time.monotonic()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            name = _test_function(item.nodeid)
            self.seconds[name].append(time.monotonic() - begun)
            root = f"{PACKAGE.resolve()}/"
            for code in [*self.codes.values()]:
                if code.co_filename.startswith(root):
                    function = code.co_qualname.partition(".<locals>")[0]
                    self.calls[name].add(f"{code.co_filename[len(root) :]}:{function}")

    def pytest_sessionfinish(self) -> None:
        tests = {
            name: {
                "seconds": round(sum(times) / len(times) * self.counts[name], 3),
                "calls": sorted(self.calls[name]),
            }
            for name, times in self.seconds.items()
        }
        CALLS.parent.mkdir(parents=True, exist_ok=True)
        CALLS.write_text(json.dumps(tests))


def _test_function(address: str) -> str:
    return address.partition("[")[0]


def _record() -> None:
    """Write `CALLS`: the functions of the package that each test calls, and its seconds."""
    os.environ |= {"HYPOTHESIS_PROFILE": "quick", "CI": "true"}
    folders = sorted({folder for folders in TESTS.values() for folder in folders})
    slow = ("tests/core/memory", "tests/core/threads", *map(str, Path("tests").rglob(KERNELS)))
    ignored = [f"--ignore={each}" for each in slow]
    pytest.main([*OPTIONS[1:], *ignored, *folders], plugins=[Recorder()])


@cache
def recorded() -> dict[str, Any]:
    """Return the functions that each test calls, and its seconds, by test name."""
    if not CALLS.exists():
        child = multiprocessing.get_context("fork").Process(target=_record)
        child.start()
        child.join()
    found: dict[str, Any] = json.loads(CALLS.read_text())
    return found


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
    """A test function in a file, with all of its parameters."""

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


def _changed_function(before: str, after: str) -> tuple[str, str]:
    """Return the qualified name and the text of the changed function, or "" and the whole text."""
    lines = before.splitlines()
    pairs = enumerate(zip_longest(lines, after.splitlines()), 1)
    at = next((number for number, (one, other) in pairs if one != other), 0)
    name, body = [], ast.parse(before).body
    while True:
        outer = next((each for each in body if _has_line(each, at)), None)
        if isinstance(outer, ast.ClassDef):
            name.append(outer.name)
            body = outer.body
        elif isinstance(outer, ast.FunctionDef):
            text = "\n".join(lines[outer.lineno - 1 : outer.end_lineno])
            return ".".join([*name, outer.name]), text
        else:
            return "", before


def _has_line(node: ast.stmt, line: int) -> bool:
    decorators = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return bool(first <= line <= (node.end_lineno or 0))


def related(path: Path, text: str, seconds: float) -> list[tuple[str, float]]:
    """Return the tests of a change and their seconds; tests that call the function come first."""
    inside = str(path.relative_to(PACKAGE))
    before = path.read_text()
    name, function = _changed_function(before, text)
    tests = recorded()
    address = f"{inside}:{name}"

    def cost(test: str) -> float:
        return float(tests[test]["seconds"] + 0.2) * len(tests[test]["calls"])

    callers = [test for test, each in tests.items() if name and address in each["calls"]]
    order = sorted(callers, key=cost) + [
        test for test in _alike(path, before, function) if test not in callers
    ]
    chosen = []
    for test in order:
        needed = tests[test]["seconds"] if test in tests else UNKNOWN
        if needed > seconds:
            continue
        seconds -= needed
        chosen.append((test, needed))
    return chosen


def _alike(path: Path, before: str, function: str) -> list[str]:
    """Return tests sorted by the number of rare words shared with a function and its module."""
    inside = str(path.relative_to(PACKAGE))
    folders = next(TESTS[part] for part in TESTS if inside.startswith(part))
    tests = [test for folder in folders for test in tests_in(folder)]
    counts = Counter(word for test in tests for word in test.words)
    of_files = Counter(word for test in tests for word in test.of_file)
    of_function, of_module = _words(function), _words(f"{path} {before}")

    def likeness(test: Test) -> float:
        shared = sum(1 / counts[word] for word in of_function & test.words)
        shared += sum(1 / of_files[word] for word in of_module & test.of_file)
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
    """Return the first test that fails with a copy of the package, or None."""
    with tempfile.TemporaryFile("w+") as output:
        child = multiprocessing.get_context("fork").Process(target=_run, args=(copy, output, tests))
        child.start()
        child.join(LONGEST)
        if child.exitcode is None:
            os.killpg(child.ident or 0, signal.SIGKILL)
            child.join()
            return f"not done after {LONGEST} s"
        output.seek(0)
        lines = [line for line in output if line.startswith(("FAILED", "ERROR"))]
    if child.exitcode == pytest.ExitCode.USAGE_ERROR:  # completely skipped files have no tests
        there = [test for test in tests if not any(f"{test}\n" in line for line in lines)]
        if there and len(there) < len(tests):
            return failed(copy, there)
    status = f"exit status {child.exitcode}" if child.exitcode else ""
    return lines[0].strip() if lines else status


def parts_of(tests: Sequence[tuple[str, float]]) -> Iterator[Sequence[str]]:
    """Yield groups of tests, one group per process."""
    part: list[str] = []
    room, later = TOGETHER
    for test, seconds in tests:
        part.append(test)
        room -= seconds
        if room < 0 or len(part) == 20:
            yield part
            part, room = [], later
    if part:
        yield part


def outcome(path: Path, text: str, seconds: float, copy: Path = COPY) -> str:
    """Return the test that fails with a changed file, or None."""
    tests = related(path, text, seconds)
    changed = copy / path.relative_to(PACKAGE)
    changed.write_text(text)
    try:
        return next(filter(None, (failed(copy, part) for part in parts_of(tests))), "")
    finally:
        shutil.copyfile(path, changed)


def prepare(copy: Path = COPY) -> None:
    """Copy the package with its core, and import the other modules that its tests import."""
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


def print_table(tried: Counter[str], survived: Counter[str]) -> None:
    print(f"{'part':24}  changes  not noticed")
    for part in sorted(tried):
        print(f"{part:24}  {tried[part]:7}  {survived[part]:11}")
    print(f"{'all':24}  {tried.total():7}  {survived.total():11}")


def main(count: str, seed: str = "", seconds: str = "40", first: str = "0") -> None:
    seed = seed or str(int(time.time() // 86_400))
    random_ = random.Random(int(seed))
    prepare()
    tried: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    for number in range(int(count)):
        path, text = drawn(random_)
        if number < int(first):  # of an interrupted run
            continue
        begun = time.monotonic()
        noticed = outcome(path, text, float(seconds))
        took = time.monotonic() - begun
        part = path.relative_to(PACKAGE).parts[0]
        tried[part] += 1
        survived[part] += not noticed
        print(f"{number} {took:.0f} s {path}: {noticed or 'NOT NOTICED'}", flush=True)
        if not noticed:
            before, after = path.read_text().splitlines(), text.splitlines()
            print(*difflib.unified_diff(before, after, lineterm="", n=1), sep="\n", flush=True)
    print(f"seed {seed}")
    print_table(tried, survived)


if __name__ == "__main__":
    main(*sys.argv[1:])
