"""Numba loops that copy bytes and read at random positions, to measure the machine.

Importing this module requires numba.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_numba: Any = import_module("numba")
prange: Any = _numba.prange
parallel: Decorator = _numba.njit(parallel=True, cache=True)
sequential: Decorator = _numba.njit(cache=True)

PREFETCH_DISTANCE = 64


def set_threads(count: int) -> None:
    """Set the number of threads of the loops, at most the number of numba's threads."""
    _numba.set_num_threads(min(count, _numba.config.NUMBA_NUM_THREADS))


@parallel
def copy(source: Array, target: Array, threads: int, repeats: int) -> None:
    """Copy bytes from `source` to `target`, `repeats` times, divided among threads."""
    share = (source.size + threads - 1) // threads
    for t in prange(threads):
        first, last = t * share, min((t + 1) * share, source.size)
        for _ in range(repeats):
            target[first:last] = source[first:last]


@parallel
def copy_blocks(source: Array, target: Array, order: Array, threads: int, repeats: int) -> None:
    """Copy the rows of `source` in an order that changes in every repeat.

    A cache keeps part of the blocks if their order changes, but nothing of a stream that is longer
    than the cache.
    """
    count = order.size
    share = (count + threads - 1) // threads
    for t in prange(threads):
        for repeat in range(repeats):
            for n in range(t * share, min((t + 1) * share, count)):
                row = order[(n + repeat * 7919) % count]
                target[row, :] = source[row, :]


@_numba.extending.intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _prefetch(_context: Any, words: Any, row: Any) -> Any:
    """Prefetch the cache line of ``words[row]``."""
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


@parallel
def read_words(words: Array, positions: Array, threads: int, repeats: int) -> np.uint64:
    """Read a word at every position (uint32), `repeats` times, divided among threads."""
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


@parallel
def read_chains(words: Array, shift: int, states: Array, steps: int) -> np.uint64:
    """Read `steps` words from random cache lines in every chain; each thread has a row of chains.

    The next line of a chain depends on the word just read. With one chain, a read takes the memory
    latency; with more chains, as many reads are concurrent. Lines are drawn with repetition, so
    that a cache holds as many of them as in random lookups.
    """
    total = np.uint64(0)
    for t in prange(states.shape[0]):
        own = states[t].copy()
        for _ in range(steps):
            for chain in range(own.size):
                state = own[chain]
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                own[chain] = state + words[(state >> np.uint64(shift)) * np.uint64(8)]
        total += own.sum()
    return total
