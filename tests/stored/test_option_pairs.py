"""All pairs of stores, chunks, layouts and options, against the definition."""

import uuid
from dataclasses import replace
from functools import partial

import h5py
import numpy as np
import pytest
import tensorstore
import zarr

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import assert_same_numbers, bad_entries, expected
from tests.definitions.covering import CHUNKINGS, FUNCTIONS, chunks_of, compare_covering_calls
from tests.definitions.draws import SCATTERS


def in_zarr(data, chunks, shards=None, version=3):
    # zarr omits chunks that equal the fill value, and ignores the sign of complex zeros there.
    config = {"write_empty_chunks": True}
    layout = {"chunks": chunks or "auto", "shards": shards, "zarr_format": version}
    return zarr.create_array({}, data=data.copy(), config=config, **layout)


def in_shards(data, chunks):
    return in_zarr(data, chunks, tuple(2 * length for length in chunks) or None)


def in_hdf5(data, chunks, **layout):
    file = h5py.File(f"{uuid.uuid4()}", "w", driver="core", backing_store=False)
    chunks = chunks if data.size and chunks else None
    return file.create_dataset("a", data=data, chunks=chunks, **layout if chunks else {})


def in_tensorstore(data, chunks):
    made = tensorstore.open(
        {"driver": "zarr3", "kvstore": "memory://"},
        create=True,
        dtype=data.dtype.newbyteorder("=").name,
        shape=data.shape,
        chunk_layout=tensorstore.ChunkLayout(chunk_shape=chunks),
    ).result()
    made[...] = data
    return made


STORES = {
    "zarr 3": in_zarr,
    "zarr 2": lambda data, chunks: in_zarr(data, chunks, version=2),
    "shards": in_shards,
    "hdf5": in_hdf5,
    "hdf5, gzip": lambda data, chunks: in_hdf5(data, chunks, compression=1, shuffle=True),
    "tensorstore": in_tensorstore,
    "cached": lambda data, chunks: ndgather.cached(in_zarr(data, chunks)),
    "cached, shards": lambda data, chunks: ndgather.cached(in_shards(data, chunks), "1 KiB"),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_pairs_of_options_match_the_definition(function, draws):
    stores = [name for name in STORES if function not in SCATTERS or "cached" not in name]
    more = {"store": stores, "chunks": CHUNKINGS, "threads": (1, 4), "strided out": (False, True)}
    together = ("store", "chunks", "points", "places")
    before = ndgather.get_num_threads()
    try:
        compare_covering_calls(partial(compare, draws), draws, function, together, **more)
    finally:
        ndgather.set_num_threads(before)


def compare(random, row, call):
    chunks = tuple(max(*sizes, 1) for sizes in chunks_of(random, call.data.shape, row["chunks"]))
    if row["store"] == "tensorstore":  # in native byte order
        data, updates = (
            None if each is None else each.astype(each.dtype.newbyteorder("="))
            for each in (call.data, call.updates)
        )
        call = replace(call, data=data, updates=updates)
    stored = STORES[row["store"]](call.data, chunks)
    ndgather.set_num_threads(row["threads"])
    arguments, more = [stored, *call.arguments()[1:]], {}
    bad = []
    if call.function not in ("gather_windows", "gather_ranges"):
        bad = bad_entries(call)
    desired = call.data
    if not bad:
        with np.errstate(all="ignore"):
            desired = expected(call)
    if call.scatters:
        more["out"] = stored
    elif row["strided out"]:
        more["out"] = np.empty(desired.shape[::-1], desired.dtype).T
    if bad:
        more = {"out": stored} if call.scatters else {}
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result(*arguments, **more)
        assert (caught.value.position, caught.value.count) == (bad[0].position, len(bad))
    else:
        found = call.result(*arguments, **more)
        assert call.function == "gather_ranges" or found is more.get("out", found)
    if call.scatters:
        values = stored.read().result() if row["store"] == "tensorstore" else stored[...]
        found = np.asarray(values, call.data.dtype)
    if call.scatters or not bad:
        assert_same_numbers(found, desired)
