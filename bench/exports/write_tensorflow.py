"""Export the lines of TensorFlow by tf2onnx, in the environment that has it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

from .lines import Line, values_of_cases
from .written import Export, function_of, keep_all

OPSET = 18


def main(folder: Path) -> None:
    versions = {
        "tf2onnx": tf2onnx.__version__,
        "tensorflow": tf.__version__,
        "onnx": onnx.__version__,
        "numpy": np.__version__,
    }
    keep_all(folder, "tensorflow", export, versions)


def export(line: Line) -> Export:
    function = function_of(line.python, list(line.inputs), {"tf": tf})
    types = [
        tf.TensorSpec(shape, getattr(tf, dtype), name=name)
        for name, (dtype, *shape) in line.inputs.items()
    ]
    graph = tf.function(function, input_signature=types, autograph=False)

    def answer(given: dict[str, Any]) -> list[Any]:
        return [function(*map(tf.constant, given.values())).numpy()]

    def write(path: Path) -> None:
        tf2onnx.convert.from_function(
            graph, input_signature=types, opset=OPSET, output_path=str(path)
        )

    return Export(write=write, inputs=values_of_cases(line), answer=answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
