"""`checked_indices` reports bad indices: the operator, entry, value, axis, module and line."""

import ast
import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.checkpoint import checkpoint

import ndgather
from ndgather.errors import CallError, DTypeError, IndexOutOfBoundsError

T = torch.tensor
X = torch.arange(20.0).reshape(5, 4)
Y = torch.arange(60.0).reshape(3, 4, 5)
Z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
ZERO = torch.zeros(7, dtype=torch.int64)
PAIR = T([3, 2])
FILLED = torch.ones(3, 4, dtype=bool)


def ones(*shape):
    return torch.ones(*shape)


# The operator and its argument, the axis and its size, the shape of the indices i, values just out
# of bounds according to torch's documentation, and the call. `32`: also with 32-bit indices.
# After a stroke: the operator that torch 2.15 and newer call instead, for 64-bit indices.
FAULTS = """
gather index 1 4 5,3 4,-1,32 X.gather(1, i)
gather index 0 5 2,4 5,-1,32 torch.gather(X, 0, i)
gather index 1 4 3,2,5 4 torch.gather(Y, -2, i, out=torch.empty(3, 2, 5))
gather index 0 1 3 1 T(1.0).gather(0, i)
gather index 1 4 5,3 4 torch.gather(input=X, index=i, dim=1)
scatter index 1 4 5,3 4,-1,32 X.scatter(1, i, ones(5, 3))
scatter index 0 5 2,4 5 X.scatter(0, i, 2.0)
scatter index 0 5 2,4 5 X.scatter(0, i, 2.0, reduce="multiply")
scatter index 1 4 5,3 9 torch.scatter(X, 1, i, ones(5, 3), out=torch.empty(5, 4))
scatter_ index 1 4 5,3 4 X.clone().scatter_(1, i, ones(5, 3))
scatter_add index 1 4 5,3 4,-2 X.scatter_add(1, i, ones(5, 3))
scatter_add_ index 1 4 5,3 4 X.clone().scatter_add_(1, i, ones(5, 3))
scatter_reduce index 0 5 5,3 5,-1 X.scatter_reduce(0, i, ones(5, 3), "amax")
scatter_reduce_ index 0 5 5,3 5 X.clone().scatter_reduce_(0, i, ones(5, 3), "mean")
index_select index 0 5 4 5,-1,32 X.index_select(0, i)
index_select index 1 4 3 4 torch.index_select(X, 1, i, out=torch.empty(5, 3))
index_add index 0 5 3 5,-1,32 X.index_add(0, i, ones(3, 4))
index_add_ index 0 5 3 5 X.clone().index_add_(0, i, ones(3, 4))
index_copy index 0 5 3 5,-1 X.index_copy(0, i, ones(3, 4))
index_copy_ index 0 5 3 5 X.clone().index_copy_(0, i, ones(3, 4))
index_reduce index 0 5 3 5,-1 X.index_reduce(0, i, ones(3, 4), "amax")
index_fill index 0 5 3 5,-6 X.index_fill(0, i, 1.0)
index_fill_ index 1 4 3 4,-5 X.clone().index_fill_(1, i, T(1.0))
take index 0 20 2,3 20,-21 X.take(i)
put index 0 20 2,3 20,-21 torch.put(X, i, ones(2, 3))
put_ index 0 20 2,3 20 X.clone().put_(i, ones(2, 3))
take_along_dim indices 1 4 5,3 4,-5,9 torch.take_along_dim(X, i, 1)
take_along_dim indices 0 5 2,4 5 X.take_along_dim(i, dim=0)
take_along_dim indices 0 20 7 20,-1 torch.take_along_dim(X, indices=i)
index indices[0] 0 5 2,3 5,-6,32 X[i]
index indices[1] 1 4 3 4,-5,32 X[:, i]
index indices[1] 1 4 2,3 4,-5 X[ZERO[:2, None], i]
index indices[1] 1 4 3 4 X[2, i]
index indices[1] 2 5 3 5 Y[..., i]
index indices[1] 0 5 3 5 X[None, i]
index indices[1] 1 4 3 4 X[1:, i]
index indices[1] 2 5 12 5 Y[FILLED, i]
index indices[0] 0 4 3 4 X.T[i]
index indices[0] 0 3 3 3 X[::2][i]
index indices[0] 0 5 3 5 X[i.tolist()]
index_put_|index_fill_ indices[0]|index 0 5 2,3 5,-6,32 X.clone().__setitem__(i, 1.0)
index_put_|index_fill_ indices[2]|index 2|1 5 3 5,-6 Y.clone().__setitem__((0, slice(None), i), 1.0)
index_put indices[1] 1 4 3 4,-5 X.index_put((T([0]), i), T(1.0), accumulate=True)
index_put_ indices[0] 0 5 3 5 X.clone().index_put_((i,), T(1.0))
embedding indices 0 5 2,3 5,-1,32 F.embedding(i, X)
embedding indices 0 5 2,3 5 F.embedding(i, X, padding_idx=-1)
embedding_renorm_ indices 0 5 2,3 5 F.embedding(i, X.clone(), max_norm=1.0)
embedding_bag indices 0 5 2,3 5,-1,32 F.embedding_bag(i, X)
embedding_bag offsets 0 7 3 8,-1 F.embedding_bag(ZERO, X, i)
nll_loss target 1 5 6 5,-1 F.nll_loss(Z, i)
nll_loss target 0 5 - 5,-1 F.nll_loss(Z[0], i)
nll_loss target 1 5 6 5,-1 F.cross_entropy(Z, i, ignore_index=-7)
nll_loss target 1 5 6 5 F.cross_entropy(Z, i, label_smoothing=0.1)
nll_loss2d target 1 5 2,3,4 5,-1 F.cross_entropy(ones(2, 5, 3, 4), i)
nll_loss2d target 1 5 2,3,4,2 5 F.cross_entropy(ones(2, 5, 3, 4, 2), i)
multi_margin_loss target 1 5 6 5,-1 F.multi_margin_loss(Z, i)
multilabel_margin_loss target 1 5 6,5 5,-2 F.multilabel_margin_loss(Z, i)
max_unpool2d indices -1 16 1,2,2,2 16,-1 F.max_unpool2d(ones(1, 2, 2, 2), i, 2)
max_unpool3d indices -1 64 1,1,2,2,2 64,-1 F.max_unpool3d(ones(1, 1, 2, 2, 2), i, 2)
ctc_loss targets 2 5 2,3 5,-1 F.ctc_loss(ones(6, 2, 5), i, (6, 6), (3, 3))
ctc_loss targets 2 5 5 5 F.ctc_loss(ones(6, 2, 5), i, T([6, 6]), PAIR)
ctc_loss input_lengths 0 6 2 7,-1 F.ctc_loss(ones(6, 2, 5), ZERO[:6].view(2, 3), i, PAIR)
ctc_loss target_lengths 1 3 2 4,-1 F.ctc_loss(ones(6, 2, 5), ZERO[:6].view(2, 3), PAIR, i)
one_hot input -1 5 2,3 5,-1 F.one_hot(i, 5)
one_hot input -1 5 3 5 F.one_hot(input=i, num_classes=5)
segment_reduce offsets 0 6 3 7,-1 torch.segment_reduce(ones(6), "sum", offsets=i)
searchsorted sorter 0 5 5 5,-1 torch.searchsorted(T([0, 1, 2, 3, 4]), T(2), sorter=i)
lu_unpack LU_pivots 0 3 3 4,0 torch.lu_unpack(ones(3, 3), i.int())
linalg_lu_solve pivots 0 3 3 4,0 torch.linalg.lu_solve(torch.eye(3), i.int(), ones(3, 1))
pack_padded_sequence lengths 0 6 3 7,0 pack(ones(6, 3, 1), i)
pack_padded_sequence lengths 1 6 3 7,0 pack(ones(3, 6, 1), i, batch_first=True)
sparse_coo_tensor indices 1 4 3 4,-1 coo(torch.stack([ZERO[:3], i]), ones(3), (5, 4))
sparse_coo_tensor indices 0 5 3 5,-1 coo(i[None], ones(3), (5,))
sparse_compressed_tensor col_indices 1 2 3 2,-1 bsr(T([0, 1, 3]), i, ones(3, 2, 2), (4, 4))
sparse_compressed_tensor crow_indices 0 3 3 4,-1 bsr(i, ZERO[:3], ones(3, 2, 2), (4, 4))
sparse_compressed_tensor row_indices 0 3 2 3,-1 bsc(T([0, 1, 2]), i, ones(2, 2, 1), (6, 2))
sparse_compressed_tensor col_indices 1 4 3 4,-1 csr(T([0, 1, 3]), i, ones(3), (2, 4))
sparse_compressed_tensor crow_indices 0 3 3 4,-1 csr(i, ZERO[:3], ones(3), (2, 4))
""".strip().splitlines()
pack = nn.utils.rnn.pack_padded_sequence
csr, coo = torch.sparse_csr_tensor, torch.sparse_coo_tensor
bsr, bsc = torch.sparse_bsr_tensor, torch.sparse_bsc_tensor
FIRST_LINE = next(
    number
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
    if line == FAULTS[0]
)


def planted():
    """Yield every bad index at the first, a middle and the last entry, for every dtype."""
    for number, row in enumerate(FAULTS):
        operator, argument, axis, size, shape, values, call = row.split(" ", 6)
        shape = () if shape == "-" else tuple(map(int, shape.split(",")))
        last = torch.Size(shape).numel() - 1
        line = FIRST_LINE + number
        tree = ast.increment_lineno(ast.parse(call, mode="eval"), line - 1)
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                node.col_offset += len(row) - len(call)
                node.end_col_offset += len(row) - len(call)
        code = compile(tree, __file__, "eval")
        *values, more = values.split(",") if values.endswith(",32") else (*values.split(","), "")
        types = (torch.int64, torch.int32) if more else (torch.int64,)
        for flat, value, dtype in product(sorted({0, last // 2, last}), map(int, values), types):
            indices = torch.full(shape, int("0" in values), dtype=dtype)
            indices.view(-1)[flat] = value
            position = tuple(int(each) for each in torch.unravel_index(T(flat), shape))
            newer = dtype == torch.int64 and torch.__version__ >= (2, 15)
            named = [each.split("|")[-1 if newer else 0] for each in (operator, argument, axis)]
            expected = (*named[:2], int(named[2]), int(size), position, value)
            yield pytest.param(code, indices, expected, line, id=f"{call}-{flat}-{value}-{dtype}")


def found(error):
    return (error.operator, error.argument, error.axis, error.size, error.position, error.value)


@pytest.fixture(params=["wait", "no wait"])
def wait(request):
    return request.param == "wait"


def with_row(expected):
    """The indices of a COO tensor have a row for each axis."""
    operator, argument, axis, size, position, value = expected
    position = (axis, *position) if operator == "sparse_coo_tensor" else position
    return operator, argument, axis, size, position, value


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:The reduce argument")
@pytest.mark.parametrize(("code", "indices", "expected", "line"), list(planted()))
def test_bad_index_is_named(code, indices, expected, line, wait):
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices(wait=wait):
        eval(code, globals() | {"i": indices})
    error = caught.value
    assert found(error) == with_row(expected)
    assert (error.file, error.line, error.count) == (__file__, line, 1)
    operator, argument, _, _, position, value = found(error)
    where = f"[{', '.join(map(str, position))}]" if position else ""
    first, second, *_ = str(error).splitlines()
    assert first.startswith(f"{operator}: {argument}{where} = {value} is outside axis ")
    assert second.startswith("  in ")
    assert f"test_torch_checked.py:{line}: {FAULTS[line - FIRST_LINE]}" in second


class Embedded(nn.Module):
    """A module whose parts have an out-of-bounds index, each on its own line."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"embed": nn.Embedding(50, 8), "bag": nn.EmbeddingBag(50, 8)})
        self.layers = nn.Sequential(nn.Linear(8, 8), Picks())
        self.pool = nn.MaxUnpool2d(2)
        self.losses = nn.ModuleList([nn.CrossEntropyLoss(), nn.NLLLoss(), nn.MultiMarginLoss()])
        self.ctc = nn.CTCLoss()

    def forward(self, part, indices):
        if part == "encoder.embed":
            return self.encoder["embed"](indices)
        if part == "encoder.bag":
            return self.encoder["bag"](indices)
        if part == "layers.1":
            self.layers[1].rows = indices
            return self.layers(torch.ones(50, 8))
        if part == "pool":
            return self.pool(torch.ones(1, 4, 5), indices[:1].expand(1, 4, 5))
        if part == "ctc":
            return self.ctc(torch.ones(9, 4, 50), indices, [9] * 4, [5] * 4)
        return self.losses[int(part[-1])](torch.ones(4, 50), indices[:, 0])


class Picks(nn.Module):
    rows = None

    def forward(self, x):
        return x[self.rows]


PARTS = ["encoder.embed", "encoder.bag", "layers.1", "losses.0", "losses.1", "losses.2", "ctc"]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("part", PARTS)
def test_path_of_the_module_is_named(part, compiled, wait):
    model = Embedded()
    call = torch.compile(model, backend="eager") if compiled else model
    indices = torch.ones(4, 5, dtype=torch.int64)
    indices[2, 0] = 50
    with (
        pytest.raises(IndexOutOfBoundsError, match=rf"\n  in {part}, ") as caught,
        ndgather.checked_indices(wait=wait),
    ):
        call(part, indices)
    assert caught.value.module == part
    assert caught.value.file == __file__
    source = Path(__file__).read_text().splitlines()[caught.value.line - 1]
    assert str(caught.value).splitlines()[1].endswith(source.strip())
    assert "return" in source


def test_module_without_a_parent_is_named_by_its_class():
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
        nn.Embedding(5, 2)(T([7]))
    assert caught.value.module == "Embedding"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_function_is_checked_and_restored(backend):
    """Compiled outside the block, it does not check indices."""

    def look_up(i):
        return F.embedding(i, X) * 2

    compiled = torch.compile(look_up, backend=backend, fullgraph=True)
    before = compiled(T([2, 4]))
    with ndgather.checked_indices() as checked:
        assert torch.equal(compiled(T([2, 4])), before)
        with pytest.raises(IndexOutOfBoundsError) as caught:
            compiled(T([2, -2]))
        fresh = torch.compile(lambda i: X[i] + 1, backend=backend, fullgraph=True)
        assert torch.equal(fresh(T([2, -1])), X[[2, 4]] + 1)
        with pytest.raises(IndexOutOfBoundsError):
            fresh(T([5]))
        checked.check()
    assert found(caught.value) == ("embedding", "indices", 0, 5, (1,), -2)
    assert Path(__file__).read_text().splitlines()[caught.value.line - 1].endswith("X) * 2")
    assert torch.equal(compiled(T([2, 4])), before)


class GathersBackward(torch.autograd.Function):
    """Its backward pass reads an index that its forward pass does not read."""

    @staticmethod
    def forward(ctx, x, indices):
        ctx.indices = indices
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.index_select(0, ctx.indices), None  # the bad line


def backward_of_a_function(x, indices):
    GathersBackward.apply(x, indices).sum().backward()


def backward_by_grad(x, indices):
    torch.autograd.grad(GathersBackward.apply(x, indices).sum(), x)


def backward_hook(x, indices):
    y = x * 2
    y.register_hook(lambda grad: grad.index_select(0, indices))  # the bad line
    y.sum().backward()


def recomputed(x, indices):
    def part(x):
        if torch._C._current_autograd_node() is not None or (x.grad_fn is None and indices[2] == 9):
            return x.index_select(0, indices if recomputing else indices % 5)  # the bad line
        return x.index_select(0, indices % 5)

    recomputing = False
    y = checkpoint(part, x, use_reentrant=True)
    recomputing = True
    y.sum().backward()


@pytest.mark.parametrize(
    "step", [backward_of_a_function, backward_by_grad, backward_hook, recomputed]
)
def test_bad_index_of_a_backward_pass_is_named(step, wait):
    x = X.clone().requires_grad_()
    with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices(wait=wait):
        step(x, T([0, 4, 9, 1, 5]))
    assert found(caught.value) == ("index_select", "index", 0, 5, (2,), 9)
    assert caught.value.count == 2
    source = Path(__file__).read_text().splitlines()[caught.value.line - 1]
    assert source.endswith("# the bad line")


BACKWARD = {
    "embedding_dense_backward": lambda x, i: F.embedding(i, x),
    "embedding_bag_backward": lambda x, i: F.embedding_bag(i[None], x),
    "scatter_add_": lambda x, i: x.gather(0, i[:, None].expand(5, 4)),
    "index_add_": lambda x, i: x.index_select(0, i),
    "index_put_": lambda x, i: x[i],
    "nll_loss_backward": lambda x, i: F.cross_entropy(x, i % 4 if i.max() < 4 else i),
}


@pytest.mark.parametrize("operator", BACKWARD)
@pytest.mark.parametrize("anomaly", [False, True])
def test_recorded_line_of_the_forward_call_is_named(operator, anomaly):
    """The indices are overwritten between the passes, without autograd noticing."""
    x, indices = X.clone().requires_grad_(), T([0, 1, 2, 3, 0])
    with torch.autograd.set_detect_anomaly(anomaly, check_nan=False):
        result = BACKWARD[operator](x, indices)
        if operator == "nll_loss_backward":
            result = F.cross_entropy(x, indices)
        indices.data[3] = 77
        with pytest.raises(IndexOutOfBoundsError) as caught, ndgather.checked_indices():
            result.sum().backward()
    assert (caught.value.operator, caught.value.value) == (operator, 77)
    source = Path(__file__).read_text().splitlines()[caught.value.line - 1]
    assert ("backward()" not in source) == anomaly
    assert caught.value.module == ""


def test_all_bad_entries_are_counted():
    with (
        pytest.raises(IndexOutOfBoundsError) as caught,
        ndgather.checked_indices(),
    ):
        X[T([[0, 5, 1], [-6, 4, 99]])]
    assert (caught.value.count, caught.value.position, caught.value.value) == (3, (0, 1), 5)


def test_every_index_of_an_empty_axis_is_bad(wait):
    with (
        pytest.raises(IndexOutOfBoundsError, match="the axis is empty"),
        ndgather.checked_indices(wait=wait),
    ):
        torch.empty(0, 3)[T([0])]


@pytest.mark.parametrize("call", [torch.bincount, torch.repeat_interleave, F.one_hot])
def test_negative_counts_are_bad(call, wait):
    with (
        pytest.raises(IndexOutOfBoundsError, match=r"\[1\] = -2 is negative \(allowed: 0 or more"),
        ndgather.checked_indices(wait=wait),
    ):
        call(T([3, -2, 1]))


ALLOWED = """
F.cross_entropy(Z, T([0, -100, 4, -100, 1, 2]))
F.cross_entropy(Z, T([0, 255, 4, 255, 1, 2]), ignore_index=255)
F.cross_entropy(Z, T([0, 255, 4, 255, 1, 2]).byte(), ignore_index=255)
F.cross_entropy(Z, torch.softmax(Z, 1))
F.multilabel_margin_loss(Z, T([[3, 0, -1, 7, -9]] * 6).clamp(-1, 4))
F.ctc_loss(ones(6, 2, 5), T([[1, 2, -1], [1, -100, 99]]), (6, 6), (2, 1))
F.ctc_loss(ones(6, 2, 5), T([1, 2, 3]), T([6, 6]), T([2, 1]))
F.embedding_bag(T([1, 2, 3]), X, T([0, 3]))
F.embedding_bag(T([1, 2, 3]), X, T([0, 1, 3]), include_last_offset=True)
F.embedding(T([[]]).long(), X)
X[[]]
X[X > 3]
X[T([1, 0, 1, 0, 1]).byte()]
X[T(True)]
X[-5], X[T(-5)], X[T([-5, 4])]
X[:0][:, T([3])]
X.index_fill(0, T([-5, 4]), 2.0)
X.take(T([-20, 19]))
torch.take_along_dim(X, T([[-4], [3], [0], [1], [-1]]), 1)
torch.bincount(T([9, 0]))
torch.segment_reduce(ones(6), "sum", lengths=T([2, 4]))
torch.masked_select(X, X > 3), X.masked_fill(X > 3, 1.0), X.masked_scatter(X > 3, ones(5, 4))
torch.sparse_coo_tensor(T([[4], [3]]), ones(1), (5, 4)).to_dense()
csr(T([0, 1, 1]), T([3]), ones(1), (2, 4)).to_dense()
bsr(T([0, 1, 1]), T([1]), ones(1, 2, 2), (4, 4)).to_dense()
bsc(T([[0, 1, 1]]), T([[2]]), ones(1, 1, 2, 1), (1, 6, 2)).to_dense()
csr(T([0, 1]), T([3]), ones(1)).to_dense()
torch.sparse_csc_tensor(T([0, 0, 1]), T([3]), ones(1), (4, 2)).to_dense()
torch.sparse_coo_tensor(T([[4]]), ones(1, 4), (5, 4)).index_select(0, T([4])).to_dense()
torch.tensor_split(X, T([1, 99])), X.narrow(0, T(2), 3)
torch.histc(X, 4), torch.bucketize(X, T([3.0, 9.0])), torch.searchsorted(T([1, 2]), T(3))
torch.lu_unpack(*torch.linalg.lu_factor(torch.eye(3)))
torch.linalg.lu_solve(*torch.linalg.lu_factor(torch.eye(3)), ones(3, 1))
torch.ops.aten._unsafe_masked_index(X[:, 0], T([True, False]), [T([1, 77])], 0.0)
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inference", [False, True], ids=["", "inference"])
@pytest.mark.parametrize("call", ALLOWED)
def test_valid_calls_have_the_same_result(call, wait, inference):
    with torch.inference_mode(inference):
        expected = eval(call)
        with ndgather.checked_indices(wait=wait):
            result = eval(call)
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


HIDDEN = """
F.cross_entropy(Z, i)
F.embedding_bag(i, X, T([0]))
F.one_hot(i, 5)
torch.take_along_dim(Z, i[:, None], 1)
F.ctc_loss(ones(6, 1, 5), i[None], (6,), (6,))
X[:, i % 4].sum() + X[i].sum()
""".strip().splitlines()


@pytest.mark.parametrize("call", HIDDEN)
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_torch_modes_do_not_hide_bad_indices(call, mode, wait):
    with (
        pytest.raises(IndexOutOfBoundsError) as caught,
        ndgather.checked_indices(wait=wait),
        mode(),
    ):
        eval(call, globals() | {"i": T([0, 1, 2, 3, 4, 5])})
    assert caught.value.value == 5


@pytest.mark.parametrize("call", ["X.gather(9, T([[7]]))", "X[T([1]), 0, T([1])]", "X[T([0.5])]"])
def test_other_errors_are_raised_by_torch(call):
    with pytest.raises((RuntimeError, IndexError)) as expected:
        eval(call)
    with pytest.raises(type(expected.value)) as caught, ndgather.checked_indices():
        eval(call)
    assert str(caught.value) == str(expected.value)


# On the CPU they raise an IndexError or a RuntimeError, depending on shapes and dtypes.
RAISE_EITHER = ("embedding_bag", "index_add", "index_select")


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:The reduce argument")
@pytest.mark.parametrize(("code", "indices", "expected", "line"), list(planted()))
def test_handlers_catch_the_same_errors_in_a_block(code, indices, expected, line):
    names = globals() | {"i": indices}
    try:
        eval(code, names)
    except (IndexError, RuntimeError) as error:
        plain = type(error)
    else:  # torch does not detect it
        plain = IndexOutOfBoundsError
    with pytest.raises(plain) as caught, ndgather.checked_indices():
        eval(code, names)
    assert isinstance(caught.value, IndexOutOfBoundsError)
    if plain is IndexError and expected[0] not in RAISE_EITHER:
        assert not isinstance(caught.value, RuntimeError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), found(again)) == (type(caught.value), found(caught.value))


def test_wrong_arguments_raise_our_errors():
    with pytest.raises(CallError, match=r"^checked_indices: 1 positional arguments are given "):
        ndgather.checked_indices(True)
    with pytest.raises(CallError, match=r"wiat = False is not .*; did you mean 'wait'"):
        ndgather.checked_indices(wiat=False)
    with pytest.raises(DTypeError, match=r"^checked_indices: wait = array\(\[1, 2\]\) is neither"):
        ndgather.checked_indices(wait=np.array([1, 2]))


def test_block_without_parentheses_raises():
    with pytest.raises(CallError, match=r"not a block \(allowed: @ndgather.checked_indices\(\)\)"):

        @ndgather.checked_indices
        def look_up():
            """Never called."""

    allowed = r"\(allowed: with ndgather.checked_indices\(\):\)"
    with pytest.raises(CallError, match=allowed), ndgather.checked_indices:
        pass
