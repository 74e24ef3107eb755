"""Reads that return fewer or more bytes than requested: complete data or an error."""

import os

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import RangeByteRequest
from zarr.buffer.cpu import buffer_prototype

import ndgather
from ndgather.errors import StoredArrayError
from ndgather.stored.chunks import Buffers, LocalFile

SHAPE = (8, 12)
VALUES = np.random.default_rng(0).random(SHAPE)
EVERY = np.indices(SHAPE).reshape(2, -1).T.copy()


def at_start(at):
    codec = zarr.codecs.ShardingCodec(chunk_shape=(4, 6), index_location="start")
    layout = {"shape": SHAPE, "chunks": SHAPE, "dtype": "f8", "compressors": None}
    stored = zarr.create_array(at / "a", serializer=codec, **layout)
    stored[...] = VALUES
    return stored


def one_piece(at):
    with h5py.File(at / "a.h5", "w") as file:
        file["a"] = VALUES
    return h5py.File(at / "a.h5", "r")["a"]


FILES = {
    "raw": lambda at: zarr.create_array(at / "a", data=VALUES, chunks=(4, 6), compressors=None),
    "zstd": lambda at: zarr.create_array(at / "a", data=VALUES, chunks=(4, 6)),
    "zarr 2": lambda at: zarr.create_array(at / "a", data=VALUES, chunks=(4, 6), zarr_format=2),
    "shards": lambda at: zarr.create_array(at / "a", data=VALUES, chunks=(2, 3), shards=(4, 6)),
    "shards, index at the start": at_start,
    "hdf5 in one piece": one_piece,
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("most", [1, 7, 100])
def test_short_file_reads_are_continued(kind, most, monkeypatch, tmp_path):
    stored, read = FILES[kind](tmp_path), os.preadv
    asked = []

    def few(descriptor, buffers, offset):
        asked.append(offset)
        return read(descriptor, [buffers[0][:most]], offset)

    monkeypatch.setattr(os, "preadv", few)
    np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), VALUES.ravel())
    assert asked


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_files_truncated_during_a_read_raise(kind, calls, monkeypatch, tmp_path):
    """A read returns nothing although the file status promises more."""
    stored, read = FILES[kind](tmp_path), os.preadv
    left = [calls]

    def ends(descriptor, buffers, offset):
        left[0] -= 1
        return read(descriptor, [buffers[0][:10]], offset) if left[0] > 0 else 0

    monkeypatch.setattr(os, "preadv", ends)
    with pytest.raises(StoredArrayError, match="the file was truncated to"):
        ndgather.gather_nd(stored, EVERY)


@given(st.binary(max_size=9), st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_parts_and_edges_of_files(tmp_path_factory, content, start, count, is_first):
    """All requested bytes are returned, or an error with the size of the file is raised."""
    path = tmp_path_factory.getbasetemp() / "part"
    path.write_bytes(content)
    file = LocalFile(os.open(path, os.O_RDONLY))
    edge = content[:count] if is_first else content[max(0, len(content) - count) :]
    for read, fits, expected in (
        (
            lambda: file.part(start, start + count, Buffers()),
            start + count <= len(content),
            content[start : start + count],
        ),
        (lambda: file.edge(count, is_first, Buffers()), count <= len(content), edge),
    ):
        if fits:
            assert read().tobytes() == expected
        else:
            with pytest.raises(ValueError, match=f"the file has {len(content)} bytes instead of"):
                read()


@pytest.mark.parametrize("length", [0, 1, 67])
@pytest.mark.parametrize("kind", ["shards", "shards, index at the start"])
def test_truncated_shards_raise(kind, length, tmp_path):
    stored = FILES[kind](tmp_path)
    for file in (tmp_path / "a" / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(
        StoredArrayError, match=f"the file has {length} bytes instead of at least 68"
    ):
        ndgather.gather_nd(stored, EVERY)


class Answering(zarr.storage.MemoryStore):
    """A store with modified responses to range requests, as from a server without support."""

    change = None

    async def get(self, key, prototype=buffer_prototype, byte_range=None):
        answer = await super().get(key, prototype, byte_range)
        if self.change is None or byte_range is None or answer is None:
            return answer
        whole = await super().get(key, prototype)
        changed = self.change(answer.to_bytes(), whole.to_bytes(), byte_range)
        return None if changed is None else prototype.buffer.from_bytes(changed)


ANSWERS = {
    "the whole object": lambda part, whole, request: whole,
    "nothing": lambda part, whole, request: b"",
    "a byte less": lambda part, whole, request: part[:-1],
    "a byte more": lambda part, whole, request: part + b"\0",
    "half": lambda part, whole, request: part[: len(part) // 2],
    "gone": lambda part, whole, request: None if isinstance(request, RangeByteRequest) else part,
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("index", ["start", "end"])
@pytest.mark.parametrize("compressors", [None, "auto"])
def test_responses_to_range_requests(answer, index, compressors):
    store = Answering()
    codec = zarr.codecs.ShardingCodec(
        chunk_shape=(4, 6),
        index_location=index,
        codecs=[zarr.codecs.BytesCodec()] + [zarr.codecs.ZstdCodec()] * (compressors == "auto"),
    )
    stored = zarr.create_array(
        store, shape=SHAPE, chunks=SHAPE, dtype="f8", serializer=codec, compressors=None
    )
    stored[...] = VALUES
    np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), VALUES.ravel())
    Answering.change = staticmethod(ANSWERS[answer])
    try:
        if answer == "gone" and index == "start":  # as if the shard had never been written
            np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), np.zeros(96))
            return
        what = "no longer exists" if answer == "gone" else "returned"
        with pytest.raises(StoredArrayError, match=f"cannot be read: .* {what}"):
            ndgather.gather_nd(stored, EVERY)
    finally:
        Answering.change = None
