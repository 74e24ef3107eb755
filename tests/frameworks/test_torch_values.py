"""CPU tensors: the values of the plain loops, in the type of data."""

import numpy as np
import pytest
import torch

import ndgather
from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError
from tests.frameworks.torch_calls import (
    REDUCTIONS,
    data_of,
    same,
)

WITHOUT_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", WITHOUT_NUMPY)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("use_init_val", [True, False])
def test_dtypes_that_numpy_lacks(dtype, reduction, use_init_val, rng):
    """Each step is rounded to the dtype, like the loop in float32."""
    data, updates = data_of(rng, (5,)).to(dtype), data_of(rng, (9,)).to(dtype)
    indices = rng.integers(0, 5, (9, 1))
    options = {"reduction": reduction, "use_init_val": use_init_val}
    wanted, counts = data.clone(), torch.zeros(5)
    for (place,), update in zip(indices.tolist(), updates, strict=True):
        old, new = wanted[place].float(), update.float()
        if not counts[place] and not use_init_val and reduction != "none":
            value = {"mul": 1.0, "min": new, "max": new}.get(reduction, 0.0)
            old = torch.as_tensor(value)
        counts[place] += 1
        step = {"sub": old - new, "mul": old * new, "none": new}.get(reduction, old + new)
        if reduction in ("min", "max"):
            step = getattr(torch, reduction + "imum")(old, new)
        wanted[place] = step.to(dtype)
    if reduction == "mean":
        counts = (counts + int(use_init_val)).clamp(min=1)
        wanted = (wanted.float() / counts).to(dtype)
    result = ndgather.scatter_nd(data, torch.from_numpy(indices), updates, **options)
    assert result.dtype == dtype
    same(result.float(), wanted.float())
    same(ndgather.gather_nd(data, indices).float(), data[indices[:, 0]].float())
    filled = ndgather.gather_nd(data, [[9]], mode="fill", fill_value=1.5)
    same(filled.float(), torch.tensor([1.5]))


def test_conjugate_and_negative_views(rng):
    data = torch.complex(data_of(rng, (4, 3)), data_of(rng, (4, 3)))
    for view in (data.conj(), data.conj().imag, data.conj().imag[::2]):
        same(ndgather.gather_nd(view, [[1], [0]]), view.resolve_conj().resolve_neg()[[1, 0]])


def test_views_with_any_strides(rng):
    data = data_of(rng, (4, 6)).t()[::2]
    same(ndgather.gather_nd(data, [[2, 1], [0, 3]]), data[[2, 0], [1, 3]])
    same(ndgather.gather(data.expand(2, 3, 4), [1], axis=2), data.expand(2, 3, 4)[:, :, [1]])


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint64])
def test_indices_of_every_dtype(dtype, rng):
    data = data_of(rng, (4, 3))
    same(ndgather.gather_nd(data, torch.tensor([[3], [1]]).to(dtype)), data[[3, 1]])


def test_results_have_the_type_of_data(rng):
    data = data_of(rng, (4,))
    for given in ([[1]], np.array([[1]]), torch.tensor([[1]])):
        assert isinstance(ndgather.gather_nd(data, given), torch.Tensor)
    assert isinstance(ndgather.gather_nd(data.numpy(), torch.tensor([[1]])), np.ndarray)
    assert isinstance(ndgather.scatter_nd(data, [[1]], [2.5]), torch.Tensor)
    same(
        ndgather.scatter_nd(data, [[1]], np.array([2.5])),
        data.index_fill(0, torch.tensor([1]), 2.5),
    )


def test_out_receives_the_result(rng):
    data, out = data_of(rng, (4, 3)), torch.empty(2, 3, dtype=torch.float64)
    assert ndgather.gather_nd(data, [[1], [2]], out=out) is out
    same(out, data[1:3])
    wide = torch.empty(3, 2, dtype=torch.float64)
    ndgather.gather_nd(data, [[1], [2]], out=wide.t())
    same(wide.t(), data[1:3])
    before, version = data.clone(), data._version
    assert (
        ndgather.scatter_nd(data, [[1]], torch.zeros(1, 3, dtype=torch.float64), out=data) is data
    )
    before[1] = 0
    same(data, before)
    assert data._version > version
    half = torch.ones(3, dtype=torch.bfloat16)
    ndgather.scatter_nd(half, [[1], [1]], half[:2], reduction="add", out=half)
    same(half, torch.tensor([1.0, 3, 1]).bfloat16())


@pytest.mark.parametrize(
    "out", [torch.empty(3), torch.empty(2, 3), np.empty((2, 3)), torch.empty(4)[:3]]
)
def test_out_that_cannot_hold_the_result(out, rng):
    with pytest.raises(NdgatherError, match=r"^gather_nd: out"):
        ndgather.gather_nd(data_of(rng, (4, 3)), [[1], [2]], out=out)


def test_out_with_gradients_is_refused(rng):
    data = data_of(rng, (4,)).requires_grad_()
    with pytest.raises(NdgatherError, match=r"out is given, but data requires a gradient"):
        ndgather.gather_nd(data, [[1]], out=torch.empty(1, dtype=torch.float64))
    with torch.no_grad():
        ndgather.gather_nd(data, [[1]], out=torch.empty(1, dtype=torch.float64))
        ndgather.scatter_nd(data, [[1]], [5.0], out=data)
    assert data[1] == 5


def test_errors_name_the_position(rng):
    data = data_of(rng, (4, 3))
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[1, 0\] = 4 is outside axis 0"):
        ndgather.gather_nd(data, torch.tensor([[1], [4]]))
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[1\] = -5 is outside axis 0"):
        ndgather.scatter_elements(data[:, 0], torch.tensor([1, -5]), data[:2, 0].requires_grad_())
    with pytest.raises(DTypeError, match=r"updates.dtype = torch.float32 differs"):
        ndgather.scatter_nd(data, torch.tensor([[1]]), torch.ones(1, 3))
    with pytest.raises(DTypeError, match=r"indices.dtype = torch.float32"):
        ndgather.gather_nd(data, torch.ones(1, 1))
    with pytest.raises(NdgatherError, match=r"fill_value"):
        ndgather.gather_nd(data.to(torch.int8), torch.tensor([[9]]), mode="fill", fill_value=300)
    with pytest.raises(NdgatherError, match=r"axis"):
        ndgather.gather(data, torch.tensor([1]), axis=2)
    with pytest.raises(NdgatherError, match=r"reduction = 'sum'"):
        ndgather.scatter_nd(data, torch.tensor([[1]]), data[:1], reduction="sum")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, 3).to_sparse(),
        lambda: torch.ones(2, 3).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
    ],
    ids=["coo", "csr", "nested", "jagged", "quantized"],
)
def test_tensors_without_strides_are_refused(make):
    with pytest.raises(NdgatherError, match=r"^gather_nd: data"):
        ndgather.gather_nd(make(), torch.tensor([[1]]))


def test_published_operators_accept_tensors(rng):
    data, indices = data_of(rng, (4, 3)).float().requires_grad_(), torch.tensor([[1], [3]])
    gather = ndgather.operator("GatherND", version=13)
    result = gather(data, indices)
    same(result.detach(), data.detach()[[1, 3]])
    (gradient,) = torch.autograd.grad(result.sum(), data)
    assert gradient.sum(1).tolist() == [0, 3, 0, 3]
    with pytest.raises(DTypeError, match=r"ai\.onnx GatherND-13: indices\.dtype = int32"):
        gather(data, indices.int())
    with pytest.raises(IndexOutOfBoundsError, match=r"^ai\.onnx GatherND-13: indices\[0, 0\] = 4"):
        gather(data.detach(), indices + 3)
    add = ndgather.operator("ScatterND", version=16)
    half = torch.ones(4, dtype=torch.bfloat16)
    same(add(half, indices, half[:2], reduction="add"), torch.tensor([1.0, 2, 1, 2]).bfloat16())
    axis = ndgather.operator("Gather", domain="openvino", version=8)
    same(axis(data.detach(), torch.tensor([0, 7]), 0)[1], torch.zeros(3))
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.operator("Gather", domain="openvino", version=1)(data, torch.tensor([-1]), 0)
