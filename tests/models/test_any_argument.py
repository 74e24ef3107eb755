"""Arbitrary arguments of the public model functions: an expected result or a package error."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ndgather import operator
from ndgather.errors import CallError, DTypeError, FileError, NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from ndgather.published.schema import TensorType
from tests.models.ir_writer import Graph, GraphInput, GraphOutput, OperatorNode, write_ir

pytestmark = pytest.mark.runtimes

GATHER_ND = helper.make_node("GatherND", ["data", "indices"], ["output"])
MODEL = helper.make_model(
    helper.make_graph(
        [GATHER_ND],
        "graph",
        [
            helper.make_tensor_value_info("data", TensorProto.FLOAT, (2, 2)),
            helper.make_tensor_value_info("indices", TensorProto.INT64, (1, 1)),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, (1, 2))],
    ),
    opset_imports=[helper.make_opsetid("", 18)],
    ir_version=8,
)
GRAPH = Graph(
    name="graph",
    inputs=(
        GraphInput(name="data", type=TensorType("float32", (2, 2))),
        GraphInput(name="indices", type=TensorType("int64", (1, 1))),
    ),
    constants={},
    nodes=(
        OperatorNode(
            name="node",
            row=operator("GatherND", domain="openvino").row,
            inputs=("data", "indices"),
            output="output",
            attributes={},
        ),
    ),
    outputs=(GraphOutput(name="output", value="output"),),
)
ARRAYS = (np.zeros((2, 2), np.float32), np.zeros((1, 1), np.int64))
INPUTS = dict(zip(("data", "indices"), ARRAYS, strict=True))


class NeedsGradient:
    """An object with array attributes that is not an array, like a tensor with a gradient."""

    shape = (2, 2)
    dtype = np.dtype(np.float32)
    ndim = 2

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


class NotAPath:
    def __fspath__(self):
        raise RuntimeError("there is no such path")


class Unhashable:
    __hash__ = None


THINGS = {
    "None": None,
    "a flag": True,
    "a number": 3,
    "a huge number": 10**30,
    "a negative number": -1,
    "not a number": float("nan"),
    "no text": "",
    "a text": "data",
    "a text with a NUL": "no\0file",
    "a lone surrogate": "\udc80",
    "a long text": "x" * 10_000,
    "no bytes": b"",
    "bytes": b"\xff\x00no model",
    "a bytearray": bytearray(b"no model"),
    "a view of bytes": memoryview(b"no model"),
    "a list": [1, 2],
    "a list of lists": [[1], [2, 3]],
    "a list of None": [None, None],
    "a tuple": (1, 2),
    "a set": {1, 2},
    "a dict": {"data": 1, "indices": [1]},
    "a dict of None": {"data": None, "indices": None},
    "a dict of objects": {"data": object(), "indices": object()},
    "a dict of numbers": {1: 2},
    "a dict of sizes": {"n": 10**30, "m": -1, "data[0]": 0},
    "a dict of refusals": {"data": NeedsGradient(), "indices": NeedsGradient()},
    "an object": object(),
    "a class": int,
    "a function": len,
    "a generator": (each for each in ()),
    "a slice": slice(None),
    "unhashable": Unhashable(),
    "an array": np.zeros((2, 2), np.float32),
    "an array of objects": np.array([None, object()], object),
    "a masked array": np.ma.masked_array([1, 2], [True, False]),
    "records": np.zeros(2, [("a", "i4")]),
    "dates": np.zeros(2, "M8[s]"),
    "a refusal to be an array": NeedsGradient(),
    "a list of refusals": [NeedsGradient(), NeedsGradient()],
    "a refusal to be a path": NotAPath(),
    "a path of no file": Path("no such folder") / "no such file",
    "a folder": Path(os.sep),
    "an empty model": onnx.ModelProto(),
    "an empty node": onnx.NodeProto(),
    "an empty tensor": onnx.TensorProto(),
    "a tensor type": TensorType(),
    "an error": ValueError("an error"),
}

CALLS = {
    "onnx.run": (onnx_models.run, {"model": MODEL, "inputs": INPUTS}),
    "onnx.load": (
        onnx_models.load,
        {
            "model": MODEL,
            "runtime": "reference",
            "accept_runtime": False,
            "threads": None,
            "providers": (),
            "libraries": (),
        },
    ),
    "onnx.random_inputs": (
        onnx_models.random_inputs,
        {"model": MODEL, "seed": 0, "sizes": None},
    ),
    "onnx.compare": (  # without inputs, so no process is started
        onnx_models.compare,
        {
            "model": MODEL,
            "inputs": {},
            "runtimes": ["reference"],
            "rtol": 0,
            "atol": 0,
            "threads": None,
            "providers": (),
            "libraries": (),
        },
    ),
    "onnx.search": (  # with an unknown size, so no process is started
        onnx_models.search,
        {
            "model": MODEL,
            "tries": 1,
            "seed": 0,
            "sizes": {"none": 1},
            "runtimes": ["reference"],
            "rtol": 0,
            "atol": 0,
        },
    ),
    "onnx.check": (onnx_models.check, {"model": MODEL}),
    "onnx.infer": (onnx_models.infer, {"model": MODEL}),
    "onnx.convert": (
        onnx_models.convert,
        {"model": MODEL, "opset": 18, "domain": "ai.onnx", "operator": "GatherND"},
    ),
    "onnx.implementation": (
        onnx_models.implementation,
        {"op_type": "GatherND", "domain": "", "opset": 18},
    ),
    "onnx.save": (onnx_models.save, {"model": MODEL, "path": "model.onnx", "folder": None}),
    "onnx.Model": (onnx_models.Model, {"proto": MODEL, "path": "model"}),
    "onnx.Model.run": (onnx_models.Model(MODEL).run, {"inputs": INPUTS}),
    "openvino.run": (openvino.run, {"model": "model.xml", "inputs": INPUTS}),
    "openvino.check": (openvino.check, {"model": "model.xml"}),
    "openvino.Model": (openvino.Model, {"network": None, "constants": None}),
    "openvino.Model.load": (
        openvino.Model.load,
        {"path": "model.xml", "constants": None, "limits": None},
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder that contains the two models."""
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "model.onnx")
    write_ir(GRAPH, "model.xml")
    return tmp_path


ANYTHING = frozenset(THINGS)
# Other accepted values of arguments. Only the arguments in CHANGES may change the answer.
TAKEN = {
    ("onnx.load", "model"): {"an empty model"},
    ("onnx.load", "runtime"): {"None", "no text"},
    ("onnx.load", "accept_runtime"): ANYTHING,  # true or false
    ("onnx.load", "threads"): {"None", "a number", "a huge number"},
    ("onnx.random_inputs", "model"): {"an empty model"},
    ("onnx.random_inputs", "seed"): {"a number", "a huge number"},
    ("onnx.random_inputs", "sizes"): {"None"},
    ("onnx.compare", "model"): {"an empty model"},
    ("onnx.search", "sizes"): {"None"},
    ("onnx.check", "model"): {"an empty model"},
    ("onnx.infer", "model"): {"an empty model"},
    ("onnx.convert", "model"): {"an empty model"},
    ("onnx.convert", "opset"): {"None"},
    ("onnx.convert", "domain"): {"None", "no text"},
    ("onnx.convert", "operator"): {"None"},
    ("onnx.implementation", "domain"): {"no text"},
    ("onnx.implementation", "opset"): {"a huge number"},
    ("onnx.save", "model"): {"an empty model"},
    ("onnx.save", "path"): {"a text", "a lone surrogate"},
    ("onnx.save", "folder"): {
        *("None", "no text", "a text", "a lone surrogate", "a long text"),
        *("a path of no file", "a folder"),
    },
    ("onnx.Model", "proto"): {"an empty model"},
    ("onnx.Model", "path"): ANYTHING,  # only used in error messages
    ("openvino.Model.load", "constants"): {
        *("None", "no text", "a text", "a text with a NUL", "a lone surrogate", "a long text"),
        *("a path of no file", "a folder"),
    },
    ("openvino.Model.load", "limits"): {"None"},
}


CHANGES = {
    ("onnx.random_inputs", "seed"): lambda answer, _: (
        {name: (array.shape, array.dtype) for name, array in answer.items()}
        == {name: (array.shape, array.dtype) for name, array in INPUTS.items()}
    ),
    ("onnx.search", "sizes"): lambda answer, _: answer == (),
}


def written(answer):
    """Return an answer as text without parts that differ between equal calls."""
    text = (
        repr({k: v.tolist() for k, v in answer.items()}) if type(answer) is dict else repr(answer)
    )
    return re.sub(r" at 0x\w+|seconds=[\d.e-]+", "", text)


def answer_of(function, arguments, thing):
    """Call `function` and return its result or package error."""
    try:
        return function(**arguments), None
    except NdgatherError as error:
        return None, error
    except Exception as error:
        error.add_note(f"{function.__qualname__} was given {thing}")
        raise


@pytest.mark.parametrize(
    ("name", "argument"), [(name, each) for name, (_, given) in CALLS.items() for each in given]
)
@pytest.mark.usefixtures("folder")
def test_any_argument_gives_the_expected_result_or_a_package_error(name, argument):
    function, given = CALLS[name]
    good, _ = answer_of(function, given, "what is right")
    for thing, value in THINGS.items():
        answer, error = answer_of(function, {**given, argument: value}, thing)
        assert (error is None) == (thing in TAKEN.get((name, argument), ())), (thing, answer)
        if error is None and thing != "an empty model":
            changes = CHANGES.get((name, argument))
            assert changes(answer, value) if changes else written(answer) == written(good), thing


@pytest.mark.parametrize("argument", ["data", "indices"])
@pytest.mark.usefixtures("folder")
def test_any_model_input_gives_the_output_or_a_package_error(argument):
    """A model accepts only arrays of the declared dtype and shape."""
    ir = openvino.Model.load("model.xml")
    for thing, value in THINGS.items():
        inputs = {**INPUTS, argument: value}
        for run in onnx_models.Model(MODEL).run, ir.run:
            answer, error = answer_of(run, {"inputs": inputs}, thing)
            if argument == "data" and thing == "an array":
                assert "[[0., 0.]]" in repr(answer)
            else:
                assert error is not None, (thing, answer)


def test_masked_arrays_are_refused():
    masked = np.ma.array(INPUTS["data"], mask=True)
    with pytest.raises(DTypeError, match=r"masked array would lose its mask"):
        onnx_models.run(MODEL, {**INPUTS, "data": masked})


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_onnx_models_can_be_passed_as_bytes(kind):
    serialized = kind(MODEL.SerializeToString())

    outputs = onnx_models.run(serialized, INPUTS)

    np.testing.assert_array_equal(outputs["output"], ARRAYS[0][:1], strict=True)
    assert onnx_models.check(serialized) == onnx_models.check(MODEL)
    assert onnx_models.infer(serialized) == onnx_models.infer(MODEL)
    assert onnx_models.convert(serialized, opset=13) == onnx_models.convert(MODEL, opset=13)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_ir_can_be_passed_as_bytes(folder, kind):
    content = kind((folder / "model.xml").read_bytes())

    outputs = openvino.run(content, INPUTS)

    np.testing.assert_array_equal(outputs["output"], ARRAYS[0][:1], strict=True)
    assert openvino.check(content) == openvino.check(folder / "model.xml")


def test_model_inputs_may_be_lists():
    inputs = {"data": [[1.5, 2.5], [3.5, 4.5]], "indices": [[1]]}
    with pytest.raises(NdgatherError, match="input 'data': dtype = float64"):
        onnx_models.run(MODEL, inputs)
    (output,) = onnx_models.run(MODEL, {**inputs, "data": INPUTS["data"]}).values()
    np.testing.assert_array_equal(output, INPUTS["data"][1:], strict=True)


def test_inputs_that_are_not_arrays_are_named_in_the_error():
    with pytest.raises(NdgatherError, match=r"input 'data' is a NeedsGradient.*requires grad"):
        onnx_models.run(MODEL, {**INPUTS, "data": NeedsGradient()})


@pytest.mark.parametrize("inputs", [None, [ARRAYS[0]], "data"])
def test_inputs_must_be_a_mapping(inputs):
    with pytest.raises(NdgatherError, match=r"run: inputs = .* is not a mapping"):
        onnx_models.run(MODEL, inputs)


@pytest.mark.parametrize(
    "read",
    [openvino.run, openvino.check, onnx_models.run, onnx_models.check],
    ids=["IR run", "IR check", "ONNX run", "ONNX check"],
)
def test_errors_for_invalid_models_name_the_function_and_argument(read):
    inputs = [INPUTS] if read.__name__ == "run" else []
    with pytest.raises(NdgatherError, match=rf"^{read.__name__}: model = NoneType"):
        read(None, *inputs)


@pytest.mark.parametrize(
    "read",
    [openvino.check, onnx_models.check, onnx_models.infer],
    ids=["IR check", "ONNX check", "ONNX infer"],
)
def test_paths_in_errors_are_escaped(read):
    with pytest.raises(FileError) as refusal:
        read("no\0such\x1b[31m\nfile")
    assert str(refusal.value).startswith(r"no\x00such\x1b[31m\nfile: cannot be read")
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


@pytest.mark.parametrize("name", [name for name in onnx_models.__all__ if name.islower()])
def test_unknown_options_are_named_in_the_error(name):
    with pytest.raises(CallError, match=rf"^{name}: nonsense = 1 is not an argument"):
        getattr(onnx_models, name)(nonsense=1)
