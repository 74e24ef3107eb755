"""The gather commands on arrays in stores: zarr and HDF5 by path, zarr by URL."""

import sys

import boto3
import h5py
import numpy as np
import pytest
import zarr
from moto.server import ThreadedMotoServer

from ndgather.stored import open_path
from tests.definitions import reference

GRID = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)
POINTS = np.array([[0, 1], [19, -1], [7, 16], [0, 1]])
AT_POINTS = np.array([GRID[tuple(point)] for point in POINTS.tolist()])


@pytest.fixture
def stores(folder):
    group = zarr.create_group("era.zarr")
    group.create_array("t2m", data=GRID, chunks=(8, 8))
    group.create_array("sharded", data=GRID, chunks=(4, 8), shards=(8, 16))
    group.create_group("deep").create_array("t2m", data=GRID, chunks=(8, 8))
    with h5py.File("era.h5", "w") as file:
        file.create_dataset("grid/t2m", data=GRID, chunks=(8, 8), compression="gzip")
    np.save("points.npy", POINTS)
    np.save("bad.npy", np.array([[0, 1], [20, 0]]))
    return folder


@pytest.mark.parametrize(
    "place",
    [
        "era.zarr/t2m",
        "era.zarr/sharded",
        "./era.zarr/deep/t2m",
        "era.h5/grid/t2m",
        "file://{}/era.zarr/t2m",
    ],
)
def test_equals_plain_indexing(ndgather, stores, place):
    outcome = ndgather(f"gather-nd {place.format(stores)} points.npy -o out.npy --memory 1MiB")

    assert (outcome.status, outcome.err) == (0, "")
    np.testing.assert_array_equal(np.load("out.npy"), AT_POINTS, strict=True)


def test_other_kinds_of_gathers(ndgather, stores):
    rows = np.array([3, 19, -20])
    np.save("rows.npy", rows)
    elements = np.array([[0, 29, -1]] * 20)
    np.save("elements.npy", elements)

    assert ndgather("gather era.zarr/t2m rows.npy -o rows-out.npy").err == ""
    assert ndgather("gather-elements era.h5/grid/t2m elements.npy -o e.npy --axis 1").err == ""

    np.testing.assert_array_equal(np.load("rows-out.npy"), GRID[rows], strict=True)
    expected = reference.gather_elements(GRID, elements, axis=1)
    np.testing.assert_array_equal(np.load("e.npy"), expected, strict=True)


def test_a_url_is_read_over_http(ndgather, stores, served):
    assert ndgather(f"gather-nd {served}/era.zarr/t2m points.npy -o out.npy").err == ""
    np.testing.assert_array_equal(np.load("out.npy"), AT_POINTS, strict=True)


def test_a_url_is_read_from_s3_with_the_credentials_of_the_environment(
    ndgather, stores, monkeypatch
):
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        _upload(f"http://{host}:{port}", stores / "era.zarr")

        outcome = ndgather("gather-nd s3://fields/era.zarr/sharded points.npy -o out.npy")

        assert (outcome.status, outcome.err) == (0, "")
        np.testing.assert_array_equal(np.load("out.npy"), AT_POINTS, strict=True)
        outcome = ndgather("gather-nd s3://fields/none.zarr/t2m points.npy -o out.npy")
        assert "s3://fields/none.zarr/t2m: cannot be read: there is no array" in outcome.err
    finally:
        server.stop()


def _upload(endpoint, folder):
    s3 = boto3.client("s3", endpoint_url=endpoint)
    s3.create_bucket(Bucket="fields")
    for path in folder.rglob("*"):
        if path.is_file():
            s3.upload_file(str(path), "fields", str(path.relative_to(folder.parent)))


REFUSED = {
    "an index out of bounds": (
        "era.zarr/t2m bad.npy",
        "gather_nd: indices[1, 0] = 20 is outside axis 0 of data, which has size 20 "
        "(allowed: -20..19)",
    ),
    "a group": (
        "era.zarr points.npy",
        "era.zarr: is a group of arrays, name one as era.zarr/ARRAY (allowed: sharded, t2m)",
    ),
    "a group of HDF5": (
        "era.h5 points.npy",
        "era.h5: is a group of arrays, name one as era.h5/ARRAY (allowed: grid/t2m)",
    ),
    "no array": (
        "era.zarr/none points.npy",
        "era.zarr/none: cannot be read: there is no array",
    ),
    "no data set": ("era.h5/none points.npy", "era.h5/none: cannot be read: there is no array"),
    "no store": ("none.zarr/t2m points.npy", "none.zarr/t2m: cannot be read: there is no array"),
    "no file": ("none.h5/t2m points.npy", "none.h5/t2m: cannot be read: no such file or directory"),
    "an unknown scheme": (
        "no://a/b points.npy",
        "no://a/b: cannot be read: Protocol not known: no",
    ),
}


@pytest.mark.parametrize(("words", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line_and_leaves_nothing(ndgather, stores, words, text):
    before = {path.name for path in stores.iterdir()}

    outcome = ndgather(f"gather-nd {words} -o out.npy")

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"ndgather gather-nd: error: {text}\n"
    assert {path.name for path in stores.iterdir()} == before


def test_too_little_memory_is_refused(ndgather, stores):
    outcome = ndgather("gather-nd era.zarr/t2m points.npy -o out.npy --memory 10")
    assert outcome.status == 1
    assert "gather_nd: memory = 10 bytes is too small for one chunk" in outcome.err


def test_a_dry_run_reads_nothing_and_says_what_would_be_read(ndgather, stores):
    for chunk in (stores / "era.zarr" / "t2m" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    outcome = ndgather("gather-nd era.zarr/t2m points.npy --dry-run")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith(
        "4 points in 3 chunks: 768 B to decode, 21.0 B as they are stored"
    )
    assert not (stores / "out.npy").exists()

    outcome = ndgather("gather-nd data.npy points.npy -o out.npy --dry-run")
    assert outcome.status == 1
    assert outcome.err == (
        "ndgather gather-nd: error: data.npy: is not stored in chunks, of which --dry-run says how "
        "many are read (allowed: STORE.zarr/ARRAY, FILE.h5/ARRAY, FILE.tif or a URL)\n"
    )


@pytest.mark.parametrize("quiet", [True, False])
def test_a_bar_is_for_somebody_who_looks(ndgather, stores, monkeypatch, capsys, quiet):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    outcome = ndgather(f"gather-nd era.zarr/t2m points.npy -o out.npy{' --quiet' * quiet}")
    assert outcome.status == 0
    assert ("chunk" in outcome.err) is not quiet


def test_files_that_are_no_stores_are_read_as_files(stores):
    assert not open_path.is_stored("data.npy")
    assert open_path.is_stored("era.zarr/t2m")
    (stores / "era.zarr").rename(stores / "era")
    assert open_path.is_stored("era/t2m")
    (stores / "files.nc").mkdir()
    assert not open_path.is_stored("files.nc/data.npy")


def test_a_chunk_that_cannot_be_read_is_no_fault_of_the_output(ndgather, stores):
    (stores / "era.zarr/t2m/c/0/0").write_bytes(b"no chunk")

    outcome = ndgather("gather-nd era.zarr/t2m points.npy -o out.npy")

    assert outcome.status == 1
    assert outcome.err.startswith("ndgather gather-nd: error: gather_nd: chunk (0, 0) of ")
    assert "cannot be read: " in outcome.err
    assert "written" not in outcome.err
