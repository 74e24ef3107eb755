"""The compiled code of the GPU kernels, without a device; `python -m` prints a table."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

import ndgather.arrays.torch  # noqa: F401 - defines the operators
from ndgather.array_call import Call, Kind
from ndgather.arrays.torch import checks, kernels

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
_LONG, _INT = torch.int64, torch.int32
_CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def _rows(width, dtype=torch.float32, **options):
    updates = torch.empty(5000, width, dtype=dtype) if "reduction" in options else None
    kind = "gather_nd" if updates is None else "scatter_nd"
    return kind, torch.empty(1000, width, dtype=dtype), torch.zeros(5000, 1, dtype=_LONG), updates


def _of(kind, shape, indices, updates=None, dtype=torch.float32):
    updates = None if updates is None else torch.empty(updates, dtype=dtype)
    return kind, torch.empty(shape, dtype=dtype), torch.zeros(indices, dtype=_LONG), updates


# Name of a call, its arguments, its options.
CALLS = {
    "rows of 512 bytes": (_rows(128), {}),
    "rows of 8 KiB": (_rows(2048), {"mode": "clip"}),
    "rows of 48 bytes": (_rows(12), {"mode": "fill", "fill_value": 1.5}),
    "rows of 6 bytes": (_rows(3, torch.bfloat16), {"mode": "wrap"}),
    "points, k = 2": (_of("gather_nd", (1000, 1000), (5000, 2)), {}),
    "points, k = 3": (_of("gather_nd", (100, 100, 100), (5000, 3)), {}),
    "elements, axis 0": (_of("gather_elements", (50, 60, 70), (50, 60, 70)), {"axis": 0}),
    "windows with a fill": (
        _of("gather_windows", (50, 60, 7), (500, 2)),
        {"window_shape": (3, 3), "mode": "fill"},
    ),
    "rows, none": (_rows(128, reduction="none"), {"mode": "clip"}),
    "rows, add": (_rows(128, reduction="add"), {"reduction": "add", "mode": "clip"}),
    "rows, add, bfloat16": (
        _rows(128, torch.bfloat16, reduction="add"),
        {"reduction": "add", "mode": "clip"},
    ),
    "rows, add, float64": (
        _rows(2048, torch.float64, reduction="add"),
        {"reduction": "add", "mode": "clip"},
    ),
    "rows, add, int32": (
        _rows(128, _INT, reduction="add"),
        {"reduction": "add", "mode": "clip"},
    ),
    "points, max": (
        _of("scatter_nd", (1000, 100), (5000, 2), (5000,)),
        {"reduction": "max", "mode": "drop"},
    ),
}


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled for a target."""

    kernel: str
    registers: int
    spilled: int  # registers, or bytes on the stack
    text: str  # bytes of assembly

    def widest(self, action):
        """Return the size in bytes of the widest `load` or `store`."""
        if self.text.lstrip().startswith("//"):
            names = {"load": "ld", "store": "st"}
            pattern = rf"\b{names[action]}\.global(?:\.v(\d))?\.b(\d+)"
            found = re.findall(pattern, self.text)
            return max((int(count or 1) * int(bits) // 8 for count, bits in found), default=0)
        words = re.findall(rf"_{action}_dword(?:x(\d))?\b", self.text)
        return max((4 * int(count or 1) for count in words), default=0)


def compiled(name, target):
    """Return the compiled kernels of a call without running them."""
    (kind, data, indices, updates), options = CALLS[name]
    call = Call(kind, Kind(kind), data, indices, updates, **options)
    call = checks.checked(checks.with_nonnegative_axes(call))
    found, launch = [], JITFunction.run

    def compile_only(self, *arguments, grid, warmup, **more):
        kernel = launch(self, *arguments, grid=grid, warmup=True, **more)
        found.append(_compiled(self.__name__, kernel.asm))

    device = SimpleNamespace(
        get_current_target=lambda: TARGETS[target],
        get_current_device=lambda: 0,
        get_current_stream=lambda _: 0,
    )
    for kernel in (kernels.gather_kernel, kernels.key_kernel, kernels.scatter_kernel):
        kernel.device_caches.clear()
    JITFunction.run, before = compile_only, driver._active
    driver.set_active(device)
    try:
        kernels.run(call)
    finally:
        JITFunction.run = launch
        driver._active = before
    return found


def _compiled(kernel, asm):
    if "cubin" not in asm:
        text = asm["amdgcn"]
        used, spilled, stack = (
            int(re.search(rf"\.{what}:\s+(\d+)", text)[1])
            for what in ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size")
        )
        return Compiled(kernel, used, spilled + stack, text)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(asm["cubin"])
        command = [_CUOBJDUMP, "-res-usage", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used, stack, local = (
        int(re.search(rf"{what}:(\d+)", report)[1]) for what in ("REG", "STACK", "LOCAL")
    )
    return Compiled(kernel, used, stack + local, asm["ptx"])


def main():
    """Print the registers and the widest loads and stores of the kernels."""
    print(f"| call | kernel | {' | '.join(TARGETS)} | spilled | load, store |")
    print(f"|---|---|{'---:|' * (len(TARGETS) + 2)}")
    for name in CALLS:
        targets = [compiled(name, target) for target in TARGETS]
        for of_kernel in zip(*targets, strict=True):
            first = of_kernel[0]
            registers = " | ".join(str(each.registers) for each in of_kernel)
            spilled = sum(each.spilled for each in of_kernel)
            widths = f"{first.widest('load')}, {first.widest('store')}"
            print(f"| {name} | `{first.kernel}` | {registers} | {spilled} | {widths} |")


if __name__ == "__main__":
    main()
