"""A block in which torch's operators check the positions that they read, before they do.

A mode of torch sees every operator of an unmodified program, below autograd and modules.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator, nullcontext, suppress
from functools import cache, partial
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from ndgather.arrays.torch.checked.findings import describe_argument, describe_error, find_place
from ndgather.arrays.torch.checked.operators import FUNCTIONS, OPERATORS, operator_name
from ndgather.arrays.torch.checked.positions import Entries
from ndgather.errors import AttributeValueError, IndexOutOfBoundsError

_NOTHING = torch.empty(0)
_FRAMES = torch._C._dynamo.eval_frame
_OPEN: list[Any] = []  # an item for every block; the first is what torch.compile did before
# They do not take their fast path, which computes other bits, while they see a function mode. They
# ask for the dim of their input before they look.
_FAST_PATHS = ("torch.nn.modules.transformer", "torch.nn.modules.activation")
_LOCK = threading.Lock()
_MOST_FLAGS = 4096  # that wait for a look
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_INFRASTRUCTURE = tuple(torch._C._TorchDispatchModeKey.__members__.values())


@cache
def _found(func: Any) -> tuple[Any, dict[str, Any], str]:
    """Return what finds positions in the calls of an operator, its parameters, and its name.

    None finds nothing, and an empty list is for an operator that is made of others.
    """
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return None, {}, ""
    name = func._schema.name.removeprefix("aten::")
    rules = OPERATORS.get(operator_name(name))
    if func._can_decompose() and not (rules and name.startswith("_")):
        views = (each.alias_info and not each.alias_info.is_write for each in func._schema.returns)
        rules = None if any(views) else ()
    parameters = {each.name: each.default_value for each in func._schema.arguments}
    return rules, parameters, operator_name(name) + "_" * name.endswith("_")


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
        if func in FUNCTIONS and not (torch.jit.is_tracing() or _traced()):
            given = self._replaced(FUNCTIONS[func], args, kwargs)
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

    def _error(self, operator: str, entries: Entries, given: dict[str, Any]) -> Exception | None:
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
        called = describe_argument(self._call, entries)
        flag = (entries.first(), partial(describe_error, operator, bare, called, find_place()))
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


def check_program() -> list[str]:
    """Open a block until Python ends; return the names of the threads that are not in it."""
    block, here = checked_indices(), threading.current_thread()
    block.__enter__()

    def close() -> None:
        if threading.current_thread() is here:  # a mode belongs to one thread
            block.__exit__(None, None, None)

    atexit.register(close)
    return [each.name for each in threading.enumerate() if each is not here]
