"""zarr arrays with all codecs and dtypes are decoded correctly."""

import itertools
import warnings

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.buffer
from hypothesis import given
from hypothesis import strategies as st
from zarr import codecs

import ndgather
from ndgather.errors import StoredArrayError

SHAPE = (7, 5, 9)
DTYPES = ["<f4", ">i2", "bool", "u1", ">f8", "<c8", "M8[ns]", "U3"]
FORMAT_2 = {
    "raw": None,
    "zstd": numcodecs.Zstd(),
    "blosc": numcodecs.Blosc(),
    "lz4": numcodecs.LZ4(),
    "gzip": numcodecs.GZip(),
    "zlib": numcodecs.Zlib(),
    "bz2": numcodecs.BZ2(),
    "lzma": numcodecs.LZMA(),
}
FORMAT_3 = {
    "raw": None,
    "zstd": codecs.ZstdCodec(),
    "zstd-checksum": codecs.ZstdCodec(checksum=True),
    "blosc": codecs.BloscCodec(),
    "gzip": codecs.GzipCodec(),
    "zstd-crc": [codecs.ZstdCodec(), codecs.Crc32cCodec()],
    "crc-zstd": [codecs.Crc32cCodec(), codecs.ZstdCodec()],
    "gzip-zstd": [codecs.GzipCodec(), codecs.ZstdCodec()],
    "crc": codecs.Crc32cCodec(),
}
LAYOUTS = {
    "chunks": {},
    "shards": {"shards": (6, 4, 8)},
    "transposed": {"filters": codecs.TransposeCodec(order=(2, 0, 1))},
    "big-endian-shards": {
        "serializer": codecs.BytesCodec(endian="big"),
        "shards": (6, 4, 8),
        "filters": [codecs.TransposeCodec(order=(1, 0, 2)), codecs.TransposeCodec(order=(2, 0, 1))],
    },
}


FILTERS_2 = {  # filters that do not commute
    "delta, shuffle": [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)],
    "shuffle, delta": [numcodecs.Shuffle(4), numcodecs.Delta("u1")],
    "delta twice, shuffle": [numcodecs.Delta("<i4"), numcodecs.Delta("<i2"), numcodecs.Shuffle(8)],
    "scale, delta": [numcodecs.FixedScaleOffset(7, 3, "<i4"), numcodecs.Delta("<i4")],
}


def values_of(dtype):
    dtype = np.dtype(dtype)
    values = np.random.default_rng(0).integers(0, 2 if dtype.kind == "b" else 200, SHAPE)
    return values.astype(dtype)


def check(stored, values):
    """Store all values except the first ones, whose chunks stay missing; gather every value."""
    stored[3:] = values[3:]
    every = np.indices(SHAPE).reshape(3, -1).T.copy()
    gathered = ndgather.gather_nd(stored, every).reshape(SHAPE)
    np.testing.assert_array_equal(gathered[3:], values[3:])
    np.testing.assert_array_equal(gathered[:3], np.full_like(values[:3], stored.fill_value))
    assert gathered.dtype == stored.dtype


def each_codec_and_each_type(names):
    """Every codec with one dtype, and the default codec with every dtype."""
    cases = [(name, "<f4") for name in names] + [("zstd", dtype) for dtype in DTYPES[1:]]
    return pytest.mark.parametrize(("codec", "dtype"), [*cases, ("raw", ">i2")])


@each_codec_and_each_type(FORMAT_2)
def test_format_2(codec, dtype):
    values = values_of(dtype)
    for order, filters in itertools.product("CF", (None, [numcodecs.Shuffle(4)])):
        stored = zarr.create_array(
            store={},
            shape=SHAPE,
            chunks=(3, 2, 4),
            dtype=dtype,
            zarr_format=2,
            compressors=FORMAT_2[codec],
            filters=filters,
            order=order,
        )
        check(stored, values)


@pytest.mark.parametrize("filters", FILTERS_2.values(), ids=FILTERS_2)
@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_several_filters_of_format_2(codec, filters):
    layout = {"chunks": (3, 2, 4), "compressors": FORMAT_2[codec], "filters": filters}
    check(
        zarr.create_array({}, shape=SHAPE, dtype="<i4", zarr_format=2, **layout), values_of("<i4")
    )


@each_codec_and_each_type(FORMAT_3)
@pytest.mark.filterwarnings("ignore:The data type")  # about fixed-length strings
def test_format_3(codec, dtype):
    values = values_of(dtype)
    for layout in LAYOUTS.values():
        if "serializer" in layout and values.itemsize == 1:
            continue
        stored = zarr.create_array(
            store={},
            shape=SHAPE,
            chunks=(3, 2, 4),
            dtype=dtype,
            compressors=FORMAT_3[codec],
            fill_value=values[0, 0, 0],
            **layout,
        )
        check(stored, values)


@pytest.mark.parametrize("codec", ["LZ4", "Zlib", "BZ2", "Shuffle"])
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")
def test_numcodecs_codecs_in_format_3(codec):
    stored = zarr.create_array(
        store={}, shape=SHAPE, chunks=(3, 2, 4), dtype="f4", compressors=getattr(codecs, codec)()
    )
    check(stored, values_of("f4"))


INDICES = {  # codecs of a shard index
    "bare": [codecs.BytesCodec()],
    "big-endian": [codecs.BytesCodec(endian="big"), codecs.Crc32cCodec()],
    "two checksums": [codecs.BytesCodec(), codecs.Crc32cCodec(), codecs.Crc32cCodec()],
    "transposed": [codecs.TransposeCodec(order=(3, 1, 0, 2)), codecs.BytesCodec()],
}


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_shard_indexes(index, location):
    inner = [codecs.BytesCodec(), codecs.ZstdCodec()]
    stored = zarr.create_array(
        store={},
        shape=SHAPE,
        chunks=(6, 4, 8),
        dtype="i4",
        filters=None,
        compressors=None,
        serializer=codecs.ShardingCodec(
            chunk_shape=(3, 2, 4), codecs=inner, index_codecs=index, index_location=location
        ),
    )
    check(stored, values_of("i4"))


@pytest.mark.parametrize("size", [6, 30_000])
def test_skippable_zstd_frames(size, tmp_path):
    values = np.arange(size, dtype="i4")
    stored = zarr.create_array(tmp_path, data=values, chunks=(size,), compressors=FORMAT_3["zstd"])
    chunk = tmp_path / "c" / "0"
    skipped = bytes.fromhex("502a4d18") + (3).to_bytes(4, "little") + b"abc"
    chunk.write_bytes(skipped + chunk.read_bytes())
    np.testing.assert_array_equal(ndgather.gather(stored, range(size)), values)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_unknown_codecs(zarr_format):
    texts = np.array([f"word {i}" for i in range(12)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = zarr.create_array(
            store={}, shape=(12,), chunks=(5,), dtype=str, zarr_format=zarr_format
        )
    stored[:] = texts
    picked = ndgather.gather_nd(stored, [[11], [0], [-2]])
    assert picked.tolist() == ["word 11", "word 0", "word 10"]


def test_records():
    values = np.array([(i, i / 2) for i in range(12)], [("a", "i4"), ("b", "f8")])
    stored = zarr.create_array(store={}, data=values, chunks=(5,), zarr_format=2)
    np.testing.assert_array_equal(ndgather.gather(stored, [[3, -1]], 0), values[[[3, -1]]])


def test_zarr_option_for_missing_chunks():
    stored = zarr.create_array(store={}, shape=(4,), chunks=(2,), dtype="f4")
    if not hasattr(getattr(stored, "config", None), "read_missing_chunks"):
        pytest.skip("this version of zarr fills every missing chunk")
    stored = stored.with_config({"read_missing_chunks": False})
    with pytest.raises(ndgather.errors.StoredArrayError, match=r"chunk \(1\)"):
        ndgather.gather_nd(stored, [[3]])


def test_rectilinear_chunks():
    values = np.arange(30, dtype="f4").reshape(5, 6)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        try:
            stored = zarr.create_array(
                store={}, shape=(5, 6), chunks=((1, 4), (2, 1, 3)), dtype="f4"
            )
        except Exception:
            pytest.skip("this version of zarr has no such chunks")
        stored[...] = values
        every = np.indices(values.shape).reshape(2, -1).T.copy()
        np.testing.assert_array_equal(ndgather.gather_nd(stored, every), values.reshape(-1))


def test_rank_0_and_empty_axes():
    point = zarr.create_array(store={}, shape=(), dtype="f4", fill_value=3)
    assert ndgather.gather_nd(point, np.empty((2, 0), int)).tolist() == [3, 3]
    empty = zarr.create_array(store={}, shape=(0, 5), chunks=(2, 2), dtype="f4")
    assert ndgather.gather(empty, [1, 2], 1).shape == (0, 2)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("codec", ["zstd", "gzip"])
@given(data=st.data())
def test_chunks_with_several_frames_or_members(codec, zarr_format, data):
    """Parallel compressors write such chunks; zarr reads them as one."""
    length = data.draw(st.sampled_from([1, 9, 20_000]))  # 160,000 bytes, more than a small chunk
    compressors = {
        (2, "zstd"): numcodecs.Zstd(),
        (2, "gzip"): numcodecs.GZip(),
        (3, "zstd"): zarr.codecs.ZstdCodec(),
        (3, "gzip"): zarr.codecs.GzipCodec(),
    }[zarr_format, codec]
    store = {}
    array = zarr.create_array(
        store,
        shape=(2 * length,),
        chunks=(length,),
        dtype="i8",
        zarr_format=zarr_format,
        compressors=compressors,
    )
    array[...] = values = np.arange(2 * length)
    ends = sorted(data.draw(st.lists(st.integers(0, 8 * length), max_size=3)))
    pack = {"zstd": numcodecs.Zstd().encode, "gzip": numcodecs.GZip().encode}[codec]
    parts = np.split(values[length:].view("u1"), ends)
    content = b"".join(bytes(pack(part)) for part in parts)
    if codec == "zstd" and data.draw(st.booleans()):
        content = b"\x50\x2a\x4d\x18\x03\0\0\0abc" + content  # a skippable frame
    key = "1" if zarr_format == 2 else "c/1"
    store[key] = zarr.buffer.cpu.Buffer.from_bytes(content)
    every = np.arange(2 * length)
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(ndgather.gather(array, every), values, strict=True)
    store[key] = zarr.buffer.cpu.Buffer.from_bytes(content + bytes(pack(b"more")))
    with pytest.raises(StoredArrayError, match=r"bytes|buffer too small"):
        ndgather.gather(array, every)
