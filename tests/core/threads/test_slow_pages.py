"""Calls on memory that is slower than estimated let other threads run and can be interrupted."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.threads import slow_pages
from tests.definitions.environments import is_known


def is_possible() -> bool:
    if not is_known():  # Linux x86-64 constants
        return False
    try:
        slow_pages.open_faults()
    except OSError:
        return False
    return True


pytestmark = [
    pytest.mark.skipif(not is_possible(), reason="the system has no userfaultfd for us"),
    pytest.mark.plain,
]


def seconds(what: str, count: int) -> float:
    command = [sys.executable, "-m", "tests.core.threads.slow_pages", what, str(count)]
    root = Path(__file__).parents[3]
    return float(
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout
    )


@pytest.mark.parametrize("count", [1_500, 4_000])
def test_other_threads_run_during_slow_page_faults(count):
    """A call whose estimate was too short to release the GIL releases it after some time."""
    assert seconds("gil", count) < 0.2


@pytest.mark.parametrize("count", [1_500, 20_000])
def test_signal_stops_a_call_with_slow_page_faults(count):
    assert seconds("signal", count) < 1
