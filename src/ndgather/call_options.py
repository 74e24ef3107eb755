"""The options of calls on stored arrays: memory, whom to tell of progress, who does the work.

They are checked for every call; only calls on stored and lazy arrays go by them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ndgather.errors import option_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}iB"] = 1024**_power
_UNITS["kB"] = 1000  # as the SI writes it
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_UNIT_NAMES = ", ".join(unit for unit in _UNITS if unit)


class Executor(Protocol):
    """Anything that takes functions to call elsewhere, as `concurrent.futures` has them."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...


def checked(call: Call) -> Call:
    """Return `call` with its options checked: memory in bytes, progress None where it is False.

    Raises
    ------
    NdgatherError
        One of them is not allowed.
    """
    caller, progress = call.caller, call.progress
    if progress is False:
        progress = None
    elif progress is not None and progress is not True and not callable(progress):
        raise option_errors.progress_not_callable(caller, progress)
    if call.executor is not None and not callable(getattr(call.executor, "submit", None)):
        raise option_errors.executor_without_submit(caller, call.executor)
    if call.memory is None and progress is call.progress:
        return call
    return replace(call, memory=_bytes(caller, call.memory), progress=progress)


def _bytes(caller: str, memory: object) -> int | None:
    if memory is None:
        return None
    if isinstance(memory, str):
        match = _SIZE.fullmatch(memory)
        unit = _UNITS.get(match[2]) if match else None
        if match is None or unit is None:
            raise option_errors.not_a_size(caller, "memory", memory, _UNIT_NAMES)
        return int(min(float(match[1]) * unit, sys.maxsize))  # more is no bound
    if not isinstance(memory, int) or isinstance(memory, bool) or memory < 0:
        raise option_errors.not_a_size(caller, "memory", memory, _UNIT_NAMES)
    return int(memory)
