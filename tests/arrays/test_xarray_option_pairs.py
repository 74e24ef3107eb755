"""DataArrays in calls with all pairs of options: values of the loops, and names."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import assert_same_numbers, bad_entries, expected
from tests.definitions.covering import CHUNKINGS, chunks_of, compare_covering_calls
from tests.definitions.draws import MODES, SCATTERS

NAMED = ("DataArray", "Variable", "plain")


@pytest.mark.parametrize("function", [name for name in MODES if name != "gather_ranges"])
def test_pairs_of_options_match_the_definition(function, draws):
    more = {
        "kept in": ("memory", "zarr", "dask"),
        "chunks": CHUNKINGS,
        "data": NAMED[:2],
        "indices": NAMED,
        "dtype": ("f4", "f8", "i4", "u1", "?", "F"),
    }
    if function in SCATTERS:
        more["updates"] = NAMED
    together = ("kept in", "data", "indices")
    compare_covering_calls(partial(compare, draws), draws, function, together, **more)


def named(kind, array, prefix):
    """Return an array with the names d0, d1, ..., a coordinate along each of them and a scalar."""
    dims = [f"{prefix}{axis}" for axis in range(array.ndim)]
    if kind == "plain":
        return array
    if kind == "Variable":
        return xr.Variable(dims, array)
    coords = {dim: 10 * np.arange(size) for dim, size in zip(dims, array.shape, strict=True)}
    coords["of"] = prefix  # data and indices may have coordinates of the same name
    return xr.DataArray(array, coords, dims, name="v", attrs={"units": "K"})


def compare(random, row, call):
    data = call.data
    chunks = chunks_of(random, data.shape, row["chunks"])
    if row["kept in"] == "dask":
        data = da.from_array(data, chunks=chunks, name=False)
    data = named(row["data"], data, "d")
    if row["kept in"] == "zarr":
        data = stored(call.data, chunks, data)
    arguments = [data, named(row["indices"], call.indices, "p")]
    if call.scatters:
        arguments.append(named(row["updates"], call.updates, "u"))
    if call.function != "gather_windows" and (bad := bad_entries(call)):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result(*arguments)
        assert (caught.value.position, caught.value.count) == (bad[0].position, len(bad))
        return
    with np.errstate(all="ignore"):
        desired = expected(call)
    found = getattr(ndgather, call.function)(*arguments, **call.options)
    assert type(found) is type(data)
    positions = dims_of_result(call, data.dims, getattr(arguments[1], "dims", None))
    assert len(found.dims) == len(positions)
    for dim, wanted in zip(found.dims, positions, strict=True):
        assert dim.startswith("dim_") if wanted is None else dim == wanted
    assert_same_numbers(np.asarray(found.values), desired)
    if row["data"] == "DataArray":
        assert (found.name, found.attrs) == (data.name, data.attrs)
        assert found.of.item() == "d"
        whole = call.function == "gather_elements"
        for axis, dim in enumerate(found.dims):
            if dim in data.dims and (call.scatters or dim in kept_whole(call, data.dims, whole)):
                assert found[dim].values.tolist() == (10 * np.arange(desired.shape[axis])).tolist()


def stored(values, chunks, like):
    """Return a lazy array with the same names and coordinates, backed by a store."""
    store = {}
    lengths = tuple(max(*sizes, 1) for sizes in chunks)
    array = zarr.create_group(store).create_array(
        "v",
        shape=values.shape,
        dtype=values.dtype.newbyteorder("="),
        chunks=lengths or "auto",
        dimension_names=like.dims,
        attributes=dict(like.attrs),
    )
    array[...] = values
    opened = xr.open_zarr(store, chunks=None, consolidated=False, mask_and_scale=False)["v"]
    if isinstance(like, xr.Variable):
        return opened.variable
    return opened.assign_coords({name: coord.values for name, coord in like.coords.items()})


def dims_of_result(call, data, indices):
    """Return the names of the axes of a result; None for axes without a name."""
    options, rank = call.options, call.indices.ndim
    indices = indices or (None,) * rank
    if call.scatters or call.function == "gather_elements":
        return data
    if call.function == "gather_windows":
        return indices[:-1] + data
    batch = options["batch_dims"]
    if call.function == "gather_nd":
        depth = call.indices.shape[-1]
        return data[:batch] + indices[batch:-1] + data[batch + depth :]
    axis = options["axis"] % len(data)
    batch = batch + rank if batch < 0 else batch
    return data[:axis] + indices[batch:] + data[axis + 1 :]


def kept_whole(call, data, elements):
    """Return the names of the axes that a gather keeps whole, with their coordinates."""
    if elements:
        axis = call.options["axis"] % len(data)
        sizes = zip(data, call.data.shape, call.indices.shape, strict=True)
        return [
            dim for number, (dim, had, has) in enumerate(sizes) if number != axis and had == has
        ]
    if call.function == "gather":
        axis = call.options["axis"] % len(data)
        return data[:axis] + data[axis + 1 :]
    if call.function == "gather_windows":
        return data[call.indices.shape[-1] :]
    batch, depth = call.options["batch_dims"], call.indices.shape[-1]
    return data[:batch] + data[batch + depth :]
