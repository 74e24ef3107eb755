"""Damaged IR gives a result, findings or an error on one line."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("defusedxml")

from ndgather.errors import NdgatherError
from ndgather.models import openvino
from ndgather.models.graph.diagnostics import has_errors
from ndgather.models.openvino import Model
from ndgather.published import operator
from ndgather.published.schema import TensorType
from tests.models.ir_writer import CastNode, Graph, GraphInput, GraphOutput, OperatorNode, write_ir

WORDS = (
    *("", "x", "0", "1", "2", "3", "-1", "-9", "64", "9223372036854775807", "18446744073709551616"),
    *("?", "...", "1..3", "0,0,0", "2,3", "true", "FP16", "I64"),
    *("i64", "i4", "f32", "nf4", "string", "boolean", "opset1", "opset3", "opset8", "opset99"),
    *("Parameter", "Const", "Convert", "Result", "Gather", "GatherND", "ScatterElementsUpdate"),
)
PLACE = re.compile(r'"[^"]*"|(?<=<dim>)[^<]*|<(?:edge|port|dim|data)[^>]*/>')
INPUTS = {"data": np.arange(6, dtype=np.float32).reshape(2, 3), "at": np.array([[1], [0]])}


def rows(*kinds):
    return [operator(name, domain="openvino", version=version).row for name, version in kinds]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pick, take, scatter = rows(("GatherND", 8), ("Gather", 8), ("ScatterElementsUpdate", 12))
    graph = Graph(
        name="all",
        inputs=(
            GraphInput(name="data", type=TensorType("float32", (2, None))),
            GraphInput(name="at", type=TensorType("int64", (2, 1))),
        ),
        constants={
            "axis": np.array(1),
            "indices": np.array([[0, 1], [1, 0]], np.int32),
            "updates": np.array([[7, 8], [9, 6]], np.float32),
        },
        nodes=(
            OperatorNode(name="pick", row=pick, inputs=("data", "at"), output="p", attributes={}),
            OperatorNode(
                name="take", row=take, inputs=("p", "at", "axis"), output="t", attributes={}
            ),
            OperatorNode(
                name="scatter",
                row=scatter,
                inputs=("p", "indices", "updates", "axis"),
                output="s",
                attributes={"reduction": "sum"},
            ),
            CastNode(name="convert", input="s", output="c", dtype="int32"),
        ),
        outputs=(GraphOutput(name="t", value="t"), GraphOutput(name="c", value="c")),
    )
    path = tmp_path_factory.mktemp("damaged")
    write_ir(graph, path / "model.xml")
    return path


@st.composite
def damages(draw):
    """Draw a position and a change: insert a word, delete or duplicate."""
    return draw(
        st.lists(
            st.tuples(st.floats(0, 0.999), st.sampled_from((*WORDS, None, "twice"))),
            min_size=1,
            max_size=4,
        )
    )


def damaged(text, damage):
    for share, word in damage:
        places = list(PLACE.finditer(text))
        place = places[int(share * len(places))]
        whole = place.group()
        if word is None:
            new = ""
        elif word == "twice":
            new = whole if whole.startswith('"') else whole * 2
        elif whole.startswith("<"):
            new = re.sub(r'"[^"]*"', f'"{word}"', whole, count=1)
        else:
            new = f'"{word}"' if whole.startswith('"') else word
        text = text[: place.start()] + new + text[place.end() :]
    return text


def test_the_undamaged_model_passes_and_runs(folder):
    assert not has_errors(openvino.check(folder / "model.xml"))
    assert sorted(openvino.run(folder / "model.xml", INPUTS)) == ["c", "t"]


@given(damages())
def test_damaged_ir_is_found_or_refused_in_one_line(folder, damage):
    text = damaged((folder / "model.xml").read_text(), damage)
    (folder / "damaged.xml").write_text(text)
    try:
        model = Model.load(folder / "damaged.xml", folder / "model.bin")
        assert all("\n" not in finding.what for finding in model.check())
        assert all(port.name for port in (*model.inputs, *model.outputs))
        outputs = model.run(INPUTS).outputs
    except NdgatherError as refused:
        if "\n" in str(refused):
            raise
        return
    assert all(type(output.array) is np.ndarray for output in outputs)
