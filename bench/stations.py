"""Values at stations: ndgather's command and accessor compared with common programs, on one file.

``python -m bench.stations`` writes ten days of an hourly field with the names and units of ERA5 at
half a degree, and 1,000 stations, and prints a Markdown table. Every program writes a time series
per station, in its own process, whose time and memory include imports.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

HOURS, STEP, STATIONS = 240, 0.5, 1000
# Stations outside the grid, west of Greenwich, and without a latitude.
SPECIAL = {"outside, 95 N": (95.0, 10.0), "-78.5": (-0.1, -78.5), "missing": (np.nan, 10.0)}
_XARRAY = """import pandas as pd, xarray as xr, ndgather.arrays.xarray
table = pd.read_csv('stations.csv')
data = xr.open_dataset('era5.nc', engine='h5netcdf')
"""
_DIMS = """at = {c: xr.DataArray(table[c], dims='p') for c in ('latitude', 'longitude')}
"""
_WRITE = "found.t2m.to_dataframe().to_csv('out.csv')"
PROGRAMS = {
    "`ndgather sel`": "ndgather sel era5.nc stations.csv -o out.csv --method nearest --outer",
    "`.ndgather.sel`": f"{_XARRAY}found = data.ndgather.sel(table, method='nearest')\n{_WRITE}",
    "xarray `sel`": f"{_XARRAY}{_DIMS}found = data.sel(at, method='nearest')\n{_WRITE}",
    "xarray `interp`": f"{_XARRAY}{_DIMS}found = data.interp(at)\n{_WRITE}",
    "xvec": f"""{_XARRAY}import shapely, xvec
places = shapely.points(table.longitude, table.latitude)
found = data.xvec.extract_points(places, 'longitude', 'latitude').drop_vars('geometry')
{_WRITE}""",
    "rasterio `sample`": """import pandas as pd, rasterio
table = pd.read_csv('stations.csv')
with rasterio.open('netcdf:era5.nc:t2m') as raster:
    found = list(raster.sample(zip(table.longitude, table.latitude)))
pd.DataFrame(found).stack().rename('t2m').to_csv('out.csv')""",
}


def field(hours: int, step: float) -> xr.Dataset:
    """Return a field with the names, units and order of ERA5 and known values."""
    latitudes, longitudes = np.arange(90, -90 - step / 2, -step), np.arange(0, 360, step)
    axes = {
        "valid_time": pd.date_range("2024-07-01", periods=hours, freq="h"),
        "latitude": ("latitude", latitudes, {"units": "degrees_north"}),
        "longitude": ("longitude", longitudes, {"units": "degrees_east"}),
    }
    place = 288 + 10 * np.cos(np.deg2rad(latitudes))[:, None] + 5 * np.sin(np.deg2rad(longitudes))
    values = place + 0.5 * np.arange(hours)[:, None, None]
    attrs = {"units": "K", "long_name": "2 metre temperature"}
    return xr.Dataset({"t2m": (tuple(axes), values.round(1).astype("f4"), attrs)}, axes)


def write_field(path: Path, hours: int = 4, step: float = 2.5) -> None:
    """Write the field as the ERA5 data store does: in compressed chunks."""
    data = field(hours, step)
    chunks = tuple(-(-size // 4) for size in data["t2m"].shape)
    encoding = {"t2m": {"zlib": True, "chunksizes": chunks}}
    data.to_netcdf(path, engine="h5netcdf", encoding=encoding)


# The memory of the process itself, not of its parent.
_MEMORY = "\nprint([line for line in open('/proc/self/status') if 'VmHWM' in line][0].split()[1])"


def _run(program: str, folder: Path) -> tuple[float, float, str]:
    """Run a program, and return its seconds, its peak memory in MB, and its error."""
    if program.startswith("ndgather"):
        program = (
            f"from ndgather.cli import main\nif main({program.split()[1:]}): raise SystemExit(1)"
        )
    elif ".ndgather" not in program.partition("data =")[2]:
        program = program.replace(", ndgather.arrays.xarray", "")
    (folder / "out.csv").unlink(missing_ok=True)
    start = time.perf_counter()
    words = [sys.executable, "-c", program + _MEMORY]
    done = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        return seconds, 0.0, done.stderr
    return seconds, int(done.stdout.split()[-1]) / 1000, ""


def _place(folder: Path, latitude: object, longitude: object) -> None:
    table = pd.DataFrame({"latitude": latitude, "longitude": longitude})
    table.to_csv(folder / "stations.csv", index=False)


def _values(folder: Path) -> Any:
    values = pd.read_csv(folder / "out.csv")["t2m"].to_numpy(float)
    return values.reshape(-1, HOURS) if len(values) % HOURS == 0 else values


def _outcome(program: str, folder: Path, latitude: float, longitude: float) -> str:
    """Return the outcome of a program for one station."""
    _place(folder, [latitude], [longitude])
    _, _, error = _run(program, folder)
    if error:
        return "error"
    found = _values(folder).ravel()[0]
    if np.isnan(found):
        return "NaN"
    right = field(1, STEP)["t2m"][0].sel(
        latitude=latitude, longitude=longitude % 360, method="nearest"
    )
    is_right = abs(latitude) <= 90 and abs(found - float(right)) < 0.2
    return "right" if is_right else f"{found:.1f} K, wrong"


def main() -> None:
    rng = np.random.default_rng(0)
    latitude, longitude = rng.uniform(-89, 89, STATIONS), rng.uniform(0, 359, STATIONS)
    data = field(HOURS, STEP)
    at = {
        "latitude": xr.DataArray(latitude, dims="p"),
        "longitude": xr.DataArray(longitude, dims="p"),
    }
    expected = data["t2m"].sel(at, method="nearest").transpose("p", ...).values
    print(f"| | lines | time | memory | {' | '.join(SPECIAL)} |\n|{'---|' * (4 + len(SPECIAL))}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_field(folder / "era5.nc", HOURS, STEP)
        for title, program in PROGRAMS.items():
            _place(folder, latitude, longitude)
            seconds, memory, error = _run(program, folder)
            if error:
                print(f"| {title} | {error.splitlines()[-1]} |")
                continue
            values = _values(folder)
            both = (
                values,
                values.ravel().reshape(HOURS, -1).T,
            )  # some write time by time
            near = min(np.abs(each - expected).max() for each in both)
            assert near < 0.5, (title, near)
            special = (_outcome(program, folder, *place) for place in SPECIAL.values())
            lines = len(program.splitlines())
            print(
                f"| {title} | {lines} | {seconds:.1f} s | {memory:.0f} MB | {' | '.join(special)} |"
            )


if __name__ == "__main__":
    main()
