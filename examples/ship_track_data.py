"""The data of the ship example: sea surface temperature in a store, a ship's log, and stations.

The temperatures are monthly OSTIA means of the ocean around the equator, from April 2006 to
September 2010, in the package iris-sample-data. The hourly field is interpolated linearly between
the middles of months, and is larger than the memory that the example may use. It is written, and
computed again for the check, in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import ZstdCodec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SAMPLES = Path(import_module("iris_sample_data").path)

CHUNKS = (365, 9, 54)  # hours, latitudes, longitudes
SHARDS = (1460, 18, 432)
EARTH_KM = 6371.0
SHIP_KM_PER_HOUR = 27.78  # 15 knots
HOURS_IN_PORT = 72

NAURU = (-0.53, 166.91)  # degrees north, degrees east
BUENAVENTURA = (3.40, -79.00)  # its approach, where the model has sea
MOORINGS = {  # of the buoys in the tropical Pacific, on the equator
    "165° E": 165.0,
    "170° W": -170.0,
    "140° W": -140.0,
    "110° W": -110.0,
}
CITIES = {
    "Vancouver": (49.28, -123.12),
    "New York": (40.71, -74.01),
    "Winnipeg": (49.90, -97.14),
    "Mexico City": (19.43, -99.13),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sea:
    """Monthly means, and the hourly field between them."""

    monthly: NDArray[np.float32]  # month, latitude, longitude
    month_hours: NDArray[np.float64]  # hours since the middle of the first month
    start: np.datetime64
    latitude: NDArray[np.float32]
    longitude: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int, int]:
        return (int(self.month_hours[-1]) + 1, *self.monthly.shape[1:])

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.monthly.itemsize

    def hours(self, first: int, end: int) -> NDArray[np.float32]:
        """Return the fields of some hours, rounded to 0.01 K like OSTIA."""
        hour = np.arange(first, end)
        month = np.searchsorted(self.month_hours, hour, "right") - 1
        month = np.minimum(month, len(self.month_hours) - 2)
        length = self.month_hours[month + 1] - self.month_hours[month]
        share = ((hour - self.month_hours[month]) / length).astype(np.float32)[:, None, None]
        fields = self.monthly[month]
        change = self.monthly[month + 1]
        change -= fields
        change *= share
        fields += change
        return np.round(fields, 2, out=fields)

    def parts(self) -> Iterator[tuple[int, int]]:
        """Return the first and the end hour of each part, which is as long as a shard."""
        for first in range(0, self.shape[0], SHARDS[0]):
            yield first, min(first + SHARDS[0], self.shape[0])


def load_sea() -> Sea:
    with xr.open_dataset(
        SAMPLES / "ostia_monthly.nc", engine="h5netcdf", decode_timedelta=False
    ) as file:
        field = file["surface_temperature"].load()
    times = field["time"].values
    return Sea(
        monthly=field.values,
        month_hours=(times - times[0]) / np.timedelta64(1, "h"),
        start=times[0],
        latitude=field["latitude"].values,
        longitude=field["longitude"].values,
    )


def write_store(sea: Sea, path: Path, *, sharded: bool) -> None:
    """Write the hourly field and its coordinates in a form that xarray reads."""
    group = zarr.create_group(str(path), overwrite=True)
    hours = np.arange(sea.shape[0], dtype=np.int32)
    axes: dict[str, NDArray[Any]] = {
        "time": hours,
        "latitude": sea.latitude,
        "longitude": sea.longitude,
    }
    for name, values in axes.items():
        axis = group.create_array(name, data=values, chunks=values.shape, dimension_names=[name])
        if name == "time":
            axis.attrs["units"] = f"hours since {np.datetime_as_string(sea.start, 's')}"
    array: Any = group.create_array(
        "sst",
        shape=sea.shape,
        chunks=CHUNKS,
        shards=SHARDS if sharded else None,
        dtype="float32",
        fill_value=np.nan,
        compressors=ZstdCodec(level=1),
        dimension_names=list(axes),
    )
    array.attrs["units"] = "K"
    for first, end in sea.parts():
        array[first:end] = sea.hours(first, end)


def ship_log(sea: Sea) -> xr.Dataset:
    """Return the ship's hourly positions, back and forth on a great circle between two ports."""
    west, east = _unit(*NAURU), _unit(*BUENAVENTURA)
    angle = np.arccos(west @ east)
    crossing = int(np.ceil(EARTH_KM * angle / SHIP_KM_PER_HOUR))
    hour = np.arange(sea.shape[0])
    voyage, since = np.divmod(hour, crossing + HOURS_IN_PORT)
    done = np.minimum(since / crossing, 1)[:, None]
    done = np.where(voyage[:, None] % 2, 1 - done, done)
    place = (np.sin((1 - done) * angle) * west + np.sin(done * angle) * east) / np.sin(angle)
    return xr.Dataset(
        {
            "time": ("hour", sea.start + hour * np.timedelta64(1, "h")),
            "latitude": ("hour", np.degrees(np.arcsin(place[:, 2]))),
            "longitude": ("hour", np.degrees(np.arctan2(place[:, 1], place[:, 0]))),
        }
    )


def _unit(latitude: float, longitude: float) -> NDArray[np.float64]:
    north, east = np.radians([latitude, longitude])
    return np.array([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)])
