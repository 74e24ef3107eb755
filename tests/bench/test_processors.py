"""Whether the processors are free is measured, and waited for, but not for ever."""

from threading import Lock
from time import sleep

import pytest
from bench import processors
from bench.processors import Processors


def test_threads_that_hinder_each_other_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Lock()

    def one_at_a_time(_thread: int) -> None:
        with lock:
            sleep(0.02)

    monkeypatch.setattr(processors, "_hash", one_at_a_time)
    assert processors.at_once(3) >= 0.06
    monkeypatch.setattr(processors, "_hash", lambda _thread: sleep(0.02))
    assert 0.02 <= processors.at_once(3) < 0.06


def test_wait_ends_when_the_processors_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [2.0, 1.0, 2.0, 1.5, 1.25, 0.5]
    monkeypatch.setattr(processors, "at_once", lambda _threads: seconds.pop(0))
    free = Processors(threads=2)
    assert free.wait() == 1.0
    assert free.wait() == 1.0
    assert free.wait() == 0.8
    assert seconds == [0.5]


def test_wait_does_not_last_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "at_once", lambda _threads: 2.0)
    monkeypatch.setattr(processors, "_MOST_SECONDS", 0.05)
    assert Processors(threads=2, least_seconds=1.0).wait() == 0.5


def test_patience_ends_after_some_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def half_free(threads: int) -> float:
        asked.append(threads)
        return 2.0

    monkeypatch.setattr(processors, "at_once", half_free)
    impatient = Processors(threads=2, least_seconds=1.0, patience=0.05)
    assert [impatient.wait() for _ in range(4)] == [0.5] * 4
    assert len(asked) == 5


def test_halves_of_one_core_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "at_once", lambda _threads: 3.0)
    assert Processors(threads=2).wait() == 1.0
