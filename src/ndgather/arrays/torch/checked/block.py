"""The context manager `checked_indices`, which checks the indices of torch's operators."""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator, nullcontext, suppress
from functools import partial
from typing import Any, Self

import torch

from ndgather.api import own_errors
from ndgather.arguments import as_bool
from ndgather.arrays.torch.checked import dispatch
from ndgather.arrays.torch.checked.findings import (
    Caller,
    describe_argument,
    describe_error,
    hide_own_frames,
)
from ndgather.arrays.torch.checked.operators import (
    FOREIGN,
    OPERATORS,
    REFUSED,
    find_flat_positions,
    find_sparse_tensors,
    operator_name,
)
from ndgather.arrays.torch.checked.positions import Entries
from ndgather.arrays.torch.checked.process import change_process, restore_process
from ndgather.errors import AttributeValueError, CallError, IndexOutOfBoundsError

_FRAMES = torch._C._dynamo.eval_frame
_LOCK = threading.Lock()
_MOST_CALLS = 4096  # after the first flag, at most this many calls run before the flags are read
_REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, AttributeError)
_KINDS = (  # the dtypes of checked values, and the dtypes of checked indices
    (torch.float64, torch.float32, torch.float16, torch.bfloat16),
    (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


class _Blocks(threading.local):
    """The open `checked_indices` blocks of a thread, outermost first."""

    def __init__(self) -> None:
        self.open: list[checked_indices] = []


_BLOCKS = _Blocks()
_ALL_BLOCKS: list[checked_indices] = []  # the open blocks of all threads


def _find_block() -> checked_indices | None:
    """Return the innermost block of this thread, or else the newest block of any thread."""
    blocks = _BLOCKS.open or _ALL_BLOCKS
    return blocks[-1] if blocks else None


def _make_kernel(operator: torch._ops.OpOverload | dispatch.SparseOperator) -> dispatch.Kernel:
    """Return a function that checks the indices of an operator call and runs the operator."""
    schema = operator._schema
    name = operator_name(schema.name)
    rules = FOREIGN.get(schema.name) or OPERATORS.get(name, ())
    if isinstance(operator, dispatch.SparseOperator):
        rules = (find_sparse_tensors,)
    refused = REFUSED.get(schema.name, ())
    shown = name.rpartition("::")[2] + "_" * schema.name.endswith("_")
    defaults = {each.name: each.default_value for each in schema.arguments}

    def check_call(keys: Any, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest omits this frame
        block = _find_block()
        if block is None or dispatch.is_traced():
            return dispatch.call_below(operator, keys, args, kwargs)
        given = {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}
        if torch._C._get_tracing_state() is not None:
            dispatch.name_traced_values(given.values())
        checked, replaced = block._check(shown, rules, given)
        if replaced:
            args, kwargs = (), given
        call = dispatch.call_checked if checked else dispatch.call_below
        if not refused:
            return call(operator, keys, args, kwargs)
        try:
            return call(operator, keys, args, kwargs)
        except RuntimeError as error:
            refusal = error
        block._check(shown, refused, given)
        block.check()
        raise refusal

    return check_call


def _make_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks the indices of `unravel_index` and then calls it."""

    def unravel_index(indices: Any, shape: Any) -> Any:
        block, given = _find_block(), {"indices": indices, "shape": shape}
        if block is not None and not dispatch.is_traced():
            block._check("unravel_index", (find_flat_positions,), given)
        return function(**given)

    return unravel_index


class _NeedsParentheses(type):
    """A metaclass that raises an error if a block is opened without parentheses."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if args and not options and callable(args[0]):
            what = f"function = {args[0]!r} is not a block"
            raise CallError(f"checked_indices: {what} (allowed: @ndgather.checked_indices())")
        return super().__call__(*args, **options)

    def __enter__(cls) -> None:
        what = "a class is not a block (allowed: with ndgather.checked_indices():)"
        raise CallError(f"checked_indices: {what}")

    def __exit__(cls, *error: object) -> None:
        """Do nothing. A ``with`` statement requires this method before it calls `__enter__`."""


class checked_indices(ContextDecorator, metaclass=_NeedsParentheses):  # noqa: N801
    """Check the indices of torch's own operators before the operators run.

    Use the class as a context manager or function decorator. If an index is out of bounds, the
    error names the operator, the argument, the first invalid entry, the allowed values, the module
    and the line of the program. Threads that start while the block is open are checked until the
    block ends. ``python -m ndgather checked SCRIPT`` checks a whole program.

    Parameters
    ----------
    wait : bool, default True
        If True, raise the error before the operator runs; every operator that reads indices then
        waits for the device. If False, calls do not wait for a GPU. Out-of-bounds indices are
        replaced with the lowest allowed value, so that the device does not fail, and the first
        error is raised at the end of the block, or by `check`. Until then, values that are computed
        from a replaced index are meaningless.

    Raises
    ------
    IndexOutOfBoundsError
        If an index is out of bounds. It has the additional attributes `operator`, `argument`,
        `module`, `file`, `line`, `user_file` and `user_line`.

    Notes
    -----
    Results have the same bits as without the block. Values that GPU kernels assert, such as
    probabilities, are checked too. While the block is open, functions compiled by `torch.compile`
    run eagerly.

    Examples
    --------
    >>> import ndgather, torch
    >>> embed = torch.nn.Embedding(50, 8)
    >>> with ndgather.checked_indices():  # doctest: +ELLIPSIS
    ...     embed(torch.tensor([[3, 49], [50, 7]]))
    Traceback (most recent call last):
    ndgather.errors.IndexOutOfBoundsError: embedding: indices[1, 0] = 50 is outside axis 0 of ...
    """

    @own_errors("checked_indices")
    def __init__(self, *, wait: bool = True) -> None:
        super().__init__()
        self._wait = as_bool("checked_indices", "wait", wait)
        self._process = os.getpid()
        self._compilers: list[Any] = []
        self._calls = 0  # calls since the first flag
        self._before: list[bool] = []  # whether kernels were already switched on
        self._flags: list[tuple[torch.Tensor, Callable[..., IndexOutOfBoundsError]]] = []

    def __call__(self, function: Any) -> Any:
        kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isclass)
        if not callable(function) or any(kind(function) for kind in kinds):
            what = f"function = {function!r} does not run its body when it is called"
            raise AttributeValueError(f"checked_indices: {what} (allowed: a plain function)")
        return super().__call__(function)

    def _recreate_cm(self) -> checked_indices:
        return checked_indices(wait=self._wait)

    def __enter__(self) -> Self:
        self._compilers.append(_FRAMES.set_eval_frame(None))
        change_process(partial(dispatch.switch_kernels, True), _make_function)
        with _LOCK:
            dispatch.install_kernels(_make_kernel)
            _ALL_BLOCKS.append(self)
        self._before.append(dispatch.switch_kernels(True))
        _BLOCKS.open.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _BLOCKS.open.pop()
        dispatch.switch_kernels(self._before.pop())
        with _LOCK:
            _ALL_BLOCKS.remove(self)
        restore_process()
        _FRAMES.set_eval_frame(self._compilers.pop())
        if isinstance(error[1], BaseException):
            hide_own_frames(error[1])
        if error[1] is None or isinstance(error[1], Exception):
            # After an error, the device may be lost, so that reading the flags fails.
            with nullcontext() if error[1] is None else suppress(RuntimeError):
                self.check()

    def check(self) -> None:
        """Wait for the device, and raise an error if an index was out of bounds."""
        flags, self._flags, self._calls = self._flags, [], 0
        with dispatch.HiddenChecks():
            for first, error in flags:
                count, *found = first.tolist()
                if count:
                    raise error(count, *found)

    def _check(self, operator: str, rules: Any, given: dict[str, Any]) -> tuple[bool, bool]:
        """Raise an error if an index of a call is out of bounds.

        Return whether all indices were checked, and whether indices in `given` were replaced.
        """
        __tracebackhide__ = True  # pytest omits this frame
        kept, error, checked = len(self._flags), None, True
        try:
            with dispatch.HiddenChecks():
                for entries in (each for rule in rules for each in rule(given.get)):
                    values = dispatch.unwrap_values(entries.values)
                    if values is None or not dispatch.is_readable(values):
                        checked = False
                    elif entries.wrong is not None or values.dtype in _KINDS[entries.limit is None]:
                        if values is not entries.values:
                            entries = entries._replace(values=values)  # noqa: PLW2901
                        if (self._wait or values.is_cpu) and entries.fit():
                            continue
                        error = error or self._find_error(operator, entries, given)
        except _REFUSALS:  # torch raises its own error for invalid calls
            return False, False
        self._calls += bool(self._flags)
        if error or self._calls >= _MOST_CALLS:
            self.check()
        if error:
            raise error
        return checked, len(self._flags) > kept

    def _find_error(
        self, operator: str, entries: Entries, given: dict[str, Any]
    ) -> Exception | None:
        """Return an error for invalid indices, or replace them and store a flag for `check`."""
        # A forked process must wait, because it never reads the flags.
        waits = self._wait or os.getpid() != self._process or entries.lowest > entries.highest
        name, _, item = entries.argument.rstrip("]").partition("[")
        name = "self" if name == "input" and name not in given else name
        waits = waits or name not in given or bool(entries.before) or entries.wrong is not None
        waits = waits or (isinstance(given[name], (list, tuple)) and not item)
        if waits and not self._wait and entries.fit():
            return None
        passed = entries.passed if isinstance(entries.passed, int) else None
        empty = entries.values.new_empty(0)
        bare = entries._replace(values=empty, passed=passed, wrong=None)
        called = describe_argument(entries)
        flag = (entries.first(), partial(describe_error, operator, bare, called, Caller()))
        if waits:
            return flag[1](*flag[0].tolist())
        self._flags.append(flag)
        safe: Any = torch.where(entries.outside(), entries.lowest, entries.values)
        if item:
            safe = [safe if int(item) == at else each for at, each in enumerate(given[name])]
        given[name] = safe
        return None


for _method in (checked_indices.__enter__, checked_indices.__exit__):
    _SKIP = _FRAMES._FrameExecStrategy(_FRAMES._FrameAction.SKIP, _FRAMES._FrameAction.DEFAULT)
    _FRAMES.set_code_exec_strategy(_method.__code__, _SKIP)


def check_program() -> list[str]:
    """Open a block that lasts until Python exits, and return the names of threads outside it."""
    block, here = checked_indices(), threading.current_thread()
    show_error, show_error_of_thread = sys.excepthook, threading.excepthook
    block.__enter__()

    def show_program(kind: Any, error: BaseException, trace: Any) -> None:
        hide_own_frames(error)
        show_error(kind, error, error.__traceback__)

    def show_thread(arguments: Any) -> None:
        if arguments.exc_value is not None:
            hide_own_frames(arguments.exc_value)
        show_error_of_thread(arguments)

    sys.excepthook, threading.excepthook = show_program, show_thread

    def close() -> None:
        if threading.current_thread() is here:  # kernels are switched off per thread
            block.__exit__(None, None, None)

    atexit.register(close)
    return [each.name for each in threading.enumerate() if each is not here]
