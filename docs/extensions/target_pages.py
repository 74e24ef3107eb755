"""Write the pages of restricted targets during every build, using two models from PyTorch.

The build runs the commands of a page and fails if the rewritten model does not return the same
bytes as the original. ``python -m tools.exports.heads`` exports the models.
"""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from generated_files import write

from ndgather.cli import main
from ndgather.messages import LOGGER
from ndgather.models import onnx as models
from ndgather.models.onnx.nodes import is_published, nodes_in
from ndgather.models.onnx.passes.target import load_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

MODELS = Path(__file__).parents[1] / "static"
DRAWS = 3


@dataclass(frozen=True)
class Head:
    """An exported model: a description, and a value for its dynamic size."""

    what: str
    size: str


HEADS = {
    "detector": Head("decodes boxes and keeps the 20 best, using TopK and gathers", "N=1"),
    "ranking": Head("reads the last token of each passage and adds scores by document", "N=4"),
}


@dataclass(frozen=True)
class Target:
    """A group of chips; `limits` may contain ``{source}``, the URL of the list in the target."""

    title: str
    name: str
    head: str
    limits: str


TARGETS = {
    "rknn": Target(
        "RKNN (Rockchip)",
        "rknn",
        "detector",
        "The [list of RKNN-Toolkit2 2.1]({source}) has Gather, GatherElements and ScatterND. It "
        "lacks GatherND ([reported](https://github.com/rockchip-linux/rknn-toolkit2/issues/306)) "
        "and TopK ([reported](https://github.com/airockchip/rknn-toolkit2/issues/141)), which must "
        "run on the CPU.",
    ),
    "qualcomm": Target(
        "Qualcomm QNN and SNPE",
        "qnn",
        "detector",
        "The [list of onnxruntime's QNN provider]({source}) has Gather, but no negative indices "
        "([why](https://github.com/microsoft/onnxruntime/pull/15966)) and no dynamic sizes. int64 "
        "becomes [int32](https://github.com/microsoft/onnxruntime/pull/24351). The converters of "
        "the SDKs have [a separate list](https://docs.qualcomm.com/bundle/publicresource/"
        "80-63442-10/topics/supported_onnx_ops.md).",
    ),
    "tidl": Target(
        "TI TIDL",
        "tidl",
        "detector",
        "The [list of TIDL]({source}) has Gather of computed rows with indices of rank 1. It lacks "
        "other gathers, comparisons and Where. Scatters can write only into zeros, and K of TopK "
        "must be constant.",
    ),
    "litert": Target(
        "LiteRT (TensorFlow Lite)",
        "tflite",
        "ranking",
        "[onnx2tf]({source}) converts every gather and scatter. However, its GatherND and "
        "ScatterND do not count negative indices from the end, and its ScatterND ignores the "
        "reduction.",
    ),
    "coreml": Target(
        "Core ML",
        "coreml",
        "detector",
        "The [list of onnxruntime's Core ML provider]({source}) has GatherND without "
        "`batch_dims`. It lacks other gathers, scatters, comparisons, Where and TopK. Unsupported "
        "nodes run on the CPU.",
    ),
    "tensorrt": Target(
        "TensorRT",
        "tensorrt-10",
        "ranking",
        "The [list of TensorRT's parser]({source}) has every gather and scatter, but no "
        "`reduction` in ScatterND. In TensorRT 8, int64 becomes [int32](https://github.com/onnx/"
        "onnx-tensorrt/blob/009d6541b4ee1fa3f3150cd7cbabe7e56aa54840/docs/operators.md).",
    ),
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Sphinx) -> None:
    LOGGER.setLevel(logging.WARNING)  # Sphinx prints the messages of all loggers
    for name in TARGETS:
        write(Path(app.srcdir) / "targets" / f"{name}.md", target_page(name))


@cache
def target_page(page: str) -> str:
    """Return the page of a group of chips as Markdown."""
    target = TARGETS[page]
    with TemporaryDirectory() as folder, chdir(folder):
        return "\n".join(_lines(target, HEADS[target.head]))


def _lines(target: Target, head: Head) -> Iterator[str]:
    model, name = f"{target.head}.onnx", target.name
    Path(model).write_bytes((MODELS / model).read_bytes())
    known = load_target(name)
    yield f"# {target.title}\n"
    yield target.limits.format(source=known.source) + "\n"
    yield (
        f"[{model}](../static/{model}), exported by PyTorch, {head.what}. Set its dynamic size, "
        "replace the unsupported nodes (`ndgather check` lists them), and compare the results with "
        "the specification:\n"
    )
    yield "```text"
    yield from _shown(f"infer {model} --size {head.size} -o fixed.onnx")
    yield from _shown(f"convert fixed.onnx --target {name} -o {name}.onnx")
    before, after = _counts("fixed.onnx"), _counts(f"{name}.onnx")
    yield from _shown_comparison(f"compare {name}.onnx --random", after.total() - after["all"])
    yield "```\n"
    yield "| nodes | before | after |"
    yield "|---|---|---|"
    for operator in sorted({*before, *after}):
        yield f"| {operator} | {before[operator]} | {after[operator]} |"
    _require_equality(f"{name}.onnx")
    yield (
        f"\nOn {DRAWS} random inputs, both models [return the same bytes]"
        "(../guide/restricted-targets.md#compare-before-and-after)."
    )


def _shown(command: str) -> Iterator[str]:
    """Run a command; yield its command line and output."""
    with redirect_stdout(StringIO()) as printed:
        if main(shlex.split(command)) != 0:
            raise RuntimeError(f"ndgather {command} failed")
    yield f"$ ndgather {command}"
    yield printed.getvalue()


def _shown_comparison(command: str, count: int) -> Iterator[str]:
    """Yield the output of a comparison; the runtimes are not installed during a build."""
    yield f"$ ndgather {command}"
    tested = (MODELS.parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    versions = dict(line.split("==") for line in tested if "==" in line)
    yield from (f"{name} {versions[name]}: ran" for name in ("onnxruntime", "openvino"))
    yield f"\n{count} gather or scatter nodes are the same in every runtime."


def _counts(path: str) -> Counter[str]:
    """Count the gathers and scatters of a model, and all nodes except constants."""
    nodes = [node for node in nodes_in(onnx.load(path)) if node.op_type != "Constant"]
    counts = Counter(node.op_type for node in nodes if is_published(node))
    return counts + Counter(all=len(nodes))


def _require_equality(path: str) -> None:
    for seed in range(DRAWS):
        inputs = models.random_inputs("fixed.onnx", seed)
        results: list[dict[str, Any]] = [
            models.run(model, inputs, runtime="reference") for model in ("fixed.onnx", path)
        ]
        for name, expected in results[0].items():
            if results[1][name].tobytes() != np.asarray(expected).tobytes():
                raise RuntimeError(f"{path}: output {name!r} differs for seed {seed}")
