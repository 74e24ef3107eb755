"""The texts of pages: calls in a model, equations, facts, and a text for every rule."""

import itertools

import numpy as np
import onnx
import pytest
from operator_pages import rule_texts
from operator_pages.examples import CALLS
from operator_pages.version_page import version_document

from ndgather.array_call import Kind
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from ndgather.published import operator, operators
from ndgather.published.schema import (
    OPERATOR_KINDS,
    AttributeRange,
    BatchRule,
    Duplicates,
    OffAxisRule,
    Outside,
    Reduction,
    Role,
)
from tests.definitions import reference

EVERY = pytest.mark.parametrize("op", operators(), ids=lambda op: str(op.row))


@EVERY
def test_model_call_runs(op):
    sections = {section.title: section.blocks for section in version_document(op).sections}
    run = sections["Formula"][-1].runs[0]
    text = "\n".join(sections["In a model"][-1].lines)
    tensors, options = dict(run.tensors), dict(run.options)

    if op.domain == "openvino":
        if "axis" in options and op.row.attribute("axis") is None:
            tensors["axis"] = np.array(options["axis"])
        results = openvino.run(text.encode(), tensors)
    else:
        names = {"onnx": onnx}
        exec(text, names)
        results = onnx_models.run(model_of(names["node"], op, tensors, run.result), tensors)

    (actual,) = results.values()
    np.testing.assert_array_equal(actual, run.result, strict=True)


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
def test_reverse_operator_prefers_the_same_domain(row, name):
    called, domain, version = row
    document = version_document(operator(called, domain=domain, version=version))

    assert dict(document.lead[1].items)["counterpart"].strip("`").startswith(name)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", [Kind.GATHER_ELEMENTS, Kind.SCATTER_ELEMENTS])
def test_equations_by_axis_equal_the_rule(kind, axis):
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
def test_facts_agree_with_the_onnx_registry(op):
    schema = onnx.defs.get_schema(op.name, op.version, "")

    assert dict(rule_texts.REGISTERED["ai.onnx"]) == {
        "function": "yes" if schema.has_function else "no",
        "support level": schema.support_level.name.lower(),
        "shape inference": "yes" if schema.has_type_and_shape_inference_function else "no",
    }


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (Outside, rule_texts.OUTSIDE),
        (Outside, rule_texts.OUTSIDE_IN_SHORT),
        (Reduction, rule_texts.REDUCTIONS),
        (OPERATOR_KINDS, rule_texts.OUTPUTS),
        (OPERATOR_KINDS, rule_texts.SYMBOLS),
        (OPERATOR_KINDS, CALLS),
    ],
)
def test_every_value_has_a_text(values, texts):
    assert list(texts) == list(values)


@pytest.mark.parametrize("rules", [BatchRule, OffAxisRule, Duplicates, AttributeRange])
def test_every_value_of_a_rule_has_its_own_text(rules):
    assert len({rule_texts.described(rule) for rule in rules}) == len(rules)


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_every_tensor_has_a_text(kind):
    roles = {Role.DATA, Role.INDICES} | ({Role.UPDATES} if kind.scatters else set())
    assert {role for each, role in rule_texts.INPUTS if each is kind} == roles
