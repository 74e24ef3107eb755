"""Interpolation in JAX with gradients in both of its arguments.

The terrain is the model around the Jacksboro fault (Tennessee) that matplotlib ships. Heights
between cells are interpolated from the four cells around them, with a single `gather_nd`. The
gradient with respect to the position is the slope: drops of water run down it, step by step. The
gradient with respect to the heights is a scatter, with which a terrain is recovered from
measurements at random positions.

    python examples/interpolate_jax.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.cbook import get_sample_data

import ndgather

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTPUT = Path(__file__).resolve().parent / "output"
CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int32)


def interpolate(heights: jax.Array, position: jax.Array) -> jax.Array:
    """Return the height at a position in cells, interpolated from the four cells around it."""
    last = jnp.array(heights.shape, jnp.float32) - 1
    position = jnp.clip(position, 0, last)
    first = jnp.clip(jnp.floor(position), 0, last - 1)
    rest = position - first
    around = ndgather.gather_nd(heights, first.astype(jnp.int32) + CORNERS)
    weights = jnp.where(CORNERS == 1, rest, 1 - rest).prod(axis=-1)
    return (around * weights).sum()


def run_down(heights: jax.Array, starts: jax.Array) -> jax.Array:
    """Return the positions of drops at every step, each half a cell down the slope."""
    slope = jax.vmap(jax.grad(interpolate, argnums=1), in_axes=(None, 0))

    def step(positions: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        down = slope(heights, positions)
        steepness = jnp.linalg.norm(down, axis=-1, keepdims=True)
        return positions - 0.5 * down / jnp.maximum(steepness, 1e-6), positions

    return jax.lax.scan(step, starts, length=300)[1]


def recover(measured: jax.Array, positions: jax.Array, first: jax.Array) -> jax.Array:
    """Return heights that match the measurements and differ little from cell to cell."""

    def misfit(heights: jax.Array) -> jax.Array:
        found = jax.vmap(interpolate, in_axes=(None, 0))(heights, positions)
        rough = sum((jnp.diff(heights, axis=axis) ** 2).sum() for axis in (0, 1))
        return ((found - measured) ** 2).sum() + 0.01 * rough

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        heights, speed = state
        speed = 0.9 * speed - 0.05 * jax.grad(misfit)(heights)
        return heights + speed, speed

    return jax.lax.fori_loop(0, 300, step, (first, jnp.zeros_like(first)))[0]


def plain_heights(heights: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """Return the same heights computed by NumPy in double precision."""
    cells = np.clip(np.floor(positions).astype(int), 0, np.array(heights.shape) - 2)
    (row, column), rest = cells.T, positions - cells
    down, right = rest.T
    upper = heights[row, column] * (1 - right) + heights[row, column + 1] * right
    lower = heights[row + 1, column] * (1 - right) + heights[row + 1, column + 1] * right
    return np.asarray(upper * (1 - down) + lower * down)


def main() -> None:
    parser = argparse.ArgumentParser(description="Interpolate in JAX, with gradients.")
    parser.add_argument("--picture", type=Path, default=OUTPUT / "interpolate_jax.png")
    options = parser.parse_args()
    file: Any = get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)
    with np.load(file) as archive:
        terrain = archive["elevation"].astype(np.float32)
    heights, rng = jnp.asarray(terrain), np.random.default_rng(0)

    starts = rng.uniform(20, np.array(terrain.shape) - 20, (60, 2))
    paths = np.asarray(jax.jit(run_down)(heights, jnp.asarray(starts, jnp.float32)))
    levels = plain_heights(terrain, paths.reshape(-1, 2)).reshape(paths.shape[:2])
    found = jax.vmap(interpolate, in_axes=(None, 0))(heights, paths[-1])
    np.testing.assert_allclose(found, levels[-1], rtol=1e-4)
    fallen = levels[0] - levels[-1]
    print(f"60 drops ran {len(paths)} steps and fell {fallen.mean():.0f} m on average.")
    assert fallen.min() > 0

    positions = rng.uniform(0, np.array(terrain.shape) - 1, (60_000, 2))
    measured = plain_heights(terrain, positions)
    flat = jnp.full(terrain.shape, measured.mean(), jnp.float32)
    given = (jnp.asarray(measured, jnp.float32), jnp.asarray(positions, jnp.float32))
    recovered = np.asarray(jax.jit(recover)(*given, flat))
    error = np.sqrt(((recovered - terrain) ** 2).mean())
    print(
        f"From {len(positions):,} measurements, fewer than half its cells, the terrain is "
        f"recovered to {error:.1f} m; it varies by {terrain.std():.0f} m."
    )
    assert error < terrain.std() / 10
    draw(terrain, recovered, paths, options.picture)
    print(f"wrote {options.picture}")


def draw(terrain: NDArray[Any], recovered: NDArray[Any], paths: NDArray[Any], file: Path) -> None:
    """Draw the paths of the drops, and next to them the recovered terrain."""
    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of what draws

    file.parent.mkdir(exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    for each, shown, title in zip(
        axes, (terrain, recovered), ("drops run down the slope", "recovered"), strict=True
    ):
        drawn = each.imshow(shown, cmap="terrain", vmin=terrain.min(), vmax=terrain.max())
        each.set_title(title)
        each.set_axis_off()
    axes[0].plot(paths[..., 1], paths[..., 0], color="navy", linewidth=0.8)
    figure.colorbar(drawn, ax=axes, label="height (m)", shrink=0.8)
    figure.savefig(file, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
