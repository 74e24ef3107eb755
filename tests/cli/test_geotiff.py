"""GeoTIFF files: values at positions, and at coordinates in comparison with rasterio."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

tifffile = pytest.importorskip("tifffile")
rasterio = pytest.importorskip("rasterio")

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


@pytest.mark.parametrize("shift", [0.5, 0.9, 0.1])
def test_points_select_pixels_by_coordinates(ndgather, folder, shift):
    rows, columns = [0, 39, 17, 25], [0, 59, 3, 30]
    write("dem.tif")
    table(folder, rows, columns, shift)
    assert ndgather("sel dem.tif points.csv -o out.csv --method nearest").err == ""
    out = pd.read_csv("out.csv")
    assert list(out) == ["x", "y", "dem"]
    np.testing.assert_array_equal(out["dem"], HEIGHTS[rows, columns])


def test_pixels_may_be_points(ndgather, folder):
    write("dem.tif", point=True)
    table(folder, [2, 30], [5, 41], shift=0.0)
    assert ndgather("sel dem.tif points.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["dem"].tolist() == HEIGHTS[[2, 30], [5, 41]].tolist()


def test_a_transformation_matrix_gives_coordinates(ndgather, folder):
    write("dem.tif", matrix=(WIDTH, 0, 0, LEFT, 0, -HEIGHT, 0, TOP, 0, 0, 0, 0, 0, 0, 0, 1))
    table(folder, [2, 30], [5, 41])
    assert ndgather("sel dem.tif points.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["dem"].tolist() == HEIGHTS[[2, 30], [5, 41]].tolist()


def test_nodata_becomes_nan(ndgather, folder):
    write("dem.tif", nodata="-9999")
    table(folder, [3, 3], [4, 5])
    assert ndgather("sel dem.tif points.csv -o out.csv --method nearest").err == ""
    assert pd.read_csv("out.csv")["dem"].isna().tolist() == [True, False]


def test_outer_writes_a_row_per_band(ndgather, folder):
    bands = np.stack([HEIGHTS, HEIGHTS + 1, HEIGHTS + 2], -1)
    write("rgb.tif", bands)
    table(folder, [3], [5])
    assert ndgather("sel rgb.tif points.csv -o out.csv --method nearest --outer").err == ""
    assert pd.read_csv("out.csv")["rgb"].tolist() == bands[3, 5].tolist()


# Drawn properties of a file: options of `rasterio.open`, and modifications of the pixels.
FILES = {
    "tiles": {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate"},
    "strips": {"compress": "lzw", "predictor": 2},
    "not compressed": {},
    "zstd": {"compress": "zstd"},
    "jpeg": {"compress": "jpeg", "photometric": "ycbcr", "count": 3, "dtype": "uint8"},
    "palette": {"dtype": "uint8", "photometric": "palette"},
    "min is white": {"dtype": "uint8", "photometric": "miniswhite"},
    "one bit": {"dtype": "uint8", "nbits": 1},
    "twelve bits": {"dtype": "uint16", "nbits": 12},
    "bands": {"count": 4},
    "bands, one by one": {"count": 3, "interleave": "band", "tiled": True, "compress": "deflate"},
    "tiles that are left out": {"sparse_ok": True, "nodata": -9999, "tiled": True, "empty": True},
    "tiles that are left out, zero": {"sparse_ok": True, "tiled": True, "empty": True},
    "rows from south to north": {"transform": (30, 0, 500_000, 0, 20, 4_600_000)},
    "columns from east to west": {"transform": (-30, 0, 500_000, 0, -20, 4_600_000)},
    "degrees": {"transform": (1 / 12, 0, -180, 0, -1 / 12, 90)},
    "alpha": {"count": 4, "dtype": "uint8", "photometric": "rgb", "alpha": "yes"},
    "mask": {"mask": True},
    "mask of bands": {"mask": True, "count": 3, "dtype": "uint8"},
    "nodata of bytes": {"nodata": 255, "dtype": "uint8"},
    "nodata, zero": {"nodata": 0},
    "nodata of wide integers": {"nodata": -9999, "dtype": "int64"},
    "nodata, NaN": {"nodata": np.nan, "dtype": "float32"},
    "nodata, least float": {"nodata": np.finfo("f4").min, "dtype": "float32"},
    "nodata, 1e20": {"nodata": 1e20, "dtype": "float32"},
    "nodata, -99.99": {"nodata": float(np.float32(-99.99)), "dtype": "float32"},
    "scale": {"nodata": -9999, "scale": 0.5, "offset": -3.0},
    "scale of a mask": {"mask": True, "scale": 0.5, "offset": -3.0},
    "floats": {"dtype": "float64"},
    "unsigned": {"dtype": "uint32"},
    "big": {"bigtiff": "yes"},
}


def written(path, *, mask=False, empty=False, scale=1.0, offset=0.0, **options):
    """Write a raster of distinct numbers, some of which are nodata."""
    options = {"count": 1, "dtype": "int16", "nodata": None, **options}
    shape = (options["count"], 40, 60)
    values = (np.arange(np.prod(shape)) % 2000).reshape(shape)
    if np.dtype(options["dtype"]).itemsize == 1:
        values = values % (2 if "nbits" in options else 250)
    if options["nodata"] is not None and not (options["dtype"] == "uint8" and mask):
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            values = values.astype(options["dtype"])
            values[:, 3:9, 4:20] = np.array(options["nodata"]).astype(options["dtype"])
    if "alpha" in options:
        values[3] = np.where(np.arange(60) % 5, 255, 0)
    transform = options.pop("transform", (30, 0, 500_000, 0, -20, 4_600_000))
    transform = rasterio.Affine(*transform)
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(
            path, "w", driver="GTiff", width=60, height=40, transform=transform, **options
        ) as file,
    ):
        if not empty:
            file.write(values.astype(options["dtype"]))
        if mask:
            file.write_mask(np.arange(2400).reshape(40, 60) % 3 > 0)
        if scale != 1:
            file.scales, file.offsets = (scale,) * file.count, (offset,) * file.count


def sampled(path, points):
    """Return the values of rasterio, with a row for each point and NaN for missing values."""
    with rasterio.open(path) as file:
        found = [
            np.ma.filled(np.ma.asarray(values).astype(float), np.nan) * scale + offset
            for values in file.sample(points, masked=True)
            for scale, offset in [(file.scales[0], file.offsets[0])]
        ]
        box = file.bounds
        edges = [
            (x, y)
            for x in (box.left, box.right, box.left + 30)
            for y in (box.bottom, box.top, box.top - 20)
        ]
    return np.array(found), edges


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FILES)
def test_values_equal_those_of_rasterio(ndgather, folder, name):
    written("r.tif", **FILES[name])
    with rasterio.open("r.tif") as file:
        rng = np.random.default_rng(5)
        rows, columns = rng.uniform(0, 40, 150), rng.uniform(0, 60, 150)
        rows[:50], columns[25:75] = np.floor(rows[:50]), np.floor(columns[25:75])  # edges
        x, y = file.transform @ (columns, rows)
        flags = {flag for each in file.mask_flag_enums for flag in each}
        has_all = flags == {rasterio.enums.MaskFlags.all_valid} and set(file.scales) == {1}
        dtype = np.dtype(file.dtypes[0])
    pd.DataFrame({"x": x, "y": y}).to_csv("points.csv", index=False)
    expected, _ = sampled("r.tif", [*zip(x, y, strict=True)])
    if has_all:  # otherwise, values that may be missing are floats
        line = "sel r.tif points.csv -o out.parquet --method nearest --outer"
        assert ndgather(line).err == ""
        assert pd.read_parquet("out.parquet")["r"].dtype == dtype
    outcome = ndgather("sel r.tif points.csv -o out.csv --method nearest --outer")
    assert outcome.err == ""
    out = pd.read_csv("out.csv")
    bands = expected.shape[1]
    assert list(out) == ["x", "y", *(["band"] if bands > 1 else []), "r"]
    if bands > 1:
        assert out["band"].tolist() == [*range(1, bands + 1)] * len(x)
    np.testing.assert_array_equal(out["r"].to_numpy().reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("dtype", "text", "pixels", "expected"),
    [
        ("f4", "-3.4028234663852886e+38", [np.finfo("f4").min, 0, 5], [np.nan, 0, 5]),
        ("f4", "-3.39999999999999996e+38", [-3.4e38, 0, 5], [np.nan, 0, 5]),
        ("f4", "-99.989999999999995", [-99.99, 0, 5], [np.nan, 0, 5]),
        ("f4", "nan", [np.nan, 0, 5], [np.nan, 0, 5]),
        ("f8", "1e+20", [1e20, 0, 5], [np.nan, 0, 5]),
        ("i2", "-9999.0", [-9999, 0, 5], [np.nan, 0, 5]),
        ("u1", "-9999", [255, 0, 5], [255, 0, 5]),
        ("u1", "0.5", [0, 1, 5], [0, 1, 5]),
        ("i2", "", [3, 0, 5], [3, 0, 5]),
    ],
)
def test_nodata_values_are_parsed(ndgather, folder, dtype, text, pixels, expected):
    values = np.ones((40, 60), dtype)
    values[0, :3] = np.array(pixels, "f8").astype(dtype)
    write("r.tif", values, nodata=text)
    table(folder, [0, 0, 0], [0, 1, 2])
    assert ndgather("sel r.tif points.csv -o out.csv --method nearest").err == ""
    found = pd.read_csv("out.csv")["r"].to_numpy()
    np.testing.assert_array_equal(found.astype(float), np.array(expected, float))


def test_edges_of_a_global_map_are_one_period_apart(ndgather, folder):
    transform = (6, 0, -180, 0, -4.5, 90)  # 60 columns and 40 rows
    written("r.tif", crs="EPSG:4326", transform=transform)
    x = np.array([-180.0, 180, 179.5, 540, -540, 186, -187, 0])
    pd.DataFrame({"x": x, "y": np.zeros(len(x))}).to_csv("points.csv", index=False)
    line = "sel r.tif points.csv -o out.csv --method nearest --period x=360"
    assert ndgather(line).err == ""
    expected, _ = sampled("r.tif", [((each + 180) % 360 - 180, 0.0) for each in x])
    assert pd.read_csv("out.csv")["r"].tolist() == expected[:, 0].tolist()


def test_points_outside_the_raster_have_no_value(ndgather, folder):
    written("r.tif")
    _, edges = sampled("r.tif", [])
    inside = []
    with rasterio.open("r.tif") as file:
        for x, y in edges:
            row, column = file.index(x, y)
            inside.append(0 <= row < 40 and 0 <= column < 60)
    far = [(0.0, 4_599_990.0), (500_010.0, 1e300), (-78.0, 120.0)]
    pd.DataFrame([*edges, *far], columns=["x", "y"]).to_csv("points.csv", index=False)
    line = "sel r.tif points.csv -o out.csv --method nearest"
    assert ndgather(f"{line} --missing nan").err == ""
    assert pd.read_csv("out.csv")["r"].notna().tolist() == [*inside, False, False, False]
    error = ndgather(line).err
    assert re.match(r"ndgather sel: error: points.csv: x\[3\] = 501800.0 is outside of x ", error)


@pytest.mark.parametrize("name", ["not compressed", "rows from south to north", "nodata, zero"])
def test_tolerance_limits_the_distance(ndgather, folder, name):
    """Points may be on an edge, half a pixel from two centers, or further away."""
    written("r.tif", **FILES[name])
    with rasterio.open("r.tif") as file:
        rows, columns = np.meshgrid([0, 0.25, 1, 2.5, 39], [0, 0.25, 7, 8.75, 59])
        x, y = file.transform @ (columns.ravel(), rows.ravel())
    pd.DataFrame({"x": x, "y": y}).to_csv("points.csv", index=False)
    expected = sampled("r.tif", [*zip(x, y, strict=True)])[0].ravel()
    line = "sel r.tif points.csv -o out.csv --method nearest --missing nan"
    assert ndgather(f"{line} --tolerance x=15 --tolerance y=10").err == ""
    np.testing.assert_array_equal(pd.read_csv("out.csv")["r"], expected)
    off = [abs(each % 1 - 0.5).ravel() for each in (columns, rows)]
    for tolerance, far in (("x=7.5", off[0] > 0.25), ("y=2.5", off[1] > 0.125)):
        assert ndgather(f"{line} --tolerance {tolerance}").err == ""
        found = pd.read_csv("out.csv")["r"]
        np.testing.assert_array_equal(found, np.where(far, np.nan, expected))


def test_a_missing_coordinate_is_not_out_of_bounds(ndgather, folder):
    write("dem.tif")
    table(folder, [3, 17], [5, 3])
    lines = (folder / "points.csv").read_text().splitlines()
    (folder / "points.csv").write_text(f"{lines[0]}\n{lines[1]}\n,{lines[2].split(',')[1]}\n")
    line = "sel dem.tif points.csv -o out.csv --method nearest"
    assert "points.csv: x[1] = nan is not on the axis" in ndgather(line).err
    assert ndgather(f"{line} --missing nan").err == ""
    np.testing.assert_array_equal(pd.read_csv("out.csv")["dem"], [HEIGHTS[3, 5], np.nan])


def test_band_may_be_a_column(ndgather, folder):
    written("r.tif", count=3)
    with rasterio.open("r.tif") as file:
        x, y = file.xy(7, 11)
        expected = file.read()[[2, 0], 7, 11]
    pd.DataFrame({"x": x, "y": y, "band": [3, 1]}).to_csv("points.csv", index=False)
    assert ndgather("sel r.tif points.csv -o out.csv --method nearest").err == ""
    assert pd.read_csv("out.csv")["r"].tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["x", "y", "band"])
def test_a_file_may_be_named_like_a_coordinate(ndgather, folder, name):
    written(f"{name}.tif", count=2)
    table(folder, [3], [5])
    assert ndgather(f"sel {name}.tif points.csv -o out.csv --method nearest --outer").err == ""
    assert list(pd.read_csv("out.csv")) == ["x", "y", "band", f"{name}_value"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("sel plain.tif points.csv -o out.csv", "plain.tif: has no georeference .*"),
        ("sel turned.tif points.csv -o out.csv", "turned.tif: is rotated .*"),
        ("sel sheared.tif points.csv -o out.csv", "sheared.tif: is rotated .*"),
        ("sel slanted.tif points.csv -o out.csv", "slanted.tif: is rotated .*"),
        (
            "sel offsets.tif points.csv -o out.csv",
            "offsets.tif: .* different offsets .*",
        ),
        ("sel scales.tif points.csv -o out.csv", "scales.tif: .* different scales .*"),
        ("sel none.tif points.csv -o out.csv", "none.tif: cannot be read: no such file .*"),
        ("sel broken.tif points.csv -o out.csv", "broken.tif: cannot be read: .*"),
    ],
)
def test_unsupported_files_are_errors(ndgather, folder, line, text):
    tifffile.imwrite("plain.tif", HEIGHTS)
    write("turned.tif", matrix=(1, 1, 0, 0, -1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
    write("sheared.tif", matrix=(1, 1, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
    write("slanted.tif", matrix=(1, 0, 0, 0, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
    for what in ("offsets", "scales"):
        written(f"{what}.tif", count=2)
        with rasterio.open(f"{what}.tif", "r+") as file:
            setattr(file, what, (1.0, 2.0))
    (folder / "broken.tif").write_bytes(b"no picture")
    table(folder, [3], [4])
    outcome = ndgather(line)
    assert outcome.status == 1
    assert re.fullmatch(rf"ndgather {line.split()[0]}: error: {text}\n", outcome.err), outcome.err


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_nan_beside_a_mask_is_read(ndgather, folder, dtype):
    transform = rasterio.Affine(1, 0, 0, 0, -1, 1)
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open("m.tif", "w", "GTiff", 3, 1, 1, transform=transform, dtype=dtype) as file,
    ):
        file.write(np.array([[[1.5, np.nan, 3]]], dtype))
        file.write_mask(np.array([[255, 255, 0]], np.uint8))
    pd.DataFrame({"x": [0.5, 1.5, 2.5], "y": [0.5] * 3}).to_csv("points.csv", index=False)
    outcome = ndgather("sel m.tif points.csv -o out.csv")
    assert outcome.err == ""
    column = pd.read_csv("out.csv")["m"].astype(complex).to_numpy()
    np.testing.assert_array_equal(column, [1.5, np.nan, np.nan])


@pytest.mark.parametrize(("dtype", "nodata"), [("int64", -9999), ("uint64", 9999)])
def test_large_integers_beside_nodata_are_an_error(ndgather, folder, dtype, nodata):
    """NaN for missing values would convert the integers to floats."""
    transform = rasterio.Affine(1, 0, 0, 0, -1, 1)
    pd.DataFrame({"x": [0.5, 1.5], "y": [0.5, 0.5]}).to_csv("points.csv", index=False)
    for number in (2**53, 2**60 + 1):
        with rasterio.open(
            "ids.tif", "w", "GTiff", 2, 1, 1, transform=transform, dtype=dtype, nodata=nodata
        ) as file:
            file.write(np.array([[[number, nodata]]], dtype))
        outcome = ndgather("sel ids.tif points.csv -o out.csv")
        if number == 2**53:
            assert pd.read_csv("out.csv")["ids"].astype(object)[0] == number
        else:
            text = f"{dtype} values with missing pixels cannot be converted to float64"
            assert text in outcome.err
