"""Nested lists and tuples of numbers as data, indices, updates and fill values.

The core converts them if all numbers are plain and of one type. The expected result is that of
``np.asarray``.
"""

import math
import sys
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgather import gather, gather_elements, gather_nd, scatter_nd
from ndgather.errors import NdgatherError
from tests.definitions import held


class Integer(int):
    """An integer whose value a list can query."""


class Rows(list):
    """A list subclass."""


EDGES = [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1]
LEAVES = {
    "int": st.integers(-9, 9) | st.sampled_from(EDGES),
    "bool": st.booleans(),
    "float": st.floats(),
    "mixed": st.sampled_from([0, True, 1.5, 2**63, -1, Integer(3), np.int64(4), np.array(5), None]),
}
CONTAINERS = st.sampled_from([list, list, list, tuple, Rows])


@st.composite
def nested(draw):
    """Draw nested lists, mostly of equal length on each level and sometimes ragged."""
    leaves = LEAVES[draw(st.sampled_from([*LEAVES]))]
    shape = draw(st.lists(st.integers(0, 3), max_size=3)) or [1] * draw(st.integers(0, 66))
    is_ragged = draw(st.integers(0, 5)) == 0

    def level(sizes):
        if not sizes:
            return draw(leaves)
        size = sizes[0] if not is_ragged else draw(st.integers(0, 3))
        return draw(CONTAINERS)(level(sizes[1:]) for _ in range(size))

    return level(shape)


def types_in(value):
    """Return the types of the numbers in nested lists."""
    if isinstance(value, list | tuple):
        return set().union(*map(types_in, value))
    return {type(value)}


@given(nested())
def test_lists_match_numpy_arrays(value):
    """In bits, shape and dtype if all numbers have one type; otherwise an error is allowed."""
    try:
        wanted = np.asarray(value)
    except (ValueError, OverflowError):
        wanted = None
    kinds = {bool: "b", int: "iu", float: "f"}
    types = types_in(value)
    is_plain = wanted is not None and any(
        types == {each} and wanted.dtype.kind in kinds[each] for each in kinds
    )
    everything = np.empty((1, 0), int)
    try:
        result = gather_nd(value, everything)
    except NdgatherError:
        assert not is_plain or wanted.ndim == 64  # the result would have an additional axis
    else:
        np.testing.assert_array_equal(result[0], wanted, strict=True)
        if wanted.dtype.kind in "biuf":
            assert result[0].tobytes() == wanted.tobytes()
    if is_plain and wanted.size and wanted.dtype.kind == "i":  # any position of an array is correct
        inside = (wanted % 7).tolist()
        np.testing.assert_array_equal(gather(np.arange(70, 77), inside), 70 + wanted % 7)


@given(st.lists(st.sampled_from(EDGES), min_size=1, max_size=3), st.sampled_from([list, tuple]))
def test_large_indices_are_exact_or_named_in_the_error(indices, container):
    data, value = np.arange(70, 77), [container(indices)]
    low, high = (-(2**63), 2**63 - 1) if min(indices) < 0 else (0, 2**64 - 1)

    def error_naming(is_allowed, text):
        number = next(n for n, each in enumerate(indices) if not is_allowed(each))
        return pytest.raises(NdgatherError, match=rf"\[0, {number}\] = {indices[number]} {text}")

    if not low <= min(indices) <= max(indices) <= high:
        for function in (gather, gather_nd):
            with error_naming(lambda each: low <= each <= high, "is out of range"):
                function(data, value, mode="clip")
        return
    assert gather(data, value, mode="wrap").tolist() == [[70 + each % 7 for each in indices]]
    if not -7 <= min(indices) <= max(indices) < 7:
        with error_naming(lambda each: -7 <= each < 7, "is outside axis 0 of data"):
            gather(data, value)


NAMES = ["bool", *held.INTEGERS, "float16", "float32", "float64", "longdouble", *held.COMPLEX]
VALUES = [*held.ENDS, True, 0.5, 0.1, 1e-300, 3.5e38, -65520.0, math.inf, -math.inf, math.nan, -0.0]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_updates_and_fill_values_are_converted_to_the_dtype_of_data(value, name):
    data = np.zeros(2, name)
    updates = [type(value)(0), value]
    held.check(lambda: scatter_nd(data, [[1], [0]], updates)[:1], value, name, same_kind=True)
    held.check(lambda: gather(data, [5], mode="fill", fill_value=value), value, name)


DATA = np.arange(12.0).reshape(4, 3)
CALLS = {
    "gather_nd": lambda: gather_nd(DATA, [[0, 1], [2, 2]]),
    "gather": lambda: gather(DATA, [3, 0]),
    "one row": lambda: gather(DATA, 3),
    "gather_elements": lambda: gather_elements(DATA.tolist(), ((0, 1, 2),)),
    "scatter_nd": lambda: scatter_nd(DATA, [[0, 1]], [5]),
    "in place": lambda: scatter_nd(COPY, [[0, 1]], [5.0], out=COPY),
    "filled": lambda: gather_nd(DATA, [[9, 9]], mode="fill", fill_value=-1),
}
COPY = DATA.copy()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_core_converts_lists_without_python(call):
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code))
    try:
        call()
    finally:
        sys.setprofile(None)
    inside = [code for code in calls if "ndgather" in code.co_filename]
    assert all(code.co_name == "<lambda>" for code in inside)


def test_lists_that_contain_themselves_are_refused():
    endless = []
    endless.append(endless)
    pair = [0, 1]
    pair[1] = (pair,)
    for value in (endless, pair, [endless, endless]):
        for function in (gather, gather_nd):
            with pytest.raises(NdgatherError):
                function(DATA, value)
            with pytest.raises(NdgatherError):
                function(value, [[0]])


def test_numbers_that_modify_their_list():
    class Index:
        def __index__(self):
            rows.clear()
            return 1

        __int__ = __float__ = __index__

    rows = [[0, Index()], [1, 1]]
    with pytest.raises(NdgatherError):
        gather_nd(DATA, rows)


def test_lists_modified_by_other_threads():
    """Each result matches the list at some point in time, or the call is refused."""
    rows = [[0]] * 50
    ends = False

    def change():
        while not ends:
            rows.append([1])
            rows[0] = [1, 1]
            rows[0] = [0]
            rows.pop()

    thread = Thread(target=change)
    thread.start()
    try:
        for _ in range(500):
            try:
                result = gather_nd(DATA, rows)
            except NdgatherError:
                continue
            assert len(result) in (50, 51)
            np.testing.assert_array_equal(result[:50], DATA[[0] * 50])
    finally:
        ends = True
        thread.join()
