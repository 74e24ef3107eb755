"""The main task on stored arrays: a ship's log in a field that does not fit in memory.

A process writes four years of hourly sea surface temperature to zarr, with and without shards. It
may use less memory than the field needs: 1.1 GiB, or 45 MiB compressed, because the hours are
interpolated from monthly means. The field is then read at the hourly positions of a ship, at
moorings, and along the equator. Every value is checked with plain indexing and drawn. The command
``ndgather sel`` reads two runs of a climate model at cities.

    make run-storage
    python examples/ship_track.py --days 60     # a short form, without a picture
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import xarray as xr
import zarr
from ship_track_data import CITIES, MOORINGS, SAMPLES, Sea, load_sea, ship_log, write_store
from ship_track_picture import CITY_COMMAND, draw, save_for_phone

import ndgather
import ndgather.arrays.xarray
from ndgather.cli import main as command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

OUTPUT = Path(__file__).resolve().parent / "output"
ALLOWED = 640 << 20  # bytes of data in this process
FULL_CIRCLE = {"longitude": 360}
EQUATOR = 9  # row of the field
SHOWN_DAY = "2009-12-15"
HOURS_APART = 120  # rows that are read along the equator


def main() -> None:
    parser = argparse.ArgumentParser(description="Read a stored field along a ship's track.")
    parser.add_argument("--days", type=int, metavar="N", help="only so many days, and no picture")
    parser.add_argument("--small", type=Path, metavar="FILE", help="also write a small picture")
    parser.add_argument("--phone", type=Path, metavar="FILE", help="and the part for a phone")
    options = parser.parse_args()
    sea = load_sea()
    if options.days:
        sea = replace(sea, month_hours=sea.month_hours[sea.month_hours <= 24 * options.days])
    OUTPUT.mkdir(exist_ok=True)
    resource.setrlimit(resource.RLIMIT_DATA, (ALLOWED, ALLOWED))
    print(
        f"Field: {' x '.join(map(str, sea.shape))} hours, latitudes, longitudes of sea surface"
        f" temperature,\n{_mib(sea.nbytes)}; this process may have {_mib(ALLOWED)} of data."
    )
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        stores = {name: Path(folder, f"{name}.zarr") for name in ("chunked", "sharded")}
        for name, path in stores.items():
            start, before = perf_counter(), _bytes_moved("wchar")
            write_store(sea, path, sharded=name == "sharded")
            written = _mib(_bytes_moved("wchar") - before)
            print(f"wrote {name}.zarr: {perf_counter() - start:.2f} s, {written}")
        on_disk = _mib(sum(file.stat().st_size for file in stores["chunked"].rglob("*")))
        readings = [_read(sea, path) for path in stores.values()]
    xr.testing.assert_identical(*readings)
    print("Both stores give the same bits, equal to plain indexing of the field, value for value.")
    cities = climate_at_cities()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(f"Resident memory at its peak: {_mib(peak)}, all libraries included.")
    if not options.days:
        _draw(sea, readings[0], cities, f"{on_disk} on disk, {_mib(sea.nbytes)} decoded", options)
    if sea.nbytes > ALLOWED:
        print(f"The field is {sea.nbytes / ALLOWED:.1f} times what this process was allowed.")


def _read(sea: Sea, path: Path) -> xr.Dataset:
    """Read the store at all positions, print the cost, and check every value."""
    field = xr.open_zarr(str(path), chunks=None, consolidated=False)["sst"]
    array: Any = zarr.open_group(str(path), mode="r")["sst"]
    log = ship_log(sea)
    along = {name: log[name] for name in log}
    hours = np.arange(0, sea.shape[0], HOURS_APART)
    rows = np.stack([hours, np.full_like(hours, EQUATOR)], axis=-1)
    moored = xr.DataArray(list(MOORINGS.values()), dims="mooring")
    with _timed(f"read {path.name}: {len(log['hour'])} places of the ship, nearest"):
        nearest = field.ndgather.sel(along, method="nearest", period=FULL_CIRCLE)
    with _timed("  the same, linear between the eight values around"):
        linear = field.ndgather.sel(along, method="linear", period=FULL_CIRCLE)
    with _timed(f"  every hour at {len(MOORINGS)} moorings"):
        moorings = field.ndgather.sel(
            latitude=xr.zeros_like(moored), longitude=moored, method="nearest", period=FULL_CIRCLE
        )
    with _timed(f"  {len(rows)} rows along the equator"):
        equator = ndgather.gather_nd(array, rows, memory="64 MiB")
    reading = xr.Dataset(
        {
            "nearest": nearest.drop_vars(list(along)),
            "linear": linear.drop_vars(list(along)),
            "moorings": (("time", "mooring"), moorings.values),
            "equator": (("day", "longitude"), equator),
            "shown": (
                ("latitude", "longitude"),
                ndgather.gather_nd(array, [[_shown_hour(sea)]])[0],
            ),
        },
        coords={"time": field["time"], "longitude": field["longitude"]},
    )
    _check(sea, log, rows, reading)
    return reading


def _check(sea: Sea, log: xr.Dataset, rows: NDArray[np.int64], reading: xr.Dataset) -> None:
    """Compare every value with plain indexing of the field, which is computed again in parts."""
    latitude, longitude = log["latitude"].values, log["longitude"].values % 360
    shown = _shown_hour(sea)
    np.testing.assert_array_equal(reading["shown"], sea.hours(shown, shown + 1)[0])
    moorings = _closest(sea.longitude, np.array(list(MOORINGS.values())) % 360)
    equal = np.testing.assert_array_equal
    for first, end in sea.parts():
        part = sea.hours(first, end)
        hour = np.arange(end - first)
        here = slice(first, end)
        row, column = (
            _closest(sea.latitude, latitude[here]),
            _closest(sea.longitude, longitude[here]),
        )
        equal(reading["nearest"][here], part[hour, row, column])
        equal(reading["moorings"][here], part[:, EQUATOR][:, moorings])
        among = (rows[:, 0] >= first) & (rows[:, 0] < end)
        equal(reading["equator"][among], part[rows[among, 0] - first, rows[among, 1]])
        between = _bilinear(sea, part, latitude[here], longitude[here])
        np.testing.assert_allclose(reading["linear"][here], between, rtol=1e-6)


def _closest(labels: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    distance = np.abs(labels.astype(float)[None] - wanted[:, None])
    return np.asarray(distance.argmin(axis=1), np.int64)


def _bilinear(
    sea: Sea, part: NDArray[Any], latitude: NDArray[Any], longitude: NDArray[Any]
) -> NDArray[np.float64]:
    """Return values interpolated from the four around each position, at the hours of the field."""
    hour = np.arange(len(part))
    value = np.zeros(len(part))
    row, column = (
        np.searchsorted(labels, wanted, "right") - 1
        for labels, wanted in ((sea.latitude, latitude), (sea.longitude, longitude))
    )
    north = (latitude - sea.latitude[row]) / (sea.latitude[row + 1] - sea.latitude[row])
    east = (longitude - sea.longitude[column]) / (sea.longitude[column + 1] - sea.longitude[column])
    for up, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (north if up else 1 - north) * (east if right else 1 - east)
        value += weight * part[hour, row + up, column + right]
    return value


def climate_at_cities() -> dict[str, xr.DataArray]:
    """Read two runs of a climate model at cities, with the command line."""
    places = OUTPUT / "cities.csv"
    lines = [f"{name},{north},{east}" for name, (north, east) in CITIES.items()]
    places.write_text("\n".join(["city,latitude,longitude", *lines]) + "\n")
    runs = {}
    for name in ("A1B", "E1"):
        shutil.copyfile(SAMPLES / f"{name}_north_america.nc", OUTPUT / f"{name}.nc")
        with chdir(OUTPUT):
            line = CITY_COMMAND.format(run=name)
            print(f"\n$ {line}")
            if status := command(line.split()[1:]):
                raise SystemExit(status)
        runs[name] = _table(OUTPUT / f"{name}.nc", OUTPUT / f"{name}.csv")
    print()
    return runs


def _table(file: Path, out: Path) -> xr.DataArray:
    """Read the output of the command, and compare it with plain indexing of the file."""
    with xr.open_dataset(file, engine="h5netcdf", decode_timedelta=False) as data:
        field = data["air_temperature"].load()
    north, east = np.array(list(CITIES.values())).T
    row, column = (
        _closest(field["latitude"].values, north),
        _closest(field["longitude"].values, east % 360),
    )
    expected = field.values[:, row, column]
    written = np.loadtxt(out, delimiter=",", skiprows=1, usecols=4, dtype=np.float32)
    np.testing.assert_array_equal(written.reshape(len(CITIES), -1).T, expected, strict=True)
    years = [time.year for time in field["time"].values]
    return xr.DataArray(expected, {"year": years, "city": list(CITIES)}, ("year", "city"))


def _draw(
    sea: Sea,
    reading: xr.Dataset,
    cities: dict[str, xr.DataArray],
    size: str,
    options: argparse.Namespace,
) -> None:
    mpl.use("agg")
    figure = draw(SHOWN_DAY, size, ship_log(sea), reading, cities)
    picture = OUTPUT / "ship_track.png"
    figure.savefig(picture, dpi=130)
    if options.small is not None:
        figure.savefig(options.small, dpi=80)
    if options.phone is not None:
        save_for_phone(figure, options.phone)
    print(f"Picture: {_shown(picture)}")


def _shown_hour(sea: Sea) -> int:
    """Return the hour of the map: the first of a day, or the last hour of the short form."""
    return min(
        int((np.datetime64(SHOWN_DAY) - sea.start) / np.timedelta64(1, "h")), sea.shape[0] - 1
    )


@contextmanager
def _timed(what: str) -> Iterator[None]:
    start, read = perf_counter(), _bytes_moved("rchar")
    yield
    seconds = perf_counter() - start
    print(f"{what}: {seconds:.2f} s, {_mib(_bytes_moved('rchar') - read)} read", flush=True)


def _bytes_moved(way: str) -> int:
    """Return how many bytes this process has read from files, or written."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts[way])


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


def _shown(path: Path) -> str:
    """Return a path relative to the current folder."""
    return os.path.relpath(path)


if __name__ == "__main__":
    main()
