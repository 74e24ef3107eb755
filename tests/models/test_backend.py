"""The official ONNX node tests of every operator that gathers or scatters, run by our backend.

`Scatter`, which ScatterElements replaced in version 11, is in nobody's: its two tests are left out,
and what they come to is tested instead.
"""

import importlib
import pkgutil
import re
import unittest
from unittest import mock

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest, loader

from ndgather.errors import DTypeError, ModelError
from ndgather.models.onnx import Backend

REPLACED = re.compile("test_scatter_with(out)?_axis")


class Counting(Backend):
    """Our backend, which writes down who ran the nodes of each model."""

    own: int = 0
    other: int = 0

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        prepared = super().prepare(model, device, **options)
        run = prepared.model.run

        def counted(inputs):
            result = run(inputs)
            cls.own += result.gather_nodes
            cls.other += result.remaining_nodes
            return result

        prepared.model.run = counted
        return prepared


OURS = re.compile("gather|scatter")


def import_ours(package):
    """Import those modules of the official tests that are ours: the others compute for seconds."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if OURS.search(module.name):
            importlib.import_module(module.name)


def official_tests():
    with mock.patch.object(loader, "import_recursive", import_ours):
        cases = BackendTest(Counting, __name__).test_cases["OnnxBackendNodeModelTest"]
    return {
        name: getattr(cases, name)
        for name in unittest.TestLoader().getTestCaseNames(cases)
        if OURS.search(name) and name.endswith("_cpu")
    }


ALL = official_tests()
COUNTS = {"1.23": 27}
"""How many tests of our operators a version of onnx has."""
TESTS = {name: test for name, test in ALL.items() if not REPLACED.match(name)}


@pytest.mark.parametrize("name", TESTS)
def test_official_node_test(name, monkeypatch):
    monkeypatch.setattr(Counting, "own", 0)
    monkeypatch.setattr(Counting, "other", 0)

    TESTS[name](None)

    assert (Counting.own, Counting.other) == (1, 0)


@pytest.mark.parametrize("name", sorted(ALL.keys() - TESTS.keys()))
def test_an_operator_that_was_replaced_runs_in_the_reference_evaluator(name, monkeypatch):
    monkeypatch.setattr(Counting, "own", 0)
    monkeypatch.setattr(Counting, "other", 0)

    ALL[name](None)

    assert (Counting.own, Counting.other) == (0, 1)


def test_the_official_tests_are_all_there(capsys):
    with capsys.disabled():
        print(f" [{len(ALL)} official node tests: {len(TESTS)} of our operators] ", end="")
    assert len(TESTS) == COUNTS[onnx.__version__.rpartition(".")[0]]


MODEL = helper.make_model(
    helper.make_graph(
        [helper.make_node("GatherND", ["data", "indices"], ["out"], name="pick")],
        "g",
        [
            helper.make_tensor_value_info("data", TensorProto.BFLOAT16, ["a", "b"]),
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["n", 1]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.BFLOAT16, ["n", "b"])],
        [onnx.numpy_helper.from_array(np.array([[1]]), "indices")],
    ),
    opset_imports=[helper.make_opsetid("", 13)],
    ir_version=8,
)
DATA = np.arange(6).reshape(3, 2).astype(ml_dtypes.bfloat16)


def test_a_prepared_model_takes_its_inputs_in_order():
    prepared = Backend.prepare(MODEL)

    for indices, expected in [((), DATA[[1]]), ((np.array([[2], [0]]),), DATA[[2, 0]])]:
        (out,) = prepared.run([DATA, *indices])
        np.testing.assert_array_equal(out, expected, strict=True)
    with pytest.raises(ModelError) as refusal:
        prepared.run([DATA, DATA, DATA])
    assert str(refusal.value) == (
        "3 inputs given (the model takes: data bfloat16 (a, b), indices int64 (n, 1))"
    )


def test_run_model():
    (out,) = Backend.run_model(MODEL, [DATA])
    np.testing.assert_array_equal(out, DATA[[1]], strict=True)


def test_a_model_that_is_not_valid_is_refused():
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.node[0].input[1] = "nothing"

    with pytest.raises(ModelError, match=r"^model: is not a valid ONNX model: .*nothing"):
        Backend.prepare(model)


def test_run_node():
    node = helper.make_node("GatherND", ["data", "indices"], ["out"], batch_dims=1)
    inputs = [np.array([[1, 2], [3, 4]]), np.array([[1], [0]])]

    (out,) = Backend.run_node(node, inputs)

    np.testing.assert_array_equal(out, np.array([2, 3]), strict=True)
    with pytest.raises(ModelError, match=r"node GatherND is not valid: .* batch_dims"):
        Backend.run_node(node, inputs, opset_version=11)
    with pytest.raises(DTypeError, match=r"^node GatherND of 'out': .* int16 is not taken"):
        Backend.run_node(node, [inputs[0], inputs[1].astype(np.int16)], opset_version=12)


def test_run_node_of_the_contributed_domain():
    node = helper.make_node("GatherND", ["data", "indices"], ["out"], domain="com.microsoft")

    (out,) = Backend.run_node(node, [np.arange(3), np.array([[2]], np.int32)])

    np.testing.assert_array_equal(out, np.array([2]), strict=True)


def test_the_one_device_is_the_cpu():
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("CUDA:1")
    with pytest.raises(ModelError) as refusal:
        Backend.prepare(MODEL, "CUDA")
    assert str(refusal.value) == "device 'CUDA' is not available (allowed: CPU)"
