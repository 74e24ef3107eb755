"""Compiled and exported programs, and torch's own checks of the operators."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import ndgather
import ndgather.arrays.torch.compiling
from ndgather.errors import NdgatherError
from tests.frameworks.drawn_calls import GATHERS as GATHER_NAMES
from tests.frameworks.drawn_calls import SCATTERS as SCATTER_NAMES
from tests.frameworks.drawn_calls import drawn_calls
from tests.frameworks.torch_calls import GATHERS, SCATTERS, called, data_of, indices_of, same

# raised by torch's compiler itself
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

CALLS = [(kind, shape, places, None, options) for kind, shape, places, options in GATHERS]
CALLS = [each for each in CALLS if 0 not in each[1]] + list(SCATTERS)


@pytest.fixture
def rng():
    torch._dynamo.reset()
    return np.random.default_rng(3)


def drawn(rng, kind, shape, places, sizes, options):
    """Return data and updates that require gradients, and indices."""
    indices = torch.from_numpy(indices_of(rng, kind, shape, places, options))
    given = [data_of(rng, shape).float().requires_grad_(), indices]
    return given if sizes is None else [*given, data_of(rng, sizes).float().requires_grad_()]


@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), CALLS)
def test_calls_compile_without_a_graph_break(kind, shape, places, sizes, options, rng):
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


def test_calls_compile_with_inductor_and_other_arguments(rng):
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


def test_transforms_in_a_compiled_function(rng):
    data, indices = data_of(rng, (4, 3)), torch.tensor([[1], [3]])

    def function(data):
        return torch.func.grad(lambda x: (ndgather.gather_nd(x, indices) ** 2).sum())(data)

    same(torch.compile(function, fullgraph=True, backend="aot_eager")(data), function(data))


@pytest.mark.parametrize("registered", ["first", "after a call", "after a compiled call"])
def test_importing_compiling_registers_the_functions(registered):
    """In a separate process, in which calls do not import the compiler."""
    steps = {
        "first": "",
        "after a call": "ndgather.gather_nd(torch.arange(3.0, requires_grad=True), [[1]])\n"
        "assert 'torch._dynamo' not in sys.modules\n",
        "after a compiled call": "torch.compile(gather, backend='eager')(data, places)\n"
        "torch._dynamo.reset()\n",
    }
    program = (
        "import sys, torch, ndgather\n"
        "gather = lambda x, i: ndgather.gather_nd(x, i)\n"
        "data, places = torch.arange(3.0), torch.tensor([[2]])\n"
        f"{steps[registered]}"
        "import ndgather.arrays.torch.compiling\n"
        "function = torch.compile(gather, fullgraph=True, backend='eager')\n"
        "print(function(data, places).tolist())\n"
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
def test_export_with_dynamic_sizes(kind, shape, places, sizes, options, rng):
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
def test_operators_pass_opcheck(kind, shape, places, sizes, options, rng):
    given = drawn(rng, kind, shape, places, sizes, options)
    operator = getattr(torch.ops.ndgather, kind).default
    torch.library.opcheck(operator, tuple(given), options)
    # With any strides: the fake result must predict them.
    turned = [each.detach().movedim(0, -1).contiguous().movedim(-1, 0) for each in given]
    torch.library.opcheck(operator, tuple(turned), options, test_utils="test_faketensor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_fill_value_operator_passes_opcheck(dtype):
    for value in (torch.tensor(7), torch.tensor([2.0], dtype=torch.float64)):
        given = value, dtype, torch.device("cpu"), "gather_nd"
        torch.library.opcheck(torch.ops.ndgather.fill_value.default, given)


def test_fake_tensors_have_only_shapes():
    with torch._subclasses.FakeTensorMode():
        data, indices = torch.empty(4, 3), torch.empty(5, 1, dtype=torch.int64)
        assert ndgather.gather_nd(data, indices).shape == (5, 3)
        with pytest.raises(ndgather.errors.ShapeError, match=r"indices\.shape\[-1\] = 3"):
            ndgather.gather_nd(data, torch.empty(5, 3, dtype=torch.int64))


SQUARE, INDICES = torch.zeros(5, 3), torch.tensor([[1], [2]])
UNFIT = {
    "updates of a lower rank": partial(ndgather.scatter_nd, SQUARE, INDICES, torch.ones(2)),
    "updates of a higher rank": partial(ndgather.scatter_nd, SQUARE, INDICES, SQUARE[None, :2]),
    "indices of another rank": partial(ndgather.gather_elements, SQUARE, INDICES[0]),
    "long index tuples": partial(ndgather.gather_nd, SQUARE, torch.tensor([[0, 0, 0]])),
    "an axis": partial(ndgather.gather, SQUARE, INDICES, axis=2),
    "batch dims": partial(ndgather.gather, SQUARE, INDICES[0], axis=1, batch_dims=2),
    "the size of a batch axis": partial(ndgather.gather, SQUARE, INDICES, axis=1, batch_dims=1),
    "more updates": partial(ndgather.scatter_nd, SQUARE, INDICES, SQUARE[:3]),
    "longer updates": partial(ndgather.scatter_nd, SQUARE, INDICES, torch.ones(2, 4)),
}


@pytest.mark.parametrize("call", UNFIT.values(), ids=UNFIT)
def test_shapes_are_checked_if_sizes_are_symbols(call):
    """Apart from sizes, the errors are those of eager calls."""
    with pytest.raises(NdgatherError) as eager:
        call()
    traced = make_fx(partial(call.func, **call.keywords), tracing_mode="symbolic")
    with pytest.raises(type(eager.value)) as caught:
        traced(*call.args)
    eager, symbolic = (re.sub(r"\bs?\d+\b", "N", str(each.value)) for each in (eager, caught))
    assert symbolic == eager


def test_traced_and_functionalized_programs(rng):
    data, indices = data_of(rng, (4, 3)), torch.tensor([[1], [3]])

    def function(data, indices):
        return ndgather.gather_nd(data, indices) + 1

    graph = torch.fx.experimental.proxy_tensor.make_fx(function)(data, indices)
    assert "ndgather.gather_nd" in str(graph.graph)
    same(graph(data * 2, indices), function(data * 2, indices))
    same(torch.func.functionalize(function)(data, indices), function(data, indices))


def test_autocast_in_a_compiled_function():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(data, indices, updates):
        return ndgather.scatter_nd(data, indices, updates, reduction="add")

    with torch.autocast("cpu", torch.bfloat16):
        result = function(torch.zeros(3), torch.tensor([[1]]), torch.ones(1).bfloat16())
    same(result, torch.tensor([0.0, 1, 0]))


@pytest.mark.filterwarnings("ignore:Dynamo detected")
def test_compiled_calls_keep_all_digits():
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


def test_compiled_calls_accept_a_tensor_as_fill_value():
    """Its value is not known while the function is compiled."""
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


# Compiling one of the drawn calls takes about a tenth of a second.
ARGUMENTS = {
    "tensor": torch.from_numpy,
    "array": lambda array: array,
    "list": np.ndarray.tolist,
    "tuple": lambda array: tuple(array.tolist()) if array.ndim else array.tolist(),
    "list of scalars": lambda array: list(array) if array.ndim == 1 else array.tolist(),
}
MISUSED = {
    "unknown": lambda given, options: (given, options | {"dim": 1}),
    "of torch": lambda given, options: (given, options | {"reduce": "add"}),
    "doubled": lambda given, options: (given, options | {"data": given[0]}),
    "by position": lambda given, options: ((*given, *[0] * 4), options),
    "missing": lambda given, options: (given[:1], options),
    "mode": lambda given, options: (given, options | {"mode": "reject"}),
    "modes": lambda given, options: (given, options | {"mode": ("clip", "warp")}),
    "axis": lambda given, options: (given, options | {"axis": 1.5}),
    "far axis": lambda given, options: (given, options | {"axis": 9}),
    "fill": lambda given, options: (given, options | {"mode": "fill", "fill_value": "one"}),
    "large fill": lambda given, options: (given, options | {"mode": "fill", "fill_value": 1e300}),
    "memory": lambda given, options: (given, options | {"memory": "1 lb"}),
    "updates": lambda given, options: ((*given[:2], [1j]), options),
    "large updates": lambda given, options: ((*given[:2], [10**30]), options),
    # Lists have the dtype of data: another dtype of updates would be a second mistake.
    "indices": lambda given, options: (
        (given[0], [0.5], *(np.asarray(each).tolist() for each in given[2:])),
        options,
    ),
}
SCALARS = {int: np.int64, float: np.float32, bool: np.bool_, tuple: list}
EXECUTOR = ThreadPoolExecutor()
TAKEN = [
    lambda data: ndgather.gather(data, torch.tensor([])),
    lambda data: ndgather.gather(data, []),
    lambda data: ndgather.gather(data, np.empty((0, 2))),
    lambda data: ndgather.gather(data, [0], axis=np.int64(1)),
    lambda data: ndgather.gather(data, np.int64(1), np.int8(-1)),
    lambda data: ndgather.gather(data, [np.int64(1), 0], batch_dims=np.uint8(0)),
    lambda data: ndgather.gather(data, [9], mode="fill", fill_value=np.float32(3)),
    lambda data: ndgather.gather(data, [9], mode="fill", fill_value=np.array(3)),
    lambda data: ndgather.gather_windows(data, [[0, 2]], (2, 2), mode=("edge", "wrap")),
    lambda data: ndgather.gather_windows(data, [[0, 2]], [2, np.int64(2)], mode=["edge", "wrap"]),
    lambda data: ndgather.gather_windows(data, [[0]], data.shape[:1], mode="clip"),
    lambda data: ndgather.gather(data, data.shape[:1], axis=1),
    lambda data: ndgather.scatter_nd(data, [[0, 1]], [np.float32(7)]),
    lambda data: ndgather.scatter_nd(data, ([0], [1]), ((1, 2, 3), [4, 5, 6]), reduction="add"),
    lambda data: ndgather.scatter_nd(data, [[0]], [[1, 2, 3.0]], use_init_val=1),
    lambda data: ndgather.gather(data.numpy(), [0, 1]),
    lambda data: ndgather.gather([0.1, 0.2], data.long() % 2),
    lambda data: ndgather.gather(data, [data[0, 0].long(), 1]),
    lambda data: ndgather.gather(indices=[0], data=data, memory="1 MiB", progress=print),
    lambda data: ndgather.gather(data, [0], executor=EXECUTOR),
]


@pytest.mark.parametrize("function", TAKEN, ids=[f"call{n}" for n in range(len(TAKEN))])
def test_arguments_of_eager_calls_do_not_break_the_graph(function):
    data = torch.arange(6.0).reshape(2, 3)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    torch._dynamo.reset()
    assert outcome(lambda: compiled(data)) == outcome(lambda: function(data))
    assert type(compiled(data)) is type(function(data))


@pytest.mark.filterwarnings("ignore:Dynamo detected")
def test_changed_variables_recompile():
    function = torch.compile(lambda d, n: ndgather.gather(d, [0], axis=n), backend="aot_eager")
    data = torch.arange(6.0).reshape(2, 3)
    for axis in (np.int64(1), np.int64(0), 1, 0, torch.tensor(1), torch.tensor(0)):
        same(function(data, axis), data[:, :1] if int(axis) else data[:1])


def outcome(function):
    """Return the values and dtype of a result, or the text of an error."""
    try:
        result = function()
    except (ndgather.errors.NdgatherError, TypeError) as error:
        return str(error).partition("\n")[0]
    result = np.asarray(result)
    return result.dtype, result.shape, result.tobytes()


@st.composite
def calls_to_compile(draw):
    """Draw a valid or invalid call with tensors, arrays and lists."""
    call = draw(drawn_calls([*GATHER_NAMES, *SCATTER_NAMES], ["float32", "int16", "bool"]))
    if call.options.get("reduction") == "mean" and call.data.dtype == bool:
        call.options["reduction"] = "max"
    given = [call.data, call.indices] + ([] if call.updates is None else [call.updates])
    kinds = [draw(st.sampled_from(sorted(ARGUMENTS))) if each.size else "tensor" for each in given]
    kinds[draw(st.integers(0, 1))] = "tensor"
    given = tuple(ARGUMENTS[kind](each) for kind, each in zip(kinds, given, strict=True))
    options = dict(call.options)
    for name, value in options.items():
        if type(value) in SCALARS and draw(st.booleans()):
            options[name] = SCALARS[type(value)](value)
    if draw(st.integers(0, 2)) == 0:
        given, options = MISUSED[draw(st.sampled_from(sorted(MISUSED)))](given, options)
    return call.name, given, options


class Called(torch.nn.Module):
    """A call with tensors as arguments and all other arguments as constants."""

    def __init__(self, name, given, options):
        super().__init__()
        self.name, self.given, self.options = name, given, options

    def forward(self, *tensors):
        left = list(tensors)
        given = [left.pop(0) if isinstance(g, torch.Tensor) else g for g in self.given]
        return getattr(ndgather, self.name)(*given, **self.options)


@pytest.mark.filterwarnings("ignore:Dynamo detected")
@settings(max_examples=15 if settings.default.max_examples < 100 else 150)
@given(calls_to_compile())
@example(("scatter_elements", ([[1.0]], torch.zeros((0, 0), dtype=torch.int64), [1j]), {}))
@example(("scatter_nd", ([[1.0]], torch.zeros((1, 1), dtype=torch.int64), torch.zeros(1, 1)), {}))
def test_calls_agree_on_every_path(drawn):
    name, given, options = drawn
    function = Called(name, given, options)
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    eager = outcome(lambda: function(*tensors))
    # The value of a NumPy number is unknown while a graph is made; a fill value may be unknown.
    variable = [isinstance(each, np.generic) for each in options.values()]
    for whole in (False, True) if not any(variable) else (False,):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="aot_eager", fullgraph=whole)
        said = outcome(lambda: compiled(*tensors))  # noqa: B023 - is called at once
        if isinstance(said, str) and not isinstance(given[0], torch.Tensor):
            # The data of a graph is a tensor, so errors name the dtypes of torch.
            said = re.sub(r"\btorch\.(?=bool|\w+\d)", "", said)
        assert said == eager
    if isinstance(given[0], torch.Tensor):  # the results of a graph are tensors
        traced = torch.fx.experimental.proxy_tensor.make_fx
        assert outcome(lambda: traced(function)(*tensors)(*tensors)) == eager
        exported = torch.export.export
        made = outcome(lambda: exported(function, tuple(tensors)).module()(*tensors))
        assert made == eager
