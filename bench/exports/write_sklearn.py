"""Export the models of scikit-learn by skl2onnx, in the environment that has it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import skl2onnx
import sklearn
from sklearn import ensemble, feature_selection, impute, linear_model, neighbors, pipeline, tree

from .lines import lines
from .written import function_of, keep, say

OPSETS = {"": 18, "ai.onnx.ml": 3}
MODULES = (ensemble, feature_selection, impute, linear_model, neighbors, pipeline, tree)


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    known = {name: value for module in MODULES for name, value in vars(module).items()}
    rng = np.random.default_rng(33)
    data = rng.random((60, 4)).astype(np.float32)
    sums = data.sum(axis=1)
    targets = {"sums": sums, "classes": (sums * 2).astype(np.int64) % 3}
    asked = rng.random((9, 4)).astype(np.float32)
    refused = {}
    for line in lines("sklearn"):
        np.random.seed(33)  # noqa: NPY002 - what scikit-learn draws from
        model = function_of(line.python, [], known)()
        given = asked
        if line.name == "imputer":
            given = np.where(asked < 0.2, np.float32(np.nan), asked)
        model.fit(data, targets[line.targets])

        def answer(given: dict[str, Any], model: Any = model) -> list[Any]:
            return predicted(model, given["X"])

        def write(path: Path, model: Any = model) -> None:
            options = {"zipmap": False} if hasattr(model, "predict_proba") else None
            proto = skl2onnx.to_onnx(model, data[:1], options=options, target_opset=OPSETS)
            path.write_bytes(proto.SerializeToString())

        why = keep(folder / line.name, write, {"valid": {"X": given}}, answer)
        if why:
            refused[line.name] = why
    versions = {
        "skl2onnx": skl2onnx.__version__,
        "scikit-learn": sklearn.__version__,
        "onnx": onnx.__version__,
        "numpy": np.__version__,
    }
    say(folder, versions, refused)


def predicted(model: Any, data: Any) -> list[Any]:
    """Return what the exported model gives."""
    if hasattr(model, "predict_proba"):
        return [model.predict(data), model.predict_proba(data)]
    if hasattr(model, "score_samples"):
        return [model.predict(data)[:, None], model.decision_function(data)[:, None]]
    if hasattr(model, "predict"):
        return [model.predict(data).reshape(len(data), -1)]
    return [model.transform(data)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
