"""`checked_indices` does not change correct programs: the same bits, and no error.

Models of torch's own modules, transforms, tracers, other modes, processes and threads, and every
operator of torch whose schema has a tensor of indices.
"""

import contextlib
import copy
import pickle
import re
import subprocess
import sys
import threading
from importlib.util import find_spec

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import ndgather
from ndgather.arrays.torch.checked.operators import OPERATORS, operator_name
from ndgather.errors import AttributeValueError, IndexOutOfBoundsError

T = torch.tensor
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


def tokens(*shape, high=50):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1))


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


class Translator(nn.Module):
    """An encoder and a decoder, with padding that the loss ignores."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        self.body = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, 50)

    def forward(self):
        source, target = tokens(3, 7), tokens(3, 5)
        x = self.body(self.embed(source), self.embed(target), src_key_padding_mask=source == 0)
        labels = target.masked_fill(target > 40, -100)
        return F.cross_entropy(self.out(x).flatten(0, 1), labels.flatten())


class Recurrent(nn.Module):
    """RNNs with packed sequences of different lengths."""

    def __init__(self, kind):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(50, 8), kind(8, 6, bidirectional=True)

    def forward(self):
        lengths = T([4, 7, 2])
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(tokens(7, 3)), lengths, enforce_sorted=False
        )
        out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], total_length=9)
        return out[lengths - 1, torch.arange(3)].square().mean()


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(50, 8, mode=mode, padding_idx=3) for mode in ("sum", "mean", "max")
        )
        self.last = nn.EmbeddingBag(50, 8, mode="sum", include_last_offset=True)
        self.normed = nn.Embedding(50, 8, max_norm=1.0)

    def forward(self):
        total = self.normed(tokens(4)).sum()
        for bag in self.bags:
            total = total + bag(tokens(9), T([0, 4, 4])).sum() + bag(tokens(2, 3)).sum()
        return total + self.last(tokens(9), T([0, 2, 9]), noise(9)).square().sum()


class Segmenter(nn.Module):
    """Convolutions, pooling whose indices are reused, and labels of pixels."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self):
        x = self.norm(self.down(noise(2, 3, 8, 8)))
        pooled, indices = F.max_pool2d(x, 2, return_indices=True)
        x = self.up(F.max_unpool2d(pooled, indices, 2)) + F.adaptive_max_pool2d(x, 1).sum()
        labels = tokens(2, 8, 8, high=5).masked_fill(tokens(2, 8, 8) > 40, 255)
        return F.cross_entropy(x, labels.byte().long(), ignore_index=255)


def suppressed(boxes, scores, threshold=0.3):
    """Return the boxes that remain after non-maximum suppression."""
    order, kept = scores.argsort(descending=True), []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[order, :2])
        high = torch.minimum(boxes[best, 2:], boxes[order, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        order = order[shared / (areas[best] + areas[order] - shared) <= threshold]
    return torch.stack(kept)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 4 + 5)

    def forward(self):
        found = self.head(noise(30, 16))
        corner, logits = found[:, :2], found[:, 4:]
        boxes = torch.cat([corner, corner + found[:, 2:4].exp()], 1)
        scores, classes = logits.softmax(1).max(1)
        kept = suppressed(boxes.detach(), scores.detach())
        picked = logits[kept].gather(1, classes[kept, None])
        best = scores.topk(5).indices
        return picked.mean() + boxes[best].square().mean() + F.one_hot(classes, 5).float().mean()


class Graph(nn.Module):
    """Messages along edges, added and averaged in the nodes."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(6, 6), nn.GRUCell(6, 6)

    def forward(self):
        nodes, (source, target) = noise(10, 6), tokens(2, 40, high=10)
        for reduce in ("sum", "mean", "amax"):
            sent = self.message(nodes)[source]
            into = torch.zeros(10, 6).index_add(0, target, sent)
            where = target[:, None].expand_as(sent)
            into = into + torch.zeros(10, 6).scatter_reduce(0, where, sent, reduce)
            nodes = self.update(into / torch.bincount(target, minlength=10)[:, None].add(1), nodes)
        order = target.argsort()
        counts = torch.bincount(target, minlength=10)
        parts = torch.segment_reduce(self.message(nodes)[source][order], "max", lengths=counts)
        return parts.nan_to_num(0, 0, 0).sum() + nodes.index_select(0, source).square().mean()


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self):
        x = noise(20, 8)
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, slots, None])
            out[rows[:1]] += 1
        return out.square().mean() + weights.gather(1, chosen.argsort(1)).sum()


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(5, 6), nn.Linear(6, 7)

    def forward(self):
        logits = self.out(self.rnn(noise(12, 3, 5))[0]).log_softmax(-1)
        labels = T([[1, 2, 3], [4, 6, -1], [5, -100, 99]])
        steps, lengths = T([12, 9, 10]), T([3, 2, 1])
        padded = F.ctc_loss(logits, labels, steps, lengths, zero_infinity=True)
        return padded + F.ctc_loss(logits, T([1, 2, 3, 4, 6, 5]), (12, 9, 10), (3, 2, 1))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.weight = nn.Embedding(50, 8, sparse=True), nn.Parameter(noise(8, 3))

    def forward(self):
        coo = torch.sparse_coo_tensor(T([[0, 2], [1, 3]]), noise(2), (4, 8))
        csr = torch.sparse_csr_tensor(T([0, 1, 2]), T([7, 0]), noise(2), (2, 8))
        dense = (coo @ self.weight).sum() + (csr @ self.weight).square().sum()
        return self.embed(tokens(6)).square().sum() + dense


class Generator(nn.Module):
    """Steps of a decoder with a cache, and a beam search."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self):
        cache, beams = torch.zeros(3, 6, 8), torch.zeros(3, 1, dtype=torch.int64)
        total = torch.zeros(3)
        for step in range(6):
            x = self.embed(beams[:, -1])
            cache = cache.index_copy(1, T([step]), x.detach()[:, None])
            scores = (self.out(x + cache.sum(1)).log_softmax(-1) + total[:, None]).flatten()
            total, best = scores.topk(3)
            beams = torch.cat([beams[best // 50], (best % 50)[:, None]], 1)
            cache = cache.index_select(0, best // 50)
        last = torch.take_along_dim(beams, T([[-1], [0], [6]]), 1)
        return total.sum() + self.embed(last).square().mean()


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 20)
        self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(6, 20, [5, 10])

    def forward(self):
        x, labels = self.body(noise(9, 6)), tokens(9, high=20)
        many = T([[3, 0, -1] + [7] * 17] * 9)
        return (
            F.multi_margin_loss(x, labels)
            + F.multilabel_margin_loss(x, many)
            + self.adaptive(noise(9, 6), labels).loss
            + F.nll_loss(x.log_softmax(1), labels, weight=torch.ones(20))
            + F.cross_entropy(x, labels, label_smoothing=0.1)
            + F.cross_entropy(x, F.one_hot(labels, 20).float())
            + F.gumbel_softmax(x, hard=True).sum()
        )


class Checkpointed(nn.Module):
    """Recomputed in the backward pass, under autocast, with a lookup without a gradient."""

    def __init__(self):
        super().__init__()
        self.embed, self.layer = nn.Embedding(50, 8), nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self):
        with torch.no_grad():
            rows = self.embed.weight[tokens(5)].argsort(1)
        with torch.autocast("cpu", torch.bfloat16):
            x = checkpoint(lambda x: self.layer(self.embed(x)), tokens(5, 3), use_reentrant=False)
        return x.float().gather(2, rows[:, None].expand(5, 3, 8)).square().mean()


class Windows(nn.Module):
    """Relative positions, rolled windows, interpolation, channel dropout, quantiles."""

    def __init__(self):
        super().__init__()
        self.bias, self.mix = nn.Parameter(noise(7, 2)), nn.Conv1d(2, 2, 3, padding="same")

    def forward(self):
        near = (torch.arange(4)[:, None] - torch.arange(4)) + 3
        x = self.bias[near].permute(0, 2, 1)
        x = F.interpolate(self.mix(x.roll(1, 2)), 8).unfold(2, 2, 1).flatten(1)
        cells = torch.bucketize(x.detach(), T([-1.0, 0, 1]))
        sums = torch.zeros(4, 4).scatter_add(1, cells, x)
        rows = torch.repeat_interleave(torch.arange(2), T([3, 1]))
        return sums[rows].square().mean() + x.kthvalue(2, 1).values.sum() + x.cummax(1)[0].sum()


MODELS = {
    "translator": Translator,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "bags": Bags,
    "segmenter": Segmenter,
    "detector": Detector,
    "graph": Graph,
    "experts": Experts,
    "speech": Speech,
    "sparse": Sparse,
    "generator": Generator,
    "losses": Losses,
    "checkpointed": Checkpointed,
    "windows": Windows,
}


def trained(model):
    """Return everything that two training steps and an inference compute."""
    model, found = copy.deepcopy(model), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = model()
        loss.backward()
        found += [loss.detach(), *(each.grad for each in model.parameters())]
        optimizer.step()
    model.eval()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found.append(model())
    return [None if each is None else each.to_dense() if each.is_sparse else each for each in found]


@pytest.mark.parametrize("wait", [True, False], ids=["wait", "no wait"])
@pytest.mark.parametrize("name", MODELS)
def test_correct_models_compute_the_same_bits(name, wait):
    torch.manual_seed(0)
    model = MODELS[name]()
    expected = trained(model)
    with ndgather.checked_indices(wait=wait):
        result = trained(model)
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


def of_vision(name):
    import torchvision  # noqa: PLC0415 - an own package

    make = getattr(torchvision.models, name, None) or getattr(torchvision.models.detection, name)
    more = {"weights_backbone": None, "min_size": 64, "max_size": 64} if "rcnn" in name else {}
    model, image = make(weights=None, num_classes=5, **more), noise(2, 3, 64, 64)
    box = {"boxes": T([[3.0, 4.0, 40.0, 50.0]]), "labels": T([1])}
    if "rcnn" in name:
        return model, lambda m: sum(m(list(image), [box, box]).values()), lambda m: m(list(image))
    return model, lambda m: F.cross_entropy(m(image), T([1, 3])), lambda m: m(image)


def of_text(name):
    import transformers  # noqa: PLC0415 - an own package

    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"num_hidden_layers": 2, "n_embd": 16, "n_layer": 2, "n_head": 2, "d_model": 16}
    sizes |= {"d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "pad_token_id": 0}
    config = getattr(transformers, f"{name[0]}Config")(**sizes, decoder_start_token_id=0)
    model = getattr(transformers, "".join(name))(config)
    ids = tokens(2, 9)
    return (
        model,
        lambda m: m(input_ids=ids, labels=ids).loss,
        lambda m: m(input_ids=ids, labels=ids),
    )


FOREIGN = {
    **{
        name: ("torchvision", of_vision, name)
        for name in ("resnet18", "fasterrcnn_mobilenet_v3_large_fpn")
    },
    **{
        "".join(name): ("transformers", of_text, name)
        for name in (
            ("Bert", "ForMaskedLM"),
            ("GPT2", "LMHeadModel"),
            ("T5", "ForConditionalGeneration"),
        )
    },
}


@pytest.mark.parametrize("name", FOREIGN)
def test_models_of_other_packages_compute_the_same_bits(name):
    package, make, what = FOREIGN[name]
    if not find_spec(package):
        pytest.skip(f"{package} is not installed: its newest wheel needs the newest torch")
    results = []
    for block in (contextlib.nullcontext(), ndgather.checked_indices()):
        torch.manual_seed(0)
        model, loss, infer = make(what)
        with block:
            torch.manual_seed(1)
            loss(model).backward()
            with torch.no_grad():
                found = infer(model.eval())
        found = dict(found) if hasattr(found, "keys") else {"": found}
        found = {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}
        results.append((found, [each.grad for each in model.parameters()]))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", ["encoder", "layer", "attention"])
def test_fast_paths_of_torch_are_used(kind, padded):
    """They give different bits than the slow paths, and depend on active function modes."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    modules = {
        "encoder": nn.TransformerEncoder(layer, 3),
        "layer": layer,
        "attention": nn.MultiheadAttention(16, 2, batch_first=True),
    }
    module, x = modules[kind].eval(), noise(3, 7, 16)
    mask = torch.arange(7) >= T([[7], [4], [2]]) if padded else None
    given = (x, x, x, mask) if kind == "attention" else (x, None, mask)
    seen = []

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def run(block):
        seen.clear()
        with torch.no_grad(), Seen(), block:
            result = module(*given)
            operators = list(seen)
            with pytest.raises((IndexOutOfBoundsError, RuntimeError)) as caught:
                F.one_hot(T([7]), 5)
        return result, operators, caught.type

    expected, operators, _ = run(contextlib.nullcontext())
    result, operators_of_block, error = run(ndgather.checked_indices())
    assert re.search("_transformer_encoder_layer_fwd|_native_multi_head", str(operators))
    assert operators_of_block == operators
    assert issubclass(error, IndexOutOfBoundsError)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


def looked_up(x, i):
    return x[i % 5].sin() * 2


GOOD = T([4, -1, 0])
BAD = T([4, 9, 0])


def functionalized(x):
    return torch.func.functionalize(lambda x: x.index_add(0, GOOD % 5, torch.ones(3, 4)))(x)


def conditional(x):
    return torch.cond(x.sum() > 0, lambda x: x[GOOD], lambda x: x[GOOD] * 2, (x,))


def traced(x):
    return torch.jit.trace(lambda x: F.one_hot(GOOD % 5, 5) + x[GOOD].sum(), (x,))(x)


def scripted(x):
    return torch.jit.script(F.embedding)(GOOD % 5, x)


def made(x, mode="real"):
    graph = torch.fx.experimental.proxy_tensor.make_fx(looked_up, tracing_mode=mode)(x, GOOD)
    assert len(graph.graph.nodes) == 7
    return graph(x, GOOD)


def exported(x):
    class Looked(nn.Module):
        def forward(self, x, i):
            return looked_up(x, i) + torch.take_along_dim(x, i[:1, None] % 4, 1)[:3]

    return torch.export.export(Looked(), (x, GOOD)).module()(x, GOOD)


def jagged(x):
    nested = torch.nested.nested_tensor([x[:2], x[2:]], layout=torch.jagged)
    return nested.sin().to_padded_tensor(0.0), F.embedding(T([[1]]), x)


def quantized(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).index_select(0, T([1])).dequantize()


def per_sample(x):
    return torch.func.vmap(lambda x, i: (x[i], torch.take_along_dim(x, i[None], 0)))(x, T([0] * 5))


def looked_by(x):
    return x[GOOD]


def of_functions(x):
    gradient = torch.func.grad(lambda x: torch.take_along_dim(x, T([[3]]), 1).sum())
    return gradient(x), torch.func.jacrev(looked_up)(x, GOOD), torch.func.jvp(looked_by, (x,), (x,))


def faked(x):
    with torch._subclasses.FakeTensorMode() as mode:
        fake = looked_up(mode.from_tensor(x), torch.zeros(3, dtype=int))
        return F.one_hot(torch.zeros(2, dtype=int), 5).shape, fake.shape


def on_meta(x):
    return looked_up(x.to("meta"), GOOD.to("meta")).shape


def profiled(x):
    with torch.profiler.profile(), torch.autograd.profiler.record_function("step"):
        return looked_up(x, GOOD)


def on_a_device(x):
    with torch.device("cpu"):
        return F.one_hot(torch.arange(3)), looked_up(x, GOOD)


def subclassed(x):
    class Named(torch.Tensor):
        pass

    return looked_up(x.as_subclass(Named), GOOD.as_subclass(Named)).as_subclass(torch.Tensor)


def attended(x):
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 8, 8, device="cpu")
    q = noise(1, 1, 8, 16)
    return flex_attention(q, q, q, block_mask=mask)


def with_autograd_off_and_on(x):
    with torch.no_grad(), torch.enable_grad(), torch.autograd.set_detect_anomaly(True):
        x = x.clone().requires_grad_()
        looked_up(x, GOOD).sum().backward()
    return x.grad


def loaded(x):
    data = [(x, n) for n in range(4)]
    batches = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2)
    return [looked_up(x[0], n) for x, n in batches]


PROGRAMS = [
    *(functionalized, conditional, traced, scripted, made, exported, jagged, quantized, per_sample),
    *(of_functions, faked, on_meta, profiled, on_a_device, subclassed, attended),
    *(with_autograd_off_and_on, loaded),
]


@pytest.mark.parametrize("wait", [True, False], ids=["wait", "no wait"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_correct_programs_compute_the_same(program, wait):
    x = noise(5, 4)
    expected = program(x)
    with ndgather.checked_indices(wait=wait):
        result = program(x)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["fake", "symbolic", "real"])
def test_graphs_made_in_a_block_have_no_checks(mode):
    with ndgather.checked_indices():
        made(noise(5, 4), mode)


def test_distributed_tensors():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for place in (Shard(0), Replicate()):
            table = distribute_tensor(noise(5, 4), mesh, [place])
            with ndgather.checked_indices():
                rows = F.embedding(distribute_tensor(GOOD % 5, mesh, [Replicate()]), table)
            torch.testing.assert_close(rows.full_tensor(), noise(5, 4)[GOOD % 5])
    finally:
        dist.destroy_process_group()


def test_modes_around_a_block_see_the_same_operators():
    seen = []

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = noise(5, 4)
    with Seen():
        looked_up(x, GOOD)
    expected = seen.copy()
    for wait in (True, False):
        seen.clear()
        with Seen(), ndgather.checked_indices(wait=wait):
            looked_up(x, GOOD)
        assert [each for each in seen if each not in ("aten.where", "aten.stack")] == expected
        seen.clear()
        with ndgather.checked_indices(wait=wait), Seen():
            looked_up(x, GOOD)
        assert seen == expected


def clean():
    return (
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch._dynamo.eval_frame._stance.stance,
    )


def test_nothing_is_active_after_a_block():
    assert clean() == (0, 0, "default")
    for error in (IndexOutOfBoundsError, KeyboardInterrupt, SystemExit, RuntimeError):
        bad = BAD if error is IndexOutOfBoundsError else GOOD
        with pytest.raises(error), ndgather.checked_indices(), ndgather.checked_indices(wait=False):
            raise error(noise(5, 4)[bad])
        assert clean() == (0, 0, "default")
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        noise(5, 4)[BAD]


def test_blocks_can_be_reentered_and_nested():
    block = ndgather.checked_indices()
    for _ in range(2):
        with block, block, ndgather.checked_indices(wait=False):
            looked_up(noise(5, 4), GOOD)
        assert clean() == (0, 0, "default")


def test_each_thread_has_its_own_blocks():
    errors, entered, left = [], threading.Event(), threading.Event()

    def work():
        try:
            with ndgather.checked_indices():
                entered.set()
                left.wait(20)
                noise(5, 4)[BAD]
        except IndexOutOfBoundsError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    with ndgather.checked_indices():
        thread.start()
        assert entered.wait(20)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        noise(5, 4)[BAD]
    assert torch.unravel_index(T(7), (2, 2)) == (1, 1)  # torch itself does not check
    left.set()
    thread.join()
    assert [error.value for error in errors] == [9]
    assert clean() == (0, 0, "default")


def test_decorated_function_opens_a_block_for_each_call():
    @ndgather.checked_indices()
    def pick(x, i, depth=0):
        return pick(x, i, depth - 1) if depth else x[i]

    assert pick.__name__ == "pick"
    assert torch.equal(pick(noise(5, 4), GOOD, 3), noise(5, 4)[GOOD])
    with pytest.raises(IndexOutOfBoundsError, match="= 9"):
        pick(noise(5, 4), BAD, 3)
    with pytest.raises(IndexError, match="index 9 is"):
        noise(5, 4)[BAD]

    def later():
        yield

    async def awaited():
        pass

    for refused in (later, awaited, nn.Linear, 3):
        with pytest.raises(AttributeValueError, match="does not run its body when it is called"):
            ndgather.checked_indices()(refused)


def in_a_worker(wait):
    with ndgather.checked_indices(wait=wait):
        return noise(5, 4)[BAD]


class Wrong(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        return noise(5, 4)[BAD]


@pytest.mark.parametrize("wait", [True, False])
def test_error_of_a_worker_is_propagated(wait):
    """A process forked in a block is in the block, but nothing would read its flags."""
    loader = torch.utils.data.DataLoader(Wrong(), num_workers=1)
    with ndgather.checked_indices(wait=wait), pytest.raises(IndexOutOfBoundsError, match="= 9 "):
        next(iter(loader))


def test_error_can_be_pickled():
    with pytest.raises(IndexOutOfBoundsError) as caught:
        in_a_worker(True)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), vars(copied)) == (str(caught.value), vars(caught.value))


def test_without_waiting_the_first_bad_index_is_raised_at_the_next_check():
    x = noise(5, 4)
    with ndgather.checked_indices(wait=False) as block:
        looked_up(x, GOOD)
        block.check()
        assert torch.equal(x[BAD], x[[4, 0, 0]])
        assert x[T([77])].shape == (1, 4)
        with pytest.raises(IndexOutOfBoundsError, match="= 9 "):
            block.check()
        block.check()


def test_without_waiting_a_later_error_is_the_context():
    with (
        pytest.raises(IndexOutOfBoundsError, match="= 9 ") as caught,
        ndgather.checked_indices(wait=False),
    ):
        raise ValueError(noise(5, 4)[BAD])
    assert isinstance(caught.value.__context__, ValueError)


def test_without_check_an_error_is_raised_after_thousands_of_calls():
    """Otherwise, the kept flags would accumulate."""
    x = noise(5, 4)
    with ndgather.checked_indices(wait=False):
        x[BAD]
        with pytest.raises(IndexOutOfBoundsError, match="= 9 "):
            [x[GOOD] for _ in range(5000)]


def test_importing_ndgather_does_not_import_torch():
    code = "import ndgather, sys; assert 'torch' not in sys.modules; ndgather.checked_indices"
    code += "; assert 'torch' in sys.modules and 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Names of tensor arguments of torch's operators that hold values or are written. For a new name,
# add it here, or its operator to the table or to READ_NONE.
NAMES = """
self out other input weight grad_output bias out0 out1 grad_input values out2 grad key value output
x tensors query mask mat2 hx A running_mean running_var src grad_out scale out3 zero_point n
found_inf grad_hy grid mean mat1 params cx tensor1 tensor2 exponent grads lr grad_scale min max
attn_bias logsumexp save_mean w_ih w_hh b_ih b_hh log_probs grad_cy B info x1 x2 per_sample_weights
state_steps input2 philox_seed attn_mask LU dummy U invstd out4 qkv_bias y weights workspace
exp_avgs exp_avg_sqs max_exp_avg_sqs end vec2 dropout_state reserve v the_template input_gates
hidden_gates input_bias hidden_bias total_weight noise batch1 batch2 scales dep_token scale_a
scale_b packed_ih packed_hh scalars save_invstd qkv_weight proj_weight proj_bias min_seqlen
max_seqlen cy packed_weight padded S dense weight_buf input1 vec start tensor zero_points LD q
alpha L observer_on fake_quant_on running_min running_max sign logabsdet rstd result save_var bins
eigenvalues eigenvectors buffer a tau tensors1 z dx Vh packed q_descale k_descale v_descale p atol
rtol momentum_buffer_list g growth_tracker mat state_sums qScaleAndZeros primal tangent sobolstate
window compressed_A dense_B LU_data P inv_scale Q R t dst mat1_meta alibi_slopes weight1 weight2
weight3 hx_ dropout_mask grad_w saved_v saved_g saved_norms theta random_samples vec1 is_target
nested_strides out5 scale_result thread_masks grad_out_ prepend append test_elements high like
neg_log_likelihood log_alpha glu real imag scales_zeros ggI ggW ggb gO weight_arr
fake_quant_enabled nt_example weight_scale weight_zero_point sparse pdist flat b solution residuals
rank singular_values input3 prob list coefficients meta cdist norm_weight_1 norm_bias_1
norm_weight_2 norm_bias_2 ffn_weight_1 ffn_bias_1 ffn_weight_2 ffn_bias_2 grad_x grad_glu qtensor
grad_y z_state cell_state_fwd layersOutputs anchor positive negative inputs gradient from elements
quasi save_var_transform reservedSpace qkv cpu_nested_shape_example X M fweights aweights abs angle
mantissa dual weight4 cx_tmp hy_ cy_ min_indices i1 i2 i3 rcond sum_dy sum_dy_xmu condition var
weight0 cx_ std sorted_sequence k input_scale input_zero_point output_scale output_zero_point
inverse new_data diagonals grad_weight grad_bias pos_weight grad_in out6 ltm self_or_result any
matrices max_values total reserveSpace qScale qZeros spacing inp packed_weights rng_state unused
eigvals eigvecs V sequences tol hist bin_edges arg_out source data boundaries dgrad_glu
"""
VALUES = frozenset(NAMES.split())
CUDA = "runs on CUDA alone, where nothing was measured: the lengths are passed on"
LOSS = "the target holds values"
NESTED = "nested tensors are passed on"
READ_NONE = {
    "_convert_indices_from_csr_to_coo": "the indices of a tensor whose making is checked",
    "_cummax_helper _cummin_helper": "written",
    "_cudnn_attention_forward _cudnn_attention_backward": CUDA,
    "_efficient_attention_forward _efficient_attention_backward": CUDA,
    "_flash_attention_forward _flash_attention_backward": CUDA,
    "_flash_attention_forward_no_dropout_inplace": CUDA,
    "_scaled_dot_product_cudnn_attention_backward": CUDA,
    "_scaled_dot_product_efficient_attention_backward": CUDA,
    "_scaled_dot_product_flash_attention_backward": CUDA,
    "_scaled_dot_product_fused_attention_overrideable_backward": CUDA,
    "_use_cudnn_ctc_loss _use_miopen_ctc_loss": "chooses the operator that is checked",
    "_jagged_to_padded_dense_forward _padded_dense_to_jagged_forward": NESTED,
    "_nested_compute_contiguous_strides_offsets _nested_from_padded_tensor": NESTED,
    "_nested_view_from_buffer _nested_view_from_buffer_copy": NESTED,
    "_nested_view_from_jagged _nested_view_from_jagged_copy": NESTED,
    "_reshape_from_tensor": "a shape",
    "_spdiags": "numbers of diagonals, any of which is allowed",
    "_unsafe_masked_index _unsafe_masked_index_put_accumulate": "the mask has what is outside",
    "_validate_compressed_sparse_indices _validate_sparse_bsc_tensor_args": "a check",
    "_validate_sparse_bsr_tensor_args _validate_sparse_compressed_tensor_args": "a check",
    "_validate_sparse_coo_tensor_args _validate_sparse_csc_tensor_args": "a check",
    "_validate_sparse_csr_tensor_args": "a check",
    "batch_norm_backward_elemt batch_norm_gather_stats_with_counts binomial": "counts",
    "binary_cross_entropy_with_logits": LOSS,
    "huber_loss huber_loss_backward kl_div l1_loss mse_loss mse_loss_backward": LOSS,
    "smooth_l1_loss smooth_l1_loss_backward soft_margin_loss soft_margin_loss_backward": LOSS,
    "linalg_ldl_solve": "pivots of LAPACK, whose signs have a meaning",
    "quantized_gru quantized_lstm": "sizes of batches, which torch reads on the host",
}
# The arguments that they check hold values in other operators.
READ_BY_OTHER_NAMES = {
    "bernoulli",
    "bincount",
    "masked_scatter",
    "multinomial",
    "one_hot",
    "poisson",
}
NEWER_READ_NONE = {"_cudnn_attention_forward_no_dropout_inplace": CUDA}  # of torch 2.15


def test_every_operator_that_reads_indices_is_known():
    """A new release of torch may have an operator or argument that is not in the tables."""
    read_none = {name for names in READ_NONE for name in names.split()}
    unknown, seen = [], set()
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.partition(".")
        if not name.startswith("aten::"):
            continue
        schema = torch._C._get_schema(name, overload)
        name = name.removeprefix("aten::")
        held = [
            each.name
            for each in schema.arguments
            if "Tensor" in str(each.type) and not each.is_out and each.name not in VALUES
        ]
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(
            full, "CompositeImplicitAutograd"
        )
        if held and (
            name in read_none or name in NEWER_READ_NONE or operator_name(name) in OPERATORS
        ):
            seen.add(name)
        elif held and not composite:  # a composite operator consists of others
            unknown.append((full, held))
    assert not unknown
    assert read_none <= seen
    assert {operator_name(name) for name in seen} | READ_BY_OTHER_NAMES >= set(OPERATORS)
    assert all(READ_NONE.values())
