"""Tensors over storages of every kind: views, expanded, shared with `out`, resized, freed."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather
from ndgather import vjp
from ndgather.errors import AttributeValueError, NdgatherError
from tests.definitions import reference
from tests.definitions.environments import environment
from tests.frameworks.drawn_calls import GATHERS, SCATTERS, drawn_calls

DTYPES = ("bool", "uint8", "int64", "float32", "float64", "complex64")


def inside(tensor):
    """Return a copy in the middle of a larger storage."""
    large = tensor.new_ones([size + 2 for size in tensor.shape])
    view = large[tuple(slice(1, -1) for _ in tensor.shape)]
    return view.copy_(tensor)


def turned(tensor):
    axes = tuple(range(tensor.dim()))[::-1]
    return tensor.permute(axes).clone(memory_format=torch.contiguous_format).permute(axes)


def expanded(tensor, axis):
    if not tensor.dim() or not tensor.shape[axis]:
        return tensor.clone()
    return tensor.narrow(axis, 0, 1).clone().expand(tensor.shape)


def every_second(tensor):
    return torch.stack([tensor, torch.ones_like(tensor)], -1)[..., 0]


def with_room(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(tensor.untyped_storage().nbytes() + 40)
    return tensor


def lazy(tensor):
    """Return a view with lazily conjugated or negated numbers."""
    if tensor.is_complex():
        return tensor.conj().resolve_conj().conj()
    return torch._neg_view(-tensor) if tensor.is_floating_point() else tensor.clone()


LAYOUTS = {
    "contiguous": torch.clone,
    "amid a storage": inside,
    "turned": turned,
    "expanded, first axis": lambda tensor: expanded(tensor, 0),
    "expanded, last axis": lambda tensor: expanded(tensor, -1),
    "every second": every_second,
    "room behind": with_room,
    "lazily negative": lazy,
}


def numbers(tensor):
    return tensor.detach().resolve_conj().resolve_neg().numpy().copy()


def by_loops(call, data, indices, updates):
    arrays = [numbers(each) for each in (data, indices, updates) if each is not None]
    return getattr(reference, call.name)(*arrays, **call.options)


@st.composite
def laid_out(draw, call):
    """Draw the tensors of a call, each in its own layout."""
    tensors = []
    for array in (call.data, call.indices, call.updates):
        layout = LAYOUTS[draw(st.sampled_from(tuple(LAYOUTS)))]
        tensors.append(None if array is None else layout(torch.from_numpy(array.copy())))
    return tensors


def called(call, data, indices, updates, **more):
    given = (data, indices) if updates is None else (data, indices, updates)
    with environment(call.environment):
        return getattr(ndgather, call.name)(*given, **call.options, **more)


@given(call=drawn_calls([*GATHERS, *SCATTERS], DTYPES), draw=st.data())
def test_every_layout_and_every_out(call, draw):
    if call.data.dtype.kind in "bc" and call.options.get("reduction") in ("mean", "min", "max"):
        return
    data, indices, updates = draw.draw(laid_out(call))
    if call.error() is not None or call.data.size == 0:
        return
    try:
        wanted = by_loops(call, data, indices, updates)
    except IndexError:  # an expanded entry of indices is another index
        return
    before = [numbers(each) for each in (data, indices, updates) if each is not None]
    result = called(call, data, indices, updates)
    np.testing.assert_array_equal(numbers(result), wanted, strict=True)
    for each, kept in zip((data, indices, updates), before, strict=False):
        np.testing.assert_array_equal(numbers(each), kept)

    # `out` shares its storage with one of the arguments, from any element on
    dtype, size = data.dtype, wanted.size
    shared = [(n, each) for n, each in enumerate((data, indices, updates)) if each is not None]
    number, argument = draw.draw(st.sampled_from([s for s in shared if s[1].dtype == dtype]))
    count = argument.numel()
    base = torch.zeros(count + 2 * size + 2, dtype=dtype)
    at = draw.draw(st.integers(0, 2 + size))
    begin = draw.draw(st.integers(max(0, at - size), min(at + count, count + size + 2)))
    view = base[at : at + count].view(argument.shape).copy_(argument)
    out = base[begin : begin + size].view(wanted.shape)
    if wanted.ndim > 1 and draw.draw(st.booleans()):
        out = base[begin : begin + size].view(wanted.shape[::-1]).permute(*range(wanted.ndim)[::-1])
    tensors = [data, indices, updates]
    tensors[number] = view
    wanted = by_loops(call, *tensors)
    rest = base.clone()
    assert called(call, *tensors, out=out) is out
    np.testing.assert_array_equal(numbers(out), wanted, strict=True)
    rest[begin : begin + size] = base[begin : begin + size]
    assert torch.equal(base, rest)  # nothing else in the storage of `out` is written
    if wanted.size > 1:
        with pytest.raises(AttributeValueError, match=r": out\b.* share memory"):
            called(call, data, indices, updates, out=base[:1].expand(wanted.shape))


@settings(max_examples=max(settings.default.max_examples // 2, 2))
@given(
    call=drawn_calls(
        [*GATHERS, *SCATTERS], ("float64",), reductions=("none", "add", "sub", "mean")
    ),
    draw=st.data(),
)
def test_gradients_reach_the_storage_of_every_layout(call, draw):
    """The weighted sum of results is linear: gradients times a change give its change."""
    if call.error() is not None or call.data.size == 0:
        return
    options = {name: value for name, value in call.options.items() if name != "fill_value"}
    call = type(call)(call.name, call.data, call.indices, call.updates, options)
    leaves, tensors = [], []
    asks = draw.draw(st.sampled_from(["data", "updates", "both"]))
    for name, array in (("data", call.data), ("updates", call.updates)):
        if array is None:
            tensors.append(None)
            continue
        layout = LAYOUTS[draw.draw(st.sampled_from(["contiguous", *tuple(LAYOUTS)[1:6]]))]
        leaf = torch.from_numpy(array.copy())
        if asks in (name, "both") or call.updates is None:
            leaf.requires_grad_()
            leaves.append((name, leaf, layout))
        tensors.append(layout(leaf))
    indices = torch.from_numpy(call.indices)
    result = called(call, tensors[0], indices, tensors[1])
    assert result.requires_grad == bool(leaves)
    if not leaves or not result.numel():
        return
    rng = np.random.default_rng(draw.draw(st.integers(0, 2**32)))
    weights = torch.from_numpy(rng.integers(-9, 10, tuple(result.shape)).astype(float))
    gradients = torch.autograd.grad(result, [leaf for _, leaf, _ in leaves], weights)
    changes = {name: torch.zeros(()) for name in ("data", "updates")}
    total = 0.0
    for (name, leaf, layout), gradient in zip(leaves, gradients, strict=True):
        assert gradient.shape == leaf.shape
        change = torch.from_numpy(rng.integers(-9, 10, tuple(leaf.shape)).astype(float))
        changes[name] = layout(change)
        total += float((gradient * change).sum())
    arrays = [
        None if array is None else changes[name].expand(array.shape)
        for name, array in (("data", call.data), ("updates", call.updates))
    ]
    wanted = (by_loops(call, arrays[0], indices, arrays[1]) * weights.numpy()).sum()
    assert total == pytest.approx(wanted, rel=1e-12, abs=1e-9)


PLACES = torch.tensor([[2], [0]])
SMALL = {
    "gather_nd": (torch.arange(3.0), PLACES),
    "gather_elements": (torch.arange(3.0), PLACES[:, 0]),
    "gather": (torch.arange(3.0), PLACES),
    "gather_windows": (torch.arange(3.0), PLACES // 2, (2,)),
    "gather_ranges": (torch.arange(3.0), PLACES[:, 0], PLACES[:, 0] + 1),
    "scatter_nd": (torch.arange(3.0), PLACES, torch.ones(2)),
    "scatter_elements": (torch.arange(3.0), PLACES[:, 0], torch.ones(2)),
}
ASKING = [flags for flags in product((False, True), repeat=3) if any(flags)]


def copies(function):
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in SMALL[function]]


@pytest.mark.parametrize("asking", ASKING, ids=str)
@pytest.mark.parametrize("function", SMALL)
def test_gradients_required_by_any_argument(function, asking):
    """Data, updates, a fill value or `out`: the gradient flows, or the call is refused."""
    call = getattr(ndgather, function)
    given, options = copies(function), {}
    scatters = function.startswith("scatter")
    shape = call(*given)[0].shape if function == "gather_ranges" else call(*given).shape
    if asking[0]:
        given[0].requires_grad_()
    if asking[1] and scatters:
        given[2].requires_grad_()
    elif asking[1]:
        options = {"mode": "fill", "fill_value": torch.tensor(7.0, requires_grad=True)}
    if asking[2]:
        options["out"] = torch.zeros(shape, requires_grad=True)
    if asking[2] or (asking[1] and not scatters):
        text = f"{function}: fill_value = .* requires a gradient, which is not computed "
        if scatters or not asking[1]:
            name = "data" if asking[0] else "updates" if asking[1] else "out"
            text = f"{function}: out is given, but {name} requires a gradient "
        with pytest.raises(AttributeValueError, match=f"^{text}"):
            call(*given, **options)
    else:
        result = call(*given, **options)
        result = result[0] if function == "gather_ranges" else result
        assert result.requires_grad
        result.sum().backward()
        assert not asking[0] or given[0].grad.abs().sum() > 0
        assert not asking[1] or given[2].grad.tolist() == [1, 1]
    with torch.no_grad():
        result = call(*given, **options)
        result = result[0] if function == "gather_ranges" else result
    plain = call(*SMALL[function])
    assert torch.equal(result, plain[0] if function == "gather_ranges" else plain)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("function", SMALL)
def test_freed_storages_are_refused_as_any_argument(function, gradient):
    call = getattr(ndgather, function)
    for position in range(len(SMALL[function])):
        given = copies(function)
        if not isinstance(given[position], torch.Tensor):
            continue
        given[0].requires_grad_(gradient)
        given[position].untyped_storage().resize_(0)
        with pytest.raises(NdgatherError, match="storage"):
            call(*given)
        if position:  # data other than tensors
            with pytest.raises(NdgatherError, match="storage"):
                call(np.arange(3, dtype=np.float32), *given[1:])
            with pytest.raises(NdgatherError, match="storage"):
                call(jnp.arange(3, dtype=jnp.float32), *given[1:])
    result = call(*SMALL[function])
    out = torch.zeros_like(result[0] if function == "gather_ranges" else result)
    out.untyped_storage().resize_(0)
    with pytest.raises(NdgatherError, match="storage"):
        call(*SMALL[function], out=out)


@pytest.mark.parametrize(
    "function", [name for name in SMALL if name[7:] not in ("windows", "ranges")]
)
def test_indices_freed_before_the_backward_pass(function):
    given = copies(function)
    result = getattr(ndgather, function)(given[0].requires_grad_(), *given[1:])
    given[1].untyped_storage().resize_(0)
    with pytest.raises((NdgatherError, RuntimeError), match="storage"):  # our error or torch's
        result.sum().backward()


def test_freed_cotangents_are_refused():
    for function, rest in (
        (vjp.gather_nd, ((3,), PLACES)),
        (vjp.gather_elements, ((3,), PLACES[:, 0])),
        (vjp.gather_windows, ((3,), PLACES, (1,))),
    ):
        cotangent = torch.ones((2, 1) if function is vjp.gather_windows else 2)
        cotangent.untyped_storage().resize_(0)
        with pytest.raises(NdgatherError, match="storage"):
            function(cotangent, *rest)
