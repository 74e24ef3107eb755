"""Things of torch that are no tensors, or no tensors yet, as arguments."""

import pytest
import torch
from torch import fx
from torch.nn.utils.rnn import pack_sequence

import ndgather
from ndgather.errors import NdgatherError

DATA = torch.arange(12.0).reshape(3, 4)


def test_a_size_is_a_tuple():
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
def test_what_is_no_tensor_is_refused_by_its_name(make):
    for indices in ([[1]], torch.tensor([[1]])):
        with pytest.raises(NdgatherError, match=r"^gather_nd: data = "):
            ndgather.gather_nd(make(), indices)
    with pytest.raises(NdgatherError, match=r"^gather_nd: indices"):
        ndgather.gather_nd(DATA, make())
    with pytest.raises(NdgatherError, match=r"^scatter_nd: updates"):
        ndgather.scatter_nd(DATA, [[1, 1]], make())
