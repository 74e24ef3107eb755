"""Which index is out of bounds: a model with one bad token in one of many batches.

A small text model trains on batches, and one token is outside the vocabulary, as after a tokenizer
was extended without its embedding. torch reports `index out of range in self`. A block of
`checked_indices` reports the module, the entry, the value and the line. The same holds for the
labels of the loss, and for indices that torch silently wraps around.

    pip install '.[torch]'
    python examples/which_index.py
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

import ndgather
from ndgather.errors import IndexOutOfBoundsError

WORDS, LABELS, BATCHES = 1000, 7, 20


class Tagger(nn.Module):  # type: ignore[misc]  # torch has no types here
    """Give a label to every token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.ModuleDict({"words": nn.Embedding(WORDS, 32)})
        self.layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        self.out = nn.Linear(32, LABELS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(self.embed["words"](tokens)))


def train(model: Tagger, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for tokens, labels in batches:
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()


def fault(work: Any, *arguments: Any) -> IndexOutOfBoundsError:
    """Return the error of a call in a block of `checked_indices`."""
    try:
        with ndgather.checked_indices():
            work(*arguments)
    except IndexOutOfBoundsError as error:
        return error
    raise SystemExit("no index was out of bounds")


def main() -> None:
    torch.manual_seed(0)
    tokens, labels = torch.randint(WORDS, (BATCHES, 8, 16)), torch.randint(LABELS, (BATCHES, 8, 16))
    tokens[13, 2, 5] = WORDS  # one more than the size of the embedding
    model = Tagger()
    batches = list(zip(tokens, labels, strict=True))
    try:
        train(model, batches)
    except IndexError as error:
        print(f"torch says:\n{error}\n")
    found = fault(train, model, batches)
    print(f"checked_indices says:\n{found}\n")
    assert (found.module, found.position, found.value) == ("embed.words", (2, 5), WORDS)

    labels[3, 0, 1] = LABELS
    wrong = fault(train, model, batches)
    print(f"of a label:\n{wrong}\n")
    assert (wrong.operator, wrong.position, wrong.size) == ("nll_loss", (1,), LABELS)

    picked = torch.take_along_dim(torch.arange(4), torch.tensor([9]), 0)
    hidden = fault(torch.take_along_dim, torch.arange(4), torch.tensor([9]), 0)
    print(f"of an index that torch takes modulo the size, as {picked.item()}:\n{hidden}\n")
    print("three faults were named that torch did not name")


if __name__ == "__main__":
    main()
