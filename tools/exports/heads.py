"""Export the two models of the pages on restricted targets: ``python -m tools.exports.heads``.

Both are written as a PyTorch user would write them, with random weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from ndgather.models import onnx as models

STATIC = Path(__file__).parents[2] / "docs" / "static"
BEST = 20


class Detector(nn.Module):  # type: ignore[misc]
    """The head of a detector without suppression: decode the boxes and keep the best classes."""

    def __init__(self, classes: int = 80, size: int = 160) -> None:
        super().__init__()
        self.classes = classes
        grids = [(torch.cartesian_prod(*2 * [torch.arange(size // s)]), s) for s in (8, 16, 32)]
        self.register_buffer("centers", torch.cat([(p.flip(-1) + 0.5) * s for p, s in grids]))
        self.register_buffer("strides", torch.cat([torch.full((len(p), 1), s) for p, s in grids]))

    def forward(self, distances: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, high = distances.transpose(1, 2).chunk(2, -1)
        corners = [self.centers - low * self.strides, self.centers + high * self.strides]
        scores = logits.transpose(1, 2).sigmoid()
        anchors = scores.amax(-1).topk(BEST).indices
        scores = scores.gather(1, anchors[:, :, None].expand(-1, -1, self.classes))
        scores, places = scores.flatten(1).topk(BEST)
        anchors = anchors.gather(1, places // self.classes)
        images = torch.arange(anchors.size(0))[:, None]
        return torch.cat(corners, -1)[images, anchors], scores, places % self.classes


class Ranking(nn.Module):  # type: ignore[misc]
    """The head of a reranker: score passages by their last token, and add scores by document."""

    def __init__(self, width: int = 32, documents: int = 12) -> None:
        super().__init__()
        self.documents = documents
        self.score = nn.Linear(width, 1)

    def forward(self, tokens: Tensor, lengths: Tensor, document: Tensor) -> tuple[Tensor, Tensor]:
        last = tokens[torch.arange(tokens.size(0)), lengths - 1]
        sums = torch.zeros(self.documents).index_add(0, document, self.score(last)[:, 0])
        scores, best = sums.topk(5)
        return scores, best


def main() -> int:
    torch.manual_seed(0)
    anchors = 525
    write("detector", Detector(), ["boxes", "scores", "classes"], {
        "distances": torch.randn(2, 4, anchors), "logits": torch.randn(2, 80, anchors),
    })  # fmt: skip
    write("ranking", Ranking(), ["scores", "documents"], {
        "tokens": torch.randn(3, 16, 32),
        "lengths": torch.tensor([16, 3, 8]),
        "document": torch.tensor([0, 5, 5]),
    })  # fmt: skip
    return 0


def write(name: str, module: nn.Module, outputs: list[str], inputs: dict[str, Tensor]) -> None:
    """Export a module whose first size is open, without traces of this program."""
    program = torch.onnx.export(
        module.eval(),
        kwargs=inputs,
        dynamo=True,
        input_names=list(inputs),
        output_names=outputs,
        dynamic_shapes={key: {0: torch.export.Dim("N")} for key in inputs},
    )
    assert program is not None
    model = onnx.ModelProto.FromString(program.model_proto.SerializeToString())
    for message in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        del message.metadata_props[:]
    del model.graph.value_info[:]
    models.save(model, STATIC / f"{name}.onnx")


if __name__ == "__main__":
    sys.exit(main())
