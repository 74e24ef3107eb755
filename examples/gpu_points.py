"""Read 100 million points of a field on a GPU, with every index checked.

    pip install ndgather torch
    python examples/gpu_points.py

A turbulent field is read at the positions of particles, as in every step of a simulation. A
particle that has left the field is reported, and the GPU remains usable. torch's own `field[i, j]`
would make it unusable for the process. Without a GPU, the example says so and reads fewer points on
the CPU.
"""

from __future__ import annotations

import argparse
import time

import torch

import ndgather
from ndgather.errors import IndexOutOfBoundsError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, help="default: 100 million, without a GPU 1 million")
    points: int | None = parser.parse_args().points
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    name = torch.cuda.get_device_name() if has_gpu else "no GPU: the CPU"
    count = points or (100_000_000 if has_gpu else 1_000_000)
    side = 2**15 if has_gpu else 2**11  # 4 GiB, or 16 MiB
    print(f"{name}; a field of {side} x {side}, {count:,} points")

    field = torch.rand(side, side, device=device)
    places = torch.randint(0, side, (count, 2), device=device, dtype=torch.int32)
    values = ndgather.gather_nd(field, places)
    begin = time.perf_counter()
    values = ndgather.gather_nd(field, places)  # returns after every index is checked
    seconds = time.perf_counter() - begin
    assert torch.equal(values, field[places[:, 0].long(), places[:, 1].long()])
    print(f"read in {seconds * 1e3:.1f} ms: {count / seconds / 1e9:.2f} billion points a second")

    places[count // 2, 1] = side
    try:
        ndgather.gather_nd(field, places)
    except IndexOutOfBoundsError as error:
        print(error)
    stays = ndgather.gather_nd(field, places, mode="clip")
    print(f"moved to the border it reads {stays[count // 2]:.3f}; the other points are as before")

    cells = places.clamp(max=side - 1)
    filled = torch.zeros(side, side, device=device)
    filled = ndgather.scatter_nd(filled, cells, values, reduction="add")
    again = ndgather.scatter_nd(torch.zeros_like(filled), cells, values, reduction="add")
    assert torch.equal(filled, again)
    print("two sums of all points over the cells have the same bits")


if __name__ == "__main__":
    main()
