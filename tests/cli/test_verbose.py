"""``--verbose``: what is done is said on standard error, and nothing of it without."""

import logging

import numpy as np
import pytest
import zarr


def test_a_run_says_where_and_how_long(ndgather):
    line = "run model.onnx --input data=data.npy --input indices=indices.npy --runtime reference"
    silent, spoken = ndgather(line), ndgather(f"{line} --verbose")
    assert silent.err == ""
    (said,) = spoken.err.splitlines()
    assert said.startswith("ndgather: model.onnx: 1 node ran in ndgather and 1 node in the ref")
    assert spoken.out.startswith("output")


def test_a_gather_from_a_store_says_how_many_chunks(ndgather):
    zarr.create_group("s.zarr").create_array("a", data=np.arange(64).reshape(8, 8), chunks=(4, 4))
    outcome = ndgather("gather-nd s.zarr/a indices.npy -o out.npy -v")
    assert outcome.err.startswith("ndgather: gather_nd: ")
    assert " chunks of " in outcome.err or " chunk of " in outcome.err


@pytest.mark.parametrize("command", ["check", "infer", "convert --opset 14 -o m.onnx"])
def test_every_command_takes_it(ndgather, command):
    assert "unrecognized" not in ndgather(f"{command} model.onnx --verbose").err


def test_nothing_stays_on_the_logger(ndgather):
    before = list(logging.getLogger("ndgather").handlers)
    ndgather("check model.onnx --verbose")
    assert logging.getLogger("ndgather").handlers == before
