"""Random calls that are split between threads, in any floating-point environment.

The expected results come from NumPy, in one thread and the default environment.
"""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import settings

from ndgather.errors import IndexOutOfBoundsError
from tests.core.comparing import WRITEABLE_LAYOUTS, contents, threads
from tests.definitions.by_numpy import expected_by_numpy
from tests.definitions.calls import (
    assert_same_elements,
    assert_same_numbers,
    assert_taken,
    element_bytes,
)
from tests.definitions.draws import FUNCTIONS, SCATTERS, SKEWS, Size, arranged, distinct, draw_call

COUNTS = (1, 2, 3, 5, 16)
BORDERS = max(
    50, settings.default.max_examples // 2
)  # calls per function, about a millisecond each
EACH = pytest.mark.parametrize("number", range(max(settings.default.max_examples // 100, 1)))


def compare(call, desired, out=None):
    """Compare a call, which may write to `out` or in place, with NumPy."""
    inputs = [array for array in call.arrays if array is not out]
    before = [*map(contents, inputs)]
    filled = None if out is None else element_bytes(out)
    actual = call.result(**({} if out is None else {"out": out}))
    assert out is None or actual is out
    if call.computes:
        assert_same_numbers(actual, desired)
    elif out is None:
        assert_same_elements(actual, desired)
    else:
        assert_taken(out, filled, desired)
    assert [*map(contents, inputs)] == before


def compare_out(call, desired, random):
    """Compare a call with an `out` of any layout."""
    garbage = distinct(desired.shape, desired.dtype)
    compare(call, desired, arranged(random, garbage, WRITEABLE_LAYOUTS))


def compare_in_place(call, desired, random):
    place = arranged(random, call.data, WRITEABLE_LAYOUTS)
    compare(replace(call, data=place), desired, place)


def ways_of(call):
    """Return the ways in which a call can deliver its result, as functions."""
    ways = [lambda call, desired, _: compare(call, desired)]
    ways += [compare_out] * (call.data_shape is None)
    return ways + [compare_in_place] * call.scatters


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes_around_thresholds(function, draws):
    for _ in range(BORDERS * (1 + (function in SCATTERS))):
        seed = draws.getrandbits(64)
        random = Random(seed)
        call = draw_call(random, function, Size.BORDER, skew=random.choice([*SKEWS]))
        try:
            with threads(random.choice(COUNTS)):
                compare_way = random.choice(ways_of(call) + ways_of(call)[1:])
                compare_way(call, expected_by_numpy(call), random)
        except BaseException as error:
            error.add_note(f"Random({seed}): {call}")
            raise


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("function", FUNCTIONS)
@EACH
def test_results_are_identical_for_any_number_of_threads(function, skew, number, draws):
    seed = draws.getrandbits(64)
    random = Random(seed)
    call = draw_call(random, function, Size.LARGE, skew=skew)
    print(f"draw_call(Random({seed}), {function!r}, Size.LARGE, skew={skew!r})\n{call}")
    desired = expected_by_numpy(call)
    for compare_way in ways_of(call):
        for count in random.sample(COUNTS, 2):
            with threads(count):
                compare_way(call, desired, random)


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather", *SCATTERS])
@EACH
def test_first_bad_entry_is_named_for_any_number_of_threads(function, number, draws):
    seed = draws.getrandbits(64)
    rng = np.random.default_rng(seed)
    call = draw_call(Random(seed), function, Size.LARGE)
    print(f"draw_call(Random({seed}), {function!r}, Size.LARGE)\n{call}")
    options = {**call.options, "mode": "raise"}
    options.pop("fill_value", None)
    indices = call.indices
    low, high = np.iinfo(indices.dtype).min, np.iinfo(indices.dtype).max
    sizes = np.full(indices.shape, call.data.shape[options.get("axis", 0)])
    if function.endswith("_nd"):
        batch = options.get("batch_dims", 0)
        sizes[...] = call.data.shape[batch : batch + indices.shape[-1]]
    indices = np.mod(indices.astype(object), sizes).astype(np.int64)
    bad = rng.integers(0, indices.size, rng.integers(1, 4))
    # The end of an axis, before its beginning, and the ends of the dtype.
    for at in bad.tolist():
        size = int(sizes.flat[at])
        strays = [each for each in (size, -size - 1, low, high) if not -size <= each < size]
        strays = [each for each in strays if low <= each <= min(high, 2**63 - 1)]
        if not strays:
            return
        indices.flat[at] = strays[rng.integers(len(strays))]
    indices = indices.astype(call.indices.dtype)
    first = min(bad.tolist())
    call = replace(call, indices=indices, options=options)
    garbage = np.zeros(expected_by_numpy(replace(call, indices=indices * 0)).shape, call.data.dtype)
    outs = [call.data, garbage] if function in SCATTERS else [garbage]
    for out in outs:
        before = contents(out)
        for count in COUNTS:
            with threads(count), pytest.raises(IndexOutOfBoundsError) as caught:
                call.result(out=out)
            assert caught.value.position == np.unravel_index(first, indices.shape)
            assert caught.value.value == indices.flat[first]
            assert caught.value.count == len(set(bad.tolist()))
            assert contents(out) == before
