"""Plain loops compiled by numba: those of the numba peer, and those that measure the machine.

The first half is what someone would write who does not know this package; the second half moves
bytes and does nothing else. Importing this module needs numba.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_numba: Any = import_module("numba")
PREFETCH_DISTANCE = 64

prange: Any = _numba.prange


def set_threads(count: int) -> None:
    """Let the loops use `count` threads, or as many as numba has."""
    _numba.set_num_threads(min(count, _numba.config.NUMBA_NUM_THREADS))


def _parallel(function: Function) -> Function:
    compiled: Function = _numba.njit(parallel=True, cache=True)(function)
    return compiled


def _sequential(function: Function) -> Function:
    compiled: Function = _numba.njit(cache=True)(function)
    return compiled


@_parallel
def points(data: Array, indices: Array, out: Array) -> None:
    """``out[n] = data[indices[n, 0], indices[n, 1]]``, data of any strides."""
    for n in prange(out.shape[0]):
        out[n] = data[indices[n, 0], indices[n, 1]]


@_parallel
def rows(data: Array, indices: Array, sizes: Array, out: Array) -> None:
    """``out[n, :] = data[row(indices[n]), :]`` with tuples of any depth."""
    for n in prange(out.shape[0]):
        row = 0
        for j in range(sizes.size):
            row = row * sizes[j] + indices[n, j]
        for s in range(out.shape[1]):
            out[n, s] = data[row, s]


@_parallel
def batched_rows(data: Array, indices: Array, sizes: Array, out: Array) -> None:
    """Do the same for each batch; each batch on one thread."""
    for b in prange(out.shape[0]):
        for n in range(out.shape[1]):
            row = 0
            for j in range(sizes.size):
                row = row * sizes[j] + indices[b, n, j]
            for s in range(out.shape[2]):
                out[b, n, s] = data[b, row, s]


@_parallel
def shared_rows(data: Array, indices: Array, out: Array) -> None:
    """``out[o, n, :] = data[o, indices[n], :]``; each `o` on one thread."""
    for o in prange(out.shape[0]):
        for n in range(out.shape[1]):
            for s in range(out.shape[2]):
                out[o, n, s] = data[o, indices[n], s]


@_parallel
def columns(data: Array, indices: Array, out: Array) -> None:
    """``out[i, j] = data[indices[i, j], j]``."""
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = data[indices[i, j], j]


@_parallel
def elements(data: Array, indices: Array, out: Array) -> None:
    """``out[o, i, j] = data[o, indices[o, i, j], j]``; each `o` on one thread."""
    for o in prange(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                out[o, i, j] = data[o, indices[o, i, j], j]


@_sequential
def set_rows(data: Array, indices: Array, sizes: Array, updates: Array) -> None:
    """``data[row(indices[n]), :] = updates[n, :]``, in order."""
    for n in range(updates.shape[0]):
        row = 0
        for j in range(sizes.size):
            row = row * sizes[j] + indices[n, j]
        for s in range(updates.shape[1]):
            data[row, s] = updates[n, s]


@_sequential
def add_rows(data: Array, indices: Array, sizes: Array, updates: Array) -> None:
    """``data[row(indices[n]), :] += updates[n, :]``, in order."""
    for n in range(updates.shape[0]):
        row = 0
        for j in range(sizes.size):
            row = row * sizes[j] + indices[n, j]
        for s in range(updates.shape[1]):
            data[row, s] += updates[n, s]


@_parallel
def set_elements(data: Array, indices: Array, updates: Array) -> None:
    """``data[o, indices[o, i, j], j] = updates[o, i, j]``; each `o` on one thread."""
    for o in prange(updates.shape[0]):
        for i in range(updates.shape[1]):
            for j in range(updates.shape[2]):
                data[o, indices[o, i, j], j] = updates[o, i, j]


@_parallel
def add_elements(data: Array, indices: Array, updates: Array) -> None:
    """``data[o, indices[o, i, j], j] += updates[o, i, j]``; each `o` on one thread."""
    for o in prange(updates.shape[0]):
        for i in range(updates.shape[1]):
            for j in range(updates.shape[2]):
                data[o, indices[o, i, j], j] += updates[o, i, j]


@_parallel
def max_elements(data: Array, indices: Array, updates: Array) -> None:
    """``data[o, indices[o, i, j], j] = max(itself, updates[o, i, j])``; each `o` on one thread."""
    for o in prange(updates.shape[0]):
        for i in range(updates.shape[1]):
            for j in range(updates.shape[2]):
                row = indices[o, i, j]
                data[o, row, j] = max(data[o, row, j], updates[o, i, j])


@_parallel
def copy(source: Array, target: Array, threads: int, repeats: int) -> None:
    """Copy `source` to `target`, both of bytes, `repeats` times, a share for each thread."""
    share = (source.size + threads - 1) // threads
    for t in prange(threads):
        first, last = t * share, min((t + 1) * share, source.size)
        for _ in range(repeats):
            target[first:last] = source[first:last]


@_numba.extending.intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _prefetch(_context: Any, words: Any, row: Any) -> Any:
    """Ask for the cache line of ``words[row]`` without waiting for it."""
    llvm: Any = import_module("llvmlite.ir")
    byte_pointer, number = llvm.IntType(8).as_pointer(), llvm.IntType(32)
    kind = llvm.FunctionType(llvm.VoidType(), [byte_pointer, number, number, number])

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte_pointer)
        instruction = _numba.core.cgutils.get_or_insert_function(
            builder.module, kind, "llvm.prefetch.p0i8"
        )
        read, keep, data_cache = (llvm.Constant(number, value) for value in (0, 3, 1))
        builder.call(instruction, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return _numba.types.void(words, row), generate


@_parallel
def read_words(words: Array, positions: Array, threads: int, repeats: int) -> np.uint64:
    """Read one word at each of `positions` (uint32), `repeats` times, a share for each thread."""
    share = (positions.size + threads - 1) // threads
    total = np.uint64(0)
    for t in prange(threads):
        seen = np.uint64(0)
        first = np.uint64(t * share)
        last = np.uint64(min((t + 1) * share, positions.size))
        for _ in range(repeats):
            for n in range(first, last):
                ahead = min(n + np.uint64(PREFETCH_DISTANCE), last - np.uint64(1))
                _prefetch(words, np.uint64(positions[ahead]))
                seen += np.uint64(words[positions[n]])
        total += seen
    return total


@_parallel
def read_rows(rows: Array, positions: Array, threads: int, repeats: int) -> np.uint64:
    """Read whole rows at `positions` (uint32), `repeats` times, a share for each thread."""
    share = (positions.size + threads - 1) // threads
    total = np.uint64(0)
    for t in prange(threads):
        seen = np.uint64(0)
        for _ in range(repeats):
            for n in range(t * share, min((t + 1) * share, positions.size)):
                row = positions[n]
                for s in range(rows.shape[1]):
                    seen += np.uint64(rows[row, s])
        total += seen
    return total
