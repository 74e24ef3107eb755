"""Compiled and exported programs, and what torch's own checks say of the operators."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.frameworks.torch_calls import GATHERS, SCATTERS, called, data_of, indices_of, same

import ndgather
import ndgather.arrays.torch

# Of torch's own compiler.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

CALLS = [(kind, shape, places, None, options) for kind, shape, places, options in GATHERS]
CALLS = [each for each in CALLS if 0 not in each[1]] + list(SCATTERS)


@pytest.fixture
def rng():
    torch._dynamo.reset()
    return np.random.default_rng(3)


def drawn(rng, kind, shape, places, sizes, options):
    """Return data and updates, which want gradients, and indices."""
    indices = torch.from_numpy(indices_of(rng, kind, shape, places, options))
    given = [data_of(rng, shape).float().requires_grad_(), indices]
    return given if sizes is None else [*given, data_of(rng, sizes).float().requires_grad_()]


@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), CALLS)
def test_compiled_without_a_break(kind, shape, places, sizes, options, rng):
    given = drawn(rng, kind, shape, places, sizes, options)
    if sizes is not None:
        options = options | {"reduction": "mean"}

    def function(*given):
        return called(kind, *given, **options) * 2

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    same(compiled(*given).detach(), function(*given).detach())
    wanting = [each for each in given if each.requires_grad]
    ours = torch.autograd.grad(compiled(*given).sum(), wanting)
    same(ours, torch.autograd.grad(function(*given).sum(), wanting))


def test_compiled_with_inductor_and_other_arguments(rng):
    data = data_of(rng, (4, 3)).float().requires_grad_()

    def function(data, out):
        rows = ndgather.gather_nd(data.relu(), [[1], [-1]])
        ndgather.gather(data.detach(), np.array([0, 2]), axis=1, out=out)
        return ndgather.scatter_nd(rows, [[0]], [[1.0, 2.0, 3.0]], reduction="add").sum()

    outs = torch.empty(4, 2), torch.empty(4, 2)
    result = torch.compile(function, fullgraph=True)(data, outs[0])
    torch.testing.assert_close(result, function(data, outs[1]))
    same(*outs)
    (gradient,) = torch.autograd.grad(result, data)
    assert gradient.sum(1).tolist() == [0, 3, 0, 3]


def test_transforms_within_a_compiled_function(rng):
    data, indices = data_of(rng, (4, 3)), torch.tensor([[1], [3]])

    def function(data):
        return torch.func.grad(lambda x: (ndgather.gather_nd(x, indices) ** 2).sum())(data)

    same(torch.compile(function, fullgraph=True, backend="aot_eager")(data), function(data))


@pytest.mark.parametrize("order", ["compiled first", "called first"])
def test_a_first_call_finds_the_functions(order):
    """In a process of its own, where nothing has been imported yet."""
    call = "ndgather.gather_nd(torch.arange(3.0), torch.tensor([[1]]))\n"
    program = (
        "import torch, ndgather\n"
        + ("import ndgather.arrays.torch\n" if order == "compiled first" else call)
        + "assert 'torch._dynamo' not in __import__('sys').modules\n"
        + "function = torch.compile(lambda x, i: ndgather.gather_nd(x, i), fullgraph=True,"
        " backend='eager')\n" + "print(function(torch.arange(3.0), torch.tensor([[2]])).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip() == "[2.0]", done.stderr


@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), CALLS)
def test_exported_with_sizes_left_open(kind, shape, places, sizes, options, rng):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return called(kind, *given, **options)

    given = [each.detach() for each in drawn(rng, kind, shape, places, sizes, options)]
    if kind == "gather_nd" and not options:
        open_sizes = (({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC}),)
        program = torch.export.export(Model(), tuple(given), dynamic_shapes=open_sizes)
        more = [torch.cat([each, each]) for each in given]
        same(program.module()(*more), called(kind, *more, **options))
    else:
        program = torch.export.export(Model(), tuple(given))
    assert f"ndgather.{kind}.default" in str(program.graph)
    same(program.module()(*given), called(kind, *given, **options))


@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), CALLS)
def test_what_torch_checks_of_operators(kind, shape, places, sizes, options, rng):
    given = drawn(rng, kind, shape, places, sizes, options)
    torch.library.opcheck(getattr(torch.ops.ndgather, kind).default, tuple(given), options)


def test_fake_tensors_have_shapes_alone():
    with torch._subclasses.FakeTensorMode():
        data, indices = torch.empty(4, 3), torch.empty(5, 1, dtype=torch.int64)
        assert ndgather.gather_nd(data, indices).shape == (5, 3)
        with pytest.raises(ndgather.errors.ShapeError, match=r"indices\.shape\[-1\] = 3"):
            ndgather.gather_nd(data, torch.empty(5, 3, dtype=torch.int64))


def test_traced_and_functionalized_programs(rng):
    data, indices = data_of(rng, (4, 3)), torch.tensor([[1], [3]])

    def function(data, indices):
        return ndgather.gather_nd(data, indices) + 1

    graph = torch.fx.experimental.proxy_tensor.make_fx(function)(data, indices)
    assert "ndgather.gather_nd" in str(graph.graph)
    same(graph(data * 2, indices), function(data * 2, indices))
    same(torch.func.functionalize(function)(data, indices), function(data, indices))


def test_autocast_within_a_compiled_function():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(data, indices, updates):
        return ndgather.scatter_nd(data, indices, updates, reduction="add")

    with torch.autocast("cpu", torch.bfloat16):
        result = function(torch.zeros(3), torch.tensor([[1]]), torch.ones(1).bfloat16())
    same(result, torch.tensor([0.0, 1, 0]))


@pytest.mark.filterwarnings("ignore:Dynamo detected")
def test_compiled_calls_lose_nothing_that_others_keep():
    places = torch.tensor([[1], [0]])
    whole = torch.arange(3)

    def compiled(function):
        return torch.compile(function, backend="eager")

    with pytest.raises(ndgather.errors.DTypeError):
        compiled(lambda data: ndgather.scatter_nd(data, places, [1.5, 2.0]))(whole)
    with pytest.raises(ndgather.errors.DTypeError):
        compiled(lambda data: ndgather.gather_nd(data, places + 9, mode="fill", fill_value=1.5))(
            whole
        )
    for out in (torch.zeros(2), torch.zeros(4, 2, dtype=torch.int64)):
        with pytest.raises(ndgather.errors.NdgatherError, match="out"):
            compiled(lambda data, out: ndgather.gather_nd(data, places, out=out))(whole, out)


def test_compiled_calls_fill_with_the_value_of_a_tensor():
    """It is not known while the function is compiled."""
    data, places = torch.arange(6.0).reshape(3, 2).requires_grad_(), torch.tensor([[1], [7]])

    def of_rows(data, fill):
        return ndgather.gather_nd(data, places, mode="fill", fill_value=fill)

    def of_windows(data, fill):
        return ndgather.gather_windows(data, places, (2,), mode="fill", fill_value=fill)

    for function in (of_rows, of_windows):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for fill in (torch.tensor(7), torch.tensor([-1.5]), torch.tensor(2.5, dtype=torch.float64)):
            same(compiled(data, fill).detach(), function(data, fill).detach())
            (gradient,) = torch.autograd.grad(compiled(data, fill).sum(), data)
            same(gradient, torch.autograd.grad(function(data, fill).sum(), data)[0])


@pytest.mark.filterwarnings("ignore:Dynamo detected")
def test_errors_of_compiled_calls_name_the_function():
    data, places = torch.arange(3), torch.tensor([[1], [0]])
    elements = torch.tensor([1, 0])
    refused = {
        "gather_nd": lambda: ndgather.gather_nd(data, places, out=torch.zeros(2)),
        "gather": lambda: ndgather.gather(data, elements, out=torch.zeros(4, dtype=torch.int64)),
        "scatter_nd": lambda: ndgather.scatter_nd(data, places, [1.5, 2.0]),
        "scatter_elements": lambda: ndgather.scatter_elements(data, elements, [1j, 2.0]),
        "gather_windows": lambda: ndgather.gather_windows(
            data, places, (1,), mode="fill", fill_value=torch.tensor([1, 2])
        ),
        "gather_elements": lambda: ndgather.gather_elements(
            data.float(), elements, mode="fill", fill_value=torch.tensor(1.0, requires_grad=True)
        ),
    }
    for name, function in refused.items():
        with pytest.raises(ndgather.errors.NdgatherError) as eager:
            function()
        with pytest.raises(ndgather.errors.NdgatherError) as compiled:
            torch.compile(function, backend="eager")()
        assert str(compiled.value).startswith(f"{name}: "), compiled.value
        assert type(compiled.value) is type(eager.value)


def test_compiled_lists_keep_their_digits():
    data, places = torch.zeros(2, dtype=torch.float64), torch.tensor([[1]])

    def function(data):
        return ndgather.scatter_nd(data, places, [0.1]), ndgather.gather_nd([0.1, 0.2], places)

    compiled = torch.compile(function, backend="aot_eager")(data)
    for actual, expected in zip(compiled, function(data), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), expected, strict=True)
