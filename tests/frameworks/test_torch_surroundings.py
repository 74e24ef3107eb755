"""Calls under tracing and modes, in other processes, and with distributed tensors."""

import multiprocessing

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ndgather
from ndgather.errors import NdgatherError
from tests.frameworks.torch_calls import same

INDICES = torch.tensor([[1], [3], [1]])


def rows(data):
    return ndgather.gather_nd(data, INDICES)


def table():
    return torch.arange(12.0).reshape(4, 3)


@pytest.fixture(autouse=True)
def warm():
    """Register tensors in the core by a first call."""
    rows(table())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_traces_record_the_call():
    traced = torch.jit.trace(lambda data: rows(data) + 1, (table(),))
    same(traced(table() * 2), table()[[1, 3, 1]] * 2 + 1)


def test_modes_see_the_operator():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        same(rows(table()), table()[[1, 3, 1]])
    assert any("gather_nd" in name for name in seen)


def test_profiler_does_not_change_results():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        same(rows(table()), table()[[1, 3, 1]])


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return ndgather.gather_nd(table(), torch.tensor([at]))


@pytest.mark.filterwarnings("ignore:.*fork")  # of Python, and of JAX if it is imported
def test_data_loader_workers():
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2)
    same(torch.cat(list(loader)), table())


def answer(queue):
    torch.set_num_threads(1)  # as in workers: torch's threads do not survive a fork
    data = torch.arange(200_000.0).reshape(-1, 2)
    result = ndgather.scatter_nd(data, torch.tensor([[1], [2]]), torch.zeros(2, 2))
    queue.put(result.sum().item())


@pytest.mark.filterwarnings("ignore:.*fork")  # of Python, and of JAX if it is imported
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes(method):
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=answer, args=(queue,))
    child.start()
    wanted = torch.arange(200_000.0).reshape(-1, 2)
    wanted[1:3] = 0
    assert queue.get() == wanted.sum().item()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.filterwarnings("ignore")
def test_tensors_spread_over_processes():
    import torch.distributed as dist  # noqa: PLC0415 - where it was built
    from torch.distributed.tensor import (  # noqa: PLC0415
        DeviceMesh,
        Replicate,
        Shard,
        distribute_tensor,
    )

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = DeviceMesh("cpu", [0])
        for placement in (Replicate(), Shard(0), Shard(1)):
            data = distribute_tensor(table(), mesh, [placement])
            indices = distribute_tensor(INDICES, mesh, [Replicate()])
            result = ndgather.gather_nd(data, indices)
            assert type(result) is type(data)
            same(result.full_tensor(), table()[[1, 3, 1]])
        with pytest.raises(NdgatherError, match=r"DTensor"):
            ndgather.gather_nd(data, INDICES)
    finally:
        dist.destroy_process_group()


def test_tensors_that_share_memory_with_arrays():
    data = table()
    array = data.numpy()
    ndgather.scatter_nd(data, torch.tensor([[0]]), torch.full((1, 3), 9.0), out=data)
    assert array[0].tolist() == [9, 9, 9]
    result = ndgather.gather_nd(data, INDICES)
    del data, array
    same(result[:2], torch.tensor([[3.0, 4, 5], [9, 10, 11]]))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_calls_do_not_depend_on_earlier_calls(dtype):
    data = table().to(dtype)
    for _ in range(3):
        same(rows(data), data[[1, 3, 1]])
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(data, data * 2)
            tangent = torch.autograd.forward_ad.unpack_dual(rows(dual)).tangent
            same(tangent, data[[1, 3, 1]] * 2)
        wanting = data.clone().requires_grad_()
        rows(wanting).sum().abs().backward()
        assert wanting.grad is not None
