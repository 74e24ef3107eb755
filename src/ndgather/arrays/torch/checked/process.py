"""Changes that a block makes to threads and compiled functions in the whole process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch

from ndgather.arrays.torch.checked import dispatch
from ndgather.arrays.torch.checked.startup.after_import import AfterImport

_LOCK = threading.Lock()
_CHANGES: list[ExitStack] = []  # an entry per open block; only the first entry has callbacks


def change_process(
    enter_thread: Callable[[], object], make_function: Callable[..., Callable[..., Any]]
) -> None:
    """Call `enter_thread` in each thread that starts, and run compiled functions eagerly.

    `make_function` returns a function that checks the calls of `torch.unravel_index`.
    """
    with _LOCK:
        changes = ExitStack()
        if not _CHANGES:
            _watch_threads(changes, enter_thread)
            _run_eagerly(changes)
            changes.callback(dispatch.replace_unravel_index(make_function))
        _CHANGES.append(changes)


def restore_process() -> None:
    """Undo `change_process` unless another block is open."""
    with _LOCK:
        _CHANGES.pop().close()


def _watch_threads(changes: ExitStack, enter_thread: Callable[[], object]) -> None:
    """Call a function at the start of each new thread, regardless of the thread's class.

    `threading` installs a profile function in each thread that it starts. The profile function
    uninstalls itself at its first event, so that the thread runs at full speed.
    """
    before = threading.getprofile()

    def enter(frame: FrameType, event: Any, argument: Any) -> None:
        sys.setprofile(before)
        enter_thread()
        if before is not None:
            before(frame, event, argument)

    def restore() -> None:
        if threading.getprofile() is enter:
            threading.setprofile(before)

    threading.setprofile(enter)
    changes.callback(restore)


def _run_eagerly(changes: ExitStack) -> None:
    """Make functions compiled by `torch.compile` run eagerly."""

    def run_eagerly() -> None:
        stance = torch.compiler.set_stance("force_eager")
        changes.callback(stance.__exit__, None, None, None)

    if "torch._dynamo" in sys.modules:
        run_eagerly()
    else:  # importing the compiler takes a second, so wait until the program imports it
        changes.callback(AfterImport("torch._dynamo", run_eagerly).stop)
