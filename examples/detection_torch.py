"""A detector that decodes and suppresses boxes with gathers, in torch and in an ONNX model.

A small network is trained for a few seconds on generated pictures of bright boxes. For every cell
of a grid, its head predicts how likely the center of a box is there, and the distances to the four
sides. As in every such detector, the best cells are selected, their boxes are decoded, and of
overlapping boxes only the best is kept. All of this is one module, so that ``torch.onnx.export``
writes one model, with GatherND for ``ndgather.gather_nd``.

The result is checked with plain loops, with the drawn boxes, and in onnxruntime.

    pip install '.[torch]' onnxscript onnxruntime
    python examples/detection_torch.py
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn
from torch.nn import functional

import ndgather.arrays.torch

SIDE, STRIDE, OBJECTS = 64, 4, 3
CANDIDATES, KEPT = 24, 6
OVERLAP, CONFIDENT = 0.4, 0.5
STEPS, BATCH = 150, 16
RECALL = 0.8  # of the drawn boxes

Box = Sequence[float]  # left, top, right, bottom in pixels


class Detector(nn.Module):  # type: ignore[misc]  # torch's types are not looked at
    """Pictures ``(n, 1, 64, 64)`` to boxes ``(n, 6, 4)`` and scores ``(n, 6)``: 0 for no box."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, stride in ((1, 16, 2), (16, 32, 2), (32, 32, 1), (32, 32, 1)):
            layers += [nn.Conv2d(inputs, outputs, 5, stride, 2), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.Conv2d(32, 5, 1))

    def maps(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a logit per cell, and its distances to the four sides in strides."""
        found = self.features(pictures).permute(0, 2, 3, 1)
        return found[..., 0], functional.softplus(found[..., 1:])

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        boxes, scores = self.candidates(pictures)
        kept = survivors(boxes) & (scores > CONFIDENT)
        scores, order = torch.topk(torch.where(kept, scores, torch.zeros_like(scores)), KEPT)
        best = ndgather.gather_nd(boxes, order[..., None], batch_dims=1)
        return torch.where(scores[..., None] > 0, best, torch.zeros_like(best)), scores

    def candidates(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the boxes of the best cells, best first, and their scores."""
        logits, sides = self.maps(pictures)
        scores, cells = torch.topk(logits.flatten(1).sigmoid(), CANDIDATES)
        columns = SIDE // STRIDE
        at = torch.stack([cells // columns, cells % columns], -1)
        return decoded(at, ndgather.gather_nd(sides, at, batch_dims=1)), scores


def decoded(cells: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    """Return boxes from rows and columns of cells, and distances from their centers."""
    x, y = cells[..., 1] + 0.5, cells[..., 0] + 0.5
    left, top, right, bottom = sides.unbind(-1)
    return torch.stack([x - left, y - top, x + right, y + bottom], -1) * STRIDE


def overlaps(boxes: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of all pairs, ``(n, k, k)``."""
    low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    return common / (areas[:, :, None] + areas[:, None, :] - common)


def survivors(boxes: torch.Tensor) -> torch.Tensor:
    """Return which boxes are kept, ``(n, k)``: each suppresses later boxes that it overlaps."""
    hits = (overlaps(boxes) > OVERLAP).triu(1)
    stay = torch.ones_like(hits[:, 0])
    for each in range(CANDIDATES - 1):
        stay = stay & ~(hits[:, each] & stay[:, each : each + 1])
    return stay


def survivors_by_loops(boxes: Sequence[Box]) -> list[bool]:
    """Do what `survivors` does for one picture, directly from the definition."""
    stay: list[bool] = []
    for number, one in enumerate(boxes):
        earlier = (boxes[other] for other in range(number) if stay[other])
        stay.append(all(overlap(one, other) <= OVERLAP for other in earlier))
    return stay


def overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    common = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return common / (sum(areas) - common)


def scenes(count: int, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures and the boxes in each, at most one box per quarter."""
    pictures = random.normal(0, 0.1, (count, 1, SIDE, SIDE))
    boxes = np.empty((count, OBJECTS, 4))
    for picture, drawn in zip(pictures, boxes, strict=True):
        for which, quarter in enumerate(random.permutation(4)[:OBJECTS]):
            sizes = random.integers(10, 24, 2)
            corner = random.integers(2, 32 - sizes - 1) + 32 * np.array(divmod(quarter, 2))
            (top, left), (bottom, right) = corner, corner + sizes
            picture[0, top:bottom, left:right] += random.uniform(0.6, 1.2)
            drawn[which] = left, top, right, bottom
    return torch.tensor(pictures).float(), torch.tensor(boxes).float()


def train(model: Detector, random: np.random.Generator) -> float:
    """Train the model on random scenes and return the last loss."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    last = 0.0
    for _ in range(STEPS):
        pictures, boxes = scenes(BATCH, random)
        logits, sides = model.maps(pictures)
        middles = ((boxes[..., :2] + boxes[..., 2:]) / 2 / STRIDE).long().flip(-1)
        # The gradient flows back through the gather only to the cells at the centers.
        found = decoded(middles, ndgather.gather_nd(sides, middles, batch_dims=1))
        batch = torch.arange(BATCH)[:, None, None].expand(-1, OBJECTS, 1)
        ones = torch.ones(BATCH, OBJECTS)
        wanted = ndgather.scatter_nd(
            torch.zeros_like(logits), torch.cat([batch, middles], -1), ones, reduction="max"
        )
        weights = 1 + 15 * wanted
        loss = functional.binary_cross_entropy_with_logits(logits, wanted, weights)
        loss = loss + functional.smooth_l1_loss(found, boxes) / STRIDE
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = float(loss.item())
    return last


def exported(model: Detector, pictures: torch.Tensor) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the exporter about itself
        program = torch.onnx.export(
            model,
            (pictures,),
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: torch.export.Dim("pictures", min=1)},),
            custom_translation_table=ndgather.arrays.torch.onnx_translations(),
        )
    program.save(file)
    return file.getvalue()


def recall(boxes: torch.Tensor, scores: torch.Tensor, drawn: torch.Tensor) -> float:
    """Return the share of the drawn boxes that a found box overlaps by at least half."""
    found = 0
    for some, sure, all_drawn in zip(boxes.tolist(), scores.tolist(), drawn.tolist(), strict=True):
        there = [box for box, score in zip(some, sure, strict=True) if score > 0]
        found += sum(any(overlap(box, each) >= 0.5 for box in there) for each in all_drawn)
    return found / (len(drawn) * OBJECTS)


def main() -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    model = Detector()
    print(f"trained on {STEPS * BATCH} pictures: loss {train(model, random):.3f}")

    model.eval()
    pictures, drawn = scenes(32, random)
    with torch.no_grad():
        boxes, scores = model(pictures)
        candidates, _ = model.candidates(pictures)
    by_loops = [survivors_by_loops(each) for each in candidates.double().tolist()]
    stay = survivors(candidates.double()).tolist()
    assert stay == by_loops, "suppression differs from the plain loops"
    print(
        f"suppressed {sum(each.count(False) for each in stay)} of {32 * CANDIDATES} boxes,"
        " as plain loops do"
    )
    found = recall(boxes, scores, drawn)
    assert found >= RECALL, f"only {found:.0%} of the boxes were found"
    print(f"found {found:.0%} of the {32 * OBJECTS} boxes that were drawn")

    content = exported(model, pictures[:4])
    nodes = [node.op_type for node in onnx.load_from_string(content).graph.node]
    assert nodes.count("GatherND") == 2, nodes
    session = onnxruntime.InferenceSession(content)
    for some in (pictures, pictures[:3]):
        there = session.run(None, {session.get_inputs()[0].name: some.numpy()})
        with torch.no_grad():
            here = model(some)
        for theirs, ours in zip(there, here, strict=True):
            np.testing.assert_allclose(theirs, ours.numpy(), rtol=1e-3, atol=1e-3)
    print(f"exported: {len(nodes)} nodes, 2 of them GatherND; onnxruntime finds the same boxes")


if __name__ == "__main__":
    main()
