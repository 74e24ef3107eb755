"""``ndgather convert``: results and errors."""

import json
import re
import shlex

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from ndgather.models.onnx.passes.target import target_names

DATA = np.arange(12, dtype=np.int16).reshape(3, 4)


def save(path, *, domain="", **attributes):
    graph = helper.make_graph(
        [
            helper.make_node(
                "GatherND", ["data", "indices"], ["out"], name="pick", domain=domain, **attributes
            )
        ],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.INT16, [3, 4])],
        [helper.make_tensor_value_info("out", TensorProto.INT16, [3])],
        [numpy_helper.from_array(np.array([[3], [0], [-1]]), "indices")],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


@pytest.mark.parametrize("target", ["--opset 11", "--domain com.microsoft", "--opset 20"])
def test_the_converted_model_returns_the_same(ndgather, folder, target):
    save("model.onnx", batch_dims=1)
    (folder / "deep").mkdir()

    for out in "new.onnx", "deep/new.onnx":
        outcome = ndgather(f"convert model.onnx {target} -o {out}")
        assert (outcome.status, outcome.err) == (0, "")
        nodes = sum(node.op_type != "Constant" for node in onnx.load(out).graph.node)
        assert outcome.out == f"{out}: {nodes} node{'s' * (nodes > 1)}\n"
        np.save("d.npy", DATA)
        assert ndgather(f"run {out} --input data=d.npy --output out=o.npy").status == 0
        np.testing.assert_array_equal(np.load("o.npy"), DATA[[0, 1, 2], [3, 0, 3]], strict=True)


def test_external_data_stays_beside_the_source(ndgather, folder):
    save("model.onnx", batch_dims=1)
    (folder / "deep").mkdir()

    for out, location in ("new.onnx", TensorProto.EXTERNAL), ("deep/new.onnx", TensorProto.DEFAULT):
        ndgather(f"convert model.onnx --opset 12 -o {out}")
        (tensor,) = onnx.load(out, load_external_data=False).graph.initializer
        assert tensor.data_location == location


REFUSED = {
    "a node": (
        "convert model.onnx --opset 8 -o new.onnx",
        "node 'pick' (GatherND): operator: opset = 8 has no ai.onnx GatherND (allowed: at least "
        "11); possible: ndgather convert model.onnx --opset 9 -o new.onnx",
    ),
    "a domain": (
        "convert model.onnx --domain openvino -o new.onnx",
        "domain = 'openvino' is not a possible target (allowed: ai.onnx, com.microsoft)",
    ),
    "an operator": (
        "convert model.onnx --operator Scatter -o new.onnx",
        "operator = 'Scatter' is not a possible target (allowed: Gather, GatherElements, GatherND, "
        "ScatterND); did you mean 'ScatterND'?",
    ),
    "a file": ("convert none.onnx -o new.onnx", "none.onnx: cannot be read: no such file or "
               "directory"),
    "a place": ("convert model.onnx -o none/new.onnx", "none/new.onnx: cannot be written: there is "
                "no folder none"),
    "a kind of file": ("convert model.onnx -o new.npy", "new.npy: unknown file type (allowed: "
                       ".onnx)"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_errors_fit_on_one_line(ndgather, folder, line, text):
    save("model.onnx", batch_dims=1)

    outcome = ndgather(line)

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"ndgather convert: error: {text}\n"
    assert not (folder / "new.onnx").exists()


def test_a_missing_external_data_file_is_named(ndgather, folder):
    save("model.onnx", batch_dims=1)
    (folder / "deep").mkdir()
    (folder / "weights.bin").unlink()

    outcome = ndgather("convert model.onnx --opset 12 -o deep/new.onnx")

    assert outcome.status == 1
    assert "weights.bin" in outcome.err
    assert len(outcome.err.splitlines()) == 1


def save_text(path, opset, text):
    onnx.save(parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}'), path)


def test_nodes_that_the_operator_cannot_replace_are_listed(ndgather, folder):
    save_text(
        "two.onnx",
        13,
        """g (int16[3,4] data, int64[2] rows) => (int16[2,4] first, int16[3,2] second)
        { [rows] first = Gather<axis = 0>(data, rows)
          [columns] second = Gather<axis = 1>(data, rows) }""",
    )

    outcome = ndgather("convert two.onnx --operator GatherND -o nd.onnx")

    assert (outcome.status, outcome.err) == (0, "")
    assert "columns" in outcome.out
    assert "kept: ai.onnx Gather-13 cannot become GatherND: axis = 1 is not 0" in outcome.out
    kinds = [node.op_type for node in onnx.load("nd.onnx").graph.node]
    assert (kinds.count("GatherND"), kinds[-1]) == (1, "Gather")

    outcome = ndgather("convert two.onnx --operator GatherND --strict -o strict.onnx")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith("ndgather convert: error: node 'columns' (Gather): ")
    assert not (folder / "strict.onnx").exists()


def test_repairs_are_listed(ndgather):
    save_text(
        "wrong.onnx",
        17,
        """g (float[3] data, int64[2] rows, float[2] more) => (float[3] out)
        { [most] out = ScatterElements<reduction = "max">(data, rows, more) }""",
    )

    outcome = ndgather("convert wrong.onnx --opset 18 -o right.onnx")

    assert (outcome.status, outcome.err) == (0, "")
    assert "converted as ai.onnx ScatterElements-18" in outcome.out
    onnx.checker.check_model("right.onnx", full_check=True)
    assert ndgather("check right.onnx --fail-on error").status == 0


def save_for_targets(path, *, known):
    shape, count = ("3,4", "2") if known else ("N,M", "K")
    save_text(
        path,
        18,
        f"""g (float[{shape}] data, int64[{count},2] at, float[{count}] new)
        => (float[{count}] picked, float[{shape}] out)
        {{ [pick] picked = GatherND(data, at)  [put] out = ScatterND(data, at, new) }}""",
    )


def test_conversion_to_a_target_prints_a_table(ndgather, folder):
    save_for_targets("model.onnx", known=True)

    outcome = ndgather("convert model.onnx --target basic -o new.onnx")

    assert (outcome.status, outcome.err) == (0, "")
    pick, put, counts = outcome.out.split("\n\n")
    assert pick.startswith("pick (ai.onnx GatherND-13)\n  became         2 Add, Less, Where, Mul,")
    lines = [line.split() for line in put.splitlines()]
    assert ["out", "of", "bounds", "may", "change", "another", "element"] in lines
    assert ["why", "basic", "does", "not", "support", "ScatterND"] in lines
    *counts, written = counts.splitlines()
    assert " ".join(counts).endswith("0 fit, 2 rewritten, 0 stay; other operators are not checked")
    assert max(map(len, outcome.out.splitlines())) <= 80
    added = [int(line[1]) for part in (pick, put) for line in map(str.split, part.splitlines())
             if line[0] == "added"]  # fmt: skip
    assert written == f"new.onnx: {2 + sum(added)} nodes"


def test_options_change_how_nodes_are_rewritten(ndgather, folder):
    save_text(
        "model.onnx",
        18,
        """g (float[9] data, int64[20,1] at, float[20] new) => (float[20] picked, float[9] out)
        { [pick] picked = GatherND(data, at)
          [put] out = ScatterND<reduction = "add">(data, at, new) }""",
    )
    for options, outside, is_product in (
        ("", "may select another element", False),
        ("--checked", "stays out of bounds", False),
        ("--allow-matmul", "may select another element", True),
    ):
        outcome = ndgather(f"convert model.onnx --target basic --dry-run --json {options}")
        pick, put = json.loads(outcome.out)["nodes"]
        assert (pick["outside"], "MatMul" in put["became"]) == (outside, is_product)


def test_partial_writes_a_model_with_unsupported_nodes(ndgather, folder):
    save_for_targets("model.onnx", known=False)

    refused = ndgather("convert model.onnx --target basic -o new.onnx")
    assert refused.status == 1
    what = "ndgather convert: error: new.onnx: is not written, because 1 node cannot be converted"
    assert refused.err.startswith(f"{what} to basic (allowed: --partial")
    assert "put (ai.onnx ScatterND-18)\n  became         stays\n" in refused.out
    tried = ndgather("convert model.onnx --target basic --dry-run --json")
    assert (tried.status, tried.err) == (0, "")
    assert not (folder / "new.onnx").exists()
    report = json.loads(tried.out)
    assert not report["written"]
    assert report["target"]["name"] == "basic"
    assert [bool(node["became"]) for node in report["nodes"]] == [True, False]

    assert ndgather("convert model.onnx --target basic --partial -o new.onnx").status == 0
    assert "ScatterND" in {node.op_type for node in onnx.load("new.onnx").graph.node}


CHIP = """
name = "chip"
what = "takes floats of known sizes"
source = "https://example.org"
date = 2026-11-28
operators = []
[limits.GatherElements]
data_types = ["float32"]
open = false
"""


def save_drawn_model(draw, path):
    """Save a model with a gather or scatter, possibly dynamic sizes, and a drawn opset."""
    rows, count, width = (
        draw(st.sampled_from([number, name])) for number, name in ((3, "N"), (1, "K"), (4, "a b"))
    )
    dtype = draw(st.sampled_from([TensorProto.FLOAT, TensorProto.STRING]))
    op_type = draw(st.sampled_from(["Gather", "GatherElements", "GatherND", "ScatterElements"]))
    reduction = draw(st.sampled_from(["none", "add", "max"]))
    shapes = {"data": [rows, width], "at": [count, 2 if op_type == "GatherND" else width]}
    if op_type == "ScatterElements":
        shapes["updates"] = shapes["at"]
    options = {"reduction": reduction} if "updates" in shapes and reduction != "none" else {}
    types = {"at": TensorProto.INT64}
    graph = helper.make_graph(
        [helper.make_node(op_type, [*shapes], ["out"], **options)],
        "g",
        [
            helper.make_tensor_value_info(name, types.get(name, dtype), shape)
            for name, shape in shapes.items()
        ],
        [helper.make_tensor_value_info("out", dtype, None)],
    )
    opsets = [helper.make_opsetid("", draw(st.sampled_from([18, 20] if options else [11, 13, 18])))]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


@settings(
    max_examples=min(10, settings.default.max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it writes the same files
)
@given(
    draws=st.data(),
    target=st.sampled_from(["basic", "tflite", "rknn", "coreml", "qnn", "tidl", None]),
    opset=st.sampled_from([9, 10, 11, 16, None]),
)
def test_commands_in_an_error_convert_the_model(ndgather, folder, draws, target, opset):
    save_drawn_model(draws.draw, "model.onnx")
    options = f"--target {target}" if target else ""
    options += f" --opset {opset}" if opset else ""

    refused = ndgather(f"convert model.onnx {options} -o new.onnx")

    commands = re.findall(r"ndgather ((?:convert|infer) model.onnx .*? -o \S*\.onnx)", refused.err)
    event(f"{len(commands)} commands" if refused.status else "converted")
    assert "--size" not in refused.err or any("--size" in line for line in commands)
    for line in commands:
        assert ndgather(shlex.split(line)).status == 0, line
        if line.startswith("infer"):
            assert ndgather(f"convert FIXED.onnx {options} -o new.onnx").status == 0, line
        onnx.checker.check_model("new.onnx")


def test_fixed_sizes_are_suggested_only_if_they_help(ndgather, folder):
    (folder / "chip.toml").write_text(CHIP)
    for dtype, is_advised in ("float", True), ("int32", False):
        head = f"g ({dtype}[N,4] data, int64[N,4] at) => ({dtype}[N,4] out)"
        save_text("model.onnx", 13, f"{head} {{ out = GatherElements<axis = 1>(data, at) }}")
        refused = ndgather("convert model.onnx --target chip.toml --dry-run")
        assert ("--size N=1" in refused.out) is is_advised, refused.out
        older = ndgather("convert model.onnx --opset 10 -o new.onnx").err
        assert "needs Range, which opset 10 does not have" in older
        assert "; possible: ndgather convert model.onnx --opset 11 -o new.onnx, or " in older
        assert older.endswith("ndgather infer model.onnx --size N=1 -o FIXED.onnx\n")


def test_the_newest_version_of_a_target_is_suggested(ndgather, folder):
    save_for_targets("model.onnx", known=True)
    for name in ("tensorrt", "TensorRT"):
        refused = ndgather(f"convert model.onnx --target {name} --dry-run")
        assert refused.status == 1
        assert refused.err.endswith("; the newest is 'tensorrt-10'\n")


def test_help_lists_every_target(ndgather):
    said = re.search(r"package \((.*?)\)", ndgather("convert --help").out, re.DOTALL).group(1)
    assert said.replace("\n", " ").split(", ") == sorted(
        target_names(), key=lambda name: (name.partition("-")[0], len(name))
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--target basic", "one of the arguments -o/--output --dry-run is required"),
        ("--target basic --strict -o new.onnx", "--operator and --strict do not apply"),
        ("--dry-run -o new.onnx", "--dry-run does not apply (allowed: with --target)"),
        ("--opset 18", "the following arguments are required: -o/--output"),
    ],
)
def test_incompatible_options_are_an_error(ndgather, folder, line, text):
    save_for_targets("model.onnx", known=True)

    outcome = ndgather(f"convert model.onnx {line}")

    assert outcome.status == 2
    assert text in outcome.err
