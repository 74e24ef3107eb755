"""``python -m bench.checked``: five torch programs in a block of `checked_indices`.

Each program runs in turns: plain, in a block, and in a block that never waits for the device. The
results must have the same bits. The ratios are medians over the turns of the processor time of a
thread, or of the time until a GPU finishes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

Step = Callable[[], Any]  # runs one step and returns a tensor
Block = Callable[[], AbstractContextManager[Any]]
_PROGRAMS = ("MLP", "transformer", "LSTM", "decoding loop", "DLRM")
_TURNS = 9
_SECONDS = 0.1  # steps of a program per turn
_COMPARED = 3  # steps


def _make_training(torch: Any, model: Any, loss: Callable[[], Any]) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> Any:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    return step


def _make_program(torch: Any, name: str) -> Step:
    """Return a step of a program that computes the same numbers each time."""
    nn, entropy = torch.nn, torch.nn.functional.cross_entropy
    torch.manual_seed(0)
    labels, tokens = torch.randint(0, 10, (64,)), torch.randint(0, 1000, (16, 64))
    embed, out, head = nn.Embedding(1000, 64), nn.Linear(64, 1000), nn.Linear(256, 10)
    if name == "MLP":
        x, model = torch.randn(64, 784), nn.Sequential(nn.Linear(784, 256), nn.ReLU(), head)
        return _make_training(torch, model, lambda: entropy(model(x), labels))
    if name == "LSTM":
        model = nn.ModuleList([embed, nn.LSTM(64, 256), head])
        return _make_training(
            torch, model, lambda: entropy(head(model[1](embed(tokens))[0][-1]), labels)
        )
    if name == "DLRM":
        rows, dense = torch.randint(0, 1000, (8, 64, 4)), torch.randn(64, 128)
        bags = nn.ModuleList(nn.EmbeddingBag(1000, 16, mode="sum") for _ in rows)
        top = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), head)

        def predict_clicks() -> Any:
            found = [bag(each) for bag, each in zip(bags, rows, strict=True)]
            return entropy(top(torch.cat([*found, dense], 1)), labels)

        return _make_training(torch, nn.ModuleList([bags, top]), predict_clicks)
    if name == "transformer":
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        model = nn.ModuleList([embed, nn.TransformerEncoder(layer, 2), out])
        return _make_training(
            torch, model, lambda: entropy(out(model[1](embed(tokens))).mT, tokens)
        )
    start, cache = tokens[:1, :1] * 0, torch.zeros(32, 64)

    def decode() -> Any:
        found = start
        with torch.no_grad():
            for position in range(32):
                cache[position] = x = embed(found[:, -1])[0]
                read = cache[: position + 1]
                x = x + torch.softmax(read @ x, -1) @ read
                found = torch.cat([found, out(x).argmax().view(1, 1)], 1)
        return found

    return decode


def _seconds(step: Step, block: Block, count: int, clock: Callable[[], float]) -> float:
    with block():
        step()
        start = clock()
        for _ in range(count):
            step()
        return clock() - start


def main(words: list[str] | None = None) -> int:
    """Compare the results, then measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.checked", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="compare the results only")
    options = parser.parse_args(words)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch  # noqa: PLC0415 - after the environment is set

    from ndgather import checked_indices  # noqa: PLC0415

    torch.set_num_threads(1)
    clock = time.thread_time
    chip = Path("/proc/cpuinfo").read_text().partition("model name\t: ")[2].splitlines()[0]
    if options.device == "cuda":
        chip = torch.cuda.get_device_name()

        def clock() -> float:
            torch.cuda.synchronize()
            return time.perf_counter()

    blocks: list[Block] = [nullcontext, checked_indices, lambda: checked_indices(wait=False)]
    print(f"torch {torch.__version__}, {chip}: ratios to the plain program\n")
    print("| program | plain, ms | checked | wait=False |\n|---|---:|---:|---:|")
    for name in _PROGRAMS:
        results = []
        torch.use_deterministic_algorithms(True, warn_only=True)
        for block in blocks:
            with torch.device(options.device):
                step = _make_program(torch, name)
            with block():
                results.append([step() for _ in range(_COMPARED)])
        torch.use_deterministic_algorithms(False)
        for result in results[1:]:
            torch.testing.assert_close(result, results[0], rtol=0, atol=0)
        count = (
            1 if options.quick else max(1, round(_SECONDS / _seconds(step, nullcontext, 1, clock)))
        )
        turns = [
            [_seconds(step, block, count, clock) for block in blocks]
            for _ in range(1 if options.quick else _TURNS)
        ]
        plain = 1e3 * median(turn[0] for turn in turns) / count
        ratios = [f"{median(turn[way] / turn[0] for turn in turns):.2f}" for way in (1, 2)]
        print(f"| {name} | {plain:.2f} | {' | '.join(ratios)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
