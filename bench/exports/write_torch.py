"""Export the lines of PyTorch by one of its two exporters, in the environment that has it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxscript
import torch

from .lines import CASES, lines, values
from .written import function_of, keep, say


class Written(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A line as the module that an exporter takes."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


def main(exporter: str, folder: Path) -> None:
    warnings.simplefilter("ignore")
    refused = {}
    for line in lines("torch"):
        module = Written(function_of(line.python, list(line.inputs), {"torch": torch}))

        def answer(given: dict[str, Any], module: Written = module) -> list[Any]:
            with torch.no_grad():
                return [module(*(torch.from_numpy(each.copy()) for each in given.values())).numpy()]

        def write(path: Path, line: Any = line, module: Written = module) -> None:
            given = tuple(torch.from_numpy(each) for each in values(line, "valid").values())
            torch.onnx.export(
                module, given, path, dynamo=exporter == "dynamo", input_names=list(line.inputs),
                output_names=["y"], verbose=False, external_data=False,
            )  # fmt: skip

        cases = {case: values(line, case) for case in CASES if case in line.cases}
        why = keep(folder / line.name, write, cases, answer)
        if why:
            refused[line.name] = why
    versions = {"torch": torch.__version__, "onnx": onnx.__version__, "numpy": np.__version__}
    if exporter == "dynamo":
        versions["onnxscript"] = onnxscript.__version__
    say(folder, versions, refused)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
