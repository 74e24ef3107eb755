"""Which index is out of bounds: the positions that torch's operators read, checked before they do.

A mode of torch sees every operator of an unmodified program, below autograd and modules. `_TABLE`
says which arguments of an operator hold positions, and on which axis of which tensor; an operator
that is not there is passed on.
"""

from __future__ import annotations

import inspect
import linecache
import math
import os
import re
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from ndgather.errors import AttributeValueError, IndexOutOfBoundsError
from ndgather.messages import subscript

__all__ = ["checked_indices"]

Get: TypeAlias = Callable[[str], Any]  # returns an argument of a call by its name
_NOTHING = torch.empty(0)
_FRAMES = torch._C._dynamo.eval_frame
_OPEN: list[Any] = []  # an item for every block; the first is what torch.compile did before
# They do not take their fast path, which computes other bits, while they see a function mode. They
# ask for the dim of their input before they look.
_FAST_PATHS = ("torch.nn.modules.transformer", "torch.nn.modules.activation")
_LOCK = threading.Lock()
_MOST_FLAGS = 4096  # that wait for a look
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MASKS = (torch.bool, torch.uint8)  # if they are subscripts
_INFRASTRUCTURE = tuple(torch._C._TorchDispatchModeKey.__members__.values())
_DECORATION = re.compile(
    r"^_(?:unsafe_)?|_forward_only|_forward|_impl|_with_dims_and_tensors|_unsafe$"
)
_RECORDED = re.compile(r'  File "(.*)", line (\d+), in .*\n(?: *(.*)\n)?')


class _Entries(NamedTuple):
    """Positions that one argument of one call holds, and what they may be."""

    argument: str
    values: torch.Tensor
    axis: int
    of: str
    size: int | None  # None: there is no highest position
    lowest: int = 0
    end: int = 0  # the highest is size - 1 + end
    passed: int | torch.Tensor | None = None  # a value, or where values are, that are never read
    before: tuple[int, ...] = ()  # leads to `values` in the argument

    @property
    def highest(self) -> int:
        return sys.maxsize if self.size is None else self.size - 1 + self.end

    def outside(self) -> torch.Tensor:
        values = self.values.long()  # a bound may be too large for the type of the values
        bad, passed = (values < self.lowest) | (values > self.highest), self.passed
        if passed is None:
            return bad
        return bad & ~(passed if isinstance(passed, torch.Tensor) else values == passed)

    def fit(self) -> bool:
        """Whether all are in bounds: one wait for the device."""
        if self.passed is not None:
            return not self.outside().any().item()
        low, high = torch.stack(torch.aminmax(self.values)).tolist()
        return bool(self.lowest <= low and high <= self.highest)

    def first(self) -> torch.Tensor:
        """Return how many are outside, the flat number of the first, and its value."""
        bad = self.outside().flatten()
        first = bad.byte().argmax().reshape(1)
        return torch.cat([bad.sum().reshape(1), first, self.values.long().take(first)])


Found: TypeAlias = Iterator[_Entries]


class _Row(NamedTuple):
    """Which argument holds positions, and on which axis of which tensor."""

    argument: str
    axis: str  # a number, or the parameter that has it; None or "*": of the flattened tensor
    of: str
    lowest: str = "0"  # "-size": positions from the end
    end: str = "0"  # added to the highest
    size: str = ""  # the parameter that has it; -1, or no such parameter: no position is too high
    passed: str = ""  # the parameter that has a value that is never read

    def __call__(self, get: Get) -> Found:
        name, of = (each.replace("self", "input") for each in (self.argument, self.of))
        values, size, passed = get(self.argument), get(self.size), get(self.passed)
        if not isinstance(values, torch.Tensor):
            return
        axis, flat = get(self.axis), False
        if self.axis.lstrip("-").isdigit():
            axis = int(self.axis)
        if self.size:
            size = math.prod(size) if isinstance(size, (list, tuple)) else size
        elif axis is None:
            axis, size, of = 0, get(self.of).numel(), f"{of}.flatten()"
            flat = self.axis != "*"  # take_along_dim counts from 0 there
        else:
            shape = get(self.of).shape or (1,)
            axis = range(len(shape))[axis]
            size = shape[axis]
        from_end = self.lowest == "-size"
        lowest = (0 if flat else -size) if from_end else int(self.lowest)
        size = None if size == -1 else size
        yield _Entries(name, values, axis, of, size, lowest, int(self.end), passed)


def _subscripts(get: Get) -> Found:
    """Find the positions of ``self[indices]``; a mask takes as many axes as it has."""
    shape, axis = get("self").shape, 0
    for number, values in enumerate(get("indices")):
        if values is not None and values.dtype not in _MASKS:
            size = shape[axis]
            yield _Entries(f"indices[{number}]", values, axis, "self", size, -size)
        axis += values.dim() if values is not None and values.dtype in _MASKS else 1


def _groups(get: Get) -> Found:
    """Find the ends of the groups of a grouped product, on the axis that is in groups."""
    left, right = get("self").dim(), get("mat2").dim()
    axis, of = ("-1", "mat2") if left == 3 else ("-2" if right == 3 else "-1", "self")
    return _Row("offs", axis, of, end="1")(get)


def _labels(get: Get) -> Found:
    """Find the labels of `ctc_loss`; those behind the length of their target are padding."""
    targets, lengths = get("targets"), get("target_lengths")
    lengths = torch.as_tensor(lengths, device=targets.device)
    padding = torch.arange(targets.shape[-1], device=targets.device) >= (
        lengths[:, None] if targets.dim() > 1 else lengths.sum()
    )
    yield _Entries("targets", targets, 2, "log_probs", get("log_probs").shape[2], passed=padding)


def _coordinates(get: Get) -> Found:
    """Find the indices of a COO tensor, a row for every sparse axis."""
    for axis, (row, size) in enumerate(zip(get("indices"), get("size"), strict=False)):
        yield _Entries("indices", row, axis, "the result", size, before=(axis,))


def _compressed(get: Get) -> Found:
    """Find the indices of a CSR or CSC tensor; those of blocks are passed on."""
    by_rows = get("layout") == torch.sparse_csr
    if by_rows or get("layout") == torch.sparse_csc:
        first, second = ("crow", "col") if by_rows else ("ccol", "row")
        starts, others = get("compressed_indices"), get("plain_indices")
        axis, of = others.dim() - 1, f"{second}_indices"
        yield _Entries(f"{first}_indices", starts, axis, of, others.shape[-1], end=1)
        yield _Entries(of, others, axis + by_rows, "result", get("size")[axis + by_rows])


# Operators of torch.ops.aten, all overloads of each, without what `_DECORATION` drops, with the
# fields of a `_Row`, or with the function that finds what one row cannot say.
_TABLE = """
gather index_add index_copy index_reduce index_select: index dim self
scatter scatter_add scatter_reduce: index dim self
index_fill: index dim self lowest=-size
take put: index * self lowest=-size
index index_put: _subscripts
embedding embedding_bag embedding_bag_per_sample_weights_backward: indices 0 weight
embedding_bag: offsets 0 indices end=1
embedding_bag_backward embedding_bag_dense_backward: indices 0 weight size=num_weights
embedding_dense_backward: indices 0 weight size=num_weights
embedding_renorm: indices 0 self
nll_loss nll_loss_backward: target -1 self passed=ignore_index
nll_loss2d nll_loss2d_backward: target 1 self passed=ignore_index
multi_margin_loss multi_margin_loss_backward: target -1 self
multilabel_margin_loss multilabel_margin_loss_backward: target -1 self lowest=-1
ctc_loss ctc_loss_backward cudnn_ctc_loss miopen_ctc_loss: input_lengths 0 log_probs end=1
ctc_loss ctc_loss_backward cudnn_ctc_loss miopen_ctc_loss: target_lengths -1 targets end=1
ctc_loss ctc_loss_backward cudnn_ctc_loss miopen_ctc_loss: _labels
max_unpool2d: indices -1 result.flatten(-2) size=output_size
max_unpool3d: indices -1 result.flatten(-3) size=output_size
bincount: self 0 result size=none
repeat_interleave: repeats 0 result size=none
segment_reduce segment_reduce_backward: lengths axis data end=1
segment_reduce segment_reduce_backward: offsets axis data end=1
searchsorted: sorter -1 sorted_sequence
lu_unpack: LU_pivots -2 LU_data lowest=1 end=1
linalg_lu_solve: pivots -2 LU lowest=1 end=1
pack_padded_sequence: lengths batch_first input lowest=1 end=1
pad_packed_sequence: batch_sizes 0 data end=1
grouped_mm scaled_grouped_mm scaled_grouped_mm_v2: _groups
sparse_coo_tensor: _coordinates
sparse_compressed_tensor: _compressed
"""
_BY_NAME: dict[str, list[Any]] = defaultdict(list)
for _line in _TABLE.strip().splitlines():
    _names, _, _fields = _line.partition(": ")
    _words = [each.partition("=") for each in _fields.split()]
    _given = [word for word, equals, _ in _words if not equals]
    _options = {word: value for word, equals, value in _words if equals}
    for _name in _names.split():
        _BY_NAME[_name].append(globals().get(_fields) or _Row(*_given, **_options))
# Functions that hide their positions from operators, as `_found` returns operators. torch takes the
# indices of take_along_dim modulo the size.
_ALONG = _Row("indices", "dim", "input", lowest="-size")
_ONE_HOT = _Row("input", "-1", "result", size="num_classes")
_HIDING: dict[Any, Any] = {
    torch.nn.functional.one_hot: ([_ONE_HOT], {"input": None, "num_classes": -1}, "one_hot")
}
for _function in torch.take_along_dim, torch.Tensor.take_along_dim:
    _parameters = dict.fromkeys(("input", "indices", "dim"))
    _HIDING[_function] = [_ALONG], _parameters, "take_along_dim"


@cache
def _found(func: Any) -> tuple[Any, dict[str, Any], str]:
    """Return what finds positions in the calls of an operator, its parameters, and its name.

    None finds nothing, and an empty list is for an operator that is made of others.
    """
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return None, {}, ""
    name = func._schema.name.removeprefix("aten::")
    finds = _finds(name)
    if func._can_decompose() and not (finds and name.startswith("_")):
        views = (each.alias_info and not each.alias_info.is_write for each in func._schema.returns)
        finds = None if any(views) else []
    parameters = {each.name: each.default_value for each in func._schema.arguments}
    return finds, parameters, _DECORATION.sub("", name)


def _finds(operator: str) -> list[Any] | None:
    return _BY_NAME.get(_DECORATION.sub("", operator).rstrip("_"))


def _traced() -> bool:
    """Whether a graph is made, or sizes alone are computed."""
    return any(torch._C._get_dispatch_mode(key) is not None for key in _INFRASTRUCTURE)


def _other_modes_off() -> Any:
    """Hide what the checks compute from the modes of a program."""
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()


def _readable(values: torch.Tensor) -> bool:
    """Whether these are integers that can be looked at now."""
    return (
        values.dtype in _INTEGERS
        and type(values).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
        and not torch._C._functorch.is_functorch_wrapped_tensor(values)
        and values.layout == torch.strided
        and values.device.type != "meta"
        and values.numel() > 0
        and not (values.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def _place() -> tuple[str, int, str, list[torch.nn.Module]]:
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


def _path(modules: list[torch.nn.Module]) -> str:
    """Return the path of the innermost module in the outermost that has it."""
    for outer in reversed(modules):
        for name, module in outer.named_modules():
            if module is modules[0]:
                return name.replace("_orig_mod.", "") or type(module).__name__
    return ""


def _as_called(call: Any, entries: _Entries) -> tuple[str, int, tuple[int, ...]]:
    """Return the argument, the axis, and the shape of the values as the user's call has them."""
    argument, values, axis = entries[:3]
    user: Any = call or (None, (), {})
    shape, (func, args, kwargs) = tuple(values.shape), user
    with suppress(Exception):  # else the operator's are as right
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and entries.of == "self":
            argument, axis = _subscript_on(axis, args[0].dim(), args[1])
        for each in (*args, *kwargs.values()):
            same = isinstance(each, torch.Tensor) and each.numel() == values.numel()
            if same and each.is_set_to(values.view(each.shape)):
                shape = tuple(each.shape)  # before it was flattened
    return argument, axis, shape


def _subscript_on(axis: int, axes: int, index: Any) -> tuple[str, int]:
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


def _error(
    operator: str, entries: _Entries, called: Any, place: Any, count: int, first: int, value: int
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
    module, near = _path(modules), os.path.relpath(file) if line else ""
    place = f"{file if near.startswith('..') else near}:{line}: {source}".rstrip(": ")
    where = ", ".join(filter(None, (module, place if line else "")))
    text = f"{operator}: {argument}{subscript(position)} = {value} {what} ({allowed})"
    names = "position value axis size count operator argument module file line"
    values: Any = (position, value, axis, entries.size or 0, count, operator, argument)
    known = dict(zip(names.split(), (*values, module, file, line), strict=True))
    return IndexOutOfBoundsError(f"{text}\n  in {where}" if where else text, **known)


class checked_indices(ContextDecorator, TorchFunctionMode, TorchDispatchMode):  # type: ignore[misc]  # noqa: N801
    """Check the indices of every operator of torch that runs in a block, before it runs.

    Use it in a ``with`` statement, or as a decorator of a function. The error names the operator,
    the argument, the first bad entry, what is allowed, the module, and the line of the program.
    ``python -m ndgather checked SCRIPT`` runs a whole program in a block. A block is of one thread.

    Parameters
    ----------
    wait : bool, default True
        Raise before the operator runs, which waits for the device at every operator that reads
        indices. With False nothing waits: bad indices are replaced by the lowest that is allowed,
        so that the device does not fail, and the first is raised at the end of the block, or by
        `check`. Values that are computed after a bad index have no meaning then.

    Notes
    -----
    IndexOutOfBoundsError has the attributes `operator`, `argument`, `module`, `file` and `line`.
    Results have the same bits as without the block. While it is open, what `torch.compile` has
    made runs eagerly.

    Examples
    --------
    >>> import ndgather, torch
    >>> embed = torch.nn.Embedding(50, 8)
    >>> with ndgather.checked_indices():  # doctest: +ELLIPSIS
    ...     embed(torch.tensor([[3, 49], [50, 7]]))
    Traceback (most recent call last):
    ndgather.errors.IndexOutOfBoundsError: embedding: indices[1, 0] = 50 is outside axis 0 of ...
    """

    supports_higher_order_operators = True

    def __init__(self, *, wait: bool = True) -> None:
        super().__init__()
        self._wait, self._process = wait, os.getpid()
        self._hidden: Any = None
        self._compilers: list[Any] = []
        self._flags: list[tuple[torch.Tensor, Callable[..., IndexOutOfBoundsError]]] = []
        self._call: Any = None  # of a function, while it runs

    def __call__(self, function: Any) -> Any:
        kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isclass)
        if not callable(function) or any(kind(function) for kind in kinds):
            what = f"function = {function!r} does not run while it is called"
            raise AttributeValueError(f"checked_indices: {what} (allowed: a function)")
        return super().__call__(function)

    def _recreate_cm(self) -> checked_indices:
        return checked_indices(wait=self._wait)

    def __enter__(self) -> Self:
        self._compilers.append(_FRAMES.set_eval_frame(None))
        with _LOCK:
            _OPEN.append(None if _OPEN else torch.compiler.set_stance("force_eager"))
        TorchDispatchMode.__enter__(self)
        TorchFunctionMode.__enter__(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._show()
        TorchFunctionMode.__exit__(self, *error)
        TorchDispatchMode.__exit__(self, *error)
        with _LOCK:
            if stance := _OPEN.pop():
                stance.__exit__(*error)
        _FRAMES.set_eval_frame(self._compilers.pop())
        if error[1] is None or isinstance(error[1], Exception):
            with nullcontext() if error[1] is None else suppress(RuntimeError):  # of a lost device
                self.check()

    def check(self) -> None:
        """Wait for the device, and raise for the first index out of bounds since the last look."""
        flags, self._flags = self._flags, []
        with torch._C.DisableTorchFunction(), _other_modes_off():
            for first, error in flags:
                count, *found = first.tolist()
                if count:
                    raise error(count, *found)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _HIDING and not (torch.jit.is_tracing() or _traced()):
            given = self._replaced(_HIDING[func], args, kwargs)
            args, kwargs = (tuple(given.values()), {}) if given else (args, kwargs)
        if func is torch.Tensor.dim:
            frame = sys._getframe(1)
            if frame.f_code.co_name == "forward" and frame.f_globals["__name__"] in _FAST_PATHS:
                self._hidden = frame, torch._C.DisableTorchFunction()
                self._hidden[1].__enter__()
        self._call = (func, args, kwargs)
        try:
            return func(*args, **kwargs)
        finally:
            self._call = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._hidden:
            self._show(sys._getframe(1))
        found = _found(func)
        if found[0] is not None and not _traced():
            if not found[0]:
                return self._apart(func, args, kwargs or {})
            given = self._replaced(found, args, kwargs or {})
            args, kwargs = ((), given) if given else (args, kwargs)
        return func(*args, **kwargs) if kwargs else func(*args)

    def _show(self, frame: Any = None) -> None:
        """Let functions be seen again, if the module that looked is done."""
        while frame and frame is not self._hidden[0]:
            frame = frame.f_back
        if self._hidden and not frame:
            self._hidden[1].__exit__(None, None, None)
            self._hidden = None

    def _apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a composite operator, which comes whole in `torch.inference_mode`, by its parts.

        What torch does above a mode, such as autocast, has to see them, as without the mode.
        """
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        keys = {getattr(torch._C.DispatchKey, each.device.type.upper(), None) for each in tensors}
        dense = all(each.layout == torch.strided and not each.is_nested for each in tensors)
        if None in keys or not dense or any(map(func.has_kernel_for_dispatch_key, keys)):
            return func(*args, **kwargs)
        TorchDispatchMode.__enter__(self)
        try:
            with torch._C.DisableTorchFunction(), torch._C._RestorePythonTLSSnapshot():
                return func.decompose(*args, **kwargs)
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def _replaced(self, found: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """Return the arguments of a call if some are replaced; raise if it reads out of bounds."""
        finds, parameters, operator = found
        given = {**parameters, **dict(zip(parameters, args, strict=False)), **kwargs}
        kept, error = len(self._flags), None
        try:
            with torch._C.DisableTorchFunction(), _other_modes_off():
                for entries in (each for find in finds for each in find(given.get)):
                    error = error or self._error(operator, entries, given)
        except Exception:  # of a call that torch refuses, with its own words
            return None
        if error or len(self._flags) >= _MOST_FLAGS:
            self.check()
        if error:
            raise error
        return given if len(self._flags) > kept else None

    def _error(self, operator: str, entries: _Entries, given: dict[str, Any]) -> Exception | None:
        """Return what is wrong; without waiting, replace what may be wrong and keep a flag."""
        if not _readable(entries.values):
            return None
        # Nobody looks at the flags of a process that was forked.
        waits = self._wait or os.getpid() != self._process or entries.lowest > entries.highest
        name, _, item = entries.argument.rstrip("]").partition("[")
        name = name if name in given else "self"
        waits = waits or name not in given or bool(entries.before)  # they cannot be replaced
        if waits and entries.fit():
            return None
        passed = entries.passed if isinstance(entries.passed, int) else None
        bare = entries._replace(values=_NOTHING, passed=passed)
        called = _as_called(self._call, entries)
        flag = (entries.first(), partial(_error, operator, bare, called, _place()))
        if waits:
            return flag[1](*flag[0].tolist())
        self._flags.append(flag)
        safe: Any = torch.where(entries.outside(), entries.lowest, entries.values)
        if item:
            safe = [safe if int(item) == at else each for at, each in enumerate(given[name])]
        given[name] = safe
        return None


# torch wraps the method of a mode so that its compiler does not see it, which costs as much as the
# method. No compiler is at work in a block.
checked_indices.__torch_dispatch__ = checked_indices.__torch_dispatch__.__wrapped__  # type: ignore[attr-defined,method-assign]
for _method in (checked_indices.__enter__, checked_indices.__exit__):
    _SKIP = _FRAMES._FrameExecStrategy(_FRAMES._FrameAction.SKIP, _FRAMES._FrameAction.DEFAULT)
    _FRAMES.set_code_exec_strategy(_method.__code__, _SKIP)
