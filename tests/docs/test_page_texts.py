"""The pages have what the published pages show: examples, layers, equations, and facts."""

import itertools
import json
import re

import numpy as np
import onnx
import pytest

from ndgather import pages
from ndgather.array_call import Kind
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from ndgather.pages import rule_texts
from ndgather.published import operator, operators
from tests.definitions import reference
from tests.operators import source_examples as source

VERSION = {source.MICROSOFT: 1, source.OPENVINO: 8}
DOMAIN = {source.MICROSOFT: "com.microsoft", source.OPENVINO: "openvino"}
EVERY = pytest.mark.parametrize("op", operators(), ids=lambda op: str(op.row))


def sections(op):
    return json.loads(pages.operator_page(op.name, op.domain, op.version, format="json"))[
        "sections"
    ]


def runs(op):
    return [
        run
        for blocks in sections(op).values()
        for block in blocks
        if isinstance(block, dict) and "runs" in block
        for run in block["runs"]
    ]


def described(example):
    """Return the operator that a published example is of."""
    words = example.place.split()
    version = int(words[1]) if words[0] == "version" else VERSION.get(example.page, 13)
    name = "GatherElements" if example in source.GATHER_ELEMENTS else "GatherND"
    return operator(name, domain=DOMAIN.get(example.page, "ai.onnx"), version=version)


@pytest.mark.parametrize("example", [*source.GATHER_ND, *source.GATHER_ELEMENTS], ids=str)
def test_the_page_runs_the_example(example):
    op = described(example)
    option = "axis" if op.name == "GatherElements" else "batch_dims"
    if example.option and op.row.attribute(option) is None:
        pytest.skip(example.note)
    wanted = [np.array(each).tolist() for each in (example.data, example.indices, example.output)]

    found = [
        run
        for run in runs(op)
        if run["result"] is not None
        and [*(each["values"] for each in run["tensors"].values()), run["result"]["values"]]
        == wanted
        and run["options"].get(option, 0) == example.option
    ]

    types = {run["tensors"]["data"]["dtype"] for run in found}
    assert types
    assert example.dtype == "int64" or example.dtype in types


def test_the_page_has_the_layers():
    page = pages.operator_page("GatherND", "openvino", 8, width=200)

    for data, indices, batch_dims, result in source.OPENVINO_LAYERS.values():
        cells = " | ".join(f"`{cell}`" for cell in (data, indices, batch_dims, result))
        assert any(re.sub(" +", " ", line) == f"| {cells} |" for line in page.splitlines())


@EVERY
def test_the_call_runs_as_it_stands_in_a_model(op):
    run = runs(op)[0]
    (*_, text) = sections(op)["In a model"]
    tensors = {
        name: np.array(each["values"], each["dtype"]).reshape(each["shape"])
        for name, each in run["tensors"].items()
    }
    desired = np.array(run["result"]["values"], run["result"]["dtype"])

    if op.domain == "openvino":
        if "axis" in run["options"] and op.row.attribute("axis") is None:
            tensors["axis"] = np.array(run["options"]["axis"])
        results = openvino.run(text.encode(), tensors)
    else:
        names = {"onnx": onnx}
        exec(text, names)
        results = onnx_models.run(model_of(names["node"], op, tensors, desired), tensors)

    (actual,) = results.values()
    np.testing.assert_array_equal(actual, desired, strict=True)


def model_of(node, op, tensors, desired):
    def info(name, array):
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return onnx.helper.make_tensor_value_info(name, kind, array.shape)

    graph = onnx.helper.make_graph(
        [node],
        "one",
        [info(name, array) for name, array in tensors.items()],
        [info(op.row.outputs[0].name, desired)],
    )
    imports = [onnx.helper.make_opsetid("", max(op.version, 11))]
    if op.domain != "ai.onnx":
        imports.append(onnx.helper.make_opsetid(op.domain, op.version))
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (("GatherND", "ai.onnx", 13), "ai.onnx ScatterND"),
        (("GatherND", "com.microsoft", 1), "ai.onnx ScatterND"),
        (("GatherND", "openvino", 8), "openvino ScatterNDUpdate"),
        (("ScatterElementsUpdate", "openvino", 12), "openvino GatherElements"),
        (("Gather", "openvino", 8), "none"),
    ],
)
def test_the_reverse_is_of_the_same_domain_where_it_has_one(row, name):
    page = pages.operator_page(*row, width=200)

    (line,) = (line for line in page.splitlines() if line.startswith("- **reverse**: "))
    assert line.partition(": ")[2].strip("`").startswith(name)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", [Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS])
def test_equations_axis_by_axis_are_the_rule(kind, axis):
    data = np.arange(27).reshape(3, 3, 3)
    indices = np.random.default_rng(axis).permuted(np.indices(data.shape)[axis], axis=axis)
    updates = -data
    equation = rule_texts.BY_AXIS[kind][axis]

    output = data.copy()
    for i, j, k in itertools.product(range(3), repeat=3):
        names = {"output": output, "data": data, "indices": indices, "updates": updates}
        exec(equation, names | {"i": i, "j": j, "k": k})

    given = (data, indices, updates) if kind is Kind.SCATTER_ELEMENTS else (data, indices)
    np.testing.assert_array_equal(output, getattr(reference, kind.value)(*given, axis=axis))


@pytest.mark.parametrize("op", operators(domain="ai.onnx"), ids=lambda op: str(op.row))
def test_facts_are_those_of_the_registry_of_onnx(op):
    schema = onnx.defs.get_schema(op.name, op.version, "")

    assert dict(rule_texts.REGISTERED["ai.onnx"]) == {
        "function": "yes" if schema.has_function else "no",
        "support level": schema.support_level.name.lower(),
        "shape inference": "yes" if schema.has_type_and_shape_inference_function else "no",
    }
