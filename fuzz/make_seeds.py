"""``python -m fuzz.make_seeds onnx|ir FOLDER``: write the models with which a fuzzer starts."""

import sys
from pathlib import Path

from fuzz import ir_models, onnx_models

READERS = {"onnx": onnx_models, "ir": ir_models}

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for name, content in READERS[sys.argv[1]].seeds():
    (folder / name).write_bytes(content)
