"""Child processes answer requests, and the parent reports their errors and exits."""

import pytest

from tools.child_process import ChildError, ChildProcess

MODULE = """
import os, sys, time
from tools.child_process import serve

def answer(kind, value):
    print("noise on standard output")
    if kind == "raise":
        raise KeyError(value)
    if kind == "exit":
        print("the last line", file=sys.stderr, flush=True)
        os._exit(value)
    if kind == "sleep":
        time.sleep(value)
    if kind == "abort":
        os.abort()
    if kind == "fork" and os.fork():
        os.abort()
    elif kind == "fork":
        time.sleep(value)
    return sys.argv[1:], value * 2

serve(answer)
"""


@pytest.fixture
def started(tmp_path):
    (tmp_path / "doubling.py").write_text(MODULE)

    def start(*arguments, **options):
        environment = {"PYTHONPATH": str(tmp_path)}
        return ChildProcess("doubling", *arguments, environment=environment, **options)

    return start


def test_every_request_is_answered_whatever_the_child_prints(started):
    with started("one", "two") as child:
        assert child.ask("double", 21) == (["one", "two"], 42)
        assert child.ask("double", "ab") == (["one", "two"], "abab")


def test_child_answers_after_an_error(started):
    with started() as child:
        with pytest.raises(ChildError, match=r"^KeyError: 5$") as caught:
            child.ask("raise", 5)
        assert not caught.value.ended
        assert child.ask("double", 1) == ([], 2)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("exit", 3, "ended with exit status 3: the last line"),
        ("abort", 0, "ended by SIGABRT"),
        ("sleep", 60, "ended by SIGKILL"),
        ("fork", 60, "ended by SIGABRT"),
    ],
)
def test_ended_child_is_reported_for_all_requests(started, kind, value, text):
    with started(limit_s=3) as child:
        for request in ((kind, value), ("double", 1)):
            with pytest.raises(ChildError) as caught:
                child.ask(*request)
            assert (str(caught.value), caught.value.ended) == (text, True)
