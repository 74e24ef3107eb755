"""Which tests run as Triton interprets the kernels, and which otherwise."""

import os

collect_ignore = []
if os.environ.get("NDGATHER_TORCH_KERNELS") != "1":
    collect_ignore.append("test_torch_kernels.py")
