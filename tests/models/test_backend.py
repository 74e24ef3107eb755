"""The official ONNX node tests of all gathers and scatters.

The two tests of `Scatter`, which ScatterElements replaced in version 11, run in the reference
evaluator.
"""

import importlib
import pkgutil
import re
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx.backend.test import loader

from ndgather.models import onnx as onnx_models

REPLACED = re.compile("test_scatter_with(out)?_axis")
OURS = re.compile("gather|scatter")


def import_ours(package):
    """Import only the official tests of gathers and scatters; all of them take seconds."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if OURS.search(module.name):
            importlib.import_module(module.name)


def official_tests():
    with mock.patch.object(loader, "import_recursive", import_ours):
        cases = loader.load_node_model_tests()
    return {case.name: case for case in cases if OURS.search(case.name)}


ALL = official_tests()
COUNTS = {"1.23": 27}
"""How many tests of our operators a version of onnx has."""


@pytest.mark.parametrize("name", ALL)
def test_official_node_test(name):
    case = ALL[name]
    model = onnx_models.load(case.model.SerializeToString())
    ports = [port.name for port in model.inputs]

    for inputs, expected in case.data_sets:
        run = model.run(dict(zip(ports, inputs, strict=True)))
        for output, array in zip(run.outputs, expected, strict=True):
            np.testing.assert_allclose(output.array, array, case.rtol, case.atol, strict=True)
        replaced = REPLACED.match(name) is not None
        assert (run.gather_nodes, run.remaining_nodes) == (not replaced, replaced)


def test_all_official_tests_are_run(capsys):
    ours = [name for name in ALL if not REPLACED.match(name)]
    with capsys.disabled():
        print(f" [{len(ALL)} official node tests: {len(ours)} of our operators] ", end="")
    assert len(ours) == COUNTS[onnx.__version__.rpartition(".")[0]]
