"""Which rule decides where a runtime and a specification part, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import DTypeError, IndexOutOfBoundsError
from ndgather.models.graph.diagnostics import rule_of
from ndgather.models.graph.index_places import index_places
from ndgather.published.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.models.onnx.judged_nodes import JudgedNode
    from ndgather.published.schema import OperatorVersion

_WIDE = 2**31
_DEFINITIONS = {
    Kind.GATHER_ND: "output[p] = data[indices[p]]",
    Kind.GATHER_ELEMENTS: "output[p] = data[p with indices[p] on axis]",
    Kind.GATHER: "output[a, i, b] = data[a, indices[i], b]",
    Kind.SCATTER_ND: "output[indices[p]] = updates[p], all else is data",
    Kind.SCATTER_ELEMENTS: "output[p with indices[p] on axis] = updates[p], all else is data",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The rule that decides, in a short name and in words.

    Attributes
    ----------
    advice : str
        What to write instead, so that every runtime gives the same.
    indices : str
        The index values that lead to the element; empty where none do.
    decided : bool
        False where the specification leaves open what the value is.
    """

    rule: str
    text: str
    advice: str
    indices: str = ""
    decided: bool = True


def ruling(row: OperatorVersion, attributes: Mapping[str, Any], node: JudgedNode) -> Ruling:
    """Return what decides about a node whose value is not that of its specification."""
    refusal = node.refusal
    if isinstance(refusal, IndexOutOfBoundsError):
        return Ruling(
            rule="index range",
            text=f"an index out of range is an error: {refusal}",
            advice="clip the indices to their axis before the node, or choose by Where afterwards",
        )
    if refusal is not None:
        advice = "make the shapes fit before the node"
        if isinstance(refusal, DTypeError):
            advice = "Cast to a type that the version takes, or import a newer opset"
        return Ruling(rule=rule_of(refusal, "model"), text=str(refusal), advice=advice)
    if node.first is None or node.theirs is None or node.ours is None:
        return Ruling(
            rule="result",
            text=f"the result has the type of data and the shape that follows: "
            f"{None if node.ours is None else (str(node.ours.dtype), node.ours.shape)}",
            advice="declare the shape of the output, and Reshape or Cast after the node",
        )
    places = index_places(row, attributes, node.inputs, node.first)
    shown = "; ".join(
        f"indices[{', '.join(map(str, at))}] = {values[0] if len(values) == 1 else list(values)}"
        for at, values in places
    )
    return _about_value(row, attributes, node, places, shown)


def _about_value(
    row: OperatorVersion,
    attributes: Mapping[str, Any],
    node: JudgedNode,
    places: list[tuple[tuple[int, ...], tuple[int, ...]]],
    shown: str,
) -> Ruling:
    assert node.ours is not None
    assert node.first is not None
    reduction = attributes.get("reduction", "none")
    if row.kind.scatters and len(places) > 1 and reduction == "none":
        return Ruling(
            rule="duplicates",
            text="two indices name one element, and which update stays is not defined",
            advice="make the indices unique, or give the node a reduction",
            indices=shown,
            decided=False,
        )
    if any(value < 0 for _, values in places for value in values):
        return Ruling(
            rule="negative index",
            text="a negative index counts from the end of its axis",
            advice="add the size first: Where(indices < 0, indices + size, indices)",
            indices=shown,
        )
    value = node.ours[node.first]
    if node.ours.dtype.kind in "iu" and node.ours.dtype.itemsize == 8 and abs(int(value)) >= _WIDE:
        return Ruling(
            rule="wide integers",
            text="elements keep all 64 bits",
            advice="keep values below 2**31, or gather floats or two halves",
            indices=shown,
        )
    if value.dtype == np.float64 and node.theirs is not None:
        with np.errstate(over="ignore"):
            narrow = np.float32(value)
        if np.float32(node.theirs[node.first]) == narrow or not np.isfinite(narrow):
            return Ruling(
                rule="wide floats",
                text="elements keep all 64 bits, and the runtime computes in float32",
                advice="Cast to float32, so that every runtime computes alike",
                indices=shown,
            )
    if row.kind.scatters and reduction in {"min", "max"} and _any_nan(node):
        return Ruling(
            rule="NaN",
            text="the text does not say what min and max make of NaN",
            advice="replace NaN before the node",
            indices=shown,
            decided=False,
        )
    return Ruling(
        rule="definition",
        text=_DEFINITIONS[row.kind],
        advice="report it to the runtime with the inputs of this node",
        indices=shown,
    )


def _any_nan(node: JudgedNode) -> bool:
    return any(
        each.dtype.kind == "f" and bool(np.isnan(each).any())
        for each in (node.inputs[0], node.inputs[-1])
    )
