"""Export the lines of TensorFlow by tf2onnx, in the environment that has it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

from .lines import CASES, lines, values
from .written import function_of, keep, say

OPSET = 18


def main(folder: Path) -> None:
    refused = {}
    for line in lines("tensorflow"):
        function = function_of(line.python, list(line.inputs), {"tf": tf})
        types = [
            tf.TensorSpec(shape, getattr(tf, dtype), name=name)
            for name, (dtype, *shape) in line.inputs.items()
        ]
        graph = tf.function(function, input_signature=types, autograph=False)

        def answer(given: dict[str, Any], function: Any = function) -> list[Any]:
            return [function(*map(tf.constant, given.values())).numpy()]

        def write(path: Path, graph: Any = graph, types: Any = types) -> None:
            tf2onnx.convert.from_function(
                graph, input_signature=types, opset=OPSET, output_path=str(path)
            )

        cases = {case: values(line, case) for case in CASES if case in line.cases}
        why = keep(folder / line.name, write, cases, answer)
        if why:
            refused[line.name] = why
    versions = {
        "tf2onnx": tf2onnx.__version__,
        "tensorflow": tf.__version__,
        "onnx": onnx.__version__,
        "numpy": np.__version__,
    }
    say(folder, versions, refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
