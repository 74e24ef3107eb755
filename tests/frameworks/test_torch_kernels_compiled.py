"""The GPU kernels, compiled for devices that need not be present."""

import re

import pytest
import torch

import ndgather
from ndgather.array_call import Kind
from ndgather.arrays.torch import kernels
from ndgather.errors import AttributeValueError
from tests.frameworks.compiled_kernels import CALLS, TARGETS, compiled

NVIDIA = [name for name in TARGETS if name.startswith("sm_")]
CALLS_OF_ROWS = {name for name in CALLS if name.startswith("rows")} - {"rows of 6 bytes"}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CALLS)
def test_no_registers_spill_and_rows_use_wide_words(name, target):
    for kernel in compiled(name, target):
        assert kernel.spilled == 0
        assert kernel.registers <= 128
        if target in NVIDIA and name in CALLS_OF_ROWS and kernel.kernel != "key_kernel":
            assert kernel.widest("load") == 16
            if kernel.kernel == "gather_kernel":
                assert "ld.global.v4.b32" in kernel.text
                assert "st.global.v4.b32" in kernel.text


@pytest.mark.parametrize("target", NVIDIA)
def test_float_sums_keep_subnormals_and_use_no_atomics(target):
    for name in ("rows, add", "rows, add, bfloat16", "rows, add, float64", "points, max"):
        keys, scatter = compiled(name, target)
        assert ".ftz" not in scatter.text
        assert not re.search(r"fma\.rn\.f(32|64)", scatter.text)
        assert not re.search(r"\b(atom|red)\.", keys.text + scatter.text)
    keys, scatter = compiled("rows, add, int32", target)
    assert "atom." in scatter.text or "red." in scatter.text


def test_captured_graphs_do_not_check_indices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with torch._subclasses.FakeTensorMode():
        data = torch.empty(4, 3, device="cuda")
        indices = torch.empty(2, 1, dtype=torch.int64, device="cuda")
        call = ndgather.array_call.Call("gather_nd", Kind.GATHER_ND, data, indices)
        with pytest.raises(AttributeValueError) as error:
            kernels.run(call)
    assert str(error.value) == (
        "gather_nd: mode = 'raise' waits for the device, which a CUDA graph cannot capture "
        "(allowed: wrap, clip, fill)"
    )
