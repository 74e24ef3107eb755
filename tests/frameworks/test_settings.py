"""Results and errors do not depend on the settings of torch, JAX and NumPy."""

import subprocess
import sys
import warnings
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ndgather
from ndgather.errors import CallError, DTypeError, IndexOutOfBoundsError

DATA = np.arange(6, dtype=np.float32).reshape(3, 2)


@contextmanager
def chosen(choose, value, before):
    choose(value)
    try:
        yield
    finally:
        choose(before)


@contextmanager
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


SETTINGS = {
    "torch": {
        "device meta": lambda: torch.device("meta"),
        "default device meta": lambda: chosen(torch.set_default_device, "meta", None),
        "default dtype": lambda: chosen(torch.set_default_dtype, torch.float64, torch.float32),
        "deterministic": lambda: chosen(torch.use_deterministic_algorithms, True, False),
        "inference": torch.inference_mode,
        "no gradient": torch.no_grad,
        "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
        "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    },
    "jax": {
        "64 bits": lambda: jax.enable_x64(True),
        "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
        "strict promotion": lambda: jax.numpy_dtype_promotion("strict"),
        "NaN is an error": lambda: jax.debug_nans(True),
        "no jit": jax.disable_jit,
        "checked tracers": jax.checking_leaks,
    },
}
SETTINGS["numpy"] = {}
for _library in SETTINGS:
    SETTINGS[_library] |= {
        "errors of NumPy": lambda: np.errstate(all="raise"),
        "warnings": warnings_are_errors,
    }
MAKE = {
    "torch": lambda array: torch.from_numpy(array.copy()),
    "jax": jnp.asarray,
    "numpy": np.copy,
}
CASES = [(library, setting) for library, settings in SETTINGS.items() for setting in settings]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(("library", "setting"), CASES)
def test_results_and_errors_do_not_depend_on_settings(library, setting):
    make = MAKE[library]
    data, places = make(DATA), make(np.array([[2], [0]]).astype(np.int32))
    row, column = make(np.ones((1, 2), np.float32)), make(np.array([[0], [5]], np.int32))
    with SETTINGS[library][setting]():
        results = {
            "gather_nd": ndgather.gather_nd(data, places),
            "list": ndgather.gather(data, [1, 0], axis=1),
            "fill": ndgather.gather_nd(data, column, mode="fill", fill_value=7),
            "windows": ndgather.gather_windows(data, [[-1, 1]], (2, 2), mode=("edge", "wrap")),
            "mean": ndgather.scatter_nd(data, places[:1], row, reduction="mean"),
            "max": ndgather.scatter_nd(data, [[1]], [[9, 0]], reduction="max", use_init_val=False),
        }
        with pytest.raises(IndexOutOfBoundsError, match=r"indices\[1, 0\] = 5"):
            ndgather.gather_nd(data, column)
        with pytest.raises(CallError, match="dim = 1 is not an argument"):
            ndgather.gather_nd(data, places, dim=1)
        with pytest.raises(DTypeError, match="fill_value = 1e"):
            ndgather.gather_nd(data, places, mode="fill", fill_value=1e300)
        with pytest.raises(DTypeError, match="updates"):
            ndgather.scatter_nd(data, places[:1], [[1e300, 1]])
    wanted = {
        "gather_nd": [[4, 5], [0, 1]],
        "list": [[1, 0], [3, 2], [5, 4]],
        "fill": [[0, 1], [7, 7]],
        "windows": [[[1, 0], [1, 0]]],
        "mean": [[0, 1], [2, 3], [2.5, 3]],
        "max": [[0, 1], [9, 0], [4, 5]],
    }
    for name, result in results.items():
        assert type(result) is type(data), name
        assert result.dtype == data.dtype, name
        assert result.tolist() == wanted[name], name


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_default_device_before_the_first_call(device):
    program = (
        f"import torch, ndgather\ntorch.set_default_device({device!r})\n"
        "x = torch.arange(3.0, device='cpu').requires_grad_()\n"
        "i = torch.tensor([2, 0], device='cpu')\n"
        "y = ndgather.gather(x.bfloat16(), i, mode='fill', fill_value=1.5)\n"
        "z = ndgather.scatter_nd(x, [[0]], [5], reduction='min', use_init_val=False)\n"
        "e = torch.zeros(2, dtype=torch.float8_e4m3fn, device='cpu')\n"
        "e = ndgather.scatter_nd(e, [[1], [1]], [2, 3], reduction='add', use_init_val=False)\n"
        "gradient = torch.autograd.grad(y.sum(), x)[0]\n"
        "print(y.tolist(), z.tolist(), e.float().tolist(), gradient.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    wanted = "[2.0, 0.0] [5.0, 1.0, 2.0] [0.0, 5.0] [1.0, 0.0, 1.0]"
    assert done.stdout.strip() == wanted, done.stderr


def test_a_transform_around_the_first_call():
    program = (
        "import torch, ndgather; places = torch.tensor([[1], [0]]); "
        "take = lambda data: ndgather.gather_nd(data, places); "
        "print(torch.func.jvp(take, (torch.ones(2),), (torch.tensor([3.0, 4.0]),))[1].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[4.0, 3.0]\n", done.stderr
