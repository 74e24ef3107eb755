"""Export the lines of PyTorch by one of its two exporters, in the environment that has it."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxscript
import torch

from .lines import Line, values, values_of_cases
from .written import Export, function_of, keep_all


class Written(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A line as the module that an exporter takes."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


def main(exporter: str, folder: Path) -> None:
    warnings.simplefilter("ignore")
    versions = {"torch": torch.__version__, "onnx": onnx.__version__, "numpy": np.__version__}
    if exporter == "dynamo":
        versions["onnxscript"] = onnxscript.__version__
    keep_all(folder, "torch", partial(export, exporter), versions)


def export(exporter: str, line: Line) -> Export:
    module = Written(function_of(line.python, list(line.inputs), {"torch": torch}))

    def answer(given: dict[str, Any]) -> list[Any]:
        with torch.no_grad():
            return [module(*(torch.from_numpy(each.copy()) for each in given.values())).numpy()]

    def write(path: Path) -> None:
        given = tuple(torch.from_numpy(each) for each in values(line, "valid").values())
        torch.onnx.export(
            module, given, path, dynamo=exporter == "dynamo", input_names=list(line.inputs),
            output_names=["y"], verbose=False, external_data=False,
        )  # fmt: skip

    return Export(write=write, inputs=values_of_cases(line), answer=answer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
