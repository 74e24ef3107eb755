"""Stale declared sizes are ignored, refused or reported.

The expected results come from onnxruntime, which runs such models with a warning.
"""

import numpy as np
import onnx
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.graph.diagnostics import has_errors
from tests.models.test_targets import EXAMPLES, GATHERS, SCATTERS, TARGETS, calls
from tests.models.test_version_steps import NEEDS_ONNXRUNTIME, outputs_of

HOW = st.sampled_from(("basic", *TARGETS)).map(lambda name: {"target": name}) | st.integers(
    9, 21
).map(lambda opset: {"opset": opset})


def model_of(call, *, sizes, stale, as_output, steps, opset=18):
    """Return a model that computes data in several steps and declares the shape of the last step.

    `sizes` are the sizes of the input, which may be open, and `stale` are the declared sizes.
    """
    op_type, (data, indices, *updates), attributes, result = call
    element = TensorProto.FLOAT
    names = ["x", *(f"h{number}" for number in range(len(steps)))]
    nodes = [
        helper.make_node(step, [before], [after])
        for step, before, after in zip(steps, names, names[1:], strict=False)
    ]
    constants = [numpy_helper.from_array(indices, "i")]
    constants += [numpy_helper.from_array(array, "u") for array in updates]
    inputs = [names[-1], *(tensor.name for tensor in constants)]
    nodes.append(helper.make_node(op_type, inputs, ["y"], **attributes))
    declared = helper.make_tensor_value_info(names[-1], element, stale)
    outputs = [helper.make_tensor_value_info("y", element, [None] * result.ndim)]
    outputs += [declared] * as_output
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, sizes)],
        outputs,
        constants,
        value_info=[] if as_output else [declared],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), {"x": data}


@NEEDS_ONNXRUNTIME
@given(
    call=calls(GATHERS | SCATTERS),
    how=HOW,
    as_output=st.booleans(),
    named=st.booleans(),
    open_axes=st.lists(st.booleans(), min_size=4, max_size=4),
    other=st.integers(1, 5),
    steps=st.lists(st.sampled_from(["Neg", "Identity", "Abs"]), min_size=1, max_size=2),
)
@settings(max_examples=8 * EXAMPLES)
def test_input_sizes_take_precedence_over_stale_declarations(
    call, how, as_output, named, open_axes, other, steps
):
    shape, axes = call[1][0].shape, open_axes[: call[1][0].ndim]
    free = [f"n{axis}" if named else None for axis in range(len(shape))]
    sizes = [
        free[axis] if opened else size
        for axis, (size, opened) in enumerate(zip(shape, axes, strict=True))
    ]
    stale = [other if opened else size for size, opened in zip(shape, axes, strict=True)]
    model, inputs = model_of(call, sizes=sizes, stale=stale, as_output=as_output, steps=steps)
    expected = outputs_of(model, inputs)

    try:
        conversion = onnx_models.conversion(model, **how)
    except NdgatherError:
        event("refused")
        return

    event("stays" if any(node.stays for node in conversion.nodes) else "converted")
    for first, second in zip(expected, outputs_of(conversion.model, inputs), strict=True):
        np.testing.assert_array_equal(first, second, strict=True)
    assert [port.name for port in conversion.model.graph.output] == [
        port.name for port in model.graph.output
    ]


@pytest.mark.parametrize("as_output", [False, True])
@pytest.mark.parametrize(
    "how", [{"opset": 10}, {"opset": 13}, {"target": "basic"}, {"target": "qnn"}]
)
def test_contradictory_declarations_are_refused(how, as_output):
    data, indices = np.zeros((3, 4), np.float32), np.array([-1, 0])
    call = "Gather", (data, indices), {"axis": 0}, data[indices]
    model, _ = model_of(call, sizes=[3, 4], stale=[2, 4], as_output=as_output, steps=["Neg"])

    assert has_errors(onnx_models.check(model))
    for work in (onnx_models.infer, lambda given: onnx_models.convert(given, **how)):
        with pytest.raises(NdgatherError) as refusal:
            work(model)
        text = "node Neg of 'h0': value 'h0': shape = (3, 4) contradicts the model's declaration"
        assert text in str(refusal.value)


def test_stale_declarations_are_dropped_if_new_nodes_read_the_size():
    data, indices = np.zeros((3, 4), np.float32), np.array([-1, 0])
    call = "Gather", (data, indices), {"axis": 0}, data[indices]
    model, _ = model_of(call, sizes=["N", 4], stale=[2, 4], as_output=False, steps=["Neg"])

    kept = onnx_models.conversion(model, opset=13)
    changed = onnx_models.conversion(model, target="basic")

    assert kept.model.graph.value_info == model.graph.value_info
    assert not kept.findings
    assert not changed.model.graph.value_info[0].type.tensor_type.shape.dim[0].HasField("dim_value")
    (finding,) = changed.findings
    text = "value 'h0' is declared with shape (2, 4), but the inputs imply (N, 4): dropped"
    assert finding.what == text


def test_models_with_shape_nodes_and_stale_declarations_are_refused():
    """Shape returns the declared size in onnxruntime and the actual size in other runtimes."""
    graph = helper.make_graph(
        [
            helper.make_node("Neg", ["x"], ["h"]),
            helper.make_node("Shape", ["h"], ["s"]),
            helper.make_node("Gather", ["h", "i"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
        ],
        [numpy_helper.from_array(np.array([-1]), "i")],
        value_info=[helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    assert onnx_models.convert(model, opset=13).graph.value_info == model.graph.value_info
    with pytest.raises(NdgatherError, match="'h' is declared with shape"):
        onnx_models.convert(model, target="basic")


def test_unproven_declared_sizes_are_reported():
    """The size of a NonZero is only known at run time."""
    graph = helper.make_graph(
        [
            helper.make_node("NonZero", ["x"], ["h"]),
            helper.make_node("Gather", ["h", "i"], ["y"], axis=1),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, 1])],
        [numpy_helper.from_array(np.array([-1]), "i")],
        value_info=[helper.make_tensor_value_info("h", TensorProto.INT64, [1, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    conversion = onnx_models.conversion(model, opset=10)

    what = "assumes that value 'h' has shape (1, 3), as declared"
    assert what in [finding.what for finding in conversion.findings]
    onnx.checker.check_model(conversion.model)
