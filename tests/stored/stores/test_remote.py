"""zarr arrays on real servers: requests overlap, and faults are retried or reported."""

import os
import signal
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from importlib.util import find_spec

import numpy as np
import obstore.store
import pytest
import tensorstore
import xarray as xr
import zarr
from moto.server import ThreadedMotoServer
from zarr.buffer.cpu import buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, ObjectStore

import ndgather
from ndgather.errors import StoredArrayError
from tests.stored.stores.http_files import served

SHAPE = (8, 12)
VALUES = np.random.default_rng(0).integers(0, 50, SHAPE).astype("f4")
EVERY = np.indices(SHAPE).reshape(2, -1).T.copy()
LAYOUTS = {"chunks": {"chunks": (2, 3)}, "shards": {"chunks": (2, 3), "shards": (4, 6)}}
BRIEF = timedelta(milliseconds=10)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name, layout in LAYOUTS.items():
        zarr.create_array(store=folder / name, data=VALUES, **layout)
    with served(folder) as found:
        yield found


def by_obstore(url):
    retries = {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=5),
        "backoff": {"init_backoff": BRIEF, "max_backoff": BRIEF, "base": 2},
    }
    store = obstore.store.HTTPStore.from_url(
        url, client_options={"allow_http": True}, retry_config=retries
    )
    return ObjectStore(store, read_only=True)


def by_fsspec(url):
    return FsspecStore.from_url(url, read_only=True)


STORES = {"obstore": by_obstore, "fsspec": by_fsspec}


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=STORES)
def stored(server, layout, request):
    url, faults = server
    yield zarr.open_array(STORES[request.param](url), path=layout, mode="r"), faults
    faults.__init__()


def equals_values(stored):
    np.testing.assert_array_equal(ndgather.gather_nd(stored, EVERY), VALUES.reshape(-1))


def refuses(stored):
    with pytest.raises(StoredArrayError) as refused:
        ndgather.gather_nd(stored, EVERY)
    error = refused.value
    assert error.name == str(stored.store_path)
    assert error.box == tuple(slice(2 * i, 2 * i + 2) for i in error.chunk[:1]) + tuple(
        slice(3 * i, 3 * i + 3) for i in error.chunk[1:]
    )
    assert "Debug source" not in str(error)  # Rust structs
    return str(error)


def test_requests_overlap(stored):
    array, faults = stored
    faults.delay = 0.3
    equals_values(array)
    assert 8 <= faults.most_at_once <= 16


def test_only_needed_bytes_are_requested(stored, layout):
    array, faults = stored
    ndgather.gather_nd(array, [[0, 0], [1, 2], [7, 11]])
    asked = [each for each in faults.requests if "/c/" in each[0]]
    assert len(asked) == (2 if layout == "chunks" else 4)  # and two shard indexes


def test_denied_requests_raise(stored):
    array, faults = stored
    faults.statuses = [403] * 50
    assert "403" in refuses(array) or "privileges" in refuses(array)
    faults.statuses = []
    equals_values(array)


def test_a_server_that_keeps_failing(stored):
    array, faults = stored
    faults.statuses = [500] * 100
    assert "500" in refuses(array)


def test_retried_requests_succeed(server, layout):
    url, faults = server
    faults.statuses = [500, 503, 500]
    equals_values(zarr.open_array(by_obstore(url), path=layout, mode="r"))
    assert faults.statuses == []


def test_short_or_wrong_content_raises(stored):
    array, faults = stored
    faults.change = lambda content: content[:-3]
    refuses(array)
    faults.change = lambda content: bytes(len(content))
    refuses(array)


def test_broken_connections_raise(stored):
    array, faults = stored
    faults.cut = 3
    refuses(array)


def test_missing_objects_are_filled(stored, layout):
    array, faults = stored
    faults.statuses = [404] * (16 if layout == "chunks" else 4)
    np.testing.assert_array_equal(ndgather.gather_nd(array, EVERY), np.zeros(96, "f4"))


def assert_ctrl_c_does_not_wait(array, faults):
    """Press Ctrl-C while the server delays its answers: the call ends before they are sent."""

    def press():
        while not faults.running:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    faults.delay, faults.running = 20, []
    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        ndgather.gather_nd(array, EVERY)
    assert faults.running  # requests without an answer
    pressing.join()


def test_ctrl_c_cancels_requests(stored):
    array, faults = stored
    equals_values(array)
    before = {each for each in threading.enumerate() if "request" not in each.name}
    assert_ctrl_c_does_not_wait(array, faults)
    after = {each for each in threading.enumerate() if "request" not in each.name}
    assert {each.name.partition("_")[0] for each in after - before} <= {"asyncio"}  # zarr's pool


def test_tensorstore_requests(server, layout):
    url, faults = server
    store = {"driver": "http", "base_url": url, "path": f"/{layout}/"}
    array = tensorstore.open({"driver": "zarr3", "kvstore": store}).result()
    faults.delay = 0.3
    equals_values(array)
    assert 8 <= faults.most_at_once <= 32
    faults.statuses = [403] * 100
    with pytest.raises(StoredArrayError, match=r"chunk \(\d, \d\) of http://.* cannot be read"):
        ndgather.gather_nd(array, EVERY)
    faults.statuses = []
    assert_ctrl_c_does_not_wait(array, faults)
    faults.__init__()


@pytest.fixture(scope="module")
def s3():
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    options = {
        "endpoint": url,
        "access_key_id": "key",
        "secret_access_key": "secret",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
        "virtual_hosted_style_request": False,
    }
    import requests  # noqa: PLC0415 - comes with moto

    requests.put(f"{url}/bucket", timeout=10).raise_for_status()
    yield url, obstore.store.S3Store("bucket", **options)
    server.stop()


def test_zarr_reads_s3(s3, layout):
    _, bucket = s3
    array = zarr.create_array(
        store=ObjectStore(bucket), name=layout, data=VALUES, overwrite=True, **LAYOUTS[layout]
    )
    equals_values(array)
    for axis in (0, 1):
        expected = np.take(VALUES, [3, 1], axis)
        np.testing.assert_array_equal(ndgather.gather(array, [3, 1], axis), expected)


def test_fsspec_reads_s3(s3, layout):
    pytest.importorskip("s3fs", reason="needs s3fs, which no extra asks for")
    url, _ = s3
    options = {
        "key": "key",
        "secret": "secret",
        "client_kwargs": {"endpoint_url": url, "region_name": "us-east-1"},
        "skip_instance_cache": True,  # connections end with the event loop of another test
    }
    store = FsspecStore.from_url(f"s3://bucket/fsspec-{layout}", storage_options=options)
    array = zarr.create_array(store=store, data=VALUES, **LAYOUTS[layout])
    equals_values(array)
    updates = np.arange(len(EVERY[::7]), dtype="f4") - 99
    ndgather.scatter_nd(array, EVERY[::7], updates, out=array)
    changed = VALUES.copy()
    changed[tuple(EVERY[::7].T)] = updates
    np.testing.assert_array_equal(ndgather.gather_nd(array, EVERY), changed.reshape(-1))
    sync(store.set("c/0/0", buffer_prototype.buffer.from_bytes(b"no chunk at all")))
    with pytest.raises(StoredArrayError, match=r"chunk \(0, 0\) of .*\[0:2, 0:3\]"):
        ndgather.gather_nd(array, [[1, 1]])
    sync(sync(store.fs.set_session()).close())


def test_engine_reads_s3_with_storage_options(s3):
    """Options of fsspec as for the engine "zarr"; obstore reads if it has equivalents for all."""
    url, bucket = s3
    group = zarr.create_group(ObjectStore(bucket), path="data")
    group.create_array("a", data=VALUES, chunks=(2, 3), dimension_names=("y", "x"))
    options = {
        "key": "key",
        "secret": "secret",
        "client_kwargs": {"endpoint_url": url, "region_name": "us-east-1"},
    }
    at = {"y": ("p", [7, 0]), "x": ("p", [11, 1])}
    for given in (options, {"anon": False, "endpoint_url": url, "key": "k", "secret": "s"}):
        with xr.open_dataset(
            "s3://bucket/data", engine="ndgather", storage_options=given, consolidated=False
        ) as found:
            assert found.a.isel(at).values.tolist() == [VALUES[7, 11], VALUES[0, 1]]
        assert given  # and stays as it is
    assert options["client_kwargs"]
    unknown = options | {"use_ssl": False}  # fsspec reads, which needs s3fs
    with nullcontext() if find_spec("s3fs") else pytest.raises(ImportError, match="s3fs"):
        xr.open_dataset("s3://bucket/data", engine="ndgather", storage_options=unknown)


def test_tensorstore_reads_s3(s3, layout, monkeypatch):
    url, bucket = s3
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    zarr.create_array(
        store=ObjectStore(bucket),
        name=f"ts/{layout}",
        data=VALUES,
        overwrite=True,
        **LAYOUTS[layout],
    )
    array = tensorstore.open(
        {
            "driver": "zarr3",
            "kvstore": {
                "driver": "s3",
                "bucket": "bucket",
                "path": f"ts/{layout}/",
                "endpoint": url,
                "aws_region": "us-east-1",
            },
        }
    ).result()
    equals_values(array)
    bucket_key = f"ts/{layout}/c/0/0"
    obstore.put(bucket, bucket_key, b"no chunk at all")
    with pytest.raises(StoredArrayError, match=r"chunk \(0, 0\) of s3://bucket/ts.* \[0:2, 0:3\]"):
        ndgather.gather_nd(array, [[1, 1]])
