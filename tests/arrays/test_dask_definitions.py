"""dask arrays as data, indices and updates give what the loops of the definition give."""

from dataclasses import replace
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import (
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
    moves_as_bytes,
)
from tests.definitions.draws import DATA_DTYPES
from tests.definitions.strategies import calls

GATHERS = ["gather_nd", "gather_elements", "gather"]
SCATTERS = ["scatter_nd", "scatter_elements"]
# NumPy does not copy the bytes between the fields of a structure.
DTYPES = [each for each in DATA_DTYPES if each.names is None]
FEW = max(12, settings.default.max_examples // 5)  # each builds and runs a graph
MOSTLY_VALUES = ["value", "value", "value", "empty"]


@st.composite
def chunks(draw, shape):
    """Draw the chunks of an array of this shape: equal or not, some of them empty."""
    return tuple(tuple(draw(_cut(size))) for size in shape)


@st.composite
def _cut(draw, size):
    ends = sorted(draw(st.lists(st.integers(0, size), max_size=3)))
    return [b - a for a, b in zip([0, *ends], [*ends, size], strict=True)]


@st.composite
def lazy(draw, array):
    """Draw a dask array with the values of `array`."""
    assume(array.ndim or moves_as_bytes(array.dtype))  # dask keeps the element alone
    blocks = draw(chunks(array.shape))
    note(f"chunks {blocks}")
    return da.from_array(array, chunks=blocks, name=False)


@st.composite
def arguments_of_gather(draw, call):
    """Draw which argument is a dask array, data or indices."""
    if draw(st.booleans()):
        return draw(lazy(call.data)), call.indices
    return call.data, draw(lazy(call.indices))


@st.composite
def arguments_of_scatter(draw, call):
    """Draw which arguments are dask arrays: data, updates or both."""
    which = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    data, updates = (
        draw(lazy(array)) if is_lazy else array
        for array, is_lazy in zip((call.data, call.updates), which, strict=True)
    )
    return data, call.indices, updates


def computed(result, desired):
    """Return the values of a lazy result, which has the shape, dtype and chunks that it says."""
    assert isinstance(result, da.Array)
    assert result.shape == desired.shape
    assert result.dtype == desired.dtype
    assert type(result._meta) is np.ndarray
    assert (result._meta.ndim, result._meta.dtype) == (desired.ndim, desired.dtype)
    blocks = dask.compute(*result.to_delayed().reshape(-1), scheduler="synchronous")
    values = np.empty_like(desired, order="C")
    for box, block in zip(da.core.slices_from_chunks(result.chunks), blocks, strict=True):
        assert type(block) is np.ndarray
        assert block.dtype == desired.dtype
        assert block.shape == values[(*box, ...)].shape
        values[(*box, ...)] = block
    return values


def refusal(function, arguments, options):
    """Return the error of bad indices: at the call, or where they are lazy, when computed."""
    lazily = partial(getattr(ndgather, function), *arguments, **options)
    if isinstance(arguments[1], da.Array):
        lazily = partial(lazily().compute, scheduler="synchronous")
    with pytest.raises(IndexOutOfBoundsError) as caught:
        lazily()
    return caught.value


def answer(call):
    """Return what the loops say of a call whose indices are all in bounds."""
    assume(not bad_entries(call))
    return expected(call)


@pytest.mark.parametrize("function", GATHERS)
@settings(max_examples=FEW)
@given(data=st.data())
def test_a_gather_is_the_loop_of_its_definition(function, data):
    call = data.draw(calls(function, dtypes=DTYPES, flavours=MOSTLY_VALUES))
    desired = answer(call)
    source, indices = data.draw(arguments_of_gather(call))
    event(f"{type(source).__name__} data, {type(indices).__name__} indices")
    result = getattr(ndgather, function)(source, indices, **call.options)
    assert_same_elements(computed(result, desired), desired)


@settings(max_examples=FEW)
@given(data=st.data())
def test_a_gather_of_windows_is_the_loop_of_its_definition(data):
    call = data.draw(calls("gather_windows", dtypes=[np.dtype("i4")]))
    if call.options["window_shape"] and data.draw(st.booleans()):  # windows over an empty axis
        window = (data.draw(st.integers(0, 2)), *call.options["window_shape"][1:])
        options = {**call.options, "mode": "fill", "window_shape": window}
        call = replace(call, data=call.data[:0], options=options)
    note(str(call))
    desired = expected(call)
    with dask.config.set({"array.chunk-size": data.draw(st.sampled_from([64, 2**20]))}):
        result = call.result(data.draw(lazy(call.data)), call.indices)
        later = call.result(call.data, data.draw(lazy(call.indices)))
    assert_same_elements(computed(result, desired), desired)
    assert_same_elements(computed(later, desired), desired)


@pytest.mark.parametrize("function", SCATTERS)
@settings(max_examples=FEW)
@given(data=st.data())
def test_a_scatter_is_the_loop_of_its_definition(function, data):
    call = data.draw(calls(function, flavours=MOSTLY_VALUES))
    desired = answer(call)
    arguments = data.draw(arguments_of_scatter(call))
    event(", ".join(type(each).__name__ for each in arguments))
    result = getattr(ndgather, function)(*arguments, **call.options)
    assert_same_numbers(computed(result, desired), desired)


@pytest.mark.parametrize("function", SCATTERS)
@settings(max_examples=FEW)
@given(data=st.data())
def test_elements_of_any_type_are_replaced(function, data):
    call = data.draw(calls(function, dtypes=DTYPES, reductions=["none"], flavours=["value"]))
    desired = answer(call)
    arguments = data.draw(arguments_of_scatter(call))
    result = getattr(ndgather, function)(*arguments, **call.options)
    assert_same_elements(computed(result, desired), desired)


def test_empty_data_of_many_axes_are_updated():
    """dask divides by the size of such arrays when it chooses their chunks."""
    shape = (1,) * 28 + (2, 0, 1, 2)
    updates = da.from_array(np.empty(shape, np.int16), chunks=-1)
    result = ndgather.scatter_elements(np.empty(shape, np.int16), np.empty(shape, int), updates)
    assert result.compute().shape == shape


def test_a_single_update_keeps_its_type():
    strings = np.array(["a", "b"], np.dtypes.StringDType())
    lazy_strings = da.from_array(strings, chunks=1)
    result = ndgather.scatter_nd(lazy_strings, np.array([1]), strings[:1].reshape(()))
    assert result.dtype == strings.dtype
    assert list(result.compute()) == ["a", "a"]


@pytest.mark.parametrize("function", GATHERS)
@settings(max_examples=FEW)
@given(data=st.data())
def test_the_first_bad_entry_is_named(function, data):
    call = data.draw(calls(function, dtypes=[np.dtype("i4")], flavours=["stray", "empty"]))
    bad = bad_entries(call)
    if not bad:
        return
    source, indices = data.draw(arguments_of_gather(call))
    first, found = bad[0], refusal(function, [source, indices], call.options)
    assert (found.position, found.value, found.axis, found.size, found.count) == (
        first.position,
        first.value,
        first.axis,
        first.size,
        len(bad),
    )


@pytest.mark.parametrize("function", SCATTERS)
@settings(max_examples=FEW)
@given(data=st.data())
def test_the_first_bad_entry_of_a_scatter_is_named(function, data):
    dtypes = [np.dtype("i4")]
    call = data.draw(calls(function, dtypes=dtypes, modes=["raise"], flavours=["stray"]))
    bad = bad_entries(call)
    if not bad:
        return
    arguments = data.draw(arguments_of_scatter(call))
    found = refusal(function, arguments, call.options)
    assert (found.position, found.count) == (bad[0].position, len(bad))
