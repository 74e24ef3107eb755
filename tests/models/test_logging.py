"""Logging of models: runtimes, times and fallbacks."""

import importlib.metadata
import logging
import re

import numpy as np
import pytest
from onnx.parser import parse_model

from ndgather.models import onnx

MODEL = """<ir_version: 8, opset_import: ["" : 18]>
    pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    { same = Identity(data)
      picked = GatherND(same, rows) }"""
INPUTS = {"data": np.arange(6, dtype=np.float32).reshape(3, 2), "rows": np.array([[1], [-1]])}


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG, logger="ndgather")
    return caplog


def of(log, level):
    return [each.getMessage() for each in log.records if each.levelno == level]


def test_runs_log_runtime_and_time(log):
    onnx.run(parse_model(MODEL), INPUTS, runtime="reference")
    (ran,) = of(log, logging.INFO)
    assert ran.startswith("model: 1 node ran in ndgather and 1 node in the reference evaluator, ")


def test_runs_in_a_runtime_log_the_number_of_compared_nodes(log):
    pytest.importorskip("onnxruntime")
    onnx.run(parse_model(MODEL), INPUTS, runtime="onnxruntime")
    loaded, ran = of(log, logging.INFO)
    version = re.escape(importlib.metadata.version("onnxruntime"))
    assert re.fullmatch(rf"model: loaded in onnxruntime {version}, \d+\.\d{{3}} s", loaded)
    assert ran.startswith("model: 2 nodes ran in onnxruntime, 1 node compared, ")


def test_falling_back_to_another_runtime_logs_a_warning(log):
    pytest.importorskip("onnxruntime")
    model = parse_model(MODEL)
    model.ir_version = 10_000  # unknown to onnxruntime
    onnx.load(model, runtime=None)
    (warning,) = of(log, logging.WARNING)
    assert "onnxruntime cannot load it" in warning


def test_comparisons_log_the_outcome_of_each_runtime(log):
    onnx.compare(parse_model(MODEL), INPUTS, runtimes=["reference"])
    (ran,) = of(log, logging.INFO)
    assert ran.startswith("reference ")
    assert ran.endswith(": ran")


def test_nothing_is_printed_without_a_log_handler(capfd):
    logger = logging.getLogger("ndgather")
    assert any(isinstance(each, logging.NullHandler) for each in logger.handlers)
    onnx.run(parse_model(MODEL), INPUTS, runtime="reference")
    assert capfd.readouterr() == ("", "")
