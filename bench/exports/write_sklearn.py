"""Export the models of scikit-learn by skl2onnx, in the environment that has it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import skl2onnx
import sklearn
from sklearn import ensemble, feature_selection, impute, linear_model, neighbors, pipeline, tree

from .written import Export, function_of, keep_all

if TYPE_CHECKING:
    from .lines import Line

OPSETS = {"": 18, "ai.onnx.ml": 3}
MODULES = (ensemble, feature_selection, impute, linear_model, neighbors, pipeline, tree)
KNOWN = {name: value for module in MODULES for name, value in vars(module).items()}


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    versions = {
        "skl2onnx": skl2onnx.__version__,
        "scikit-learn": sklearn.__version__,
        "onnx": onnx.__version__,
        "numpy": np.__version__,
    }
    keep_all(folder, "sklearn", export, versions)


def export(line: Line) -> Export:
    rng = np.random.default_rng(33)
    data = rng.random((60, 4)).astype(np.float32)
    sums = data.sum(axis=1)
    targets = {"sums": sums, "classes": (sums * 2).astype(np.int64) % 3}
    asked = rng.random((9, 4)).astype(np.float32)
    if line.name == "imputer":
        asked = np.where(asked < 0.2, np.float32(np.nan), asked)
    np.random.seed(33)  # noqa: NPY002 - what scikit-learn draws from
    model = function_of(line.python, [], KNOWN)()
    model.fit(data, targets[line.targets])

    def answer(given: dict[str, Any]) -> list[Any]:
        return predicted(model, given["X"])

    def write(path: Path) -> None:
        options = {"zipmap": False} if hasattr(model, "predict_proba") else None
        proto = skl2onnx.to_onnx(model, data[:1], options=options, target_opset=OPSETS)
        path.write_bytes(proto.SerializeToString())

    return Export(write=write, inputs={"valid": {"X": asked}}, answer=answer)


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
