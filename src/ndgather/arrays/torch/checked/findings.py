"""The user's view of an index out of bounds: the line, the module, the argument, the message."""

from __future__ import annotations

import ast
import linecache
import math
import os
import re
import sys
import traceback
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from ndgather.arrays.torch.checked.positions import MASKS, Entries
from ndgather.errors import IndexOutOfBoundsError
from ndgather.messages import subscript

_NOT_READ = object()
_RECORDED = re.compile(r'  File "(.*)", line (\d+), in .*\n(?: *(.*)\n)?')


def _is_own(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in ("ndgather", "contextlib") or name == "torch._ops"


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


def describe_argument(entries: Entries) -> tuple[str, int, tuple[int, ...]]:
    """Return the argument, the axis, and the shape of the values as the user's call has them."""
    argument, values, axis = entries[:3]
    shape, base = tuple(values.shape), values._base
    if base is not None and base.numel() == values.numel():
        flattened = base.dim() > values.dim() or not base.dim()
        if flattened and base.is_contiguous() and values.is_contiguous():
            shape = tuple(base.shape)
    if entries.subscripts:
        argument, axis = find_subscript(argument, axis, entries.subscripts)
    return argument, axis, shape


def find_subscript(argument: str, axis: int, subscripts: tuple[bool, ...]) -> tuple[str, int]:
    """Return which item of ``x[index]`` holds positions, and on which axis of x.

    torch takes integers and None out of an index before it calls the operator, so the items are
    read in the source of the line. If they cannot be read, the operator's view is right, too.
    """
    kinds = _read_subscripts()
    places = [place for place, kind in enumerate(kinds) if kind == "tensor"]
    if len(places) != sum(subscripts):
        return argument, axis
    number = sum(subscripts[: int(argument[len("indices[") : -1])])
    before = kinds[: places[number]]
    axis += before.count("integer") - before.count("new axis")
    return f"indices[{places[number]}]", axis


def _read_subscripts() -> list[str]:
    """Return the kinds of the items in the subscript that the innermost frame evaluates."""
    frame = next(frame for frame, _ in traceback.walk_stack(None) if not _is_own(frame))
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        return []
    lines = [linecache.getline(frame.f_code.co_filename, each) for each in range(first, last + 1)]
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    try:
        tree = ast.parse(b"(" + b"".join(encoded) + b")", mode="eval").body
    except SyntaxError:
        return []
    if isinstance(tree, ast.Subscript):
        index = tree.slice
    elif isinstance(tree, ast.Call) and tree.args:  # of __getitem__ or __setitem__
        index = tree.args[0]
    else:
        return []
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    return [_subscript_kind(item, {**frame.f_globals, **frame.f_locals}) for item in items]


def _subscript_kind(item: ast.expr, names: dict[str, Any]) -> str:
    if isinstance(item, ast.Slice) or (
        isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == "slice"
    ):
        return "slice"
    if isinstance(item, ast.UnaryOp):
        item = item.operand
    value = item.value if isinstance(item, ast.Constant) else _NOT_READ
    if isinstance(item, ast.Name):
        value = names.get(item.id, _NOT_READ)
    if value is None:
        return "new axis"
    if value is Ellipsis or isinstance(value, slice):
        return "slice"
    scalar = isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype not in MASKS
    return "integer" if scalar or isinstance(value, int) else "tensor"


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
