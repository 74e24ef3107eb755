"""dask arrays as data, indices and updates give the results of the plain loops."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import (
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
    moves_as_bytes,
)
from tests.definitions.covering import CHUNKINGS, chunks_of, covering_calls
from tests.definitions.draws import DATA_DTYPES, MODES, SCATTERS

FUNCTIONS = [name for name in MODES if name != "gather_ranges"]
# NumPy does not copy the bytes between the fields of a structure.
DTYPES = [each for each in DATA_DTYPES if each.names is None]


def computed(result, desired):
    """Return the values of a lazy result after checking its shape, dtype and chunks."""
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
    """Return the error of bad indices, at the call or, if they are lazy, when computed."""
    lazily = partial(getattr(ndgather, function), *arguments, **options)
    if isinstance(arguments[1], da.Array):
        lazily = partial(lazily().compute, scheduler="synchronous")
    with pytest.raises(IndexOutOfBoundsError) as caught:
        lazily()
    return caught.value


@pytest.mark.parametrize("function", FUNCTIONS)
def test_option_pairs_follow_the_definition(function, draws):
    """All pairs of chunks, duplicates, layouts and the other options."""
    chunkings = ("in memory", *CHUNKINGS)
    more = {
        "dtype": ("f4", "f8", "F", *draws.sample(DTYPES, 4)),
        "data chunks": chunkings,
        "chunk bytes": (2**20, 64),
    }
    if function in SCATTERS:
        more["update chunks"] = chunkings
        together = ("update chunks", "places", "points", "reduction")
    else:
        more["index chunks"] = chunkings
        together = ()
    for row, call in covering_calls(draws, function, together, **more):
        try:
            with dask.config.set({"array.chunk-size": row["chunk bytes"]}):
                compare(call, lazy_arguments(draws, row, call))
        except BaseException as error:
            error.add_note(f"{row}\n{call}")
            raise


def lazy_arguments(random, row, call):
    """Return the arrays of a call; one or more are dask arrays."""
    arguments = list(call.arguments())
    chunkings = [row["data chunks"], row.get("index chunks", "in memory")]
    if call.scatters:
        chunkings.append(row["update chunks"])
    if {*chunkings} == {"in memory"}:
        chunkings[random.choice((0, -1))] = "all axes"
    elif not call.scatters and "in memory" not in chunkings:
        chunkings[random.randrange(2)] = "in memory"
    for number, (array, chunking) in enumerate(zip(arguments, chunkings, strict=True)):
        alone = not array.ndim and not moves_as_bytes(array.dtype)  # dask unwraps a scalar
        if chunking != "in memory" and not alone:
            blocks = chunks_of(random, array.shape, chunking)
            arguments[number] = da.from_array(array, chunks=blocks, name=False)
    return arguments


def compare(call, arguments):
    if call.function != "gather_windows" and (bad := bad_entries(call)):
        first, found = bad[0], refusal(call.function, arguments, call.options)
        assert (found.position, found.value, found.count) == (first.position, first.value, len(bad))
        assert (found.axis, found.size) == (first.axis, first.size)
        return
    with np.errstate(all="ignore"):
        desired = expected(call)
        result = getattr(ndgather, call.function)(*arguments, **call.options)
        if isinstance(result, da.Array):
            result = computed(result, desired)
    (assert_same_numbers if call.computes else assert_same_elements)(result, desired)


def test_empty_data_with_many_axes_is_updated():
    """dask divides by the size of such arrays when it chooses their chunks."""
    shape = (1,) * 28 + (2, 0, 1, 2)
    updates = da.from_array(np.empty(shape, np.int16), chunks=-1)
    result = ndgather.scatter_elements(np.empty(shape, np.int16), np.empty(shape, int), updates)
    assert result.compute().shape == shape


def test_single_update_keeps_its_dtype():
    strings = np.array(["a", "b"], np.dtypes.StringDType())
    lazy_strings = da.from_array(strings, chunks=1)
    result = ndgather.scatter_nd(lazy_strings, np.array([1]), strings[:1].reshape(()))
    assert result.dtype == strings.dtype
    assert list(result.compute()) == ["a", "a"]
