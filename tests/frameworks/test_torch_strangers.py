"""Objects of torch that are not tensors, or not initialized tensors, as arguments."""

from functools import partial
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import xarray as xr
import zarr
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils.rnn import pack_sequence

import ndgather
import ndgather.arrays.xarray
from ndgather.errors import DTypeError, NdgatherError

DATA = torch.arange(12.0).reshape(3, 4)
ARRAY = DATA.numpy()
NAMED = xr.DataArray(ARRAY, {"x": [0, 1, 2]}, ["x", "y"])


def test_torch_size_is_a_tuple():
    size = torch.Size([4, 5, 6])
    assert ndgather.gather_nd(size, [[1], [-1]]).tolist() == [5, 6]
    assert ndgather.gather_nd(size, torch.tensor([[1]])).tolist() == [5]
    assert ndgather.gather_nd(DATA, torch.Size([2, 1])) == 9
    assert ndgather.scatter_nd(DATA, [[0, 1], [0, 2]], torch.Size([7, 8]))[0].tolist() == [
        0,
        7,
        8,
        3,
    ]
    assert ndgather.scatter_nd([1, 2], [[0], [1]], torch.Size([7, 8])).tolist() == [7, 8]


STRANGERS = {
    "node": lambda: fx.Graph().placeholder("x"),
    "proxy": lambda: fx.Proxy(fx.Graph().placeholder("x")),
    "storage": DATA.untyped_storage,
    "dtype": lambda: torch.float32,
    "packed": lambda: pack_sequence([DATA]),
    "module": lambda: torch.nn.Linear(2, 2),
    "parameter": torch.nn.UninitializedParameter,
    "buffer": torch.nn.UninitializedBuffer,
}


@pytest.mark.parametrize("make", STRANGERS.values(), ids=STRANGERS)
def test_arguments_that_are_not_tensors_are_refused_by_name(make):
    for indices in ([[1]], torch.tensor([[1]])):
        with pytest.raises(NdgatherError, match=r"^gather_nd: data = "):
            ndgather.gather_nd(make(), indices)
    with pytest.raises(NdgatherError, match=r"^gather_nd: indices"):
        ndgather.gather_nd(DATA, make())
    with pytest.raises(NdgatherError, match=r"^scatter_nd: updates"):
        ndgather.scatter_nd(DATA, [[1, 1]], make())


def faked(function):
    return lambda tensor: function(FakeTensorMode().from_tensor(tensor))


ROADS = {
    "functionalize": torch.func.functionalize,
    "vmap": torch.vmap,
    "make_fx": lambda function: lambda tensor: make_fx(function)(tensor)(tensor),
    "make_fx of symbols": lambda function: partial(make_fx(function, tracing_mode="symbolic")),
    "fake": faked,
}
MIXED = {
    "array": lambda i: ndgather.gather_nd(ARRAY, i),
    "list": lambda i: ndgather.gather([1, 2, 3], i),
    "zarr": lambda i: ndgather.gather_nd(zarr.create_array({}, data=ARRAY), i),
    "JAX": lambda i: ndgather.gather_nd(jnp.asarray(ARRAY), i),
    "list of tensors": lambda i: ndgather.gather_nd(DATA, [i[0], i[1]]),
    "scatter": lambda i: ndgather.scatter_nd(np.zeros(3), i, np.ones(len(i))),
    "ranges": lambda i: ndgather.gather_ranges(DATA, i.reshape(-1), [1, 1])[0],
    "fill": lambda i: ndgather.gather(np.ones(3), [7], mode="fill", fill_value=i[0, 0]),
    "labels": lambda i: NAMED.ndgather.sel(x=i[0], missing="nan"),
    "positions": lambda i: NAMED.ndgather.isel(y=i[0]),
    "updates of named data": lambda i: ndgather.scatter_nd(
        NAMED, [[0]], i[:1].expand(1, 4).float()
    ),
}


# With make_fx alone, a program keeps the values that NumPy reads, as torch documents.
KEPT = ("JAX", "list of tensors", "ranges", "fill", "labels", "positions", "updates of named data")
SEEN = [("make_fx", mixed) for mixed in KEPT]
SEEN += [("fake", "updates of named data")]  # torch itself refuses to mix real and fake tensors


@pytest.mark.parametrize(
    ("road", "mixed"), [pair for pair in product(ROADS, MIXED) if pair not in SEEN]
)
def test_numpy_does_not_read_transformed_tensors(road, mixed):
    """The memory belongs to other tensors, or the values to a single run."""
    indices = torch.tensor([[1], [0]])
    if road == "vmap":
        indices = indices.expand(3, *indices.shape)
    with pytest.raises(
        DTypeError, match=r"under a transform|has no memory|is not an array|cannot be"
    ):
        ROADS[road](lambda i: torch.as_tensor(np.asarray(MIXED[mixed](i))))(indices)


class Wrapped(torch.Tensor):
    """A tensor that passes functions of torch to a tensor inside."""

    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)

    def __init__(self, inside):
        self.inside = inside

    @classmethod
    def __torch_dispatch__(cls, function, _, args=(), kwargs=None):
        tree = torch.utils._pytree
        bare = tree.tree_map(lambda each: each.inside if isinstance(each, cls) else each, args)
        return tree.tree_map_only(torch.Tensor, cls, function(*bare, **(kwargs or {})))


@pytest.mark.parametrize("fill_value", [-0.0, 0.0, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_fill_value_keeps_its_sign_in_composed_calls(dtype, fill_value):
    data = Wrapped(torch.tensor([-0.0, 2], dtype=dtype))
    found = ndgather.gather_nd(
        data, Wrapped(torch.tensor([[0], [5]])), mode="fill", fill_value=fill_value
    ).inside
    expected = torch.tensor([-0.0, fill_value], dtype=dtype)
    assert found.view(torch.uint8).tolist() == expected.view(torch.uint8).tolist()
