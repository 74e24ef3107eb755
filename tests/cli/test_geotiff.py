"""GeoTIFF files: values at positions, and at the coordinates of points."""

import re

import numpy as np
import pandas as pd
import pytest

tifffile = pytest.importorskip("tifffile")

HEIGHTS = np.random.default_rng(1).integers(0, 3000, (40, 60), "i2")
HEIGHTS[3, 4] = -9999
WIDTH, HEIGHT, LEFT, TOP = 30.0, 20.0, 500_000.0, 4_600_000.0


def tags(*, point=False, nodata=None, matrix=None):
    found = [(34735, "H", 8, (1, 1, 0, 1, 1025, 0, 1, 2 if point else 1))]
    if matrix is None:
        found += [(33550, "d", 3, (WIDTH, HEIGHT, 0.0)), (33922, "d", 6, (0, 0, 0, LEFT, TOP, 0))]
    else:
        found += [(34264, "d", 16, matrix)]
    if nodata is not None:
        found += [(42113, "s", 0, nodata)]
    return found


def write(path, values=HEIGHTS, **options):
    layout = {"tile": (16, 16), "compression": "zlib", "metadata": None}
    layout["photometric"] = "rgb" if values.ndim == 3 else "minisblack"
    tifffile.imwrite(path, values, extratags=tags(**options), **layout)


def table(folder, rows, columns, shift=0.5):
    x = LEFT + (np.array(columns) + shift) * WIDTH
    y = TOP - (np.array(rows) + shift) * HEIGHT
    pd.DataFrame({"x": x, "y": y}).to_csv(folder / "points.csv", index=False)


def test_values_at_positions(ndgather, folder):
    write("dem.tif")
    points = np.array([[0, 0], [39, 59], [-1, 17], [16, 16]])
    np.save("points.npy", points)
    assert ndgather("gather-nd dem.tif points.npy -o out.npy").err == ""
    np.testing.assert_array_equal(np.load("out.npy"), HEIGHTS[tuple(points.T)], strict=True)
    dry = ndgather("gather-nd dem.tif points.npy -o out.npy --dry-run")
    assert dry.out.startswith("4 points in 4 chunks: ")


@pytest.mark.parametrize("shift", [0.5, 0.9, 0.1])
def test_values_at_coordinates(ndgather, folder, shift):
    rows, columns = [0, 39, 17, 25], [0, 59, 3, 30]
    write("dem.tif")
    table(folder, rows, columns, shift)
    assert ndgather("sel dem.tif points.csv -o out.csv --method nearest").err == ""
    out = pd.read_csv("out.csv")
    assert list(out) == ["x", "y", "dem"]
    np.testing.assert_array_equal(out["dem"], HEIGHTS[rows, columns])


def test_pixels_that_are_points(ndgather, folder):
    write("dem.tif", point=True)
    table(folder, [2, 30], [5, 41], shift=0.0)
    assert ndgather("sel dem.tif points.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["dem"].tolist() == HEIGHTS[[2, 30], [5, 41]].tolist()


def test_a_transformation(ndgather, folder):
    write("dem.tif", matrix=(WIDTH, 0, 0, LEFT, 0, -HEIGHT, 0, TOP, 0, 0, 0, 0, 0, 0, 0, 1))
    table(folder, [2, 30], [5, 41])
    assert ndgather("sel dem.tif points.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["dem"].tolist() == HEIGHTS[[2, 30], [5, 41]].tolist()


def test_no_data_is_nan(ndgather, folder):
    write("dem.tif", nodata="-9999")
    table(folder, [3, 3], [4, 5])
    assert ndgather("sel dem.tif points.csv -o out.csv --method nearest").err == ""
    assert pd.read_csv("out.csv")["dem"].isna().tolist() == [True, False]


def test_bands_are_rows(ndgather, folder):
    bands = np.stack([HEIGHTS, HEIGHTS + 1, HEIGHTS + 2], -1)
    write("rgb.tif", bands)
    table(folder, [3], [5])
    assert ndgather("sel rgb.tif points.csv -o out.csv --method nearest --outer").err == ""
    assert pd.read_csv("out.csv")["rgb"].tolist() == bands[3, 5].tolist()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("sel plain.tif points.csv -o out.csv", "plain.tif: has no georeference .*"),
        ("sel turned.tif points.csv -o out.csv", "turned.tif: is rotated .*"),
        ("sel none.tif points.csv -o out.csv", "none.tif: cannot be read: no such file .*"),
        ("sel broken.tif points.csv -o out.csv", "broken.tif: cannot be read: .*"),
        ("gather-nd none.tif indices.npy -o out.npy", "none.tif: cannot be read: no such file .*"),
    ],
)
def test_what_is_refused(ndgather, folder, line, text):
    tifffile.imwrite("plain.tif", HEIGHTS)
    write("turned.tif", matrix=(1, 1, 0, 0, -1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
    (folder / "broken.tif").write_bytes(b"no picture")
    table(folder, [3], [4])
    outcome = ndgather(line)
    assert outcome.status == 1
    assert re.fullmatch(rf"ndgather {line.split()[0]}: error: {text}\n", outcome.err), outcome.err
