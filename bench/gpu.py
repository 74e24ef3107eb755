"""``python -m bench.gpu``: gathers and scatters on a GPU, compared with torch and a plain copy.

The results are compared first. Every line has the time of a call until its result is complete, the
time of its kernels alone, and the useful bytes per second of the kernels relative to a copy on the
device. Useful bytes are the elements read from data, indices and updates and the elements written,
each counted once.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

Function = Callable[[], Any]
_TURNS = 20
_DESCRIPTION = """\
Compare the results of ndgather and torch on a GPU, and measure gathers and scatters of both in
turns. With --quick, only compare the results of small calls; without a GPU, Triton then interprets
the kernels. With --host, measure how long a call on small tensors occupies the host, in less than a
minute.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Alternative functions with the same result, ndgather first, and the least bytes they move."""

    name: str
    ways: dict[str, Function]
    useful: int


def _bytes(*tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _check_bounds(size: int, indices: Any) -> None:
    """Check bounds before torch's gather, in which a bad index makes the GPU unusable."""
    if bool(((indices < -size) | (indices >= size)).any()):
        raise IndexError("an index is out of bounds")


def _composed(kind: str, *tensors: Any, **options: Any) -> dict[str, Function]:
    """Return the same call composed of torch functions, as on other devices."""
    composition = import_module("ndgather.arrays.torch.composition")
    array_call = import_module("ndgather.array_call")
    call = array_call.Call(kind, array_call.Kind(kind), *tensors, **options)
    return {"ndgather, by torch": lambda: composition.run(call)}


def _rows(torch: Any, nd: Any, device: Any, width: int, count: int, dtype: str) -> Case:
    kind = getattr(torch, dtype)
    data = torch.rand(count, width // kind.itemsize, device=device, dtype=kind)
    rows = torch.randint(0, count, (count,), device=device)
    indices = rows[:, None]
    ways = {
        "ndgather": lambda: nd.gather_nd(data, indices),
        "ndgather, clip": lambda: nd.gather_nd(data, indices, mode="clip"),
        "x[i]": lambda: data[rows],
        "index_select": lambda: data.index_select(0, rows),
    }
    ways |= _composed("gather_nd", data, indices) | _of_jax(data, indices)
    return Case(
        name=f"rows of {width} bytes, {dtype}", ways=ways, useful=2 * count * width + _bytes(rows)
    )


def _points(torch: Any, nd: Any, device: Any, shape: tuple[int, ...], count: int) -> Case:
    data = torch.rand(shape, device=device)
    columns = [torch.randint(0, size, (count,), device=device) for size in shape]
    indices = torch.stack(columns, -1)
    ways = {
        "ndgather": lambda: nd.gather_nd(data, indices),
        "x[i, j]": lambda: data[tuple(columns)],
        "x[i, j] of columns": lambda: data[tuple(indices.unbind(-1))],
    }
    ways |= _composed("gather_nd", data, indices) | _of_jax(data, indices)
    name = f"points, k = {len(shape)}" if count > 2 else "a tiny call"
    return Case(name=name, ways=ways, useful=8 * count + _bytes(indices))


def _elements(torch: Any, nd: Any, device: Any, side: int, axis: int) -> Case:
    data = torch.rand(side, side, side, device=device)
    indices = torch.randint(0, side, data.shape, device=device)

    def native() -> Any:
        _check_bounds(side, indices)
        return data.gather(axis, indices)

    ways = {
        "ndgather": lambda: nd.gather_elements(data, indices, axis=axis),
        "checked, gather": native,
        "gather": lambda: data.gather(axis, indices),
    }
    ways |= _composed("gather_elements", data, indices, axis=axis)
    return Case(name=f"elements, axis {axis}", ways=ways, useful=2 * _bytes(data) + _bytes(indices))


def _sums(
    torch: Any, nd: Any, device: Any, width: int, count: int, dtype: str, repeats: int
) -> Case:
    kind = getattr(torch, dtype)
    data = torch.zeros(count // repeats + 1, width // kind.itemsize, device=device, dtype=kind)
    rows = torch.randint(0, len(data), (count,), device=device)
    updates = torch.rand(count, width // kind.itemsize, device=device, dtype=kind)
    indices, wide = rows[:, None], rows[:, None].expand_as(updates)

    def deterministic(function: Function) -> Function:
        def call() -> Any:
            torch.use_deterministic_algorithms(True)
            try:
                return function()
            finally:
                torch.use_deterministic_algorithms(False)

        return call

    def add() -> Any:
        return data.index_add(0, rows, updates)

    def put() -> Any:
        return data.index_put((rows,), updates, accumulate=True)

    ways = {
        "ndgather": lambda: nd.scatter_nd(data, indices, updates, reduction="add"),
        "ndgather, drop": lambda: nd.scatter_nd(
            data, indices, updates, reduction="add", mode="drop"
        ),
        "index_add": add,
        "index_put": put,
        "scatter_add": lambda: data.scatter_add(0, wide, updates),
        "index_add, deterministic": deterministic(add),
        "index_put, deterministic": deterministic(put),
    }
    ways |= _composed("scatter_nd", data, indices, updates, reduction="add")
    name = f"sums of rows of {width} bytes, {dtype}, {repeats} per row"
    return Case(name=name, ways=ways, useful=_bytes(updates, rows) + 2 * _bytes(data))


def _assigned(torch: Any, nd: Any, device: Any, width: int, count: int) -> Case:
    data, updates = torch.rand(2, count, width // 4, device=device).unbind()
    rows = torch.randperm(count, device=device)
    indices = rows[:, None]
    ways = {
        "ndgather": lambda: nd.scatter_nd(data, indices, updates),
        "ndgather, drop": lambda: nd.scatter_nd(data, indices, updates, mode="drop"),
        "index_put": lambda: data.index_put((rows,), updates),
    }
    useful = _bytes(data, rows) + 2 * _bytes(updates)
    return Case(name=f"rows of {width} bytes assigned", ways=ways, useful=useful)


def _of_jax(data: Any, indices: Any) -> dict[str, Function]:
    """Return JAX's gather, if JAX is installed for the same device."""
    try:
        jax = import_module("jax")
        jax.devices("gpu")
    except (ImportError, RuntimeError):
        return {}
    arrays = [jax.dlpack.from_dlpack(tensor) for tensor in (data, indices)]
    take = jax.jit(lambda x, i: x[tuple(i[:, axis] for axis in range(i.shape[1]))])
    return {"JAX": lambda: take(*arrays).block_until_ready()}


def _cases(torch: Any, nd: Any, device: Any, share: float) -> list[Callable[[], Case]]:
    """Return the cases, scaled by a factor."""
    count, long = max(int(1e6 * share), 4), max(int(1e8 * share), 4)
    side = [max(int(n * share ** (1 / 2)), 2) for n in (2**15, 1000)]
    cube = max(int(1024 * share ** (1 / 3)), 2)
    made: list[tuple[Any, ...]]
    made = [(_rows, width, count, "float32") for width in (64, 512, 2048, 8192)]
    made += [(_rows, 512, count, "bfloat16")]
    made += [(_points, (side[0], side[0]), long), (_points, (cube,) * 3, long)]
    made += [(_points, (8, 4), 2)]
    made += [(_elements, max(int(400 * share ** (1 / 3)), 2), axis) for axis in range(3)]
    kinds = ("float32", "bfloat16")
    made += [(_sums, 512, count, kind, repeats) for kind in kinds for repeats in (1, 16)]
    made += [(_sums, 4, 16 * count, "float32", 16), (_assigned, 512, count)]
    return [partial(make, torch, nd, device, *rest) for make, *rest in made]


def _check(torch: Any, case: Case) -> None:
    """Raise AssertionError if two functions differ, or if ndgather's bits change between runs."""
    wanted = case.ways["ndgather"]()
    assert torch.equal(wanted, case.ways["ndgather"]()), "another run has other bits"
    for name, function in case.ways.items():
        result = function()
        tensor = result if isinstance(result, torch.Tensor) else torch.from_dlpack(result)
        near = 1e-4 if tensor.itemsize > 2 else 0.1  # of sums that are rounded at every step
        torch.testing.assert_close(tensor, wanted, rtol=near, atol=near, msg=name)


def _seconds_of_kernels(torch: Any, function: Function) -> float:
    """Return the mean time of the kernels and copies of a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_TURNS):
            function()
        torch.cuda.synchronize()
    total: float = sum(each.self_device_time_total for each in profile.key_averages())
    return total / _TURNS / 1e6


def _seconds(torch: Any, function: Function, *, waits: bool = True) -> float:
    """Return the time of a call until its result is on the device, or until it returns."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    function()
    if waits:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _print_host_parts(torch: Any, case: Case) -> None:
    """Print the median time that calls occupy the host, after calls that compile kernels."""
    for name, function in case.ways.items():
        times = [_seconds(torch, function, waits=False) for _ in range(5 * _TURNS)]
        print(f"  {name:26} host {median(times[_TURNS:]) * 1e6:7.1f} us")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return 1 if there is no GPU."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="only compare the results")
    parser.add_argument("--host", action="store_true", help="time calls until they return")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases with this text")
    args = parser.parse_args(arguments)
    torch = import_module("torch")
    has_gpu = torch.cuda.is_available()
    if not has_gpu and not args.quick:
        print("no GPU: nothing is measured (python -m bench.gpu --quick checks the answers)")
        return 1
    if not has_gpu:  # before Triton and the adapter are imported
        os.environ |= {"NDGATHER_TORCH_KERNELS": "1", "TRITON_INTERPRET": "1"}
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs memory too
    nd = import_module("ndgather")
    device = torch.device("cuda" if has_gpu else "cpu")
    copied, share = 0.0, 1e-5 if args.quick else 1e-3 if args.host else 1.0
    if has_gpu:
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    if has_gpu and not args.host:
        source = torch.empty(2**30, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        times = [_seconds(torch, lambda: target.copy_(source)) for _ in range(_TURNS)]
        copied = 2 * source.numel() / median(times)
        print(f"a copy moves {copied / 1e9:.0f} GB/s, read and written")
    for make in _cases(torch, nd, device, share):
        case = make()
        if args.case not in case.name:
            continue
        _check(torch, case)
        print(f"{case.name}: the answers agree", flush=True)
        if args.host and has_gpu:
            _print_host_parts(torch, case)
        if args.quick or args.host:
            continue
        seconds: dict[str, list[float]] = {name: [] for name in case.ways}
        for _ in range(_TURNS):
            for name, function in case.ways.items():
                seconds[name].append(_seconds(torch, function))
        for name, turns in seconds.items():
            alone = _seconds_of_kernels(torch, case.ways[name])
            rate = case.useful / alone
            line = f"call {median(turns) * 1e6:9.1f} us, kernels {alone * 1e6:9.1f} us"
            print(f"  {name:26} {line} {rate / 1e9:7.1f} GB/s, {rate / copied:6.1%} of a copy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
