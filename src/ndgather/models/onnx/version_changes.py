"""Steps between versions of operators that take more than rows of data: a function for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ndgather.models.graph.node_conversion import is_exact_cast
from ndgather.models.onnx.op_nodes import constant_tensor
from ndgather.models.onnx.substitutes import reshape_to_zeros
from ndgather.models.onnx.type_protos import element_type
from ndgather.models.onnx.version_steps import REDUCTIONS, UNCHANGED_WITHOUT_AXES
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx.defs import OpSchema

    from ndgather.models.onnx.other_node import OtherNode
    from ndgather.models.onnx.version_steps import Step


def _reduction_down(node: OtherNode, target: OpSchema) -> None:
    """Without axes: over all of them, or none where the attribute says so."""
    noop, axes = node.get("noop_with_empty_axes"), node.input(1)
    known = node.values.value(axes) if axes else np.zeros(0, np.int64)
    if axes and known is None:
        raise node.refuse(target, "axes is not a constant")
    node.remove("noop_with_empty_axes")
    if known is not None and known.size == 0:
        node.set_input(1, "")
        if noop:
            if node.node.op_type not in UNCHANGED_WITHOUT_AXES:
                raise node.refuse(target, "it has no noop_with_empty_axes, which is 1")
            del node.node.attribute[:]
            node.node.op_type = "Identity"


def _softmax_down(node: OtherNode, target: OpSchema) -> None:
    """Have the axis be the last: the older version takes all axes from `axis` on as one."""
    rank = node.rank(0)
    if rank is None:
        raise node.refuse(target, "the rank of its input is not known")
    axis = node.get("axis") % max(rank, 1)
    node.set("axis", max(rank - 1, 0))
    if axis < rank - 1:
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        known = TensorType(node.dtype(0), (None,) * rank)
        node.set_input(0, node.put_before("Transpose", node.input(0), known=known, perm=order))
        node.pass_on("Transpose", perm=order)


def _softmax_up(node: OtherNode, target: OpSchema) -> None:
    rank = node.rank(0)
    axis = node.get("axis")
    node.set("axis", -1)
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        return
    given = node.input(0)
    sizes = node.put_before("Shape", given)
    known = TensorType(node.dtype(0), (None, None))
    node.set_input(0, node.put_before("Flatten", given, known=known, axis=axis))
    node.pass_on("Reshape", sizes)


def _split_up(node: OtherNode, target: OpSchema) -> None:
    if not node.input(1):
        node.set("num_outputs", len(node.node.output))


def _split_down(node: OtherNode, target: OpSchema) -> None:
    count = node.get("num_outputs")
    node.remove("num_outputs")
    if count is None or node.input(1):
        return
    shape, axis = node.values.type(node.input(0)).shape, node.get("axis")
    size = shape[axis] if isinstance(shape, tuple) else None
    if not isinstance(size, int):
        raise node.refuse(target, "the size of the axis that is split is not known")
    part = -(-size // count)
    parts = [part] * (count - 1)
    if sum(parts) > size:
        raise node.refuse(target, f"an axis of size {size} has no {count} such parts")
    node.set_input(1, node.constant(np.array([*parts, size - sum(parts)], np.int64), "split"))


def _constant_down(node: OtherNode, target: OpSchema) -> None:
    tensor = constant_tensor(node.node)
    if tensor is None:
        raise node.refuse(target, "it is no dense tensor of numbers")
    del node.node.attribute[:]
    node.set("value", tensor)


def _dropout_down(node: OtherNode, target: OpSchema) -> None:
    """Pass the input on, whatever the ratio: what is no training does nothing else."""
    _one_output(node, target)
    training = node.input(2)
    known = node.values.value(training) if training else np.array(False)
    if known is None or known.any():
        raise node.refuse(target, "training_mode may be true")
    node.set_input(2, "")
    node.remove("seed")
    if node.values.value(node.input(1)) is None:
        node.set_input(1, "")


def _one_scale(node: OtherNode, target: OpSchema) -> None:
    """Refuse scales along an axis, which the older version does not have."""
    shape = node.values.type(node.input(1)).shape
    if not isinstance(shape, tuple) or any(size != 1 for size in shape):
        raise node.refuse(target, "it has one scale alone")
    node.remove("axis")


def _pow_down(node: OtherNode, target: OpSchema) -> None:
    base, exponent = node.dtype(0), node.dtype(1)
    if base is None or exponent is None or base == exponent:
        return
    value = node.values.value(node.input(1))
    if value is not None and np.array_equal(value.astype(base).astype(exponent), value):
        node.set_input(1, node.constant(value.astype(base), "exponent"))
    elif is_exact_cast(exponent, base):
        known = TensorType(base, node.values.type(node.input(1)).shape)
        to = element_type(base)
        node.set_input(1, node.put_before("Cast", node.input(1), known=known, to=to))
    else:
        raise node.refuse(target, f"an exponent of {exponent} may not be one of {base}")


def _mod_down(node: OtherNode, target: OpSchema) -> None:
    dtype = node.dtype(0)
    if not node.get("fmod") and "int" not in (dtype or ""):
        raise node.refuse(target, "it takes floats with fmod = 1 alone")


def _gemm_down(node: OtherNode, target: OpSchema) -> None:
    dtype = node.dtype(0)
    if not node.input(2):
        if dtype is None:
            raise node.refuse(target, "the type of its input is not known")
        node.set_input(2, node.constant(np.zeros(1, dtype), "c"))


def _resize_to_11(node: OtherNode, target: OpSchema) -> None:
    """Write an empty list where the newer version takes nothing."""
    for place in (1, 2):
        if not node.input(place):
            node.set_input(place, node.constant(np.zeros(0, np.float32), "none"))


def _resize_from_10(node: OtherNode, target: OpSchema) -> None:
    node.node.input[:] = [
        node.input(0),
        node.constant(np.zeros(0, np.float32), "none"),
        node.input(1),
    ]


def _resize_to_10(node: OtherNode, target: OpSchema) -> None:
    scales = node.values.value(node.input(2))
    if scales is None or scales.size == 0:
        raise node.refuse(target, "its scales are not constants")
    node.node.input[:] = [node.input(0), node.input(2)]


def _pad_down(node: OtherNode, target: OpSchema) -> None:
    """Spell out the pads of all axes."""
    if not node.input(3):
        return
    axes, pads = (node.values.value(node.input(place)) for place in (3, 1))
    rank = node.rank(0)
    if axes is None or pads is None or rank is None:
        raise node.refuse(target, "axes and pads are not constants, or the rank is not known")
    spelled = np.zeros((2, rank), np.int64)
    spelled[:, axes] = pads.reshape(2, -1)
    node.set_input(3, "")
    node.set_input(1, node.constant(spelled.reshape(-1), "pads"))


def _shape_down(node: OtherNode, target: OpSchema) -> None:
    """Cut a part out of all sizes."""
    start, end = node.get("start"), node.get("end")
    node.remove("start")
    node.remove("end")
    if start or end is not None:
        bounds = (start, np.iinfo(np.int64).max if end is None else end)
        first, last = (node.constant(np.array([each], np.int64), "bound") for each in bounds)
        node.pass_on("Slice", first, last)


def _grid_down(node: OtherNode, target: OpSchema) -> None:
    if node.rank(0) != 4:
        raise node.refuse(target, "it takes four axes alone")


def _one_output(node: OtherNode, target: OpSchema) -> None:
    """Refuse outputs of training, and those that depend on it."""
    if len([name for name in node.node.output if name]) > 1:
        raise node.refuse(target, "its outputs after the first are not the same there")


def _reshape_down(node: OtherNode, target: OpSchema) -> None:
    """Drop what a 0 stands for where none can be among the sizes, or both say the same.

    Where that is not known, a run chooses.

    A size of the input itself, at its own place, may be 0: to copy it gives 0 as well.
    """
    sizes = node.values.value(node.input(1))
    if sizes is not None:
        plain = bool(sizes.all())
    else:
        shapes = [node.values.type(name).shape for name in (node.node.output[0], node.input(0))]
        result, data = (each if isinstance(each, tuple) else () for each in shapes)
        same = [place < len(data) and data[place] == size for place, size in enumerate(result)]
        plain = isinstance(shapes[0], tuple) and all(
            bool(size) and (isinstance(size, int) or kept)
            for size, kept in zip(result, same, strict=True)
        )
    if not node.get("allowzero") or plain:
        node.remove("allowzero")
    else:
        reshape_to_zeros(node, target)


DOWN: dict[Step, Callable[[OtherNode, OpSchema], None]] = {
    ("BatchNormalization", 14): _one_output,
    ("Constant", 12): _constant_down,
    ("DequantizeLinear", 13): _one_scale,
    ("Dropout", 12): _dropout_down,
    ("Gemm", 11): _gemm_down,
    ("GridSample", 20): _grid_down,
    ("Hardmax", 13): _softmax_down,
    ("LogSoftmax", 13): _softmax_down,
    ("Mod", 28): _mod_down,
    ("Pad", 18): _pad_down,
    ("Pow", 12): _pow_down,
    ("QuantizeLinear", 13): _one_scale,
    ("Reshape", 14): _reshape_down,
    ("Resize", 11): _resize_to_10,
    ("Resize", 13): _resize_to_11,
    ("Shape", 15): _shape_down,
    ("Softmax", 13): _softmax_down,
    ("Split", 18): _split_down,
    **{(name, 13 if name == "ReduceSum" else 18): _reduction_down for name in REDUCTIONS},
}
"""What is done on the way to the older version, before attributes and inputs go by the rows."""

UP: dict[Step, Callable[[OtherNode, OpSchema], None]] = {
    ("BatchNormalization", 14): _one_output,
    ("Dropout", 12): _one_output,
    ("Hardmax", 13): _softmax_up,
    ("LogSoftmax", 13): _softmax_up,
    ("Resize", 11): _resize_from_10,
    ("Softmax", 13): _softmax_up,
    ("Split", 18): _split_up,
}
"""What is done on the way to the newer version, after attributes and inputs went by the rows."""
