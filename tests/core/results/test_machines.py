"""Identical results on every processor: all instruction sets, cache sizes and prefetch settings.

A process selects its loops and code paths once, so each machine is a child process. It draws calls
of every function with the same seed and compares them with NumPy.
"""

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.core.comparing import threads
from tests.definitions.by_numpy import expected_by_numpy
from tests.definitions.calls import (
    PublicCall,
    assert_same_elements,
    assert_same_numbers,
    assert_taken,
    bad_entries,
    element_bytes,
    expected,
    moves_as_bytes,
)
from tests.definitions.draws import (
    FUNCTIONS,
    MODES,
    REDUCTIONS,
    SKEWS,
    Size,
    draw_call,
    random_generator,
)

NORESERVE = 0x4000  # Linux mmap: only touched pages are allocated
# With small caches, thousands of elements have the effect of gigabytes: calls prefetch, bypass
# the caches, and copy columns to panels.
SMALL, HUGE = "4096,16384", "1073741824,4294967296"
MACHINES = {
    "baseline that prefetches": ("baseline", f"{SMALL},1"),
    "baseline": ("baseline", "65536,65536,0"),
    "avx2 with small caches": ("avx2", "65536,65536,1"),
    "avx2": ("avx2", f"{HUGE},1"),
    "avx512 that measures": ("avx512", SMALL),
    "avx512 with one cache": ("avx512", "65536,65536,0"),
    "avx512 with a small second level": ("avx512", "4096,1073741824,0"),
}
SMALL_CALLS, LARGE_CALLS = 5, 1


@pytest.mark.unhurried
@pytest.mark.parametrize("machine", MACHINES)
def test_results_are_identical_on_every_machine(machine, draws):
    instruction_set, caches = MACHINES[machine]
    chosen = {"NDGATHER_INSTRUCTION_SET": instruction_set, "NDGATHER_CACHES": caches}
    if instruction_set == "baseline":
        chosen["NPY_DISABLE_CPU_FEATURES"] = "AVX2"
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.results.test_machines", str(draws.getrandbits(64))],
        env={**os.environ, **chosen},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{chosen}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


def compare(call, desired, counts):
    """Compare a new result, one behind an element, and a scatter into gaps and reversed rows."""
    same = assert_same_numbers if call.computes else assert_same_elements
    for count in counts:
        try:
            with threads(count):
                same(call.result(), desired)
                if call.scatters and call.data.ndim > 1:
                    rows, columns, *rest = call.data.shape
                    room = np.zeros((2 * rows, 2 * columns, *rest), call.data.dtype)
                    place = room[::-2, ::-2]
                    place[...] = call.data
                    stored = element_bytes(place) if moves_as_bytes(place.dtype) else b""
                    result = replace(call, data=place).result(out=place)
                    if call.computes:
                        assert_same_numbers(result, desired)
                    else:
                        assert_taken(result, stored, desired)
                elif call.function.startswith("gather") and call.data.dtype.kind in "iufc":
                    behind = np.empty(desired.size + 1, call.data.dtype)[1:]
                    same(call.result(out=behind.reshape(desired.shape)), desired)
        except BaseException as error:
            error.add_note(f"{count} threads: {call}")
            raise


def rows_far_apart(random):
    """Return a scatter to rows that are 2 MiB apart, so that offsets need more than 32 bits."""
    rows, apart = 2100, 1 << 21
    memory = mmap.mmap(-1, rows * apart, flags=mmap.MAP_PRIVATE | NORESERVE)
    data = np.ndarray((rows, 20), "i4", memory, strides=(apart, 4))
    rng = random_generator(random)
    indices, updates = rng.integers(-rows, rows, (9000, 1)), rng.integers(0, 9999, (9000, 20), "i4")
    return scatter("scatter_nd", data, indices, updates, reduction=random.choice(REDUCTIONS))


def scatter(function, data, indices, updates, **options):
    """Return a scatter by index tuples or along the first axis."""
    return PublicCall(
        function=function, data=data, indices=indices, updates=updates, options=options
    )


def call_each_way(random, order):
    """Yield a call for each way in which the core divides, orders and writes its work."""
    rng, width = random_generator(random), random.choice(("f4", "f8", "c16", "u2"))

    def numbers(*shape):
        return rng.permutation(prod(shape)).reshape(shape).astype(width, order=order)

    def places(size, *shape):
        return rng.integers(-size, size, shape, random.choice(("i4", "i8")))

    def gather(function, data, indices, axis=0):
        given = {} if function == "gather_nd" else {"axis": axis}
        return PublicCall(function=function, data=data, indices=indices, options=given)

    for reduction in ("none", random.choice(REDUCTIONS[1:4])):
        for depth, count in ((1, 9000), (2, 9000)):  # rows owned and marked by threads
            data, tuples = numbers(2000, 4, 16), places(4, count, depth)
            tuples[:, 0] = places(2000, count)
            updates = numbers(count, *data.shape[depth:])
            yield scatter("scatter_nd", data, tuples, updates, reduction=reduction)
        data, tuples = numbers(2000, 16), places(2000, 9000, 1) + 5000  # none in bounds
        updates = numbers(9000, 16)
        yield scatter("scatter_nd", data, tuples, updates, reduction=reduction, mode="drop")
        data, tuples = np.ascontiguousarray(numbers(5, 30_000)), places(5, 7, 1)
        updates = np.ascontiguousarray(numbers(7, 30_000))  # parts of long rows
        yield scatter("scatter_nd", data, tuples, updates, reduction=reduction)
        yield gather("gather_nd", data, tuples[:2])
        for rows, columns in ((30, 400), (200, 90), (700, 90)):  # bands of columns
            data, indices = numbers(rows, columns), places(rows, 2 * rows, columns)
            for named in (indices, np.asfortranarray(indices)):
                updates = numbers(2 * rows, columns)
                yield scatter("scatter_elements", data, named, updates, reduction=reduction)
                yield gather("gather_elements", data, named)
                yield gather("gather_elements", data.T, named.T, 1)
            for shape in ((1, columns), (2 * rows, 1)):  # the same row or column repeatedly
                named = np.broadcast_to(places(rows, *shape), (2 * rows, columns))
                yield gather("gather_elements", data, named)
                yield gather("gather_elements", data.T, named.T, 1)
        data, indices = numbers(30, 10, 64), places(30, 60, 64, 10).transpose(0, 2, 1)
        updates = np.ascontiguousarray(numbers(60, 10, 64))  # tiles that would overlap
        yield scatter("scatter_elements", data, indices, updates, reduction=reduction)
    yield gather("gather_nd", numbers(40_000), places(40_000, 30_000, 1))
    yield gather("gather_nd", numbers(300, 200), places(300, 500, 1))  # rows that bypass the caches
    yield gather("gather", numbers(30, 400, 9), places(400, 700), axis=1)
    yield gather("gather", numbers(400, 30, 9), places(400, 700))


def main(seed):
    random = Random(seed)
    for function in MODES:
        for _ in range(SMALL_CALLS):
            call = draw_call(random, function, flavours=["value"])
            if not bad_entries(call):  # data in another layout may repeat elements of indices
                compare(call, expected(call), [1])
    for function in FUNCTIONS:
        for _ in range(LARGE_CALLS):
            call = draw_call(random, function, Size.LARGE, skew=random.choice([*SKEWS]))
            compare(call, expected_by_numpy(call), [1, random.choice((2, 3, 5))])
    for call in [*call_each_way(random, "C"), *call_each_way(random, "F")]:
        compare(call, expected_by_numpy(call), [1, random.choice((2, 3, 5))])
    indices = np.arange(-5000, 25_000)
    with threads(3), pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather(np.zeros(20_000), indices)
    assert (caught.value.position, caught.value.count) == ((25_000,), 5000)
    indices = np.zeros(300, np.int64)
    for far in (2**32 + 5, 5 - 2**32, 2**31, 2**63 - 1, -(2**63)):
        indices[7] = far
        with pytest.raises(IndexOutOfBoundsError):
            ndgather.gather(np.zeros(10), indices)
        filled = ndgather.gather(np.zeros(10), indices, mode="fill", fill_value=1)
        np.testing.assert_array_equal(np.flatnonzero(filled), [7])
    call = rows_far_apart(random)
    desired = expected_by_numpy(call)
    with threads(2):
        np.testing.assert_array_equal(call.result(out=call.data), desired)
        found = ndgather.gather_nd(call.data, call.indices)
    np.testing.assert_array_equal(found, desired[call.indices[:, 0]])


if __name__ == "__main__":
    main(*sys.argv[1:])
