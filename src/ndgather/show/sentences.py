"""What a picture says in words: its title, a sentence for each entry, notes below."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from ndgather.array_call import Call
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import one_line
from ndgather.show.scene import State, letter
from ndgather.show.trace import entries_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.attempt import Attempt
    from ndgather.show.trace import Named, Region, Trace

_OPTIONS = ("axis", "batch_dims", "reduction", "mode", "fill_value", "use_init_val")
_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Call)}
_MOST_REPEATS = 4
_BECOMES = {
    "raise": "{raw} counts from the end of its axis: it is {place}",
    "fill": "{raw} counts from the end of its axis: it is {place}",
    "drop": "{raw} counts from the end of its axis: it is {place}",
    "wrap": "{raw} wraps around: it is {place}",
    "clip": "{raw} is clipped: it is {place}",
}


def title(call: Call) -> str:
    """Write the call, with the options that are not at their defaults."""
    names = ["data", call.indices_name]
    if call.scatters:
        names.append(call.updates_name)
    if call.kind == "gather_windows":
        names.append(str(call.window_shape))
    for name in _OPTIONS:
        value = getattr(call, name)
        if value is not _DEFAULTS[name] and str(value) != str(_DEFAULTS[name]):
            names.append(f"{name}={shown_value(value)}")
    return one_line(f"{call.caller}({', '.join(names)})")


def of_entry(trace: Trace, entry: Named) -> str:
    """Say what one entry names, and what it does there."""
    call = trace.call
    raw = [str(value.raw) for value in entry.values]
    if call.kind in ("gather", "gather_elements", "scatter_elements"):
        value = raw[0]
    else:
        value = f"({', '.join(raw)}{',' if len(raw) == 1 else ''})"
    at = f"[{', '.join(map(str, entry.position))}]" if entry.position else ""
    subject = f"{call.indices_name}{at} = {value}"
    dense = _region("updates" if call.scatters else "result", entry.dense, trace.dense_shape)
    match entry.state:
        case State.REFUSED:
            return f"{subject} is out of bounds"
        case State.DROPPED:
            return f"{subject} is out of bounds: {dense} is left out"
        case State.FILLED:
            return f"{subject} is out of bounds: {dense} is filled"
    data = _region("data", entry.data or (), call.data.shape)
    if call.scatters:
        return f"{subject}: {dense} meets {data}"
    return f"{subject}: {dense} is {data}"


def _region(name: str, region: Region, shape: Sequence[int]) -> str:
    if not region:
        return name
    parts = []
    for each, size in zip(region, shape, strict=True):
        if len(each) == size and size != 1:
            parts.append(":")
        else:
            parts.append(str(each[0]) if len(each) == 1 else f"{each.start}:{each.stop}")
    return f"{name}[{', '.join(parts)}]"


def of_values(trace: Trace) -> Iterator[str]:
    """Say once for each way what an index value becomes."""
    said = set()
    for entry in trace.entries:
        for value in entry.values:
            if value.place is not None and value.place != value.raw and trace.call.mode not in said:
                said.add(trace.call.mode)
                yield _BECOMES[trace.call.mode].format(raw=value.raw, place=value.place)


def of_repeats(trace: Trace) -> Iterator[str]:
    """Say in which order updates of one place land there."""
    call = trace.call
    if not call.scatters:
        return
    if len(trace.entries) < math.prod(entries_shape(call)):
        yield "updates that are not drawn may land on the same places"
        return
    landing: dict[Region, list[str]] = {}
    for number, entry in enumerate(trace.entries):
        if entry.data is not None:
            landing.setdefault(entry.data, []).append(letter(number))
    repeated = [(region, letters) for region, letters in landing.items() if len(letters) > 1]
    for region, letters in repeated[:_MOST_REPEATS]:
        place = _region("result", region, call.data.shape)
        yield f"{place}: {_landing(call, letters, place.replace('result', 'data', 1))}"
    if len(repeated) > _MOST_REPEATS:
        yield f"and {len(repeated) - _MOST_REPEATS} other places that several updates meet"


def _landing(call: Call, letters: Sequence[str], old: str) -> str:
    if call.reduction == "none":
        return f"{', then '.join(letters)}; the last one stays"
    terms = [old, *letters] if call.use_init_val else list(letters)
    match call.reduction:
        case "add":
            return " + ".join(terms)
        case "sub":
            return " - ".join(terms if call.use_init_val else ["0", *letters])
        case "mul":
            return " * ".join(terms)
        case "mean":
            return f"({' + '.join(terms)}) / {len(terms)}"
        case _:
            return f"{call.reduction}({', '.join(terms)})"


def of_shape(attempt: Attempt, shape: tuple[int, ...] | None) -> Iterator[str]:
    """Say what shape a result has in the end, if its caller gives it another."""
    if shape in (None, attempt.dense_shape) or attempt.error is not None:
        return
    if not attempt.call.scatters:
        yield f"the operator joins the batch axes: the shape of its result is {shown(shape or ())}"


def of_what_was_read(attempt: Attempt) -> Iterator[str]:
    if not attempt.readable:
        yield "nothing of the data was read or computed"
    if not attempt.checked:
        yield "there are too many entries to check all of them: only those drawn were looked at"
