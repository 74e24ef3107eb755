"""The GPU kernels; without a GPU, Triton's interpreter runs them on CPU tensors.

The oracles are plain loops and, for float sums, the core, which adds in the same order.
"""

import gc
import itertools
import sys
import weakref
from functools import partial

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.runtime import interpreter

import ndgather
import ndgather.arrays.torch.compiling
from ndgather.arrays.torch import kernels
from ndgather.errors import DTypeError, IndexOutOfBoundsError
from tests.definitions import calls
from tests.definitions.covering import compare_covering_calls
from tests.definitions.draws import MODES
from tests.frameworks import torch_calls
from tests.frameworks.drawn_calls import GATHERS as GATHER_NAMES
from tests.frameworks.drawn_calls import SCATTERS as SCATTER_NAMES
from tests.frameworks.torch_calls import (
    DEVICE,
    GATHERS,
    SCATTERS,
    by_core,
    called,
    expected,
    indices_of,
    same,
    same_bits,
)

INDEX_DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64")
# NumPy, which the interpreter uses, warns about sums of infinities.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


data_of = partial(torch_calls.data_of, device=DEVICE)
only_interpreted = pytest.mark.skipif(DEVICE != "cpu", reason="of the interpreter alone")


def placed(values):
    """Return a tensor on the device of the kernels."""
    return torch.as_tensor(values).to(DEVICE)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(autouse=True)
def interpreted_as_compiled(monkeypatch):
    """The interpreter copies whole storages and does not round to bfloat16 as devices do."""
    convert = interpreter._convert_float

    def converted(values, from_type, to_type, rounding):
        if to_type != tl.bfloat16:
            return convert(values, from_type, to_type, rounding)
        rounded = torch.from_numpy(np.array(values)).to(torch.bfloat16)
        return rounded.view(torch.uint16).numpy()

    monkeypatch.setattr(interpreter, "_convert_float", converted)
    monkeypatch.setattr(interpreter.GridExecutor, "_restore_args_dev", lambda *_: None)


def test_kernels_are_used(monkeypatch):
    calls = []
    monkeypatch.setattr(kernels, "run", lambda call, *_: calls.append(call.kind) or call.data)
    ndgather.gather_nd(placed(torch.ones(3)), [[1]])
    ndgather.scatter_nd(placed(torch.ones(3)).requires_grad_(), [[1]], [2.0])
    assert calls == ["gather_nd", "scatter_nd"]


class Jit:
    """An interpreted kernel behind the interface of Triton's compiler."""

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, 0

    def __getitem__(self, grid):
        return partial(self.compile, grid)

    def compile(self, grid, *arguments, num_warps):
        self.compiled += 1
        self.kernel[grid](*arguments, num_warps=num_warps)
        return Compiled(self.kernel, arguments)


class Compiled:
    def __init__(self, kernel, arguments):
        self.kernel, self.wanted = kernel, [specialized(each) for each in arguments]
        self.dtypes = [getattr(each, "dtype", None) for each in arguments]

    def __getitem__(self, grid):
        return partial(self.launch, grid)

    def launch(self, grid, *arguments, stream):
        assert [specialized(each) for each in arguments] == self.wanted
        typed = [
            each if dtype is None or each.dtype is dtype else triton.reinterpret(each, dtype)
            for each, dtype in zip(arguments, self.dtypes, strict=True)
        ]
        self.kernel[grid](*typed)


def specialized(argument):
    """Return the parts of a call for which Triton compiles a separate kernel."""
    if hasattr(argument, "data_ptr"):
        return argument.data_ptr() % 16 == 0
    return type(argument) if type(argument) is int else argument


class Recorded:
    """A kernel that does nothing."""

    def __getitem__(self, grid):
        return lambda *arguments, **options: self


@pytest.fixture
def replaced_kernels(monkeypatch):
    """Return a function that replaces the kernels by instances of a class and returns them."""

    def replace(cls, *options):
        made = []
        for name in ("gather_kernel", "key_kernel", "scatter_kernel"):
            made.append(cls(*(getattr(kernels, name) for _ in options)))
            monkeypatch.setattr(kernels, name, made[-1])
        return made

    kernels.kept_plans.cache_clear()
    yield replace
    kernels.kept_plans.cache_clear()


HOST_CALLS = {
    "gather_nd": lambda data, at, new: ndgather.gather_nd(data, at),
    "clip": lambda data, at, new: ndgather.gather_nd(data, at, mode="clip"),
    "fill": lambda data, at, new: ndgather.gather_nd(data, at, mode="fill", fill_value=2.5),
    "gather": lambda data, at, new: ndgather.gather(data, at, axis=1),
    "elements": lambda data, at, new: ndgather.gather_elements(data, at, axis=-1),
    "windows": lambda data, at, new: ndgather.gather_windows(data, at, (2,)),
    "none": ndgather.scatter_nd,
    "add": lambda data, at, new: ndgather.scatter_nd(data, at, new, reduction="add"),
    "drop": lambda data, at, new: ndgather.scatter_nd(data, at, new, reduction="max", mode="drop"),
    "mean": lambda data, at, new: ndgather.scatter_nd(data, at, new, reduction="mean"),
    "put": lambda data, at, new: ndgather.scatter_elements(data, at, new[:, :1], axis=1),
}


@only_interpreted
@pytest.mark.parametrize("call", HOST_CALLS.values(), ids=HOST_CALLS)
def test_repeated_calls_make_few_python_calls(call, replaced_kernels):
    replaced_kernels(Recorded)
    arguments = torch.rand(5, 4), torch.tensor([[1], [2], [1], [0], [2]]), torch.rand(5, 4)
    call(*arguments)
    found = []
    sys.setprofile(lambda frame, event, _: event == "call" and found.append(frame.f_code.co_name))
    try:
        call(*arguments)
    finally:
        sys.setprofile(None)
    assert 5 < len(found) <= 41, found  # including the call of the lambda itself


@pytest.mark.parametrize("call", HOST_CALLS.values(), ids=HOST_CALLS)
def test_kept_kernels_are_launched_with_their_constants(call, replaced_kernels):
    """For equal signatures with other values, and arrays at other alignments."""
    made = replaced_kernels(Jit, 1) if DEVICE == "cpu" else []
    at = torch.tensor([[0], [2], [1], [0], [2]])
    data, new = torch.rand(2, 64)
    compiled = []
    for begin in (0, 0, 1, 2, 4, 1, 0):
        given = [data[begin:][:20].view(5, 4), at.roll(begin), new[begin:][:20].view(5, 4)]
        wanted = torch.from_numpy(call(*(tensor.numpy() for tensor in given)))
        whole = placed(data), placed(new)
        parts = (each[begin:][:20].view(5, 4) for each in whole)
        same(call(next(parts), placed(given[1]), next(parts)), wanted)
        compiled.append(sum(kernel.compiled for kernel in made))
    assert compiled[1] == compiled[0]
    assert {*compiled[5:]} == {compiled[4]}


def test_equal_options_of_other_types_are_distinguished():
    data, at = placed(torch.arange(6.0).view(2, 3)), placed(torch.tensor([[1], [5]]))
    values, dtypes = (0.0, -0.0, 0, True, 1, 1.0), (torch.float32, torch.int64)
    for value, dtype in itertools.product(values, dtypes):
        options = {"mode": "fill", "fill_value": value}
        of_dtype = data.to(dtype)
        wanted = by_core("gather_nd", of_dtype, at, **options)
        same_bits(ndgather.gather_nd(of_dtype, at, **options), wanted)
    ndgather.gather(data, at[:1], axis=1)
    with pytest.raises(DTypeError, match=r"axis = 1\.0 is not an integer"):
        ndgather.gather(data, at[:1], axis=1.0)


def test_kept_plans_are_limited_and_hold_no_tensors():
    data = placed(torch.rand(7, 3))
    held = weakref.ref(data)
    ndgather.gather_nd(data, placed([[1]]))
    ndgather.scatter_nd(data, placed([[1]]), data[:1], reduction="add")
    del data
    gc.collect()
    assert held() is None
    assert kernels.kept_plans.cache_info().maxsize <= 1024


@pytest.mark.parametrize("function", [name for name in MODES if name != "gather_ranges"])
def test_option_pairs_follow_the_definition(function, draws):
    options = {"dtype": DTYPES, "index dtype": INDEX_DTYPES}
    layouts = ("layout", "index layout", "update layout")[: 3 if function in SCATTER_NAMES else 2]
    options |= dict.fromkeys(layouts, ("C", "F"))
    compare_covering_calls(compare, draws, function, **options)


def compare(row, call):
    arguments = [torch.from_numpy(each).to(DEVICE) for each in call.arguments()]
    refused = None
    try:
        call.result()
    except IndexOutOfBoundsError as error:
        refused = error
    if refused is None:
        same(call.result(*arguments), torch.from_numpy(np.asarray(calls.expected(call))))
        return
    with pytest.raises(IndexOutOfBoundsError) as found:
        call.result(*arguments)
    assert str(found.value) == str(refused)
    assert found.value.position == refused.position


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["add", "sub", "mul", "min", "max", "mean"])
def test_duplicate_destinations_have_the_bits_of_the_core(reduction, dtype, rng):
    """Long and short segments of rows and elements, with infinities, NaN and -0."""
    for shape, places, size in (((3, 5), (40, 1), (40, 5)), ((3, 4), (60, 2), (60,))):
        data, updates = (
            torch.from_numpy(rng.normal(size=sizes) * 10 ** rng.uniform(-3, 3, sizes)).to(dtype)
            for sizes in (shape, size)
        )
        updates.view(-1)[:8] = torch.tensor([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-7, -0.0, 0.0])
        indices = rng.integers(0, shape[: places[-1]], places)
        indices[rng.integers(0, places[0], places[0] // 2)] = 1
        options = {"reduction": reduction, "use_init_val": bool(rng.integers(2))}
        for mode in ("raise", "clip"):
            wanted = by_core("scatter_nd", data, indices, updates, mode=mode, **options)
            given = placed(data), placed(indices), placed(updates)
            same_bits(ndgather.scatter_nd(*given, mode=mode, **options), wanted)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int64, torch.uint32, torch.bool])
@pytest.mark.parametrize("reduction", ["none", "add", "sub", "mul", "min", "max"])
def test_integers_wrap_around_and_the_last_update_wins(reduction, dtype, rng):
    low, high = (0, 2) if dtype == torch.bool else (-(2**62), 2**62)
    data, updates = (
        torch.from_numpy(rng.integers(low, high, size)).to(dtype) for size in ((3, 2), (20, 2))
    )
    indices = rng.integers(0, 3, (20, 1))
    for mode in ("raise", "drop"):
        options = {"reduction": reduction, "mode": mode}
        wanted = by_core("scatter_nd", data, indices, updates, **options)
        given = placed(data), placed(indices), placed(updates)
        same_bits(ndgather.scatter_nd(*given, **options), wanted)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_few_updates_of_a_large_array_are_sorted(reduction, rng):
    data, updates = data_of(rng, (500,)), data_of(rng, (9,))
    indices = placed(rng.integers(0, 4, (9, 1)))
    for mode in ("raise", "clip"):
        options = {"reduction": reduction, "mode": mode}
        same(
            ndgather.scatter_nd(data, indices, updates, **options),
            expected("scatter_nd", data, indices, updates, **options),
        )


def layouts(tensor):
    """Return the same values with other strides and alignments."""
    yield tensor.mT.contiguous().mT
    wide = tensor.new_zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)
    wide[..., 1::2] = tensor
    yield wide[..., 1::2]
    moved = tensor.new_zeros(tensor.numel() + 1)[1:].view(tensor.shape)
    yield moved.copy_(tensor)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.complex128])
def test_data_with_any_strides_is_read_in_place(dtype, rng):
    plain = data_of(rng, (4, 3, 8), dtype)
    for data in layouts(plain):
        for kind, indices, options in (
            ("gather_nd", rng.integers(-4, 4, (5, 1)), {}),
            ("gather", rng.integers(0, 9, (2, 2)), {"axis": 2, "mode": "fill", "fill_value": 3}),
            (
                "gather_windows",
                rng.integers(-2, 4, (3, 2)),
                {"window_shape": (2, 2), "mode": "fill"},
            ),
        ):
            wanted = expected(kind, plain, indices, **options)
            same(called(kind, data, placed(indices), **options), wanted)


def test_updates_and_indices_with_any_strides(rng):
    plain, places = data_of(rng, (6, 3)), placed(rng.integers(0, 4, (6, 2)))
    data = data_of(rng, (4, 3))
    wanted = expected("scatter_nd", data, places[:, :1], plain, reduction="add")
    for updates, indices in itertools.product(layouts(plain), layouts(places)):
        result = ndgather.scatter_nd(data, indices[:, :1], updates, reduction="add")
        same(result, wanted)
    row = placed(torch.arange(3.0, dtype=torch.float64)).expand(6, 3)
    wanted = expected("scatter_nd", data, places[:, :1], row, reduction="mean")
    same(ndgather.scatter_nd(data, places[:, :1], row, reduction="mean"), wanted)


@only_interpreted
def test_expanded_index_is_read_once_per_row(rng, monkeypatch):
    data, rows = data_of(rng, (4, 3)), torch.tensor([2, 0, 1, 2, 3])
    indices, read = rows[:, None].expand(-1, 3), []
    watch(monkeypatch, lambda address, size: read.append(address))
    same(ndgather.gather_elements(data, indices), data[rows])
    places = [rows.data_ptr() + 8 * number for number in range(5)]
    assert [read.count(place) for place in places] == [1] * 5


def watch(monkeypatch, action):
    """Call `action(address, bytes)` for everything that the interpreter reads or writes."""
    real = interpreter._interpreter

    class Watched:
        def __getattr__(self, name):
            return getattr(real, name)

        def load(self, pointers, mask, other, dtype):
            self._each(pointers, mask, dtype.itemsize)
            return real.load(pointers, mask, other, dtype)

        def store(self, pointers, values, mask):
            self._each(pointers, mask, values.dtype.itemsize)
            return real.store(pointers, values, mask)

        def _each(self, pointers, mask, size):
            for address in pointers[mask].reshape(-1).tolist():
                action(address, size)

    monkeypatch.setattr(interpreter, "_interpreter", Watched())


@only_interpreted
@pytest.mark.parametrize("dtype", INDEX_DTYPES)
@pytest.mark.parametrize("kind", [*GATHER_NAMES, *SCATTER_NAMES])
def test_kernels_do_not_access_memory_out_of_bounds(kind, dtype, monkeypatch):
    """Out-of-bounds indices in every mode do not touch the memory around the arrays."""
    held = torch.arange(60.0, dtype=torch.float64)
    data, updates = held[20:32].view(4, 3), held[40:49].view(3, 3)
    largest = np.iinfo(dtype).max
    wild = [[largest], [min(5, largest)], [np.iinfo(dtype).min]]
    indices = torch.from_numpy(np.array(wild, dtype))
    given = [data, indices.expand(3, 3) if "elements" in kind else indices]
    options = {"window_shape": (2,)} if kind == "gather_windows" else {}
    if kind in SCATTER_NAMES:
        given.append(updates)
    outside = []

    def note(address, size):
        before = address < data.data_ptr() and address + size > held.data_ptr()
        between = data.data_ptr() + 96 <= address < updates.data_ptr()
        after = updates.data_ptr() + 72 <= address < held.data_ptr() + 480
        if before or between or after:
            outside.append(address)

    watch(monkeypatch, note)
    before = held.clone()
    modes = ("raise", "clip", "fill") if "gather" in kind else ("raise", "wrap", "drop")
    for mode in modes:
        if mode == "raise":
            with pytest.raises(IndexOutOfBoundsError):
                ndgather.__dict__[kind](*given, mode=mode, **options)
        else:
            ndgather.__dict__[kind](*given, mode=mode, **options)
    assert not outside
    same(held, before)


def test_offsets_beyond_32_bits():
    """Untouched pages of memory take no space."""
    apart = 2**29
    data = torch.empty(5 * apart, dtype=torch.uint8, device=DEVICE)[::apart]
    data.copy_(torch.arange(5))
    indices = placed([[4], [-5], [2]])
    same(ndgather.gather_nd(data, indices), torch.tensor([4, 0, 2], dtype=torch.uint8))
    rows = data[:, None].expand(5, 4)
    same(ndgather.gather_nd(rows, indices)[:, 3], torch.tensor([4, 0, 2], dtype=torch.uint8))
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[1, 0\] = -6"):
        ndgather.gather_nd(data, indices - 1)


def test_programs_share_a_long_row(rng):
    data = data_of(rng, (3, 5003), torch.float32)
    result = ndgather.gather_nd(data, [[2], [0]])
    same(result, data[[2, 0]])
    result = ndgather.scatter_nd(data, [[1], [1]], result, reduction="add")
    same(result[1], data[1] + data[2] + data[0])


@pytest.mark.parametrize("size", [1, 3])
def test_window_that_starts_before_data_is_out_of_bounds(size):
    with pytest.raises(IndexOutOfBoundsError, match=r"starts\[0, 0\] = -1 makes a window"):
        ndgather.gather_windows(placed(torch.ones(size)), placed([[-1]]), (1,))


def test_errors_do_not_affect_the_next_call():
    data = placed(torch.arange(12.0).reshape(4, 3))
    for bad in (9, -5):
        with pytest.raises(IndexOutOfBoundsError, match=rf"indices\[1, 0\] = {bad}"):
            ndgather.gather_nd(data, [[1], [bad], [7]])
        same(ndgather.gather_nd(data, [[1]]), data[1:2])
    repeated = ndgather.scatter_nd(data, [[0], [0]], data[:2], reduction="add")
    same(repeated[0], torch.tensor([3.0, 6.0, 9.0]))
    same(ndgather.scatter_nd(data, [[0], [1]], data[:2], reduction="add")[0], 2 * data[0])


def test_out_may_be_data_itself():
    data = placed(torch.arange(12.0).reshape(4, 3))
    wanted = data[[3, 2, 1, 0]]
    assert ndgather.gather_nd(data, [[3], [2], [1], [0]], out=data) is data
    same(data, wanted)


@pytest.mark.parametrize(("kind", "shape", "places", "options"), [GATHERS[0], GATHERS[5]])
def test_gradients_of_gathers(kind, shape, places, options, rng):
    data = data_of(rng, shape).requires_grad_()
    indices = placed(indices_of(rng, kind, shape, places, options))
    weights = torch.rand(expected(kind, data, indices, **options).shape, dtype=torch.float64)
    weights = placed(weights)
    result = called(kind, data, indices, **options)
    (gradient,) = torch.autograd.grad((result * weights).sum(), data)
    back = "scatter_nd" if kind == "gather_nd" else "scatter_elements"
    zeros = torch.zeros(shape, dtype=torch.float64)
    same(gradient, expected(back, zeros, indices, weights, reduction="add", **options))


@pytest.mark.parametrize("view", ["rows", "columns", "imag", "neg"])
def test_conjugate_and_negative_views(view, rng):
    """For a conj or neg view with gaps, the kernels read a copy with other strides."""
    whole = data_of(rng, (8, 6), torch.complex64) + 1j * data_of(rng, (8, 6), torch.complex64)
    data = {
        "rows": whole[::2].conj(),
        "columns": whole[:, ::2].conj(),
        "imag": whole.conj().imag,
        "neg": torch._neg_view(whole.real[::2]),
    }[view]
    plain = data.resolve_conj().resolve_neg().contiguous()
    for kind, indices, options in (
        ("gather_nd", [[1], [3]], {}),
        ("gather_nd", [[1, 2], [9, 0]], {"mode": "fill"}),
        ("gather_elements", [[0] * plain.shape[1]], {}),
        ("gather", [2, 0], {"axis": 1}),
        ("gather_windows", [[1]], {"window_shape": (2,)}),
    ):
        wanted = expected(kind, plain, torch.tensor(indices), **options)
        same(called(kind, data, placed(indices), **options), wanted)
    updates = data.flip(0)
    rows = placed([[number] for number in range(len(plain))])
    wanted = expected("scatter_nd", plain, rows, updates.resolve_conj().resolve_neg())
    same(ndgather.scatter_nd(data, rows, updates), wanted)


def test_wrapped_tensors_with_plain_tensors(rng):
    """Tensors captured by a transform are plain, and tensors made from them are not."""
    table, rows = data_of(rng, (4, 3)), placed([[2], [0], [2]])
    x = placed(torch.rand(3, 3, dtype=torch.float64))

    def gathered(x):
        return (x * ndgather.gather_nd(table, rows)).sum()

    def scattered(x):
        return (x[:1] * ndgather.scatter_nd(table, rows, table[:3], reduction="add")).sum()

    same(torch.func.grad(gathered)(x), table[rows[:, 0]])
    sums = ndgather.scatter_nd(table, rows, table[:3], reduction="add").sum(0)
    same(torch.func.grad(scattered)(x)[0], sums)
    zeros = torch._efficientzerotensor((4, 3), device=DEVICE)
    same(ndgather.gather_nd(zeros, rows), torch.zeros(3, 3))
    trace = torch.fx.experimental.proxy_tensor.make_fx
    graph = trace(lambda: ndgather.gather_nd(table, rows), pre_dispatch=True)()
    same(graph(), table[rows[:, 0]])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiled_programs_with_dynamic_sizes(rng):
    compiled = torch.compile(ndgather.gather_nd, fullgraph=True, backend="aot_eager", dynamic=True)
    for size in (4, 5, 7):
        data = data_of(rng, (size, 3)).requires_grad_()
        indices = placed(rng.integers(0, size, (size + 1, 1)))
        result = compiled(data, indices)
        same(result.detach(), data.detach()[indices[:, 0]])
        (gradient,) = torch.autograd.grad(result.sum(), data)
        same(gradient.sum(), torch.tensor(3.0 * (size + 1), dtype=torch.float64))


@pytest.mark.parametrize(("kind", "shape", "places", "sizes", "options"), SCATTERS[:2])
def test_gradients_of_scatters(kind, shape, places, sizes, options, rng):
    data, updates = (data_of(rng, each).requires_grad_() for each in (shape, sizes))
    indices = placed(indices_of(rng, kind, shape, places, options))
    call = {"reduction": "mul", **options}
    result = called(kind, data, indices, updates, **call)
    ours = torch.autograd.grad(result.sum(), (data, updates))
    change = 1e-6
    for which, gradient in enumerate(ours):
        moved = [each.detach().clone() for each in (data, updates)]
        moved[which].view(-1)[0] += change
        near = called(kind, moved[0], indices, moved[1], **call).sum()
        slope = (near - result.detach().sum()) / change
        torch.testing.assert_close(gradient.view(-1)[0], slope, rtol=1e-4, atol=1e-4)


@given(st.data())
@settings(max_examples=10)
def test_every_bit_of_an_element_is_copied(data):
    dtype = data.draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float8_e4m3fn]))
    elements = torch.randint(-128, 128, (7, 2 * dtype.itemsize), dtype=torch.int8).view(dtype)
    rows = data.draw(st.lists(st.integers(-7, 6), min_size=1, max_size=5))
    result = ndgather.gather_nd(placed(elements), placed(rows)[:, None]).cpu()
    same(result.view(torch.int8), elements.view(torch.int8)[rows])
