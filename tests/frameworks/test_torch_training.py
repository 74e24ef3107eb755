"""Tensors in training: hooks, copies, threads, second derivatives, unusual shapes."""

import copy
import io
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import ndgather
from ndgather.errors import IndexOutOfBoundsError, NdgatherError

ROWS = torch.tensor([[3], [-1], [3]])
EACH = (torch.tensor([3, -1, 3]),)


def leaf(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return torch.rand(shape, generator=generator).to(dtype).requires_grad_()


def gradient(function, data):
    (found,) = torch.autograd.grad(function(data).pow(3).sum(), data)
    return found


def ours(data):
    return ndgather.gather_nd(data, ROWS)


def native(data):
    return data[EACH]


def same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_out_of_bounds_indices_raise_with_gradients():
    for options in ({}, {"mode": "raise"}):
        with pytest.raises(IndexOutOfBoundsError, match=r"^gather_nd: indices\[0, 0\] = 9"):
            ndgather.gather_nd(leaf(5, 2), torch.tensor([[9]]), **options)


# torch's own tangents of other functions use it
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("mode", ["wrap", "clip", "fill"])
@pytest.mark.parametrize(
    ("function", "options"),
    [
        (ndgather.gather_nd, {"batch_dims": 1}),
        (ndgather.gather, {"axis": -1}),
        (ndgather.gather, {"axis": -1, "batch_dims": -1}),
        (ndgather.gather_elements, {"axis": -2}),
    ],
)
def test_modes_and_axes(function, options, mode):
    data, indices = leaf(3, 4, 5), torch.arange(-9, 9).reshape(3, 3, 2)
    if mode == "fill":
        options = options | {"fill_value": 2}
    if function is ndgather.gather and "batch_dims" in options:
        indices = indices.reshape(3, 6)
        options = options | {"batch_dims": 1}

    def call(data):
        return function(data, indices, mode=mode, **options)

    assert torch.autograd.gradcheck(call, data, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, data)
    assert call(data).requires_grad
    with torch.no_grad():
        same(call(data), call(data.detach()))


def test_graphs_can_be_retained_and_hooks_are_called():
    data, seen = leaf(5, 2), []
    data.register_hook(seen.append)
    result = ours(data)
    result.retain_grad()
    loss = result.sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert len(seen) == 2
    same(data.grad, 2 * gradient(lambda x: native(x).pow(1 / 3), data).round())
    assert result.grad.tolist() == [[2, 2]] * 3
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_views_and_in_place_changes_of_parameters():
    for make in (lambda x: x[1:], lambda x: x.t(), lambda x: x[:, :1].expand(7, 3)):
        data = torch.nn.Parameter(leaf(7, 4).detach())
        same(
            gradient(lambda x, make=make: ours(make(x)), data),
            gradient(lambda x, make=make: native(make(x)), data),
        )
    data = leaf(5, 2)
    result = ours(data * 1)
    result += 1
    result.mul_(2).sum().backward()
    assert data.grad[3].tolist() == [4, 4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
def test_short_floats(dtype):
    data = leaf(5, 2, dtype=dtype)
    result = ours(data)
    result.sum().abs().backward()
    theirs = data.detach().clone().requires_grad_()
    native(theirs).sum().abs().backward()
    assert result.dtype == dtype
    torch.testing.assert_close(data.grad, theirs.grad)


def test_empty_and_scalar_tensors():
    data = leaf(0, 3)
    result = ndgather.gather_nd(data, torch.zeros(0, 1, dtype=torch.int64))
    result.sum().backward()
    assert (result.shape, data.grad.shape) == ((0, 3), (0, 3))
    number = leaf()
    result = ndgather.gather_nd(number, torch.zeros(2, 0, dtype=torch.int64))
    result.sum().backward()
    assert (result.shape, number.grad) == ((2,), 2)
    table = leaf(4, 2)
    row = ndgather.gather(table, torch.tensor(2))
    row.sum().backward()
    assert (row.shape, table.grad[2].tolist()) == ((2,), [1, 1])


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(leaf(5, 2).detach())

    def forward(self, rows):
        return ndgather.gather_nd(self.weight, rows).sum()


def test_models_can_be_copied_saved_and_called_with_other_weights():
    model, file = Table(), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        other(ROWS).backward()
        assert other.weight.grad[3].tolist() == [2, 2]
        assert model.weight.grad is None
    zeros = {"weight": torch.zeros(5, 2)}
    assert torch.func.functional_call(model, zeros, (ROWS,)) == 0
    per_row = torch.func.grad(lambda w: torch.func.functional_call(model, {"weight": w}, (ROWS,)))
    assert per_row(torch.ones(5, 2))[3].tolist() == [2, 2]


def test_threads_run_backward_through_own_and_shared_graphs():
    data = leaf(5, 2)
    shared = ours(data).pow(3).sum()
    expected = gradient(native, data)

    def back(_):
        return torch.autograd.grad(shared, data, retain_graph=True)[0], gradient(ours, data)

    with ThreadPoolExecutor(4) as pool:
        for pair in pool.map(back, range(40)):
            for each in pair:
                same(each, expected)


def test_checkpoints_and_saved_tensor_hooks():
    data = leaf(5, 2)
    same(gradient(lambda x: checkpoint(ours, x, use_reentrant=False), data), gradient(native, data))
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return len(packed) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
        result = ours(data).sum()
    assert any(each.equal(ROWS) for each in packed)
    result.backward()
    assert data.grad[3].tolist() == [2, 2]


def test_inference_tensors():
    with torch.inference_mode():
        data = torch.ones(5, 2)
        assert ours(data).is_inference()
    assert not ours(data).requires_grad
    with torch.inference_mode():
        assert not ours(leaf(5, 2)).requires_grad
    with torch.inference_mode():
        indices = ROWS + 0
    same(
        gradient(lambda x: ndgather.gather_nd(x, indices), leaf(5, 2)), gradient(native, leaf(5, 2))
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max", "mean"])
def test_second_derivatives_of_scatters(reduction):
    data, updates = leaf(4), (leaf(3) + 0.5).detach().requires_grad_()
    indices = torch.tensor([[0], [2], [0]])

    def call(data, updates):
        return ndgather.scatter_nd(data, indices, updates, reduction=reduction)

    assert torch.autograd.gradgradcheck(call, (data, updates))


def test_expanded_out_is_refused():
    out = torch.zeros(1, 2).expand(3, 2)
    with pytest.raises(NdgatherError, match="out"):
        ndgather.gather_nd(torch.ones(5, 2), ROWS, out=out)
    assert not out.any()


class Logged(torch.Tensor):
    names = ()

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.names += (getattr(function, "__name__", str(function)),)
        return super().__torch_function__(function, types, args, kwargs or {})


def test_subclasses_with_torch_function_are_kept_and_have_gradients():
    data = leaf(5, 2).detach().as_subclass(Logged).requires_grad_()
    result = ours(data)
    assert type(result) is Logged
    result.sum().backward()
    assert data.grad[3].tolist() == [2, 2]


def test_gather_saves_indices_but_not_data_for_backward():
    leaf = torch.ones(4, 3, requires_grad=True)
    data = leaf * 2
    seen = weakref.ref(data)
    result = ndgather.gather_nd(data, torch.tensor([[1], [1]]))
    del data
    assert seen() is None
    result.sum().backward()
    assert leaf.grad[:, 0].tolist() == [0, 4, 0, 0]
