"""What the versions of the operators of ONNX change, as data, and as functions on nodes.

``steps.toml`` lists what a version changed. The functions in `DOWN` and `UP` do what it cannot say,
and those in `FUNCTIONS` express an operator that a version does not have by others. A step that is
in none of them is refused.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from ndgather import messages
from ndgather.models.graph import unique
from ndgather.models.graph.conversion import is_exact_cast
from ndgather.models.onnx.domains import Domain, domain_of, may_be_negative
from ndgather.models.onnx.nodes import (
    attribute_value,
    constant_tensor,
    element_type,
    subgraphs,
    tensor_type,
)
from ndgather.published.schema import INTEGERS, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx.defs import OpSchema

    from ndgather.errors import ModelError
    from ndgather.models import Array
    from ndgather.models.onnx.nodes import Scope

Step: TypeAlias = tuple[str, int]
"""An operator, and the newer one of the two versions that a step leads between."""

_FILE = tomllib.loads(files("ndgather.models.onnx").joinpath("steps.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a version of some operators changed; ``steps.toml`` explains the fields."""

    operators: Sequence[str] = ()
    version: int = 0
    added: Mapping[str, object] = field(default_factory=dict)
    removed: Mapping[str, object] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    negative: str = ""
    broadcasts: bool = False
    renamed: str = ""


CHANGES: dict[Step, Changes] = {
    (name, changes.version): changes
    for changes in (Changes(**row) for row in _FILE["step"])
    for name in changes.operators
}
NOTHING = Changes()
TYPES = frozenset(
    (name, int(version)) for version, names in _FILE["types"].items() for name in names.split()
)
"""The steps that changed nothing but types."""


_UNKNOWN = TensorType()


@dataclass(slots=True, kw_only=True)
class NewNodes:
    """Nodes that are added before and after one node, with names that begin with `prefix`.

    Their types and constants are added to `scope`. `taken` are the names of values that are in use.
    """

    scope: Scope
    taken: set[str]
    prefix: str
    before: list[NodeProto] = field(default_factory=list)
    after: list[NodeProto] = field(default_factory=list)

    def new_name(self, hint: str) -> str:
        return unique(f"{self.prefix}_{hint}", self.taken)

    def add(
        self,
        op_type: str,
        *inputs: str,
        known: TensorType = _UNKNOWN,
        hint: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node whose output has the type `known`, and return the name of the output."""
        output = self.new_name(hint or op_type.lower())
        node = helper.make_node(op_type, inputs, [output], output, **attributes)
        self.before.append(node)
        self.scope.set_type(output, known)
        self.scope.add(node)
        return output

    def constant(self, values: object, hint: str = "constant", dtype: Any = np.int64) -> str:
        array = numpy_helper.from_array(np.array(values, dtype))
        return self.add("Constant", hint=hint, value=array)


@dataclass(slots=True, kw_only=True)
class Rewrite(NewNodes):
    """A node that is converted: `schema` is the version that it has reached.

    `first` is the operator that it had in the model.
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
        """Return an attribute or its default."""
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
        """Return the name of an input; empty if it is left out."""
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
        shape = self.type(number).shape
        return len(shape) if isinstance(shape, tuple) else None

    def dtype(self, number: int) -> str | None:
        return self.type(number).dtype

    def add_after(self, op_type: str, *inputs: str, **attributes: Any) -> None:
        """Add a node that takes the first output, and whose output replaces it."""
        output, before = self.node.output[0], self.new_name("before")
        self.node.output[0] = before
        self.scope.set_type(before, TensorType(self.scope.type_of(output).dtype))
        self.after.append(helper.make_node(op_type, (before, *inputs), [output], **attributes))


def default(schema: OpSchema, name: str) -> Any:
    attribute = schema.attributes.get(name)
    if attribute is None or not attribute.default_value.name:
        return None
    return attribute_value(attribute.default_value)


def _reduction_down(node: Rewrite, target: OpSchema) -> None:
    """Replace axes that are empty or left out: the older version reduces all axes then."""
    keep = node.get("noop_with_empty_axes")
    axes = node.input_constant(1) if node.input(1) else np.zeros(0, np.int64)
    node.remove("noop_with_empty_axes")
    if axes is None:
        raise node.cannot_become(target, "axes is not a constant")
    if axes.size == 0:
        node.set_input(1, "")
        if keep:
            unchanged = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
            if node.node.op_type not in unchanged:  # the others change every element
                raise node.cannot_become(target, "it has no noop_with_empty_axes, which is 1")
            del node.node.attribute[:]
            node.node.op_type = "Identity"


def _softmax_down(node: Rewrite, target: OpSchema) -> None:
    """Make the axis the last one: the older version takes all axes from `axis` on as one."""
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
    shape, axis, data = node.type(0).shape, node.get("axis"), node.input(0)
    rank = len(shape) if isinstance(shape, tuple) else None
    node.set("axis", -1)
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        return
    # Reshape copies a size of 0 from the matrix, which has it in its first axes only.
    copied = range(0 if rank is None or axis % rank == 0 else 1 + (axis % rank == 1))
    sizes_known = enumerate(shape) if isinstance(shape, tuple) else ()
    if rank is None or any(
        not isinstance(size, int) or not size
        for number, size in sizes_known
        if number not in copied
    ):
        raise node.cannot_become(target, "a size of its input after the first may be 0")
    sizes = node.add("Shape", data)
    known = TensorType(node.dtype(0), (None, None))
    node.set_input(0, node.add("Flatten", data, known=known, axis=axis))
    node.add_after("Reshape", sizes)


def _matrix_up(node: Rewrite, target: OpSchema) -> None:
    """Raise for a matrix of one column, after all axes, which only the older version makes."""
    rank = node.rank(0)
    if rank is None or node.get("axis") >= rank:
        raise node.cannot_become(target, "axis may be the rank of its input")


def _split_up(node: Rewrite, target: OpSchema) -> None:
    if not node.input(1):
        node.set("num_outputs", len(node.node.output))


def _split_down(node: Rewrite, target: OpSchema) -> None:
    count = node.get("num_outputs")
    node.remove("num_outputs")
    if count is None or node.input(1):
        return
    shape, axis = node.type(0).shape, node.get("axis")
    size = shape[axis] if isinstance(shape, tuple) else None
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
    """Keep inference, which returns the input for every ratio."""
    _one_output(node, target)
    training = node.input_constant(2) if node.input(2) else np.array(False)
    if training is None or training.any():
        raise node.cannot_become(target, "training_mode may be true")
    node.set_input(2, "")
    node.remove("seed")
    if node.input_constant(1) is None:
        node.set_input(1, "")


def _one_scale(node: Rewrite, target: OpSchema) -> None:
    shape = node.type(1).shape
    if not isinstance(shape, tuple) or any(size != 1 for size in shape):
        raise node.cannot_become(target, "it takes one scale only")
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
        raise node.cannot_become(target, f"an exponent of {exponent} may not be one of {base}")


def _mod_down(node: Rewrite, target: OpSchema) -> None:
    if not node.get("fmod") and "int" not in (node.dtype(0) or ""):
        raise node.cannot_become(target, "it takes floats with fmod = 1 only")


def _gemm_down(node: Rewrite, target: OpSchema) -> None:
    if not node.input(2):
        if node.dtype(0) is None:
            raise node.cannot_become(target, "the type of its input is not known")
        node.set_input(2, node.constant([0], "c", node.dtype(0)))


def _resize_to_11(node: Rewrite, target: OpSchema) -> None:
    """Write an empty list for an input that is left out."""
    for number in (1, 2):
        if not node.input(number):
            node.set_input(number, node.constant([], "none", np.float32))


def _rounding(node: Rewrite, target: OpSchema, number: int) -> str:
    """Return how version 10 rounds to the nearest: up on an axis that becomes smaller."""
    scales = node.input_constant(number)
    if node.first == "Upsample":  # which makes no axis smaller
        return "floor"
    if scales is None or scales.size == 0:
        raise node.cannot_become(target, "its scales are not constants")
    if (scales < 1).any() and (scales > 1).any():
        raise node.cannot_become(target, "an axis becomes smaller, and another one larger")
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
        raise node.cannot_become(target, f"it rounds another way than nearest_mode = {rounds!r}")
    node.remove("nearest_mode")
    node.node.input[:] = [node.input(0), node.input(2)]


def _pad_down(node: Rewrite, target: OpSchema) -> None:
    """Write the pads of all axes."""
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
    """Slice the sizes of all axes."""
    start, end = node.get("start"), node.get("end")
    node.remove("start")
    node.remove("end")
    if start or end is not None:
        end = np.iinfo(np.int64).max if end is None else end
        node.add_after("Slice", *(node.constant([bound], "bound") for bound in (start, end)))


def _slice_down(node: Rewrite, target: OpSchema) -> None:
    steps = node.input_constant(4) if node.input(4) else np.ones(0)
    if steps is None or (steps != 1).any():
        raise node.cannot_become(target, "it has no steps")
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
    """Return an input with axes, counted from the front; None if it is left out."""
    if not node.input(number):
        return None
    axes, rank = node.input_constant(number), node.rank(0)
    if axes is None or ((axes < 0).any() and rank is None):
        raise node.cannot_become(target, f"{name} may count from the end")
    return np.where(axes < 0, axes + (rank or 0), axes)


def _clip_either(node: Rewrite, target: OpSchema) -> None:
    """Raise if min may be above max, which only the newer version defines."""
    most = np.array(np.finfo(np.float32).max)  # without one, max is the largest number
    low, high = (
        node.input_constant(number) if node.input(number) else left_out
        for number, left_out in ((1, -most), (2, most))
    )
    one = not (node.input(1) and node.input(2))
    known = low is not None and high is not None
    if not (known and (low <= high).all()) and (known or not one):  # type: ignore[operator]
        raise node.cannot_become(target, "min may be greater than max")


def _if_down(node: Rewrite, target: OpSchema) -> None:
    shapes = [
        [tensor_type(output.type).shape for output in graph.output]
        for graph in subgraphs(node.node)
    ]
    known = all(isinstance(shape, tuple) and None not in shape for one in shapes for shape in one)
    if not known or shapes[1:] != shapes[:-1]:
        raise node.cannot_become(target, "its branches may return different shapes")


def _scan_down(node: Rewrite, target: OpSchema) -> None:
    if any(x < 0 for key in ("input", "output") for x in node.get(f"scan_{key}_axes") or ()):
        raise node.cannot_become(target, "an axis counts from the end")


def _one_hot_down(node: Rewrite, target: OpSchema) -> None:
    if may_be_negative(node.scope, node.input(0)):
        raise node.cannot_become(target, "an index may be negative, and there it is outside")


def _gather_down(node: Rewrite, target: OpSchema) -> None:
    if may_be_negative(node.scope, node.input(1)):
        raise node.cannot_become(target, "an index may be negative")


def _automatic_padding(node: Rewrite, target: OpSchema) -> None:
    """Raise for padding that the two versions put on different sides."""
    if node.get("output_shape") or node.get("auto_pad") not in {"NOTSET", "VALID"}:
        raise node.cannot_become(target, "the two pad other sides (allowed: pads)")


def _windows_outside(node: Rewrite, target: OpSchema) -> None:
    """Raise for windows that may start after the input, which only the newer version ignores."""
    sizes = node.get("kernel_shape")
    steps = node.get("strides") or [1] * len(sizes)
    wide = all(step <= size for step, size in zip(steps, sizes, strict=True))
    if node.get("ceil_mode") and (any(node.get("pads") or ()) or not wide):
        raise node.cannot_become(target, "with ceil_mode, the two differ in the last window")


def _shift_down(node: Rewrite, target: OpSchema) -> None:
    bits = np.iinfo(node.dtype(0) or "int8").bits
    if not domain_of(node.scope, node.input(1)).within(Domain(0, bits - 1)):
        raise node.cannot_become(target, "it may shift by all bits or more")


def _grid_down(node: Rewrite, target: OpSchema) -> None:
    if node.rank(0) != 4:
        raise node.cannot_become(target, "it takes four axes only")


def _one_output(node: Rewrite, target: OpSchema) -> None:
    """Raise if the node has the outputs of training."""
    if len([name for name in node.node.output if name]) > 1:
        raise node.cannot_become(target, "its outputs after the first are not the same there")


def _reshape_down(node: Rewrite, target: OpSchema) -> None:
    """Drop allowzero if no size can be 0, or a 0 can only copy a size of the data that is 0."""
    sizes = node.input_constant(1)
    if sizes is not None:
        unused = bool(sizes.all())
    else:
        output, data = (
            node.scope.type_of(name).shape for name in (node.node.output[0], node.input(0))
        )
        same = data if isinstance(data, tuple) else ()
        unused = isinstance(output, tuple) and all(
            bool(size) and (isinstance(size, int) or same[axis : axis + 1] == (size,))
            for axis, size in enumerate(output)
        )
    if unused:
        node.remove("allowzero")


DOWN: dict[Step, Callable[[Rewrite, OpSchema], None]] = {
    ("AveragePool", 22): _windows_outside,
    ("BatchNormalization", 14): _one_output,
    ("BitShift", 28): _shift_down,
    ("Clip", 11): _clip_either,
    ("Clip", 13): _clip_either,
    ("Constant", 12): _constant_down,
    ("ConvTranspose", 11): _automatic_padding,
    ("DFT", 20): _dft_down,
    ("DequantizeLinear", 13): _one_scale,
    ("Dropout", 10): _one_output,
    ("Dropout", 12): _dropout_down,
    ("Gather", 11): _gather_down,
    ("Gemm", 11): _gemm_down,
    ("GridSample", 20): _grid_down,
    ("Hardmax", 13): _softmax_down,
    ("If", 11): _if_down,
    ("LogSoftmax", 13): _softmax_down,
    ("LpPool", 22): _windows_outside,
    ("MaxPool", 22): _windows_outside,
    ("Mod", 28): _mod_down,
    ("OneHot", 11): _one_hot_down,
    ("Pad", 18): _pad_down,
    ("Pow", 12): _pow_down,
    ("QuantizeLinear", 13): _one_scale,
    ("Reshape", 14): _reshape_down,
    ("Resize", 11): _resize_to_10,
    ("Resize", 13): _resize_to_11,
    ("Scan", 11): _scan_down,
    ("Shape", 15): _shape_down,
    ("Slice", 10): _slice_down,
    ("Slice", 11): _slice_axes_down,
    ("Softmax", 13): _softmax_down,
    ("Split", 18): _split_down,
    **{
        step: _reduction_down
        for step, changes in CHANGES.items()
        if step[0].startswith("Reduce") and changes.moved
    },
}
"""Functions on the way to the older version, before the tables; without one in `UP`, the way to the
newer version changes nothing else."""

UP: dict[Step, Callable[[Rewrite, OpSchema], None]] = {
    ("AveragePool", 22): _windows_outside,
    ("BatchNormalization", 14): _one_output,
    ("Clip", 13): _clip_either,
    ("ConvTranspose", 11): _automatic_padding,
    ("Dropout", 10): _one_output,
    ("Dropout", 12): _one_output,
    ("Hardmax", 11): _matrix_up,
    ("Hardmax", 13): _softmax_up,
    ("LogSoftmax", 11): _matrix_up,
    ("LogSoftmax", 13): _softmax_up,
    ("LpPool", 22): _windows_outside,
    ("MaxPool", 22): _windows_outside,
    ("Resize", 11): _resize_from_10,
    ("Softmax", 11): _matrix_up,
    ("Softmax", 13): _softmax_up,
    ("Split", 18): _split_up,
}
"""Functions on the way to the newer version, after the tables."""


def _function(name: str, node: Rewrite, **values: object) -> str | None:
    """Return a function of the file for the type of the first input, or None if it is not known."""
    dtype = node.dtype(0)
    if dtype is None or dtype == "string":
        return None
    number = element_type(dtype)
    values |= {"number": number, "dtype": TensorProto.DataType.Name(number).lower()}
    return Template(_FILE["functions"][name]).substitute(values)


def _trilu(node: Rewrite) -> str | None:
    limit, outside = "k" if node.input(1) else "zero", "Less" if node.get("upper") else "Greater"
    return _function("Trilu", node, limit=limit, outside=outside)


def _reshape(node: Rewrite) -> str | None:
    if not node.get("allowzero"):
        return None
    sizes, empty = node.input_constant(1), _function("Empty", node)
    if empty is None or (sizes is not None and not sizes.all()):
        return empty if sizes is None or (sizes >= 0).all() else None
    return _function("Reshape", node, empty=empty.partition("=> (nothing) ")[2])


def _extreme(comparison: str) -> Callable[[Rewrite], str | None]:
    """Choose by comparisons, which older versions have for integers too."""

    def text(node: Rewrite) -> str | None:
        if node.dtype(0) not in INTEGERS or "" in node.node.input:
            return None
        inputs = [f"x{number}" for number in range(len(node.node.input))]
        lines = [f"y0 = Identity ({inputs[0]})"] if len(inputs) == 1 else []
        first = inputs[0]
        for number, second in enumerate(inputs[1:]):
            lines.append(f"chosen{number} = {comparison} ({first}, {second})")
            lines.append(f"y{number} = Where (chosen{number}, {first}, {second})")
            first = f"y{number}"
        return f"({', '.join(inputs)}) => (y{max(len(inputs) - 2, 0)}) {{ {' '.join(lines)} }}"

    return text


def _einsum(node: Rewrite) -> str | None:
    """Multiply elements, or matrices where one index of both operands is summed."""
    equation = node.get("equation").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    first, comma, second = terms.partition(",")
    summed = [index for index in first if index in second and index not in result]
    batch = [index for index in result if index in first and index in second]
    rows = [index for index in first if index in result and index not in second]
    columns = [index for index in second if index in result and index not in first]
    distinct = all(len(set(term)) == len(term) for term in (first, second, result))
    sizes = [set[object](), set[object]()]  # of the index that is summed: 1 may stand beside n
    for number, term in enumerate((first, second) if summed else ()):
        shape = node.type(number).shape
        if isinstance(shape, tuple) and len(shape) == len(term):
            sizes[number] = {shape[term.index(index)] for index in summed} - {None}
    if (
        not (arrow and comma and distinct)
        or {*first, *second, *result} - {*summed, *batch, *rows, *columns}
        or (summed and (len(summed) > 1 or len(rows) > 1 or len(columns) > 1))
    ):
        return None
    if summed and (not sizes[0] or sizes[0] != sizes[1]):
        why = f"the sizes of {summed[0]!r} may be 1 and another number (allowed: declared sizes)"
        raise node.cannot_become("MatMul", why)
    lines: list[str] = []

    def apply(op_type: str, name: str, attribute: str, axes: list[int]) -> str:
        if not axes or (attribute == "perm" and axes == sorted(axes)):
            return name  # it would change nothing
        lines.append(f"{name}x = {op_type} <{attribute} = {axes}> ({name})")
        return f"{name}x"

    order = [*batch, *(rows or "<"), *(columns or ">")] if summed else list(result)
    orders = (order, order)
    if summed:
        orders = ([*batch, *(rows or "<"), *summed], [*batch, *summed, *(columns or ">")])
    operands = []
    for name, term, wanted in zip("ab", (first, second), orders, strict=True):
        perm = [term.index(index) for index in wanted if index in term]
        missing = [axis for axis, index in enumerate(wanted) if index not in term]
        moved = apply("Transpose", name, "perm", perm)
        operands.append(apply("Unsqueeze", moved, "axes", missing))
    lines.append(f"y = {'MatMul' if summed else 'Mul'} ({', '.join(operands)})")
    dummies = [axis for axis, index in enumerate(order) if index in "<>"]
    squeezed = apply("Squeeze", "y", "axes", dummies)
    order = [index for index in order if index not in "<>"]
    output = apply("Transpose", squeezed, "perm", [order.index(index) for index in result])
    return f"(a, b) => ({output}) {{ {' '.join(lines)} }}"


FUNCTIONS: dict[str, Callable[[Rewrite], str | None]] = {
    "Einsum": _einsum,
    "Max": _extreme("Greater"),
    "Min": _extreme("Less"),
    "Reshape": _reshape,
    "Trilu": _trilu,
}
"""Operators that opset 11 can express: inputs, outputs and nodes in the text form of ONNX."""
