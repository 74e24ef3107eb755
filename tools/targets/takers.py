"""Child process: a program that reads ONNX models, in its environment, loads and runs a model."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.child_process import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Inputs = dict[str, Array]


def opencv(path: Path, inputs: Inputs) -> Callable[[], list[Array]]:
    cv2 = import_module("cv2")  # each of these has its own environment
    net = cv2.dnn.readNetFromONNX(str(path))
    for name, array in inputs.items():
        net.setInput(array, name)
    return lambda: list(net.forward(net.getUnconnectedOutLayersNames()))


def ncnn(path: Path, inputs: Inputs) -> Callable[[], list[Array]]:
    package = import_module("ncnn")
    pnnx = Path(str(package.__file__)).parents[1] / "pnnx" / "pnnx"
    folder = Path(tempfile.mkdtemp())
    model = folder / "model.onnx"
    model.write_bytes(path.read_bytes())
    done = subprocess.run(
        [str(pnnx), model.name], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    if not model.with_suffix(".ncnn.param").exists():
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    net = package.Net()
    if net.load_param(str(model.with_suffix(".ncnn.param"))):
        raise RuntimeError("a layer that ncnn does not have")
    net.load_model(str(model.with_suffix(".ncnn.bin")))

    def run() -> list[Array]:
        extractor = net.create_extractor()
        for number, array in enumerate(inputs.values()):
            small = array.astype(np.int32) if array.dtype == np.int64 else array
            extractor.input(f"in{number}", package.Mat(np.ascontiguousarray(small)))
        names = net.output_names()
        return [np.array(extractor.extract(name)[1]) for name in names]

    return run


def onnx2tf(path: Path, inputs: Inputs) -> Callable[[], list[Array]]:
    package, tensorflow = import_module("onnx2tf"), import_module("tensorflow")
    folder = tempfile.mkdtemp()
    model = Path(folder, "model.onnx")
    model.write_bytes(path.read_bytes())  # it writes the names of nodes into the file
    with redirect_stdout(StringIO()) as printed:
        try:
            package.convert(
                input_onnx_file_path=str(model),
                output_folder_path=folder,
                keep_shape_absolutely_input_names=list(inputs),
                not_use_onnxsim=True,
                non_verbose=True,
            )
        except SystemExit:
            lines = re.findall(r"ERROR:\S* (.*)", printed.getvalue())
            raise RuntimeError("; ".join(lines[:3])) from None
    (written,) = Path(folder).glob("*_float32.tflite")

    def run() -> list[Array]:
        interpreter = tensorflow.lite.Interpreter(model_path=str(written))
        interpreter.allocate_tensors()
        for port in interpreter.get_input_details():
            name = port["name"].removeprefix("serving_default_").partition(":")[0]
            interpreter.set_tensor(port["index"], inputs[name].astype(port["dtype"]))
        interpreter.invoke()
        return [interpreter.get_tensor(x["index"]) for x in interpreter.get_output_details()]

    return run


def simplified(path: str) -> bytes:
    """Return a model simplified by onnxsim."""
    model, _ = import_module("onnxsim").simplify(path)
    return bytes(model.SerializeToString())


def outcome(name: str, path: str) -> str:
    """Return the outcome of a model in a program: "loads", "runs", "right", or its error."""
    answers = np.load(Path(path).with_name("answers.npz"))
    inputs = dict(np.load(Path(path).with_name("inputs.npz")))
    run = {"opencv": opencv, "ncnn": ncnn, "onnx2tf": onnx2tf}[name](Path(path), inputs)
    try:
        outputs = run()
    except Exception:  # programs raise errors of many classes
        return "loads"
    pairs = zip(outputs, (answers[number] for number in sorted(answers)), strict=False)
    same = all(
        np.size(output) == answer.size
        and np.allclose(np.ravel(output), answer.ravel().astype(np.float64), atol=1e-5)
        for output, answer in pairs
    )
    return "right" if same else "runs"


if __name__ == "__main__":
    serve(simplified if sys.argv[1:] == ["onnxsim"] else outcome)
