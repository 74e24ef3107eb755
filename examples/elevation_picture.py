"""The picture of the elevation example: a map, a table of the stations, and the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LightSource, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

if TYPE_CHECKING:
    from pathlib import Path

    from elevation import Terrain
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

PAPER = "#fbfaf7"
INK = "#26302c"
QUIET = "#6d7672"
LINE = "#c2281d"

# From valley to summit, in the order of a printed relief map.
RELIEF = LinearSegmentedColormap.from_list(
    "relief",
    ["#5f8a76", "#86a982", "#b4c294", "#ddd6a6", "#dbbf8e", "#bf9672", "#a07a66", "#efe8e2"],
)
HALO = [withStroke(linewidth=2.6, foreground=PAPER)]
SIZE = (13, 12.2)  # inches
FOR_PHONE = 0.66  # of this size, so that letters are larger
OF_PHONE = Bbox([[0.02, 2.31], [4.9, 7.25]])


class _Ground:
    """Cells of the terrain in kilometers east and north of its southwest corner."""

    def __init__(self, terrain: Terrain) -> None:
        self.rows, self.columns = terrain.elevation.shape
        self.east = terrain.column_metres / 1000
        self.north = terrain.row_metres / 1000
        self.width, self.height = self.columns * self.east, self.rows * self.north

    def place(self, cells: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        x = (cells[..., 1] + 0.5) * self.east
        y = (self.rows - cells[..., 0] - 0.5) * self.north
        return x, y


def draw(
    terrain: Terrain,
    transect: NDArray[np.int64],
    profile: NDArray[np.int16],
    stations: NDArray[np.int64],
    heights: NDArray[np.int16],
) -> Figure:
    """Draw the values that two GatherND nodes read from `terrain`, and their positions."""
    ground = _Ground(terrain)
    norm = Normalize(int(terrain.elevation.min()), int(terrain.elevation.max()))
    x, y = ground.place(transect)
    distance = np.hypot(x - x[0], y - y[0])
    marks = _landmarks(profile)

    figure = Figure(figsize=SIZE, facecolor=PAPER)
    land = figure.add_axes((0.055, 0.315, 0.565, 0.575))
    table = figure.add_axes((0.63, 0.442, 0.335, 0.388))
    scale = figure.add_axes((0.63, 0.362, 0.335, 0.014))
    slope = figure.add_axes((0.055, 0.06, 0.91, 0.175))

    rows, columns = terrain.elevation.shape
    _write(figure, 0.055, 0.955, "Two GatherND nodes read a mountain", INK, 24, weight="bold")
    _write(
        figure,
        0.055,
        0.922,
        f"Each pair (row, column) among the indices picks one of {rows} by {columns} heights "
        f"around the Jacksboro fault in Tennessee.",
        QUIET,
        13,
    )
    _draw_land(land, terrain, ground, norm)
    _draw_stations(land, *ground.place(stations), heights, norm)
    _draw_transect(land, x, y, marks)

    _describe(figure, 0.63, 0.862, "heights", "stations", stations.shape, heights.shape)
    _draw_table(table, heights, norm)
    _draw_scale(scale, norm)

    _describe(figure, 0.055, 0.262, "profile", "transect", transect.shape, profile.shape)
    _draw_slope(slope, distance, profile, marks, norm)
    return figure


def _landmarks(profile: NDArray[np.int16]) -> tuple[int, int, int]:
    """Return the highest point, the lowest after it, and the highest after that."""
    top = int(profile.argmax())
    valley = top + int(profile[top:].argmin())
    return top, valley, valley + int(profile[valley:].argmax())


def save_for_phone(figure: Figure, path: Path) -> None:
    """Save the main part of the picture in a size that a phone shows."""
    width, height = SIZE
    figure.set_size_inches(FOR_PHONE * width, FOR_PHONE * height)
    figure.savefig(path, dpi=150, bbox_inches=OF_PHONE)


def _write(
    figure: Figure, x: float, y: float, text: str, color: str, size: float, **style: Any
) -> None:
    figure.text(x, y, text, color=color, fontsize=size, **style)


def _describe(
    figure: Figure,
    x: float,
    y: float,
    output: str,
    indices: str,
    taken: tuple[int, ...],
    given: tuple[int, ...],
) -> None:
    """Write a node as an equation, with the shapes of its inputs and output."""
    _write(figure, x, y, f"{output} = GatherND(elevation, {indices})", INK, 12.5, weight="bold")
    _write(figure, x, y - 0.018, f"indices {taken}  →  output {given}", QUIET, 11)


def _draw_land(axes: Axes, terrain: Terrain, ground: _Ground, norm: Normalize) -> None:
    light = LightSource(azdeg=315, altdeg=42)
    shaded = light.shade(
        terrain.elevation.astype(float),
        cmap=RELIEF,
        norm=norm,
        blend_mode="soft",
        vert_exag=1.6,
        dx=terrain.column_metres,
        dy=terrain.row_metres,
    )
    extent = (0.0, ground.width, 0.0, ground.height)
    axes.imshow(shaded, extent=extent, interpolation="bilinear")
    axes.set_anchor("NW")
    axes.set_xlabel("kilometres east", color=QUIET, fontsize=10)
    axes.set_ylabel("kilometres north", color=QUIET, fontsize=10)
    axes.set_xticks(range(0, int(ground.width) + 1, 5))
    axes.set_yticks(range(0, int(ground.height) + 1, 5))
    _quieten(axes)

    axes.plot(
        [1, 6], [1.1, 1.1], color=INK, linewidth=3.2, solid_capstyle="butt", path_effects=HALO
    )
    axes.text(3.5, 1.4, "5 km", ha="center", va="bottom", color=INK, path_effects=HALO)
    axes.text(
        13.0,
        22.3,
        "Jacksboro fault",
        rotation=-61,
        ha="center",
        va="center",
        color=INK,
        fontsize=11.5,
        style="italic",
        path_effects=HALO,
    )
    axes.annotate(
        "N",
        xy=(ground.width - 1.2, ground.height - 0.8),
        xytext=(ground.width - 1.2, ground.height - 2.9),
        ha="center",
        va="center",
        color=INK,
        weight="bold",
        path_effects=HALO,
        arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.6},
    )


def _draw_stations(
    axes: Axes, x: NDArray[Any], y: NDArray[Any], heights: NDArray[np.int16], norm: Normalize
) -> None:
    axes.scatter(
        x, y, s=46, c=heights, cmap=RELIEF, norm=norm, edgecolors=PAPER, linewidths=2.4, zorder=4
    )
    axes.scatter(x, y, s=66, facecolors="none", edgecolors=INK, linewidths=0.9, zorder=4)


def _draw_transect(axes: Axes, x: NDArray[Any], y: NDArray[Any], marks: tuple[int, ...]) -> None:
    axes.plot(x, y, color=PAPER, linewidth=4.2, zorder=5)
    axes.plot(x, y, color=LINE, linewidth=2, zorder=5)
    for name, end, away in (("A", 0, (-12, -8)), ("B", -1, (12, 8))):
        _mark_end(axes, name, x[end], y[end], away)
    for number, place in enumerate(marks, 1):
        _mark(axes, number, x[place], y[place], (-16, 9))


def _draw_table(axes: Axes, heights: NDArray[np.int16], norm: Normalize) -> None:
    axes.imshow(heights, cmap=RELIEF, norm=norm, aspect="auto")
    for (row, column), height in np.ndenumerate(heights):
        axes.text(column, row, str(height), ha="center", va="center", color=INK, fontsize=11)
    rows, columns = heights.shape
    axes.set_xticks(np.arange(columns - 1) + 0.5, labels=[])
    axes.set_yticks(np.arange(rows - 1) + 0.5, labels=[])
    axes.grid(color=PAPER, linewidth=3)
    axes.set_xlabel("the circles of the map, row by row, in metres", color=QUIET, fontsize=10)
    _quieten(axes)
    axes.spines[:].set_visible(False)


def _draw_scale(axes: Axes, norm: Normalize) -> None:
    low, high = float(norm.vmin or 0), float(norm.vmax or 0)
    axes.imshow(
        np.linspace(low, high, 256)[None], cmap=RELIEF, aspect="auto", extent=(low, high, 0, 1)
    )
    axes.set_yticks([])
    axes.set_xticks([round(low), 400, 600, 800, round(high)])
    axes.set_xlabel("height in metres above the sea", color=QUIET, fontsize=10)
    _quieten(axes)


def _draw_slope(
    axes: Axes,
    distance: NDArray[Any],
    profile: NDArray[np.int16],
    marks: tuple[int, ...],
    norm: Normalize,
) -> None:
    floor, ceiling = 150, 1150
    ground = axes.fill_between(distance, profile, floor, color="none")
    air = np.linspace(floor, ceiling, 256)[:, None]
    axes.imshow(
        air,
        cmap=RELIEF,
        norm=norm,
        aspect="auto",
        origin="lower",
        extent=(0, distance[-1], floor, ceiling),
    ).set_clip_path(ground.get_paths()[0], axes.transData)
    axes.plot(distance, profile, color=LINE, linewidth=1.8)
    axes.set_xlim(0, distance[-1])
    axes.set_ylim(floor, ceiling)
    axes.set_yticks([200, 400, 600, 800, 1000])
    axes.set_xlabel("kilometres from A, along the red line of the map", color=QUIET, fontsize=10)
    axes.set_ylabel("metres", color=QUIET, fontsize=10)
    _quieten(axes)
    axes.spines[["top", "right"]].set_visible(False)

    _mark_end(axes, "A", distance[0], profile[0], (13, -15))
    _mark_end(axes, "B", distance[-1], profile[-1], (-13, -17))
    for number, place in enumerate(marks, 1):
        _mark(axes, number, distance[place], profile[place], (0, 17))
        axes.annotate(
            f"{profile[place]} m",
            (distance[place], profile[place]),
            (13, 17),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=10.5,
            path_effects=HALO,
        )


def _mark(axes: Axes, number: int, x: float, y: float, away: tuple[int, int]) -> None:
    """Draw a numbered disc next to a point; the same number marks the same place."""
    axes.plot(x, y, "o", markersize=5.5, color=LINE, markeredgecolor=PAPER, zorder=6)
    axes.annotate(
        str(number),
        (x, y),
        away,
        textcoords="offset points",
        ha="center",
        va="center",
        color=PAPER,
        fontsize=9.5,
        weight="bold",
        bbox={"boxstyle": "circle,pad=0.25", "facecolor": INK, "edgecolor": PAPER},
        zorder=7,
    )


def _mark_end(axes: Axes, name: str, x: float, y: float, away: tuple[int, int]) -> None:
    axes.annotate(
        name,
        (x, y),
        away,
        textcoords="offset points",
        ha="center",
        va="center",
        color=LINE,
        fontsize=15,
        weight="bold",
        path_effects=HALO,
        zorder=7,
    )


def _quieten(axes: Axes) -> None:
    axes.set_facecolor(PAPER)
    axes.tick_params(colors=QUIET, labelsize=9.5, length=0)
    axes.spines[:].set_color("#c9cdc8")
