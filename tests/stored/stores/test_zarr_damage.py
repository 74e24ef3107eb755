"""Damaged chunks and shards raise errors that name them."""

import os

import numcodecs
import numpy as np
import pytest
import zarr
from google_crc32c import value as crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr import codecs

import ndgather
from ndgather.errors import StoredArrayError

SHAPE = (8, 12)
VALUES = np.random.default_rng(0).integers(0, 50, SHAPE).astype("f4")
EVERY = np.indices(SHAPE).reshape(2, -1).T.copy()
CODECS = {
    "raw": (3, None),
    "zstd": (3, codecs.ZstdCodec()),
    "blosc": (3, codecs.BloscCodec()),
    "gzip": (3, codecs.GzipCodec()),
    "crc": (3, codecs.Crc32cCodec()),
    "lz4": (2, numcodecs.LZ4()),
    "zlib": (2, numcodecs.Zlib()),
    "blosc-2": (2, numcodecs.Blosc()),
}


def stored_in(folder, codec, **layout):
    zarr_format, compressors = CODECS[codec]
    return zarr.create_array(
        store=folder / "a.zarr",
        data=VALUES,
        chunks=(4, 6),
        compressors=compressors,
        zarr_format=zarr_format,
        overwrite=True,
        **layout,
    )


def chunk_file(folder, stored, *chunk):
    return folder / "a.zarr" / stored.metadata.encode_chunk_key(chunk)


def refuses(stored):
    """Gather every value; assert that the error names chunk (1, 1)."""
    with pytest.raises(StoredArrayError) as refused:
        ndgather.gather_nd(stored, EVERY)
    text = str(refused.value)
    assert text.startswith("gather_nd: chunk (1, 1) of file://")
    assert "a.zarr, which holds [4:8, 6:12], cannot be read: " in text
    assert refused.value.chunk == (1, 1)
    return text


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_chunks_raise(tmp_path, codec):
    stored = stored_in(tmp_path, codec)
    file = chunk_file(tmp_path, stored, 1, 1)
    whole = file.read_bytes()
    for length in (0, 1, 3, 8, 17, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        refuses(stored)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [23, 25, 0, 24_000])
def test_chunks_of_wrong_size_raise(tmp_path, codec, count):
    stored = stored_in(tmp_path, codec)
    other = zarr.create_array(
        store=tmp_path / "b.zarr",
        data=np.ones(max(count, 1), "f4"),
        chunks=(max(count, 1),),
        compressors=CODECS[codec][1],
        zarr_format=CODECS[codec][0],
    )
    name = other.metadata.encode_chunk_key((0,))
    stranger = (tmp_path / "b.zarr" / name).read_bytes() if count else b""
    chunk_file(tmp_path, stored, 1, 1).write_bytes(stranger)
    text = refuses(stored)
    if count and codec in ("zlib", "zstd", "blosc", "lz4", "gzip"):
        assert f"holds {4 * count} bytes instead of 96" in text


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_chunks_of_another_codec_raise(tmp_path, codec):
    stored = stored_in(tmp_path, codec)
    chunk_file(tmp_path, stored, 1, 1).write_bytes(VALUES[4:, 6:].tobytes())
    assert f"the chunk is not compressed with {codec}, the codec of the array" in refuses(stored)


def test_huge_sizes_in_headers_raise(tmp_path):
    stored = stored_in(tmp_path, "zstd")
    frame = b"\x28\xb5\x2f\xfd" + b"\xe0" + (2**60).to_bytes(8, "little") + b"\x01\0\0"
    chunk_file(tmp_path, stored, 1, 1).write_bytes(frame)
    assert f"holds {2**60} bytes" in refuses(stored)


@settings(max_examples=min(40, settings.default.max_examples))
@given(seed=st.integers(0, 2**32 - 1), codec=st.sampled_from(["zstd", "gzip", "crc"]))
def test_changed_bytes_raise_or_yield_values(tmp_path_factory, seed, codec):
    """Whatever a chunk contains, other chunks are read correctly and nothing else happens."""
    folder = tmp_path_factory.mktemp("changed")
    stored = stored_in(folder, codec)
    file = chunk_file(folder, stored, 1, 1)
    content = bytearray(file.read_bytes())
    rng = np.random.default_rng(seed)
    for place in rng.integers(0, len(content), rng.integers(1, 4)):
        content[place] ^= int(rng.integers(1, 256))
    file.write_bytes(content)
    damaged = False
    try:
        gathered = ndgather.gather_nd(stored, EVERY).reshape(SHAPE)
    except StoredArrayError as error:
        damaged = error.chunk == (1, 1)
    if not damaged:
        np.testing.assert_array_equal(gathered[:4], VALUES[:4])
        np.testing.assert_array_equal(gathered[:, :6], VALUES[:, :6])


@pytest.fixture(params=["start", "end"])
def shard(request, tmp_path):
    """Return an array of one shard, its index, a function that replaces the index, and the file."""
    codec = codecs.ShardingCodec(chunk_shape=(4, 6), index_location=request.param)
    stored = zarr.create_array(
        store=tmp_path / "a.zarr",
        shape=SHAPE,
        chunks=SHAPE,
        dtype="f4",
        serializer=codec,
        compressors=None,
    )
    stored[...] = VALUES
    file = chunk_file(tmp_path, stored, 0, 0)
    content = file.read_bytes()
    place = slice(0, 68) if request.param == "start" else slice(len(content) - 68, len(content))
    index = np.frombuffer(content[place], "<u8", 8).copy()

    def replace(index, checksum=None):
        entries = index.astype("<u8").tobytes()
        checksum = checksum or crc32c(entries).to_bytes(4, "little")
        changed = bytearray(content)
        changed[place] = entries + checksum
        file.write_bytes(changed)

    return stored, index, replace, file


def test_shard_indexes_beyond_the_file_raise(shard):
    stored, index, replace, _ = shard
    for start, length in [
        (2**40, 96), (0, 2**40), (2**63, 2**63), (2**64 - 2, 96), (2**64 - 1, 96), (96, 2**64 - 1),
        (10**6, 0),
    ]:  # fmt: skip
        index[6:] = start, length
        replace(index)
        refuses(stored)


def test_shard_index_entries_of_wrong_size_raise(shard):
    stored, index, replace, _ = shard
    for length in (0, 95, 97, 4):
        index[7] = length
        replace(index)
        refuses(stored)


def test_shard_indexes_with_wrong_checksums_raise(shard):
    stored, index, replace, _ = shard
    index[6:] = index[4:6]
    replace(index, b"\0\0\0\0")
    with pytest.raises(StoredArrayError, match=r"chunk .* cannot be read: .*CRC32C"):
        ndgather.gather_nd(stored, EVERY)


def test_shards_shorter_than_their_index_raise(shard):
    stored, _, _, file = shard
    content = file.read_bytes()
    for length in (0, 1, 67):
        file.write_bytes(content[:length])
        with pytest.raises(StoredArrayError, match="cannot be read"):
            ndgather.gather_nd(stored, EVERY)


def test_missing_inner_chunks_and_shards_are_filled(shard):
    stored, index, replace, file = shard
    index[6:] = 2**64 - 1
    replace(index)
    expected = VALUES.copy()
    expected[4:, 6:] = 0
    np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), expected.reshape(-1))
    file.unlink()
    np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), np.zeros(96, "f4"))


def test_folders_and_files_in_the_path_count_as_missing_chunks(tmp_path):
    stored = stored_in(tmp_path, "raw")
    file = chunk_file(tmp_path, stored, 1, 1)
    file.unlink()
    file.mkdir()
    expected = VALUES.copy()
    expected[4:, 6:] = 0
    np.testing.assert_array_equal(stored[...], expected)
    np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), expected.reshape(-1))


def test_unreadable_chunks_raise(tmp_path):
    stored = stored_in(tmp_path, "raw")
    file = chunk_file(tmp_path, stored, 1, 1)
    file.unlink()
    file.symlink_to(file.name)  # a link to itself
    assert "symbolic links" in refuses(stored)


def test_pipes_are_not_chunks(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", data=np.arange(8), chunks=(4,))
    chunk = tmp_path / "a.zarr" / "c" / "1"
    chunk.unlink()
    os.mkfifo(chunk)  # opening a pipe waits until somebody writes
    with pytest.raises(StoredArrayError, match=r"chunk \(1\) .* not a regular file"):
        ndgather.gather_nd(array, [[5]])
