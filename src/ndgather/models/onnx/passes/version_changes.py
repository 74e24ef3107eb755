"""The changes between versions of ONNX operators.

``version_changes.toml`` lists the changes in each version. The functions in `DOWN` and `UP` handle
changes that the file cannot express. Any other step raises an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, helper
from onnx.defs import OpSchema

from ndgather import messages
from ndgather.errors import ModelError
from ndgather.models import Array
from ndgather.models.onnx.nodes import (
    attribute_value,
    constant_tensor,
    element_type,
    subgraphs,
    tensor_type,
)
from ndgather.models.onnx.passes.new_nodes import NewNodes
from ndgather.models.onnx.value_ranges import Interval, find_value_range, may_be_negative
from ndgather.published.schema import FLOATS, INTEGERS, TensorType

Step: TypeAlias = tuple[str, int]
"""The name of an operator and the newer of two consecutive versions."""

_FILE = tomllib.loads(
    files("ndgather.models.onnx.passes").joinpath("version_changes.toml").read_text("utf-8")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes in one operator version. ``version_changes.toml`` explains the fields."""

    added: Mapping[str, object] = field(default_factory=dict)
    removed: Mapping[str, object] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    negative: str = ""
    broadcasts: bool = False
    renamed: str = ""


CHANGES: dict[Step, Changes] = {
    (name, int(version)): Changes(**row)
    for version, rows in _FILE["step"].items()
    for names, row in rows.items()
    for name in names.split()
}
NOTHING = Changes()
TYPES = frozenset(
    (name, int(version)) for version, names in _FILE["types"].items() for name in names.split()
)
"""The steps in which only types changed."""


@dataclass(slots=True, kw_only=True)
class Rewrite(NewNodes):
    """A node that is being converted, with the nodes that its conversion adds.

    `schema` describes the current operator version. `first` is the name of the original operator.
    """

    node: NodeProto
    schema: OpSchema
    first: str = ""

    def cannot_become(self, target: OpSchema | int | str, why: str) -> ModelError:
        name = f"one of opset {target}" if isinstance(target, int) else target
        if not isinstance(name, str):
            name = f"{name.name}-{name.since_version}"
        title = f"{self.node.op_type}-{self.schema.since_version}"
        return messages.cannot_become(title, name, why)

    def get(self, name: str) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                return attribute_value(attribute)
        return default(self.schema, name)

    def set(self, name: str, value: object) -> None:
        self.remove(name)
        kind = AttributeProto.INTS if value == [] else None
        self.node.attribute.append(helper.make_attribute(name, value, attr_type=kind))

    def remove(self, name: str) -> None:
        for number in reversed(range(len(self.node.attribute))):
            if self.node.attribute[number].name == name:
                del self.node.attribute[number]

    def input(self, number: int) -> str:
        """Return the name of input `number`, or an empty string if this input is omitted."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def set_input(self, number: int, name: str) -> None:
        inputs = [*self.node.input, *[""] * (number + 1 - len(self.node.input))]
        inputs[number] = name
        while inputs and not inputs[-1]:
            inputs.pop()
        self.node.input[:] = inputs

    def input_constant(self, number: int) -> Array | None:
        return self.scope.constant(self.input(number))

    def type(self, number: int) -> TensorType:
        return self.scope.type_of(self.input(number))

    def rank(self, number: int) -> int | None:
        dims = self.type(number).dims
        return None if dims is None else len(dims)

    def dtype(self, number: int) -> str | None:
        return self.type(number).dtype

    def add_after(self, op_type: str, *inputs: str, **attributes: Any) -> None:
        """Insert a node after the first output of the current node."""
        output, before = self.node.output[0], self.new_name("before")
        self.node.output[0] = before
        self.scope.set_type(before, TensorType(self.scope.type_of(output).dtype))
        self.after.append(helper.make_node(op_type, (before, *inputs), [output], **attributes))


def default(schema: OpSchema, name: str) -> Any:
    attribute = schema.attributes.get(name)
    if attribute is None or not attribute.default_value.name:
        return None
    return attribute_value(attribute.default_value)


def is_exact_cast(source: str, target: str) -> bool:
    """Return whether a cast from `source` to `target` preserves all values."""
    for kind in (INTEGERS, FLOATS):
        if source in kind and target in kind:
            return bool(np.can_cast(source, target, "safe"))
    return source == target or (source == "bool" and target in (*INTEGERS, *FLOATS))


Change: TypeAlias = Callable[[Rewrite, OpSchema], None]


def _reduction_down(node: Rewrite, target: OpSchema) -> None:
    """Omit `axes` if it is empty, so that the older version also reduces all axes."""
    keep = node.get("noop_with_empty_axes")
    axes = node.input_constant(1) if node.input(1) else np.zeros(0, np.int64)
    node.remove("noop_with_empty_axes")
    if axes is None:
        raise node.cannot_become(target, "axes is not a constant")
    if axes.size == 0:
        node.set_input(1, "")
        if keep:
            unchanged = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
            if node.node.op_type not in unchanged:  # Other reductions change every element.
                raise node.cannot_become(target, "it has no noop_with_empty_axes, which is 1")
            del node.node.attribute[:]
            node.node.op_type = "Identity"


def _softmax_down(node: Rewrite, target: OpSchema) -> None:
    """Move the axis to the end, because the older version merges `axis` and all later axes."""
    rank = node.rank(0)
    if rank is None:
        raise node.cannot_become(target, "the rank of its input is not known")
    axis = node.get("axis") % max(rank, 1)
    node.set("axis", max(rank - 1, 0))
    if axis < rank - 1:
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        known = TensorType(node.dtype(0), (None,) * rank)
        node.set_input(0, node.add("Transpose", node.input(0), known=known, perm=order))
        node.add_after("Transpose", perm=order)


def _softmax_up(node: Rewrite, target: OpSchema) -> None:
    dims, axis, data, rank = node.type(0).dims, node.get("axis"), node.input(0), node.rank(0)
    node.set("axis", -1)
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        return
    # For a size of 0, Reshape copies the size of the same axis of the flattened input.
    copied = range(0 if rank is None or axis % rank == 0 else 1 + (axis % rank == 1))
    if dims is None or any(
        not isinstance(size, int) or not size
        for number, size in enumerate(dims)
        if number not in copied
    ):
        raise node.cannot_become(target, "a size of its input after the first may be 0")
    sizes = node.add("Shape", data)
    known = TensorType(node.dtype(0), (None, None))
    node.set_input(0, node.add("Flatten", data, known=known, axis=axis))
    node.add_after("Reshape", sizes)


def _split_up(node: Rewrite, target: OpSchema) -> None:
    if not node.input(1):
        node.set("num_outputs", len(node.node.output))


def _split_down(node: Rewrite, target: OpSchema) -> None:
    count = node.get("num_outputs")
    node.remove("num_outputs")
    if count is None or node.input(1):
        return
    dims, axis = node.type(0).dims, node.get("axis")
    size = None if dims is None else dims[axis]
    if not isinstance(size, int):
        raise node.cannot_become(target, "the size of the axis that is split is not known")
    sizes = [-(-size // count)] * (count - 1)
    if sum(sizes) > size:
        raise node.cannot_become(target, f"an axis of size {size} has fewer than {count} parts")
    node.set_input(1, node.constant([*sizes, size - sum(sizes)], "split"))


def _constant_down(node: Rewrite, target: OpSchema) -> None:
    tensor = constant_tensor(node.node)
    if tensor is None:
        raise node.cannot_become(target, "it is not a dense tensor of numbers")
    del node.node.attribute[:]
    node.set("value", tensor)


def _dropout_down(node: Rewrite, target: OpSchema) -> None:
    """Convert a Dropout in inference mode, whose output does not depend on the ratio."""
    _ONE_OUTPUT(node, target)
    training = node.input_constant(2) if node.input(2) else np.array(False)
    if training is None or training.any():
        raise node.cannot_become(target, "training_mode may be true")
    node.set_input(2, "")
    node.remove("seed")
    if node.input_constant(1) is None:
        node.set_input(1, "")


def _one_scale(node: Rewrite, target: OpSchema) -> None:
    dims = node.type(1).dims
    if dims is None or any(size != 1 for size in dims):
        raise node.cannot_become(target, "it supports a single scale only")
    node.remove("axis")


def _pow_down(node: Rewrite, target: OpSchema) -> None:
    base, exponent, value = node.dtype(0), node.dtype(1), node.input_constant(1)
    if base is None or exponent is None or base == exponent:
        return
    if value is not None and np.array_equal(value.astype(base).astype(exponent), value):
        node.set_input(1, node.constant(value, "exponent", base))
    elif is_exact_cast(exponent, base):
        known = replace(node.type(1), dtype=base)
        cast = node.add("Cast", node.input(1), known=known, to=element_type(base))
        node.set_input(1, cast)
    else:
        raise node.cannot_become(target, f"an exponent of {exponent} may not fit in {base}")


def _gemm_down(node: Rewrite, target: OpSchema) -> None:
    if not node.input(2):
        if node.dtype(0) is None:
            raise node.cannot_become(target, "the type of its input is not known")
        node.set_input(2, node.constant([0], "c", node.dtype(0)))


def _resize_to_11(node: Rewrite, target: OpSchema) -> None:
    if not node.input(1) and node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise node.cannot_become(target, "roi is omitted, which tf_crop_and_resize requires")
    for number in (1, 2):
        if not node.input(number):
            node.set_input(number, node.constant([], "none", np.float32))


def _rounding(node: Rewrite, target: OpSchema, number: int) -> str:
    """Return the rounding mode of version 10: "ceil" if an axis shrinks, and "floor" otherwise."""
    scales = node.input_constant(number)
    if node.first == "Upsample":  # Upsample never shrinks an axis.
        return "floor"
    if scales is None or scales.size == 0:
        raise node.cannot_become(target, "its scales are not constants")
    if (scales < 1).any() and (scales > 1).any():
        raise node.cannot_become(target, "one axis shrinks and another axis grows")
    return "ceil" if (scales < 1).any() else "floor"


def _resize_from_10(node: Rewrite, target: OpSchema) -> None:
    if node.get("mode") == "nearest":
        node.set("nearest_mode", _rounding(node, target, 1))
    node.node.input[:] = [node.input(0), node.constant([], "none", np.float32), node.input(1)]


def _resize_to_10(node: Rewrite, target: OpSchema) -> None:
    scales = node.input_constant(2)
    sizes = node.input_constant(3) if node.input(3) else np.zeros(0)
    if scales is None or scales.size == 0 or sizes is None or sizes.size:
        raise node.cannot_become(target, "its scales are not constants")
    rounds = node.get("nearest_mode")
    if node.get("mode") == "nearest" and rounds != _rounding(node, target, 2):
        raise node.cannot_become(target, f"it does not round like nearest_mode = {rounds!r}")
    node.remove("nearest_mode")
    node.node.input[:] = [node.input(0), node.input(2)]


def _pad_down(node: Rewrite, target: OpSchema) -> None:
    if not node.input(3):
        return
    axes, pads, rank = node.input_constant(3), node.input_constant(1), node.rank(0)
    if axes is None or pads is None or rank is None:
        raise node.cannot_become(
            target, "axes and pads are not constants, or the rank is not known"
        )
    of_all_axes = np.zeros((2, rank), np.int64)
    of_all_axes[:, axes] = pads.reshape(2, -1)
    node.set_input(3, "")
    node.set_input(1, node.constant(of_all_axes.reshape(-1), "pads"))


def _shape_down(node: Rewrite, target: OpSchema) -> None:
    start, end = node.get("start"), node.get("end")
    node.remove("start")
    node.remove("end")
    if start or end is not None:
        end = np.iinfo(np.int64).max if end is None else end
        node.add_after("Slice", *(node.constant([bound], "bound") for bound in (start, end)))


def _slice_down(node: Rewrite, target: OpSchema) -> None:
    steps = node.input_constant(4) if node.input(4) else np.ones(0)
    if steps is None or (steps != 1).any():
        raise node.cannot_become(target, "it does not support steps")
    node.set_input(4, "")


def _slice_axes_down(node: Rewrite, target: OpSchema) -> None:
    axes = _counted(node, target, "axes", 3)
    if axes is not None:
        node.set_input(3, node.constant(axes, "axes"))


def _dft_down(node: Rewrite, target: OpSchema) -> None:
    axis, rank = _counted(node, target, "axis", 2), node.rank(0)
    if axis is None and rank is None:
        raise node.cannot_become(target, "the rank of its input is not known")
    node.set_input(2, node.constant((rank or 0) - 2 if axis is None else axis, "axis"))


def _counted(node: Rewrite, target: OpSchema, name: str, number: int) -> Array | None:
    """Return the axes in an optional constant input as non-negative numbers."""
    if not node.input(number):
        return None
    axes, rank = node.input_constant(number), node.rank(0)
    if axes is None or ((axes < 0).any() and rank is None):
        raise node.cannot_become(target, f"{name} may be negative")
    return np.where(axes < 0, axes + (rank or 0), axes)


def _crossed(node: Rewrite) -> bool:
    """Return whether min may be greater than max, which the older version does not define."""
    most = np.array(np.finfo(np.float32).max)  # the default value of max
    low, high = (
        node.input_constant(number) if node.input(number) else left_out
        for number, left_out in ((1, -most), (2, most))
    )
    if low is None or high is None:
        return bool(node.input(1) and node.input(2))
    return not (low <= high).all()


def _different_shapes(node: Rewrite) -> bool:
    shapes = [
        [tensor_type(output.type).dims for output in graph.output] for graph in subgraphs(node.node)
    ]
    known = all(dims is not None and None not in dims for one in shapes for dims in one)
    return not known or shapes[1:] != shapes[:-1]


def _negative_scan(node: Rewrite) -> bool:
    axes = (node.get(f"scan_{key}_axes") for key in ("input", "output"))
    return any(axis < 0 for each in axes for axis in each or ())


def _shifts_all_bits(node: Rewrite) -> bool:
    bits = np.iinfo(node.dtype(0) or "int8").bits
    return not find_value_range(node.scope, node.input(1)).is_within(Interval(0, bits - 1))


def _windows_outside(node: Rewrite) -> bool:
    """Return whether the two versions may differ because a window starts beyond the input's end."""
    sizes = node.get("kernel_shape")
    steps = node.get("strides") or [1] * len(sizes)
    wide = all(step <= size for step, size in zip(steps, sizes, strict=True))
    return bool(node.get("ceil_mode") and (any(node.get("pads") or ()) or not wide))


def _extreme_down(comparison: str) -> Change:
    """Return a function that replaces Max or Min of integers with comparisons and Where."""

    def change(node: Rewrite, target: OpSchema) -> None:
        inputs = list(node.node.input)
        if node.dtype(0) not in INTEGERS or "" in inputs:
            return
        chosen, *others = inputs
        node.node.op_type = "Where" if others else "Identity"
        known, flags = TensorType(node.dtype(0)), TensorType("bool")
        for number, other in enumerate(others, 1):
            flag = node.add(comparison, chosen, other, known=flags)
            node.node.input[:] = flag, chosen, other
            if number < len(others):
                chosen = node.add("Where", *node.node.input, known=known)

    return change


def _reshape_down(node: Rewrite, target: OpSchema) -> None:
    """Drop allowzero if no size is 0, or if Reshape would copy the size 0 from the input."""
    sizes = node.input_constant(1)
    if sizes is not None:
        unused = bool(sizes.all())
    else:
        output, same = node.scope.type_of(node.node.output[0]).dims, node.type(0).dims or ()
        unused = output is not None and all(
            bool(size) and (isinstance(size, int) or same[axis : axis + 1] == (size,))
            for axis, size in enumerate(output)
        )
    if unused:
        node.remove("allowzero")


def _refuse(why: str, holds: Callable[[Rewrite], bool]) -> Change:
    """Return a function that raises ModelError if `holds` returns True."""

    def change(node: Rewrite, target: OpSchema) -> None:
        if holds(node):
            raise node.cannot_become(target, why)

    return change


def _by_step(changes: Mapping[str, Change]) -> dict[Step, Change]:
    """Split keys that contain several steps, such as ``"Clip-11 Clip-13"``."""
    named = (
        (step.split("-"), change) for steps, change in changes.items() for step in steps.split()
    )
    return {(name, int(version)): change for (name, version), change in named}


_ONE_OUTPUT = _refuse(
    "its outputs after the first differ there",  # outputs for training
    lambda node: sum(map(bool, node.node.output)) > 1,
)
_IN_ORDER = _refuse("min may be greater than max", _crossed)
_BOTH = {
    "AveragePool-22 LpPool-22 MaxPool-22": _refuse(
        "with ceil_mode, the two versions differ in the last window", _windows_outside
    ),
    "BatchNormalization-14 Dropout-10": _ONE_OUTPUT,
    "Clip-13": _IN_ORDER,
    "ConvTranspose-11": _refuse(
        "the two versions pad different sides (allowed: pads)",
        lambda node: node.get("output_shape") or node.get("auto_pad") not in {"NOTSET", "VALID"},
    ),
}
_REDUCTIONS = (f"{x}-{n}" for (x, n), row in CHANGES.items() if x[:6] == "Reduce" and row.moved)

DOWN = _by_step(
    _BOTH
    | {
        "BitShift-28": _refuse("it may shift by all bits or more", _shifts_all_bits),
        "Clip-11": _IN_ORDER,
        "Constant-12": _constant_down,
        "DFT-20": _dft_down,
        "DequantizeLinear-13 QuantizeLinear-13": _one_scale,
        "Dropout-12": _dropout_down,
        "Gather-11": _refuse(
            "an index may be negative", lambda node: may_be_negative(node.scope, node.input(1))
        ),
        "Gemm-11": _gemm_down,
        "GridSample-20": _refuse("it supports rank 4 only", lambda node: node.rank(0) != 4),
        "Hardmax-13 LogSoftmax-13 Softmax-13": _softmax_down,
        "If-11": _refuse("its branches may return different shapes", _different_shapes),
        "Max-12": _extreme_down("Greater"),
        "Min-12": _extreme_down("Less"),
        "Mod-28": _refuse(
            "it supports floats with fmod = 1 only",
            lambda node: not node.get("fmod") and "int" not in (node.dtype(0) or ""),
        ),
        "OneHot-11": _refuse(
            "an index may be negative, which is out of bounds there",
            lambda node: may_be_negative(node.scope, node.input(0)),
        ),
        "Pad-18": _pad_down,
        "Pow-12": _pow_down,
        "Reshape-14": _reshape_down,
        "Resize-11": _resize_to_10,
        "Resize-13": _resize_to_11,
        "Scan-11": _refuse("an axis is negative", _negative_scan),
        "Shape-15": _shape_down,
        "Slice-10": _slice_down,
        "Slice-11": _slice_axes_down,
        "Split-18": _split_down,
        " ".join(_REDUCTIONS): _reduction_down,
    }
)
"""Functions that convert a node to the older version, called before the tables are applied."""

UP = _by_step(
    _BOTH
    | {
        "Dropout-12": _ONE_OUTPUT,
        "Hardmax-11 LogSoftmax-11 Softmax-11": _refuse(
            "axis may be the rank of its input",  # Each element would be normalized separately.
            lambda node: node.get("axis") >= (node.rank(0) or 0),
        ),
        "Hardmax-13 LogSoftmax-13 Softmax-13": _softmax_up,
        "Resize-11": _resize_from_10,
        "Split-18": _split_up,
    }
)
"""Functions that convert a node to the newer version, called after the tables are applied."""
