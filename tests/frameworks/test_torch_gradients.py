"""Gradients, tangents, `vmap` and `torch.func` in any order, compared with torch."""

from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import ndgather
import ndgather.arrays.torch
from ndgather.array_call import Call, Kind
from ndgather.arrays.torch import autograd, checks, composition
from ndgather.errors import NdgatherError
from tests.definitions import reference
from tests.frameworks.torch_calls import (
    GATHERS,
    REDUCTIONS,
    SCATTERS,
    called,
    data_of,
    indices_of,
    same,
)

# torch's own tangents of other functions use it
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

ops = torch.ops.ndgather


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def check(function, *inputs):
    """Compare gradients, tangents and second derivatives with finite differences."""
    inputs = [each.requires_grad_() for each in inputs]
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill", "edge", "reflect"])
@pytest.mark.parametrize(("kind", "shape", "places", "options"), GATHERS)
def test_gathers(kind, shape, places, options, mode, rng):
    if (kind != "gather_windows" and mode in ("edge", "reflect")) or 0 in shape:
        return
    indices = torch.from_numpy(indices_of(rng, kind, shape, places, options, mode))
    check(lambda data: called(kind, data, indices, mode=mode, **options), data_of(rng, shape))


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), SCATTERS)
def test_scatters(kind, shape, places, sizes, options, reduction, use_init_val, rng):
    mode = ("raise", "drop")[(REDUCTIONS.index(reduction) + len(sizes) + use_init_val) % 2]
    options = options | {"mode": mode, "reduction": reduction, "use_init_val": use_init_val}
    indices = torch.from_numpy(indices_of(rng, kind, shape, places, options, mode))
    data, updates = data_of(rng, shape) / 7, data_of(rng, sizes) / 11 + 0.01
    check(lambda data, updates: called(kind, data, indices, updates, **options), data, updates)


def test_products_with_zeros_have_derivatives_of_any_order():
    data = torch.tensor([2.0, 0.0, 3.0], dtype=torch.float64)
    updates = torch.tensor([0.0, 0.0, 5.0, 0.0, 7.0, 3.0], dtype=torch.float64)
    indices = torch.tensor([[0], [0], [0], [1], [1], [2]])
    check(
        lambda data, updates: ndgather.scatter_nd(data, indices, updates, reduction="mul"),
        data,
        updates,
    )


def test_ties_share_the_gradient():
    data = torch.tensor([1.0, 5.0], requires_grad=True)
    updates = torch.tensor([5.0, 5.0, 2.0], requires_grad=True)
    native = data.scatter_reduce(0, torch.tensor([1, 1, 0]), updates, "amax")
    ours = ndgather.scatter_nd(data, torch.tensor([[1], [1], [0]]), updates, reduction="max")
    for one, other in zip(
        torch.autograd.grad(ours.sum(), (data, updates)),
        torch.autograd.grad(native.sum(), (data, updates)),
        strict=True,
    ):
        same(one, other)


def test_complex_numbers(rng):
    data = torch.complex(data_of(rng, (4,)), data_of(rng, (4,)))
    updates = torch.complex(data_of(rng, (3,)), data_of(rng, (3,)))
    indices = torch.tensor([[1], [1], [3]])
    check(lambda data: ndgather.gather_nd(data, indices), data)
    for reduction in ("add", "mul", "none", "sub", "mean"):
        check(
            lambda data, updates, r=reduction: ndgather.scatter_nd(
                data, indices, updates, reduction=r
            ),
            data,
            updates,
        )


INDICES = torch.tensor([[1], [3], [1]])


def ours(data):
    return (ndgather.gather_nd(data, INDICES) ** 3).sum()


def native(data):
    return (data[INDICES[:, 0]] ** 3).sum()


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        hessian,
        lambda f: jacrev(jacrev(f)),
        lambda f: jacfwd(jacfwd(f)),
        lambda f: grad(lambda x: grad(f)(x).pow(2).sum()),
        lambda f: lambda x: jvp(f, (x,), (x + 1,)),
        lambda f: lambda x: jvp(grad(f), (x,), (x + 1,)),
        lambda f: lambda x: jvp(lambda y: jvp(f, (y,), (y,))[1], (x,), (x + 1,)),
        lambda f: lambda x: vjp(f, x)[1](torch.tensor(2.0, dtype=torch.float64)),
    ],
    ids=range(9),
)
def test_transforms_nest_as_in_torch(transform, rng):
    for function in (ours, lambda x: (ops.gather_nd(x, INDICES) ** 3).sum()):
        results, wanted = transform(function)(data_of(rng, (4, 3))), None
        rng = np.random.default_rng(2)
        wanted = transform(native)(data_of(rng, (4, 3)))
        rng = np.random.default_rng(2)
        data = data_of(rng, (4, 3))
        results, wanted = transform(function)(data), transform(native)(data)
        torch.testing.assert_close(results, wanted)


@pytest.mark.parametrize("function", [ours, lambda x: (ops.gather_nd(x, INDICES) ** 3).sum()])
def test_vmap_of_gradients_and_gradients_of_vmap(function, rng):
    data = data_of(rng, (5, 4, 3))
    same(vmap(grad(function))(data), vmap(grad(native))(data))
    same(grad(lambda x: vmap(function)(x).sum())(data), grad(lambda x: vmap(native)(x).sum())(data))
    same(vmap(vmap(function))(data[None]), vmap(vmap(native))(data[None]))


def test_operators_have_tangents(rng):
    """Operators without a rule would silently return zeros."""
    data, tangent = data_of(rng, (4, 3)), data_of(rng, (4, 3))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(data, tangent)
        for result in (ops.gather_nd(dual, INDICES), ndgather.gather_nd(dual, INDICES)):
            got = torch.autograd.forward_ad.unpack_dual(result).tangent
            same(got, tangent[INDICES[:, 0]])
        filled = ndgather.gather_nd(dual, torch.tensor([[1], [9]]), mode="fill", fill_value=5)
        got = torch.autograd.forward_ad.unpack_dual(filled).tangent
        same(got, torch.stack([tangent[1], torch.zeros_like(tangent[1])]))
    _, got = jvp(lambda x: ops.scatter_nd(x, INDICES, x[:3]), (data,), (tangent,))
    wanted = tangent.clone()
    wanted[3], wanted[1] = tangent[1], tangent[2]
    same(got, wanted)


def mapped_axes(count):
    return [axes for axes in np.ndindex(*(2,) * count) if any(axes)]


@pytest.mark.parametrize(("kind", "shape", "places", "options"), GATHERS)
def test_vmap_of_gathers(kind, shape, places, options, rng):
    if 0 in shape:
        return
    for over_data, over_indices in mapped_axes(2):
        data = data_of(rng, (3, *shape) if over_data else shape)
        indices = [indices_of(rng, kind, shape, places, options) for _ in range(3)]
        indices = torch.from_numpy(np.stack(indices) if over_indices else indices[0])
        axes = (0 if over_data else None, 0 if over_indices else None)
        result = vmap(lambda d, i: called(kind, d, i, **options), axes)(data, indices)
        for at in range(3):
            one = called(
                kind,
                data[at] if over_data else data,
                indices[at] if over_indices else indices,
                **options,
            )
            same(result[at], one)
    moved = vmap(lambda d: called(kind, d, indices[0], **options), 1, 1)(data.movedim(0, 1))
    same(moved.movedim(1, 0)[0], called(kind, data[0], indices[0], **options))


@pytest.mark.parametrize("reduction", ["none", "add", "mean", "max"])
@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), SCATTERS)
def test_vmap_of_scatters(kind, shape, places, sizes, options, reduction, rng):
    options = options | {"reduction": reduction}
    for mapped in mapped_axes(3):
        data = data_of(rng, (3, *shape) if mapped[0] else shape)
        indices = [indices_of(rng, kind, shape, places, options) for _ in range(3)]
        indices = torch.from_numpy(np.stack(indices) if mapped[1] else indices[0])
        updates = data_of(rng, (3, *sizes) if mapped[2] else sizes)
        axes = tuple(0 if each else None for each in mapped)
        result = vmap(lambda d, i, u: called(kind, d, i, u, **options), axes)(
            data, indices, updates
        )
        for at in range(3):
            each = [
                tensor[at] if over else tensor
                for tensor, over in zip((data, indices, updates), mapped, strict=True)
            ]
            same(result[at], called(kind, *each, **options))


SHAPES = [(), (1,), (2,), (2, 2), (2, 0)]
CALLS = {  # and the number of tensors
    "gather_nd": (ndgather.gather_nd, 2),
    "gather_nd of batches": (partial(ndgather.gather_nd, batch_dims=1), 2),
    "gather": (ndgather.gather, 2),
    "gather along the last axis": (partial(ndgather.gather, axis=-1), 2),
    "gather_elements": (ndgather.gather_elements, 2),
    "gather_windows of two axes": (partial(ndgather.gather_windows, window_shape=(1, 1)), 2),
    "gather_windows of no axis": (partial(ndgather.gather_windows, window_shape=()), 2),
    "scatter_nd": (ndgather.scatter_nd, 3),
    "scatter_elements": (ndgather.scatter_elements, 3),
}


@pytest.mark.parametrize(("function", "count"), CALLS.values(), ids=CALLS)
def test_vmap_raises_the_errors_of_its_function(function, count):
    """The mapped axis used to hide that data or indices lack an axis."""
    for *shapes, mapped in product(*[SHAPES] * count, product([0, None], repeat=count)):
        if mapped == (None,) * count:
            continue
        tensors = [
            torch.arange(2).reshape(2, *[1] * len(shape)).expand(2, *shape)
            if number == 1
            else torch.arange(2.0 * prod(shape)).reshape(2, *shape)
            for number, shape in enumerate(shapes)
        ]
        tensors = [each if at == 0 else each[0] for each, at in zip(tensors, mapped, strict=True)]
        entries = [
            [t[n] if at == 0 else t for t, at in zip(tensors, mapped, strict=True)]
            for n in range(2)
        ]
        refusal = None
        try:
            wanted = torch.stack([function(*entry) for entry in entries])
        except NdgatherError as error:
            refusal = error
        try:
            result = vmap(function, mapped)(*tensors)
        except NdgatherError as error:
            # The position of an out-of-bounds index counts all entries.
            same_text = str(error) == str(refusal) or isinstance(error, IndexError)
            assert type(error) is type(refusal) and same_text  # noqa: PT017, PT018
        else:
            assert refusal is None
            same(result, wanted)


@pytest.mark.parametrize("in_dim", [0, 1])
def test_vmap_over_an_axis_of_size_0(in_dim):
    data = torch.ones(3, 4).unsqueeze(in_dim).narrow(in_dim, 0, 0)
    places = torch.tensor([2, 0])
    updates = torch.ones(0, 2, 4)
    for function, shape in (
        (lambda a: ndgather.gather(a, places), (2, 4)),
        (lambda a: ndgather.gather_nd(a, places[:, None]), (2, 4)),
        (lambda a: ndgather.gather_elements(a, places[:, None]), (2, 1)),
        (lambda a: ndgather.gather_windows(a, places[1:].reshape(1), (2,)), (2, 4)),
        (grad(lambda a: ndgather.gather(a, places).sum()), (3, 4)),
    ):
        assert vmap(function, in_dim)(data).shape == (0, *shape)
    for reduction in REDUCTIONS:
        scatter = partial(ndgather.scatter_nd, reduction=reduction)
        result = vmap(scatter, (in_dim, None, 0))(data, places[:, None], updates)
        assert result.shape == (0, 3, 4)


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_derivatives_without_updates_and_of_empty_rows(reduction, use_init_val):
    options = {"reduction": reduction, "use_init_val": use_init_val}
    for shape, count in (((3, 2), 0), ((3, 0), 2)):
        places = torch.zeros(count, 1, dtype=torch.int64)
        data, updates = torch.ones(shape).double(), torch.ones(count, shape[1]).double()
        of_data, of_updates = jacrev(
            lambda a, u, places=places: ndgather.scatter_nd(a, places, u, **options).sum(), (0, 1)
        )(data, updates)
        assert of_data.tolist() == data.tolist()
        assert of_updates.shape == updates.shape


def test_a_model_with_parameters(rng):
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(data_of(rng, (6, 2)))

        def forward(self, indices):
            return ndgather.gather_nd(self.weight, indices)

    model = Table()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    before = model.weight.detach().clone()
    model(torch.tensor([[1], [1], [4]])).sum().backward()
    optimizer.step()
    before[1] -= 1.0
    before[4] -= 0.5
    same(model.weight.detach(), before)
    parameters = dict(model.named_parameters())
    gradient = grad(lambda p: functional_call(model, p, (torch.tensor([[0]]),)).sum())(parameters)
    assert gradient["weight"].tolist() == [[1, 1], *[[0, 0]] * 5]


def test_torch_modes(rng):
    data = data_of(rng, (4, 3)).requires_grad_()
    with torch.no_grad():
        assert not ndgather.gather_nd(data, INDICES).requires_grad
    with torch.inference_mode():
        assert ndgather.gather_nd(data, INDICES).is_inference()
        same(
            ndgather.scatter_nd(data, INDICES, data[:3]),
            data.index_copy(0, INDICES[:, 0], data[:3]),
        )
    assert ndgather.gather_nd(data, INDICES).requires_grad
    assert not ndgather.gather_nd(data.detach(), INDICES).requires_grad
    assert not ndgather.gather_nd(INDICES, torch.tensor([[0]])).requires_grad


def test_changes_of_saved_indices_are_detected(rng):
    data, indices = data_of(rng, (4, 3)).requires_grad_(), INDICES.clone()
    result = ndgather.gather_nd(data, indices)
    indices[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_autocast_uses_the_wider_dtype():
    data, updates = torch.zeros(4), torch.ones(2)
    with torch.autocast("cpu", torch.bfloat16):
        short = torch.nn.functional.linear(updates, torch.eye(2))
        assert short.dtype == torch.bfloat16
        for pair in ((data, short), (data.bfloat16(), updates)):
            result = ndgather.scatter_nd(
                pair[0], torch.tensor([[1], [1]]), pair[1], reduction="add"
            )
            assert result.dtype == torch.float32
            same(result, torch.tensor([0.0, 2, 0, 0]))
    with pytest.raises(NdgatherError, match=r"updates\.dtype = torch\.bfloat16"):
        ndgather.scatter_nd(data, torch.tensor([[1], [1]]), short, reduction="add")


@pytest.mark.parametrize(("kind", "shape", "places", "options"), GATHERS)
def test_cotangents_of_gathers(kind, shape, places, options, rng):
    indices = indices_of(rng, kind, shape, places, options)
    cotangent = torch.ones_like(called(kind, data_of(rng, shape), indices, **options))
    if kind == "gather":
        return  # it has no function of its own
    function = getattr(ndgather.vjp, kind)
    result = function(cotangent, shape, torch.from_numpy(indices), **options)
    same(result, torch.from_numpy(function(cotangent.numpy(), shape, indices, **options)))
    given = cotangent.clone().requires_grad_()
    assert function(given, shape, indices, **options).requires_grad


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), SCATTERS)
def test_cotangents_of_scatters(kind, shape, places, sizes, options, reduction, rng):
    indices = indices_of(rng, kind, shape, places, options)
    cotangent, options = data_of(rng, shape), options | {"reduction": reduction}
    function = getattr(ndgather.vjp, kind)
    results = function(cotangent, torch.from_numpy(indices), **options)
    before = cotangent.clone()
    for result, wanted in zip(
        results, function(cotangent.numpy(), indices, **options), strict=True
    ):
        same(result, torch.from_numpy(wanted))
        result.zero_()
    same(cotangent, before)


def test_cotangents_of_the_wrong_shape_are_refused():
    indices = torch.tensor([[1], [9]])
    with pytest.raises(NdgatherError, match=r"vjp\.gather_nd: cotangent\.shape = \(3,\)"):
        ndgather.vjp.gather_nd(torch.ones(3), (4,), indices)
    with pytest.raises(NdgatherError, match=r"vjp\.gather_nd: indices\[1, 0\] = 9"):
        ndgather.vjp.gather_nd(torch.ones(2), (4,), indices)
    with pytest.raises(NdgatherError, match=r"vjp\.gather_windows: starts\[1, 0\] = 9"):
        ndgather.vjp.gather_windows(torch.ones(2, 2), (4,), indices, (2,))
    with pytest.raises(NdgatherError, match=r"cotangent\.dtype"):
        ndgather.vjp.gather_nd(torch.ones(2).bool(), (4,), indices)


def test_unsupported_reductions_raise():
    """No rule accepts a name that it does not know."""
    data, indices, updates = torch.ones(2), torch.tensor([[0]]), torch.ones(1)
    call = Call("scatter_nd", Kind.SCATTER_ND, data, indices, updates, reduction="power")
    for use in (
        lambda: autograd.weights(call, data, (True, True)),
        lambda: checks.identity(torch.float8_e5m2, "power"),
        lambda: checks.for_core(torch.float8_e5m2, "power"),
        lambda: composition.run(call),
    ):
        with pytest.raises((AssertionError, KeyError)):
            use()


@pytest.mark.parametrize("mode", ["wrap,raise", "fill,reflect", ("edge", "wrap")])
def test_windows_with_a_mode_for_each_axis(mode, rng):
    starts = torch.tensor([[-3, 0], [5, 2], [7, 1]])
    data = data_of(rng, (6, 5))
    desired = reference.gather_windows(
        data.numpy(), starts.numpy(), (3, 2), mode.split(",") if isinstance(mode, str) else mode
    )
    function = partial(ndgather.gather_windows, starts=starts, window_shape=(3, 2), mode=mode)
    np.testing.assert_array_equal(function(data).numpy(), desired)
    check(function, data)
    mapped = torch.vmap(lambda data, start: ndgather.gather_windows(data, start, (3, 2), mode=mode))
    found = mapped(data.expand(3, 6, 5), starts)
    np.testing.assert_array_equal(found.detach().numpy(), desired)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize(
    "factors",
    [
        [2.0, 3.0, 5.0, 7.0],
        [0.0, 3.0, 5.0, 7.0],
        [0.0, 3.0, -0.0, 7.0],
        [1e-30, 1e-30, 1e30, 1e25],  # the product of the first two is not a float32
        [1e30, 1e30, 1e-30, 1e-28],
        [1e-40, 2.0, 1.0, 1.0],
        [1e-50, 3.0, 0.0, 7.0],  # the first is not a float32
        [1e-200, 3.0, 5.0, 7.0],
        [float("inf"), 0.0, 1.0, 2.0],
        [float("nan"), 2.0, 3.0, 4.0],
    ],
)
def test_gradients_of_products_are_products_of_the_other_factors(factors, dtype):
    """A third of the elements have duplicates; one element has no update."""
    updates = torch.tensor([*factors, 1.5], dtype=dtype, requires_grad=True)
    data = torch.tensor([4.0, 6.0, 0.0], dtype=dtype, requires_grad=True)
    result = ndgather.scatter_nd(data, [[0]] * 4 + [[2]], updates, reduction="mul")
    of_data, of_updates = torch.autograd.grad(result.real.sum(), (data, updates))
    values = updates.detach().to(torch.complex128 if dtype.is_complex else torch.float64).tolist()
    others = [4 * prod(values[:n] + values[n + 1 : 4]) for n in range(4)]
    with np.errstate(over="ignore"):
        desired = np.array([*others, 0.0]).astype(str(dtype).removeprefix("torch."))
    if not dtype.is_complex or np.isfinite(factors).all():  # NumPy and torch differ in inf * 0j
        np.testing.assert_allclose(of_updates.resolve_conj().numpy(), desired, rtol=1e-5)
    assert of_data[1] == 1
    assert of_data[2].item() == pytest.approx(1.5)
