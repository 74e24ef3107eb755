"""The user's view of an index out of bounds: the line, the module, the argument, the message."""

from __future__ import annotations

import ast
import linecache
import math
import os
import re
import sys
import sysconfig
import traceback
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

from ndgather.arrays.torch.checked.positions import MASKS, Entries
from ndgather.errors import IndexOutOfBoundsError
from ndgather.messages import subscript

_NOT_READ = object()
_NARROW = (torch.int8, torch.uint8, torch.int16, torch.int32)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_RECORDED = re.compile(r'  File "(.*)", line (\d+), in .*\n(?: *(.*)\n)?')


def _is_own(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in ("ndgather", "contextlib") or name == "torch._ops"


class Place(NamedTuple):
    """The line of a program that called an operator."""

    file: str = ""
    line: int = 0
    source: str = ""

    def __str__(self) -> str:
        near = os.path.relpath(self.file)
        file = self.file if near.startswith("..") else near
        return f"{file}:{self.line}: {self.source}".rstrip(": ")


class Caller(NamedTuple):
    """Who called an operator: the innermost line that is not torch's, the user's line, modules."""

    place: Place
    user: Place
    modules: list[torch.nn.Module]  # innermost first
    names: frozenset[str]  # local variables of the functions


def _is_library(file: str) -> bool:
    return file.startswith(("<frozen", *_LIBRARIES)) or "-packages" + os.sep in file


def find_caller() -> Caller:
    """Find who calls the operator.

    In a backward pass the line is that of the forward call, if torch keeps it.
    """
    node = torch._C._current_autograd_node()
    kept = _RECORDED.findall("".join(node.metadata.get("traceback_", ()))) if node else []
    torch_folder = str(Path(torch.__file__).parent)
    places = [Place(file, int(line), text) for file, line, text in reversed(kept)]
    places = [place for place in places if not place.file.startswith(torch_folder)]
    found: list[Place] = []
    modules: list[torch.nn.Module] = []
    names: set[str] = set()
    for frame, number in traceback.walk_stack(sys._getframe(1)):
        code, package = frame.f_code, frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("torch", "ndgather", "contextlib", ""):
            source = linecache.getline(code.co_filename, number, frame.f_globals)
            found.append(Place(code.co_filename, number, source.strip()))
        if code.co_name == "_engine_run_backward" and (found or places):
            break  # who calls backward() does not call the operator
        names.update(code.co_varnames)
        owner = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
        if isinstance(owner, torch.nn.Module):
            modules.append(owner)
    found = found or places or [Place()]
    user = next((place for place in found if not _is_library(place.file)), Place())
    return Caller(found[0], user, modules, frozenset(names))


def find_path(modules: list[torch.nn.Module]) -> str:
    """Return the path of the innermost module in the outermost that has it."""
    for outer in reversed(modules):
        for name, module in outer.named_modules():
            if module is modules[0]:
                parts = [part for part in name.split(".") if part not in ("", "_orig_mod")]
                return ".".join(parts) or type(getattr(module, "_orig_mod", module)).__name__
    return ""


def hide_own_frames(error: BaseException) -> None:
    """Take the frames of the checks out of a traceback, and those of torch behind the program's."""
    kept = last = error.__traceback__
    trace = kept.tb_next if kept else None
    while kept is not None and trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if name.startswith(__package__) or name == "torch._ops":
            kept.tb_next = trace.tb_next
        else:
            kept = trace
            last = last if name.partition(".")[0] == "torch" else trace
        trace = trace.tb_next
    if last is not None and isinstance(error, IndexOutOfBoundsError) and error.operator:
        last.tb_next = None


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
    operator: str, entries: Entries, called: Any, caller: Caller, count: int, first: int, value: Any
) -> IndexOutOfBoundsError:
    (argument, axis, shape), place, user = called, caller.place, caller.user
    position = entries.before + tuple(map(int, np.unravel_index(int(first), shape)))
    if entries.values.is_floating_point():
        narrow = entries.values.dtype != torch.float64
        value = float(str(np.float32(value))) if narrow else float(value)
    what = f"is outside axis {axis} of {entries.of}, which has size {entries.size}"
    allowed = f"allowed: {entries.lowest}..{entries.highest}"
    if entries.problem:
        what, allowed = (
            entries.problem,
            f"allowed: {entries.allowed}" if entries.allowed else allowed,
        )
    elif entries.size is None:
        what, allowed = "is negative", "allowed: 0 and more"
    elif entries.lowest > entries.highest:
        allowed = "the axis is empty"
    if entries.passed is not None:
        allowed += f"; ignore_index {entries.passed}"
    if count > 1:
        outside = "" if entries.problem else " are outside"
        allowed += f"; {int(count)} of {math.prod(shape)} entries{outside}"
    module = find_path(caller.modules)
    where = ", ".join(filter(None, (module, str(place) if place.line else "")))
    lines = [f"{operator}: {argument}{subscript(position)} = {value} {what} ({allowed})"]
    lines += [f"  in {where}"] if where else []
    lines += [f"  called from {user}"] if user.line and user != place else []
    lines += [f"  {advice}" for advice in _advise(operator, entries, value, caller, module)]
    return IndexOutOfBoundsError(
        "\n".join(lines),
        position=position,
        value=value,
        axis=axis,
        size=entries.size or 0,
        count=int(count),
        operator=operator,
        argument=argument,
        module=module,
        file=place.file,
        line=place.line,
        user_file=user.file,
        user_line=user.line,
    )


def _advise(operator: str, entries: Entries, value: int, caller: Caller, module: str) -> list[str]:
    """Return the advice for a pattern that is certain, if there is one."""
    size, dtype = entries.size or 0, entries.values.dtype
    if entries.problem:
        return []
    if dtype in _NARROW and value < 0 and size - 1 > torch.iinfo(dtype).max:
        most = torch.iinfo(dtype).max
        return [f"{dtype} holds at most {most}, so the index has overflowed: use torch.int64"]
    if operator.startswith("nll_loss") and entries.passed is not None:
        if value in (-1, 255) and not entries.lowest <= value <= entries.highest:
            return [f"if {value} means that there is no label: pass ignore_index={value}"]
        if value == size:
            return [f"labels start at 0: those of {size} classes are 0..{size - 1}"]
    if operator in ("embedding", "embedding_renorm_") and value >= size:
        if re.search(r"(^|[._])(wpe|pos(ition)?(_?emb\w*|s)?|embed_positions)", module):
            return [f"the model has {size} positions: shorten the sequence, or use more positions"]
        if any(hasattr(each, "resize_token_embeddings") for each in caller.modules):
            return ["if tokens were added: model.resize_token_embeddings(len(tokenizer))"]
    if value >= size and "edge_index" in caller.names:
        return [f"if this is edge_index: it names node {value}, and there are nodes 0..{size - 1}"]
    return []
