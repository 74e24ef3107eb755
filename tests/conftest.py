"""Settings of the whole suite: how many examples Hypothesis draws, and from which seed.

``HYPOTHESIS_PROFILE=nightly`` draws many, ``short`` (of ``make check``) few;
``CI=true`` draws the same ones each time.

At the end the skipped tests are counted by their reasons.
"""

import os
import signal
from collections import Counter

from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell began the suite in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

COMMON = {
    "deadline": None,
    "print_blob": True,
    "derandomize": os.environ.get("CI") == "true",
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("dev", **COMMON, max_examples=150)
settings.register_profile("short", **COMMON, max_examples=20)
settings.register_profile("nightly", **COMMON, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, times in reasons.most_common():
        terminalreporter.write_line(f"skipped {times:4}: {reason}")
