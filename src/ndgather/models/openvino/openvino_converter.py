"""The converter of OpenVINO, for models that are more than gathers and scatters.

It runs in this process, and is loaded by nothing else: a model that ends it ends the command.
"""

from __future__ import annotations

import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.errors import conversion_errors, file_errors
from ndgather.models.openvino.ir_model import Model
from ndgather.models.tensors.atomic_write import replace

if TYPE_CHECKING:
    from ndgather.models.graph.diagnostics import Finding

_NO_NODES = frozenset({"Const", "Parameter", "Result"})


def is_installed() -> bool:
    return find_spec("openvino") is not None


def write_converted(source: Path, target: Path, constants: Path) -> tuple[int, tuple[Finding, ...]]:
    """Have OpenVINO write an IR of a model file, and check each gather and scatter layer of it.

    Floats stay as wide as they are. Both files take their places whole, or neither does.

    Returns
    -------
    int, tuple of Finding
        How many layers there are, and what the check found.

    Raises
    ------
    NdgatherError
        OpenVINO refuses the model, or a file cannot be written.
    """
    openvino = import_module("openvino")
    try:
        converted = openvino.convert_model(str(source))
    except Exception as error:  # of its frontend, of any kind
        raise conversion_errors.refused_by_openvino(source, error) from error
    if not target.parent.is_dir():
        raise file_errors.no_folder(target, target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ndgather-") as folder:
        made = Path(folder) / "model.xml"
        try:
            openvino.save_model(converted, str(made), compress_to_fp16=False)
        except Exception as error:
            raise file_errors.unwritable(target, error) from error
        weights = made.with_suffix(".bin")
        weights.touch()
        model = Model.load(made)
        replace((constants, weights.replace), (target, made.replace))
    layers = sum(each.type not in _NO_NODES for each in model.network.layers)
    return layers, Model.load(target, constants).check()
