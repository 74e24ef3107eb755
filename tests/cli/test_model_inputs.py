"""``ndgather run``: inputs from archives, from folders of test data, and random inputs."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from ndgather.models.onnx import random_inputs

RUN = "run model.onnx --runtime reference"
PICKED = np.array([101, 111, 104], np.int16)


@pytest.fixture
def test_data(folder):
    place = folder / "test_data_set_0"
    place.mkdir()
    for number, name in enumerate(("data", "indices")):
        tensor = numpy_helper.from_array(np.load(f"{name}.npy"))
        (place / f"input_{number}.pb").write_bytes(tensor.SerializeToString())
    return place


def keep_output(place, number, array):
    content = numpy_helper.from_array(array).SerializeToString()
    (place / f"output_{number}.pb").write_bytes(content)


def test_an_archive_holds_all_inputs(ndgather):
    np.savez("all.npz", data=np.load("data.npy"), indices=np.load("indices.npy"))
    outcome = ndgather(f"{RUN} --inputs all.npz --output picked=kept.npy")
    assert (outcome.status, outcome.err) == (0, "")
    np.testing.assert_array_equal(np.load("kept.npy"), PICKED, strict=True)


def test_outputs_are_compared_with_the_folder(ndgather, test_data):
    keep_output(test_data, 0, PICKED)
    outcome = ndgather(f"{RUN} --inputs test_data_set_0")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.endswith("1 output matches test_data_set_0.\n")

    keep_output(test_data, 1, PICKED)
    keep_output(test_data, 2, PICKED)
    outcome = ndgather(f"{RUN} --inputs test_data_set_0")
    assert outcome.err.endswith("test_data_set_0: holds 3 outputs, and the model has 2\n")


def test_a_differing_output_is_named(ndgather, test_data):
    keep_output(test_data, 0, PICKED + np.array([0, 0, 5], np.int16))
    outcome = ndgather(f"{RUN} --inputs test_data_set_0")
    assert outcome.status == 1
    file = Path("test_data_set_0/output_0.pb")
    assert outcome.err == (
        f"ndgather run: error: output 'picked': picked[2] = 104 differs from 109 in {file}\n"
    )


def test_random_inputs_and_json_report(ndgather):
    outcome = ndgather(f"{RUN} --random 3 --size H=6 --size N=5 --json")
    assert (outcome.status, outcome.err) == (0, "")
    told = json.loads(outcome.out)
    assert told["runtime"] == "reference"
    assert told["outputs"][0]["shape"] == [5]
    assert told["seconds"] > 0


def test_quiet_prints_nothing(ndgather):
    outcome = ndgather(f"{RUN} --random --quiet")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_an_unknown_size_is_an_error(ndgather):
    outcome = ndgather(f"{RUN} --random --size K=2")
    assert outcome.status == 1
    assert "the model has no size 'K'" in outcome.err


@pytest.mark.parametrize("size", ["-1", "1.5", "two", "9" * 5000])
def test_a_size_must_be_an_integer(ndgather, size):
    outcome = ndgather(f"{RUN} --random --size N={size}")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"argument --size: '{size}' is not a size" in outcome.err
    outcome = ndgather(f"{RUN} --random --size N=0 --size H=3 --json")
    assert [each["shape"] for each in json.loads(outcome.out)["outputs"]] == [[0], [0]]


CHAIN = """<ir_version: 8, opset_import: ["" : 16]>
    chain (float[K, L] a, float[M, P] b, float[Q, 2] c, int64[R] at) => (float[R, 2] y)
    { p = MatMul(a, b)  q = MatMul(p, c)  y = Gather(q, at) }"""


def test_unsuitable_random_sizes_lead_to_a_hint(ndgather):
    """The products need L = M and P = Q; by default, L and P are 16."""
    onnx.save(parse_model(CHAIN), "model.onnx")
    outcome = ndgather(f"{RUN} --random")
    assert outcome.status == 1
    assert outcome.err.endswith("(to change the sizes of random inputs: --size, --input)\n")
    outcome = ndgather(f"{RUN} --random --size L=3 --size M=3 --size P=2 --size Q=2")
    assert (outcome.status, outcome.err) == (0, "")


def test_random_inputs_fit_inputs_that_are_passed(ndgather):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        g (float[N, M] x, int64[K] at, float[K, M] more) => (float[K, M] y)
        { p = Gather(x, at)  y = Add(p, more) }""")
    onnx.save(model, "model.onnx")
    for command in ("run", "compare"):
        outcome = ndgather(
            f"{command} model.onnx --runtime reference --input x=[[1,2,3],[4,5,6]] --random"
        )
        assert (outcome.status, outcome.err) == (0, "")


def test_compare_without_inputs_explains_how_to_pass_them(ndgather):
    onnx.save(parse_model(CHAIN), "model.onnx")
    outcome = ndgather("compare model.onnx --runtime reference")
    assert (outcome.status, outcome.out) == (1, "")
    ways = "write --input NAME=FILE, --inputs PLACE, --random, --search 50\n"
    assert outcome.err.endswith(ways)


def test_random_inputs_do_not_read_external_data(folder, monkeypatch):
    del folder  # the fixture writes the model
    table = numpy_helper.from_array(np.ones((3, 2**18), np.float32), "table")
    model = parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        pick (int64[N] at) => (float[N, 262144] y) { y = Gather(table, at) }""")
    model.graph.initializer.append(table)
    onnx.save(model, "model.onnx")
    sizes = []
    parse = onnx.ModelProto.FromString
    monkeypatch.setattr(onnx.ModelProto, "FromString", lambda text: sizes.append(len(text)))
    inputs = random_inputs("model.onnx", sizes={"N": 40})
    monkeypatch.setattr(onnx.ModelProto, "FromString", parse)
    assert sizes == []
    assert set(inputs["at"]) == {0, 1, 2}


TEXT = """<ir_version: 8, opset_import: ["" : 16]>
    pick (float[N] x, int64[M] at, int64 rate, float[1] gain) => (float[M] y)
    { p = Gather(x, at)  r = Cast<to = 1>(rate)  q = Mul(p, r)  y = Mul(q, gain) }"""


def test_numbers_and_lists_are_inputs(ndgather):
    onnx.save(parse_model(TEXT), "model.onnx")
    line = f"{RUN} --input x=[1,2.5,4] --input at=[2,0] --input rate=16000 --input gain=0.5"
    outcome = ndgather(f"{line} --output y=y.npy")
    assert (outcome.status, outcome.err) == (0, "")
    np.testing.assert_array_equal(np.load("y.npy"), [32000, 8000])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "at=[0.5]",
            "input 'at': [0.5] has values that are not int64 (allowed: numbers of that type)",
        ),
        ("at=[[1],[2,3]]", "[[1],[2,3]]"),
        ("at=soon", "soon"),
    ],
)
def test_text_that_is_not_a_value_is_an_error(ndgather, text, error):
    onnx.save(parse_model(TEXT), "model.onnx")
    outcome = ndgather(f"{RUN} --random --input {text}")
    assert outcome.status == 1
    assert error in outcome.err


# A type, a text, and the values that it represents; None if the type cannot represent them.
TEXTS = [
    ("int64", "1000001.5", None),
    ("int64", "1000000.0000001", None),
    ("int64", "0.000000001", None),
    ("int64", "9007199254740993.0", [2**53 + 1]),
    ("int64", "[9007199254740993,1e3]", [2**53 + 1, 1000]),
    ("int64", "10000000000000000000000", None),
    ("int64", '"5"', None),
    ("int64", '"five"', None),
    ("int64", "[null]", None),
    ("int64", "NaN", None),
    ("uint64", "[9223372036854775809,1]", [2**63 + 1, 1]),
    ("uint64", "[18446744073709551615,0]", [2**64 - 1, 0]),
    ("uint64", "-1", None),
    ("uint8", "256", None),
    ("float", "[0.1,NaN,Infinity]", [np.float32(0.1), np.nan, np.inf]),
    ("float", "1e300", None),
    ("float", "1e400", None),
    ("float", '"1.5"', None),
    ("float16", "0.1", [np.float16(0.1)]),
    ("float16", "70000", None),
    ("bool", "[true,false]", [True, False]),
    ("bool", '"true"', None),
    ("bool", "2", None),
    ("string", '["a","bc"]', ["a", "bc"]),
    ("string", "5", None),
    ("string", '["a",1]', None),
]


@pytest.mark.parametrize(("kind", "text", "values"), TEXTS, ids=[f"{k} {t}" for k, t, _ in TEXTS])
def test_text_must_be_exact_in_the_input_type(ndgather, kind, text, values):
    head = '<ir_version: 8, opset_import: ["" : 16]>'
    model = parse_model(f"{head} same ({kind}[N] x) => ({kind}[N] y) {{ y = Identity(x) }}")
    onnx.save(model, "model.onnx")
    outcome = ndgather(f"{RUN} --input x={text} --output y=y.pb")
    if values is None:
        allowed = "strings in double quotes" if kind == "string" else "numbers of that type"
        assert outcome.status == 1
        assert f"has values that are not {kind}" in outcome.err
        assert f"(allowed: {allowed})" in outcome.err
        return
    assert (outcome.status, outcome.err) == (0, "")
    read = numpy_helper.to_array(onnx.TensorProto.FromString(Path("y.pb").read_bytes()))
    found = [each.decode() if isinstance(each, bytes) else each for each in read.tolist()]
    np.testing.assert_array_equal(found, values)
    if kind in ("int64", "uint64"):
        assert found == values


def test_tolerances_do_not_apply_to_integers(ndgather, folder):
    head = '<ir_version: 8, opset_import: ["" : 16]>'
    text = f"{head} same (int64[N] x) => (int64[N] y) {{ y = Identity(x) }}"
    onnx.save(parse_model(text), "model.onnx")
    place = folder / "test_data_set_0"
    place.mkdir()
    tensor = numpy_helper.from_array(np.array([2**53 + 1, 50000]))
    (place / "input_0.pb").write_bytes(tensor.SerializeToString())
    for expected, where in (([2**53 + 1, 50001], 1), ([2**53, 50000], 0)):
        keep_output(place, 0, np.array(expected))
        outcome = ndgather(f"{RUN} --inputs test_data_set_0")
        assert outcome.status == 1
        assert f"y[{where}] = " in outcome.err


VALUES = [1000.0, 0.0, np.nan]


@pytest.mark.parametrize(
    ("expected", "options", "differs"),
    [
        ([1000, 0, np.nan], "--rtol 0 --atol 0", None),
        ([1000.9, 0.9e-5, np.nan], "", None),
        ([1002, 0, np.nan], "", 0),
        ([1000, 2e-5, np.nan], "", 1),
        ([1000, 0, 1], "", 2),
        ([1000, 2e-5, np.nan], "--atol 3e-5", None),
        ([1000, 3e-5, np.nan], "--rtol 0.5", 1),
        ([1002, 0, np.nan], "--rtol 2e-3", None),
        ([1002, 0, np.nan], "--atol 2 --rtol 0", None),
        ([1003, 0, np.nan], "--atol 2 --rtol 0", 0),
        ([1000.5, 0, np.nan], "--rtol 0", 0),
        ([np.inf, 0, np.nan], "--rtol 1", 0),
        ([1600, 0, np.nan], "--rtol 0.5", None),  # relative to the expected value
        ([700, 0, np.nan], "--rtol 0.4", 0),
    ],
)
def test_float_outputs_are_compared_with_tolerances(ndgather, folder, expected, options, differs):
    head = '<ir_version: 8, opset_import: ["" : 16]>'
    text = f"{head} same (float[N] x) => (float[N] y) {{ y = Identity(x) }}"
    onnx.save(parse_model(text), "model.onnx")
    place = folder / "test_data_set_0"
    place.mkdir()
    tensor = numpy_helper.from_array(np.array(VALUES, np.float32))
    (place / "input_0.pb").write_bytes(tensor.SerializeToString())
    keep_output(place, 0, np.array(expected, np.float32))
    outcome = ndgather(f"{RUN} --inputs test_data_set_0 {options}")
    assert outcome.status == (differs is not None)
    if differs is not None:
        assert f"y[{differs}] = {np.float32(VALUES[differs])} differs from" in outcome.err


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "str"])
def test_other_outputs_are_compared_exactly(ndgather, folder, dtype):
    """The integers differ by 1, which a comparison as floats would miss."""
    kind, most = ("string", 3) if dtype == "str" else (dtype, 1)
    if dtype in INTEGERS:
        most = np.iinfo(dtype).max
    made = (lambda n: np.array(["0", str(n)], object)) if dtype == "str" else None
    actual, expected = (made(n) if made else np.array([0, n], dtype) for n in (most, most - 1))
    head = '<ir_version: 8, opset_import: ["" : 16]>'
    model = parse_model(f"{head} same ({kind}[N] x) => ({kind}[N] y) {{ y = Identity(x) }}")
    onnx.save(model, "model.onnx")
    place = folder / "test_data_set_0"
    place.mkdir()
    (place / "input_0.pb").write_bytes(numpy_helper.from_array(actual).SerializeToString())
    for wanted, status in ((actual, 0), (expected, 1)):
        keep_output(place, 0, wanted)
        outcome = ndgather(f"{RUN} --inputs test_data_set_0 --rtol 1 --atol 1")
        assert outcome.status == status
        assert ("y[1] = " in outcome.err) == bool(status)


def test_files_may_omit_inputs_with_initializers(ndgather, folder):
    """The first input has an initializer."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Mul", ["gain", "x"], ["y"])],
        "gain",
        [helper.make_tensor_value_info(name, floats, [1]) for name in ("gain", "x")],
        [helper.make_tensor_value_info("y", floats, [1])],
        [helper.make_tensor("gain", floats, [1], [10])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "model.onnx")
    place = folder / "data"
    place.mkdir()
    for values, result in (([3], 30), ([2, 3], 6)):
        for number, value in enumerate(values):
            tensor = numpy_helper.from_array(np.array([value], np.float32))
            (place / f"input_{number}.pb").write_bytes(tensor.SerializeToString())
        keep_output(place, 0, np.array([result], np.float32))
        outcome = ndgather(f"{RUN} --inputs data")
        assert (outcome.status, outcome.err) == (0, "")
    (place / "input_2.pb").write_bytes((place / "input_1.pb").read_bytes())
    outcome = ndgather(f"{RUN} --inputs data")
    assert "data: holds 3 inputs, and the model has 2" in outcome.err
