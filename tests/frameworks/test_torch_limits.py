"""Arguments at the limits of torch tensors: refused with our errors, or handled correctly."""

import numpy as np
import pytest
import torch

import ndgather
import ndgather.arrays.torch
from ndgather import vjp
from ndgather.errors import AttributeValueError, DTypeError, NdgatherError, ShapeError
from tests.core.arguments.test_hints import FOLLOWED, followed

DATA = torch.tensor([1.0, 2.0, 3.0])
PLACES = torch.tensor([[2], [-1]])
ODD = np.zeros(2, dtype=[("one", "i1"), ("index", "i8"), ("update", "f4")])
ODD["index"], ODD["update"] = [2, 0], [7, 8]


@pytest.mark.parametrize("gradient", [False, True])
def test_fill_value_that_requires_a_gradient_is_refused(gradient):
    data = DATA.clone().requires_grad_(gradient)
    fill = torch.tensor(5.0, requires_grad=True)
    with pytest.raises(AttributeValueError, match=r"^gather_nd: fill_value = tensor\(5.*gradient"):
        ndgather.gather_nd(data, PLACES + 5, mode="fill", fill_value=fill)
    result = ndgather.gather_nd(data, PLACES + 5, mode="fill", fill_value=fill.detach())
    assert result.tolist() == [5, 5]
    with torch.no_grad():
        ndgather.gather_nd(data, PLACES + 5, mode="fill", fill_value=fill)


def test_fill_value_without_a_known_number_is_refused():
    def filled(value):
        return ndgather.gather_nd(DATA, PLACES, mode="fill", fill_value=value)

    for value in (torch.zeros((), device="meta"), torch.zeros(2)):
        with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = "):
            filled(value)
    with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = "):
        torch.vmap(filled)(torch.zeros(2))


def test_options_mapped_by_vmap():
    for call, option in (
        (lambda value: ndgather.gather(DATA, PLACES, axis=value), "axis"),
        (lambda value: ndgather.gather_ranges(DATA, [0], [1], axis=value)[0], "axis"),
        (lambda value: ndgather.gather(np.ones(3), [0], batch_dims=value), "batch_dims"),
    ):
        with pytest.raises(DTypeError, match=rf": {option} = .* is not an integer"):
            torch.vmap(call)(torch.tensor([0, 0]))


def test_arrays_with_strides_that_torch_does_not_support():
    data = DATA.clone().requires_grad_()
    assert ndgather.gather(data, ODD["index"]).tolist() == [3, 1]
    result = ndgather.scatter_nd(data, ODD["index"][:, None], ODD["update"])
    assert result.tolist() == [8, 2, 7]


def test_too_many_axes_are_refused():
    many = torch.zeros((1,) * 65)
    for call in (
        lambda: ndgather.gather(many, torch.tensor([0])),
        lambda: ndgather.gather(many.clone().requires_grad_(), torch.tensor([0])),
        lambda: ndgather.gather(DATA, many.long()),
        lambda: ndgather.scatter_nd(DATA, PLACES, many),
    ):
        with pytest.raises(ShapeError, match=r"has 65 axes"):
            call()


@pytest.mark.parametrize("number", [2**63, -(2**70)])
def test_integers_beyond_64_bits(number):
    data = DATA.clone().requires_grad_()
    for call in (
        lambda: ndgather.gather(data, PLACES, axis=number),
        lambda: ndgather.gather_nd(data, PLACES, batch_dims=number),
        lambda: ndgather.gather_windows(data, PLACES, (number,)),
    ):
        with pytest.raises(NdgatherError, match=str(number)):
            call()


def test_use_init_val_is_converted_to_bool():
    data = DATA.clone().requires_grad_()

    def added(value):
        ones = torch.ones(2)
        return ndgather.scatter_nd(data, PLACES, ones, reduction="add", use_init_val=value).tolist()

    assert added("yes") == added(1) == [1, 2, 5]
    assert added(None) == added(0) == [1, 2, 2]
    with pytest.raises(DTypeError, match=r"^scatter_nd: use_init_val = "):
        added(np.array([1, 2]))


def test_bit_dtypes_are_refused_as_indices():
    for dtype in (torch.bfloat16, torch.uint4):
        indices = torch.zeros(2, dtype=torch.uint8)
        indices = indices.to(dtype) if dtype.is_floating_point else indices.view(dtype)
        for data in (DATA, DATA.numpy()):
            with pytest.raises(NdgatherError, match=r"^gather: indices.dtype = "):
                ndgather.gather(data, indices)


SHELLS = [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 8)]


@pytest.mark.parametrize("dtype", SHELLS, ids=str)
def test_integers_smaller_than_a_byte_keep_their_dtype(dtype):
    data = torch.tensor([1, 0, 1], dtype=torch.uint8).view(dtype)
    result = ndgather.gather_nd(data, PLACES - 1)
    assert result.dtype == dtype
    assert result.view(torch.uint8).tolist() == [0, 0]
    result = ndgather.scatter_nd(data, PLACES[:1], data[1:2])
    assert result.dtype == dtype
    assert result.view(torch.uint8).tolist() == [1, 0, 0]
    with pytest.raises(DTypeError, match=r"^scatter_nd: reduction = 'add'"):
        ndgather.scatter_nd(data, PLACES[:1], data[1:2], reduction="add")


def test_conjugate_and_negative_views_as_out():
    data = torch.tensor([1 + 2j, 3 - 4j, 5j])
    out = torch.zeros(2, dtype=data.dtype)
    assert ndgather.gather_nd(data, PLACES - 1, out=out.conj()).tolist() == [3 - 4j, 3 - 4j]
    assert out.tolist() == [3 + 4j, 3 + 4j]
    negated = torch.zeros(2, dtype=data.dtype).conj().imag
    assert ndgather.gather_nd(DATA, PLACES, out=negated).tolist() == [3, 3]


@pytest.mark.parametrize(("fill", "dtype"), [(1.5, torch.int64), (300, torch.uint8)])
def test_operators_keep_fill_values_exactly(fill, dtype):
    with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = "):
        torch.ops.ndgather.gather_nd(DATA.to(dtype), PLACES + 9, 0, "fill", fill)


def test_float8_fill_values_beyond_the_largest_are_refused():
    data = DATA.to(torch.float8_e4m3fn)
    for lost in (1e9, -500.0):
        with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = "):
            ndgather.gather_nd(data, PLACES + 9, mode="fill", fill_value=lost)
        with pytest.raises(DTypeError, match=r"^scatter_nd: updates\[0\] = "):
            ndgather.scatter_nd(data, PLACES, [lost, 1.0])
    result = ndgather.gather_nd(data, PLACES + 9, mode="fill", fill_value=448.0)
    assert result.float().tolist() == [448, 448]


@pytest.mark.parametrize("size", [2**62, 2**63, 2**70])
def test_gradients_of_too_large_arrays_are_refused(size):
    with pytest.raises(MemoryError, match=r"^vjp.gather_nd: "):
        vjp.gather_nd(torch.ones(2), (size,), PLACES)


@pytest.mark.parametrize("far", [2**64 - 1, 2**64 - 4, 2**63, 2**63 + 5])
def test_starts_beyond_int64_wrap_with_gradients(far):
    data = torch.arange(7.0, requires_grad=True)
    starts = torch.tensor([[far]], dtype=torch.uint64)
    result = ndgather.gather_windows(data, starts, (2,), mode="wrap")
    assert result.tolist() == [[far % 7, (far + 1) % 7]]
    result.sum().backward()
    assert data.grad.nonzero().flatten().tolist() == sorted([far % 7, (far + 1) % 7])


def test_starts_beyond_int64_under_vmap():
    data = torch.arange(10.0).reshape(2, 5)
    starts = torch.tensor([[[2**64 - 1]], [[1]]], dtype=torch.uint64)

    def windows(data, starts):
        return ndgather.gather_windows(data, starts, (2,), mode="clip")

    assert torch.vmap(windows)(data, starts).tolist() == [[[3, 4]], [[6, 7]]]


STRANGERS = {
    "nested": lambda: torch.nested.nested_tensor([DATA, DATA[:2]]),
    "jagged": lambda: torch.nested.nested_tensor([DATA, DATA[:2]], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(DATA, 0.1, 10, torch.quint8),
    "sparse": DATA.to_sparse,
    "rows": lambda: torch.eye(3).to_sparse_csr(),
    "lazy": torch.nn.parameter.UninitializedParameter,
}


@pytest.mark.filterwarnings("ignore")  # torch warns that these are unfinished or deprecated
@pytest.mark.parametrize("kind", STRANGERS)
def test_tensors_without_strides_are_refused_as_any_argument(kind):
    strange = STRANGERS[kind]()
    for name, call in {
        "data": lambda: ndgather.gather(strange, PLACES),
        "indices": lambda: ndgather.gather(DATA, strange),
        "indices ": lambda: ndgather.gather([1, 2], strange),
        "starts": lambda: ndgather.gather_windows(DATA, strange, (1,)),
        "updates": lambda: ndgather.scatter_nd(DATA, PLACES, strange),
        "fill_value": lambda: ndgather.gather(DATA, PLACES, mode="fill", fill_value=strange),
        "out": lambda: ndgather.gather_nd(DATA, PLACES, out=strange),
        "out ": lambda: ndgather.scatter_nd(DATA, PLACES, [1, 2], out=strange),
        "out  ": lambda: ndgather.gather_nd(DATA.numpy(), PLACES.numpy(), out=strange),
        "cotangent": lambda: vjp.gather_nd(strange, (3,), PLACES),
    }.items():
        with pytest.raises(NdgatherError, match=rf": {name.strip()} = "):
            call()


BITS = [*SHELLS, *(getattr(torch, f"bits{each}") for each in ("8", "16", "1x8", "2x4", "4x2"))]


@pytest.mark.parametrize("dtype", [*BITS, torch.float4_e2m1fn_x2], ids=str)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_numbers_for_bit_dtypes(dtype, device):
    """torch cannot create them from a number; mode fill without a value fills with zero bits."""
    data = torch.arange(6, dtype=torch.uint8)[: 3 * dtype.itemsize].view(dtype).to(device)
    places = PLACES.to(device)
    with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = 1 "):
        ndgather.gather_nd(data, places, mode="fill", fill_value=1)
    with pytest.raises(DTypeError, match=r"^scatter_nd: updates = "):
        ndgather.scatter_nd(data, places, [0, 1])
    result = ndgather.gather_nd(data, places + 2, mode="fill")
    assert (result.dtype, result.device.type) == (dtype, device)
    if device == "cpu":
        size = dtype.itemsize
        assert result.view(torch.uint8).tolist() == [0] * size + [*range(size, 2 * size)]
        with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = 1 "):
            torch.ops.ndgather.gather_nd(data, places, 0, "fill", 1)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex_half_tensors():
    data = torch.tensor([1 + 2j, 3, 4j]).to(torch.complex32)
    result = ndgather.gather_nd(data, PLACES + 2, mode="fill", fill_value=1 - 1j)
    assert result.to(torch.complex64).tolist() == [1 - 1j, 3]
    result = ndgather.scatter_nd(data, PLACES, [2j, 7])
    assert result.to(torch.complex64).tolist() == [1 + 2j, 3, 7]
    for lost in (1e9, 1e9j, "one"):
        with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = "):
            ndgather.gather_nd(data, PLACES, mode="fill", fill_value=lost)
        with pytest.raises(DTypeError, match=r"^scatter_nd: updates\[0\] = "):
            ndgather.scatter_nd(data, PLACES, [lost, lost])
    with pytest.raises(DTypeError, match=r"^scatter_nd: reduction = 'add'"):
        ndgather.scatter_nd(data, PLACES, data[:2], reduction="add")


@pytest.mark.parametrize("kind", ["gather_nd", "scatter_nd"])
@pytest.mark.parametrize("held", [0, 1, 7, 8, 11])
def test_operators_do_not_read_beyond_a_resized_storage(kind, held):
    for name in ("data", "indices", "updates"):
        given = {"data": torch.arange(4.0)[1:], "indices": torch.tensor([[2], [0]])}
        if kind == "scatter_nd":
            given["updates"] = torch.ones(2)
        whole = {each: value.clone() for each, value in given.items()}
        whole["data"] = torch.arange(4.0)[1:]
        getattr(torch.ops.ndgather, kind)(**whole)  # up to the last byte of their storages
        if name not in given:
            continue
        storage = given[name].untyped_storage()
        storage.resize_(min(held, storage.nbytes() - 1))
        with pytest.raises(ShapeError, match=rf"^{kind}: {name}.shape = .* its storage hold"):
            getattr(torch.ops.ndgather, kind)(**given)


@pytest.mark.parametrize("held", [0, 1, 7])
def test_calls_do_not_write_beyond_a_resized_storage(held):
    out = torch.zeros(2)
    out.untyped_storage().resize_(held)
    with pytest.raises(ShapeError, match=r"^gather_nd: out.shape = .* its storage hold"):
        ndgather.gather_nd(DATA, [[2], [0]], out=out)


def test_expanded_tensors_are_accepted():
    data = torch.tensor([7.0]).expand(3)
    assert ndgather.gather_nd(data, PLACES).tolist() == [7, 7]
    assert torch.ops.ndgather.gather_nd(data, PLACES).tolist() == [7, 7]
    assert torch.ops.ndgather.scatter_nd(data, PLACES, data[:2]).tolist() == [7, 7, 7]
    with pytest.raises(AttributeValueError, match=r"^scatter_nd: out.* share memory"):
        ndgather.scatter_nd(DATA, PLACES, DATA[:2], out=data)


@pytest.mark.parametrize(("function", "arrays", "result"), FOLLOWED.values(), ids=FOLLOWED)
def test_hints_for_tensors_work(function, arrays, result):
    """The hint gives tensors with the dtype and device of data."""
    tensors = [torch.tensor(each) for each in arrays]
    for given in (tensors, [tensors[0], *(each.tolist() for each in arrays[1:])]):
        done = followed(function, given, torch=torch)
        assert done.dtype == tensors[0].dtype
        np.testing.assert_array_equal(done.numpy(), result)
    mixed = followed(function, [arrays[0], tensors[1], *arrays[2:]], torch=torch)
    np.testing.assert_array_equal(mixed, result, strict=True)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, float, int])
@pytest.mark.parametrize("number", [0, -2])
def test_dtypes_without_zero_and_sign_are_filled_correctly(kind, number):
    data = torch.ones(3).to(torch.float8_e8m0fnu)
    with pytest.raises(DTypeError, match=r"^gather_nd: fill_value = .* cannot be represented in"):
        ndgather.gather_nd(data, [[9]], mode="fill", fill_value=kind(number))
