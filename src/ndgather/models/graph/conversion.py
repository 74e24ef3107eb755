"""A graph in the operators of another domain, or of other versions, where that is exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from ndgather import messages
from ndgather.errors import IndexOutOfBoundsError, ModelError, NdgatherError
from ndgather.models import Array
from ndgather.models.graph import (
    Arguments,
    CastNode,
    Graph,
    Node,
    OperatorNode,
    node_type,
    title,
    unique,
    value_types,
)
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.graph.evaluation import converted
from ndgather.published import operator, operators
from ndgather.published.inference import check_indices
from ndgather.published.schema import (
    FLOATS,
    INTEGERS,
    BatchRule,
    Dim,
    Duplicates,
    OffAxisRule,
    OperatorVersion,
    Outside,
    Reduction,
    Role,
    TensorType,
    dtype_name,
)

Dims: TypeAlias = tuple[Dim, ...] | None

_OUTCOMES = {
    Outside.RAISE: "is an error",
    Outside.ZEROS: "gives zeros",
    Outside.CLAMPED: "is the nearest one",
    Outside.UNDEFINED: "is undefined",
}
# The behaviour of a version without the attribute, as a value of it.
_DEFAULTS: dict[str, int | str | bool] = {
    "axis": 0,
    "batch_dims": 0,
    "reduction": "none",
    "use_init_val": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the attributes of a node mean in every version. An axis of None is an input."""

    axis: int | None
    batch_dims: int
    reduction: Reduction
    use_init_val: bool

    @classmethod
    def of(
        cls, row: OperatorVersion, attributes: Mapping[str, int | str | bool], axis: Array | None
    ) -> Self:
        """Return the meaning of attributes of `row`; `axis` is a constant input."""
        values = dict(_DEFAULTS)
        values |= {item.name: item.default for item in row.attributes if item.default is not None}
        values |= attributes
        reduction = row.attribute("reduction")
        words = {item.word: item.reduction for item in reduction.choices} if reduction else {}
        along = None if axis is None else int(axis.item())
        return cls(
            axis=along if row.attribute("axis") is None else int(values["axis"]),
            batch_dims=int(values["batch_dims"]),
            reduction=words.get(str(values["reduction"]), Reduction.NONE),
            use_init_val=bool(values["use_init_val"]),
        )


class Deviation(NamedTuple):
    """A rule in which two versions differ, with the text of both."""

    rule: str
    source: str
    target: str
    loses: bool = False  # the source has a result where the target has none


@dataclass(slots=True, kw_only=True)
class NodeCall:
    """A node that is converted: its inputs by their roles, and its attributes.

    `origin` is its old version, `row` the version that its attributes are written for. Subclasses
    add how a format of models casts an input and writes a constant.
    """

    origin: OperatorVersion
    row: OperatorVersion
    inputs: dict[Role, str]
    types: dict[Role, TensorType]
    constants: dict[Role, Array]
    attributes: dict[str, Any]

    def cast(self, role: Role, dtype: str) -> None:
        """Cast an input to a type that holds all of its values."""
        raise NotImplementedError

    def set_constant(self, role: Role, array: Array) -> None:
        """Replace an input by a constant."""
        raise NotImplementedError

    def fold_batch_dims(self, target: OperatorVersion) -> None:
        """Put the coordinates of the batch axes into the index tuples."""
        count = self.attributes["batch_dims"]
        raise self.cannot_become(target, f"it has no batch_dims, which is {count}")

    def cannot_become(self, target: object, why: str) -> ModelError:
        return messages.cannot_become(self.origin, target, why)


def fit(call: NodeCall, target: OperatorVersion) -> tuple[Deviation, ...]:
    """Convert a call to the version `target`, and return where the two may differ."""
    meaning = Meaning.of(call.row, call.attributes, call.constants.get(Role.AXIS))
    fuses = [row.batch_rule is BatchRule.FUSED for row in (call.row, target)]
    if meaning.batch_dims > 1 and fuses[0] is not fuses[1]:
        raise call.cannot_become(target, "one of them fuses several batch axes in the result")
    reduces = meaning.reduction is not Reduction.NONE
    if reduces and call.types[Role.DATA].dtype == "bool" and call.row.domain != target.domain:
        raise call.cannot_become(target, "they do not define reductions of booleans alike")
    if meaning.axis is None and target.attribute("axis") is not None:
        raise call.cannot_become(target, "its axis is not a constant")
    call.attributes = _attributes(call, target, meaning)
    for item in target.inputs:
        if item.role is Role.AXIS and Role.AXIS not in call.inputs:
            call.set_constant(Role.AXIS, np.array(meaning.axis, np.int64))
        _fit_type(call, target, item.role)
    if call.origin.index_rule.negative and not target.index_rule.negative:
        _count_from_the_front(call, target, meaning)
    call.inputs = {item.role: call.inputs[item.role] for item in target.inputs}
    known = {x.name: call.constants[x.role] for x in target.inputs if x.role in call.constants}
    function = operator(target.name, domain=target.domain, version=target.since)
    types = tuple(call.types[role] for role in call.inputs)
    Arguments.of(function, known, call.attributes).infer(types)
    return tuple(_differences(call, target, meaning))


def is_exact_cast(source: str, target: str) -> bool:
    """Return whether every value of one type is a value of the other, of the same kind."""
    for kind in (INTEGERS, FLOATS):
        if source in kind and target in kind:
            return bool(np.can_cast(source, target, "safe"))
    return source == target or (source == "bool" and target in (*INTEGERS, *FLOATS))


def _attributes(call: NodeCall, target: OperatorVersion, meaning: Meaning) -> dict[str, Any]:
    """Return the attributes of the call for another version; defaults stay left out."""
    reduction = target.attribute("reduction")
    words = {item.reduction: item.word for item in reduction.choices} if reduction else {}
    if meaning.reduction is not Reduction.NONE and meaning.reduction not in words:
        raise call.cannot_become(target, f"it has no reduction {meaning.reduction.value}")
    values: dict[str, Any] = {
        "batch_dims": meaning.batch_dims,
        "use_init_val": meaning.use_init_val,
        "reduction": words.get(meaning.reduction, "none"),
    }
    if meaning.axis is not None and target.input(Role.AXIS) is None:
        values["axis"] = meaning.axis
    kept = {}
    for name, value in values.items():
        attribute = target.attribute(name)
        if attribute is not None:
            if name in call.attributes or value != attribute.default:
                kept[name] = value
        elif value != _DEFAULTS[name]:
            if name != "batch_dims":
                raise call.cannot_become(target, f"it has no {name}, which is {value!r}")
            call.fold_batch_dims(target)
    return kept


def _fit_type(call: NodeCall, target: OperatorVersion, role: Role) -> None:
    """Cast an input if the target takes other types and the cast is exact."""
    before, after = call.origin.input(role), target.input(role)
    dtype = call.types[role].dtype
    if after is None or dtype in after.types:
        return
    if dtype is None:
        if before is not None and not set(before.types) <= set(after.types):
            raise call.cannot_become(target, f"the type of {role.value} is not known")
        return
    if role in {Role.DATA, Role.UPDATES}:
        return  # inference raises for the type
    wanted = "int64" if "int64" in after.types else after.types[-1]
    if role not in call.constants and not is_exact_cast(dtype, wanted):
        raise call.cannot_become(
            target, f"{role.value} of {dtype} would have to become {wanted}, which may change them"
        )
    call.cast(role, wanted)


def _count_from_the_front(call: NodeCall, target: OperatorVersion, meaning: Meaning) -> None:
    """Replace negative constants along one axis of known size."""
    indices = call.constants.get(Role.INDICES)
    if indices is None or not (indices < 0).any():
        return
    dims = call.types[Role.DATA].dims
    size = dims[meaning.axis % len(dims)] if dims and meaning.axis is not None else None
    if not isinstance(size, int):
        raise call.cannot_become(
            target, "an index is negative, and the size of the axis is not known"
        )
    counted = np.where(indices < 0, indices + np.int64(size), indices)
    fits = counted.max() <= np.iinfo(indices.dtype).max  # all versions take int64
    call.set_constant(Role.INDICES, counted.astype(indices.dtype) if fits else counted)


def _differences(call: NodeCall, target: OperatorVersion, meaning: Meaning) -> Iterator[Deviation]:
    """Yield where the old version of a call and `target` may differ."""
    source, rule = call.origin, "index range"
    before, after, constant = source.index_rule, target.index_rule, call.constants.get(Role.INDICES)
    if not _known_inside(call, meaning):
        if before.outside is not after.outside and before.outside is not Outside.UNDEFINED:
            outcome = f"an index out of range {_OUTCOMES[before.outside]}"
            yield Deviation(rule, outcome, f"it {_OUTCOMES[after.outside]}")
        if before.negative and not after.negative and constant is None:  # others are counted
            negative = "a negative index counts from the end"
            yield Deviation(rule, negative, "it is out of range", loses=True)
        if after.negative and not before.negative and before.outside is Outside.RAISE:
            yield Deviation(rule, "a negative index is an error", "it counts from the end")
    data, indices = call.types[Role.DATA].dims, call.types[Role.INDICES].dims
    depth = indices[-1] if indices else None
    shorter = source.lowest_depth < target.lowest_depth and source.kind is target.kind
    if source.kind.tuples and shorter and not isinstance(depth, int):
        empty = "a tuple of no index copies its batch"
        yield Deviation("depth", empty, "it is an error", loses=True)
    smaller = source.off_axis_rule in {OffAxisRule.AT_MOST, OffAxisRule.AT_MOST_EVERYWHERE}
    equal = target.off_axis_rule is OffAxisRule.EQUAL
    if smaller and equal and not _equal_off_axis(data, indices, meaning.axis):
        free = "indices may be smaller than data off the axis"
        yield Deviation("off-axis sizes", free, "that is an error")
    if _forbids_duplicates(target, meaning) and not _forbids_duplicates(source, meaning):
        twice = "an element may be named twice"
        yield Deviation("duplicates", twice, "that is forbidden or undefined")


def _known_inside(call: NodeCall, meaning: Meaning) -> bool:
    """Return whether all indices and sizes are known, and no index is out of range."""
    data, indices = call.types[Role.DATA].dims, call.constants.get(Role.INDICES)
    if indices is None or not data:
        return False
    if call.origin.kind.tuples:
        axis, count = meaning.batch_dims, indices.shape[-1]
    elif meaning.axis is None:
        return False
    else:
        axis, count = meaning.axis % len(data), 1
    with suppress(IndexOutOfBoundsError):
        check_indices(call.origin, data, indices, axis)
        return all(isinstance(size, int) for size in data[axis : axis + count])
    return False


def _equal_off_axis(data: Dims, indices: Dims, axis: int | None) -> bool:
    if data is None or indices is None or axis is None:
        return False
    pairs = [*zip(data, indices, strict=True)]
    del pairs[axis]
    return all(first == second and first is not None for first, second in pairs)


def _forbids_duplicates(row: OperatorVersion, meaning: Meaning) -> bool:
    if row.duplicates is Duplicates.FORBIDDEN_WITHOUT_REDUCTION:
        return meaning.reduction is Reduction.NONE
    return row.duplicates in {Duplicates.FORBIDDEN, Duplicates.UNDEFINED}


def translate(
    graph: Graph, *, domain: str, opset: int | None = None
) -> tuple[Graph, tuple[Finding, ...]]:
    """Return `graph` in the newest operators of `domain` and `opset`, and where runs may differ.

    Without `opset`, operators of `domain` stay as they are.
    """
    result = _Result(graph)
    findings: list[Finding] = []
    # A cast that changes values may mean something else in another domain.
    foreign = any(isinstance(x, OperatorNode) and x.row.domain != domain for x in graph.nodes)
    for node in graph.nodes:
        if isinstance(node, CastNode):
            source = result.types[node.input].dtype
            if foreign and source is not None and not is_exact_cast(source, node.dtype):
                raise ModelError(
                    f"node {node.name!r}: {title(node)} has no exact counterpart in {domain}: it "
                    f"may change values of {source}"
                )
            result.nodes.append(node)
        elif opset is None and node.row.domain == domain:
            result.nodes.append(node)
        else:
            try:
                target = _counterpart(node.row, domain, opset)
                for rule, before, after, _ in _translate(node, target, result):
                    what = f"{before}, and in {target} {after}"
                    differs = Severity.DIFFERS
                    findings.append(Finding(node.name, str(node.row), rule, what, differs))
            except NdgatherError as error:
                raise messages.in_node(error, node.name, title(node), node.output) from error
    read = {output.value for output in graph.outputs}
    for node in result.nodes:
        read.update(node.inputs)
    constants = {name: array for name, array in result.constants.items() if name in read}
    return replace(graph, nodes=tuple(result.nodes), constants=constants), tuple(findings)


class _Result:
    """The nodes and constants of the translated graph so far."""

    def __init__(self, graph: Graph) -> None:
        self.types = value_types(graph)
        self.constants = dict(graph.constants)
        self.nodes: list[Node] = []
        self._names = set(self.types)

    def constant(self, name: str, array: Array) -> str:
        name = unique(name, self._names)
        self.constants[name] = array
        self.types[name] = TensorType(dtype_name(array), array.shape)
        return name

    def cast(self, name: str, dtype: str) -> str:
        output = unique(f"{name}/{dtype}", self._names)
        self.nodes.append(CastNode(output, name, output, dtype))
        self.types[output] = replace(self.types[name], dtype=dtype)
        return output


def _counterpart(source: OperatorVersion, domain: str, opset: int | None) -> OperatorVersion:
    """Return the newest row of the domain of the same kind."""
    rows = [
        candidate.row
        for candidate in operators(domain=domain)
        if candidate.row.is_like(source) and (opset is None or candidate.version <= opset)
    ]
    if not rows:
        version = "" if opset is None else f" {opset}"
        raise messages.cannot_become(
            source, f"one of {domain}{version}", "there is no such operator"
        )
    return max(rows, key=lambda row: row.since)


def _translate(
    node: OperatorNode, target: OperatorVersion, result: _Result
) -> tuple[Deviation, ...]:
    inputs = {item.role: name for item, name in zip(node.row.inputs, node.inputs, strict=True)}
    call = _GraphCall(
        origin=node.row,
        row=node.row,
        inputs=inputs,
        types={role: result.types[name] for role, name in inputs.items()},
        constants={
            role: result.constants[name]
            for role, name in inputs.items()
            if name in result.constants and role in {Role.INDICES, Role.AXIS}
        },
        attributes=dict(node.attributes),
        result=result,
        name=node.name,
    )
    differences = fit(call, target)
    reads = tuple(call.inputs.values())
    translated = replace(node, row=target, inputs=reads, attributes=call.attributes)
    node_type(translated, result.types, result.constants)
    result.nodes.append(translated)
    return differences


@dataclass(slots=True, kw_only=True)
class _GraphCall(NodeCall):
    """A call whose casts and constants are added to a graph."""

    result: _Result
    name: str

    def cast(self, role: Role, dtype: str) -> None:
        if role in self.constants:
            array = converted(self.constants[role], dtype)
            self._set_constant(role, f"{self.inputs[role]}/{dtype}", array)
        else:
            self.inputs[role] = self.result.cast(self.inputs[role], dtype)
            self.types[role] = self.result.types[self.inputs[role]]

    def set_constant(self, role: Role, array: Array) -> None:
        self._set_constant(role, f"{self.name}/{role.value}", array)

    def _set_constant(self, role: Role, name: str, array: Array) -> None:
        self.inputs[role] = self.result.constant(name, array)
        self.types[role] = self.result.types[self.inputs[role]]
        self.constants[role] = array
