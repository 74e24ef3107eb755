"""ndgather imports no array library before its caller does."""

import subprocess
import sys

PACKAGES = (
    *("array_api_strict", "jax", "ndonnx", "pandas"),
    *("polars", "pyarrow", "sparse", "tensorflow", "torch"),
)
CALLS = """
import sys
import numpy as np
import ndgather
ndgather.gather_nd(np.arange(3), [[1]])
ndgather.scatter_nd([1, 2], [[1]], [3])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_calls_on_numpy_arrays_import_no_framework():
    done = subprocess.run(
        [sys.executable, "-c", CALLS], capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(PACKAGES) & set(done.stdout.split())
