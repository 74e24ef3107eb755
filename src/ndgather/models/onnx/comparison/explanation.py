"""Explanations of differences, which name the rule of the specification that a runtime breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ndgather.array_call import Kind
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError
from ndgather.messages import subscript
from ndgather.models.graph.diagnostics import rule_of
from ndgather.models.graph.evaluation import index_places
from ndgather.models.onnx.nodes import repair
from ndgather.models.onnx.tracing import CheckedNode


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule of the specification that determines the result of a node.

    `advice` says how to change the model so that all runtimes agree. `indices` lists the index
    values that address the element. `decided` is False if the specification leaves the result open.
    """

    rule: str
    text: str
    advice: str
    indices: str = ""
    decided: bool = True


_DEFINITIONS = {
    Kind.GATHER_ND: "output[p] = data[indices[p]]",
    Kind.GATHER_ELEMENTS: "output[p] = data[p with indices[p] on axis]",
    Kind.GATHER: "output[a, i, b] = data[a, indices[i], b]",
    Kind.SCATTER_ND: "output[indices[p]] = updates[p]; other elements are copied from data",
    Kind.SCATTER_ELEMENTS: "output[p with indices[p] on axis] = updates[p]; other elements are "
    "copied from data",
}
_DUPLICATES = Explanation(
    rule="duplicates",
    text="several indices address the same element, and it is undefined which update is kept",
    advice="make the indices unique, or give the node a reduction",
    decided=False,
)
LOST_UPDATES = "lost updates"
_LOST = Explanation(
    rule=LOST_UPDATES,
    text="every update must be applied even if indices repeat, but onnxruntime loses updates of a "
    "ScatterND that runs on several threads",
    advice="run it with --threads 1, threads=1, or use convert --target onnxruntime, which "
    "replaces ScatterND by ScatterElements",
)
_NEGATIVE = Explanation(
    rule="negative index",
    text="a negative index counts from the end of its axis",
    advice="add the size first: Where(indices < 0, indices + size, indices)",
)
_WIDE_INTEGERS = Explanation(
    rule="wide integers",
    text="elements keep all 64 bits",
    advice="keep values below 2**31, gather floats, or gather the two halves separately",
)
_WIDE_FLOATS = Explanation(
    rule="wide floats",
    text="elements keep all 64 bits, but the runtime computes in float32",
    advice="Cast to float32 so that every runtime computes the same result",
)
_STRINGS = Explanation(
    rule="string slices",
    text="an index copies all strings of its slice",
    advice="use convert --operator GatherND, because onnxruntime copies whole slices for GatherND",
)
_NAN = Explanation(
    rule="NaN",
    text="the specification does not define the minimum and maximum of NaN",
    advice="replace NaN before the node",
    decided=False,
)


def explain(node: CheckedNode) -> Explanation:
    """Return the rule that the actual output of a node violates."""
    row, attributes = node.op_node.operator().row, node.op_node.attributes()
    refusal, expected = node.refusal, node.expected
    if isinstance(refusal, IndexOutOfBoundsError):
        return Explanation(
            rule="index range",
            text=f"an out-of-bounds index is an error: {refusal}",
            advice="clip the indices to their axis before the node, or select with Where after it",
        )
    if refusal is not None:
        later = node.op_node.repairing_opset(refusal)
        if later is not None:
            advice = repair(node.op_node.node, later)
        elif isinstance(refusal, DTypeError):
            advice = "Cast to a type that this version allows, or import a newer opset"
        elif isinstance(refusal, AttributeValueError):
            advice = "use an attribute value that this version allows"
        else:
            advice = "change the shapes before the node so that they are compatible"
        return Explanation(rule_of(refusal, "model"), str(refusal), advice)
    if node.first is None or node.actual is None or expected is None:
        form = None if expected is None else (str(expected.dtype), expected.shape)
        return Explanation(
            rule="result",
            text=f"the result has the type of data and the inferred shape: {form}",
            advice="declare the shape of the output, and Reshape or Cast after the node",
        )
    advice = "report it to the runtime with the inputs of this node"
    if row.definition is not None:
        return Explanation("definition", row.formula, advice)
    places = index_places(row, attributes, node.inputs, node.first)
    reduction = attributes.get("reduction", "none")
    value = expected[node.first]
    with np.errstate(over="ignore"):
        narrow = np.float32(value) if expected.dtype == np.float64 else None
    has_nan = any(
        array.dtype.kind == "f" and bool(np.isnan(array).any())
        for array in (node.inputs[0], node.inputs[-1])
    )
    if row.kind.scatters and len(places) > 1 and reduction == "none":
        rule = _DUPLICATES
    elif row.kind is Kind.SCATTER_ND and len(places) > 1 and not has_nan:
        rule = _LOST
    elif row.kind is Kind.GATHER and expected.dtype.kind in "OUST":
        rule = _STRINGS
    elif any(index < 0 for _, values in places for index in values):
        rule = _NEGATIVE
    elif expected.dtype in {np.dtype(np.int64), np.dtype(np.uint64)} and abs(int(value)) >= 2**31:
        rule = _WIDE_INTEGERS
    elif narrow is not None and (
        np.float32(node.actual[node.first]) == narrow or not np.isfinite(narrow)
    ):
        rule = _WIDE_FLOATS
    elif row.kind.scatters and reduction in {"min", "max"} and has_nan:
        rule = _NAN
    else:
        rule = Explanation("definition", _DEFINITIONS[row.kind], advice)
    indices = "; ".join(
        f"indices{subscript(at)} = {values[0] if len(values) == 1 else list(values)}"
        for at, values in places
    )
    return replace(rule, indices=indices)
