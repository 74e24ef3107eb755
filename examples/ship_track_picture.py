"""The picture of the ship example: the sea on one day, the ship's log, moorings and cities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from ship_track_data import BUENAVENTURA, MOORINGS, NAURU

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

PAPER, INK, QUIET, LAND = "#fbfaf7", "#26302c", "#6d7672", "#d9d5ca"
KELVIN = 273.15
CITY_COMMAND = (
    "ndgather sel {run}.nc cities.csv -o {run}.csv --outer --variable air_temperature "
    "--method nearest --period longitude=360"
)
WEST, EAST = 155.0, 283.0  # degrees east: the Pacific
WARMTH = LinearSegmentedColormap.from_list(
    "warmth",
    ["#1f3b73", "#2f6f9f", "#62a8b5", "#b7d9c4", "#f6e8b1", "#eeb36c", "#d9713f", "#a5302a"],
)
CELSIUS = Normalize(20, 31)
MARKS = ("#1f3b73", "#2f8f8a", "#d98a2b", "#a5302a")
HALO = [withStroke(linewidth=2.6, foreground=PAPER)]
SIZE = (13, 13.4)  # inches
FOR_PHONE = 0.66  # of this size, so that letters are larger
OF_PHONE = Bbox([[0.02, 2.3], [5.45, 6.3]])


def draw(
    day: str,
    size: str,
    log: xr.Dataset,
    reading: xr.Dataset,
    cities: dict[str, xr.DataArray],
) -> Figure:
    """Draw the values that were read from the store, and their positions."""
    figure = Figure(figsize=SIZE, facecolor=PAPER)
    count = reading.sizes["time"]
    _write(figure, 0.055, 0.961, "A ship's log through four years of sea", INK, 24, weight="bold")
    _write(
        figure,
        0.055,
        0.937,
        f"Read from a zarr store of {count:,} hourly fields, interpolated from monthly means:"
        f" {size}.",
        QUIET,
        13,
    )
    map_axes = figure.add_axes((0.055, 0.796, 0.91, 0.086))
    ship = figure.add_axes((0.055, 0.308, 0.56, 0.398))
    moored = figure.add_axes((0.675, 0.308, 0.29, 0.398), sharey=ship)
    climate = figure.add_axes((0.055, 0.042, 0.84, 0.165))
    scale = figure.add_axes((0.70, 0.905, 0.265, 0.009))

    _describe(figure, 0.892, "gather_nd(sst, [[hour]])", f"the sea surface on {day}", 0.055)
    _draw_map(map_axes, reading["shown"].values, log)
    _draw_scale(scale)
    _describe(
        figure,
        0.727,
        "sst.ndgather.sel(time, latitude, longitude)",
        f"{count:,} hours of the ship",
        0.055,
    )
    _draw_log(ship, log, reading)
    _describe(figure, 0.727, "sst.ndgather.sel(latitude, longitude)", "moorings", 0.675)
    _draw_moorings(moored, reading)
    _describe(figure, 0.217, f"$ {CITY_COMMAND.format(run='A1B')}", "air at four cities", 0.055)
    _draw_cities(climate, cities)
    return figure


def save_for_phone(figure: Figure, path: Path) -> None:
    """Save the main part of the picture in a size that a phone shows."""
    width, height = SIZE
    figure.set_size_inches(FOR_PHONE * width, FOR_PHONE * height)
    figure.savefig(path, dpi=150, bbox_inches=OF_PHONE)


def _write(
    figure: Figure, x: float, y: float, text: str, color: str, size: float, **style: Any
) -> None:
    figure.text(x, y, text, color=color, fontsize=size, **style)


def _describe(figure: Figure, y: float, call: str, what: str, x: float) -> None:
    _write(figure, x, y + 0.0135, call, INK, 11.5, family="monospace", weight="bold")
    _write(figure, x, y, what, QUIET, 11)


def _draw_map(axes: Axes, sea: NDArray[np.float32], log: xr.Dataset) -> None:
    axes.set_facecolor(LAND)
    axes.imshow(
        sea - KELVIN,
        cmap=WARMTH,
        norm=CELSIUS,
        origin="lower",
        extent=(-0.42, 359.58, -5.28, 4.72),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_xlim(WEST, EAST)
    axes.set_ylim(-5.28, 4.72)
    east, north = log["longitude"].values % 360, log["latitude"].values
    crossing = slice(0, int(east.argmax()) + 1)
    axes.plot(east[crossing], north[crossing], color=INK, linewidth=1.6, path_effects=HALO)
    for name, (latitude, longitude), side in (
        ("Nauru", NAURU, "left"),
        ("Buenaventura", BUENAVENTURA, "right"),
    ):
        axes.plot(longitude % 360, latitude, "o", color=INK, markersize=6, path_effects=HALO)
        axes.annotate(
            name,
            (longitude % 360, latitude),
            (-8 if side == "right" else 0, -15),
            textcoords="offset points",
            ha="right" if side == "right" else "center",
            color=INK,
            path_effects=HALO,
        )
    for color, longitude in zip(MARKS, MOORINGS.values(), strict=True):
        axes.plot(longitude % 360, 0, "D", color=color, markeredgecolor=PAPER, markersize=8)
    axes.set_xticks(range(160, 281, 20), [_meridian(degree) for degree in range(160, 281, 20)])
    axes.set_yticks([-4, 0, 4], ["4° S", "0°", "4° N"])
    axes.set_title("line: the way of the ship; diamonds: moorings", color=QUIET, fontsize=10, pad=3)
    _quieten(axes)


def _draw_scale(axes: Axes) -> None:
    low, high = float(CELSIUS.vmin or 0), float(CELSIUS.vmax or 0)
    shades = np.linspace(low, high, 256)[None]
    axes.imshow(shades, cmap=WARMTH, norm=CELSIUS, aspect="auto", extent=(low, high, 0, 1))
    axes.set_yticks([])
    axes.set_xticks(range(20, 32, 2), [f"{degree} °C" for degree in range(20, 32, 2)])
    _quieten(axes)


def _draw_log(axes: Axes, log: xr.Dataset, reading: xr.Dataset) -> None:
    axes.scatter(
        log["longitude"].values % 360,
        log["time"].values,
        c=reading["linear"].values - KELVIN,
        cmap=WARMTH,
        norm=CELSIUS,
        s=7,
        linewidths=0,
        rasterized=True,
    )
    axes.set_xlim(WEST, EAST)
    axes.set_ylim(log["time"].values[0], log["time"].values[-1])
    axes.set_xticks(range(160, 281, 20), [_meridian(degree) for degree in range(160, 281, 20)])
    years = ("2007", "2008", "2009", "2010")
    axes.set_yticks([_on_axis(year) for year in years], years)
    axes.set_ylabel("date, the first at the bottom", color=QUIET, fontsize=10)
    for text, when in (("La Niña", "2008-01-15"), ("El Niño", "2009-12-15")):
        axes.text(
            215,
            _on_axis(when),
            text,
            ha="center",
            va="center",
            color=INK,
            fontsize=13,
            style="italic",
            path_effects=HALO,
        )
    axes.set_xlabel(
        "longitude of the ship; colour: temperature of the water", color=QUIET, fontsize=10
    )
    _quieten(axes)


def _draw_moorings(axes: Axes, reading: xr.Dataset) -> None:
    for color, (name, series) in zip(
        MARKS, zip(MOORINGS, reading["moorings"].values.T, strict=True), strict=True
    ):
        axes.plot(series - KELVIN, reading["time"].values, color=color, linewidth=1.6)
        axes.annotate(
            name,
            (series[-1] - KELVIN, 1),
            (0, 4),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            color=color,
            fontsize=10,
        )
    axes.tick_params(labelleft=False)
    axes.set_xlabel("water at four longitudes of the equator, °C", color=QUIET, fontsize=10)
    axes.grid(axis="y", color=LAND, linewidth=0.8)
    _quieten(axes)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_cities(axes: Axes, cities: dict[str, xr.DataArray]) -> None:
    names = cities["A1B"]["city"].values.tolist()
    for color, name in zip(MARKS, names, strict=True):
        for run, style in (("A1B", "-"), ("E1", (0, (2, 1.2)))):
            series = cities[run].sel(city=name)
            years, values = series["year"].values, series.values - KELVIN
            smooth = np.convolve(values, np.full(11, 1 / 11), "valid")
            axes.plot(years[5:-5], smooth, color=color, linestyle=style, linewidth=1.7)
            if run == "A1B":
                axes.annotate(
                    name,
                    (years[-6], smooth[-1]),
                    (7, 0),
                    textcoords="offset points",
                    va="center",
                    color=color,
                    fontsize=10.5,
                    annotation_clip=False,
                )
    axes.set_xlim(1865, 2094)
    axes.plot([], [], color=INK, label="scenario A1B")
    axes.plot([], [], color=INK, linestyle=(0, (2, 1.2)), label="scenario E1")
    axes.legend(loc="upper left", frameon=False, fontsize=10, ncols=2)
    axes.set_xlabel("year", color=QUIET, fontsize=10)
    axes.set_ylabel("°C, mean of 11 years", color=QUIET, fontsize=10)
    axes.grid(axis="y", color=LAND, linewidth=0.8)
    _quieten(axes)
    axes.spines[["top", "right"]].set_visible(False)


def _on_axis(when: str) -> float:
    return float(date2num(np.datetime64(when)))  # type: ignore[no-untyped-call]  # it has no types


def _meridian(degree: int) -> str:
    return f"{degree}° E" if degree < 180 else "180°" if degree == 180 else f"{360 - degree}° W"


def _quieten(axes: Axes) -> None:
    axes.tick_params(colors=QUIET, labelsize=9.5, length=3)
    axes.spines[:].set_color(LAND)
