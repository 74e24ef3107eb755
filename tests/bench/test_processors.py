"""Whether the processors are free is measured, and waited for, but not for ever."""

import pytest
from bench import processors


@pytest.mark.parametrize("threads", [1, 2])
def test_share_is_a_share(threads: int) -> None:
    assert 0 < processors.at_once(threads) <= 1


def test_wait_ends_when_the_processors_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [0.5, 0.79, 0.8, 1.0]
    monkeypatch.setattr(processors, "at_once", lambda _threads: shares.pop(0))
    assert processors.wait(2) == 0.8
    assert shares == [1.0]


def test_wait_does_not_last_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "at_once", lambda _threads: 0.5)
    monkeypatch.setattr(processors, "_MOST_SECONDS", 0.05)
    assert processors.wait(2) == 0.5
