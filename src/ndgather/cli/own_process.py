"""Work that may end its process, such as that of a runtime, done by a child that is outlived."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from contextlib import suppress

_SENT_BY_A_PROCESS = 0  # SI_USER; what a terminal sends, the child gets as well
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} if os.name == "posix" else set()


def outlived() -> int | None:
    """Let a child go on from here, and wait for it.

    Returns
    -------
    int or None
        None in the child, and where the system has no such children; in the parent how the child
        ended: its exit status, or the number of a signal below 0.
    """
    if not sys.platform.startswith("linux"):
        return None
    awaited = {*_PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads survive a fork
        child = os.fork()
    if child == 0:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    try:
        return _waited_for(child, awaited)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _waited_for(child: int, awaited: set[signal.Signals]) -> int:
    while True:
        came = signal.sigwaitinfo(awaited)
        if came.si_signo != signal.SIGCHLD:
            if came.si_code == _SENT_BY_A_PROCESS:
                os.kill(child, came.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
