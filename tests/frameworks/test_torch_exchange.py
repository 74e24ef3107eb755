"""Plain CPU tensors, which the core accepts directly, and tensors that it does not accept."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import ndgather
import ndgather.arrays.torch
from ndgather.array_call import Call, _core
from ndgather.errors import IndexOutOfBoundsError

DTYPES = [
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    torch.float8_e8m0fnu,
]
PLACES = torch.tensor([[1, 2], [0, 0], [-1, -3]])


def taken(data, indices, updates=None, kind="gather_nd", out=None, reduction="none"):
    """Return the core's result of a call, or None if it leaves the call to the adapter."""
    result = Call(kind, kind, data, indices, updates, reduction=reduction, out=out).run()
    left = isinstance(result, _core.Refusal) and result.rule in ("fallback", "gradient")
    return None if left else result


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def drawn(dtype, shape=(2, 3)):
    """Return a tensor whose elements have different bits."""
    size = torch.empty((), dtype=dtype).element_size()
    count = int(np.prod(shape))
    if dtype == torch.bool:
        return (torch.arange(count) % 2 == 0).reshape(shape)
    raw = (torch.arange(count * size) * 7 % 120).to(torch.uint8)
    return raw.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_dtype_keeps_its_bits(dtype):
    data = drawn(dtype)
    result = taken(data, PLACES)
    assert type(result) is torch.Tensor
    assert result.dtype == dtype
    picked = torch.stack([bits(data[1, 2:]), bits(data[0, :1]), bits(data[1, :1])])
    assert torch.equal(bits(result).reshape(picked.shape), picked)
    updates = drawn(dtype, (3,))
    scattered = taken(data, PLACES, updates, "scatter_nd")
    assert torch.equal(bits(taken(scattered, PLACES[:1])), bits(updates[:1]))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.is_floating_point], ids=str)
def test_empty_floats_are_no_index_tuples(dtype):
    tuples = torch.empty((0, 2), dtype=dtype)
    assert ndgather.gather_nd(torch.zeros(2, 3), tuples).shape == (0,)


def test_layouts():
    base = torch.arange(24.0).reshape(4, 6)
    for data in (base.T, base[1:, ::2], base[2:], base.expand(2, 4, 6)[1]):
        rows, columns = torch.tensor([0, 1]), torch.tensor([2, 0])
        result = taken(data, torch.stack([rows, columns], 1))
        torch.testing.assert_close(result, data[rows, columns], rtol=0, atol=0)
        assert result.is_contiguous()
    assert taken(torch.zeros(0, 3), torch.zeros((0, 1), dtype=torch.int64)).shape == (0, 3)
    assert taken(torch.tensor(3.0), torch.zeros((0,), dtype=torch.int64)).item() == 3.0


def test_results_outlive_their_inputs_and_are_writable():
    data = torch.rand(600_000)
    result = taken(data, torch.arange(600_000)[:, None])
    expected = data.clone()
    del data
    assert torch.equal(result, expected)
    result += 1
    assert torch.equal(result, expected + 1)


def test_mixed_with_numpy_arrays():
    data = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(taken(data, PLACES.numpy()), torch.tensor([5.0, 0.0, 3.0]))
    result = taken(data.numpy(), PLACES)
    np.testing.assert_array_equal(result, np.array([5.0, 0.0, 3.0], "f4"), strict=True)


def test_bfloat16_sums_equal_torch():
    data = torch.rand(50).bfloat16()
    updates, places = torch.rand(20).bfloat16(), torch.randperm(50)[:20]
    result = taken(data, places[:, None], updates, "scatter_nd", reduction="add")
    assert torch.equal(result, data.index_add(0, places, updates))


@pytest.mark.parametrize("scatters", [False, True])
def test_gradients_go_to_the_adapter(scatters):
    data = torch.rand(2, 3, requires_grad=True)
    updates = torch.rand(3, requires_grad=True)
    arguments = (torch.rand(2, 3), PLACES, updates, "scatter_nd") if scatters else (data, PLACES)
    assert taken(*arguments) is None
    with torch.no_grad():
        assert not taken(*arguments).requires_grad
    with torch.inference_mode():
        assert taken(*arguments).is_inference()
    function = ndgather.scatter_nd if scatters else ndgather.gather_nd
    assert function(*arguments[: 2 + scatters]).requires_grad


@pytest.mark.parametrize("data", [[0.0, 1.0], np.arange(2.0), np.arange(2.0)[::-1]], ids=str)
def test_data_keeps_its_library_with_updates_of_tensors(data):
    places, updates = torch.tensor([[1]]), torch.tensor([7.0], dtype=torch.float64)
    expected = [next(iter(data)), 7.0]
    for indices in (places, places.numpy()):
        result = ndgather.scatter_nd(data, indices, updates)
        assert type(result) is np.ndarray
        assert result.tolist() == expected
        with pytest.raises(ndgather.errors.DTypeError, match=r"write torch\.as_tensor\(data\)"):
            ndgather.scatter_nd(data, indices, updates.clone().requires_grad_())
        with pytest.raises(ndgather.errors.DTypeError, match="does not belong to the library"):
            ndgather.scatter_nd(data, indices, updates, out=torch.empty(2, dtype=torch.float64))
    out = np.empty(2)
    assert ndgather.scatter_nd(np.array(data), places, updates, out=out) is out
    assert out.tolist() == expected


def rule_of(data, indices=PLACES, *, fill=None, out=None, mode="raise"):
    call = Call("gather_nd", "gather_nd", data, indices, mode=mode, fill_value=fill, out=out)
    return call.run().rule


def test_gradient_error_names_the_argument():
    data = torch.rand(2, 3, requires_grad=True)
    other = torch.rand(2, 3, dtype=torch.complex64, requires_grad=True)
    assert (
        rule_of(data) == rule_of(other) == rule_of(torch.nn.Parameter(data.detach())) == "gradient"
    )
    with forward_ad.dual_level():
        assert rule_of(data) == "fallback"
    fill = torch.tensor(1.0)
    assert rule_of(data, mode="fill", fill=fill) == rule_of(other.conj()) == "fallback"
    assert rule_of(data, PLACES.numpy()) == rule_of(data, out=torch.empty(3)) == "fallback"
    empty = torch.empty(3, requires_grad=True)
    assert rule_of(data.detach(), out=empty) == "fallback"
    assert rule_of(data, PLACES.float()) == "index_dtype"


def test_gradient_with_a_transform_of_another_tensor():
    data = torch.rand(2, 3, requires_grad=True)

    def scaled(factor):
        return (factor * ndgather.gather_nd(data, PLACES)).sum()

    slope = torch.func.grad(scaled)(torch.tensor(2.0))
    taken = data[PLACES[:, 0], PLACES[:, 1]]
    assert torch.equal(slope.detach(), taken.sum().detach())
    (of_data,) = torch.autograd.grad(slope, data)
    expected = torch.zeros(2, 3).index_put(
        (PLACES[:, 0], PLACES[:, 1]), torch.ones(3), accumulate=True
    )
    assert torch.equal(of_data, expected)


def test_parameters():
    table = torch.nn.Parameter(torch.rand(4, 3))
    assert taken(table, torch.tensor([[1]])) is None
    with torch.no_grad():
        result = taken(table, torch.tensor([[1]]))
    assert type(result) is torch.Tensor
    assert torch.equal(result[0], table.detach()[1])


def test_lazy_views_go_to_the_adapter():
    data = torch.complex(torch.rand(2, 3), torch.rand(2, 3)).conj()
    for view in (data, data.imag, data.real.neg() * 0 + data.imag):
        lazy = view.is_conj() or view.is_neg()
        assert (taken(view, PLACES) is None) == lazy
        result = ndgather.gather_nd(view, PLACES)
        expected = view.resolve_conj().resolve_neg()[PLACES[:, 0], PLACES[:, 1]]
        assert torch.equal(result, expected)


@pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")
def test_tangents_go_to_the_adapter():
    data = torch.rand(2, 3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(data, torch.ones(2, 3))
        assert taken(dual, PLACES) is None
        tangent = forward_ad.unpack_dual(ndgather.gather_nd(dual, PLACES)).tangent
        assert tangent.tolist() == [1] * len(PLACES)
    assert taken(data, PLACES) is not None


@pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")
def test_wrapped_tensors_go_to_the_adapter():
    seen = []

    def function(data):
        seen.append(taken(data, PLACES))
        return data

    data = torch.rand(4, 2, 3)
    torch.func.vmap(function)(data)
    torch.func.grad(lambda each: function(each).sum())(data)
    torch.func.jvp(function, (data,), (data,))
    torch.func.functionalize(function)(data)
    torch.jit.trace(function, data, check_trace=False)
    with torch._subclasses.FakeTensorMode() as mode:
        function(mode.from_tensor(data))
    assert seen == [None] * 6


@pytest.mark.parametrize(
    "data",
    [
        torch.empty(2, 3, device="meta"),
        torch.eye(3).to_sparse(),
        torch.zeros(2, 3).as_subclass(type("Own", (torch.Tensor,), {})),
    ],
    ids=["meta", "sparse", "subclass"],
)
def test_other_tensors_go_to_the_adapter(data):
    assert taken(data, PLACES) is None


def test_a_tensor_without_memory_is_refused():
    data = torch.rand(2, 3)
    data.untyped_storage().resize_(0)
    assert taken(data, PLACES) is None
    with pytest.raises(ndgather.errors.ShapeError, match=r"data.shape = .2, 3. is more"):
        ndgather.gather_nd(data, PLACES)


def test_only_errors_of_ndgather_are_raised():
    with pytest.raises(IndexOutOfBoundsError, match=r"gather_nd: indices\[1, 0\] = 2 is outside"):
        ndgather.gather_nd(torch.zeros(2), torch.tensor([[1], [2]]))
    with pytest.raises(ndgather.errors.DTypeError, match=r"indices.dtype = torch.float32 is"):
        ndgather.gather_nd(torch.zeros(2), torch.tensor([[1.0]]))


def test_writing_out_invalidates_saved_tensors():
    data, weight = torch.rand(3), torch.rand(3, requires_grad=True)
    out = torch.zeros(3)
    product = out * weight
    assert taken(data, torch.tensor([[2], [1], [0]]), out=out) is out
    assert torch.equal(out, data.flip(0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        made = torch.zeros(3)
        assert taken(data, torch.tensor([[0]] * 3), out=made) is made


class Gathered(torch.utils.data.Dataset):
    def __init__(self):
        self.data = torch.arange(600_000.0)

    def __len__(self):
        return 4

    def __getitem__(self, item):
        places = torch.arange(300_000)[:, None]
        return ndgather.gather_nd(self.data, places + item)


@pytest.mark.filterwarnings("ignore:.*fork")  # of Python, and of JAX if it is imported
def test_data_loader_workers():
    loader = torch.utils.data.DataLoader(Gathered(), batch_size=2, num_workers=2)
    batches = list(loader)
    expected = torch.arange(300_000.0) + torch.arange(4.0)[:, None]
    assert torch.equal(torch.cat(batches), expected)


@pytest.mark.parametrize("option", ["axis", "batch_dims"])
def test_option_that_frees_the_indices_is_read_first(option):
    data, indices = torch.arange(6.0).reshape(3, 2), torch.zeros(100_000, dtype=torch.int64)

    class Hostile:
        def __index__(self):
            indices.set_(torch.zeros(2, dtype=torch.int64).untyped_storage())
            indices.set_(torch.ones(1, dtype=torch.int64))
            return 0

    result = ndgather.gather(data, indices, **{option: Hostile()})
    assert result.tolist() == [[2.0, 3.0]]
