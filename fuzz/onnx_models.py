"""Bytes as ONNX models: read, checked, inferred, converted and run.

An input has two bytes that select the actions, then the model file.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.verdict import Desk
from ndgather.models import onnx as models
from ndgather.models import tensor_files
from ndgather.models.graph import diagnostics
from ndgather.models.onnx.nodes import PUBLISHED, row_domain, subgraphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto

    Mutate = Callable[[bytes, int], bytes]

# Imported before files that an input opens are counted.
models.reference_ops()

HEAD = 2
DESK = Desk()
OPERATORS = ("GatherND", "GatherElements", "Gather", "ScatterND", "ScatterElements", None)
DOMAINS = ("ai.onnx", "com.microsoft", None, None)

# Other operators may use all the time and memory that a model asks for.
RUN = frozenset(
    ("Add", "Cast", "Concat", "Constant", "Identity", "If", "Shape", "Squeeze", "Unsqueeze")
)
MOST_ELEMENTS = 4096
MOST_AXES = 64


def one_input(data: bytes) -> None:
    """Do what the head of `data` selects with its model."""
    head, content = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    DESK.clear()
    path = DESK.folder / "model.onnx"
    path.write_bytes(content)
    work = (_check, _infer, _convert, _run, _in_memory, _tensor)[head[0] % 6]
    with DESK.judged(may_lack_memory=work is _run):
        work(path, head[1])


def _check(path: Path, _choice: int) -> None:
    found = models.check(path)
    assert all("\n" not in each.what for each in found)
    diagnostics.as_text(found, 80)
    diagnostics.to_json(diagnostics.worst_first(found))


def _infer(path: Path, _choice: int) -> None:
    models.infer(path)


def _convert(path: Path, choice: int) -> None:
    opset = choice % 32 or None
    domain, operator = DOMAINS[choice // 32 % 4], OPERATORS[choice % 6]
    result = models.convert(path, opset=opset, domain=domain, operator=operator)
    models.save(result, path.with_name("result.onnx"), str(path.parent))


def _run(path: Path, choice: int) -> None:
    model = models.load(path)
    if not all(_is_cheap(node) for node in _all_nodes(onnx.load(path))):
        return
    rng = np.random.default_rng(choice)
    given = {port.name: array for port in model.inputs if (array := _value(port, rng)) is not None}
    for output in model.run(given).outputs:
        assert isinstance(output.array, np.ndarray)


def _value(port: Any, rng: np.random.Generator) -> Any:
    if port.shape is None or port.optional:
        return np.zeros(1, port.dtype)
    shape = tuple(size if isinstance(size, int) else 2 for size in port.shape)
    if len(shape) > MOST_AXES or any(size < 0 for size in shape):
        return None
    if np.prod(shape, dtype=object) > MOST_ELEMENTS:
        return None
    if port.dtype is not None and port.dtype.kind == "O":
        return np.full(shape, "text", object)
    return rng.integers(-3, 4, shape).astype(port.dtype or np.int64)


def _is_cheap(node: NodeProto) -> bool:
    return (node.op_type, row_domain(node.domain)) in PUBLISHED or node.op_type in RUN


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    def within(nodes: Any) -> Iterator[NodeProto]:
        for node in nodes:
            yield node
            for graph in subgraphs(node):
                yield from within(graph.node)

    yield from within(model.graph.node)
    for function in model.functions:
        yield from within(function.node)


def _in_memory(path: Path, _choice: int) -> None:
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
    except Exception:
        return
    models.check(model)


def _tensor(path: Path, _choice: int) -> None:
    tensor = path.with_suffix(".pb")
    tensor.write_bytes(path.read_bytes())
    tensor_files.read(tensor)


# --------------------------------------------------------------------------------------------
# Seeds


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield small models by name."""
    for name, model in _models():
        content = models.infer(model).SerializeToString()  # onnx runs no output without a shape
        for action in range(5):
            yield f"{name}-{action}", bytes([action, 18]) + content
    tensor = numpy_helper.from_array(np.arange(6, dtype=np.int64).reshape(2, 3))
    yield "tensor", bytes([5, 0]) + tensor.SerializeToString()


def _models() -> Iterator[tuple[str, ModelProto]]:
    at = {
        "Gather": [[1, 0]],
        "GatherElements": [[1, 0, 1]],
        "GatherND": [[0, 1], [1, 2]],
        "ScatterND": [[0, 1], [1, 2]],
        "ScatterElements": [[1, 0, 1]],
        "Scatter": [[1, 0, 1]],
    }
    for op_type, opset in (
        *(("Gather", 1), ("Gather", 11), ("Gather", 13), ("GatherElements", 11)),
        *(("GatherElements", 13), ("GatherND", 11), ("GatherND", 12), ("GatherND", 13)),
        *(("ScatterND", 11), ("ScatterND", 16), ("ScatterND", 18), ("ScatterElements", 11)),
        *(("ScatterElements", 18), ("Scatter", 9)),
    ):
        yield f"{op_type}-{opset}", _one_node(op_type, opset, np.array(at[op_type]))
    yield "microsoft", _one_node("GatherND", 13, np.array([[0]], np.int32), domain="com.microsoft")
    yield "batch", _one_node("GatherND", 13, np.array([[0], [2]]), batch_dims=1)
    yield "reduction", _one_node("ScatterND", 18, np.array([[0, 1], [0, 1]]), reduction="add")
    yield "external", _external()
    yield "branches", _branches()
    yield "function", _function()
    yield "chain", _chain()


def _one_node(
    op_type: str, opset: int, at: Any, *, domain: str = "", **attributes: object
) -> ModelProto:
    names = ["data", "at"]
    inputs = [helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 3])]
    constants = [numpy_helper.from_array(at, "at")]
    if op_type.startswith("Scatter"):
        names.append("updates")
        shape = at.shape[:-1] if op_type == "ScatterND" else at.shape
        constants.append(numpy_helper.from_array(np.ones(shape, np.float32), "updates"))
    node = helper.make_node(op_type, names, ["out"], name="pick", domain=domain, **attributes)
    return _model(
        [node],
        inputs,
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        constants,
        opset=opset,
        domains=(domain,) if domain else (),
    )


def _model(
    nodes: Any,
    inputs: Any,
    outputs: Any,
    constants: Any = (),
    *,
    opset: int = 18,
    domains: tuple[str, ...] = (),
    functions: Any = (),
) -> ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)


def _external() -> ModelProto:
    model = _one_node("GatherND", 13, np.array([[0, 1], [1, 2]]))
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "32")):
        tensor.external_data.add(key=key, value=value)
    return model


def _branches() -> ModelProto:
    def branch(name: str, at: int) -> GraphProto:
        return helper.make_graph(
            [
                helper.make_node("Constant", [], [f"{name}_at"], value_ints=[at]),
                helper.make_node("Gather", ["data", f"{name}_at"], [name], axis=1),
            ],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        )

    node = helper.make_node(
        "If", ["which"], ["out"], then_branch=branch("a", 0), else_branch=branch("b", 2)
    )
    return _model(
        [node],
        [
            helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("which", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )


def _function() -> ModelProto:
    inner = helper.make_node("GatherND", ["x", "i"], ["y"])
    inner.attribute.add(name="batch_dims", ref_attr_name="shared", type=onnx.AttributeProto.INT)
    function = helper.make_function(
        "local", "pick", ["x", "i"], ["y"], [inner], [helper.make_opsetid("", 18)], ["shared"]
    )
    return _model(
        [helper.make_node("pick", ["data", "at"], ["out"], domain="local", shared=1)],
        [
            helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("at", TensorProto.INT64, ["N", 1]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        domains=("local",),
        functions=[function],
    )


def _chain() -> ModelProto:
    return _model(
        [
            helper.make_node("Cast", ["at"], ["wide"], to=TensorProto.INT64),
            helper.make_node("GatherElements", ["data", "wide"], ["a"], axis=1),
            helper.make_node("Identity", ["a"], ["b"]),
            helper.make_node("ScatterElements", ["data", "wide", "b"], ["c"], axis=-1),
            helper.make_node("Shape", ["c"], ["d"]),
            helper.make_node("Gather", ["c", "d"], ["out"]),
        ],
        [
            helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", "M"]),
            helper.make_tensor_value_info("at", TensorProto.INT32, ["N", 1]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )


# --------------------------------------------------------------------------------------------
# Mutation of the parsed model

NUMBERS = (
    *range(-3, 27),
    *(64, 65, 127, 255, 1000, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1),
    *(-(2**31), -(2**63), 2**16),
)
TEXTS = (
    *("", "data", "at", "updates", "out", "axis", "batch_dims", "reduction", "to", "value"),
    *("value_int", "value_ints", "then_branch", "else_branch", "body", "shared", "N", "M", "\n"),
    *("add", "mul", "min", "max", "none", "ai.onnx", "com.microsoft", "ai.onnx.ml", "local"),
    *("location", "offset", "length", "checksum", "weights.bin", "inner/weights.bin"),
    *("../outside.bin", "inner/../../outside.bin", "/etc/hostname", "inner", ".", "-1", "16", "x"),
    *("99999999999999999999", "model.onnx", "model.bin", "result.bin", "\0", "é", "a" * 300),
    *(each for each in OPERATORS if each),
    *("Scatter", "Gather", "pick", *sorted(RUN), "Loop", "Scan", "Reshape", "ConstantOfShape"),
)


def mutate(data: bytes, most: int, seed: int, plain: Mutate) -> bytes:
    """Return the input with some fields of its model, or some of its bytes, changed."""
    rng = random.Random(seed)
    if rng.random() < 0.15:
        return plain(data, most)
    head, content = bytearray(data[:HEAD].ljust(HEAD, b"\0")), data[HEAD:]
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception:
        return plain(data, most)
    if rng.random() < 0.3:
        head[rng.randrange(HEAD)] = rng.randrange(256)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        _change(model, rng, plain)
    try:
        return (bytes(head) + model.SerializeToString())[:most]
    except Exception:
        return plain(data, most)


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for each in value if _is_repeated(field) else (value,):
            yield from _messages(each)


def _is_repeated(field: Any) -> bool:
    return bool(getattr(field, "is_repeated", False) or getattr(field, "label", 0) == 3)


def _change(model: Any, rng: random.Random, plain: Mutate) -> None:
    messages = list(_messages(model))[:5000]
    message = rng.choice(messages)
    fields = message.DESCRIPTOR.fields
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.8 else fields)
    try:
        if _is_repeated(field):
            _change_list(message, field, messages, rng, plain)
        elif rng.random() < 0.15:
            message.ClearField(field.name)
        elif field.message_type is not None:
            target = getattr(message, field.name)
            target.CopyFrom(_like(field.message_type, messages, rng))
        else:
            setattr(message, field.name, _scalar(field, getattr(message, field.name), rng, plain))
    except (ValueError, TypeError):  # a number outside the range of its field
        return


def _change_list(
    message: Any, field: Any, messages: list[Any], rng: random.Random, plain: Mutate
) -> None:
    values = getattr(message, field.name)
    what = rng.random()
    if values and what < 0.25:
        del values[rng.randrange(len(values))]
    elif field.message_type is not None:
        if values and what < 0.5:
            values.add().CopyFrom(rng.choice(values))
        elif len(values) > 1 and what < 0.7:
            first, second = rng.sample(range(len(values)), 2)
            copy = type(values[first])()
            copy.CopyFrom(values[first])
            values[first].CopyFrom(values[second])
            values[second].CopyFrom(copy)
        else:
            values.add().CopyFrom(_like(field.message_type, messages, rng))
    elif values and what < 0.7:
        place = rng.randrange(len(values))
        values[place] = _scalar(field, values[place], rng, plain)
    else:
        values.append(_scalar(field, values[0] if values else None, rng, plain))


def _like(kind: Any, messages: list[Any], rng: random.Random) -> Any:
    """Return a message of a type from elsewhere in the model, or an empty message."""
    found = [each for each in messages if each.DESCRIPTOR is kind]
    if found and rng.random() < 0.9:
        copy = type(found[0])()
        copy.CopyFrom(rng.choice(found))
        return copy
    return getattr(onnx, kind.name)() if hasattr(onnx, kind.name) else rng.choice(messages)


def _scalar(field: Any, old: Any, rng: random.Random, plain: Mutate) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            return plain(old or b"\0", 256) if rng.random() < 0.7 else rng.choice(TEXTS).encode()
        return rng.choice(TEXTS)
    if kind in {field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE}:
        return rng.choice((0.0, -0.0, 1.5, -1.0, 1e30, float("nan"), float("inf")))
    return rng.choice(NUMBERS)
