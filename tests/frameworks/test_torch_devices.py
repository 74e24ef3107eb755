"""The composed calls for other devices, run on a GPU or the CPU; shapes on the device "meta"."""

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map_only

import ndgather
from ndgather.array_call import Call, Kind
from ndgather.arrays.torch import checks, composition
from ndgather.arrays.torch.checks import with_nonnegative_axes
from ndgather.errors import IndexOutOfBoundsError, NdgatherError
from tests.frameworks.torch_calls import (
    DEVICE,
    GATHERS,
    REDUCTIONS,
    SCATTERS,
    data_of,
    expected,
    indices_of,
    same,
)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def composed(kind, data, indices, updates=None, **options):
    given = [torch.as_tensor(each).to(DEVICE) for each in (data, indices)]
    updates = None if updates is None else updates.to(DEVICE)
    call = checks.checked(with_nonnegative_axes(Call(kind, Kind(kind), *given, updates, **options)))
    checks.check_shapes(call)
    return composition.run(call).cpu()


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill", "edge", "reflect"])
@pytest.mark.parametrize(("kind", "shape", "places", "options"), GATHERS)
def test_gathers_equal_the_loops(kind, shape, places, options, mode, rng):
    if mode in ("edge", "reflect") and kind != "gather_windows":
        return
    if mode in ("wrap", "clip") and 0 in shape:
        return
    indices = indices_of(rng, kind, shape, places, options, mode)
    for dtype in (torch.float32, torch.bool, torch.complex64):
        data = data_of(rng, shape, dtype)
        wanted = expected(kind, data, indices, mode=mode, **options)
        result = composed(kind, data, indices, mode=mode, **options)
        same(result, wanted)
        assert result.is_contiguous()
    filled = composed(
        kind, data_of(rng, shape).to(torch.float8_e4m3fn), indices, mode=mode, **options
    )
    wanted = expected(kind, data_of(np.random.default_rng(1), shape), indices, mode=mode, **options)
    assert filled.shape == wanted.shape


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "drop"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), SCATTERS)
def test_scatters_equal_the_loops(
    kind, shape, places, sizes, options, use_init_val, reduction, mode, rng
):
    options = options | {"mode": mode, "reduction": reduction, "use_init_val": use_init_val}
    indices = indices_of(rng, kind, shape, places, options, mode)
    for dtype in (torch.float64, torch.int32, torch.bool):
        if dtype == torch.bool and reduction == "mean":
            continue
        data, updates = data_of(rng, shape, dtype), data_of(rng, sizes, dtype)
        if dtype == torch.bool:
            data, updates = data_of(rng, shape) % 2 == 0, data_of(rng, sizes) % 2 == 0
        wanted = expected(kind, data, indices, updates, **options)
        result = composed(kind, data, indices, updates, **options)
        torch.testing.assert_close(result, wanted, rtol=1e-12, atol=0)
        assert result.is_contiguous()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e5m2])
def test_short_floats_are_close(dtype, rng):
    data, updates = data_of(rng, (4, 3)).to(dtype), data_of(rng, (6, 3)).to(dtype)
    indices = rng.integers(0, 4, (6, 1))
    for reduction in REDUCTIONS:
        result = composed("scatter_nd", data, indices, updates, reduction=reduction)
        wanted = ndgather.scatter_nd(data, torch.tensor(indices), updates, reduction=reduction)
        torch.testing.assert_close(result.float(), wanted.float(), rtol=0.3, atol=0)


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_integers_beyond_the_signed_range(dtype, reduction, use_init_val, rng):
    most = np.iinfo(dtype).max
    data, updates = (rng.integers(0, most, n, dtype, endpoint=True) for n in ((5, 3), (9, 3)))
    data[0], updates[:2] = most, [[most], [0]]
    given = torch.from_numpy(data), rng.integers(-5, 5, (9, 1)), torch.from_numpy(updates)
    for mode in ("raise", "drop"):
        options = {"reduction": reduction, "mode": mode, "use_init_val": use_init_val}
        same(composed("scatter_nd", *given, **options), expected("scatter_nd", *given, **options))
    for value in (0, 7, most):
        options = {"mode": "fill", "fill_value": int(value)}
        indices = rng.integers(-9, 9, (9, 1))
        same(
            composed("gather_nd", given[0], indices, **options),
            expected("gather_nd", given[0], indices, **options),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_wrapper_tensor_keeps_its_gradient(dtype):
    """As for subclasses, torch differentiates each function of the composition."""
    data = torch.arange(12.0).reshape(4, 3).to(DEVICE, dtype).requires_grad_()
    updates = torch.ones(2, 3, dtype=dtype, device=DEVICE, requires_grad=True)
    for mode in ("raise", "fill"):
        read = composed("gather_nd", data, [[1], [3]], mode=mode)
        (found,) = torch.autograd.grad(read.sum().real, data)
        same(found.real.float()[:, 0], torch.tensor([0.0, 1, 0, 1]))
    for mode in ("raise", "drop"):
        written = composed("scatter_nd", data, [[1], [1]], updates, mode=mode)
        found = torch.autograd.grad(written.sum().real, (data, updates))
        same(found[0].real.float()[:, 0], torch.tensor([1.0, 0, 1, 1]))
        same(found[1].real.float()[:, 0], torch.tensor([0.0, 1]))


def test_large_unsigned_indices():
    data, big = torch.arange(7), 2**64 - 2
    indices = torch.from_numpy(np.array([[big], [3]], np.uint64))
    for mode, wanted in (("wrap", big % 7), ("clip", 6)):
        assert composed("gather_nd", data, indices, mode=mode).tolist() == [wanted, 3]
    assert composed("gather_nd", data, indices, mode="fill").tolist() == [0, 3]


def test_an_empty_axis_can_be_filled(rng):
    result = composed("gather_nd", torch.empty(0, 3), [[1], [2]], mode="fill", fill_value=7.0)
    same(result, torch.full((2, 3), 7.0))
    with pytest.raises(IndexOutOfBoundsError):
        composed("gather_nd", torch.empty(0, 3), [[1], [2]], mode="wrap")


@pytest.mark.parametrize(
    ("kind", "indices", "options"),
    [
        ("gather_nd", [[[0, 1]], [[1, -9]]], {}),
        ("gather_nd", [[0, 3], [9, 9]], {}),
        ("gather_elements", [[0, 0, 0], [-5, 0, 7]], {}),
        ("gather", [0, 5, 6], {"axis": 1}),
        ("gather_windows", [[0, 1], [-1, 0]], {"window_shape": (2, 2)}),
    ],
)
def test_errors_equal_the_core(kind, indices, options):
    data = torch.arange(12.0).reshape(4, 3)
    with pytest.raises(IndexOutOfBoundsError) as core:
        getattr(ndgather, kind)(data.numpy(), np.array(indices), **options)
    with pytest.raises(IndexOutOfBoundsError) as here:
        composed(kind, data, indices, **options)
    assert str(here.value) == str(core.value)
    assert here.value.position == core.value.position


@pytest.mark.parametrize(("kind", "shape", "places", "options"), GATHERS)
def test_shapes_without_values(kind, shape, places, options, rng):
    indices = indices_of(rng, kind, shape, places, options)
    wanted = expected(kind, data_of(rng, shape), indices, **options)
    data = torch.empty(shape, device="meta")
    result = getattr(ndgather, kind)(data, torch.from_numpy(indices).to("meta"), **options)
    assert result.device.type == "meta"
    assert result.shape == wanted.shape


def test_all_tensors_must_be_on_one_device(rng):
    data = torch.empty(4, 3, device="meta")
    with pytest.raises(
        NdgatherError, match=r"indices.device = cpu differs from data.device = meta"
    ):
        ndgather.gather_nd(data, torch.tensor([[1]]))
    with pytest.raises(NdgatherError, match=r"updates.device"):
        ndgather.scatter_nd(data, [[1]], torch.ones(1, 3))


def test_wrapper_tensors_compose():
    class Wrapped(torch.Tensor):
        """A tensor that wraps another tensor and passes every function to it."""

        @staticmethod
        def __new__(cls, held):
            made = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)
            made.held = held
            return made

        def __tensor_flatten__(self):
            return ["held"], None

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func.namespace != "aten":
                raise NotImplementedError(str(func))
            if func.overloadpacket is torch.ops.aten.index_add:
                raise NotImplementedError("no index_add")
            bare = torch.utils._pytree.tree_map_only(
                cls, lambda each: each.held, (args, kwargs or {})
            )
            result = func(*bare[0], **bare[1])
            return tree_map_only(torch.Tensor, cls, result)

    data = torch.arange(12.0).reshape(4, 3)
    result = ndgather.gather_nd(Wrapped(data), torch.tensor([[1], [3]]))
    assert type(result) is Wrapped
    same(result.held, data[[1, 3]])
    with pytest.raises(NdgatherError, match=r"Wrapped object does not support .*no index_add"):
        ndgather.scatter_nd(Wrapped(data), torch.tensor([[1]]), data[:1], reduction="add")


def test_subclasses_without_their_own_storage_are_kept():
    class Named(torch.Tensor):
        pass

    data = torch.arange(12.0).reshape(4, 3).as_subclass(Named)
    result = ndgather.gather_nd(data, torch.tensor([[1]]))
    assert type(result) is Named
    same(result.as_subclass(torch.Tensor), torch.arange(3.0, 6)[None])
