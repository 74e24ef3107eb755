"""Error messages for out-of-bounds indices, with the argument, the module and the line."""

from __future__ import annotations

import ast
import linecache
import math
import os
import re
import sys
import sysconfig
import traceback
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

from ndgather.arrays.torch.checked.operators import RAISE_INDEX_ERROR
from ndgather.arrays.torch.checked.positions import MASKS, Entries
from ndgather.errors import IndexOutOfBoundsError
from ndgather.messages import subscript

_NOT_READ = object()
_NARROW = (torch.int8, torch.uint8, torch.int16, torch.int32)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_RECORDED = re.compile(r'  File "(.*)", line (\d+), in .*\n(?: *(.*)\n)?')


class IndexOutOfBoundsRuntimeError(IndexOutOfBoundsError, RuntimeError):
    """An out-of-bounds error that handlers of torch's RuntimeError also catch."""


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


def _is_library(file: str) -> bool:
    return file.startswith(("<frozen", *_LIBRARIES)) or "-packages" + os.sep in file


class Caller:
    """The call stack of an operator. Source lines are read only if an error is raised."""

    def __init__(self) -> None:
        node = torch._C._current_autograd_node()
        self.recorded = "".join(node.metadata.get("traceback_", ())) if node else ""
        self.lines: list[tuple[CodeType, int, str]] = []  # innermost first
        self.modules: list[torch.nn.Module] = []
        for frame, number in traceback.walk_stack(sys._getframe(1)):
            code = frame.f_code
            package = frame.f_globals.get("__name__", "").partition(".")[0]
            self.lines.append((code, number, package))
            if code.co_name == "_engine_run_backward":
                break  # outer frames belong to the call of backward()
            if code.co_varnames[:1] == ("self",) and not code.co_name.endswith("_call_impl"):
                owner = frame.f_locals.get("self")
                if isinstance(owner, torch.nn.Module):
                    self.modules.append(owner)
        self.rest = [  # the callers of backward()
            (frame.f_code, number, frame.f_globals.get("__name__", "").partition(".")[0])
            for frame, number in traceback.walk_stack(frame.f_back or frame)
        ]

    def find_places(self) -> tuple[Place, Place]:
        """Return the innermost line outside torch, and the innermost line outside all libraries.

        In a backward pass, return lines of the forward call if torch recorded that call.
        """
        found = _read_places(self.lines)
        if not found:
            folder = str(Path(torch.__file__).parent)
            kept = reversed(_RECORDED.findall(self.recorded))
            found = [Place(file, int(line), text) for file, line, text in kept]
            found = [place for place in found if not place.file.startswith(folder)]
        if not found:
            found = _read_places(self.rest)
        found = found or [Place()]
        return found[0], next((each for each in found if not _is_library(each.file)), Place())


def _read_places(lines: list[tuple[CodeType, int, str]]) -> list[Place]:
    own = ("torch", "ndgather", "contextlib", "")
    return [
        Place(code.co_filename, number, linecache.getline(code.co_filename, number).strip())
        for code, number, package in lines
        if package not in own
    ]


def find_path(modules: list[torch.nn.Module]) -> str:
    """Return the path to the innermost module from the outermost module that contains it."""
    for outer in reversed(modules):
        for name, module in outer.named_modules():
            if module is modules[0]:
                parts = [part for part in name.split(".") if part not in ("", "_orig_mod")]
                return ".".join(parts) or type(getattr(module, "_orig_mod", module)).__name__
    return ""


def hide_own_frames(error: BaseException) -> None:
    """Remove the frames of the checks and the innermost frames of torch from a traceback."""
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
    """Return the argument, the axis and the shape of the values as written in the user's call."""
    argument, values, axis = entries[:3]
    shape, base = tuple(values.shape), values._base
    if base is not None and base.numel() == values.numel() and not entries.before:
        flattened = base.dim() > values.dim() or not base.dim()
        if flattened and base.is_contiguous() and values.is_contiguous():
            shape = tuple(base.shape)
    if entries.subscripts:
        argument, axis = find_subscript(argument, axis, entries.subscripts)
    return argument, axis, shape


def find_subscript(argument: str, axis: int, subscripts: tuple[bool, ...]) -> tuple[str, int]:
    """Return the item of ``x[index]`` that contains the indices, and the indexed axis of x.

    Torch removes integers and None from an index before it calls the operator, so the items are
    parsed from the source line. If parsing fails, return the arguments unchanged.
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
    """Return the kind of each item in the subscript that the innermost frame evaluates."""
    frame = next(frame for frame, _ in traceback.walk_stack(None) if not _is_own(frame))
    items = _parse_subscripts(frame.f_code, frame.f_lasti)
    names = frame.f_locals if any(kind == "name" for kind, _ in items) else {}
    kinds = []
    for kind, name in items:
        value = names.get(name, frame.f_globals.get(name, _NOT_READ)) if name else _NOT_READ
        kinds.append(kind if value is _NOT_READ else _subscript_kind(value))
    return kinds


@lru_cache(maxsize=1024)
def _parse_subscripts(code: CodeType, instruction: int) -> list[tuple[str, str]]:
    """Return the kind of each item in a subscript, and its name if the item is a variable."""
    positions = next(islice(code.co_positions(), instruction // 2, None))
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        return []
    lines = [linecache.getline(code.co_filename, each) for each in range(first, last + 1)]
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    try:
        tree = ast.parse(b"(" + b"".join(encoded) + b")", mode="eval").body
    except SyntaxError:
        return []
    if isinstance(tree, ast.Subscript):
        index = tree.slice
    elif isinstance(tree, ast.Call) and tree.args:  # a call of __getitem__ or __setitem__
        index = tree.args[0]
    else:
        return []
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    return [_parse_subscript(item) for item in items]


def _parse_subscript(item: ast.expr) -> tuple[str, str]:
    if isinstance(item, ast.UnaryOp):
        item = item.operand
    if isinstance(item, ast.Constant):
        return _subscript_kind(item.value), ""
    if isinstance(item, ast.Name):
        return "name", item.id
    is_call = isinstance(item, ast.Call) and isinstance(item.func, ast.Name)
    is_slice = isinstance(item, ast.Slice) or (is_call and item.func.id == "slice")  # type: ignore[attr-defined]
    return "slice" if is_slice else "tensor", ""


def _subscript_kind(value: object) -> str:
    if value is None:
        return "new axis"
    if value is Ellipsis or isinstance(value, slice):
        return "slice"
    scalar = isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype not in MASKS
    return "integer" if scalar or isinstance(value, int) else "tensor"


def describe_error(
    operator: str, entries: Entries, called: Any, caller: Caller, count: int, first: int, value: Any
) -> IndexOutOfBoundsError:
    (argument, axis, shape), (place, user) = called, caller.find_places()
    position = entries.before + tuple(map(int, np.unravel_index(int(first), shape)))
    if entries.values.is_floating_point():
        narrow = entries.values.dtype != torch.float64
        value = float(str(np.float32(value))) if narrow else float(value)
    what = f"is outside axis {axis} of {entries.of}, which has size {entries.size}"
    allowed = f"allowed: {entries.lowest}..{entries.highest}"
    if entries.problem:
        what = entries.problem
        allowed = f"allowed: {entries.allowed}" if entries.allowed else allowed
    elif entries.size is None:
        what, allowed = "is negative", "allowed: 0 or more"
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
    as_torch = entries.values.is_cpu and operator.rstrip("_") in RAISE_INDEX_ERROR
    kind = IndexOutOfBoundsError if as_torch else IndexOutOfBoundsRuntimeError
    return kind(
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
    """Return advice if the error matches a known pattern."""
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
            return [f"labels start at 0: the labels of {size} classes are 0..{size - 1}"]
    if operator in ("embedding", "embedding_renorm_") and value >= size:
        if re.search(r"(^|[._])(wpe|pos(ition)?(_?emb\w*|s)?|embed_positions)", module):
            return [f"the model has {size} positions: shorten the sequence, or use more positions"]
        if any(hasattr(each, "resize_token_embeddings") for each in caller.modules):
            return ["if tokens were added: model.resize_token_embeddings(len(tokenizer))"]
    if value >= size and any("edge_index" in code.co_varnames for code, *_ in caller.lines):
        return [f"if this is edge_index: it names node {value}, but the nodes are 0..{size - 1}"]
    return []
