"""A graph in the operators of another domain, or of other versions, where that is exact.

What a node becomes is the business of `node_conversion`; this is the walk over the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import (
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
    conversion_errors,
    run_errors,
)
from ndgather.models.graph import (
    CastNode,
    Graph,
    Node,
    OperatorNode,
    node_type,
    title,
    unique,
    value_types,
)
from ndgather.models.graph.calls import converted
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.published import operator, operators
from ndgather.published.schema import (
    FLOATS,
    INTEGERS,
    BatchRule,
    Duplicates,
    Kind,
    OffAxisRule,
    OperatorVersion,
    Outside,
    Reduction,
    Role,
    TensorType,
    dtype_name,
)
from ndgather.published.shapes import refuse_outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ndgather.models.graph import Array
    from ndgather.published.schema import Shape


_TUPLES = frozenset({Kind.GATHER_ND, Kind.SCATTER_ND})
_OUTCOMES = {
    Outside.RAISE: "is an error",
    Outside.ZEROS: "gives zeros",
    Outside.UNDEFINED: "is undefined",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the attributes of a node say, in no version's words. An axis of None is an input."""

    axis: int | None
    batch_dims: int
    reduction: Reduction
    use_init_val: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A rule, what the source says of it, and what the target says.

    `loses` is whether the source gives a result that the target does not.
    """

    rule: str
    source: str
    target: str
    loses: bool = False


def meaning_of(
    row: OperatorVersion, given: Mapping[str, int | str | bool], axis: Array | None
) -> Meaning:
    """Return what attributes in the words of `row` say; `axis` is a constant that it reads."""

    def value(name: str, silent: int | str | bool) -> int | str | bool:
        attribute = row.attribute(name)
        default = silent if attribute is None or attribute.default is None else attribute.default
        return given.get(name, default)

    along = None if axis is None else int(axis.item())
    if row.attribute("axis") is not None:
        along = int(value("axis", 0))
    reduction, word = row.attribute("reduction"), value("reduction", "none")
    choices = () if reduction is None else reduction.choices
    return Meaning(
        axis=along,
        batch_dims=int(value("batch_dims", 0)),
        reduction=next((each.reduction for each in choices if each.word == word), Reduction.NONE),
        use_init_val=bool(value("use_init_val", True)),
    )


def differences(
    source: OperatorVersion,
    target: OperatorVersion,
    meaning: Meaning,
    types: Mapping[Role, TensorType],
    constants: Mapping[Role, Array],
) -> Iterator[Difference]:
    """Yield where a node of one version and its counterpart of another may differ.

    Parameters
    ----------
    source, target : OperatorVersion
        What the node was, and what it is to become.
    meaning : Meaning
        What its attributes say.
    types, constants : mapping
        What is known of the values that the counterpart reads, by their roles.
    """
    data_shape, constant = types[Role.DATA].shape, constants.get(Role.INDICES)
    if not _known_inside(source, meaning, data_shape, constant):
        before, after = source.index_rule, target.index_rule
        if before.outside is not after.outside and before.outside is not Outside.UNDEFINED:
            outcomes = (_OUTCOMES[before.outside], _OUTCOMES[after.outside])
            yield Difference(
                rule="index range",
                source=f"an index out of range {outcomes[0]}",
                target=f"it {outcomes[1]}",
            )
        if before.negative and not after.negative and (constant is None or (constant < 0).any()):
            yield Difference(
                rule="index range",
                source="a negative index counts from the end",
                target="it is out of range",
                loses=True,
            )
        if after.negative and not before.negative and before.outside is Outside.RAISE:
            yield Difference(
                rule="index range",
                source="a negative index is an error",
                target="it counts from the end",
            )
    indices = types[Role.INDICES].shape
    depth = indices[-1] if isinstance(indices, tuple) and indices else None
    shorter = source.lowest_depth < target.lowest_depth and source.kind is target.kind
    if source.kind in _TUPLES and shorter and not isinstance(depth, int):
        yield Difference(
            rule="depth",
            source="a tuple of no index copies its batch",
            target="it is an error",
            loses=True,
        )
    smaller = source.off_axis_rule in {OffAxisRule.AT_MOST, OffAxisRule.AT_MOST_EVERYWHERE}
    equal = target.off_axis_rule is OffAxisRule.EQUAL
    if smaller and equal and not _equal_off_axis(data_shape, indices, meaning.axis):
        yield Difference(
            rule="off-axis sizes",
            source="indices may be smaller than data off the axis",
            target="that is an error",
        )
    if _forbids_duplicates(target, meaning) and not _forbids_duplicates(source, meaning):
        yield Difference(
            rule="duplicates",
            source="an element may be named twice",
            target="that is forbidden or undefined",
        )


def _known_inside(
    source: OperatorVersion, meaning: Meaning, data: Shape, indices: Array | None
) -> bool:
    """Return whether all indices and sizes are known, and in the range of the source."""
    if indices is None or not isinstance(data, tuple) or not data:
        return False
    by_tuple = source.kind in _TUPLES
    if by_tuple:
        axis, count = meaning.batch_dims, indices.shape[-1]
    elif meaning.axis is None:
        return False
    else:
        axis, count = meaning.axis % len(data), 1
    if not all(isinstance(size, int) for size in data[axis : axis + count]):
        return False
    try:
        refuse_outside(source, data, indices, axis)
    except IndexOutOfBoundsError:
        return False
    return True


def _equal_off_axis(data: object, indices: object, axis: int | None) -> bool:
    if not (isinstance(data, tuple) and isinstance(indices, tuple)) or axis is None:
        return False
    return all(
        first == second and first is not None
        for position, (first, second) in enumerate(zip(data, indices, strict=True))
        if position != axis % len(data)
    )


def _forbids_duplicates(row: OperatorVersion, meaning: Meaning) -> bool:
    reduces = meaning.reduction is not Reduction.NONE
    return row.duplicates in {Duplicates.FORBIDDEN, Duplicates.UNDEFINED} or (
        row.duplicates is Duplicates.FORBIDDEN_WITHOUT_REDUCTION and not reduces
    )


_SILENT = {"axis": 0, "batch_dims": 0, "reduction": "none", "use_init_val": True}
"""What a version without an attribute does: the same as others do with this value of it."""


@dataclass(slots=True, kw_only=True)
class Call:
    """A node on its way to another version: what it reads, by roles, and its attributes.

    `origin` is the version that it was; `row` the one whose words its attributes are. A format
    of models adds how a value is cast, and how a constant is written.
    """

    origin: OperatorVersion
    row: OperatorVersion
    inputs: dict[Role, str]
    types: dict[Role, TensorType]
    constants: dict[Role, Array]
    attributes: dict[str, Any]

    def cast(self, role: Role, dtype: str) -> None:
        """Make what it reads in a role of this type, which every value of it fits."""
        raise NotImplementedError

    def set_constant(self, role: Role, array: Array) -> None:
        """Have it read these values in a role."""
        raise NotImplementedError

    def fold_batch_dims(self, target: OperatorVersion) -> None:
        """Put the coordinates of the batch axes into the index tuples."""
        count = self.attributes["batch_dims"]
        raise self.refuse(target, f"it has no batch_dims, which is {count}")

    def refuse(self, target: object, why: str) -> ModelError:
        return conversion_errors.cannot_become(self.origin, target, why)


def fit(call: Call, target: OperatorVersion) -> tuple[Difference, ...]:
    """Make a call what the version `target` takes, and return where the two may differ."""
    meaning = meaning_of(call.row, call.attributes, call.constants.get(Role.AXIS))
    _refuse_other_meaning(call, target, meaning)
    call.attributes = _attributes(call, target, meaning)
    for each in target.inputs:
        if each.role is Role.AXIS and Role.AXIS not in call.inputs:
            call.set_constant(Role.AXIS, np.array(meaning.axis, np.int64))
        _fit_type(call, target, each.role)
    if call.origin.index_rule.negative and not target.index_rule.negative:
        _count_from_the_front(call, target, meaning)
    call.inputs = {each.role: call.inputs[each.role] for each in target.inputs}
    inputs = [call.types[role] for role in call.inputs]
    constants = {role.value: array for role, array in call.constants.items()}
    known = {each.name: constants[each.role] for each in target.inputs if each.role in constants}
    function = operator(target.name, domain=target.domain, version=target.since)
    function.infer(*inputs, constants=known, **call.attributes)
    found = differences(call.origin, target, meaning, call.types, call.constants)
    return tuple(found)


def is_exact_cast(source: str, target: str) -> bool:
    """Return whether every value of one type is a value of the other, and of no other kind."""
    for kind in (INTEGERS, FLOATS):
        if source in kind and target in kind:
            return bool(np.can_cast(source, target, "safe"))
    return source == target or (source == "bool" and target in (*INTEGERS, *FLOATS))


def _refuse_other_meaning(call: Call, target: OperatorVersion, meaning: Meaning) -> None:
    fuses = [row.batch_rule is BatchRule.FUSED for row in (call.row, target)]
    if meaning.batch_dims > 1 and fuses[0] is not fuses[1]:
        raise call.refuse(target, "one of them fuses several batch axes in the result")
    other = call.row.domain != target.domain
    if meaning.reduction is not Reduction.NONE and call.types[Role.DATA].dtype == "bool" and other:
        raise call.refuse(target, "they do not define reductions of booleans alike")
    if meaning.axis is None and target.attribute("axis") is not None:
        raise call.refuse(target, "its axis is not a constant")


def _attributes(call: Call, target: OperatorVersion, meaning: Meaning) -> dict[str, Any]:
    """Return what the call says in the words of another version, as briefly as it does."""
    reduction = target.attribute("reduction")
    words = {each.reduction: each.word for each in reduction.choices} if reduction else {}
    if meaning.reduction is not Reduction.NONE and meaning.reduction not in words:
        raise call.refuse(target, f"it has no reduction {meaning.reduction.value}")
    said: dict[str, Any] = {
        "batch_dims": meaning.batch_dims,
        "use_init_val": meaning.use_init_val,
        "reduction": words.get(meaning.reduction, "none"),
    }
    if meaning.axis is not None and target.input(Role.AXIS) is None:
        said["axis"] = meaning.axis
    kept = {}
    for name, value in said.items():
        attribute = target.attribute(name)
        if attribute is not None:
            if name in call.attributes or value != attribute.default:
                kept[name] = value
        elif value != _SILENT[name]:
            if name != "batch_dims":
                raise call.refuse(target, f"it has no {name}, which is {value!r}")
            call.fold_batch_dims(target)
    return kept


def _fit_type(call: Call, target: OperatorVersion, role: Role) -> None:
    """Cast what is read in a role where the target takes other types there, if that is exact."""
    before, after = call.origin.input(role), target.input(role)
    dtype = call.types[role].dtype
    if after is None or dtype in after.types:
        return
    if dtype is None:
        if before is not None and not set(before.types) <= set(after.types):
            raise call.refuse(target, f"the type of {role.value} is not known")
        return
    if role in {Role.DATA, Role.UPDATES}:
        return  # the operator says which types it takes
    wanted = "int64" if "int64" in after.types else after.types[-1]
    if role not in call.constants and not is_exact_cast(dtype, wanted):
        raise call.refuse(
            target, f"{role.value} of {dtype} would have to become {wanted}, which may change them"
        )
    call.cast(role, wanted)


def _count_from_the_front(call: Call, target: OperatorVersion, meaning: Meaning) -> None:
    """Replace negative constants along one axis of known size."""
    indices = call.constants.get(Role.INDICES)
    if indices is None or not (indices < 0).any():
        return
    shape = call.types[Role.DATA].shape
    size = None
    if isinstance(shape, tuple) and meaning.axis is not None:
        size = shape[meaning.axis % len(shape)]
    if not isinstance(size, int):
        raise call.refuse(target, "an index is negative, and the size of the axis is not known")
    counted = np.where(indices < 0, indices + size, indices).astype(indices.dtype)
    call.set_constant(Role.INDICES, counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translated graph, and where their runs may differ."""

    graph: Graph
    findings: tuple[Finding, ...]


def translate(graph: Graph, *, domain: str, opset: int | None = None) -> Translation:
    """Return `graph` in the operators of `domain`, the newest that `opset` has.

    Without `opset` it is the newest of all, and operators of `domain` stay as they are.
    """
    return _Translator(graph, domain, opset).translation()


class _Translator:
    def __init__(self, graph: Graph, domain: str, opset: int | None) -> None:
        self.graph = graph
        self.domain = domain
        self.opset = opset
        # A cast may mean something else in another domain, unless it changes no value.
        self.foreign = any(
            node.row.domain != domain for node in graph.nodes if isinstance(node, OperatorNode)
        )
        self.types = value_types(graph)
        self.constants = dict(graph.constants)
        self.taken = {*self.types, *(each.name for each in graph.inputs), *graph.constants}
        self.nodes: list[Node] = []
        self.findings: list[Finding] = []

    def translation(self) -> Translation:
        for node in self.graph.nodes:
            if isinstance(node, CastNode):
                self._check_cast(node)
                self.nodes.append(node)
            elif self.opset is None and node.row.domain == self.domain:
                self.nodes.append(node)
            else:
                try:
                    self._translate(node)
                except NdgatherError as error:
                    place = (node.name, title(node), node.output)
                    raise run_errors.in_node(error, *place) from error
        read = {each.value for each in self.graph.outputs}
        for node in self.nodes:
            read.update(node.inputs)
        graph = replace(
            self.graph,
            nodes=tuple(self.nodes),
            constants={name: array for name, array in self.constants.items() if name in read},
        )
        return Translation(graph=graph, findings=tuple(self.findings))

    def _check_cast(self, node: CastNode) -> None:
        source = self.types[node.input].dtype
        if self.foreign and source is not None and not is_exact_cast(source, node.dtype):
            raise conversion_errors.not_translatable(
                node.name, title(node), self.domain, f"it may change values of {source}"
            )

    def _translate(self, node: OperatorNode) -> None:
        target = self._counterpart(node.row)
        roles = [each.role for each in node.row.inputs]
        inputs = dict(zip(roles, node.inputs, strict=True))
        call = _GraphCall(
            origin=node.row,
            row=node.row,
            inputs=inputs,
            types={role: self.types[name] for role, name in inputs.items()},
            constants={
                role: self.constants[name]
                for role, name in inputs.items()
                if name in self.constants and role not in {Role.DATA, Role.UPDATES}
            },
            attributes=dict(node.attributes),
            translator=self,
            name=node.name,
        )
        found = fit(call, target)
        translated = OperatorNode(
            name=node.name,
            row=target,
            inputs=tuple(call.inputs.values()),
            output=node.output,
            attributes=call.attributes,
        )
        node_type(translated, self.types, self.constants)
        self.nodes.append(translated)
        self.findings += (_finding(node, target, each) for each in found)

    def _counterpart(self, source: OperatorVersion) -> OperatorVersion:
        """Return the newest row of the domain that does the same walk."""
        rows = [
            each.row
            for each in operators(domain=self.domain)
            if each.row.kind is source.kind and (self.opset is None or each.version <= self.opset)
        ]
        if not rows:
            version = "" if self.opset is None else f" {self.opset}"
            raise conversion_errors.cannot_become(
                source, f"one of {self.domain}{version}", "there is no such operator"
            )
        return max(rows, key=lambda row: row.since)

    def constant(self, name: str, array: Array) -> str:
        name = unique(name, self.taken)
        self.constants[name] = array
        self.types[name] = TensorType(dtype_name(array), array.shape)
        return name

    def cast(self, name: str, dtype: str) -> str:
        output = unique(f"{name}/{dtype}", self.taken)
        self.nodes.append(CastNode(name=output, input=name, output=output, dtype=dtype))
        self.types[output] = replace(self.types[name], dtype=dtype)
        return output


@dataclass(slots=True, kw_only=True)
class _GraphCall(Call):
    """A call whose casts are nodes of a graph, and whose constants stand in it."""

    translator: _Translator
    name: str

    def cast(self, role: Role, dtype: str) -> None:
        if role in self.constants:
            array = converted(self.constants[role], dtype)
            self._read(role, self.translator.constant(f"{self.inputs[role]}/{dtype}", array))
            self.constants[role] = array
        else:
            self._read(role, self.translator.cast(self.inputs[role], dtype))

    def set_constant(self, role: Role, array: Array) -> None:
        self._read(role, self.translator.constant(f"{self.name}/{role.value}", array))
        self.constants[role] = array

    def _read(self, role: Role, name: str) -> None:
        self.inputs[role] = name
        self.types[role] = self.translator.types[name]


def _finding(node: OperatorNode, target: OperatorVersion, found: Difference) -> Finding:
    return Finding(
        where=node.name,
        operator=str(node.row),
        rule=found.rule,
        what=f"{found.source}, and in {target} {found.target}",
        severity=Severity.DIFFERS,
    )
