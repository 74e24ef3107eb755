"""Child process: an exporter, in its environment, writes a model of every snippet of a package.

A snippet has a folder with ``model.onnx``. For every case, ``CASE.npz`` contains the inputs, and
``CASE-answer.npz`` the outputs of the framework (named 0, 1, ...) or ``CASE-refused.txt`` its
error.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.child_process import serve

from .snippets import snippets

if TYPE_CHECKING:
    from collections.abc import Callable

    from .snippets import Array, Snippet

OPSETS = {"": 18, "ai.onnx.ml": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """How to write the model of a snippet, its inputs by case, and the framework's results."""

    write: Callable[[Path], None]
    inputs: dict[str, dict[str, Array]]
    answer: Callable[[dict[str, Array]], list[Any]]


def write_models(exporter: str, folder: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the packages, and the exporter's errors by snippet."""
    warnings.simplefilter("ignore")
    row = EXPORTERS[exporter]
    errors = {}
    for snippet in snippets(row.package):
        error = _write(Path(folder) / snippet.name, row.export(snippet))
        if error:
            errors[snippet.name] = error
    packages = [*(requirement.partition("==")[0] for requirement in row.requires), "numpy"]
    return {name: metadata.version(name) for name in packages}, errors


def _write(folder: Path, export: Export) -> str:
    """Write the model, its inputs and the answers; return the exporter's error, or ""."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for case, inputs in export.inputs.items():
        np.savez(folder / f"{case}.npz", allow_pickle=False, **inputs)
        try:
            outputs = export.answer(inputs)
        except Exception as error:  # frameworks raise errors of many classes
            (folder / f"{case}-refused.txt").write_text(_first_line(error), encoding="utf-8")
        else:
            arrays = {str(number): np.asarray(output) for number, output in enumerate(outputs)}
            np.savez(folder / f"{case}-answer.npz", allow_pickle=False, **arrays)
    try:
        export.write(folder / "model.onnx")
    except Exception as error:  # exporters too
        return _first_line(error)
    return ""


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {''.join(str(error).strip().splitlines()[:1])}"[:200]


def function_of(python: str, arguments: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Return a function of `arguments` that runs a snippet and returns its last line."""
    *lines, last = python.strip().splitlines()
    body = "\n".join(f"    {line}" for line in [*lines, f"return {last}"])
    namespace: dict[str, Any] = dict(names)
    exec(f"def snippet({', '.join(arguments)}):\n{body}\n", namespace)
    function: Callable[..., Any] = namespace["snippet"]
    return function


def export_torch(snippet: Snippet, *, dynamo: bool) -> Export:
    torch: Any = import_module("torch")
    function = function_of(snippet.python, list(snippet.inputs), {"torch": torch})

    class Module(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)

    module = Module()

    def answer(inputs: dict[str, Array]) -> list[Any]:
        with torch.no_grad():
            return [module(*(torch.from_numpy(array.copy()) for array in inputs.values())).numpy()]

    def write(path: Path) -> None:
        inputs = tuple(torch.from_numpy(array) for array in snippet.values("valid").values())
        torch.onnx.export(
            module, inputs, path, dynamo=dynamo, input_names=list(snippet.inputs),
            output_names=["y"], verbose=False, external_data=False,
        )  # fmt: skip

    return Export(write=write, inputs=_inputs(snippet), answer=answer)


def export_tensorflow(snippet: Snippet) -> Export:
    tf: Any = import_module("tensorflow")
    tf2onnx: Any = import_module("tf2onnx")
    function = function_of(snippet.python, list(snippet.inputs), {"tf": tf})
    types = [
        tf.TensorSpec(shape, getattr(tf, dtype), name=name)
        for name, (dtype, *shape) in snippet.inputs.items()
    ]
    graph = tf.function(function, input_signature=types, autograph=False)

    def answer(inputs: dict[str, Array]) -> list[Any]:
        return [function(*map(tf.constant, inputs.values())).numpy()]

    def write(path: Path) -> None:
        tf2onnx.convert.from_function(
            graph, input_signature=types, opset=OPSETS[""], output_path=str(path)
        )

    return Export(write=write, inputs=_inputs(snippet), answer=answer)


def _inputs(snippet: Snippet) -> dict[str, dict[str, Array]]:
    return {case: snippet.values(case) for case in snippet.cases}


def export_sklearn(snippet: Snippet) -> Export:
    skl2onnx: Any = import_module("skl2onnx")
    modules = (
        "ensemble", "feature_selection", "impute", "linear_model", "neighbors", "pipeline", "tree"
    )  # fmt: skip
    names: dict[str, Any] = {}
    for module in modules:
        names |= vars(import_module(f"sklearn.{module}"))
    rng = np.random.default_rng(33)
    data = rng.random((60, 4)).astype(np.float32)
    sums = data.sum(axis=1)
    targets = {"sums": sums, "classes": (sums * 2).astype(np.int64) % 3}
    inputs = rng.random((9, 4)).astype(np.float32)
    if snippet.name == "imputer":
        inputs = np.where(inputs < 0.2, np.float32(np.nan), inputs)
    np.random.seed(33)  # noqa: NPY002 - the generator that scikit-learn uses
    model = function_of(snippet.python, [], names)()
    model.fit(data, targets[snippet.targets])

    def write(path: Path) -> None:
        options = {"zipmap": False} if hasattr(model, "predict_proba") else None
        proto = skl2onnx.to_onnx(model, data[:1], options=options, target_opset=OPSETS)
        path.write_bytes(proto.SerializeToString())

    def answer(inputs: dict[str, Array]) -> list[Any]:
        """Return the result of the exported model."""
        rows = inputs["X"]
        if hasattr(model, "predict_proba"):
            return [model.predict(rows), model.predict_proba(rows)]
        if hasattr(model, "score_samples"):
            return [model.predict(rows)[:, None], model.decision_function(rows)[:, None]]
        if hasattr(model, "predict"):
            return [model.predict(rows).reshape(len(rows), -1)]
        return [model.transform(rows)]

    return Export(write=write, inputs={"valid": {"X": inputs}}, answer=answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """An exporter: the package of its snippets, the packages to install, and its function."""

    package: str
    requires: tuple[str, ...]
    export: Callable[[Snippet], Export]


_TORCH = ("torch==2.13.0", "onnx==1.23.2", "onnxscript==0.7.2")
_TENSORFLOW = ("tensorflow-cpu==2.21.0", "tf2onnx==1.17.0", "onnx==1.23.2")
_SKLEARN = ("scikit-learn==1.9.1", "skl2onnx==1.20.0", "onnx==1.23.2")
EXPORTERS = {
    "torch-torchscript": Exporter(
        package="torch", requires=_TORCH, export=partial(export_torch, dynamo=False)
    ),
    "torch-dynamo": Exporter(
        package="torch", requires=_TORCH, export=partial(export_torch, dynamo=True)
    ),
    "tf2onnx": Exporter(package="tensorflow", requires=_TENSORFLOW, export=export_tensorflow),
    "skl2onnx": Exporter(package="sklearn", requires=_SKLEARN, export=export_sklearn),
}


if __name__ == "__main__":
    serve(write_models)
