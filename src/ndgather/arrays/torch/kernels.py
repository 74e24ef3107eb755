"""Triton kernels of gathers and scatters for tensors on CUDA and ROCm devices.

A gather launches a single kernel, which reads each index, checks it and copies the slice. Kernels
never read out of bounds. A scatter first computes the destination of every update. If there
may be duplicate destinations, updates are sorted by destination. A single thread then applies all
updates of an element in the order of the indices, so that the result has the same bits as the core.

Each *position* selects a *run*, a sequence of elements with a constant stride. The *dense* array is
the result of a gather or the updates of a scatter. A *lane* is an element in reductions, and an
integer of up to 8 bytes in copies. A *word* consists of the lanes that one instruction moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from math import gcd, prod
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import driver

from ndgather import arguments, reductions
from ndgather.array_call import Call, replace
from ndgather.arrays import lowering
from ndgather.arrays.torch import checks, composition
from ndgather.errors import AttributeValueError
from ndgather.reductions import ROWS

_LANES = {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}
_COMBINED = ("add", "sub", "mul", "min", "max", "mean")  # mean adds and then divides
_PLAIN = frozenset(checks.KINDS)
_ATOMIC = (torch.int32, torch.int64, torch.uint32, torch.uint64)


class KernelArgs(NamedTuple):
    """Positions and runs. The unit of strides is an element, or half of a 16-byte element."""

    positions: int
    run: int  # number of elements
    step: int  # stride of a run in data
    dense_step: int  # stride of a run in the dense array
    unit: int  # `steps` and `strides` are multiples of this many elements
    share: int  # the number of blocks of a run that one program copies
    # One value per axis of positions, innermost first:
    sizes: tuple[int, ...]  # without the outermost axis, whose size is not needed
    steps: tuple[int, ...]
    index_steps: tuple[int, ...]
    dense_steps: tuple[int, ...]
    # One value per entry of an index tuple:
    limits: tuple[int, ...]  # the number of valid coordinates
    strides: tuple[int, ...]
    entry_step: int  # stride between the entries of an index tuple
    windows: tuple[int, ...]  # window sizes, if each element of a window is checked separately
    window_steps: tuple[int, ...]  # number of positions between neighbors in a window


class Config(NamedTuple):
    """The compile-time constants of a kernel."""

    number: Any  # the integer type of offsets
    nothing: int  # the destination of dropped updates: the largest integer, which sorts last
    mode: str
    negative: bool
    rows: int = 1024  # positions per program
    lanes: int = 1
    word: int = 1
    operation: str = "none"
    atomic: bool = False
    ahead: int = 0  # number of updates to load ahead, or 0 if destinations are distinct


@triton.jit
def _share(args, config: tl.constexpr):
    """Return the range of lanes that this program handles, and the number of lanes in a run."""
    program = tl.program_id(1).to(config.number)
    begin = program * args.share * config.lanes
    width = (program * 0 + args.run) * config.word
    return begin, tl.minimum(begin + args.share * config.lanes, width), width


@triton.jit
def _along(number, sizes, steps):
    """Return the offsets of positions in an array.

    With sizes (2,) and steps (1, 10), position 5 has the coordinates 1 on the inner axis and 2 on
    the outer axis, so that its offset is 1 * 1 + 2 * 10 = 21.
    """
    at = tl.zeros_like(number)
    for axis in tl.static_range(len(steps)):
        coordinate = number
        if axis < len(sizes):  # on the outermost axis, `number` is already the coordinate
            coordinate = number % sizes[axis]
            number = number // sizes[axis]
        at += coordinate * steps[axis]
    return at


@triton.jit
def _locate(number, indices, errors, args, config: tl.constexpr):
    """Return the offset of each position in data, and whether the position is in bounds."""
    good = number < args.positions
    live = good
    bad = tl.zeros_like(number)
    key = _along(number, args.sizes, args.steps)
    at = _along(number, args.sizes, args.index_steps)
    unsigned: tl.constexpr = indices.dtype.element_ty == tl.uint64
    for entry in tl.static_range(len(args.limits)):
        value = tl.load(indices + (at + entry * args.entry_step), mask=live, other=0)
        limit = args.limits[entry]
        if unsigned and config.mode == "wrap":
            value = value % (tl.zeros_like(value) + limit)
        value = value.to(tl.int64)
        if unsigned:  # uint64 values of 2**63 or more are negative as int64
            value = tl.where(value < 0, 9223372036854775807, value)
        if config.mode == "wrap":
            value = value % limit
            value = tl.where(value < 0, value + limit, value)
        elif config.mode == "clip":
            value = tl.minimum(tl.maximum(value, 0), limit - 1)
        else:
            lowest = 0
            if len(args.windows) > 0:  # clip the start, so that the addition cannot overflow
                value = tl.minimum(tl.maximum(value, -args.windows[entry]), limit)
                value += number // args.window_steps[entry] % args.windows[entry]
            elif config.negative:
                lowest = -limit
            inside = (value >= lowest) & (value < limit)
            value = tl.where(value < 0, value + limit, value)
            bad += (live & ~inside).to(number.dtype)
            good = good & inside
        key += value.to(number.dtype) * args.strides[entry]
    if config.mode == "raise":
        here = tl.zeros_like(number)
        # Only the first program of a run reports errors. Triton 3.9 does not accept scalar masks.
        wrong = live & ~good & (here + tl.program_id(1) == 0)
        # Store earlier positions as larger values, so that `atomic_max` keeps the first position.
        position = 9223372036854775807 - number.to(tl.int64)
        tl.atomic_max(errors + here, position, mask=wrong, sem="relaxed")
        tl.atomic_add(errors + 1 + here, bad.to(tl.int64), mask=wrong, sem="relaxed")
    return key, good


@triton.jit(do_not_specialize=("low", "high"))
def gather_kernel(data, result, indices, errors, low, high, args, config: tl.constexpr):
    number = tl.program_id(0).to(config.number) * config.rows + tl.arange(0, config.rows)
    key, good = _locate(number, indices, errors, args, config)
    source = key * args.unit * config.word
    target = _along(number, args.sizes, args.dense_steps) * config.word
    live = (number < args.positions)[:, None]
    kind: tl.constexpr = data.dtype.element_ty
    begin, end, width = _share(args, config)
    for start in range(begin, end, config.lanes):
        lane = start + tl.arange(0, config.lanes)
        inner = (lane < width)[None, :]
        # The two lanes of a 16-byte element are filled with `low` and `high`.
        fill = tl.where((lane % 2 == 0)[None, :], low.to(kind), high.to(kind))
        at = source[:, None] + (lane * args.step)[None, :]
        value = tl.load(data + at, mask=good[:, None] & inner, other=fill)
        tl.store(result + target[:, None] + lane[None, :], value, mask=live & inner)


@triton.jit
def key_kernel(keys, last, indices, errors, args, config: tl.constexpr):
    """Write the destination of every update to `keys`.

    If `last` is given, write the last update of every destination to it, and set the flag
    ``errors[2]`` if there are duplicate destinations.
    """
    number = tl.program_id(0).to(config.number) * config.rows + tl.arange(0, config.rows)
    key, good = _locate(number, indices, errors, args, config)
    tl.store(keys + number, tl.where(good, key, config.nothing), mask=number < args.positions)
    if last is not None:
        before = tl.atomic_max(last + key, number, mask=good, sem="relaxed")
        if errors is not None:
            here = tl.zeros_like(number).to(tl.int64)
            tl.store(errors + 2 + here, here + 1, mask=good & (before >= 0))


@triton.jit
def _combine(old, new, operation: tl.constexpr):
    """Combine an element and an update. For 16-bit floats, round the float32 result."""
    short: tl.constexpr = old.dtype.is_floating() and old.dtype.primitive_bitwidth == 16
    kind: tl.constexpr = tl.float32 if short else old.dtype
    a = old.to(kind)
    b = new.to(kind)
    if operation == "add":
        result = (a + b).to(old.dtype)
    elif operation == "sub":
        result = (a - b).to(old.dtype)
    elif operation == "mul":
        result = (a * b).to(old.dtype)
    elif operation == "min":  # the first NaN, if any, is the result
        result = tl.where((b >= a) | ~(a == a), old, new)  # noqa: PLR0124 - false for a NaN
    elif operation == "max":
        result = tl.where((b <= a) | ~(a == a), old, new)  # noqa: PLR0124
    else:
        tl.static_assert(False, "a reduction without a rule")
    return result


@triton.jit
def scatter_kernel(result, updates, keys, last, order, args, config: tl.constexpr):
    """Apply updates to `result`, even if there are duplicate destinations.

    For example, updates with the destinations 2, 0, 2, 1 are sorted as follows::

        place   0  1  2  3
        keys    0  1  2  2      the sorted destinations
        order   1  3  0  2      the update at each place; the sort is stable

    There are three ways to handle duplicate destinations. Assignments write only the last update
    of each destination, which is read from `last` or `order`. Integers are added atomically, in any
    order. In all other reductions, the first place of a destination applies all of its updates in
    sorted order. In the example, place 2 applies the updates 0 and 2, and place 3 applies none.
    """
    number = tl.program_id(0).to(config.number) * config.rows + tl.arange(0, config.rows)
    key = tl.load(keys + number, mask=number < args.positions, other=config.nothing)
    good = key != config.nothing
    if last is not None:
        good = good & (tl.load(last + key, mask=good, other=-1) == number)
    if order is not None:  # assignments use the last place of a destination, reductions the first
        beside = number - 1 if config.ahead else number + 1
        inside = (beside >= 0) & (beside < args.positions)
        good = good & (tl.load(keys + beside, mask=inside, other=config.nothing) != key)
    target = key * args.unit * config.word
    ahead: tl.constexpr = config.ahead
    operation: tl.constexpr = config.operation
    begin, end, width = _share(args, config)
    for start in range(begin, end, config.lanes):
        lane = start + tl.arange(0, config.lanes)
        inner = (lane < width)[None, :]
        mask = good[:, None] & inner
        to = result + target[:, None] + lane[None, :]
        apart = (lane * args.dense_step)[None, :]
        if ahead:
            old = tl.load(to, mask=mask, other=0)
            at = number
            more = good
            # Repeat until every place has applied all its updates.
            # The unrolled inner loop loads the next updates before it applies the current update.
            while tl.max(more.to(tl.int32), 0) > 0:
                for _ in tl.static_range(ahead):
                    here = at < args.positions
                    same = tl.load(keys + at, mask=here, other=config.nothing) == key
                    position = tl.load(order + at, mask=here, other=0).to(key.dtype)
                    source = _along(position, args.sizes, args.dense_steps) * config.word
                    more = more & same
                    takes = more[:, None] & inner
                    new = tl.load(updates + source[:, None] + apart, mask=takes, other=0)
                    old = tl.where(takes, _combine(old, new, operation), old)
                    at += 1
            tl.store(to, old, mask=mask)
        else:
            position = number
            if order is not None:
                position = tl.load(order + number, mask=good, other=0).to(key.dtype)
            source = _along(position, args.sizes, args.dense_steps) * config.word
            new = tl.load(updates + source[:, None] + apart, mask=mask, other=0)
            if not config.atomic:
                if config.operation != "none":
                    new = _combine(tl.load(to, mask=mask, other=0), new, operation)
                tl.store(to, new, mask=mask)
            else:
                new = 0 - new if config.operation == "sub" else new
                tl.atomic_add(to, new, mask=mask, sem="relaxed")


def _plan(call: Call, layout: lowering.Layout, strides: Any, dense_strides: Any) -> Any:
    """Return the arguments and compile-time constants for arrays with these strides.

    `strides` are the strides of data in a gather, and of the result in a scatter. For example,
    ``gather(data, [2, 0], axis=1)`` with data of shape (2, 3, 4) has 4 positions, and each position
    selects a run of 4 elements::

        data       aaaa bbbb cccc  dddd eeee ffff    its strides are 12, 4, 1
        result     cccc aaaa  ffff dddd
        position   0    1     2    3                 sizes (2,), without the outermost axis
        index      2    0     2    0                 index_steps (1, 0), limits (3,)
        offset     8    0     20   12                steps (0, 3), strides (1,), in units of 4

    Position 3 has the index 0 and the coordinate 1 on both axes. The offset of position 3 in
    data is 0 * strides[0] + 1 * steps[0] + 1 * steps[1] = 3 units, which are 12 elements.
    """
    indices, window = call.indices, call.window_shape
    # Treat a 16-byte element as two elements, because kernels move at most 8 bytes.
    fills, halves = bool(window) and call.mode == "fill", 2 if call.data.itemsize == 16 else 1
    strides = [stride * halves for stride in strides]
    dense_strides = [stride * halves for stride in dense_strides]
    steps, index_steps, alone = ([0] * len(layout.result) for _ in range(3))
    end = layout.first + len(layout.positions)
    within = layout.roles.window
    for axis in (*range(layout.first), *(axis for axis, _, _ in layout.others())):
        steps[axis] = strides[axis] if layout.data[axis] > 1 else 0
    for entry, axis in enumerate(within):
        steps[axis], alone[axis] = (0, 1) if fills else (strides[entry], 0)
    steps[end:] = strides[layout.end :]
    places = layout.roles.positions
    for axis, stride in zip(places, indices.stride(), strict=False):
        index_steps[axis] = stride
    every = zip(layout.result, alone, steps, index_steps, dense_strides, strict=True)
    # Merge two adjacent axes if a single stride addresses both axes in every array.
    # For example, sizes (3, 4) with strides (4, 1) become size 12 with stride 1.
    axes: list[tuple[int, ...]] = []  # outermost first
    for size, lone, *distances in (*every, (halves, 0, 1, 0, 1)):
        if axes and axes[-1][1:] == (lone, *(size * distance for distance in distances)):
            axes[-1] = (axes[-1][0] * size, lone, *distances)
        elif size > 1:
            axes.append((size, lone, *distances))
    run, step, dense_step = 1, 1, 1
    # Use the innermost axis as the run if the index does not change along this axis.
    if axes and axes[-1][1] == axes[-1][3] == 0 and (axes[-1][2] == 1 or not call.scatters):
        run, _, step, _, dense_step = axes.pop()
    columns: Any = zip(*axes[::-1], strict=True) if axes else [()] * 5
    sizes, _, walked, index_walked, dense_walked = columns
    along = [strides[axis] for axis in layout.axes]
    unit = gcd(*walked, *along) or run
    limits = [layout.data[axis] for axis in layout.axes]
    if window and not fills:
        limits = [size - wide + 1 for size, wide in zip(limits, window, strict=True)]
    inner = (prod(layout.result[axis + 1 :]) * halves // run for axis in within)
    args = KernelArgs(
        *(prod(sizes), run, step, dense_step, unit, 1),
        *(sizes[:-1], tuple(step // unit for step in walked), index_walked, dense_walked),
        *(tuple(limits), tuple(stride // unit for stride in along)),
        indices.stride(-1) if len(places) < indices.dim() else 0,
        *((window, tuple(inner)) if fills else ((), ())),
    )
    shapes = layout.data, layout.result, indices.shape
    spans = zip(shapes, (strides, dense_strides, indices.stride()), strict=True)
    ends = (sum((size - 1) * step for size, step in zip(*span, strict=True)) for span in spans)
    wide = max(args.positions, *ends) >= 2**31 - 2**16  # the last program may exceed `ends`
    number, nothing = (tl.int64, 2**63 - 1) if wide else (tl.int32, 2**31 - 1)
    return args, Config(number, nothing, str(call.mode), call.negative and not window)


def _programs(args: KernelArgs, config: Config, size: int, aligned: int) -> tuple[Any, ...]:
    """Return the lane size in bytes, and the arguments, constants, grid and warps of a kernel.

    `size` is the element size, at most 8 bytes, and `aligned` is the alignment of both arrays.
    """
    word = size
    if args.step == args.dense_step == 1:  # every offset must be a multiple of the word size
        word = max(gcd(aligned, size * gcd(args.unit, args.run, *args.dense_steps)), size)
    # Copies use 4-byte lanes if possible, such as two float16 elements per lane.
    lane = size if config.operation != "none" else max(min(word, 4), size)
    width = args.run * size // lane
    most = (2048 if config.ahead else 4096) // lane  # 16 or 32 bytes per thread, with 128 threads
    lanes = min(triton.next_power_of_2(width), 1024, most)
    rows = max(config.rows // lanes, 1)
    warps = 4 if rows * lanes > 256 else 1
    if config.ahead and width > 1:  # 32 bytes per thread
        rows = max(1024 // (lanes * lane), 1)
        warps = max(rows * lanes * lane // 1024, 1)
        config = config._replace(ahead=2 if rows == 1 else 4)
    elif config.ahead:  # few rows per program, because all wait for the row with the most updates
        rows, warps = 64, 2
    programs, blocks = triton.cdiv(args.positions, rows), triton.cdiv(width, lanes)
    # Distribute each run over several programs if there are fewer than about 1024 programs.
    share = triton.cdiv(blocks, min(max(1024 // programs, 1), 65535))
    run, unit, *dense = (n * size // word for n in (args.run, args.unit, *args.dense_steps))
    args = args._replace(run=run, unit=unit, share=share, dense_steps=tuple(dense))
    config = config._replace(rows=rows, lanes=lanes, word=word // lane)
    return lane, args, config, (programs, triton.cdiv(blocks, share), 1), warps


_kept_errors = threading.local()


def _stream_of(tensor: torch.Tensor) -> int:
    if not tensor.is_cuda:
        return 0
    stream: int = driver.active.get_current_stream(tensor.get_device())
    return stream


class Plan:
    """The layout and compiled kernels that all calls with the same signature share.

    Launching a stored kernel avoids Triton's lookup by argument types.
    """

    def __init__(self, call: Call) -> None:
        data, updates, reduction = call.data, call.updates, call.reduction
        self.shape = checks.check_shapes(call)
        self.call = replace(call, data=None, indices=None, updates=None)
        self.waits = call.raises
        unlike = call.window_shape and call.mode not in ("raise", "clip", "fill")
        if reduction != "none":
            short = data.is_floating_point() and data.itemsize == 1
            unlike = data.is_complex() or short or reduction not in _COMBINED
        self.composes = bool(unlike or 0 in data.shape or 0 in self.shape)
        if self.composes:
            return
        self.layout = lowering.layout_of(call, data.shape, call.indices.shape)
        self.in_one_step = not call.scatters or reductions.in_one_step(reduction, call.use_init_val)
        contiguous = torch.empty(self.shape, device="meta").stride()
        if call.scatters:
            strides = torch.empty(data.shape, device="meta").stride()
            dense = updates.resolve_conj().resolve_neg().stride()
            dense = dense if self.in_one_step else contiguous  # `run` copies the updates
        else:
            strides, dense = data.resolve_conj().resolve_neg().stride(), contiguous
        self.args, self.config = _plan(call, self.layout, strides, dense)
        self.number = torch.int64 if self.config.number == tl.int64 else torch.int32
        self.fill = 0, 0
        if call.fill_value is not None:
            element = checks.array_of(torch.tensor(call.fill_value, dtype=data.dtype, device="cpu"))
            low, high = np.tile(element, 16 // data.itemsize).view(np.int64).tolist()
            self.fill = low, high
        # Maps a step and the alignments of its arrays to a compiled kernel and its arguments.
        self.kept: dict[Any, list[Any]] = {}

    def run(self, call: Call) -> torch.Tensor:
        """Run a call that has the signature of this plan."""
        data = call.data
        if self.waits and data.is_cuda and torch.cuda.is_current_stream_capturing():
            modes = [mode for mode in arguments.allowed_modes(self.call) if mode != "raise"]
            raise AttributeValueError(
                f"{call.caller}: mode = {self.call.mode!r} waits for the device, which a CUDA "
                f"graph cannot capture (allowed: {', '.join(modes)})"
            )
        if self.composes:
            return composition.run(self.with_tensors(call))
        if data.is_cuda and data.get_device() != torch.cuda.current_device():
            with torch.cuda.device(data.device):
                return self.run(call)
        if not call.kind.scatters:
            return self.gather(call)
        data = data.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        updates = call.updates.resolve_conj().resolve_neg()
        updates = updates if self.in_one_step else updates.contiguous()
        steps = _Scatter(self, call, data)
        options = self.call.reduction, self.call.use_init_val
        result: torch.Tensor = reductions.in_steps(steps, data, updates, *options)
        return result

    def with_tensors(self, call: Call) -> Call:
        """Return the checked call with the tensors and the argument names of `call`."""
        own = ("caller", "data", "indices", "updates", "updates_name")
        return replace(self.call, **{name: getattr(call, name) for name in own})

    def gather(self, call: Call) -> torch.Tensor:
        data = call.data.resolve_conj().resolve_neg()
        result = data.new_empty(self.shape)
        stream = _stream_of(data)
        key, errors = self.errors(data, stream)
        arrays = data, result, call.indices, errors
        self.launch(gather_kernel, stream, arrays, self.fill, ("none", False, 0))
        if errors is not None:
            self.read_errors(call, key, errors)
        return result

    def launch(
        self,
        kernel: Any,
        stream: int,
        arrays: tuple[torch.Tensor | None, ...],
        fill: tuple[int, ...] = (),
        step: tuple[str, bool, int] | None = None,
    ) -> None:
        """Launch a kernel; compile it first if the step or an array's alignment is new.

        If the kernel copies or combines elements of the first two arrays, `step` gives the values
        of the config's fields `operation`, `atomic` and `ahead`.
        """
        first: Any = arrays[0]
        aligned = [0 if array is None else gcd(16, array.data_ptr()) for array in arrays]
        key = step, first.dtype, *aligned
        if key not in self.kept:
            args, config = self.args, self.config
            lane, warps, grid = 0, 4, (triton.cdiv(args.positions, config.rows), 1, 1)
            if step is not None:
                config = config._replace(operation=step[0], atomic=step[1], ahead=step[2])
                size, place = min(first.itemsize, 8), gcd(*aligned[:2])
                lane, args, config, grid, warps = _programs(args, config, size, place)
                lane = lane if config.operation == "none" else 0
            self.kept[key] = [None, lane, grid, warps, (*fill, args, config)]
        launch, lane, grid, warps, constants = kept = self.kept[key]
        if launch is not None:
            launch(*arrays, *constants, stream=stream)
            return
        given: list[Any] = [*arrays]
        if lane:
            given[0] = triton.reinterpret(given[0], _LANES[lane])
            given[1] = triton.reinterpret(given[1], _LANES[lane])
        compiled = kernel[grid](*given, *constants, num_warps=warps)
        if compiled is not None:  # Triton's interpreter compiles nothing
            kept[0] = compiled[grid]

    def errors(self, data: torch.Tensor, stream: int) -> tuple[Any, torch.Tensor | None]:
        """Return a key and a zeroed error buffer, or None for both if mode is not "raise"."""
        if not self.waits:
            return None, None
        key = f"{data.get_device()} {stream}"
        # Remove the buffer, so that an interrupted call cannot leave errors for the next call.
        kept = vars(_kept_errors).pop(key, None)
        return key, torch.zeros(3, dtype=torch.int64, device=data.device) if kept is None else kept

    def read_errors(self, call: Call, key: Any, errors: torch.Tensor) -> bool:
        """Wait for the kernels, raise any error, and return whether a destination is duplicate."""
        found = errors.tolist()
        if any(found):
            errors.zero_()
        setattr(_kept_errors, key, errors)
        if not found[1]:
            return bool(found[2])
        call, layout, args = self.with_tensors(call), self.layout, self.args
        indices, halves = call.indices, 2 if call.data.itemsize == 16 else 1
        element = (2**63 - 1 - found[0]) * args.run // halves
        at = np.unravel_index(element, tuple(layout.result))
        where = tuple(int(at[axis]) for axis in layout.roles.positions)
        values = indices[where].reshape(-1).tolist()
        lowest = [-limit * (call.negative and not call.window_shape) for limit in args.limits]
        pairs = enumerate(zip(values, lowest, args.limits, strict=True))
        entry = next((n for n, (value, low, limit) in pairs if not low <= value < limit), 0)
        # Kernels count a bad index once for each of its runs, so divide by the runs per index.
        count = found[1] * indices.numel() // (args.positions * len(values))
        where = where if len(where) == indices.dim() else (*where, entry)
        axis = layout.axes[entry]
        facts = where, values[entry], axis, layout.data[axis], lowest[entry], count, indices.numel()
        raise arguments.out_of_bounds(call, facts)


class _Scatter(composition.Steps):
    """The scatter steps of a call, which all use the same destinations."""

    def __init__(self, plan: Plan, call: Call, data: torch.Tensor) -> None:
        self.plan, self.stream, positions = plan, _stream_of(data), plan.args.positions
        options, waits = plan.call, plan.waits
        self.last: Any = None
        self.order: Any = None
        self.keys = torch.empty(positions, dtype=plan.number, device=data.device)
        rows = data.numel() * max(data.itemsize // 8, 1) // plan.args.unit + 1
        assigns = options.reduction == "none" or not options.use_init_val
        checks_all = waits and (data.dtype not in _ATOMIC or options.reduction == "mul")
        checks_all = checks_all and positions <= rows  # more positions than rows imply duplicates
        # Computing `last` is worthwhile only if it can replace sorting the updates.
        if rows <= 4 * positions and (assigns or checks_all):
            self.last = torch.full((rows,), -1, dtype=plan.number, device=data.device)
        key, errors = plan.errors(data, self.stream)
        plan.launch(key_kernel, self.stream, (self.keys, self.last, call.indices, errors))
        self.distinct = positions == 1
        if errors is not None:
            repeated = plan.read_errors(call, key, errors)
            self.distinct |= self.last is not None and not repeated

    def scatter(self, data: torch.Tensor, updates: torch.Tensor, reduction: str) -> torch.Tensor:
        """Apply updates in place to data, which must be contiguous."""
        arrays, assigns = (data, updates), reduction == "none"
        if data.dtype == torch.bool and not assigns:
            arrays = data.view(torch.uint8), updates.view(torch.uint8)
            reduction = ROWS[reduction].of_bits
        atomic = data.dtype in _ATOMIC and bool(ROWS[reduction].added)
        keys, last, order, ahead = self.keys, None, None, 0
        if not self.distinct and not atomic:
            last = self.last if assigns else None
            if last is None:
                self.order = self.order or torch.sort(keys, stable=True)
                keys, order = self.order
                ahead = 0 if assigns else 8
        given, step = (*arrays, keys, last, order), (reduction, atomic, ahead)
        self.plan.launch(scatter_kernel, self.stream, given, step=step)
        if data.dtype == torch.bool and reduction == "add":  # booleans are added modulo 2
            arrays[0].bitwise_and_(1)
        return data


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    lazy = tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, lazy


def _signature(call: Call) -> tuple[Any, ...] | None:
    """Return a hashable signature of a call, or None if its options have unusual types.

    Calls with equal signatures share a plan. The signature includes the type and representation of
    the fill value, because 1 == True and 0.0 == -0.0.
    """
    numbers, fill = (call.axis, call.batch_dims, *call.window_shape), call.fill_value
    usual = {*map(type, numbers)} == {int} and type(call.use_init_val) is bool
    usual = usual and isinstance(call.mode, str) and isinstance(call.reduction, str)
    usual = usual and type(fill) in (NoneType, bool, int, float, complex)
    tensors = [call.data, call.indices]
    if call.kind.scatters:
        tensors.append(call.updates)
    if not usual or not {*map(type, tensors)} <= _PLAIN:
        return None
    options = call.kind, call.mode, call.reduction, call.use_init_val, call.negative
    return (*options, numbers, type(fill), repr(fill), *map(_facts, tensors))


@lru_cache(maxsize=1024)
def kept_plans(signature: tuple[Any, ...]) -> list[Plan]:
    return []


def run(call: Call, check: Callable[[Call], Call] | None = None) -> torch.Tensor:
    """Run a call with Triton kernels; see `operators.run_on_gpu`."""
    signature = _signature(call)
    kept = [] if signature is None else kept_plans(signature)
    if kept:
        return kept[0].run(call)
    checked = call if check is None else check(call)
    plan, names = Plan(checked), ("data", "indices", "updates")
    if all(getattr(checked, name) is getattr(call, name) for name in names):
        kept.append(plan)
    return plan.run(checked)
