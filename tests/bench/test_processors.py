"""Whether the processors are free is measured, and waited for, but not for ever."""

from threading import Lock
from time import sleep

import pytest
from bench import processors
from bench.processors import Processors


def test_threads_that_hinder_each_other_get_less_done(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Lock()

    def one_at_a_time(_thread: int) -> None:
        with lock:
            sleep(0.02)

    monkeypatch.setattr(processors, "_hash", one_at_a_time)
    assert processors.at_once(3) == pytest.approx(1, rel=0.3)
    monkeypatch.setattr(processors, "_hash", lambda _thread: sleep(0.02))
    assert processors.at_once(3) == pytest.approx(3, rel=0.3)


def test_wait_ends_when_the_processors_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    done = [2.0, 1.0, 1.5, 1.7, 9.0]
    monkeypatch.setattr(processors, "at_once", lambda _threads: done.pop(0))
    free = Processors(threads=2)
    assert free.wait() == 1.0
    assert free.wait() == pytest.approx(0.85)
    assert done == [9.0]


def test_wait_does_not_last_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "at_once", lambda _threads: 1.0)
    monkeypatch.setattr(processors, "_MOST_SECONDS", 0.05)
    assert Processors(threads=2, most=2.0).wait() == 0.5


def test_patience_ends_after_some_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def half_free(threads: int) -> float:
        asked.append(threads)
        return 1.0

    monkeypatch.setattr(processors, "at_once", half_free)
    impatient = Processors(threads=2, most=2.0, patience=0.05)
    assert [impatient.wait() for _ in range(4)] == [0.5] * 4
    assert len(asked) == 5


def test_halves_of_one_core_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "at_once", lambda _threads: 1.1)
    assert Processors(threads=2).wait() == 1.0
