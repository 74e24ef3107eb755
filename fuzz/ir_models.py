"""Bytes as OpenVINO IR files: read, checked and run.

An input has two bytes that select the actions, then the XML, a NUL, and the file of constants.
"""

from __future__ import annotations

import copy
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Tree

import numpy as np

from fuzz.verdict import Desk
from ndgather.models import openvino
from ndgather.models.graph import diagnostics
from ndgather.published import operator
from ndgather.published.schema import TensorType
from tests.models.ir_writer import (
    CastNode,
    Graph,
    GraphInput,
    GraphOutput,
    OperatorNode,
    write_ir,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Mutate = Callable[[bytes, int], bytes]

HEAD = 2
DESK = Desk()
MOST_ELEMENTS = 4096
MOST_AXES = 64


def one_input(data: bytes) -> None:
    """Do what the head of `data` selects with its model."""
    head = data[:HEAD].ljust(HEAD, b"\0")
    xml, _, constants = data[HEAD:].partition(b"\0")
    DESK.clear()
    path = DESK.folder / "model.xml"
    path.write_bytes(xml)
    path.with_suffix(".bin").write_bytes(constants)
    work = (_check, _run)[head[0] % 2]
    with DESK.judged(may_lack_memory=work is _run):
        work(path, head[1])


def _check(path: Path, _choice: int) -> None:
    found = openvino.check(path)
    assert all("\n" not in each.what for each in found)
    diagnostics.as_text(found, 80)
    diagnostics.to_json(diagnostics.worst_first(found))


def _run(path: Path, choice: int) -> None:
    model = openvino.Model.load(path)
    rng = np.random.default_rng(choice)
    given = {port.name: array for port in model.inputs if (array := _value(port, rng)) is not None}
    assert all(each.shape is None or len(each.shape) <= 64 for each in model.outputs)
    for output in model.run(given).outputs:
        assert isinstance(output.array, np.ndarray)


def _value(port: Any, rng: np.random.Generator) -> Any:
    shape = (2,) if port.shape is None else port.shape
    sizes = tuple(size if isinstance(size, int) else 2 for size in shape)
    if len(sizes) > MOST_AXES or np.prod(sizes, dtype=object) > MOST_ELEMENTS:
        return None
    if port.dtype is not None and port.dtype.kind == "O":
        return np.full(sizes, "text", object)
    return rng.integers(-3, 4, sizes).astype(port.dtype or np.int64)


# --------------------------------------------------------------------------------------------
# Seeds


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield small models by name."""
    for name, graph in _graphs():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            write_ir(graph, path)
            constants = path.with_suffix(".bin")
            content = path.read_bytes() + b"\0"
            content += constants.read_bytes() if constants.exists() else b""
        for action in range(2):
            yield f"{name}-{action}", bytes([action, 18]) + content
    layer = (
        b'<layer id="1" name="pick" type="GatherND" version="opset8"><data batch_dims="0"/>'
        b'<input><port id="0"><dim>2</dim><dim>3</dim></port><port id="1"><dim>4</dim>'
        b'<dim>1</dim></port></input><output><port id="2"><dim>4</dim><dim>3</dim></port>'
        b"</output></layer>"
    )
    yield "layer", bytes([0, 0]) + layer
    yield "layer-run", bytes([1, 0]) + layer


def _graphs() -> Iterator[tuple[str, Graph]]:
    grid = np.array([[1, 0, 1]])
    pairs = np.array([[0, 1], [1, 2]], np.int32)
    axis = np.array(1)
    rows: tuple[tuple[str, int, dict[str, Any], dict[str, Any]], ...] = (
        ("GatherND", 8, {"at": pairs}, {}),
        ("GatherND", 5, {"at": np.array([[1], [2]])}, {"batch_dims": 1}),
        ("GatherElements", 6, {"at": np.array([[1], [-2]])}, {"axis": 1}),
        ("Gather", 1, {"at": grid, "axis": axis}, {}),
        ("Gather", 7, {"at": grid, "axis": axis}, {"batch_dims": 0}),
        ("Gather", 8, {"at": np.array([[1], [-1]]), "axis": axis}, {"batch_dims": 1}),
        ("ScatterNDUpdate", 4, {"at": pairs, "updates": np.ones(2, np.float32)}, {}),
        (
            "ScatterNDUpdate",
            15,
            {"at": pairs, "updates": np.ones(2, np.float32)},
            {"reduction": "sum"},
        ),
        (
            "ScatterElementsUpdate",
            3,
            {"at": grid, "updates": np.ones((1, 3), np.float32), "axis": axis},
            {},
        ),
        (
            "ScatterElementsUpdate",
            12,
            {"at": grid, "updates": np.ones((1, 3), np.float32), "axis": axis},
            {"reduction": "mean", "use_init_val": False},
        ),
    )
    for name, opset, constants, attributes in rows:
        row = operator(name, domain="openvino", opset=opset).row
        yield (
            f"{name}-{opset}",
            Graph(
                name="seed",
                inputs=(GraphInput(name="data", type=TensorType("float32", (2, 3))),),
                constants=constants,
                nodes=(
                    OperatorNode(
                        name="pick",
                        row=row,
                        inputs=("data", *constants),
                        output="a",
                        attributes=attributes,
                    ),
                    CastNode(name="cast", input="a", output="b", dtype="int32"),
                ),
                outputs=(GraphOutput(name="a", value="a"), GraphOutput(name="b", value="b")),
            ),
        )


# --------------------------------------------------------------------------------------------
# Mutation of the parsed tree

WORDS = (
    *("", "x", *map(str, range(-2, 17)), "64", "65", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e3", "0x1"),
    *("?", "...", "1..3", "..3", "1..", "3..1", "0,0,0", "2,3", "2,?,3", "1," * 65 + "1"),
    *("true", "false", "sum", "mean", "prod", "sub", "none", "FP16", "FP32", "I32", "I64"),
    *("i64", "i4", "u1", "u4", "f32", "bf16", "nf4", "string", "boolean", "f4e2m1", "u3"),
    *("opset1", "opset3", "opset4", "opset8", "opset12", "opset15", "opset99", "extension"),
    *("Parameter", "Const", "Convert", "Result", "Gather", "GatherND", "GatherElements"),
    *("ScatterNDUpdate", "ScatterElementsUpdate", "TensorIterator", "Add", "\n", "é", "a,b\\,c"),
)
TAGS = ("layer", "port", "dim", "data", "edge", "input", "output", "layers", "edges", "net")
NAMES = (
    *("id", "name", "type", "version", "precision", "names", "offset", "size", "shape"),
    *("element_type", "destination_type", "batch_dims", "axis", "reduction", "use_init_val"),
    *("from-layer", "from-port", "to-layer", "to-port", "output_names"),
)


def mutate(data: bytes, most: int, seed: int, plain: Mutate) -> bytes:
    """Return the input with some elements of its tree, or some of its bytes, changed."""
    rng = random.Random(seed)
    head = bytearray(data[:HEAD].ljust(HEAD, b"\0"))
    xml, _, constants = data[HEAD:].partition(b"\0")
    if rng.random() < 0.15:
        return plain(data, most)
    try:
        root = Tree.fromstring(xml)
    except Exception:
        return plain(data, most)
    if rng.random() < 0.3:
        head[rng.randrange(HEAD)] = rng.randrange(256)
    if rng.random() < 0.15:
        constants = plain(constants or b"\1", 1024)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        _change(root, rng)
    try:
        text = Tree.tostring(root)
    except Exception:
        return plain(data, most)
    return (bytes(head) + text + b"\0" + constants)[:most]


def _change(root: Tree.Element, rng: random.Random) -> None:
    elements = list(root.iter())
    element = rng.choice(elements)
    what = rng.random()
    if what < 0.4 and element.attrib:
        name = rng.choice(sorted(element.attrib))
        texts = [each.get(name) or "" for each in elements if name in each.attrib]
        element.set(name, rng.choice(texts) if rng.random() < 0.4 else rng.choice(WORDS))
    elif what < 0.5:
        element.set(rng.choice(NAMES), rng.choice(WORDS))
    elif what < 0.58 and element.attrib:
        del element.attrib[rng.choice(sorted(element.attrib))]
    elif what < 0.66:
        element.text = rng.choice(WORDS)
    elif what < 0.74 and len(element):
        del element[rng.randrange(len(element))]
    elif what < 0.84 and len(element):
        element.append(copy.deepcopy(rng.choice(list(element))))
    elif what < 0.88 and len(element) > 1:
        element.insert(0, element[-1])
        del element[-1]
    elif what < 0.96:
        if len(elements) < 2000:
            element.append(copy.deepcopy(rng.choice(elements)))
    else:
        element.tag = rng.choice(TAGS)
