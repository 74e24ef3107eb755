"""Settings of the whole suite: how many examples Hypothesis draws, and from which seed.

``HYPOTHESIS_PROFILE=nightly`` draws many, ``short`` (of ``make check``) and ``quick`` few; those of
``fixed`` are the same each time. ``--hypothesis-seed`` (``SEED`` of the Makefile) draws by a seed.

Tests that need a package which is not installed are skipped. At the end the skipped tests are
counted by their reasons; those that `make check` does not allow fail it.
"""

import os
import random
import re
import signal
import sys
import time
from collections import Counter
from importlib import import_module
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from tests.reports import address, outcomes

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell began the suite in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("triton"):  # it crashes where TensorFlow is imported, or XLA has compiled, before it
    import_module("triton")

COMMON = {
    "deadline": None,
    "print_blob": True,
    "derandomize": False,  # Hypothesis draws the same for ever where it sees continuous integration
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.register_profile("dev", **COMMON, max_examples=100)
settings.register_profile("short", **COMMON, max_examples=20)
settings.register_profile("quick", **COMMON, max_examples=5)
settings.register_profile("nightly", **COMMON, max_examples=500)
settings.register_profile("fixed", **COMMON | {"derandomize": True}, max_examples=150)
settings.load_profile(PROFILE)


_ABSENT = re.compile(
    r"(?:No module named '|No package metadata was found for |needs the package )(\w+)"
)
_OWN = {"ndgather", "tests", "bench", "conformance", "tools", "fuzz"}
_OWN |= {"operator_pages", "conformance_calls", "target_pages"}  # of docs/extensions


class SkipAbsent:
    """Skips tests, and files and folders of tests, that import a package which is absent.

    It is no hook of this conftest: those do not see folders whose own conftest fails.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        report = yield
        if report.failed and self._skip(report, collector.path, str(report.longrepr)):
            parts = collector.path.with_suffix("").relative_to(collector.config.rootpath).parts
            sys.modules.pop(".".join(parts), None)  # half imported, which pytest leaves there
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.failed and isinstance(call.excinfo.value, ImportError):
            self._skip(report, item.path, str(call.excinfo.value))
        return report

    def _skip(self, report, path, text):
        absent = _ABSENT.search(text)
        if absent is None or absent[1] in _OWN:
            return False
        report.outcome = "skipped"
        report.longrepr = (str(path), 1, f"Skipped: {absent[1]} is not installed")
        return True


def pytest_addoption(parser):
    parser.addoption(
        "--not-in",
        metavar="REPORT",
        help="leave out what ran by this JUnit file, but for the tests marked `runtimes`",
    )


@pytest.fixture
def draws(request):
    """Return a generator of random numbers that the seed and the name of the test decide.

    For tests that enumerate classes and draw a value of each: Hypothesis begins with the same one.
    """
    seed = request.config.getoption("--hypothesis-seed")
    seed = time.time_ns() if seed is None else seed
    print(f"drawn by --hypothesis-seed={seed}")
    return random.Random(f"{seed} {request.node.name}")


def pytest_configure(config):
    config.pluginmanager.register(SkipAbsent())


def pytest_collection_modifyitems(config, items):
    report = config.getoption("--not-in", default=None)
    if report is None:
        return
    ran = {(module, name) for module, name, outcome in outcomes(report) if outcome == "ran"}
    again = [
        item.get_closest_marker("runtimes") is not None or address(item.nodeid) not in ran
        for item in items
    ]
    config.hook.pytest_deselected(
        items=[item for item, kept in zip(items, again, strict=True) if not kept]
    )
    items[:] = [item for item, kept in zip(items, again, strict=True) if kept]


def pytest_terminal_summary(terminalreporter, config):
    seed = config.getoption("--hypothesis-seed")
    if seed is not None:
        terminalreporter.write_line(f"drawn by {PROFILE}, --hypothesis-seed={seed}")
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, times in reasons.most_common():
        terminalreporter.write_line(f"skipped {times:4}: {reason}")
