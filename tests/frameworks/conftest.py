"""Selection of the tests that run in Triton's interpreter; devices for JAX."""

import os

# Before JAX is imported: arrays are on the first device unless a test chooses another.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

collect_ignore = []
if os.environ.get("NDGATHER_TORCH_KERNELS") != "1":
    collect_ignore.append("test_torch_kernels.py")
