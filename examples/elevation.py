"""The main task on real input: look up heights in a digital elevation model with GatherND.

The terrain is the model around the Jacksboro fault (Tennessee) that matplotlib ships, so nothing is
downloaded. The example builds an ONNX model of two GatherND nodes and runs it with the command
``ndgather run``. One node samples the terrain along a transect, the other on a grid of stations.
The result is checked with plain NumPy indexing and drawn.

    python examples/elevation.py
    python examples/elevation.py --small docs/elevation.webp --phone docs/elevation-phone.webp
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import onnx
from elevation_picture import draw, save_for_phone
from matplotlib.cbook import get_sample_data
from onnx import helper

from ndgather.cli import main as ndgather

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTPUT = Path(__file__).resolve().parent / "output"
METRES_PER_DEGREE = 111_200  # of latitude; of longitude times the cosine of the latitude

Cell = tuple[int, int]  # row (from the north), column (from the west)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terrain:
    """Heights in meters on a grid whose rows run from north to south."""

    elevation: NDArray[np.int16]
    row_metres: float
    column_metres: float


def load_terrain() -> Terrain:
    file: Any = get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)
    with np.load(file) as archive:
        latitude = np.deg2rad((archive["ymin"] + archive["ymax"]) / 2)
        return Terrain(
            elevation=archive["elevation"],
            row_metres=float(archive["dy"]) * METRES_PER_DEGREE,
            column_metres=float(archive["dx"] * np.cos(latitude)) * METRES_PER_DEGREE,
        )


def cells_between(start: Cell, end: Cell) -> NDArray[np.int64]:
    """Return the cells of a straight line without gaps, shape ``(n, 2)``."""
    count = max(abs(start[0] - end[0]), abs(start[1] - end[1])) + 1
    return np.rint(np.linspace(start, end, count)).astype(np.int64)


def station_cells(shape: tuple[int, ...], rows: int, columns: int) -> NDArray[np.int64]:
    """Return a regular grid of cells, shape ``(rows, columns, 2)``, away from the edges."""
    row = (np.arange(rows) + 0.5) * shape[0] / rows
    column = (np.arange(columns) + 0.5) * shape[1] / columns
    return np.stack(np.meshgrid(row, column, indexing="ij"), axis=-1).astype(np.int64)


def gather_model(elevation: NDArray[np.int16]) -> onnx.ModelProto:
    """Build the ONNX model, which reads the same terrain at two sets of cells."""
    int16, int64 = onnx.TensorProto.INT16, onnx.TensorProto.INT64
    graph = helper.make_graph(
        nodes=[
            helper.make_node("GatherND", ["elevation", "transect"], ["profile"], name="along"),
            helper.make_node("GatherND", ["elevation", "stations"], ["heights"], name="at"),
        ],
        name="sample_elevation",
        inputs=[
            helper.make_tensor_value_info("elevation", int16, elevation.shape),
            helper.make_tensor_value_info("transect", int64, ["n", 2]),
            helper.make_tensor_value_info("stations", int64, ["rows", "columns", 2]),
        ],
        outputs=[
            helper.make_tensor_value_info("profile", int16, ["n"]),
            helper.make_tensor_value_info("heights", int16, ["rows", "columns"]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def shown(path: Path) -> str:
    """Return a path relative to the current folder if possible."""
    return os.path.relpath(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sample a mountain with GatherND.")
    parser.add_argument("--small", type=Path, metavar="FILE", help="also write a small picture")
    parser.add_argument("--phone", type=Path, metavar="FILE", help="and the part for a phone")
    options = parser.parse_args()
    mpl.use("agg")
    OUTPUT.mkdir(exist_ok=True)
    terrain = load_terrain()
    transect = cells_between((325, 168), (18, 300))
    stations = station_cells(terrain.elevation.shape, rows=6, columns=7)
    inputs: dict[str, NDArray[Any]] = {
        "elevation": terrain.elevation,
        "transect": transect,
        "stations": stations,
    }

    model = OUTPUT / "sample_elevation.onnx"
    onnx.save(gather_model(terrain.elevation), model)
    arguments = []
    for name, array in inputs.items():
        file = OUTPUT / f"{name}.npy"
        np.save(file, array)
        arguments.append(("--input", f"{name}={shown(file)}"))
    arguments.append(("--output-dir", shown(OUTPUT)))

    rows, columns = terrain.elevation.shape
    print(
        f"Terrain: {rows} x {columns} heights from {terrain.elevation.min()} to "
        f"{terrain.elevation.max()} m, the jacksboro_fault_dem.npz that matplotlib ships."
    )
    print(f"Model: two GatherND nodes, which read it along a transect of {len(transect)} cells")
    print(f"and at {stations.shape[0]} x {stations.shape[1]} stations.\n")
    print(
        " \\\n    ".join(["$ ndgather run " + shown(model), *map(" ".join, arguments)]),
        end="\n\n",
    )
    command = ["run", shown(model), *(word for option in arguments for word in option)]
    if status := ndgather(command):
        raise SystemExit(status)

    profile = np.load(OUTPUT / "profile.npy")
    heights = np.load(OUTPUT / "heights.npy")
    np.testing.assert_array_equal(profile, terrain.elevation[tuple(transect.T)], strict=True)
    np.testing.assert_array_equal(
        heights, terrain.elevation[stations[..., 0], stations[..., 1]], strict=True
    )
    print("\nBoth outputs equal plain NumPy indexing, value for value.")

    picture = OUTPUT / "elevation.png"
    figure = draw(terrain, transect, profile, stations, heights)
    figure.savefig(picture, dpi=150)
    if options.small is not None:
        figure.savefig(options.small, dpi=80)
    if options.phone is not None:
        save_for_phone(figure, options.phone)
    print(f"Picture: {shown(picture)}")


if __name__ == "__main__":
    main()
