"""No package of arrays is imported before a caller does so."""

import subprocess
import sys

import pytest

PACKAGES = (
    *("array_api_strict", "astropy", "jax", "ndonnx", "pandas", "pint"),
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


def test_calls_on_numpy_arrays_import_none():
    done = subprocess.run(
        [sys.executable, "-c", CALLS], capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(PACKAGES) & set(done.stdout.split())


ADAPTERS = """
import sys
import numpy as np
import {package}
import ndgather
data = {made}
before = set(sys.modules)
ndgather.gather(data, [1, 0])
ndgather.scatter_elements(data, [1], [5])
after = {{name.partition(".")[0] for name in set(sys.modules) - before}}
loaded = [name for name in sys.modules if name.startswith("ndgather.arrays.")]
print(*sorted({{name.split(".")[2] for name in loaded}}), "|", *sorted(after))
"""


@pytest.mark.parametrize(
    ("package", "made", "adapters"),
    [
        ("numpy", "np.ma.arange(3)", {"masked"}),
        ("pandas", "pandas.Series([1, 2, 3])", {"pandas", "element_numbers"}),
        ("polars", "polars.Series([1, 2, 3])", {"polars", "element_numbers"}),
        ("pyarrow", "pyarrow.array([1, 2, 3])", {"pyarrow", "element_numbers"}),
        ("pint", "pint.Quantity(np.arange(3), '')", {"pint"}),
    ],
)
def test_a_call_imports_the_adapter_of_its_arrays_alone(package, made, adapters):
    code = ADAPTERS.format(package=package, made=made)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded, others = done.stdout.split("|")
    assert set(loaded.split()) == adapters
    assert not (set(PACKAGES) - {package}) & set(others.split())
