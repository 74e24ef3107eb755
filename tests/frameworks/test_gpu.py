"""Tensors and JAX arrays on a GPU: behavior that no interpreter shows.

`make test-gpu` runs these on a GPU.
"""

import threading

import numpy as np
import pytest
import torch

import ndgather
import ndgather.arrays.torch.compiling
from ndgather.errors import AttributeValueError, IndexOutOfBoundsError
from tests.frameworks.torch_calls import REDUCTIONS, by_core, same, same_bits

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
DTYPES = (
    *(torch.bool, torch.int8, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
COPIED = (*DTYPES, torch.complex64, torch.complex128, torch.float8_e5m2)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def drawn(rng, shape, dtype):
    """Return a tensor of random bits, but valid booleans; floats are mostly near 1."""
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, shape)).to(dtype)
    if dtype.is_floating_point and dtype.itemsize > 1:
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
        flat = values.reshape(-1)
        flat[rng.integers(0, flat.size, 9)] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-7, 0, 1]
        return torch.from_numpy(values).to(dtype)
    items = (*shape[:-1], shape[-1] * dtype.itemsize)
    return torch.from_numpy(rng.integers(0, 256, items, np.uint8)).view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", COPIED, ids=str)
def test_large_gathers_equal_the_core(dtype, rng):
    """Points, rows of many sizes, elements along each axis and windows, in every mode."""
    calls = [
        ("gather_nd", (300, 200), rng.integers(-310, 310, (50_000, 2)), {}),
        ("gather_nd", (700, 5, 7), rng.integers(-700, 700, (9_000, 1)), {}),
        ("gather_nd", (9, 400, 3), rng.integers(-400, 400, (9, 1_000, 1)), {"batch_dims": 1}),
        ("gather", (30, 500), rng.integers(-500, 500, 1_000), {"axis": 1}),
        (
            "gather_windows",
            (300, 200, 2),
            rng.integers(-9, 310, (500, 2)),
            {"window_shape": (5, 4)},
        ),
    ]
    calls += [
        ("gather_elements", (40, 50, 60), rng.integers(-60, 60, (40, 50, 60)), {"axis": axis})
        for axis in range(3)
    ]
    calls += [
        ("gather_nd", (1000, width), rng.integers(-1010, 1010, (3_000, 1)), {})
        for width in (1, 2, 3, 4, 8, 31, 64, 257, 4096)
    ]
    for kind, shape, values, options in calls:
        data = drawn(rng, shape, dtype)
        for integer in (np.int64, np.int32):
            indices = torch.from_numpy(values.astype(integer))
            for mode in ("clip", "fill"):
                wanted = by_core(kind, data, indices, mode=mode, **options)
                given = data.cuda(), indices.cuda()
                result = getattr(ndgather, kind)(*given, mode=mode, **options)
                same(result.view(torch.uint8), wanted.view(torch.uint8))
    wild = torch.from_numpy(rng.integers(-(2**63), 2**63 - 1, (5_000, 1)))
    data = drawn(rng, (77, 3), dtype)
    for mode in ("wrap", "clip", "fill"):
        wanted = by_core("gather_nd", data, wild, mode=mode)
        result = ndgather.gather_nd(data.cuda(), wild.cuda(), mode=mode)
        same(result.view(torch.uint8), wanted.view(torch.uint8))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_scatters_have_the_bits_of_the_core(dtype, reduction, rng):
    """Destinations are distinct, duplicate or all equal; elements, short rows and long rows."""
    if dtype == torch.bool and reduction == "mean":
        return
    options = {"reduction": reduction}
    shapes = [((3_000, 5), 5_000), ((40_000,), 30_000), ((500, 300), 900)]
    for shape, count in shapes if dtype in (torch.bfloat16, torch.float32) else shapes[:1]:
        data, updates = drawn(rng, shape, dtype), drawn(rng, (count, *shape[1:]), dtype)
        places = [rng.integers(0, shape[0], count), np.full(count, 3), rng.integers(0, 20, count)]
        places.append(rng.permutation(max(count, shape[0]))[:count] % shape[0])
        for place in places:
            indices = torch.from_numpy(place)[:, None]
            given = data.cuda(), indices.cuda(), updates.cuda()
            for init in (True, False) if len(shape) == 2 else (True,):
                wanted = by_core("scatter_nd", data, indices, updates, use_init_val=init, **options)
                for mode in ("raise", "drop"):
                    result = ndgather.scatter_nd(*given, mode=mode, use_init_val=init, **options)
                    same_bits(result, wanted)
    data, updates = drawn(rng, (50, 60), dtype), drawn(rng, (200, 60), dtype)
    indices = torch.from_numpy(rng.integers(-50, 50, (200, 60)))
    wanted = by_core("scatter_elements", data, indices, updates, **options)
    given = data.cuda(), indices.cuda(), updates.cuda()
    same_bits(ndgather.scatter_elements(*given, **options), wanted)
    moved = [each.mT.contiguous().mT for each in given]
    same_bits(ndgather.scatter_elements(*moved, **options), wanted)


def test_a_bad_index_leaves_the_gpu_usable(rng):
    """The first bad index is named even if several programs find one."""
    data = torch.arange(600.0, device="cuda").reshape(200, 3)
    indices = torch.from_numpy(rng.integers(0, 200, (400_000, 1)))
    bad = np.sort(rng.choice(400_000, 50, replace=False))
    for value in (200, -201, 2**62, -(2**63)):
        wrong = indices.clone()
        wrong[bad] = value
        for call in (
            lambda given: ndgather.gather_nd(data, given),
            lambda given: ndgather.scatter_nd(data, given, data.new_ones(len(given), 3)),
            lambda given: ndgather.scatter_nd(
                data, given, data.new_ones(len(given), 3), reduction="add"
            ),
        ):
            with pytest.raises(IndexOutOfBoundsError) as error:
                call(wrong.cuda())
            assert f"indices[{bad[0]}, 0] = {value} " in str(error.value)
            assert error.value.position == (bad[0], 0)
            call(indices.cuda())
    same(ndgather.gather_nd(data, indices.cuda()), data.cpu()[indices[:, 0]])


def test_streams_and_threads_are_independent(rng):
    """Each thread calls on its own stream; half of them have a bad index."""
    data = torch.from_numpy(rng.normal(size=(5_000, 16))).cuda()
    failures = []

    def work(number):
        own = np.random.default_rng(number)
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(40):
                    rows = torch.from_numpy(own.integers(0, 5_000, 20_000))
                    if number % 2:
                        rows[turn + 5] = 5_000 + number
                        with pytest.raises(IndexOutOfBoundsError, match=f"= {5_000 + number} "):
                            ndgather.gather_nd(data, rows.cuda()[:, None])
                        continue
                    given = rows.cuda()
                    same(ndgather.gather_nd(data, given[:, None]), data[given])
                    added = ndgather.scatter_nd(data, given[:, None], data[given], reduction="add")
                    again = ndgather.scatter_nd(data, given[:, None], data[given], reduction="add")
                    assert torch.equal(added, again)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_calls_wait_for_earlier_work_of_their_stream():
    """Indices that a long kernel on the same stream is still writing are read afterwards."""
    stream = torch.cuda.Stream()
    data = torch.arange(2**20, device="cuda")
    with torch.cuda.stream(stream):
        for turn in range(5):
            indices = torch.zeros(2**20, 1, dtype=torch.int64, device="cuda")
            torch.cuda._sleep(20_000_000)
            indices += turn + 1
            assert bool((ndgather.gather_nd(data, indices) == turn + 1).all())


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_captured_calls_can_be_replayed_with_other_values(reduction, mode, rng):
    data, updates = (torch.from_numpy(rng.normal(size=n)).cuda() for n in ((500, 7), (2_000, 7)))
    indices = torch.from_numpy(rng.integers(0, 500, (2_000, 1))).cuda()
    read = "fill" if mode == "drop" else mode

    def step():
        rows = ndgather.gather_nd(data, indices, mode=read)
        return ndgather.scatter_nd(data, indices, rows + updates, reduction=reduction, mode=mode)

    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
        with pytest.raises(AttributeValueError, match="a CUDA graph cannot capture"):
            ndgather.gather_nd(data, indices)
    for _ in range(3):
        data.copy_(torch.from_numpy(rng.normal(size=(500, 7))))
        indices.copy_(torch.from_numpy(rng.integers(-600, 600, (2_000, 1))))
        graph.replay()
        rows = by_core("gather_nd", data.cpu(), indices.cpu(), mode=read) + updates.cpu()
        options = {"reduction": reduction, "mode": mode}
        same_bits(result, by_core("scatter_nd", data.cpu(), indices.cpu(), rows, **options))


def test_more_than_2_31_elements():
    """Results, data, updates and destinations beyond 32-bit offsets."""
    step = torch.arange(2**20, device="cuda").remainder(251).to(torch.uint8)
    data = step.repeat(2**11 + 3)  # 2**31 + 3 * 2**20
    far = torch.tensor([[len(data) - 1], [-len(data)], [2**31 + 7], [-1]], device="cuda")
    same(ndgather.gather_nd(data, far), data[far[:, 0]])
    with pytest.raises(IndexOutOfBoundsError, match=rf"indices\[1, 0\] = -{len(data) + 1} "):
        ndgather.gather_nd(data, far - 1)
    rows = torch.randint(0, 2**11 + 3, (2**11 + 9, 1), device="cuda")
    result = ndgather.gather_nd(data.view(-1, 2**20), rows)
    assert result.numel() > 2**31
    for row in (0, 2**10, 2**11 + 8):
        assert torch.equal(result[row], step)
    del result
    positions = torch.arange(2**31 + 99, device="cuda", dtype=torch.int32).remainder_(251)[:, None]
    result = ndgather.gather_nd(step[:251], positions)
    assert torch.equal(result[-251:], positions[-251:, 0].to(torch.uint8))
    assert torch.equal(result[: 2**20], positions[: 2**20, 0].to(torch.uint8))
    del result, positions
    places = torch.tensor([[len(data) - 1], [5], [-1], [2**31]], device="cuda")
    updates = torch.tensor([1, 2, 3, 4], dtype=torch.uint8, device="cuda")
    for reduction in ("none", "add", "mul"):
        wanted = data.clone()
        for place, update in zip(places[:, 0].tolist(), updates.tolist(), strict=True):
            old = int(wanted[place])
            new = {"none": update, "add": old + update, "mul": old * update}[reduction]
            wanted[place] = new % 256
        assert torch.equal(ndgather.scatter_nd(data, places, updates, reduction=reduction), wanted)
        del wanted
    del data
    count = 2**31 // 64 + 77
    updates = torch.ones(count, 64, dtype=torch.uint8, device="cuda")
    places = torch.arange(count, device="cuda").remainder(1000)[:, None]
    sums = ndgather.scatter_nd(
        torch.zeros(1000, 64, dtype=torch.uint8, device="cuda"), places, updates, reduction="add"
    )
    counts = torch.full((1000,), count // 1000) + (torch.arange(1000) < count % 1000)
    same(sums, counts.to(torch.uint8)[:, None].expand(1000, 64))


def test_torch_settings_do_not_change_results(rng):
    data = torch.from_numpy(rng.normal(size=(100, 3))).cuda()
    indices = torch.from_numpy(rng.integers(0, 100, (900, 1))).cuda()
    wanted = ndgather.scatter_nd(data, indices, data[indices[:, 0]], reduction="add")
    torch.use_deterministic_algorithms(True)
    try:
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.float16)
        with torch.inference_mode():
            got = ndgather.scatter_nd(data, indices, data[indices[:, 0]], reduction="add")
            same(ndgather.gather_nd(data, indices), data[indices[:, 0]])
            with pytest.raises(IndexOutOfBoundsError):
                ndgather.gather_nd(data, [[100]])
            filled = ndgather.gather_nd(data, [[100]], mode="fill", fill_value=2.5)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    same(got, wanted)
    same(filled, torch.full((1, 3), 2.5, dtype=torch.float64))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradients_equal_the_cpu(reduction, rng):
    data = torch.from_numpy(rng.normal(size=(60, 4)))
    updates = torch.from_numpy(rng.normal(size=(200, 4)))
    indices = torch.from_numpy(rng.integers(0, 60, (200, 1)))
    found = []
    for device in ("cpu", "cuda"):
        given = [each.detach().to(device).requires_grad_() for each in (data, updates)]
        result = ndgather.scatter_nd(given[0], indices.to(device), given[1], reduction=reduction)
        read = ndgather.gather_nd(result.sin(), indices.to(device))
        first = torch.autograd.grad(read.pow(2).sum(), given, create_graph=True)
        second = torch.autograd.grad(sum(each.pow(2).sum() for each in first), given)
        found.append([each.cpu() for each in (*first, *second)])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)
    mapped = torch.func.vmap(torch.func.grad(lambda x, i: ndgather.gather_nd(x, i).sum()))
    batch = data.cuda().expand(3, 60, 4), indices.cuda().expand(3, 200, 1)
    counts = torch.bincount(indices[:, 0], minlength=60).double()
    same(mapped(*batch), counts[:, None].expand(3, 60, 4).contiguous())


def test_compiled_programs(rng):
    """Inductor compiles the code around the calls."""

    @torch.compile(fullgraph=True, dynamic=True)
    def step(data, indices, updates):
        rows = ndgather.gather_nd(data * 2, indices, mode="clip")
        return ndgather.scatter_nd(data.sin(), indices, rows + updates, reduction="add")

    for size in (50, 70):
        data = torch.from_numpy(rng.normal(size=(size, 3))).cuda().requires_grad_()
        indices = torch.from_numpy(rng.integers(0, size, (size * 3, 1))).cuda()
        updates = data.detach()[indices[:, 0]]
        result = step(data, indices, updates)
        wanted = data.sin().index_add(0, indices[:, 0], (data * 2)[indices[:, 0]] + updates)
        torch.testing.assert_close(result, wanted, rtol=1e-12, atol=1e-12)
        found, known = (
            torch.autograd.grad(each.pow(2).sum(), data)[0] for each in (result, wanted)
        )
        torch.testing.assert_close(found, known, rtol=1e-10, atol=1e-10)
        with pytest.raises(IndexOutOfBoundsError):
            step(data, indices + size, updates)


def test_arrays_of_other_libraries_on_the_gpu(rng):
    """CuPy arrays become tensors that share their memory, and results are CuPy arrays."""
    cupy = pytest.importorskip("cupy")
    data = rng.normal(size=(50, 3))
    indices = rng.integers(-50, 50, (400, 1))
    result = ndgather.gather_nd(cupy.asarray(data), cupy.asarray(indices))
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_array_equal(result.get(), data[indices[:, 0]])
    listed = ndgather.gather_nd(cupy.asarray(data), [[3], [-1]], mode="clip")
    np.testing.assert_array_equal(listed.get(), data[[3, 0]])
    updates = rng.normal(size=(400, 3))
    given = [cupy.asarray(each) for each in (data, indices, updates)]
    added = ndgather.scatter_nd(*given, reduction="add")
    wanted = ndgather.scatter_nd(data, indices, updates, reduction="add")
    np.testing.assert_array_equal(added.get(), wanted)
    np.testing.assert_array_equal(given[0].get(), data)
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[0, 0\] = 50 "):
        ndgather.gather_nd(given[0], given[1] * 0 + 50)


@pytest.mark.parametrize("wait", [True, False])
def test_out_of_bounds_index_of_any_operator_is_reported(wait):
    """Without the block, torch would end the process."""
    table, wild = torch.rand(50, 4, device="cuda"), torch.tensor([3, 50], device="cuda")
    for call in (
        lambda: torch.nn.functional.embedding(wild, table),
        lambda: table[wild],
        lambda: table.index_select(0, wild),
        lambda: table.gather(0, wild[:, None]),
        lambda: table.index_add(0, wild, table[:2]),
    ):
        with (
            pytest.raises(IndexOutOfBoundsError, match="50"),
            ndgather.checked_indices(wait=wait),
        ):
            call()
        same(table[torch.tensor([3], device="cuda")], table[3:4])


def test_memory_is_released(rng):
    """A call keeps no memory except its result."""
    data = torch.from_numpy(rng.normal(size=(1000, 64))).cuda()
    indices = torch.from_numpy(rng.integers(0, 1000, (4000, 1))).cuda()
    updates = data[indices[:, 0]]
    ndgather.scatter_nd(data, indices, updates, reduction="add")
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        ndgather.scatter_nd(data, indices, updates, reduction="add")
        with pytest.raises(IndexOutOfBoundsError):
            ndgather.gather_nd(data, indices + 1000)
    assert torch.cuda.memory_allocated() == before


def test_arrays_of_jax(rng):
    """XLA assigns in any order, so the last update is selected before; sums are in any order."""
    jax = pytest.importorskip("jax")
    device = next((each for each in jax.devices() if each.platform == "gpu"), None)
    if device is None:
        pytest.skip("no GPU for JAX")
    data, updates = (rng.normal(size=n).astype("f4") for n in ((300, 5), (90_000, 5)))
    indices = rng.integers(-300, 300, (90_000, 1)).astype("i4")
    placed = [jax.device_put(each, device) for each in (data, indices, updates)]
    for each in (ndgather.scatter_nd, jax.jit(ndgather.scatter_nd)):
        result = each(*placed)
        assert result.devices() == {device}
        np.testing.assert_array_equal(result, ndgather.scatter_nd(data, indices, updates))
    wanted = ndgather.scatter_nd(
        data.astype(float), indices, updates.astype(float), reduction="add"
    )
    added = ndgather.scatter_nd(*placed, reduction="add")
    np.testing.assert_allclose(added, wanted, rtol=1e-3, atol=1e-3)
    gradient = jax.grad(lambda x: (ndgather.scatter_nd(placed[0], placed[1], x) ** 2).sum())
    last = {int(index) % 300: number for number, index in enumerate(indices[:, 0])}
    wanted = np.zeros_like(updates)
    wanted[list(last.values())] = 2 * updates[list(last.values())]
    np.testing.assert_array_equal(gradient(placed[2]), wanted)
    for each in (ndgather.gather_nd, jax.jit(ndgather.gather_nd)):
        np.testing.assert_array_equal(each(*placed[:2]), data[indices[:, 0]])
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[0, 0\] = 300 "):
        ndgather.gather_nd(placed[0], placed[1] * 0 + 300)
    filled = jax.jit(ndgather.gather_nd)(placed[0], placed[1] * 0 + 300)
    assert bool(jax.numpy.isnan(filled).all())
