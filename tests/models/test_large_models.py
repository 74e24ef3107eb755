"""The time for large models is linear in the number of nodes."""

import gc
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from ndgather.models.graph import unique

FEW, MANY = 100, 500  # nodes; quadratic time would be 25 times as long for the second
MOST = 15  # a factor; linear time is 5 times as long


def model_of(nodes, inputs, result, initial=()):
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in initial]
    infos = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    outputs = [helper.make_tensor_value_info(result, inputs[0][1], None)]
    graph = helper.make_graph(nodes, "g", infos, outputs, tensors)
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def chain(count, op_type, *others, **attributes):
    """Return a chain of nodes."""
    return [
        helper.make_node(op_type, [f"v{number}", *others], [f"v{number + 1}"], **attributes)
        for number in range(count)
    ]


def identities(count):
    data = [("v0", TensorProto.FLOAT, (2, 3))]
    return model_of(chain(count, "Identity"), data, f"v{count}")


def gathers_of_integers(count):
    """A chain that must be followed to its start to know whether values need 64 bits."""
    inputs = [("v0", TensorProto.INT64, ("N", 4)), ("rows", TensorProto.INT64, ("N",))]
    return model_of(chain(count, "Gather", "rows"), inputs, f"v{count}")


def gathers_of_sizes(count):
    nodes = [helper.make_node("Shape", ["x"], ["v0"]), *chain(count, "Gather", "all")]
    return model_of(nodes, [("x", TensorProto.INT64, ("N", 4))], f"v{count}", [("all", [0, 1])])


def indices_of_indices(count):
    """A chain that must be followed to its start to know whether indices may be negative."""
    inputs = [("v0", TensorProto.INT64, (4,)), ("x", TensorProto.INT64, (4,))]
    nodes = [
        helper.make_node("Gather", ["x", f"v{number}"], [f"v{number + 1}"])
        for number in range(count)
    ]
    return model_of(nodes, inputs, f"v{count}")


def all_operators(count):
    """A model in which every node has its own constants."""
    initial, nodes, last = [], [], "x"
    for number in range(count // 4):
        a, b, c, d, rows, tuples = (f"{name}{number}" for name in ("a", "b", "c", "d", "r", "t"))
        initial += [(rows, np.arange(8)[::-1]), (tuples, [[number % 5], [-1]])]
        nodes += [
            helper.make_node("Gather", [last, rows], [a]),
            helper.make_node("GatherElements", [a, "columns"], [b], axis=1),
            helper.make_node("GatherND", [b, tuples], [c]),
            helper.make_node("ScatterND", [b, tuples, c], [d]),
        ]
        last = d
    inputs = [("x", TensorProto.FLOAT, (8, 4)), ("columns", TensorProto.INT64, (8, 4))]
    return model_of(nodes, inputs, last, initial)


CALLS = {
    "check": onnx_models.check,
    "infer": onnx_models.infer,
    "to opset 21": lambda model: onnx_models.convert(model, opset=21),
    "to opset 17": lambda model: onnx_models.convert(model, opset=17),
    "to GatherND": lambda model: onnx_models.conversion(model, operator="GatherND"),
    "to basic": lambda model: onnx_models.conversion(model, target="basic"),
    "to webgpu": lambda model: onnx_models.conversion(model, target="webgpu"),
}


def seconds(call, model):
    gc.collect()
    gc.disable()  # its time depends on objects from other tests
    start = time.process_time()
    call(model)
    gc.enable()
    return time.process_time() - start


def is_linear(call, few, many):
    most = MOST * max(min(seconds(call, few) for _ in range(2)), 0.005)
    return any(seconds(call, many) < most for _ in range(10))


CHAINS = [identities, gathers_of_integers, gathers_of_sizes, indices_of_indices]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "call"),
    [
        *((all_operators, call) for call in CALLS),
        *(
            (make, call)
            for make in CHAINS
            for call in CALLS
            if call not in {"to opset 21", "to webgpu"}
        ),
    ],
)
def test_time_is_linear_in_the_number_of_nodes(make, call):
    assert is_linear(CALLS[call], make(FEW), make(MANY))


def ir_of_integers(count):
    """A chain that must be followed to its start to know whether values need 64 bits."""
    port = '<port id="{}" precision="I64"><dim>4</dim></port>'.format
    layers = [
        f'<layer id="{number}" name="{name}" type="Parameter" version="opset1">'
        f'<data shape="{shape}" element_type="i64"/><output>{output}</output></layer>'
        for number, (name, shape, output) in enumerate(
            [("x", "4", port(0)), ("rows", "4", port(0)), ("axis", "", '<port id="0"/>')]
        )
    ]
    edges = []
    for number in range(3, count + 3):
        inputs = f'{port(0)}{port(1)}<port id="2"/>'
        layers.append(
            f'<layer id="{number}" name="n{number}" type="Gather" version="opset8"><input>{inputs}'
            f"</input><output>{port(3)}</output></layer>"
        )
        before = (number - 1, 3) if number > 3 else (0, 0)
        for place, (layer, output) in enumerate([before, (1, 0), (2, 0)]):
            ends = f'from-layer="{layer}" from-port="{output}" to-layer="{number}"'
            edges.append(f'<edge {ends} to-port="{place}"/>')
    text = f"<layers>{''.join(layers)}</layers><edges>{''.join(edges)}</edges>"
    return f'<net name="chain" version="11">{text}</net>'.encode()


def test_ir_time_is_linear_in_the_number_of_layers():
    few, many = ir_of_integers(FEW), ir_of_integers(MANY)
    assert {finding.rule for finding in openvino.check(few)} == {"64-bit integers"}
    assert is_linear(openvino.check, few, many)


def test_duplicate_names_get_the_next_number():
    taken = {"x", "x_3"}
    assert [unique("x", taken) for _ in range(4)] == ["x_2", "x_4", "x_5", "x_6"]
    assert [unique("y", taken) for _ in range(40)] == ["y", *(f"y_{n}" for n in range(2, 41))]
    assert unique("x_3", taken) == "x_3_2"
