"""Calls that are shared between threads, drawn by seed: one thread of NumPy gives the same bits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.core.comparing import contents, threads
from tests.definitions.calls import LAYOUTS, assert_same_elements
from tests.definitions.large_calls import FUNCTIONS, SCATTERS, SKEWS, expected, large_call
from tests.definitions.scatter_strategies import assert_same_numbers

COUNTS = (1, 2, 3, 5, 16)
EACH = pytest.mark.parametrize("number", range(max(settings.default.max_examples // 50, 1)))


def answer(call, **more):
    function = ndgather
    for name in call.function.split("."):
        function = getattr(function, name)
    result = function(*call.arguments(), **call.options, **more)
    return result[0] if call.function == "gather_ranges" else result


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("function", FUNCTIONS)
@EACH
def test_any_number_of_threads_gives_the_bits_of_one_pass(function, skew, number, draws):
    seed = draws.getrandbits(64)
    call = large_call(function, skew, seed)
    print(f"large_call({function!r}, {skew!r}, {seed})\n{call}")
    desired = expected(call)
    computes = call.data_shape or call.options.get("reduction", "none") != "none"
    same = assert_same_numbers if computes else assert_same_elements
    before = [contents(each) for each in (call.data, *call.named)]
    layouts = ("C", "F", "negative strides", "every second", "unaligned")
    for count in COUNTS:
        with threads(count):
            same(answer(call), desired)
            if not call.data_shape:
                out = LAYOUTS[layouts[seed % len(layouts)]](np.zeros_like(desired))
                assert answer(call, out=out) is out
                same(out, desired)
    assert [contents(each) for each in (call.data, *call.named)] == before
    if function in SCATTERS:
        kept = call.data.copy(order="K")
        for count in COUNTS:
            call.data[...] = kept
            with threads(count):
                answer(call, out=call.data)
            same(call.data, desired)


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather", *SCATTERS])
@EACH
def test_any_number_of_threads_names_the_first_bad_entry(function, number, draws):
    seed = draws.getrandbits(64)
    rng = np.random.default_rng(seed)
    call = large_call(function, "uniform", seed)
    print(f"large_call({function!r}, 'uniform', {seed})\n{call}")
    options = {**call.options, "mode": "raise"}
    options.pop("fill_value", None)
    (indices,) = call.named
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
    indices = indices.astype(call.named[0].dtype)
    first = min(bad.tolist())
    call = replace(call, named=(indices,), options=options)
    garbage = np.zeros(expected(replace(call, named=(indices * 0,))).shape, call.data.dtype)
    outs = [call.data, garbage] if function in SCATTERS else [garbage]
    for out in outs:
        before = contents(out)
        for count in COUNTS:
            with threads(count), pytest.raises(IndexOutOfBoundsError) as caught:
                answer(call, out=out)
            assert caught.value.position == np.unravel_index(first, indices.shape)
            assert caught.value.value == indices.flat[first]
            assert caught.value.count == len(set(bad.tolist()))
            assert contents(out) == before
