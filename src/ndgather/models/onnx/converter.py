"""Models between versions of ONNX, between domains, and between equivalent operators."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from ndgather.errors import AttributeValueError, NdgatherError, conversion_errors
from ndgather.models.arguments import instance
from ndgather.models.graph import unique
from ndgather.models.graph.conversion import Call, fit
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.onnx.files import Source, inferable, open_model
from ndgather.models.onnx.inference import (
    InferredNode,
    infer_types,
    size_names,
    with_names,
    without_functions,
)
from ndgather.models.onnx.nodes import (
    DOMAINS,
    OpNode,
    Scope,
    declaration,
    element_type,
    file_domain,
    implementation,
    is_published,
    nodes,
    nodes_within,
    opsets,
    row_domain,
    subgraphs,
    tensor_type,
    with_one_name,
)
from ndgather.models.onnx.replacements import Values
from ndgather.models.onnx.versions import OtherNodes, from_oldest, with_one_version
from ndgather.published import operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Kind, RankAtLeast, Role, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ndgather.models.onnx.inference import InferredModel
    from ndgather.published.schema import Dim, OperatorVersion, Shape


Array = NDArray[Any]


@dataclass(slots=True, kw_only=True)
class Rewrite(Call):
    """A call in an ONNX model, which becomes the operator `name` of `domain`.

    `taken` are the names in use. `before` are the nodes that have to stand before it, and
    `made` the types of the indices that they make.
    """

    name: str
    domain: str
    taken: set[str]
    before: list[NodeProto] = field(default_factory=list)
    made: dict[str, TensorType] = field(default_factory=dict)

    def dims(self, role: Role) -> tuple[Dim, ...]:
        """Return the sizes of an input, whose rank has to be known."""
        shape = self.types[role].shape
        if shape is None or isinstance(shape, RankAtLeast):
            raise self.refuse(self.name, f"the rank of {role.value} is not known")
        return shape

    def axis(self) -> int:
        return int(self.attributes.get("axis", 0)) % len(self.dims(Role.DATA))

    def batch_dims(self) -> int:
        return int(self.attributes.get("batch_dims", 0))

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = unique(f"{self.inputs[Role.INDICES]}_{op_type.lower()}", self.taken)
        self.before.append(helper.make_node(op_type, inputs, [output], output, **attributes))
        return output

    def constant(self, values: object) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(values, np.int64)))

    def cast(self, role: Role, dtype: str) -> None:
        """Put a Cast before the node."""
        name = self.add("Cast", self.inputs[role], to=element_type(dtype))
        self.inputs[role] = name
        self.types[role] = replace(self.types[role], dtype=dtype)
        self.made[name] = self.types[role]
        if role in self.constants:
            self.constants[role] = self.constants[role].astype(dtype)

    def set_constant(self, role: Role, array: Array) -> None:
        self.inputs[role] = self.add("Constant", value=numpy_helper.from_array(array))
        self.constants[role] = array

    def cast_indices(self) -> None:
        """Make the indices int64."""
        if self.types[Role.INDICES].dtype != "int64":
            self.cast(Role.INDICES, "int64")

    def append_axis(self) -> None:
        """Give the indices a last axis of size 1."""
        dims = self.dims(Role.INDICES)
        sizes = self.add("Concat", self._sizes(Role.INDICES), self.constant([1]), axis=0)
        self._set_indices(self._reshaped(sizes), (*dims, 1))

    def drop_last_axis(self) -> None:
        """Take away the last axis of the indices, which has size 1."""
        dims = self.dims(Role.INDICES)
        sizes = self._without_last(self._sizes(Role.INDICES))
        self._set_indices(self._reshaped(sizes), dims[:-1])

    def fold_batch_dims(self, _: OperatorVersion) -> None:
        """Put the coordinates of the batch axes before the index tuples."""
        *lead, depth = self.dims(Role.INDICES)
        count = self.batch_dims()
        target = self.add(
            "Concat",
            self._without_last(self._sizes(Role.INDICES)),
            self.constant([1]),
            axis=0,
        )
        # Counted by the sizes of data, so that other sizes of indices are refused here too.
        sizes = self._sizes(Role.DATA)
        columns = [self._coordinates(sizes, axis, len(lead) + 1, target) for axis in range(count)]
        joined = self.add("Concat", *columns, self.inputs[Role.INDICES], axis=-1)
        deeper = depth + count if isinstance(depth, int) else None
        self._set_indices(joined, (*lead, deeper))

    def spell_out_coordinates(self) -> None:
        """Make index tuples out of single indices: those along the axis, and their positions."""
        dims, along = self.dims(Role.INDICES), self.axis()
        sizes = self._sizes(Role.INDICES)
        target = self.add("Concat", sizes, self.constant([1]), axis=0)
        columns = [
            self._reshaped(target)
            if axis == along
            else self._coordinates(sizes, axis, len(dims) + 1, target)
            for axis in range(len(dims))
        ]
        joined = columns[0] if len(columns) == 1 else self.add("Concat", *columns, axis=-1)
        self._set_indices(joined, (*dims, len(dims)))

    def _coordinates(self, sizes: str, axis: int, rank: int, target: str) -> str:
        """Return the position along `axis` of every element of a tensor of the sizes `target`."""
        count = self.add("Gather", sizes, self.constant(axis), axis=0)
        steps = self.add("Range", self.constant(0), count, self.constant(1))
        line = [-1 if each == axis else 1 for each in range(rank)]
        return self.add("Expand", self.add("Reshape", steps, self.constant(line)), target)

    def _sizes(self, role: Role) -> str:
        return self.add("Shape", self.inputs[role])

    def _without_last(self, sizes: str) -> str:
        return self.add("Slice", sizes, self.constant([0]), self.constant([-1]))

    def _reshaped(self, sizes: str) -> str:
        return self.add("Reshape", self.inputs[Role.INDICES], sizes)

    def _set_indices(self, name: str, shape: Shape) -> None:
        self.inputs[Role.INDICES] = name
        self.types[Role.INDICES] = replace(
            self.types[Role.INDICES],
            dtype="int64",
            shape=shape,
        )
        self.made[name] = self.types[Role.INDICES]
        self.constants.pop(Role.INDICES, None)


def _gather_as_gather_nd(rewrite: Rewrite) -> None:
    if rewrite.axis() != 0:
        raise rewrite.refuse(rewrite.name, f"axis = {rewrite.axis()} is not the first one")
    rewrite.cast_indices()
    rewrite.append_axis()


def _gather_nd_as_gather(rewrite: Rewrite) -> None:
    if rewrite.batch_dims():
        raise rewrite.refuse(rewrite.name, f"batch_dims = {rewrite.batch_dims()} is not 0")
    _refuse_other_depths(rewrite)
    rewrite.drop_last_axis()


def _refuse_other_depths(rewrite: Rewrite) -> None:
    depth = rewrite.dims(Role.INDICES)[-1]
    if depth != 1:
        raise rewrite.refuse(
            rewrite.name, f"the length of the index tuples is {depth or 'not known'}, not 1"
        )


def _gather_elements_as_gather_nd(rewrite: Rewrite) -> None:
    rewrite.cast_indices()
    rewrite.spell_out_coordinates()


def _gather_nd_as_gather_elements(rewrite: Rewrite) -> None:
    _refuse_other_depths(rewrite)
    rank, count = len(rewrite.dims(Role.DATA)), rewrite.batch_dims()
    if count != rank - 1 or len(rewrite.dims(Role.INDICES)) != rank + 1:
        raise rewrite.refuse(
            rewrite.name,
            "only tuples along the last axis of data, with all axes before it as batch axes and "
            "one axis of positions, are indices of single elements",
        )
    rewrite.drop_last_axis()
    rewrite.attributes["axis"] = rank - 1


def _flat(rewrite: Rewrite) -> None:
    ranks = [len(rewrite.dims(role)) for role in (Role.DATA, Role.INDICES)]
    if ranks != [1, 1]:
        raise rewrite.refuse(
            rewrite.name, f"data and indices have ranks {ranks[0]} and {ranks[1]}, not 1"
        )


EQUIVALENCES: dict[tuple[str, str], Callable[[Rewrite], None]] = {
    ("Gather", "GatherND"): _gather_as_gather_nd,
    ("GatherND", "Gather"): _gather_nd_as_gather,
    ("GatherElements", "GatherND"): _gather_elements_as_gather_nd,
    ("GatherND", "GatherElements"): _gather_nd_as_gather_elements,
    ("Gather", "GatherElements"): _flat,
    ("GatherElements", "Gather"): _flat,
    ("ScatterElements", "ScatterND"): _gather_elements_as_gather_nd,
}
"""How a node becomes one of another operator, where that is exact."""

KEPT_ATTRIBUTES = {
    ("Gather", "GatherElements"): ("axis",),
    ("GatherElements", "Gather"): ("axis",),
    ("GatherND", "GatherElements"): ("axis",),
    ("ScatterElements", "ScatterND"): ("reduction",),
}
"""The attributes that the other operator has as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the result imports, and what its nodes shall be."""

    source: dict[str, int]
    opset: int
    domain: str | None
    operator: str | None
    strict: bool

    def version(self, domain: str) -> int:
        """Return the version of a domain that the result imports."""
        if domain == DEFAULT_DOMAIN:
            return self.opset
        newest = max(each.version for each in operators(domain=domain))
        return self.source.get(domain, newest)


@dataclass(slots=True, kw_only=True)
class OwnNodes:
    """Converts the gather and scatter nodes one after the other; `taken` are the names of values.

    `findings` are the nodes that were repaired, and those that stayed what they are.
    """

    plan: Plan
    taken: set[str]
    findings: list[Finding] = field(default_factory=list)

    def converted(self, judged: InferredNode) -> tuple[Rewrite, NodeProto]:
        """Return the rewrite of a node as it was carried out, and the node that it gives.

        Raises
        ------
        NdgatherError
            There is none; the text names the node and says why.
        """
        op_node = judged.op_node
        repaired = None if judged.refusal is None else self._repaired(judged)
        try:
            rewrite = self._changed(op_node, repaired or judged)
            if self.plan.domain is not None and operators(rewrite.name, self.plan.domain):
                rewrite.domain = self.plan.domain
            target = implementation(rewrite.name, rewrite.domain, self.plan.version(rewrite.domain))
            _fit(rewrite, target.row)
        except NdgatherError as error:
            raise op_node.named(error) from error
        node = NodeProto()
        node.CopyFrom(op_node.node)
        node.op_type = rewrite.name
        if node.domain != file_domain(rewrite.domain):
            node.domain = file_domain(rewrite.domain)
        node.input[:] = rewrite.inputs.values()
        if rewrite.attributes != op_node.attributes():
            del node.attribute[:]
            node.attribute.extend(
                helper.make_attribute(name, value) for name, value in rewrite.attributes.items()
            )
        return rewrite, node

    def _repaired(self, judged: InferredNode) -> InferredNode:
        """Take a node with an attribute of a later version for one of that version."""
        refusal, op_node = judged.refusal, judged.op_node
        assert refusal is not None
        domain = row_domain(op_node.node.domain)
        here = self.plan.source.get(domain, 1)
        if isinstance(refusal, AttributeValueError) and domain == DEFAULT_DOMAIN:
            for version in range(here + 1, self.plan.opset + 1):
                later = OpNode(
                    node=op_node.node, scope=replace(op_node.scope, opsets={domain: version})
                )
                try:
                    inference = later.infer()
                except NdgatherError:
                    continue
                row = later.operator().row
                self._find(op_node, op_node.operator().row, f"{refusal}; taken for {row}", "repair")
                return InferredNode(op_node=later, inference=inference)
        raise op_node.named(refusal)

    def _find(self, op_node: OpNode, row: OperatorVersion, what: str, rule: str) -> None:
        self.findings.append(
            Finding(
                where=op_node.where,
                operator=str(row),
                rule=rule,
                what=what,
                severity=Severity.PORTABLE,
            )
        )

    def _changed(self, op_node: OpNode, judged: InferredNode) -> Rewrite:
        """Return the rewrite of a node, as the operator that is wanted where it can be that."""
        rewrite = self._rewrite_of(judged)
        try:
            self._change_operator(rewrite)
        except NdgatherError as refusal:
            if self.plan.strict:
                raise
            self._find(op_node, rewrite.origin, f"stays: {refusal}", "operator")
            rewrite = self._rewrite_of(judged)
        return rewrite

    def _rewrite_of(self, judged: InferredNode) -> Rewrite:
        op_node, row = judged.op_node, judged.op_node.operator().row
        roles = [each.role for each in row.inputs]
        types = judged.inference.inputs if judged.inference else op_node.types()
        indices = op_node.constants().get(Role.INDICES.value)
        return Rewrite(
            origin=row,
            row=row,
            name=row.name,
            domain=row.domain,
            inputs=dict(zip(roles, op_node.node.input, strict=True)),
            types=dict(zip(roles, types, strict=True)),
            constants={} if indices is None else {Role.INDICES: indices},
            attributes=op_node.attributes(),
            taken=self.taken,
        )

    def _change_operator(self, rewrite: Rewrite) -> None:
        wanted = self.plan.operator
        if wanted is None or wanted == rewrite.name or not _same_side(rewrite.origin.kind, wanted):
            return
        change = (rewrite.name, wanted)
        rewrite.name = wanted
        rewrite.domain = DEFAULT_DOMAIN
        if change not in EQUIVALENCES:
            raise rewrite.refuse(wanted, "no exact form is known")
        EQUIVALENCES[change](rewrite)
        kept = KEPT_ATTRIBUTES.get(change, ())
        rewrite.attributes = {
            name: value for name, value in rewrite.attributes.items() if name in kept
        }


def _same_side(kind: Kind, name: str) -> bool:
    """Return whether operators of `name` scatter as those of `kind` do, or neither does."""
    return kind.scatters == any(each.row.kind.scatters for each in operators(name))


def _fit(rewrite: Rewrite, target: OperatorVersion) -> None:
    """Make a rewrite what the version `target` takes, and refuse what it may not give."""
    if rewrite.name != rewrite.row.name:
        rewrite.row = target  # whose words the attributes are once the operator has changed
    for found in fit(rewrite, target):
        if found.loses:
            raise rewrite.refuse(target, f"{found.source}, and there {found.target}")


@dataclass(slots=True, kw_only=True)
class Walk:
    """Converts graphs in place, node by node.

    `seen` are the same nodes in the model with its types, `judged` the gather and scatter nodes
    among them; `names` are those of sizes.
    """

    seen: Iterator[tuple[Scope, NodeProto]]
    judged: Iterator[InferredNode]
    own: OwnNodes
    others: OtherNodes
    opset: int
    names: set[str]

    @classmethod
    def over(
        cls, fixpoint: InferredModel, folder: str | None, own: OwnNodes, names: set[str]
    ) -> Walk:
        return cls(
            seen=nodes(fixpoint.model, folder),
            judged=iter(fixpoint.nodes),
            own=own,
            others=OtherNodes(opset=own.plan.opset, taken=own.taken),
            opset=own.plan.source.get(DEFAULT_DOMAIN, own.plan.opset),
            names=names,
        )

    def convert(self, graph: GraphProto) -> None:
        """Convert the nodes of a graph.

        Raises
        ------
        NdgatherError
            A node cannot be expressed; the text names it and says why.
        """
        converted: list[NodeProto] = []
        for node in graph.node:
            scope, typed = next(self.seen)
            if is_published(node):
                rewrite, rewritten = self.own.converted(next(self.judged))
                for name, known in rewrite.made.items():
                    made = graph.value_info.add(name=name)
                    made.type.CopyFrom(declaration(with_names(known, self.names)))
                converted += (*rewrite.before, rewritten)
                continue
            for inner in subgraphs(node):
                self.convert(inner)
            made = _results_of_graphs(scope, typed)
            values = Values(type_of=scope.type_of, constant=scope.constant, made=made)
            try:
                converted += self.others.converted(node, values, self.opset)
            except Exception as error:  # also of nodes that make no sense, which onnx has not seen
                raise OpNode(node=node, scope=scope).named(error) from error
        copies = [NodeProto.FromString(node.SerializeToString()) for node in converted]
        del graph.node[:]
        graph.node.extend(copies)


def _results_of_graphs(scope: Scope, node: NodeProto) -> dict[str, TensorType]:
    """Return the types of what a node gives that onnx does not know, and its graphs do."""
    found: dict[str, TensorType] = {}
    for graph in subgraphs(node):
        given = graph.output[1:] if node.op_type == "Loop" else graph.output
        for name, inner in zip(node.output, given, strict=False):
            dtype = tensor_type(inner.type).dtype
            if dtype is not None and scope.type_of(name).dtype is None:
                found[name] = TensorType(dtype, scope.type_of(name).shape)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A model that was converted, and what there is to know of it.

    Attributes
    ----------
    model : ModelProto
        The result.
    findings : tuple of Finding
        Nodes that were repaired, nodes that stayed what they were, and nodes for which a run may
        give other results than before.
    folder : str or None
        The folder of the file that it came from, where it may keep tensors in other files.
    """

    model: ModelProto
    findings: tuple[Finding, ...]
    folder: str | None = None


def convert(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
) -> ModelProto:
    """Return a model that gives the same bytes, in another version or with other operators.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. A model in memory is not
        changed.
    opset : int, optional
        The target opset: the version of ONNX that the result imports. Every node is brought
        there one version after the other; one that the target does not have is replaced by the
        function that ONNX defines it by, whose results may differ in their last bits.
    domain : str, optional
        The domain of the gather and scatter nodes, where that domain has their operators:
        ``"ai.onnx"`` or ``"com.microsoft"``.
    operator : str, optional
        The operator that gather nodes become: ``"GatherND"``, ``"GatherElements"`` or
        ``"Gather"``; ``"ScatterND"`` for ScatterElements nodes.

    Returns
    -------
    ModelProto
        Local functions are inlined.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node cannot be expressed exactly; the text names it and says why.

    See Also
    --------
    conversion : The same, with what there is to know of the result.

    Notes
    -----
    For all inputs that the model takes, the result is the same. Inputs that it refuses are
    refused as well, with one exception: where `batch_dims` had to be replaced, data with a
    batch axis of size 1 is repeated for indices with more.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> [node.op_type for node in onnx.convert(model, operator="Gather").graph.node][-1]
    'Gather'
    """
    return _conversion(model, "convert", opset, domain, operator, strict=True).model


def conversion(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
    strict: bool = False,
) -> Conversion:
    """Convert a model as `convert` does, and return what there is to know of the result too.

    Parameters
    ----------
    model, opset, domain, operator
        As in `convert`.
    strict : bool, default False
        Refuse the model if a node cannot become `operator`. Without it such a node stays what it
        is, and a finding says why.

    Returns
    -------
    Conversion
        Its `model`; its `findings` say which nodes stayed, and which were repaired: a node with
        an attribute that its version does not have yet, and a later one has, is taken for one of
        that version where `opset` allows it.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node cannot be expressed exactly; the text names it and says why.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 2] rows) => (float[M] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> onnx.conversion(model, operator="Gather").findings[0].what
    'stays: ai.onnx GatherND-13 cannot become Gather: the length of the index tuples is 2, not 1'
    """
    instance("conversion", "strict", strict, bool, "a choice")
    return _conversion(model, "conversion", opset, domain, operator, strict=strict)


def _conversion(
    model: Source,
    caller: str,
    opset: int | None,
    domain: str | None,
    operator: str | None,
    *,
    strict: bool,
) -> Conversion:
    given, folder = open_model(model, caller)
    _check_targets(caller, opset, domain, operator)
    proto = with_one_version(from_oldest(with_one_name(given), opset))
    plan = _plan(proto, opset, domain, operator, strict=strict)
    fixpoint = infer_types(proto, folder)
    for function in fixpoint.model.functions:
        raise conversion_errors.function_stays(function.domain, function.name)
    result = without_functions(proto)
    taken = _value_names(result)
    own = OwnNodes(plan=plan, taken=taken)
    Walk.over(fixpoint, folder, own, size_names(result.graph)).convert(result.graph)
    _import_domains(result, plan)
    _refuse_invalid(given, result)
    return Conversion(model=result, findings=tuple(own.findings), folder=folder)


def _check_targets(
    caller: str, opset: int | None, domain: str | None, operator: str | None
) -> None:
    if opset is not None:
        instance(caller, "opset", opset, int, "a version")
    for name, value in ("domain", domain), ("operator", operator):
        if value is not None:
            instance(caller, name, value, str, "a name")
    if domain is not None and row_domain(domain) not in DOMAINS:
        raise conversion_errors.unknown_target("domain", domain, DOMAINS)
    targets = sorted({target for _, target in EQUIVALENCES})
    if operator is not None and operator not in targets:
        raise conversion_errors.unknown_target("operator", operator, targets)
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not 1 <= opset <= newest:
        raise conversion_errors.unknown_target("opset", opset, (f"1..{newest}",))


def _plan(
    model: ModelProto, opset: int | None, domain: str | None, operator: str | None, *, strict: bool
) -> Plan:
    source = opsets(model.opset_import)
    newest = onnx.defs.onnx_opset_version()
    return Plan(
        source=source,
        opset=opset or source.get(DEFAULT_DOMAIN, newest),
        domain=None if domain is None else row_domain(domain),
        operator=operator,
        strict=strict,
    )


def _value_names(model: ModelProto) -> set[str]:
    graph = model.graph
    names = {each.name for each in (*graph.input, *graph.initializer)}
    for node in graph.node:
        for inner in nodes_within(node):
            names.update(inner.output)
            for each in subgraphs(inner):
                names.update(item.name for item in (*each.input, *each.initializer))
    return names


def _import_domains(model: ModelProto, plan: Plan) -> None:
    """Import the domains of all nodes, and those of rows only where there is a node."""
    used = {row_domain(inner.domain) for node in model.graph.node for inner in nodes_within(node)}
    imports = {
        domain: version
        for domain, version in plan.source.items()
        if domain in used or domain not in DOMAINS
    }
    for domain in (DEFAULT_DOMAIN, *DOMAINS):
        if domain in used or domain == DEFAULT_DOMAIN:
            imports[domain] = plan.version(domain)
    del model.opset_import[:]
    for domain, version in imports.items():
        model.opset_import.add(domain=file_domain(domain), version=version)
    needed = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
    if plan.opset > plan.source.get(DEFAULT_DOMAIN, 0):
        model.ir_version = max(model.ir_version, needed)


def _refuse_invalid(model: ModelProto, result: ModelProto) -> None:
    """Refuse a result that onnx finds wrong, where it found nothing wrong before."""
    if inferable(model) is not model:
        return  # it is too large for onnx
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError):
        return  # also where tensors stand in files that are not looked for
    try:
        onnx.checker.check_model(result)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise conversion_errors.invalid_result(error) from error
