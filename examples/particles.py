"""Two thousand particles in two moving gyres: a model that reads the same chunks at every step.

The current is stored as two zarr arrays, with one chunk for each quarter of a map. Every step of
the model (Runge-Kutta) asks four times for the current at all particles, between eight neighbors
each. `ndgather.cached` keeps the decoded chunks of both arrays within one budget.

    python examples/particles.py        writes examples/output/particles.png
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import ndgather

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

OUTPUT = Path(__file__).parent / "output"
TIMES, ROWS, COLUMNS = 48, 200, 400  # the gyres cover 1 by 2 units of length
PERIOD = 10.0
PARTICLES, STEPS, STEP = 2_000, 240, 0.05
COMPARED = 6  # steps that are repeated without the cache
CORNERS = np.stack(np.meshgrid(*[[0, 1]] * 3, indexing="ij"), -1).reshape(8, 3)
PAPER, INK, QUIET = "#fbfaf7", "#26302c", "#6d7672"


def store_current(folder: Path) -> list[Any]:
    """Write the current as arrays (time, row, column), and return arrays that read it."""
    t = np.linspace(0, STEPS * STEP, TIMES)[:, None, None]
    y = np.linspace(0, 1, ROWS)[:, None]
    x = np.linspace(0, 2, COLUMNS)
    sway = 0.25 * np.sin(2 * np.pi * t / PERIOD)
    place, slope = sway * x**2 + (1 - 2 * sway) * x, 2 * sway * x + 1 - 2 * sway
    u = -0.1 * np.pi * np.sin(np.pi * place) * np.cos(np.pi * y)
    v = 0.1 * np.pi * np.cos(np.pi * place) * np.sin(np.pi * y) * slope
    chunks = (1, ROWS // 2, COLUMNS // 2)
    return [
        zarr.create_array(folder / name, data=data.astype(np.float32), chunks=chunks)
        for name, data in {"u": u, "v": v}.items()
    ]


def current_at(arrays: list[Any], when: float, at: Numbers) -> Numbers:
    """Return the current (u, v) at positions (x, y), linear in time and space."""
    exact = np.empty((len(at), 3))
    exact[:, 0] = when / (STEPS * STEP) * (TIMES - 1)
    exact[:, 1] = at[:, 1] * (ROWS - 1)
    exact[:, 2] = at[:, 0] / 2 * (COLUMNS - 1)
    low = np.clip(np.floor(exact).astype(int), 0, (TIMES - 2, ROWS - 2, COLUMNS - 2))
    part = (exact - low)[:, None]
    weights = np.where(CORNERS == 1, part, 1 - part).prod(axis=-1)
    points = low[:, None] + CORNERS
    speeds = [(ndgather.gather_nd(array, points) * weights).sum(axis=1) for array in arrays]
    return np.stack(speeds, -1)


def drift(arrays: list[Any], at: Numbers, steps: int, seen: Callable[[Numbers], object]) -> float:
    """Let particles drift for some steps, and return the seconds per step."""
    begin = time.perf_counter()
    for step in range(steps):
        when = step * STEP
        k1 = current_at(arrays, when, at)
        k2 = current_at(arrays, when + STEP / 2, at + STEP / 2 * k1)
        k3 = current_at(arrays, when + STEP / 2, at + STEP / 2 * k2)
        k4 = current_at(arrays, when + STEP, at + STEP * k3)
        at = np.clip(at + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4), 0, (2, 1))
        seen(at)
    return (time.perf_counter() - begin) / steps


def draw(tracks: Numbers) -> Figure:
    """Draw the paths of the particles, in the color of the half where they started."""
    figure = Figure(figsize=(10, 5.6), facecolor=PAPER)
    axes = figure.add_axes((0.03, 0.06, 0.94, 0.8))
    left = tracks[:, 0, 0] < 1
    for half, colour in ((left, "#2f6f9f"), (~left, "#d9713f")):
        axes.add_collection(LineCollection(list(tracks[half]), colors=colour, lw=0.4, alpha=0.25))
        axes.plot(*tracks[half, -1].T, ".", color=colour, ms=2.2)
    axes.set(xlim=(0, 2), ylim=(0, 1), aspect="equal", xticks=[], yticks=[], facecolor=PAPER)
    for spine in axes.spines.values():
        spine.set_color(QUIET)
    crossed = ((tracks[:, -1, 0] < 1) != left).sum()
    title = f"{crossed} of {len(tracks)} particles have left the gyre in which they started"
    figure.text(0.03, 0.91, title, color=INK, size=14)
    return figure


def main() -> None:
    """Run the model, print the statistics of the cache, and write the picture."""
    start = np.random.default_rng(0).uniform((0.02, 0.02), (1.98, 0.98), (PARTICLES, 2))
    with tempfile.TemporaryDirectory() as folder:
        stored = store_current(Path(folder))
        cache = ndgather.ChunkCache("64 MiB")
        tracks = [start]
        cached = [ndgather.cached(array, cache=cache) for array in stored]
        with_cache = drift(cached, start, STEPS, tracks.append)
        without = drift(stored, start, COMPARED, lambda at: None)
    info = cache.info()
    print(f"{info.decodes} chunks were decoded and {info.hits} found in the cache")
    print(f"a step takes {with_cache * 1e3:.1f} ms, without the cache {without * 1e3:.1f} ms")
    OUTPUT.mkdir(exist_ok=True)
    draw(np.stack(tracks, axis=1)).savefig(OUTPUT / "particles.png", dpi=150, facecolor=PAPER)
    print(f"{OUTPUT / 'particles.png'} shows where the particles went")


if __name__ == "__main__":
    main()
