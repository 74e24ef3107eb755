"""`ndgather gather-ranges`: values and offsets of rows of different lengths, in files."""

import numpy as np
import pytest
import zarr

from tests.definitions import reference

STARTS, STOPS = np.array([3, 0, 5]), np.array([7, 2, 5])


@pytest.fixture
def rows(folder):
    data = np.arange(40.0).reshape(8, 5)
    np.save("data.npy", data)
    np.save("starts.npy", STARTS)
    np.save("stops.npy", STOPS)
    zarr.create_group("a.zarr").create_array("data", data=data, chunks=(3, 2))
    return data


@pytest.mark.parametrize("place", ["data.npy", "a.zarr/data"])
def test_values_and_offsets(ndgather, rows, place):
    line = f"gather-ranges {place} starts.npy stops.npy -o values.npy --offsets offsets.npy"
    outcome = ndgather(line)

    assert (outcome.status, outcome.err) == (0, "")
    assert "values" in outcome.out
    for file, wanted in zip(
        ("values.npy", "offsets.npy"), reference.gather_ranges(rows, STARTS, STOPS), strict=True
    ):
        np.testing.assert_array_equal(np.load(file), wanted, strict=True)


def test_options(ndgather, rows):
    line = "gather-ranges data.npy starts.npy stops.npy -o values.npy --axis 1"
    outcome = ndgather(f"{line} --mode fill --fill-value -1")

    assert outcome.status == 0
    wanted, _ = reference.gather_ranges(rows, STARTS, STOPS, 1, "fill", -1)
    np.testing.assert_array_equal(np.load("values.npy"), wanted)
    outcome = ndgather(line.replace("values.npy", "other.npy"))
    assert (outcome.status, "stops[0] = 7 is beyond axis 1" in outcome.err) == (1, True)


def test_what_would_be_read(ndgather, rows, folder):
    line = "gather-ranges a.zarr/data starts.npy stops.npy --dry-run"
    outcome = ndgather(line)

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("6 points in 9 chunks:")
    assert not (folder / "values.npy").exists()


def test_a_picture(ndgather, rows):
    outcome = ndgather("draw gather-ranges data.npy starts.npy stops.npy")

    assert outcome.status == 0
    assert outcome.out.startswith("gather_ranges(data, starts, stops)")
