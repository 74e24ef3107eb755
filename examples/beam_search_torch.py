"""Beam search over a language model, with a key-value cache that gathers reorder.

A small transformer learns the characters of the README for a few seconds. It then continues several
prompts at once. Each step keeps the best continuations of all beams. A beam may win twice and
another beam not at all, so the cache must follow the winners:

    cache = ndgather.gather(cache, parents, axis=1, batch_dims=1)

The result is compared with a search by plain loops without a cache.

    pip install '.[torch]'
    python examples/beam_search_torch.py
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import ndgather

TEXT = Path(__file__).resolve().parents[1] / "README.md"
WIDTH, HEADS, LAYERS, LONGEST = 64, 4, 2, 64
STEPS, BATCH = 150, 16
PROMPTS = ("Arrays that do ", "the core: what ", "`make run` draw", "from ndgather i")
BEAMS, LENGTH = 4, 24
END = "\n"

Hypothesis = tuple[float, list[int]]  # sum of log-probabilities, tokens


class Model(nn.Module):  # type: ignore[misc]  # torch's types are not looked at
    """A transformer over characters.

    `cache` contains keys and values of earlier tokens, ``(layers, 2, n, heads, tokens, width)``.
    """

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        self.mixing = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.joining = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.widening = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH),
                nn.Linear(WIDTH, 4 * WIDTH),
                nn.GELU(),
                nn.Linear(4 * WIDTH, WIDTH),
            )
            for _ in range(LAYERS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS + 1))
        self.logits = nn.Linear(WIDTH, characters)

    def forward(
        self, tokens: torch.Tensor, cache: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities after each token ``(n, tokens, characters)``, and the cache."""
        count, new = tokens.shape
        before = 0 if cache is None else cache.shape[-2]
        at = torch.arange(before, before + new)
        seen = torch.arange(before + new) <= at[:, None]
        state = self.characters(tokens) + self.positions(at)
        layers = []
        for layer in range(LAYERS):
            mixed = self.mixing[layer](self.norms[layer](state))
            mixed = mixed.view(count, new, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            query, pair = mixed[0], mixed[1:]
            if cache is not None:
                pair = torch.cat([cache[layer], pair], -2)
            found = functional.scaled_dot_product_attention(query, pair[0], pair[1], seen)
            state = state + self.joining[layer](found.transpose(1, 2).flatten(2))
            state = state + self.widening[layer](state)
            layers.append(pair)
        logits = self.logits(self.norms[-1](state))
        return functional.log_softmax(logits, -1), torch.stack(layers)


def train(model: Model, text: torch.Tensor) -> float:
    """Train the model to continue pieces of the text; return the last loss per character."""
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3)
    loss = torch.zeros(())
    for _ in range(STEPS):
        starts = torch.randint(len(text) - LONGEST, (BATCH, 1))
        pieces = ndgather.gather_windows(text, starts, (LONGEST + 1,))
        found, _ = model(pieces[:, :-1])
        loss = functional.nll_loss(found.flatten(0, 1), pieces[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.item())


def search(model: Model, prompts: torch.Tensor, end: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best continuations ``(n, BEAMS, LENGTH)`` of all prompts, and their scores.

    A finished hypothesis is continued only by the end token, at no cost.
    """
    count = len(prompts)
    found, cache = model(prompts)
    scores, tokens = found[:, -1].topk(BEAMS)
    characters = found.shape[-1]
    # The beams of a prompt have the same past: each gets a copy.
    cache = by_beam(ndgather.gather(cache, torch.arange(count).repeat_interleave(BEAMS), axis=2))
    chosen = tokens[..., None]
    after_end = torch.full((characters,), -torch.inf, dtype=found.dtype)
    after_end[end] = 0
    for _ in range(LENGTH - 1):
        found, cache = model(chosen[..., -1].view(-1, 1), by_row(cache))
        found = found.view(count, BEAMS, characters)
        found = torch.where((chosen[..., -1] == end)[..., None], after_end, found)
        scores, best = (scores[..., None] + found).flatten(1).topk(BEAMS)
        parents, tokens = best // characters, best % characters
        cache = ndgather.gather(by_beam(cache), parents, axis=1, batch_dims=1)
        history = parents[..., None].expand(chosen.shape)
        chosen = ndgather.gather_elements(chosen, history, axis=1)
        chosen = torch.cat([chosen, tokens[..., None]], -1)
    return chosen, scores


def by_beam(cache: torch.Tensor) -> torch.Tensor:
    """Return the cache with the axes of prompts and beams first."""
    return cache.movedim(2, 0).unflatten(0, (-1, BEAMS))


def by_row(cache: torch.Tensor) -> torch.Tensor:
    """Return the cache in the layout that the model expects."""
    return cache.flatten(0, 1).movedim(0, 2)


def search_by_loops(model: Model, prompt: list[int], end: int) -> list[Hypothesis]:
    """Do what `search` does for one prompt, without keeping anything between steps."""
    beams: list[Hypothesis] = [(0.0, [])]
    for _ in range(LENGTH):
        longer: list[Hypothesis] = []
        for score, tokens in beams:
            if tokens and tokens[-1] == end:
                longer.append((score, [*tokens, end]))
                continue
            found, _ = model(torch.tensor([prompt + tokens]))
            values = found[0, -1].tolist()
            longer += [(score + value, [*tokens, each]) for each, value in enumerate(values)]
        beams = sorted(longer, key=lambda each: -each[0])[:BEAMS]
    return beams


def main() -> None:
    torch.manual_seed(0)
    text = TEXT.read_text()
    alphabet = sorted(set(text))
    number = {character: each for each, character in enumerate(alphabet)}
    model = Model(len(alphabet))
    begin = time.perf_counter()
    loss = train(model, torch.tensor([number[each] for each in text]))
    print(f"trained for {time.perf_counter() - begin:.0f} s: {loss:.2f} nats per character")

    model.double().eval()  # the order of a sum does not matter in double precision
    prompts = [[number[each] for each in prompt] for prompt in PROMPTS]
    with torch.inference_mode():
        begin = time.perf_counter()
        tokens, scores = search(model, torch.tensor(prompts), number[END])
        quick = time.perf_counter() - begin
        begin = time.perf_counter()
        expected = [search_by_loops(model, prompt, number[END]) for prompt in prompts]
        slow = time.perf_counter() - begin
    for prompt, found, sums, beams in zip(
        PROMPTS, tokens.tolist(), scores.tolist(), expected, strict=True
    ):
        assert found == [each for _, each in beams], f"{prompt!r}: other tokens than the loops find"
        for ours, (theirs, _) in zip(sums, beams, strict=True):
            assert abs(ours - theirs) < 1e-9, f"{prompt!r}: {ours} where the loops find {theirs}"
        best = "".join(alphabet[each] for each in found[0]).split(END)[0]
        print(f"{sums[0]:7.2f}  {prompt}|{best}")
    print(
        f"{BEAMS} beams of {len(PROMPTS)} prompts, {LENGTH} characters: {quick:.2f} s;"
        f" plain loops without a cache find the same in {slow:.2f} s"
    )


if __name__ == "__main__":
    main()
