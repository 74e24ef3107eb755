"""The files match README.md, and a JSON parser is enough to read them."""

import json
import re
import shutil
import struct
import subprocess
from itertools import product
from math import copysign, prod
from pathlib import Path

import jsonschema
import pytest

FOLDER = Path(__file__).parents[2] / "conformance"
README = (FOLDER / "README.md").read_text("utf-8")
FILES = sorted((FOLDER / "cases").glob("*.json"))
EACH_FILE = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
NODE = shutil.which("node")


def contents(path):
    def refuse(word):
        raise AssertionError(f"{path}: {word} is not JSON")

    return json.loads(path.read_text("ascii"), parse_constant=refuse)


CASES = [case for path in FILES for case in contents(path)["cases"]]


def tensors(case):
    yield from case["inputs"]
    yield from case["expected"].get("results", ())


# the files


@EACH_FILE
def test_files_follow_the_schema_and_define_their_rules(path):
    schema = json.loads((FOLDER / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(contents(path))
    assert (path.parent / contents(path)["$schema"]).resolve() == FOLDER / "schema.json"
    rules, cases = contents(path)["rules"], contents(path)["cases"]
    assert {case["rule"] for case in cases} == set(rules)


def test_the_schema_refuses_undescribed_fields():
    schema = json.loads((FOLDER / "schema.json").read_text())
    valid = jsonschema.Draft202012Validator(schema).is_valid
    content = contents(FOLDER / "cases" / "onnx-gather-nd.json")
    tensor = content["cases"][0]["inputs"][0]
    assert valid(content)
    for change in ({"order": "F"}, {"values": None}, {"dtype": ">i4"}, {"bits": ["00"]}):
        before = dict(tensor)
        tensor.update(change)
        assert not valid(content), change
        tensor.clear()
        tensor.update(before)
    assert not valid(content | {"format": 2})


def test_the_readme_example_is_a_case():
    (example,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    example = json.loads(example)
    content = contents(FOLDER / "cases" / "onnx-gather-nd.json")
    assert example["cases"][0] in content["cases"]
    assert example["rules"].items() <= content["rules"].items()
    assert example.keys() == content.keys()


def test_the_readme_lists_all_files_and_counts():
    assert f"\n{len(CASES)} calls" in README
    layouts = [tensor for case in CASES for tensor in case["inputs"] if "layout" in tensor]
    assert len(layouts) == 19
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", README, re.MULTILINE)))
    assert {tensor["dtype"] for case in CASES for tensor in tensors(case)} <= set(listed)
    for path in FILES:
        assert any(path.match(glob) for glob in re.findall(r"`([\w*-]+\.json)`", README))


# allowed values

FORMATS = {  # of struct, most significant byte first
    "int8": ">b",
    "uint8": ">B",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "uint64": ">Q",
    "float16": ">e",
    "float32": ">f",
    "float64": ">d",
}
HALF_BYTES = {"int4": range(-8, 8), "uint4": range(16)}


def holds(dtype, value):
    """Return whether a dtype represents a value exactly, as does every JSON parser."""
    if dtype == "string":
        return isinstance(value, str)
    if dtype == "bool":
        return isinstance(value, bool)
    if dtype in ("complex64", "complex128"):
        part = "float32" if dtype == "complex64" else "float64"
        return isinstance(value, list) and all(holds(part, each) for each in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, int) and abs(value) > 2**53:
        return False
    if value == 0 and copysign(1, value) < 0:
        return False
    if dtype in HALF_BYTES:
        return value in HALF_BYTES[dtype]
    if dtype == "bfloat16":
        return struct.pack(">f", value)[2:] == b"\0\0" and holds("float32", value)
    if dtype.startswith("float8"):  # all of its values are also float16
        return holds("float16", value)
    if "int" in dtype and not isinstance(value, int):
        return False
    return struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], value))[0] == value


def width(dtype):
    """Return the number of hexadecimal digits of an element."""
    return 2 * {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}.get(
        dtype, struct.calcsize(FORMATS.get(dtype, ">0s"))
    )


@EACH_FILE
def test_elements_are_exact_and_match_the_shape(path):
    for case in contents(path)["cases"]:
        for tensor in tensors(case):
            dtype, count = tensor["dtype"], prod(tensor["shape"])
            if "values" in tensor:
                assert len(tensor["values"]) == count, case["name"]
                assert all(holds(dtype, value) for value in tensor["values"]), case["name"]
            elif "bits" in tensor:
                assert len(tensor["bits"]) == count, case["name"]
                assert {len(digits) for digits in tensor["bits"]} == {width(dtype)}, case["name"]
            else:
                rule = tensor["sequence"]
                ends = [rule["start"], rule["start"] + rule["step"] * (count - 1)]
                if "modulo" in rule:
                    ends = [0, rule["modulo"] - 1]
                ends += [value for _, value in rule.get("exceptions", ())]
                assert all(holds(dtype, value) for value in (min(ends), max(ends))), case["name"]
                assert dtype != "float32" or max(map(abs, ends)) <= 2**24, case["name"]


def test_a_layout_does_not_change_elements():
    for case in CASES:
        for tensor in case["inputs"]:
            if tensor.get("layout") == "repeated":
                size = tensor["shape"][-1]
                rows = [
                    tensor["values"][k : k + size] for k in range(0, len(tensor["values"]), size)
                ]
                assert all(len(set(row)) == 1 for row in rows), case["name"]


# a reader that is based only on README.md


def sequence(tensor):
    rule = tensor["sequence"]
    values = [rule["start"] + rule["step"] * k for k in range(prod(tensor["shape"]))]
    if "modulo" in rule:
        values = [value % rule["modulo"] for value in values]
    for position, value in rule.get("exceptions", ()):
        values[position] = value
    return values


def elements(tensor):
    """Return the elements as bits, or as written if Python lacks the type."""
    if "bits" in tensor:
        return tensor["bits"]
    values = sequence(tensor) if "sequence" in tensor else tensor["values"]
    if tensor["dtype"] not in FORMATS:
        return values
    return [struct.pack(FORMATS[tensor["dtype"]], value).hex() for value in values]


def integers(tensor):
    if "bits" not in tensor:
        return sequence(tensor) if "sequence" in tensor else tensor["values"]
    form = FORMATS[tensor["dtype"]]
    return [struct.unpack(form, bytes.fromhex(digits))[0] for digits in tensor["bits"]]


def gather_nd(data, indices, batch_dims):
    """Return the shape and elements of the result, computed one index tuple at a time."""
    *lead, depth = indices["shape"]
    inner = data["shape"][batch_dims + depth :]
    found, from_data, of_indices = [], elements(data), integers(indices)
    for number, position in enumerate(product(*map(range, lead))):
        offset = 0
        key = (*position[:batch_dims], *of_indices[number * depth : (number + 1) * depth])
        for index, size in zip(key, data["shape"], strict=False):
            assert -size <= index < size
            offset = offset * size + index % size
        found += from_data[offset * prod(inner) : (offset + 1) * prod(inner)]
    return [*lead, *inner], found


GATHERS = [
    case
    for case in CASES
    if case["operator"]["name"] == "GatherND" and "results" in case["expected"]
]


def test_there_are_many_gather_nd_cases():
    assert len(GATHERS) > 80


@pytest.mark.parametrize("case", GATHERS, ids=lambda case: case["name"])
def test_plain_loops_reproduce_the_result(case):
    data, indices = case["inputs"]
    (wanted,) = case["expected"]["results"]
    batch_dims = case["attributes"].get("batch_dims", 0)

    shape, found = gather_nd(data, indices, batch_dims)

    if case["operator"] == {"domain": "openvino", "name": "GatherND", "version": 5} and batch_dims:
        shape = [prod(shape[:batch_dims]), *shape[batch_dims:]]
    assert (wanted["dtype"], wanted["shape"]) == (data["dtype"], shape)
    assert elements(wanted) == found


# the sketch in the README, with a separate runtime

RUNTIME = """
const NARROW = ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"];

export function runtime({ version }, [data, indices], attributes) {
  const { batch_dims = 0, ...unknown } = attributes;
  const must = (condition) => { if (!condition) throw new Error("refused"); };
  must(Object.keys(unknown).length === 0 && (version > 11 || !("batch_dims" in attributes)));
  must(indices.dtype === "int64" && !NARROW.includes(data.dtype));
  must(version > 12 || data.dtype !== "bfloat16");
  const r = data.shape.length, q = indices.shape.length, depth = indices.shape[q - 1];
  must(q > 0 && r > 0 && batch_dims >= 0 && batch_dims < Math.min(q, r));
  must(depth >= 1 && depth <= r - batch_dims);
  for (let axis = 0; axis < batch_dims; axis++) must(data.shape[axis] === indices.shape[axis]);
  const lead = indices.shape.slice(0, -1), inner = data.shape.slice(batch_dims + depth);
  const size = (shape) => shape.reduce((a, b) => a * b, 1);
  const bits = [];
  for (let n = 0; n < size(lead); n++) {
    let offset = Math.floor((n * size(data.shape.slice(0, batch_dims))) / size(lead));
    for (let k = 0; k < depth; k++) {
      let index = BigInt.asIntN(64, BigInt(`0x${indices.bits[n * depth + k]}`));
      const limit = BigInt(data.shape[batch_dims + k]);
      must(index >= -limit && index < limit);
      if (index < 0n) index += limit;
      offset = offset * Number(limit) + Number(index);
    }
    for (let k = 0; k < size(inner); k++) bits.push(data.bits[offset * size(inner) + k]);
  }
  return { dtype: data.dtype, shape: [...lead, ...inner], bits: bits CHANGE };
}
"""


def by_node(folder, change):
    (sketch,) = re.findall(r"```js\n(.*?)```", README, re.DOTALL)
    (folder / "sketch.mjs").write_text(sketch)
    (folder / "my_runtime.mjs").write_text(RUNTIME.replace(" CHANGE", change))
    path = FOLDER / "cases" / "onnx-gather-nd.json"
    command = [NODE, "sketch.mjs", str(path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(NODE is None, reason="it runs the sketch by node")
def test_the_readme_sketch_tells_right_from_wrong(tmp_path):
    assert by_node(tmp_path, "") == []
    wrong = by_node(tmp_path, ".reverse()")
    assert any(line.startswith("onnx-GatherND-13/example-1: found ") for line in wrong)
