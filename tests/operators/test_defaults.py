"""Defaults of attributes: as published, and in calls that omit the attribute.

All axes have different sizes, and data has at least three, so that another default would be refused
or give a different result. Models often omit attributes, so each call also runs in a model.
"""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

from ndgather import errors
from ndgather.published import operator
from ndgather.published.rows import ROWS
from ndgather.published.schema import type_of
from tests.definitions import reference
from tests.operators import loops

BATCH_DIMS = {"batch_dims": 0}
AXIS = {"axis": 0}
NONE = {"reduction": "none"}
BLOCKS = {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1}

#: As published; without required attributes and operators without attributes.
DEFAULTS = {
    "ai.onnx GatherND": {12: BATCH_DIMS, 13: BATCH_DIMS},
    "ai.onnx GatherElements": {11: AXIS, 13: AXIS},
    "ai.onnx Gather": {1: AXIS, 11: AXIS, 13: AXIS},
    "ai.onnx ScatterND": {16: NONE, 18: NONE},
    "ai.onnx ScatterElements": {11: AXIS, 13: AXIS, 16: AXIS | NONE, 18: AXIS | NONE},
    "ai.onnx TensorScatter": {24: {"axis": -2, "mode": "linear"}},
    "com.microsoft GatherBlockQuantized": {1: BLOCKS},
    "openvino GatherND": {5: BATCH_DIMS, 8: BATCH_DIMS},
    "openvino Gather": {7: BATCH_DIMS, 8: BATCH_DIMS},
    "openvino ScatterNDUpdate": {15: NONE},
    "openvino ScatterElementsUpdate": {12: NONE | {"use_init_val": True}},
}
CALLS = [(*each.split(), version) for each, rows in DEFAULTS.items() for version in rows]


def test_rows_have_the_published_defaults():
    found: dict[str, dict[int, dict[str, object]]] = {}
    for row in ROWS:
        values = {each.name: each.default for each in row.attributes if not each.required}
        if values:
            found.setdefault(f"{row.domain} {row.name}", {})[row.since] = values
    assert found == DEFAULTS


def test_defaults_match_onnxruntime():
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    (schema,) = (
        each
        for each in onnxruntime.get_all_operator_schema()
        if (each.domain, each.name) == ("com.microsoft", "GatherBlockQuantized")
    )
    found = {
        name: onnx.AttributeProto.FromString(each._default_value).i  # its only name
        for name, each in schema.attributes.items()
    }
    assert found == BLOCKS


def test_defaults_match_openvino():
    opset = pytest.importorskip("openvino.opset15")
    for name, function in {
        "Gather": opset.gather,
        "GatherND": opset.gather_nd,
        "ScatterElementsUpdate": opset.scatter_elements_update,
    }.items():
        wanted = [*DEFAULTS[f"openvino {name}"].values()][-1]
        parameters = inspect.signature(function).parameters
        found = {each: parameters[each].default for each in wanted}
        assert {k: v.lower() if isinstance(v, str) else v for k, v in found.items()} == wanted


DATA = np.arange(2.0 * 3 * 4, dtype="f4").reshape(2, 3, 4)
TUPLES, ROW = np.array([[1, 2], [0, 1], [1, 0], [1, 2], [0, 2]]), np.array([[[1, 0, 1, 1]] * 3])
UPDATES = 100 + np.arange(20, dtype="f4").reshape(5, 4)


def example(name, domain):
    """Return the inputs of a call, and its result by plain loops with the published defaults."""
    if name == "GatherND":
        return (DATA, TUPLES), reference.gather_nd(DATA, TUPLES, batch_dims=0)
    if name == "GatherElements":
        return (DATA, ROW), reference.gather_elements(DATA, ROW, axis=0)
    if name == "Gather":
        axis, indices = (0, TUPLES // 2) if domain == "ai.onnx" else (1, TUPLES)
        inputs = (DATA, indices, np.array(axis))[: 2 + (domain != "ai.onnx")]
        return inputs, reference.gather(DATA, indices, axis=axis, batch_dims=0)
    if name in ("ScatterND", "ScatterNDUpdate"):
        wanted = reference.scatter_nd(DATA, TUPLES[:3], UPDATES[:3], reduction="none")
        return (DATA, TUPLES[:3], UPDATES[:3]), wanted
    if name in ("ScatterElements", "ScatterElementsUpdate"):
        updates = UPDATES[:3].reshape(1, 3, 4)
        wanted = reference.scatter_elements(DATA, ROW, updates, axis=0, reduction="none")
        axis = (np.array(0),) if domain == "openvino" else ()
        return (DATA, ROW, updates, *axis), wanted
    if name == "TensorScatter":
        cache = np.arange(2.0 * 5 * 7 * 3, dtype="f4").reshape(2, 5, 7, 3)
        inputs = cache, cache[:, :, :4] + 1000, np.array([3, 1])
        return inputs, loops.tensor_scatter(*inputs, axis=-2, mode="linear")
    numbers = np.arange(2 * 256 * 3).reshape(2, 256, 3)
    scales = np.float32([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]])
    inputs = (numbers % 15 - 7).astype(ml_dtypes.int4), np.array([1, 0, 1]), scales
    return inputs, loops.gather_block_quantized(*inputs, **BLOCKS)


@pytest.mark.parametrize(("domain", "name", "version"), CALLS)
def test_call_without_attributes_uses_the_published_defaults(domain, name, version):
    op = operator(name, domain=domain, version=version)
    inputs, wanted = example(name, domain)
    np.testing.assert_array_equal(op(*inputs), wanted, strict=True)
    named = DEFAULTS[f"{domain} {name}"][version]
    np.testing.assert_array_equal(op(*inputs, **named), wanted, strict=True)
    known = {each.name: x for each, x in zip(op.row.inputs, inputs, strict=False)}
    axis = {each: known[each] for each in ("axis",) if each in known}
    inferred = op.infer(*map(type_of, inputs), constants=axis)
    assert inferred.outputs == (type_of(wanted),)


@pytest.mark.parametrize(
    ("domain", "name", "version"), [each for each in CALLS if each[0] != "openvino"]
)
def test_model_without_attributes_uses_the_published_defaults(domain, name, version):
    helper = pytest.importorskip("onnx.helper")
    inputs, wanted = example(name, domain)
    types = [helper.np_dtype_to_tensor_dtype(each.dtype) for each in (*inputs, wanted)]
    named = [
        helper.make_tensor_value_info(f"v{k}", kind, each.shape)
        for k, (kind, each) in enumerate(zip(types, (*inputs, wanted), strict=True))
    ]
    *names, result = (each.name for each in named)
    node = helper.make_node(name, names, [result], domain="" if domain == "ai.onnx" else domain)
    opset = version if domain == "ai.onnx" else 21
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version)] if domain != "ai.onnx" else []
    graph = helper.make_graph([node], "defaults", named[:-1], named[-1:])
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    given = dict(zip(names, inputs, strict=True))
    onnx = pytest.importorskip("ndgather.models.onnx")
    is_converted = domain == "ai.onnx" and opset >= 7  # the first that convert accepts
    for each in (model, *([onnx.convert(model, opset=24)] if is_converted else [])):
        found = onnx.run(each, given, runtime="reference")
        np.testing.assert_array_equal(found[result], wanted, strict=True)


def test_circular_is_not_the_default_mode_of_tensor_scatter():
    cache, update = np.zeros((2, 5, 3), "f4"), np.ones((2, 2, 3), "f4")
    with pytest.raises(errors.IndexOutOfBoundsError):
        operator("TensorScatter", version=24)(cache, update, np.array([0, 4]))
