"""Tests run in a child process: with one module replaced, or with the lines that each test runs.

The parent imports what is slow and none of the package, so that a child is ready at once.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import coverage
import hypothesis
import ml_dtypes
import onnx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "build" / "mutants" / "log.txt"
MOST_MEMORY = 6 * 2**30
WARM = (hypothesis, ml_dtypes, onnx, pytest)
OPTIONS = (
    *("-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow"),
    *("-W", "ignore:Module already imported"),  # which is what makes a child quick
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended: `failed` names the first test that did not pass."""

    status: int
    failed: str
    seconds: float


@dataclass(slots=True)
class _Core(importlib.abc.MetaPathFinder):
    """Gives the package another core."""

    path: Path

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "ndgather._core":
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, str(self.path))
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


@dataclass(slots=True)
class _Replaced(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Gives one module another source."""

    name: str
    path: Path
    source: str

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != self.name:
            return None
        is_package = self.path.name == "__init__.py"
        spec = importlib.util.spec_from_loader(name, self, is_package=is_package)
        if spec is not None and is_package:
            spec.submodule_search_locations = [str(self.path.parent)]
        return spec

    def get_code(self, _name: str) -> CodeType:
        return compile(self.source, str(self.path), "exec")

    def get_source(self, _name: str) -> str:
        return self.source

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.path)
        exec(self.get_code(self.name), module.__dict__)


class _Watch:
    """Notes the test that runs, and the first one that fails."""

    def __init__(self, report: Path) -> None:
        self.report = report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.report.read_text():
            self.report.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.report.read_text():
            self.report.write_text(report.nodeid or "collection")


class _Lines:
    """Notes the lines of some files that each test runs, and how long it takes."""

    def __init__(self, report: Path, files: Sequence[Path]) -> None:
        self.report = report
        self.files = list(map(str, files))
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(data_file=None, include=self.files)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        self.coverage.start()
        self.coverage.switch_context(item.nodeid)
        start = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - start
            self.coverage.stop()

    def pytest_sessionfinish(self) -> None:
        data = self.coverage.get_data()
        lines = {
            file: {line: list(filter(None, tests)) for line, tests in found.items()}
            for file in self.files
            if (found := data.contexts_by_lineno(file))
        }
        self.report.write_text(json.dumps({"seconds": self.seconds, "lines": lines}))


def with_module(
    name: str, path: Path, source: str, tests: Sequence[str], limit: int, report: Path
) -> Outcome:
    """Run tests, until one fails, with another source for one module."""

    def prepare() -> list[object]:
        sys.meta_path.insert(0, _Replaced(name, path, source))
        return [_Watch(report)]

    return run(prepare, ["-x", *tests], limit, report)


def with_core(core: Path, tests: Sequence[str], limit: int, report: Path) -> Outcome:
    """Run tests, until one fails, with another core."""

    def prepare() -> list[object]:
        sys.meta_path.insert(0, _Core(core))
        return [_Watch(report)]

    return run(prepare, ["-x", *tests], limit, report)


def lines_of(tests: Sequence[str], files: Sequence[Path], limit: int, report: Path) -> Outcome:
    """Run tests and leave the lines of `files` that each of them runs in `report`."""
    return run(lambda: [_Lines(report, files)], tests, limit, report)


def run(
    prepare: Callable[[], list[object]], arguments: Sequence[str], limit: int, report: Path
) -> Outcome:
    """Run pytest in a child, for at most `limit` seconds."""
    report.write_text("")
    start = time.monotonic()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _be_the_child(prepare, arguments, limit)
    _, ended = os.waitpid(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    return Outcome(status, report.read_text()[:200], time.monotonic() - start)


def _be_the_child(
    prepare: Callable[[], list[object]], arguments: Sequence[str], limit: int
) -> None:
    status = 99
    try:
        signal.alarm(limit)  # ends the child: a mutant may run for ever, or fill the memory
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        os.chdir(ROOT)
        log = os.open(LOG, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for each in 0, 1, 2:
            os.dup2(log, each)
        with contextlib.suppress(SystemExit):
            status = int(pytest.main([*OPTIONS, *arguments], plugins=prepare()))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
