"""Which tests run as Triton interprets the kernels, and which otherwise; devices for JAX."""

import os

# Before JAX is imported: arrays are on the first device unless a test says otherwise.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

collect_ignore = []
if os.environ.get("NDGATHER_TORCH_KERNELS") != "1":
    collect_ignore.append("test_torch_kernels.py")
