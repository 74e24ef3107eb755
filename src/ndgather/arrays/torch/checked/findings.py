"""The user's view of an index out of bounds: the line, the module, the argument, the message."""

from __future__ import annotations

import linecache
import math
import os
import re
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ndgather.arrays.torch.checked.positions import Entries
from ndgather.errors import IndexOutOfBoundsError
from ndgather.messages import subscript

_RECORDED = re.compile(r'  File "(.*)", line (\d+), in .*\n(?: *(.*)\n)?')


def find_place() -> tuple[str, int, str, list[torch.nn.Module]]:
    """Find the innermost line that is not torch's, and the modules that call it, innermost first.

    In a backward pass it is the line of the forward call, if torch keeps it.
    """
    node = torch._C._current_autograd_node()
    kept = _RECORDED.findall("".join(node.metadata.get("traceback_", ()))) if node else []
    kept = [found for found in kept if not found[0].startswith(str(Path(torch.__file__).parent))]
    file, line, source = "", 0, ""
    modules: list[torch.nn.Module] = []
    for frame, number in traceback.walk_stack(sys._getframe(1)):
        code, package = frame.f_code, frame.f_globals.get("__name__", "").partition(".")[0]
        if not line and package not in ("torch", "ndgather", "contextlib", ""):
            file, line = code.co_filename, number
            source = linecache.getline(file, line, frame.f_globals)
        if code.co_name == "_engine_run_backward" and (line or kept):
            break  # who calls backward() does not call the operator
        owner = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
        if isinstance(owner, torch.nn.Module):
            modules.append(owner)
    if not line and kept:
        file, line, source = kept[-1]
    return file, int(line), source.strip(), modules


def find_path(modules: list[torch.nn.Module]) -> str:
    """Return the path of the innermost module in the outermost that has it."""
    for outer in reversed(modules):
        for name, module in outer.named_modules():
            if module is modules[0]:
                return name.replace("_orig_mod.", "") or type(module).__name__
    return ""


def describe_argument(call: Any, entries: Entries) -> tuple[str, int, tuple[int, ...]]:
    """Return the argument, the axis, and the shape of the values as the user's call has them."""
    argument, values, axis = entries[:3]
    user: Any = call or (None, (), {})
    shape, (func, args, kwargs) = tuple(values.shape), user
    with suppress(Exception):  # else the operator's are as right
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and entries.of == "self":
            argument, axis = find_subscript(axis, args[0].dim(), args[1])
        for each in (*args, *kwargs.values()):
            same = isinstance(each, torch.Tensor) and each.numel() == values.numel()
            if same and each.is_set_to(values.view(each.shape)):
                shape = tuple(each.shape)  # before it was flattened
    return argument, axis, shape


def find_subscript(axis: int, axes: int, index: Any) -> tuple[str, int]:
    """Return which item of ``x[index]`` is on an axis of the sliced x, and on which axis of x."""
    items = index if isinstance(index, tuple) else (index,)
    is_mask = [str(getattr(item, "dtype", "")).endswith(("bool", "uint8")) for item in items]
    new = [item is None or item is Ellipsis for item in items]
    spans = [0 if a else b.ndim if c else 1 for a, b, c in zip(new, items, is_mask, strict=True)]
    kept, at = [], 0
    for number, item in enumerate(items):
        span = axes - sum(spans) if item is Ellipsis else spans[number]
        if new[number] or isinstance(item, slice) or np.ndim(item):  # an integer leaves no axis
            kept += [(f"indices[{number}]", at + each) for each in range(span or item is None)]
        at += span
    return kept[axis]


def describe_error(
    operator: str, entries: Entries, called: Any, place: Any, count: int, first: int, value: int
) -> IndexOutOfBoundsError:
    (argument, axis, shape), (file, line, source, modules) = called, place
    position = entries.before + tuple(map(int, np.unravel_index(first, shape)))
    what = f"is outside axis {axis} of {entries.of}, which has size {entries.size}"
    allowed = f"allowed: {entries.lowest}..{entries.highest}"
    if entries.size is None:
        what, allowed = "is negative", "allowed: 0 and more"
    elif entries.lowest > entries.highest:
        allowed = "the axis is empty"
    if entries.passed is not None:
        allowed += f"; ignore_index {entries.passed}"
    if count > 1:
        allowed += f"; {count} of {math.prod(shape)} entries are outside"
    module, near = find_path(modules), os.path.relpath(file) if line else ""
    place = f"{file if near.startswith('..') else near}:{line}: {source}".rstrip(": ")
    where = ", ".join(filter(None, (module, place if line else "")))
    text = f"{operator}: {argument}{subscript(position)} = {value} {what} ({allowed})"
    names = "position value axis size count operator argument module file line"
    values: Any = (position, value, axis, entries.size or 0, count, operator, argument)
    known = dict(zip(names.split(), (*values, module, file, line), strict=True))
    return IndexOutOfBoundsError(f"{text}\n  in {where}" if where else text, **known)
