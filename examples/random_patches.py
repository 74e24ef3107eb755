"""Random patches of a stored volume for training: several workers that read ahead and resume.

Every batch has a number, which is the seed of the positions of its patches. Any worker can
therefore read any batch and knows which batch it reads next, and an interrupted run continues with
the number of its next batch. Patches may extend past the edge of the volume, which is mirrored
there.

    python examples/random_patches.py

also measures a plain loop over ``array[...]``, and xbatcher if it is installed, and compares their
results.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import zarr
from torch.utils.data import DataLoader, get_worker_info

import ndgather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Starts = NDArray[np.int64]

BATCH = 16  # patches
WORKERS = 2


class Batches:
    """Batches of patches of a zarr array, by number."""

    def __init__(self, path: Path, starts: Callable[[int], Starts], size: int, memory: str) -> None:
        self.path, self.starts, self.window, self.memory = path, starts, (size,) * 3, memory
        self.array: Any = None  # every worker opens its own array

    def __getitem__(self, number: int) -> torch.Tensor:
        worker = get_worker_info()
        if self.array is None:
            self.array = ndgather.cached(zarr.open_array(self.path, mode="r"), memory=self.memory)
            if worker is not None:
                ndgather.set_num_threads(1)  # the workers share the processors
        patches = ndgather.gather_windows(
            self.array, self.starts(number), self.window, mode="reflect"
        )
        following = number + (1 if worker is None else worker.num_workers)
        self.array.prefetch(self.starts(following), self.window)
        return torch.from_numpy(patches)


def loader(batches: Any, numbers: range) -> DataLoader[torch.Tensor]:
    """Return a loader of batches in the order of their numbers."""
    return DataLoader(batches, batch_size=None, sampler=numbers, num_workers=WORKERS)


def random_starts(sides: int, size: int) -> Callable[[int], Starts]:
    """Return the starts of the patches of a batch; an eighth of a patch may be outside."""

    def starts(number: int) -> Starts:
        rng = np.random.default_rng([2026, number])
        return rng.integers(-size // 8, sides - size + size // 8, (BATCH, 3), endpoint=True)

    return starts


def training(batches: Iterable[torch.Tensor]) -> list[float]:
    """Stand in for a training run: return a number per batch."""
    return [float(patches.double().sum()) for patches in batches]


class PlainBatches:
    """The same batches with separate patches, each read and padded past the edge."""

    def __init__(self, path: Path, starts: Callable[[int], Starts], size: int) -> None:
        self.path, self.starts, self.size = path, starts, size

    def __getitem__(self, number: int) -> torch.Tensor:
        array, size = zarr.open_array(self.path, mode="r"), self.size
        patches = np.empty((BATCH, size, size, size), np.float32)
        for patch, start in zip(patches, self.starts(number), strict=True):
            inside = [
                slice(max(at, 0), min(at + size, side))
                for at, side in zip(start, array.shape, strict=True)
            ]
            pads = [
                (part.start - at, at + size - part.stop)
                for at, part in zip(start, inside, strict=True)
            ]
            patch[...] = np.pad(np.asarray(array[tuple(inside)]), pads, "reflect")
        return torch.from_numpy(patches)


class GridBatches:
    """Batches of patches of a grid, cut by xbatcher."""

    def __init__(self, path: Path, patches: Callable[[int], Any], size: int) -> None:
        self.path, self.patches, self.size = path, patches, size
        self.generator: Any = None

    def __getitem__(self, number: int) -> torch.Tensor:
        import xarray  # noqa: PLC0415 - it is optional, as is xbatcher

        xbatcher = importlib.import_module("xbatcher")
        if self.generator is None:
            data = xarray.DataArray(
                xarray.open_dataset(self.path.parent, engine="zarr", consolidated=False).volume
            )
            self.generator = xbatcher.BatchGenerator(data, dict.fromkeys(data.dims, self.size))
        taken = [np.asarray(self.generator[int(patch)]) for patch in self.patches(number)]
        return torch.from_numpy(np.stack(taken))


def store(folder: Path, sides: int) -> Path:
    """Write a volume in shards of 4 * 4 * 4 chunks, and return its path."""
    rng = np.random.default_rng(0)
    waves = np.sin(np.arange(sides) / 9)
    volume = np.add.outer(np.add.outer(waves, waves), waves) + rng.normal(0, 0.05, (sides,) * 3)
    volume = np.round(volume, 2).astype(np.float32)
    chunk = sides // 8
    group = zarr.create_group(folder / "data.zarr")
    group.create_array(
        "volume",
        data=volume,
        chunks=(chunk,) * 3,
        shards=(4 * chunk,) * 3,
        dimension_names=("z", "y", "x"),
    )
    return folder / "data.zarr" / "volume"


def timed(name: str, batches: Any, numbers: range, expected: Any) -> float:
    """Read batches, compare their contents, and print and return the patches per second."""
    begin = time.perf_counter()
    found = training(loader(batches, numbers))
    rate = len(numbers) * BATCH / (time.perf_counter() - begin)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    print(f"  {name:<28}{rate:8.0f} patches a second")
    return rate


def main() -> None:
    """Train, interrupt, resume, and compare the speed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sides", type=int, default=256, help="of the volume, a multiple of 8")
    parser.add_argument("--batches", type=int, default=40)
    options = parser.parse_args()
    sides, count = options.sides, options.batches
    size, memory = sides // 8 + sides // 16, "256 MiB"
    with tempfile.TemporaryDirectory() as folder:
        path = store(Path(folder), sides)
        starts = random_starts(sides, size)
        batches = Batches(path, starts, size, memory)
        whole = training(loader(batches, range(count)))
        first = training(loader(batches, range(count // 3)))  # interrupted after some batches
        rest = training(loader(batches, range(count // 3, count)))
        assert first + rest == whole
        print(f"{count} batches, and the same ones after an interruption; {WORKERS} workers")

        print(f"random patches of {size}^3:")
        ours = timed("ndgather", batches, range(count), whole)
        plain = timed("a plain loop", PlainBatches(path, starts, size), range(count), whole)
        print(f"  the plain loop takes {ours / plain:.1f} times as long")
        if importlib.util.find_spec("xbatcher") is None:
            print("xbatcher is not installed")
            return
        per_axis = sides // size

        def chosen(number: int) -> Starts:
            return np.random.default_rng([1, number]).integers(0, per_axis**3, BATCH)

        def corners(number: int) -> Starts:
            places = np.unravel_index(chosen(number), (per_axis,) * 3)
            starts: Starts = np.stack(places, -1) * size
            return starts

        print("patches of a grid, in random order:")
        batches = Batches(path, corners, size, memory)
        expected = training(loader(batches, range(count)))
        ours = timed("ndgather", batches, range(count), expected)
        other = timed("xbatcher", GridBatches(path, chosen, size), range(count), expected)
        print(f"  xbatcher takes {ours / other:.1f} times as long")


if __name__ == "__main__":
    main()
