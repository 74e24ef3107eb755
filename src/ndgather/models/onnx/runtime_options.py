"""How each of several runtimes loads a model: providers and libraries for all, or for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ndgather.errors import runtime_errors
from ndgather.models.entry_checks import names, whole_number
from ndgather.models.onnx.runtime_model import REFERENCE
from ndgather.runtimes.whole_model import LoadOptions

ForRuntimes: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]
"""For every runtime, or for those that are named."""


def options_by_runtime(
    caller: str, runtimes: Sequence[str], threads: object, providers: object, libraries: object
) -> dict[str, LoadOptions]:
    """Return the options of each runtime.

    Raises
    ------
    DTypeError, ModelError
        An argument is of another type, names another runtime, or one that takes no such things.
    """
    given = None if threads is None else whole_number(caller, "threads", threads, 1)
    of_each = _by_runtime(caller, runtimes, "providers", providers)
    loaded = _by_runtime(caller, runtimes, "libraries", libraries)
    for found in (of_each, loaded):
        if found.get(REFERENCE):
            raise runtime_errors.nothing_to_load(REFERENCE, found[REFERENCE])
    return {
        name: LoadOptions(
            threads=given, providers=of_each.get(name, ()), libraries=loaded.get(name, ())
        )
        for name in runtimes
    }


def _by_runtime(
    caller: str, runtimes: Sequence[str], argument: str, value: object
) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        for_all = names(caller, argument, value)
        able = [name for name in runtimes if name != REFERENCE] or runtimes
        return dict.fromkeys(able, for_all)
    for name in value:
        if name not in runtimes:
            raise runtime_errors.not_compared(caller, argument, name, runtimes)
    return {name: names(caller, f"{argument}[{name!r}]", each) for name, each in value.items()}
