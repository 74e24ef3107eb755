"""Public names of the package, and errors of imports that need a missing package."""

import subprocess
import sys

import pytest

import ndgather

# Runs in a separate interpreter that hides these packages
WITHOUT = "import sys; sys.modules |= dict.fromkeys({packages}); {program}"
SEL = "from ndgather.cli import main; sys.exit(main({arguments}))"
XARRAY = ["xarray", "zarr", "h5netcdf", "netCDF4", "rasterio"]


def last_line(packages, program, folder):
    """Return the last line that a program prints on standard error."""
    command = [sys.executable, "-c", WITHOUT.format(packages=packages, program=program)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    return found.stderr.strip().splitlines()[-1]


def test_dir_lists_only_public_names():
    names = dir(ndgather)
    assert {*names} == {*ndgather.__all__}
    assert len(names) == len({*names})


@pytest.mark.parametrize("library", ["xarray", "torch", "jax", "dask", "tensorflow"])
def test_missing_library_error_names_the_extra(library, tmp_path):
    error = last_line([library], f"import ndgather.arrays.{library}", tmp_path)
    assert error == (
        f"ndgather.errors.ExtraMissingError: this needs the package {library}, which is not "
        f"installed (install it with: pip install 'ndgather[{library}]')"
    )


@pytest.mark.parametrize("packages", [XARRAY, XARRAY[1:]], ids=["none", "xarray alone"])
@pytest.mark.parametrize(
    ("data", "package", "extras"),
    [
        ("t2m.nc", "h5netcdf", "stores"),
        ("t2m.zarr", "zarr", "xarray,zarr"),
        ("t2m.tif", "rasterio", "geotiff"),
        ("T2M.TIFF", "rasterio", "geotiff"),
    ],
)
def test_sel_names_the_extras_that_read_the_file(packages, data, package, extras, tmp_path):
    place = tmp_path / data
    if data.endswith("zarr"):
        place.mkdir()
    else:
        place.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    (tmp_path / "points.csv").write_text("lat,lon\n1,2\n")
    package = "xarray" if "xarray" in packages else package
    arguments = ["sel", data, "points.csv", "-o", "values.csv"]
    error = last_line(packages, SEL.format(arguments=arguments), tmp_path)
    assert error == (
        f"ndgather sel: error: this needs the package {package}, which is not installed "
        f"(install it with: pip install 'ndgather[{extras}]')"
    )
