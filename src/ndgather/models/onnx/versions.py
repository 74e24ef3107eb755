"""A node of another operator from one version of ONNX to the next, until it is of the target.

Each step goes by the rows of `version_steps` and the functions of `version_changes`; without
either, the two versions have to differ in types only. Anything else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import (
    IR_VERSION,
    FunctionProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    shape_inference,
    version_converter,
)
from onnx.defs import OpSchema, SchemaError

from ndgather.errors import DTypeError, ModelError, NdgatherError, conversion_errors, run_errors
from ndgather.models.graph import unique
from ndgather.models.graph.conversion import is_exact_cast
from ndgather.models.onnx.nodes import (
    Scope,
    attribute_value,
    constant_tensor,
    declaration,
    element_type,
    implementation,
    is_published,
    nodes_within,
    opsets,
    row_domain,
    schema_type,
    subgraphs,
    tensor_type,
)
from ndgather.models.onnx.replacements import (
    OF_INTEGERS,
    SUBSTITUTES,
    OtherNode,
    Values,
    reshape_to_zeros,
)
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def refuse_types(node: OtherNode, before: OpSchema, opset: int) -> None:
    """Refuse a node whose values have types that its operator does not take or give.

    `before` is the schema that the node came with.
    """
    bound: dict[str, str] = {}
    for formal, name in _values(node):
        dtype = node.values.type(name).dtype
        if dtype is None:
            first = _same(before, formal)
            if formal.type_str not in bound and not (first and first.types <= formal.types):
                raise conversion_errors.other_type_unknown(name, opset)
            continue
        kind = schema_type(dtype)
        if kind not in formal.types:
            raise conversion_errors.other_type(name, dtype, opset)
        if formal.is_homogeneous and bound.setdefault(formal.type_str, kind) != kind:
            raise conversion_errors.other_types(name, dtype, bound[formal.type_str])


def _values(node: OtherNode) -> Iterator[tuple[OpSchema.FormalParameter, str]]:
    """Yield what a node reads and gives, each with what the schema says of it."""
    pairs = ((node.schema.inputs, node.node.input), (node.schema.outputs, node.node.output))
    for formals, names in pairs:
        for place, name in enumerate(names):
            if name and formals:
                yield formals[min(place, len(formals) - 1)], name


def _same(schema: OpSchema, formal: OpSchema.FormalParameter) -> OpSchema.FormalParameter | None:
    both = (*schema.inputs, *schema.outputs)
    return next((each for each in both if each.name == formal.name), None)


Step: TypeAlias = tuple[str, int]

ABSENT = None
"""An attribute that has no value with which the newer version does what the older does."""

ONES = (1,)
"""A list of any length, of ones alone."""

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
REDUCTIONS = frozenset((*(f"Reduce{name}" for name in _REDUCTIONS), "ReduceSum"))

UNCHANGED_WITHOUT_AXES = frozenset(
    {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
)
"""Reductions that over no axes are their input; the others do something to each element."""

ADDED: dict[Step, dict[str, object]] = {
    ("ArgMax", 12): {"select_last_index": 0},
    ("ArgMin", 12): {"select_last_index": 0},
    ("AveragePool", 7): {"count_include_pad": 0},
    ("AveragePool", 10): {"ceil_mode": 0},
    ("AveragePool", 19): {"dilations": ONES},
    ("BatchNormalization", 14): {"training_mode": 0},
    ("Cast", 19): {"saturate": 1},
    ("Cast", 24): {"round_mode": "up"},
    ("CastLike", 19): {"saturate": 1},
    ("CastLike", 24): {"round_mode": "up"},
    ("Constant", 11): {"sparse_value": ABSENT},
    ("Constant", 12): {},
    ("DepthToSpace", 11): {"mode": "DCR"},
    ("DequantizeLinear", 13): {},
    ("DequantizeLinear", 21): {"block_size": 0},
    ("DequantizeLinear", 23): {"output_dtype": 0},
    ("Dropout", 12): {},
    ("GRU", 14): {"layout": 0},
    ("LSTM", 14): {"layout": 0},
    ("RNN", 14): {"layout": 0},
    ("LpPool", 18): {"ceil_mode": 0, "dilations": ONES},
    ("MaxPool", 8): {"storage_order": 0},
    ("MaxPool", 10): {"ceil_mode": 0, "dilations": ONES},
    ("QuantizeLinear", 13): {},
    ("QuantizeLinear", 19): {"saturate": 1},
    ("QuantizeLinear", 21): {"block_size": 0, "output_dtype": 0},
    ("QuantizeLinear", 23): {"precision": 0},
    ("Range", 27): {"stash_type": 1},
    ("Reshape", 14): {"allowzero": 0},
    ("Resize", 11): {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
        "exclude_outside": 0,
        "cubic_coeff_a": -0.75,
        "extrapolation_value": 0.0,
    },
    ("Resize", 18): {
        "antialias": 0,
        "axes": ABSENT,
        "keep_aspect_ratio_policy": "stretch",
    },
    ("RoiAlign", 16): {"coordinate_transformation_mode": "output_half_pixel"},
    ("Shape", 15): {"start": 0, "end": ABSENT},
    ("SpaceToDepth", 28): {"mode": "DCR"},
    ("Split", 18): {},
    ("TopK", 11): {"largest": 1, "sorted": 1},
    **{(name, 13 if name == "ReduceSum" else 18): {} for name in sorted(REDUCTIONS)},
}
"""Attributes that came, each with its value that says what the older version does without it.

Those of a step that are not named are the business of a change in `version_changes`.
"""

REMOVED: dict[Step, dict[str, object]] = {
    ("BatchNormalization", 9): {"spatial": 1},
}
"""Attributes that went, each with its value that says what the newer version does without it."""

MOVED: dict[Step, dict[str, int]] = {
    ("Clip", 11): {"min": 1, "max": 2},
    ("DFT", 20): {"axis": 2},
    ("Dropout", 12): {"ratio": 1},
    ("Pad", 11): {"pads": 1, "value": 2},
    ("Slice", 10): {"starts": 1, "ends": 2, "axes": 3},
    ("Split", 13): {"split": 1},
    ("Squeeze", 13): {"axes": 1},
    ("TopK", 10): {"k": 1},
    ("Unsqueeze", 13): {"axes": 1},
    ("Upsample", 9): {"scales": 1},
    **{(name, 13 if name == "ReduceSum" else 18): {"axes": 1} for name in sorted(REDUCTIONS)},
}
"""Attributes that became inputs, each with the place of the input."""

LISTS = frozenset({("TopK", "k")})
"""Numbers that stand as lists of one where they are inputs."""

WORDS: dict[tuple[str, int, str], dict[str, str | None]] = {
    ("GridSample", 20, "mode"): {"bilinear": "linear", "bicubic": "cubic"},
}
"""Words of an attribute that changed, the older first."""

NEW_WORDS: dict[tuple[str, int, str], frozenset[str]] = {
    ("Pad", 19, "mode"): frozenset({"wrap"}),
    ("Resize", 19, "coordinate_transformation_mode"): frozenset({"half_pixel_symmetric"}),
}
"""Words of an attribute that only the newer version has."""

OLD_WORDS: dict[tuple[str, int, str], frozenset[str]] = {
    ("Resize", 13, "coordinate_transformation_mode"): frozenset({"tf_half_pixel_for_nn"}),
}
"""Words of an attribute that only the older version has."""

COUNTED_FROM_THE_END: dict[Step, str] = {
    **{(name, 11): "axis" for name in ("ArgMax", "ArgMin", "Compress", "Concat", "Flatten")},
    **{(name, 11): "axis" for name in ("Hardmax", "LogSoftmax", "Softmax", "Split", "OneHot")},
    **{(name, 11): "axes" for name in ("Squeeze", "Unsqueeze", *sorted(REDUCTIONS))},
}
"""Axes that only the newer version lets count from the end."""

BROADCAST: frozenset[Step] = frozenset((name, 8) for name in ("Max", "Mean", "Min", "Sum"))
"""Operators whose inputs have to be of one shape in the older version."""

RENAMED: dict[Step, str] = {
    ("Scatter", 11): "ScatterElements",
    ("Upsample", 10): "Resize",
}
"""Operators that go on under another name."""

OLDEST = 7
"""The oldest opset whose operators are known here; `onnx_adapters` lead to it from older ones."""


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


def schema_of(op_type: str, opset: int) -> OpSchema | None:
    """Return what an opset says of an operator; None where it has none."""
    try:
        schema = defs.get_schema(op_type, opset, "")
    except (SchemaError, TypeError):  # the second: a version beyond 32 bits
        return None
    return None if schema.deprecated else schema


@cache
def _versions(op_type: str) -> tuple[int, ...]:
    found = (each for each in defs.get_all_schemas_with_history() if each.domain == "")
    return tuple(sorted(each.since_version for each in found if each.name == op_type))


def walk(node: OtherNode, opset: int) -> None:
    """Bring a node to the version that `opset` has.

    Raises
    ------
    NdgatherError
        The target cannot say it; the text says why.
    """
    came = node.schema
    while True:
        name, here = node.node.op_type, node.schema.since_version
        target = schema_of(name, opset)
        newer = min((each for each in _versions(name) if each > here), default=0)
        if opset > here and (name, newer) in RENAMED:
            node.node.op_type = RENAMED[name, newer]
            node.schema = defs.get_schema(node.node.op_type, newer, "")
        elif target is None and opset > here and newer:
            _step_up(node, defs.get_schema(name, newer, ""))
        elif target is None and opset < here and name in SUBSTITUTES:
            SUBSTITUTES[name](node, opset)
        elif target is None:
            raise node.refuse(opset, "there is no such operator")
        elif target.since_version > here:
            _step_up(node, defs.get_schema(name, newer, ""))
        elif target.since_version < here:
            older = max(each for each in _versions(name) if each < here)
            _step_down(node, defs.get_schema(name, older, ""))
        else:
            break
    if node.schema is came:
        return
    try:
        refuse_types(node, came, opset)
    except DTypeError:
        if node.node.op_type not in OF_INTEGERS:
            raise
        OF_INTEGERS[node.node.op_type](node, opset)
        walk(node, opset)


def _step_down(node: OtherNode, target: OpSchema) -> None:
    step = (node.node.op_type, node.schema.since_version)
    _refuse_unknown(node, target, step)
    for name in _other_defaults(node.schema, target):
        if not node.has(name) and node.get(name) is not None:
            node.set(name, node.get(name))
    if step in DOWN:
        DOWN[step](node, target)
        if node.node.op_type != step[0]:
            node.schema = defs.get_schema(node.node.op_type, step[1], "")
            return
    if step in BROADCAST:
        shapes = [node.values.type(name).shape for name in node.node.input]
        if any(not isinstance(each, tuple) or None in each or each != shapes[0] for each in shapes):
            raise node.refuse(target, "its inputs may be of different shapes")
    if step in COUNTED_FROM_THE_END:
        _count_axes(node, target, COUNTED_FROM_THE_END[step])
    for name, neutral in ADDED.get(step, {}).items():
        value = node.get(name)
        ones = neutral == ONES and set(value or ONES) == {1}
        if not ones and value != neutral:
            raise node.refuse(target, f"it has no {name}, which is {value!r}")
        node.remove(name)
    _words(node, target, step, down=True)
    for name, place in MOVED.get(step, {}).items():
        if node.input(place):
            node.set(name, _attribute(node, target, name, place))
    if step in MOVED:
        first = min(MOVED[step].values())
        del node.node.input[first:]
    _arrive(node, target)


def _step_up(node: OtherNode, target: OpSchema) -> None:
    step = (node.node.op_type, target.since_version)
    _refuse_unknown(node, target, step)
    for name in _other_defaults(node.schema, target):
        if not node.has(name) and node.get(name) is not None:
            node.set(name, node.get(name))
    for name, neutral in REMOVED.get(step, {}).items():
        if node.get(name) not in {neutral, None}:
            raise node.refuse(target, f"it has no {name}, which is {node.get(name)!r}")
        node.remove(name)
    for name, place in MOVED.get(step, {}).items():
        value = node.get(name)
        node.remove(name)
        if value is not None:
            node.set_input(place, _input(node, target, name, place, value))
    for name, neutral in ADDED.get(step, {}).items():
        added = target.attributes[name]
        if neutral not in {ABSENT, ONES} and _default(added) != neutral:
            node.set(name, neutral)
    _words(node, target, step, down=False)
    if step in UP:
        UP[step](node, target)
    _arrive(node, target)


def _refuse_unknown(node: OtherNode, target: OpSchema, step: Step) -> None:
    """Refuse a step of which nothing is known, although more than types changed."""
    pair = (node.schema, target)
    older, newer = sorted(pair, key=lambda schema: schema.since_version)
    came = newer.attributes.keys() - older.attributes.keys()
    went = older.attributes.keys() - newer.attributes.keys()
    known = set(ADDED.get(step, ())) if step in ADDED else set()
    said = step in ADDED and (step in DOWN or known >= came)
    gone = set(MOVED.get(step, ())) | set(REMOVED.get(step, ()))
    if (came and not said) or not gone >= went:
        changed = ", ".join(sorted((came if not said else set()) | (went - gone)))
        raise node.refuse(target, f"{changed} changed, and no way between the two is known")


def _other_defaults(first: OpSchema, second: OpSchema) -> list[str]:
    both = first.attributes.keys() & second.attributes.keys()
    return [
        name
        for name in both
        if _default(first.attributes[name]) != _default(second.attributes[name])
    ]


def _default(attribute: OpSchema.Attribute) -> Any:
    value = attribute.default_value
    return attribute_value(value) if value.name else None


def _words(node: OtherNode, target: OpSchema, step: Step, *, down: bool) -> None:
    foreign = NEW_WORDS if down else OLD_WORDS
    for (op_type, version, name), words in foreign.items():
        if (op_type, version) == step and node.get(name) in words:
            raise node.refuse(target, f"it has no {name} {node.get(name)!r}")
    for (op_type, version, name), renamed in WORDS.items():
        if (op_type, version) == step:
            back = {new: old for old, new in renamed.items()} if down else renamed
            word = node.get(name)
            node.set(name, back.get(word, word))


def _count_axes(node: OtherNode, target: OpSchema, name: str) -> None:
    """Count axes from the front."""
    given = node.get(name)
    axes = given if isinstance(given, list) else [given]
    if given is None or all(axis >= 0 for axis in axes):
        return
    rank = node.rank(0)
    if rank is None:
        raise node.refuse(target, f"{name} counts from the end, and the rank is not known")
    if node.node.op_type == "Unsqueeze":
        rank += len(axes)
    if node.node.op_type == "OneHot":
        rank += 1
    if rank < max(-axis for axis in axes):
        raise node.refuse(target, f"{name} = {given!r} is outside {rank} axes")
    counted = [axis % rank for axis in axes]
    node.set(name, counted if isinstance(given, list) else counted[0])


def _attribute(node: OtherNode, target: OpSchema, name: str, place: int) -> Any:
    """Return what an input holds as the attribute that it is in the older version."""
    value = node.values.value(node.input(place))
    if value is None:
        raise node.refuse(target, f"{name} is not a constant")
    kind = target.attributes[name].type
    if kind == OpSchema.AttrType.FLOAT:
        single = np.float32(value.reshape(-1)[0]) if value.size else None
        if single is None or single != value.reshape(-1)[0]:
            raise node.refuse(target, f"{name} = {value} is no number of 32 bits")
        return float(single)
    if kind == OpSchema.AttrType.FLOATS:
        return [float(each) for each in value.reshape(-1)]
    numbers = [int(each) for each in value.reshape(-1)]
    return numbers[0] if kind == OpSchema.AttrType.INT else numbers


def _input(node: OtherNode, target: OpSchema, name: str, place: int, value: Any) -> str:
    """Return a constant that holds what was an attribute in the older version."""
    dtype: Any = np.int64
    if isinstance(value, float) or (isinstance(value, list) and isinstance(value[0], float)):
        formal, first = target.inputs[place].type_str, target.inputs[0].type_str
        dtype = np.float32
        if formal == first:
            known = node.dtype(0)
            if known is None:
                raise node.refuse(target, "the type of its input is not known")
            dtype = known
    if (node.node.op_type, name) in LISTS:
        value = [value]
    return node.constant(np.array(value, dtype), name)


def _arrive(node: OtherNode, target: OpSchema) -> None:
    """Take a node for one of the target, which has to have its attributes and inputs."""
    for each in node.node.attribute:
        if each.name not in target.attributes:
            raise node.refuse(target, f"it has no {each.name}")
    count = len(node.node.input)
    required = [each.option == OpSchema.FormalParameterOption.Single for each in target.inputs]
    if count > target.max_input or len(node.node.output) > target.max_output:
        raise node.refuse(target, "it has fewer inputs or outputs")
    for place, needed in enumerate(required):
        if needed and not node.input(place):
            raise node.refuse(target, f"it needs {target.inputs[place].name}, which is left out")
    node.schema = target


def from_oldest(model: ModelProto, opset: int | None) -> ModelProto:
    """Return a model that imports no opset older than `OLDEST`, where it is to have a newer one.

    Raises
    ------
    ModelError
        onnx cannot convert it, or the target is older while the model is not.
    """
    source = opsets(model.opset_import).get(DEFAULT_DOMAIN, OLDEST)
    if opset is None or opset == source:
        return model
    if opset < OLDEST:
        raise conversion_errors.not_converted_to(opset, OLDEST)
    if source >= OLDEST:
        return model
    try:
        converted = version_converter.convert_version(model, OLDEST)
    except Exception as error:  # it has errors of several kinds
        raise conversion_errors.invalid_result(error) from error
    for before, after in zip(model.graph.output, converted.graph.output, strict=True):
        after.CopyFrom(before)  # it forgets types, and declares values without any
    del converted.graph.value_info[:]
    return converted


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """Nodes of `opset`, and the types of the values between them."""

    nodes: list[NodeProto]
    opset: int
    types: dict[str, TensorType]


def function_of(
    node: NodeProto, values: Values, opset: int, target: int, taken: set[str]
) -> Function | None:
    """Return the function of the node, in the opset nearest to the target; None without one."""
    schema = defs.get_schema(node.op_type, opset, "")
    if not _is_valid(node, opset):
        return None  # onnx believes what it reads
    body, version = _body(schema, node, values, opset, target)
    if body is None:
        return None
    names = dict(zip(body.input, node.input, strict=False))
    names |= dict.fromkeys(body.input[len(node.input) :], "")
    names |= dict(zip(body.output, node.output, strict=False))
    first = next(filter(None, node.output), node.op_type)
    for each in body.node:
        for name in filter(None, each.output):
            if not names.get(name):
                names[name] = unique(f"{first}_{name}", taken)
    nodes = [_placed(each, node, schema, names) for each in body.node]
    return Function(nodes=nodes, opset=version, types=_types(nodes, node, values, version))


def _is_valid(node: NodeProto, opset: int) -> bool:
    context = checker.C.CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = {"": opset}
    try:
        checker.check_node(node, context)
    except (checker.ValidationError, ValueError):
        return False
    return True


def _body(
    schema: OpSchema, node: NodeProto, values: Values, opset: int, target: int
) -> tuple[FunctionProto | None, int]:
    facts: Any = schema  # which the stubs of onnx do not know all of
    depends = facts.has_context_dependent_function
    given = [values.type(name) for name in node.input]
    if depends and any(
        name and not known.dtype for name, known in zip(node.input, given, strict=True)
    ):
        return None, 0  # onnx believes that there is a type
    versions = (
        facts.context_dependent_function_opset_versions
        if depends
        else facts.function_opset_versions
    )
    known = sorted(each for each in versions if each <= opset)
    if not known:
        return None, 0
    version = max((each for each in known if each <= target), default=known[0])
    if not depends:
        content = facts.get_function_with_opset_version(version)
    else:
        types = [declaration(known).SerializeToString() for known in given]
        content = facts.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
    body = FunctionProto.FromString(content) if content else None
    if body is None or not body.node:
        return None, 0
    imported = [each.version for each in body.opset_import if each.domain == ""]
    return body, max(imported, default=version)


def _placed(
    inner: NodeProto, node: NodeProto, schema: OpSchema, names: dict[str, str]
) -> NodeProto:
    """Return a node of the function as it stands in the graph, with the attributes of the call."""
    placed = NodeProto()
    placed.CopyFrom(inner)
    placed.input[:] = [names.get(name, name) for name in inner.input]
    placed.output[:] = [names.get(name, name) for name in inner.output]
    placed.name = placed.output[0]
    del placed.attribute[:]
    given = {each.name: each for each in node.attribute}
    for attribute in inner.attribute:
        value = attribute
        if attribute.ref_attr_name:
            default = schema.attributes[attribute.ref_attr_name].default_value
            value = given.get(attribute.ref_attr_name, default)
            if not value.name:
                continue
        copy = placed.attribute.add()
        copy.CopyFrom(value)
        copy.name = attribute.name
    return placed


def _types(
    nodes: list[NodeProto], node: NodeProto, values: Values, opset: int
) -> dict[str, TensorType]:
    inputs = [
        ValueInfoProto(name=name, type=declaration(values.type(name)))
        for name in dict.fromkeys(node.input)
        if name
    ]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph(nodes, "function", inputs, outputs),
        opset_imports=[helper.make_opsetid("", opset)],
    )
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return {}
    return {each.name: tensor_type(each.type) for each in (*inferred.value_info, *inferred.output)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNodes:
    """Converts nodes to the version `opset`; `taken` are the names of values that are in use."""

    opset: int
    taken: set[str]

    def converted(self, node: NodeProto, values: Values, opset: int) -> list[NodeProto]:
        """Return the nodes that do in the target what `node` does in `opset`.

        Raises
        ------
        NdgatherError
            There are none; the text says why.
        """
        if row_domain(node.domain) != DEFAULT_DOMAIN or opset == self.opset:
            return [node]
        schema = schema_of(node.op_type, opset)
        if schema is None:
            raise conversion_errors.no_operator(node.op_type, opset)
        copy = NodeProto.FromString(node.SerializeToString())
        other = OtherNode(node=copy, schema=schema, values=values, taken=self.taken)
        try:
            walk(other, self.opset)
        except NdgatherError as refusal:
            return self._function(node, values, opset, refusal)
        return [*other.before, other.node, *other.after]

    def _function(
        self, node: NodeProto, values: Values, opset: int, refusal: NdgatherError
    ) -> list[NodeProto]:
        function = function_of(node, values, opset, self.opset, self.taken)
        if function is None:
            raise refusal
        within = replace(values, made={**values.made, **function.types})
        result: list[NodeProto] = []
        for each in function.nodes:
            within.see(each)
            try:
                if any(True for _ in subgraphs(each)):
                    raise ModelError(f"{each.op_type} has graphs in it")
                result += self.converted(each, within, function.opset)
            except NdgatherError as error:
                raise conversion_errors.function_refused(refusal, error) from error
        return result


def with_one_version(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy of it whose functions all import its opset.

    Raises
    ------
    ModelError
        A node of a function is not the same there; the text names it.
    """
    wanted = opsets(model.opset_import).get(DEFAULT_DOMAIN)
    others = [_opset(each) not in {wanted, None} for each in model.functions]
    if wanted is None or not any(others):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for function, other in zip(copy.functions, others, strict=True):
        if other:
            _convert(function, wanted)
    return copy


def _opset(function: FunctionProto) -> int | None:
    return opsets(function.opset_import).get(DEFAULT_DOMAIN)


def _convert(function: FunctionProto, opset: int) -> None:
    here = _opset(function) or opset
    scope = Scope(function, opsets(function.opset_import))
    taken = {*function.input, *(name for node in function.node for name in node.output)}
    others = OtherNodes(opset=opset, taken=taken)
    values = Values(type_of=scope.type_of, constant=scope.constant)
    converted: list[NodeProto] = []
    for node in function.node:
        own = [inner for inner in nodes_within(node) if is_published(inner)]
        if len([*nodes_within(node)]) > 1 or any(_differs(each, here, opset) for each in own):
            raise conversion_errors.function_stays(function.domain, function.name)
        try:
            converted += [node] if own else others.converted(node, values, here)
        except NdgatherError as error:
            gives = next(iter(node.output), "")
            raise run_errors.in_node(error, node.name, node.op_type, gives) from error
    copies = [NodeProto.FromString(node.SerializeToString()) for node in converted]
    del function.node[:]
    function.node.extend(copies)
    for each in function.opset_import:
        if row_domain(each.domain) == DEFAULT_DOMAIN:
            each.version = opset


def _differs(node: NodeProto, here: int, there: int) -> bool:
    domain = row_domain(node.domain)
    if domain != DEFAULT_DOMAIN:
        return False
    first, second = (implementation(node.op_type, domain, each) for each in (here, there))
    return first.row is not second.row
