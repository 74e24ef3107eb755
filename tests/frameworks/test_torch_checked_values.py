"""`checked_indices` checks values that a GPU asserts, and its errors help the user.

Every operator is tried one step beyond each bound, and at the bound itself.
"""

import importlib
import math
import subprocess
import sys
import traceback
import warnings
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

import ndgather
from ndgather.errors import IndexOutOfBoundsError

T = torch.tensor
X = torch.arange(20.0).reshape(5, 4)
SEVEN = torch.arange(7) % 5
NAN, INF = math.nan, math.inf
TINY = 5e-324  # the smallest subnormal number

# The operator, its argument, its problem with the allowed values, values that are refused, values
# that are allowed, and the call, in which v holds one of them.
VALUES = """
binary_cross_entropy|input|is not a probability (allowed: 0..1|1.0002,-0.1,NAN,INF|0.0,-0.0,1.0,TINY|F.binary_cross_entropy(v, torch.zeros_like(v))
binary_cross_entropy|target|is not a probability (allowed: 0..1|1.0002,-0.1,NAN|0.0,-0.0,1.0,TINY|F.binary_cross_entropy(torch.full_like(v, 0.5), v)
bernoulli|input|is not a probability (allowed: 0..1|1.5,-0.1,NAN|0.0,-0.0,1.0,TINY|torch.bernoulli(v)
bernoulli_|p|is not a probability (allowed: 0..1|1.5,-0.1,NAN|0.0,-0.0,1.0,TINY|torch.zeros_like(v).bernoulli_(v)
multinomial|input|is not a weight (allowed: 0 or more, finite|-0.1,NAN,INF|0.0,-0.0,9.0,TINY|torch.multinomial(v, 1)
poisson|input|is not a rate (allowed: 0 or more|-0.1,NAN|0.0,-0.0,9.0,TINY|torch.poisson(v)
""".strip().splitlines()  # noqa: E501 - a table


def rows():
    for row in VALUES:
        operator, argument, problem, refused, allowed, call = row.split("|")
        for value in refused.split(","):
            yield operator, argument, problem, eval(value), call
        for value in allowed.split(","):
            yield operator, argument, "", eval(value), call


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(("operator", "argument", "problem", "value", "call"), list(rows()))
def test_values_are_checked_at_their_bounds(operator, argument, problem, value, call, wait, dtype):
    values = torch.full((3, 4), 0.5, dtype=dtype)
    values[1, 2] = value
    if not problem:
        torch.manual_seed(0)
        expected = eval(call, globals() | {"v": values})
        torch.manual_seed(0)
        with ndgather.checked_indices(wait=wait):
            result = eval(call, globals() | {"v": values})
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        return
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices(wait=wait):
        eval(call, globals() | {"v": values})
    error = caught.value
    assert (error.operator, error.argument, error.position) == (operator, argument, (1, 2))
    assert error.value == value or (math.isnan(error.value) and math.isnan(value))
    assert str(error).startswith(f"{operator}: {argument}[1, 2] = {value} {problem})")


def test_error_counts_the_values():
    values = torch.full((16, 4), 0.5)
    values[3, 0], values[7, 1] = 1.0002, -1
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
        nn.BCELoss()(values.requires_grad_(), torch.zeros(16, 4))
    assert str(caught.value).splitlines()[0] == (
        "binary_cross_entropy: input[3, 0] = 1.0002 is not a probability "
        "(allowed: 0..1; 2 of 64 entries)"
    )


# Other calls that read out of bounds or assert on a GPU, and the start of the error.
OTHERS = """
torch.multinomial(T([[0.5], [0.0]]), 1)|multinomial: input.sum(-1)[1] = 0.0 is not positive
X.masked_scatter(X > 3, torch.ones(9))|masked_scatter: mask.sum() = 16 is more than
X.clone().masked_scatter_(T([True] * 4), torch.ones(9))|masked_scatter_: mask.sum() = 20 is
F.embedding_bag(SEVEN, X, T([0, 3, 2]))|embedding_bag: offsets[2] = 2 is out of order (allowed: 0
F.embedding_bag(SEVEN, X, T([1, 3]))|embedding_bag: offsets[0] = 1 is out of order
csr(T([0, 2, 1]), T([0, 1]), X[0, :2], (2, 4))|sparse_compressed_tensor: crow_indices[2] = 1 is out
csr(T([0, 1, 1]), T([0, 1]), X[0, :2], (2, 4))|sparse_compressed_tensor: crow_indices[2] = 1 is not
csr(T([1, 1, 2]), T([0, 1]), X[0, :2], (2, 4))|sparse_compressed_tensor: crow_indices[0] = 1 is out
torch.segment_reduce(X, "sum", lengths=T([2, 2]))|segment_reduce: lengths.sum(-1) = 4 is not
pool2d(X[None, :1, :1, None], 9)|max_pool2d_with_indices_backward: indices[0, 0, 0, 0] = 9 is
pool2d(X[None, :1, :1, None], -1)|max_pool2d_with_indices_backward: indices[0, 0, 0, 0] = -1 is
torch.vmap(lambda x, i: x[i])(X, SEVEN[:5] + T([0, 0, 0, 0, 3]))|index: indices[0][4] = 7 is outside
torch.vmap(lambda x, i: x.take(i), 1)(X, T([[0, 9, 0, 0]]))|take: index[1, 0] = 9 is outside axis 0
pick(X, T([4, 5]))|index_select: index[1] = 5 is outside axis 0 of input
F.cross_entropy(X[:2], T([[1], [7]]).view(-1))|nll_loss: target[1, 0]
F.cross_entropy(X[:2], T([[0, 1], [0, 7]])[:, 1:].reshape(-1))|nll_loss: target[1] = 7
X.repeat_interleave(SEVEN[:5], 0, output_size=9)|repeat_interleave: repeats.sum(-1) = 10 is
T([2]).repeat_interleave(T([3]), output_size=4)|repeat_interleave: repeats.sum(-1) = 3 is
torch.unravel_index(T([[3, 20]]), (5, 4))|unravel_index: indices[0, 1] = 20 is outside axis 0 of
torch.unravel_index(T(-1), 4)|unravel_index: indices = -1 is outside axis 0 of
unravel(T([20], dtype=torch.int32), X.shape)|unravel_index: indices[0] = 20 is outside axis 0 of
embed8(T([[4, 5]]))|embedding_byte: indices[0, 1] = 5 is outside axis 0 of weight
bag8(T([4, -1]), T([0]))|embedding_bag_byte: indices[1] = -1 is outside axis 0
bag8(T([4, 1]), T([0, 3]))|embedding_bag_byte: offsets[1] = 3 is outside axis 0 of indices
quantized.embedding_bag_byte_rowwise_offsets(ROWS8, T([9]), T([0]))|embedding_bag_byte_rowwise
quantized.embedding_bag_4bit_rowwise_offsets(ROWS4, T([0]), T([2]))|embedding_bag_4bit
bsr(T([0, 1, 2]), T([0, 2]), X[:2, :1, None], (2, 2))|sparse_compressed_tensor: col_indices[1] = 2
bsr(T([0, 1, 3]), T([0, 1]), X[:2, :1, None], (2, 2))|sparse_compressed_tensor: crow_indices[2] = 3
COO @ X|mm: input.indices()[1, 1] = 9 is outside axis 1 of input
COO.t() @ X|mm: input.indices()[0, 1] = 9 is outside axis 0 of input
torch.addmm(X, COO, X)|addmm: mat1.indices()[1, 1] = 9 is outside axis 1 of mat1
X.T @ CSR|mm: mat2.col_indices()[1] = 9 is outside axis 1 of mat2
CSR @ X|mm: input.col_indices()[1] = 9 is outside axis 1 of input
CSR @ X[:, 0]|addmv: mat.col_indices()[1] = 9 is
torch.sparse.mm(CSR, X)|addmm: mat1.col_indices()[1] = 9 is
torch.sparse.mm(COO, COO)|sparse_sparse_matmul: input.indices()[1, 1] = 9 is
CSC @ X|mm: input.row_indices()[1] = 9 is outside axis 0 of input
BSR @ X[:4]|mm: input.col_indices()[1] = 2 is outside axis 1 of the blocks of input
BSR.to_dense()|to_dense: input.col_indices()[1] = 2 is
UNSORTED @ X|mm: input.crow_indices()[2] = 1 is out of order (allowed: 0 first, then ascending)
UNSORTED.to_dense()|to_dense: input.crow_indices()[2] = 1 is out of order
COO.to_dense()|to_dense: input.indices()[1, 1] = 9 is
COO.coalesce()|coalesce: input.indices()[1, 1] = 9 is
COO.to_sparse_csr()|to_sparse_csr: input.indices()[1, 1] = 9 is
COO.index_select(0, T([0]))|index_select: input.indices()[1, 1] = 9 is
torch.sparse.sampled_addmm(CSR, X, X.T)|sparse_sampled_addmm: input.col_indices()[1] = 9 is
torch.sparse.softmax(COO, 1)|sparse_softmax: input.indices()[1, 1] = 9 is
""".strip().splitlines()
csr, bsr, coo = torch.sparse_csr_tensor, torch.sparse_bsr_tensor, torch.sparse_coo_tensor
unravel = torch.unravel_index  # as after `from torch import unravel_index`
quantized = torch.ops.quantized
ROWS8 = quantized.embedding_bag_byte_prepack(X)
ROWS4 = quantized.embedding_bag_4bit_prepack(X)

# Tensors created before the block.
TWO, STARTS = torch.ones(2), T([0, 1, 2, 2, 2, 2])
with warnings.catch_warnings(action="ignore"):  # sparse tensors are new, quantized tensors are old
    PACKED = quantized.embedding_bag_prepack(
        torch.quantize_per_channel(X, torch.ones(5), torch.zeros(5), 0, torch.quint8)
    )
    COO = coo(T([[0, 1], [4, 9]]), TWO, (5, 5), check_invariants=False)
    CSR = csr(STARTS, T([4, 9]), TWO, (5, 5), check_invariants=False)
    CSC = torch.sparse_csc_tensor(STARTS, T([4, 9]), TWO, (5, 5), check_invariants=False)
    BSR = bsr(T([0, 1, 2]), T([0, 2]), torch.ones(2, 2, 2), (4, 4), check_invariants=False)
    UNSORTED = csr(T([0, 2, 1, 2, 2, 2]), T([3, 4]), TWO, (5, 5), check_invariants=False)
    GOOD = coo(T([[0, 1, 1], [4, 0, 0]]), torch.ones(3), (5, 5))
    BLOCKS = bsr(T([0, 1, 2]), T([0, 1]), torch.ones(2, 2, 2), (4, 4))
    SPARSE = [
        *((GOOD, 5), (GOOD.to_sparse_csr(), 5), (GOOD.to_sparse_csc(), 5)),
        (BLOCKS, 4),
    ]


def embed8(indices):
    return quantized.embedding_byte(PACKED, indices)


def bag8(indices, offsets):
    return quantized.embedding_bag_byte(PACKED, indices, offsets)


def pool2d(grad, index):
    indices = torch.full((1, 1, 1, 1), index)
    backward = torch.ops.aten.max_pool2d_with_indices_backward
    return backward(grad, torch.ones(1, 1, 3, 3), [3, 3], [3, 3], [0, 0], [1, 1], False, indices)


@torch.library.custom_op("ndgather_tests::pick", mutates_args=())
def pick(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, i)


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*deprecated", "ignore:.*copy construct")
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("row", OTHERS)
def test_other_bad_values_are_named(row, wait):
    call, text = row.split("|")
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices(wait=wait):
        eval(call)
    assert str(caught.value).startswith(text)


ALLOWED = """
torch.multinomial(T([[0.0, 1e-30], [1.0, 0.0]]), 1)
X.masked_scatter(X > 3, torch.ones(16)), X.masked_scatter(X > 99, torch.ones(0))
F.embedding_bag(SEVEN, X, T([0, 0, 7]))
csr(T([0, 0, 2]), T([0, 1]), X[0, :2], (2, 4)).to_dense()
torch.segment_reduce(X, "sum", lengths=T([5, 0]))
pool2d(X[None, :1, :1, None], 8)
F.binary_cross_entropy(torch.empty(0), torch.empty(0)), torch.bernoulli(torch.empty(0, 3))
torch.zeros(3).bernoulli_(0.0), torch.poisson(torch.empty(2, 0))
pick(X, T([4, 0]))
torch.repeat_interleave(X, SEVEN[:5], dim=0, output_size=10)
X.repeat_interleave(2, output_size=40), torch.repeat_interleave(X, T([2]), dim=0, output_size=10)
torch.unravel_index(T([[0, 19]]), (5, 4)), unravel(T([]).long(), (5, 0)), unravel(T(4), 5)
embed8(T([[4, 0]])), bag8(T([4, 0]), T([0, 2])), bag8(T([3, 4, 0]), T([1, 2]))
quantized.embedding_bag_byte_rowwise_offsets(ROWS8, T([4, 0, 1]), T([1, 2]))
[A @ X[:n] for A, n in SPARSE], [A.to_dense() for A, _ in SPARSE]
[(A.t() @ X, X.T @ A) for A, _ in SPARSE[:3]], [torch.mv(A, X[:n, 0]) for A, n in SPARSE]
torch.sparse.mm(GOOD, GOOD).to_dense(), [with_filled_memory(lambda: A @ A) for A, _ in SPARSE[:3]]
[with_filled_memory(lambda: torch.sparse.mm(A, A)) for A, _ in SPARSE[:3]]
GOOD.coalesce(), GOOD + GOOD, GOOD * 2, torch.eye(5) + GOOD, torch.sparse.sum(GOOD, 1), GOOD[1]
csr(T([[0, 1, 2]] * 2), T([[1, 0]] * 2), torch.ones(2, 2), (2, 2, 2)).to_dense()
bsr(T([0, 1, 2]), T([1, 0]), torch.ones(2, 2, 3), (4, 6)).to_dense()
csr(T([0, 2]), T([1, 0]), TWO, (1, 2)) @ torch.ones(2, 1)
coo(T([[], []]).long(), torch.ones(0), (5, 5)) @ X
product_of_gradients(GOOD.clone()), product_of_gradients(GOOD.to_sparse_csr())
""".strip().splitlines()


def with_filled_memory(call):
    """Call a function while torch fills uninitialized memory with invalid indices."""
    torch.use_deterministic_algorithms(True)
    try:
        return call().to_dense()
    finally:
        torch.use_deterministic_algorithms(False)


def product_of_gradients(a):
    x = X.clone().requires_grad_()
    (a.requires_grad_() @ x).sum().backward()
    return x.grad, a.grad.to_dense()


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*deprecated", "ignore:.*copy construct")
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("call", ALLOWED)
def test_valid_calls_have_the_same_result(call, wait):
    torch.manual_seed(0)
    expected = eval(call)
    torch.manual_seed(0)
    with ndgather.checked_indices(wait=wait):
        result = eval(call)
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


@pytest.fixture(scope="module")
def roi_align():
    """Return torchvision's operator, or a stand-in with its name and arguments."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    if not hasattr(torch.ops.torchvision, "roi_align"):
        library.define(
            "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
            "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
        )
        library.impl("roi_align", lambda image, *_: image[:1].clone(), "CPU")
    yield lambda image, boxes: torch.ops.torchvision.roi_align(image, boxes, 1.0, 3, 3, -1, False)
    library._destroy()


@pytest.mark.parametrize("number", [2.0, -1.0, 1e9, NAN])
def test_boxes_with_bad_image_numbers_are_named(roi_align, number):
    boxes = torch.zeros(3, 5)
    boxes[1, 0] = number
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
        roi_align(torch.ones(2, 3, 8, 8), boxes)
    text = f"roi_align: rois[1, 0] = {number} is outside axis 0 of input, which has size 2 (allowed"
    assert str(caught.value).startswith(text)
    assert (caught.value.axis, caught.value.size) == (0, 2)


def test_valid_boxes_are_allowed(roi_align):
    boxes = torch.tensor([[0.0, 1, 1, 2, 2], [1.0, -9, 1, 2, 99]])
    expected = roi_align(torch.ones(2, 3, 8, 8), boxes)
    with ndgather.checked_indices():
        assert torch.equal(roi_align(torch.ones(2, 3, 8, 8), boxes), expected)


LIBRARY = """
from torch import nn

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.position_embeddings, self.tokens = nn.Embedding(5, 2), nn.Embedding(5, 2)

    def forward(self, positions, tokens=None):
        return self.position_embeddings(positions) if tokens is None else self.tokens(tokens)

    def resize_token_embeddings(self, size):
        pass
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_encoder.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module("installed_encoder")


def test_line_of_the_user_is_named_after_a_library(library):
    encoder = torch.compile(library.Encoder(), backend="eager")
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
        encoder(T([9]))  # the user's line
    error, lines = caught.value, str(caught.value).splitlines()
    assert error.file.endswith("installed_encoder.py")
    assert lines[1].startswith("  in position_embeddings, ")
    assert lines[2].startswith("  called from ")
    assert lines[2].endswith(f":{error.user_line}: encoder(T([9]))  # the user's line")
    assert error.user_file == __file__
    assert lines[3] == "  the model has 5 positions: shorten the sequence, or use more positions"


def test_compiled_module_is_named_by_its_class():
    for call in (torch.compile(nn.Embedding(5, 2), backend="eager"), nn.Embedding(5, 2)):
        with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
            call(T([7]))
        assert caught.value.module == "Embedding"


def pass_messages(x, edge_index):
    return x[edge_index[0]]


ADVICE = {
    "labels start at 0: the labels of 4 classes are 0..3": lambda _: F.cross_entropy(X, SEVEN[:5]),
    "if 255 means that there is no label: pass ignore_index=255": lambda _: F.cross_entropy(
        X, SEVEN[:5] * 0 + 255
    ),
    "if -1 means that there is no label: pass ignore_index=-1": lambda _: F.cross_entropy(
        X, SEVEN[:5] * 0 - 1
    ),
    "if this is edge_index: it names node 5, but the nodes are 0..4": lambda _: pass_messages(
        X, T([[5, 1], [0, 1]])
    ),
    "torch.int8 holds at most 127, so the index has overflowed: use torch.int64": lambda _: (
        F.cross_entropy(torch.ones(1, 129), T([100]).to(torch.int8) * 2)
    ),
    "if tokens were added: model.resize_token_embeddings(len(tokenizer))": lambda library: (
        library.Encoder()(None, T([6]))
    ),
}


@pytest.mark.parametrize("advice", ADVICE)
def test_known_patterns_have_advice(advice, library):
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
        ADVICE[advice](library)
    assert str(caught.value).splitlines()[-1] == f"  {advice}"


def test_other_patterns_have_no_advice():
    eighth = T([-5]).to(torch.int8)  # cannot have overflowed: every label is at most 127
    calls = [
        lambda: F.cross_entropy(X, SEVEN[:5] + 9),
        lambda: F.embedding(T([5]), X),
        lambda: F.cross_entropy(torch.ones(1, 128), eighth),
    ]
    for call in calls:
        with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
            call()
        assert len(str(caught.value).splitlines()) == 2


def test_tracebacks_end_in_the_program():
    wrong = [lambda: F.embedding(T([5]), X), lambda: X.gather(9, T([[7]]))]
    for call, wait in product(wrong, [True, False]):
        with pytest.raises((IndexError, RuntimeError)) as caught:  # noqa: SIM117
            with ndgather.checked_indices(wait=wait):
                call()
        files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert set(files[:2]) == {__file__} or not wait
        assert not any("torch/checked/dispatch" in file for file in files)


class EdgeIndex(torch.Tensor):
    """A tensor of indices like PyTorch Geometric's, which torch treats as a wrapper of values."""

    __module__ = "torch_geometric.edge_index"

    @staticmethod
    def __new__(cls, data):
        made = torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype)
        made._data = data
        return made

    def as_tensor(self):
        return self._data

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map_only(cls, cls.as_tensor, args)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("wait", [True, False])
def test_edge_index_is_checked(wait):
    def pass_messages(indices):
        return X[indices], X.index_select(0, indices), X.clone().index_add_(0, indices, X[:2])

    expected = pass_messages(T([0, 4]))
    with ndgather.checked_indices(wait=wait):
        for result, plain in zip(pass_messages(EdgeIndex(T([0, 4]))), expected, strict=True):
            assert torch.equal(result, plain)
    for number in range(3):
        with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices(wait=wait):
            [X.__getitem__, X.take, lambda i: X.index_select(0, i)][number](EdgeIndex(T([0, 77])))
        assert (caught.value.position, caught.value.value) == ((1,), 77)


def test_sparse_kernels_and_functions_are_restored_after_a_block():
    with ndgather.checked_indices():
        torch.unravel_index(T(3), (2, 2))
    assert (UNSORTED @ X).shape == (5, 4)
    assert [int(each) for each in torch.unravel_index(T(7), (2, 2))] == [1, 1]


@pytest.mark.parametrize("count", [3, 5000])
def test_first_offset_of_a_bag_must_be_0(count):
    offsets = torch.arange(count)
    for place, value in ((0, 1), (1, -1), (count - 1, 0)):
        bad = offsets.clone()
        bad[place] = value
        with (
            pytest.raises(IndexOutOfBoundsError, match=rf"offsets\[{place}\] = {value} is"),
            ndgather.checked_indices(),
        ):
            F.embedding_bag(torch.zeros(count, dtype=torch.int64), X, bad)


CHILD_OF_A_BLOCK = """
import os, subprocess, sys
import ndgather, torch

before = dict(os.environ)
with ndgather.checked_indices():
    print_environment = "import os; print(dict(os.environ))"
    run = subprocess.run([sys.executable, "-c", print_environment], capture_output=True, text=True)
child = eval(run.stdout)
assert dict(os.environ) == before
assert {name: child.get(name) for name in before} == before
"""


def test_child_of_a_block_has_the_environment_of_the_program():
    command = [sys.executable, "-W", "error", "-c", CHILD_OF_A_BLOCK]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")


def test_torch_warnings_name_the_line_of_the_program():
    with warnings.catch_warnings(record=True) as caught, ndgather.checked_indices():
        warnings.simplefilter("always")
        torch.ones(3).T  # noqa: B018
    assert [warning.filename for warning in caught] == [__file__]


COMPILED_LATER = """
import sys
import ndgather, torch

def look_up(i):
    return torch.nn.functional.embedding(i, torch.ones(5, 4))

with ndgather.checked_indices():
    look_up(torch.tensor([4]))
    assert not {"torch._dynamo", "sympy"} & set(sys.modules)
    compiled = []
    count = lambda graph, _: compiled.append(1) or graph
    fast = torch.compile(look_up, backend=count, fullgraph=True)
    try:
        fast(torch.tensor([-1]))
    except IndexError:
        pass
    assert torch.cond(torch.tensor(True), lambda x: x[:1], lambda x: x[1:], (torch.ones(2),)) == 1
    assert not compiled
fast(torch.tensor([4]))
assert compiled
"""


def test_block_does_not_import_the_compiler():
    command = [sys.executable, "-c", COMPILED_LATER]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
