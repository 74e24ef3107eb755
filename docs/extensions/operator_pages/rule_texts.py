"""The texts for rules on the operator pages; backticks enclose code."""

from __future__ import annotations

from ndgather.array_call import Kind
from ndgather.published.schema import (
    Attribute,
    AttributeRange,
    Choice,
    Input,
    Outside,
    Reduction,
    Role,
)

NONE = "none"

INPUTS = {
    (Kind.GATHER_ND, Role.DATA): "the array to read from",
    (Kind.GATHER_ND, Role.INDICES): "index tuples along the last axis",
    (Kind.GATHER_ELEMENTS, Role.DATA): "the array to read from",
    (Kind.GATHER_ELEMENTS, Role.INDICES): "an index for each element of the result",
    (Kind.GATHER, Role.DATA): "the array to read from",
    (Kind.GATHER, Role.INDICES): "the slices to copy",
    (Kind.SCATTER_ND, Role.DATA): "the array to copy and update",
    (Kind.SCATTER_ND, Role.INDICES): "index tuples along the last axis",
    (Kind.SCATTER_ND, Role.UPDATES): "an element or slice for each index tuple",
    (Kind.SCATTER_ELEMENTS, Role.DATA): "the array to copy and update",
    (Kind.SCATTER_ELEMENTS, Role.INDICES): "an index for each element of updates",
    (Kind.SCATTER_ELEMENTS, Role.UPDATES): "the elements to write",
}
OUTPUTS = {
    Kind.GATHER_ND: "the selected elements or slices",
    Kind.GATHER_ELEMENTS: "the selected elements, in the shape of indices",
    Kind.GATHER: "the selected slices",
    Kind.SCATTER_ND: "an updated copy of data",
    Kind.SCATTER_ELEMENTS: "an updated copy of data",
}
_SYMBOLS = "`p` is a position in `{}`, a tuple of coordinates; `*x` unpacks `x`, as in Python."
_TUPLE_SYMBOLS = _SYMBOLS.format("indices.shape[:-1]")
_ELEMENT_SYMBOLS = _SYMBOLS.format("indices")
SYMBOLS = {
    Kind.GATHER_ND: _TUPLE_SYMBOLS,
    Kind.GATHER_ELEMENTS: _ELEMENT_SYMBOLS,
    Kind.GATHER: "`o`, `p` and `s` are tuples of coordinates: on the axes of `data` before "
    "`axis`, on the axes of `indices` (after the batch axes), and on the axes of `data` after "
    "`axis`.",
    Kind.SCATTER_ND: _TUPLE_SYMBOLS,
    Kind.SCATTER_ELEMENTS: _ELEMENT_SYMBOLS,
}
# The formulas for each axis of data of rank 3.
BY_AXIS = {
    Kind.GATHER_ELEMENTS: (
        "output[i, j, k] = data[indices[i, j, k], j, k]",
        "output[i, j, k] = data[i, indices[i, j, k], k]",
        "output[i, j, k] = data[i, j, indices[i, j, k]]",
    ),
    Kind.SCATTER_ELEMENTS: (
        "output[indices[i, j, k], j, k] = updates[i, j, k]",
        "output[i, indices[i, j, k], k] = updates[i, j, k]",
        "output[i, j, indices[i, j, k]] = updates[i, j, k]",
    ),
}
ALIKE = {
    Kind.GATHER_ND: "`tf.gather_nd`",
    Kind.GATHER_ELEMENTS: "`torch.gather`, `np.take_along_axis`",
    Kind.GATHER: "`np.take`, `torch.index_select`, `tf.gather`",
    Kind.SCATTER_ND: "`tf.tensor_scatter_nd_update`",
    Kind.SCATTER_ELEMENTS: "`torch.scatter`, `np.put_along_axis`",
}
# Properties in the registry of a domain that all its operators here share.
REGISTERED = {
    "ai.onnx": (("function", "no"), ("support level", "common"), ("shape inference", "yes")),
    "com.microsoft": (),
    "openvino": (("category", "data movement"),),
}

NEGATIVE = {
    True: "`-s..s-1` on an axis of size `s`; negative values count from the end (-1 is the last)",
    False: "`0..s-1` on an axis of size `s`; negative values are out of bounds",
}
NEGATIVE_IN_SHORT = {True: "`-s..s-1`", False: "`0..s-1`"}
OUTSIDE = {
    Outside.RAISE: "an error",
    Outside.ZEROS: "zeros in the result",
    Outside.CLAMPED: "clamped to the nearest end of the axis",
    Outside.UNDEFINED: "undefined by the specification; this package raises an error",
}
OUTSIDE_IN_SHORT = {
    Outside.RAISE: "error",
    Outside.ZEROS: "zeros",
    Outside.CLAMPED: "clamped",
    Outside.UNDEFINED: "undefined",
}
REDUCTIONS = {
    Reduction.NONE: "the update replaces the element",
    Reduction.ADD: "element + update",
    Reduction.SUB: "element - update",
    Reduction.MUL: "element * update",
    Reduction.MIN: "the smaller of the two",
    Reduction.MAX: "the larger of the two",
    Reduction.MEAN: "the mean of the element and its updates",
}
ONE_ELEMENT_UPDATES = {
    True: "if this shape has rank 0, a single element of any rank is accepted",
    False: "exactly this shape",
}


def described(value: object) -> str:
    """Return the text for a value of a rule."""
    match value:
        case None | ():
            return NONE
        case tuple():
            return ", ".join(map(described, value))
        case str() if type(value) is str:
            return f"`{value}`"
        case Choice(word=word, reduction=reduction):
            return f"`{word}`" if word == reduction else f"`{word}` ({reduction})"
        case Input():
            return f"a tensor of one of {described(value.types)}"
        case Attribute():
            default = "required" if value.required else f"default {value.default}"
            values = "" if value.range is AttributeRange.FLAG else f", allowed: {allowed(value)}"
            return f"{value.type.value}, {default}{values}"
    return OUTSIDE[value] if isinstance(value, Outside) else str(value)


def allowed(attribute: Attribute) -> str:
    """Return the text for the allowed values of an attribute."""
    if attribute.choices or attribute.words:
        words = attribute.words or [choice.word for choice in attribute.choices]
        return ", ".join(f"`{word}`" for word in words)
    return attribute.range.value
